//! Handlers at work for a script, and the functions that pass between the script and others.

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::super::guest::{CallAnswer, CallValue, Callable, ChargedTo, RefHolder, ValueSource};
use super::dispatch::Pending;
use super::turn::Action;
use super::{Inbox, Ready, Session};
use crate::budget::Charge;
use crate::protocol::boundary::SessionEvent;
use crate::protocol::fn_ref::FnRef;
use crate::rpc::ErrorObject;

/// A handler at work for a script.
pub(crate) struct ServerCall {
    owner: ChargedTo,
    cancel: CancellationToken,
}

impl ServerCall {
    /// For whom it works.
    pub(crate) fn owner(&self) -> ChargedTo {
        self.owner
    }

    /// Tells the handler that nobody waits.
    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }
}

impl Session {
    /// Starts what the script asked for since the last look.
    pub(crate) async fn start_pending(&mut self) {
        let pending = self.dispatcher.pending.take();
        for pending in pending {
            match pending {
                Pending::Server { call, owner, work, cancel } => {
                    self.server_calls.insert(call, ServerCall { owner, cancel });
                    let inbox_tx = self.inbox_tx.clone();
                    let deliver = async move {
                        let outcome = work.await;
                        // A session that is gone does not want to know.
                        let _ = inbox_tx.send(Inbox::CallDone(call, outcome)).await;
                    };
                    tokio::task::spawn_local(deliver.instrument(span_of(owner)));
                }
                Pending::Client { request, depth } => self.call_client_for_script(request, depth).await,
            }
        }
    }

    /// Gives the answer to a call to the script, in the next turn of its owner; the client is charged until then.
    pub(crate) fn settle_soon(&mut self, call: u64, owner: ChargedTo, answer: CallAnswer, charge: Charge) {
        let owner = self.current_owner(owner);
        let depth = self.depth_of(owner);
        // Answers that came together are settled in one turn.
        if let Some(Ready { owner: last, action: Action::Settle(answers), .. }) = self.ready.back_mut()
            && *last == owner
        {
            answers.push((call, answer, charge));
            return;
        }
        self.ready.push_back(Ready { owner, depth, action: Action::Settle(vec![(call, answer, charge)]) });
    }

    /// A handler that worked for a script is done.
    pub(crate) fn finish_server_call(&mut self, call: u64, outcome: Result<Value, ErrorObject>) {
        if let Some(ServerCall { owner, .. }) = self.server_calls.remove(&call) {
            let answer = (outcome.map(CallValue::Tree), ValueSource::Handler);
            self.settle_soon(call, owner, answer, Charge::none());
        }
    }

    /// Cancels the handlers that work for an eval or invocation; the numbers of the script's calls.
    pub(crate) fn cancel_server_calls_of(&mut self, owner: ChargedTo) -> Vec<u64> {
        let calls = self.server_calls.extract_if(|_, call| call.owner == owner);
        calls.map(|(number, call)| (call.cancel(), number).1).collect()
    }

    /// Passes on what was let go: functions that handlers no longer hold, functions that the script dropped.
    pub(crate) async fn take_releases(&mut self) {
        let mut forgotten = Vec::new();
        for id in self.dispatcher.link.dropped_refs.take() {
            if let Some(number) = id.script_number() {
                forgotten.extend(self.engine.guest.functions.borrow_mut().release(
                    RefHolder::Handler,
                    number,
                    1,
                ));
            } else if let Some(reference) = self.own_reference(&id) {
                self.emit(SessionEvent::Release { reference, count: 1 }).await;
            }
        }
        self.forget(forgotten);
        let dropped = self.engine.guest.dropped.take();
        for (key, count) in dropped {
            if let FnRef::Handler(number) = key {
                self.dispatcher.host_functions.remove(number);
            } else if let Some(reference) = self.own_reference(&key) {
                self.emit(SessionEvent::Release { reference, count }).await;
            }
        }
    }

    /// Lets functions of the script go, when its stack is empty.
    pub(crate) fn forget(&mut self, functions: Vec<Callable>) {
        for callable in &functions {
            if let Callable::Handler(number) = callable {
                self.dispatcher.host_functions.remove(*number);
            }
        }
        if !functions.is_empty() {
            self.ready.push_back(Ready {
                owner: ChargedTo::Background,
                depth: 0,
                action: Action::Forget(functions),
            });
        }
    }
}

/// What a handler logs is logged for the session, and for the eval that it works for.
fn span_of(owner: ChargedTo) -> Span {
    match owner {
        ChargedTo::Eval(number) => tracing::info_span!("eval", number),
        ChargedTo::Invocation(_) | ChargedTo::Background => Span::current(),
    }
}
