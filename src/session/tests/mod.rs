//! Flows through the machine, each as inputs and the lines that come out. The fixture plays host, clock and script.

mod attach;
mod bindings;
mod calls;
mod charges;
mod control;
mod evals;
mod functions;
mod handlers;
mod keys;
mod memory;
mod quota;
pub(super) mod support;

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::boundary::{Admission, FromSession, HandlerTarget, InvokeTarget, ToSession};
use super::tables::{ConsoleLine, ScriptCall};
use super::*;
use crate::limits::Limits;
use crate::protocol::client_messages::FromClient;
use crate::protocol::fn_ref::FnRef;
use crate::protocol::methods::{EvalParams, Payload, RawPayload, Target};
use crate::rpc::{Id, Kind};
use support::{catalog, line, turn_line};

/// The server's bindings: number 0 and 1.
const SERVER: &[&str] = &["echo", "kv.get"];

/// The client's bindings.
const CLIENT: &[&str] = &["tool", "slow:5000", "count#", "approve"];

/// A session and what plays its host, its clock and its script.
struct Fixture {
    session: Session,
    now: Time,
    sent: Vec<FromSession>,
    /// Everything that was asked of the driver beside sending.
    asked: Vec<Effect>,
    last_charge: u64,
    last_root: u32,
}

impl Fixture {
    fn new() -> Self {
        Self::with_limits(|_| {})
    }

    fn with_limits(change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        let catalog = catalog(1, SERVER);
        let state = SessionState::new("id".into(), "alice".into(), catalog, &limits, Time::default());
        let session = Session::new(state, Arc::new(limits));
        let (sent, asked) = (Vec::new(), Vec::new());
        Self { session, now: Time::default(), sent, asked, last_charge: 0, last_root: 0 }
    }

    /// With connection 1 attached and the script's bindings set.
    fn attached() -> Self {
        Self::attached_with(|_| {})
    }

    fn attached_with(change: impl FnOnce(&mut Limits)) -> Self {
        let mut fixture = Self::with_limits(change);
        fixture.attach(1, CLIENT);
        assert_eq!(fixture.lines(), ["attached 1 0"]);
        fixture
    }

    fn apply(&mut self, input: Input) {
        self.session.apply(input, self.now);
        self.collect();
    }

    fn collect(&mut self) {
        for effect in self.session.take_effects() {
            match effect {
                Effect::Send(message) => self.sent.push(message),
                effect => self.asked.push(effect),
            }
        }
    }

    /// What was sent since the last look, without CPU times.
    fn messages(&mut self) -> Vec<FromSession> {
        let sent = std::mem::take(&mut self.sent);
        sent.into_iter().filter(|message| !matches!(message, FromSession::Used { .. })).collect()
    }

    /// The same as lines, without what is only counted.
    fn lines(&mut self) -> Vec<String> {
        let sent = self.messages();
        let shown = sent.iter().filter(|message| {
            !matches!(message, FromSession::Observed(_) | FromSession::Discharge { is_open: false, .. })
        });
        shown.map(line).collect()
    }

    fn send(&mut self, message: ToSession) {
        self.apply(Input::Message(message));
    }

    fn attach(&mut self, connection: u64, bindings: &[&str]) {
        let (bindings, listed) = (catalog(0, bindings), catalog(1, SERVER));
        self.send(ToSession::Attach { connection, bindings, listed, schema_bytes: 0 });
        self.run_bindings_turn();
    }

    fn run_bindings_turn(&mut self) {
        if self.session.state.in_turn.is_none() {
            assert_eq!(self.begin(), "Background: bindings");
            self.end();
        }
    }

    /// A command of a client, with the next charge.
    fn command_with(&mut self, connection: u64, command: FromClient, admission: Admission) -> u64 {
        self.last_charge += 1;
        let charge = self.last_charge;
        self.send(ToSession::Client { connection, command, charge, admission });
        charge
    }

    fn command(&mut self, connection: u64, command: FromClient) -> u64 {
        self.command_with(connection, command, Admission::default())
    }

    fn eval(&mut self, connection: u64, id: u64, code: &str) -> u64 {
        self.eval_with(connection, id, EvalParams { code: code.into(), ..EvalParams::default() })
    }

    fn eval_with(&mut self, connection: u64, id: u64, params: EvalParams) -> u64 {
        self.command(connection, FromClient::Eval { request: Id::from(id), params })
    }

    fn keyed_eval(&mut self, connection: u64, id: u64, code: &str, key: &str) -> u64 {
        let params = EvalParams { code: code.into(), key: Some(key.into()), ..EvalParams::default() };
        self.eval_with(connection, id, params)
    }

    fn invoke(&mut self, connection: u64, id: u64, name: &str, input: Value) -> u64 {
        let target = Target::Binding(name.to_owned());
        let payload = RawPayload::Input(raw(&input));
        self.command(connection, FromClient::Invoke { request: Id::from(id), target, payload })
    }

    fn invoke_function(&mut self, connection: u64, id: u64, reference: &str) -> u64 {
        let target = Target::Reference(reference.to_owned());
        let payload = RawPayload::Args(raw(&json!([])));
        self.command(connection, FromClient::Invoke { request: Id::from(id), target, payload })
    }

    fn answer(&mut self, connection: u64, call: u64, value: Value) -> u64 {
        self.command(connection, FromClient::Answer { call, outcome: Ok(raw(&value)) })
    }

    /// Begins the next turn; says which.
    fn begin(&mut self) -> String {
        let begun = self.session.next_turn(self.now);
        self.collect();
        begun.map_or("nothing".to_owned(), |begin| turn_line(&begin))
    }

    fn end_with(&mut self, report: TurnReport) {
        self.apply(Input::TurnEnded(report));
    }

    /// Ends the turn; nothing is settled.
    fn end(&mut self) {
        let recovered = matches!(self.session.state.recovery, state::Recovery::Freeing(_));
        self.end_with(TurnReport { recovered: recovered.then_some(true), ..TurnReport::default() });
    }

    fn end_stopped(&mut self, reason: Stop) {
        self.end_with(TurnReport { stopped: Some(reason), ..TurnReport::default() });
    }

    fn end_settled(&mut self, outcome: Result<Value, Kind>, exported: Vec<u64>) {
        let charged_to = self.session.state.in_turn.unwrap();
        let outcome = match outcome {
            Ok(value) => Ok(Encoded::Text(raw(&value))),
            Err(kind) => Err(ErrorObject::new(kind, "as the test says")),
        };
        let settled = vec![Settled { charged_to, outcome, exported }];
        self.end_with(TurnReport { settled, ..TurnReport::default() });
    }

    /// Ends the turn with the value of the eval or invocation that it ran for.
    fn end_ok(&mut self, value: Value) {
        self.end_settled(Ok(value), Vec::new());
    }

    /// Runs the next eval to its end.
    fn run_eval(&mut self, value: Value) {
        let begun = self.begin();
        assert!(begun.contains(": eval "), "{begun}");
        self.end_ok(value);
    }

    /// Begins the next eval and leaves it waiting, with its calls made.
    fn begin_eval_with_calls(&mut self, names: &[&str]) -> Vec<u64> {
        let begun = self.begin();
        assert!(begun.contains(": eval "), "{begun}");
        let calls = names.iter().map(|name| self.call_client(name, json!(1))).collect();
        self.end();
        calls
    }

    /// The root of a new value of the context.
    fn root(&mut self) -> RootId {
        self.last_root += 1;
        RootId(self.last_root)
    }

    /// The script makes a call, which waits for its answer.
    fn script_call(&mut self) -> u64 {
        let charged_to = self.session.state.in_turn.unwrap();
        let call = self.session.state.script_calls.open(charged_to, 1_000).unwrap();
        let (resolve, reject) = (self.root(), self.root());
        let waiting =
            ScriptCall { resolve, reject, stack: String::new(), payload_bytes: 8, claimed_bytes: 0 };
        self.session.state.script_calls.wait(call, waiting);
        call
    }

    /// The script calls a binding of the client.
    fn call_client(&mut self, name: &str, input: Value) -> u64 {
        let call = self.script_call();
        let charged_to = self.session.state.in_turn.unwrap();
        let target = PendingTarget::Binding(name.to_owned(), Payload::Input(input));
        let depth = self.session.state.depth + 1;
        self.session.state.pending.push(PendingCall { call, charged_to, target, depth });
        call
    }

    /// The script calls the server binding of that number; returns the handler's number.
    fn call_server(&mut self, binding: u32) -> u64 {
        let call = self.script_call();
        let target = HandlerTarget::Binding(binding);
        let number = self.session.make_handler_call(call, target, json!(1), Vec::new()).number;
        self.session.await_handler(number, call);
        number
    }

    fn print(&mut self, text: &str) {
        let line = ConsoleLine { level: "log".into(), text: text.into(), at_ms: 0, late: false };
        self.session.state.console.push(line);
    }

    /// The script passes a function out; returns its number.
    fn export(&mut self, holder: RefHolder, identity: u64) -> u64 {
        let callable = Callable::Script(identity);
        let number = self.session.state.references.export(holder, &callable).unwrap();
        if self.session.state.references.root_of(&callable).is_none() {
            let root = self.root();
            self.session.state.references.set_root(&callable, root);
        }
        number
    }

    /// A handler invokes something.
    fn handler_invoke(&mut self, request: u64, target: InvokeTarget, script_call: Option<u64>) {
        let payload = Payload::Input(json!(2));
        self.send(ToSession::HandlerInvoke { request, target, payload, depth: 1, script_call });
    }

    /// Time passes, and what is due is done unless JavaScript is on the stack.
    fn wait(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        let input = if self.session.state.in_turn.is_some() { Input::Resuming } else { Input::Tick };
        self.apply(input);
    }

    /// The stops that were asked for since the last look.
    fn stops(&mut self) -> Vec<Stop> {
        let asked = std::mem::take(&mut self.asked);
        let stop = |effect| match effect {
            Effect::StopTurn(stop) => Some(stop),
            Effect::Send(_) | Effect::FreeRoots(_) | Effect::ReplaceContext => None,
            Effect::TakeCheckpoint { .. } | Effect::Rewind { .. } | Effect::DropCheckpoints(_) => None,
            Effect::Fork { .. } => None,
        };
        asked.into_iter().filter_map(stop).collect()
    }

    /// The roots that were freed since the last look, in order of their numbers.
    fn freed(&mut self) -> Vec<u32> {
        let mut freed = Vec::new();
        for effect in std::mem::take(&mut self.asked) {
            match effect {
                Effect::FreeRoots(roots) => freed.extend(roots.iter().map(|root| root.0)),
                Effect::Send(_) | Effect::StopTurn(_) | Effect::ReplaceContext => {}
                Effect::TakeCheckpoint { .. } | Effect::Rewind { .. } | Effect::DropCheckpoints(_) => {}
                Effect::Fork { .. } => {}
            }
        }
        freed.sort_unstable();
        freed
    }

    /// Replaces the context if that was asked for; says how often it was.
    fn replace_context(&mut self, is_replaced: bool) -> usize {
        let asked = self.asked.iter().filter(|effect| matches!(effect, Effect::ReplaceContext)).count();
        if asked > 0 {
            self.asked.clear();
            self.apply(Input::ContextReplaced(is_replaced));
        }
        asked
    }
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}
