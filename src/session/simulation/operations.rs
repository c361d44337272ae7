//! The operations of the model script: what each letter asks of the machine, as the driver would.

use std::time::Duration;

use serde_json::{Value, json};

use super::World;
use super::context::Rooted;
use super::script::Progress;
use crate::protocol::fn_ref::FnRef;
use crate::protocol::methods::Payload;
use crate::rpc::Kind;
use crate::session::boundary::HandlerTarget;
use crate::session::tables::{ConsoleLine, Rejection, ScriptCall};
use crate::session::{Callable, PendingTarget, RefHolder, Stop};

impl World {
    /// One operation; `None` to go on with the next.
    pub(super) fn operate(&mut self, task: u64, operation: char) -> Option<Progress> {
        match operation {
            'c' | 'C' => self.call_client(task, "tool", json!(1), operation == 'c'),
            'w' => self.call_client(task, "slow", json!(1), true),
            'n' => self.call_client(task, "count", json!(7), true),
            'm' => self.call_client(task, "missing", json!(1), true),
            'i' => self.call_import(task),
            's' | 'S' => self.call_server(task, Vec::new(), operation == 's'),
            'q' => self.call_server_within_turn(),
            'h' => self.pass_function_to_handler(task),
            'f' => self.export_to_result(task),
            't' | 'T' => self.set_timer(task, operation == 't'),
            'p' => self.print(),
            'D' => self.leave_behind("tcp"),
            'L' => self.leave_behind("l"),
            'g' => self.drop_imports(),
            'r' => self.reject(),
            'x' => Some(Progress::Over(Err(Kind::EvalError))),
            'd' => Some(Progress::Waits),
            'y' => Some(Progress::Stopped(Stop::Memory)),
            'z' => Some(Progress::Suspended),
            'l' => self.run_on(task),
            other => unreachable!("no operation {other}"),
        }
    }

    fn leave_behind(&mut self, operations: &str) -> Option<Progress> {
        let task = self.context.detach(operations);
        self.context.jobs.push_back(task);
        None
    }

    /// A promise is rejected that nothing handles.
    fn reject(&mut self) -> Option<Progress> {
        let (promise, reason) = (self.context.root(Rooted::Promise), self.context.root(Rooted::Promise));
        self.session.state.rejections.push(Rejection { promise, reason });
        None
    }

    /// Runs until it is stopped.
    fn run_on(&mut self, task: u64) -> Option<Progress> {
        self.turn_mut().cpu += Duration::from_millis(1);
        self.context.tasks.get_mut(&task)?.operations.push_front('l');
        Some(Progress::Suspended)
    }

    fn print(&mut self) -> Option<Progress> {
        self.context.printed += 1;
        let (level, text) = ("log".to_owned(), self.context.printed.to_string());
        self.session.state.console.push(ConsoleLine { level, text, at_ms: 0, late: false });
        None
    }

    fn set_timer(&mut self, task: u64, is_awaited: bool) -> Option<Progress> {
        let at = self.now + Duration::from_millis(self.rng.u64(..300));
        let timer = self.context.timer(is_awaited.then_some(task));
        let charged_to = self.turn_mut().charged_to;
        if !self.session.state.timers.set(timer, at, charged_to) {
            self.context.timers.remove(&timer);
            return None;
        }
        is_awaited.then_some(Progress::Waits)
    }

    /// Opens a call; `None` when the script has made too many.
    fn open_call(&mut self, waiting: Option<u64>) -> Option<u64> {
        self.session.check_call_depth().ok()?;
        let call = self.session.open_script_call(8).ok()?;
        let (resolve, reject) =
            (self.context.root(Rooted::Call(call)), self.context.root(Rooted::Call(call)));
        self.context.calls.insert(call, waiting);
        let opened = ScriptCall { resolve, reject, stack: String::new(), payload_bytes: 8, claimed_bytes: 8 };
        self.session.state.script_calls.wait(call, opened);
        Some(call)
    }

    fn call_client(&mut self, task: u64, name: &str, input: Value, is_awaited: bool) -> Option<Progress> {
        let call = self.open_call(is_awaited.then_some(task))?;
        self.session.call_client_later(call, PendingTarget::Binding(name.to_owned(), Payload::Input(input)));
        is_awaited.then_some(Progress::Waits)
    }

    fn call_import(&mut self, task: u64) -> Option<Progress> {
        let function = self.context.imports.first()?.clone();
        let call = self.open_call(Some(task))?;
        match function {
            FnRef::Handler(number) => self.call_handler(call, HandlerTarget::Function(number), Vec::new()),
            function => self
                .session
                .call_client_later(call, PendingTarget::Function(function, Payload::Args(Vec::new()))),
        }
        Some(Progress::Waits)
    }

    fn call_server(&mut self, task: u64, functions: Vec<FnRef>, is_awaited: bool) -> Option<Progress> {
        let call = self.open_call(is_awaited.then_some(task))?;
        self.call_handler(call, HandlerTarget::Binding(0), functions);
        is_awaited.then_some(Progress::Waits)
    }

    fn call_handler(&mut self, call: u64, target: HandlerTarget, functions: Vec<FnRef>) {
        let made = self.session.make_handler_call(call, target, json!([]), functions);
        self.session.await_handler(made.number, call);
        self.host.begin(made);
    }

    /// A handler that is ready answers inside the turn.
    fn call_server_within_turn(&mut self) -> Option<Progress> {
        let call = self.open_call(None)?;
        let made = self.session.make_handler_call(call, HandlerTarget::Binding(1), json!(1), Vec::new());
        self.host.note_number(made.number);
        let ScriptCall { resolve, reject, .. } = self.session.state.script_calls.take(call)?;
        [resolve, reject].into_iter().for_each(|end| self.context.free(end));
        None
    }

    fn export(&mut self, holder: RefHolder) -> Option<u64> {
        let identity = self.context.function();
        let callable = Callable::Script(identity);
        let number = self.session.state.references.export(holder, &callable).ok()?;
        assert_eq!(self.session.state.references.root_of(&callable), None, "a new function has no root");
        let root = self.context.root(Rooted::Function(identity));
        self.session.state.references.set_root(&callable, root);
        Some(number)
    }

    fn pass_function_to_handler(&mut self, task: u64) -> Option<Progress> {
        let functions = self.export(RefHolder::Handler).map(FnRef::Script).into_iter().collect();
        self.call_server(task, functions, true)
    }

    fn export_to_result(&mut self, task: u64) -> Option<Progress> {
        let known = self.context.tasks.get(&task)?;
        let (charged_to, holder) = known.settles?;
        if known.is_awaited && !self.is_awaited(charged_to) {
            return None;
        }
        if known.operations.iter().any(|operation| *operation != 'f') {
            // Functions of the result are exported when it is encoded, at the end.
            self.context.tasks.get_mut(&task)?.operations.push_back('f');
            return None;
        }
        let number = self.export(holder)?;
        self.context.tasks.get_mut(&task)?.exported.push(number);
        None
    }

    /// The garbage collector finds the functions of the outside that the script dropped.
    fn drop_imports(&mut self) -> Option<Progress> {
        for function in std::mem::take(&mut self.context.imports) {
            self.session.drop_import(function);
        }
        None
    }
}
