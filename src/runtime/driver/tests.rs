//! What a driver reports on its own account.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::mpsc;

use super::super::port::Port;
use super::super::total::MemoryTotal;
use super::{Driver, DriverParts};
use crate::catalog::Catalog;
use crate::limits::Limits;
use crate::protocol::boundary::{Closing, SessionCommand};
use crate::protocol::methods::EvalParams;
use crate::quota::{Account, Quotas};
use crate::rpc::{ErrorObject, Id};
use crate::session::boundary::{Admission, FromSession, HandlerCall, Observation, ToSession};
use crate::session::{SessionState, Time};

/// A report that is missing fails a test rather than holding it up.
const SENT_WITHIN_MAX: Duration = Duration::from_secs(20);

/// A host that keeps what it is sent.
struct Recorder(mpsc::UnboundedSender<FromSession>);

impl Port for Recorder {
    fn send(&self, message: FromSession) -> Option<ToSession> {
        let _ = self.0.send(message);
        None
    }

    fn call(&self, _: HandlerCall) -> Option<Result<Value, ErrorObject>> {
        None
    }

    fn is_closed(&self) -> bool {
        false
    }
}

fn eval(id: u64, code: &str) -> ToSession {
    let params = EvalParams { code: code.into(), ..EvalParams::default() };
    let command = SessionCommand::Eval { request: Id::from(id), params };
    ToSession::Client { connection: 1, command, charge: 0, admission: Admission::default() }
}

/// The next levels that are reported, as references and evals that wait; `None` at the end of the session.
async fn next_levels(sent_rx: &mut mpsc::UnboundedReceiver<FromSession>) -> Option<(usize, usize)> {
    loop {
        let sent = tokio::time::timeout(SENT_WITHIN_MAX, sent_rx.recv()).await;
        match sent.expect("nothing is sent any more")? {
            FromSession::Observed(Observation::Levels { references, evals_queued }) => {
                return Some((references, evals_queued));
            }
            FromSession::Ended { .. } => return None,
            _ => {}
        }
    }
}

fn driver(inbox: (mpsc::WeakSender<ToSession>, mpsc::Receiver<ToSession>), port: Rc<dyn Port>) -> Driver {
    let limits = Arc::new(Limits::default());
    let state = SessionState::new("id".into(), "alice".into(), Arc::default(), &limits, Time::default());
    let memory = MemoryTotal::new(usize::MAX);
    let account = Arc::new(Account::new(Quotas::default(), Instant::now()));
    Driver::new(DriverParts { state, limits, memory, account, shard: None, port, inbox }).unwrap()
}

#[tokio::test]
async fn levels_are_reported_when_they_change() {
    let (sent_tx, mut sent_rx) = mpsc::unbounded_channel();
    let (inbox_tx, inbox_rx) = mpsc::channel(16);
    let driver = driver((inbox_tx.downgrade(), inbox_rx), Rc::new(Recorder(sent_tx)));
    let script = async {
        let bindings: Arc<Catalog> = Arc::default();
        let listed = Arc::clone(&bindings);
        let attach = ToSession::Attach { connection: 1, bindings, listed, schema_bytes: 0 };
        let messages =
            [attach, eval(1, "(() => 1)"), eval(2, "await new Promise(r => setTimeout(r, 60_000))")];
        for message in messages {
            inbox_tx.send(message).await.unwrap();
        }
        assert_eq!(next_levels(&mut sent_rx).await, Some((1, 0)), "a function was returned");
        inbox_tx.send(eval(3, "3")).await.unwrap();
        assert_eq!(next_levels(&mut sent_rx).await, Some((1, 1)), "an eval waits");
        inbox_tx.send(ToSession::Inspect { request: 1 }).await.unwrap();
        inbox_tx.send(ToSession::Detach { connection: 1 }).await.unwrap();
        assert_eq!(next_levels(&mut sent_rx).await, Some((0, 1)), "nothing changed in between");
        inbox_tx.send(ToSession::End(Closing::GoingAway)).await.unwrap();
        assert_eq!(next_levels(&mut sent_rx).await, None);
    };
    tokio::join!(driver.run(), script);
}

#[tokio::test]
async fn levels_are_reported_while_a_script_runs() {
    let (sent_tx, mut sent_rx) = mpsc::unbounded_channel();
    let (inbox_tx, inbox_rx) = mpsc::channel(16);
    let driver = driver((inbox_tx.downgrade(), inbox_rx), Rc::new(Recorder(sent_tx)));
    let script = async {
        let bindings: Arc<Catalog> = Arc::default();
        let listed = Arc::clone(&bindings);
        let attach = ToSession::Attach { connection: 1, bindings, listed, schema_bytes: 0 };
        for message in [attach, eval(1, "for (;;) {}"), eval(2, "2")] {
            inbox_tx.send(message).await.unwrap();
        }
        assert_eq!(next_levels(&mut sent_rx).await, Some((0, 1)));
        inbox_tx.send(ToSession::End(Closing::GoingAway)).await.unwrap();
        assert_eq!(next_levels(&mut sent_rx).await, None);
    };
    tokio::join!(driver.run(), script);
}
