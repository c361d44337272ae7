//! A fresh context in the same session: what the client asks for with `session.reset`, and what is left to do when the
//! memory limit was hit and nothing can be freed.
//!
//! Both need an empty JavaScript stack. Everything that may wait is done while the old context still stands; then, with
//! nothing awaited in between, what belongs to the old context is dropped and the new one takes its place.

use std::cell::Cell;
use std::rc::Rc;

use super::super::context_pool::ContextPurpose;
use super::super::engine::Settled;
use super::super::guest::{Callable, Holder, Owner};
use super::super::meter::Stop;
use super::super::source;
use super::evals::Running;
use super::turn::Action;
use super::{Ready, Session};
use crate::protocol::boundary::{Closing, SessionEvent};
use crate::rpc::{ErrorObject, Kind};

impl Session {
    /// Starts over for the client, now or as soon as the JavaScript stack is empty. What the client sends after this is
    /// for the new context, so the queue and the keys are emptied here and not when the context is replaced.
    pub(crate) async fn reset(&mut self) {
        let error = ErrorObject::new(Kind::Cancelled, "the session was reset");
        self.drop_queued(|_| true, &error).await;
        if let Some(running) = &mut self.evals.running {
            running.params.key = None;
        }
        let held = self.keys.clear();
        self.forget(held);
        if self.in_turn.is_some() {
            self.reset_requested = true;
            self.engine.guest.meter.request_stop(Stop::Cancelled);
        } else {
            self.reset_now().await;
        }
    }

    /// Starts over. Only with an empty JavaScript stack.
    pub(crate) async fn reset_now(&mut self) {
        self.reset_requested = false;
        // First, so that the client hears that it need not answer.
        self.abandon_script_calls().await;
        let error = ErrorObject::new(Kind::Cancelled, "the session was reset");
        self.cancel_work(Stop::Cancelled, &error).await;
        self.replace_engine().await;
    }

    /// Makes room after the memory limit, with a fresh context if there is no other way.
    pub(crate) async fn recover(&mut self, running: &Running, error: ErrorObject) -> ErrorObject {
        let declared = source::declared_names(&running.source.code);
        let is_lost = Rc::new(Cell::new(false));
        let action = Action::Recover { declared, is_lost: Rc::clone(&is_lost) };
        let ready = Ready { owner: Owner::Nobody, depth: 0, action };
        let was_relieving = std::mem::replace(&mut self.relieving, true);
        Box::pin(self.perform(ready, None)).await;
        self.relieving = was_relieving;
        if !is_lost.get() {
            return error;
        }
        let lost = ErrorObject::new(Kind::MemoryLimit, "the session ran out of memory and started over")
            .with("sessionLost", true);
        let invocations: Vec<u64> = self.invocations.keys().copied().collect();
        for number in invocations {
            let owner = Owner::Invocation(number);
            self.abandon_calls_of(owner).await;
            let settled = Settled { owner, outcome: Err(lost.clone()), handed: Vec::new() };
            self.finish_invocation(number, settled).await;
        }
        let old = Rc::clone(&self.engine.guest);
        if !self.replace_engine().await {
            return error;
        }
        // What the eval printed belongs to its answer.
        old.console.swap(&self.engine.guest.console);
        error.with("sessionLost", true)
    }

    /// A turn has left more than the server's memory for sessions allows: what can be freed is freed, and if that is not
    /// enough the session starts over. Without this each turn of each session could take a little more.
    pub(crate) async fn relieve(&mut self) {
        self.relieving = true;
        let is_lost = Rc::new(Cell::new(false));
        let action = Action::Recover { declared: Vec::new(), is_lost: Rc::clone(&is_lost) };
        Box::pin(self.perform(Ready { owner: Owner::Nobody, depth: 0, action }, None)).await;
        if is_lost.get() {
            self.cancel_everything(Stop::Memory).await;
            self.replace_engine().await;
        }
        self.relieving = false;
    }

    /// Puts a fresh context in the place of the present one; `false` when there is no room even for that.
    async fn replace_engine(&mut self) -> bool {
        let Ok(engine) = self.dispatcher.make_engine(ContextPurpose::Replacement) else {
            self.end(Closing::Fault);
            return false;
        };
        self.abandon_script_calls().await;
        self.release_imports().await;
        // Nothing is awaited from here on: a connection that ends meanwhile would queue functions of the old context.
        self.drop_context_values();
        let (old, new) = (&self.engine.guest, &engine.guest);
        new.functions.borrow_mut().go_on_from(&old.functions.borrow());
        new.calls.borrow_mut().go_on_from(&old.calls.borrow());
        self.engine = Rc::new(engine);
        if let Some(residence) = &self.residence {
            residence.replace_poll_counter(&self.engine.poll_counter);
        }
        self.introduce_client();
        true
    }

    /// The functions of the client that the script held, and those it dropped since the last look.
    async fn release_imports(&mut self) {
        let imports = self.engine.guest.imports.take();
        let dropped = self.engine.guest.dropped.take();
        for (key, count) in imports.into_iter().chain(dropped) {
            if let Some(number) = key.strip_prefix("native:").and_then(|number| number.parse().ok()) {
                self.dispatcher.host_functions.remove(number);
            } else if let Some(reference) = self.own_reference(&key) {
                self.emit(SessionEvent::Release { reference, count }).await;
            }
        }
    }

    /// Drops everything outside the engine that belongs to its context.
    fn drop_context_values(&mut self) {
        self.watches.take();
        self.ready.clear();
        self.deferred.clear();
        self.keys.drop_functions();
        drop(self.dispatcher.pending.take());
        let mut functions = self.engine.guest.functions.borrow_mut();
        for holder in [Holder::Client, Holder::Host] {
            for callable in functions.take_all_of(holder) {
                if let Callable::Native(number) = callable {
                    self.dispatcher.host_functions.remove(number);
                }
            }
        }
    }
}
