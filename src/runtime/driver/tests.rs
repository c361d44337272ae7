//! What a driver reports on its own account.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::mpsc;

use super::super::hibernation::Hibernation;
use super::super::port::Port;
use super::super::total::MemoryTotal;
use super::{Driver, DriverParts, SessionStart};
use crate::catalog::Catalog;
use crate::limits::Limits;
use crate::protocol::client_messages::{Closing, FromClient};
use crate::protocol::methods::EvalParams;
use crate::quota::{Account, Quotas};
use crate::rpc::{ErrorObject, Id};
use crate::session::boundary::{Admission, FromSession, HandlerCall, Observation, ToSession};
use crate::session::{SessionState, Time};

/// A report that is missing fails a test rather than holding it up.
const SENT_WITHIN_MAX: Duration = Duration::from_secs(20);

/// A host that keeps what it is sent.
struct Recorder(mpsc::Sender<FromSession>);

impl Port for Recorder {
    fn send(&self, message: FromSession) -> Option<ToSession> {
        let _ = self.0.try_send(message);
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
    let command = FromClient::Eval { request: Id::from(id), params };
    ToSession::Client { connection: 1, command, charge: 0, admission: Admission::default() }
}

/// What a driver sent, and the levels that it reported last.
struct Sent {
    rx: mpsc::Receiver<FromSession>,
    levels: (usize, usize),
}

impl Sent {
    /// The next levels that are reported, as references and evals that wait; `None` at the end of the session.
    async fn next_levels(&mut self) -> Option<(usize, usize)> {
        loop {
            let sent = tokio::time::timeout(SENT_WITHIN_MAX, self.rx.recv()).await;
            match sent.expect("nothing is sent any more")? {
                FromSession::Observed(Observation::Levels { references, evals_queued }) => {
                    let before = std::mem::replace(&mut self.levels, (references, evals_queued));
                    assert_ne!(before, self.levels, "reported without a change");
                    return Some(self.levels);
                }
                FromSession::Ended { .. } => return None,
                _ => {}
            }
        }
    }

    /// Waits for these levels. A slow machine takes several slices for a turn, and reports others in between.
    async fn reach(&mut self, expected: (usize, usize)) {
        while self.next_levels().await.expect("the session has not ended") != expected {}
    }
}

fn driver(inbox: (mpsc::WeakSender<ToSession>, mpsc::Receiver<ToSession>), port: Rc<dyn Port>) -> Driver {
    let limits = Arc::new(Limits::default());
    let state = SessionState::new("id".into(), "alice".into(), Arc::default(), &limits, Time::default());
    let memory = MemoryTotal::new(usize::MAX);
    let account = Arc::new(Account::new(Quotas::default(), Instant::now()));
    let hibernation = Hibernation::default();
    let (start, store) = (SessionStart::Fresh(Box::new(state)), None);
    let parts = DriverParts { start, limits, memory, hibernation, store, account, shard: None, port, inbox };
    Driver::new(parts).unwrap()
}

/// Runs a session of connection 1, and `play` as its host; then ends the session.
async fn run(play: impl AsyncFnOnce(&mpsc::Sender<ToSession>, &mut Sent)) {
    let (sent_tx, rx) = mpsc::channel(1024);
    let (inbox_tx, inbox_rx) = mpsc::channel(16);
    let driver = driver((inbox_tx.downgrade(), inbox_rx), Rc::new(Recorder(sent_tx)));
    let host = async {
        let mut sent = Sent { rx, levels: (0, 0) };
        let bindings: Arc<Catalog> = Arc::default();
        let listed = Arc::clone(&bindings);
        let attach = ToSession::Attach { connection: 1, bindings, listed, schema_bytes: 0 };
        inbox_tx.send(attach).await.unwrap();
        play(&inbox_tx, &mut sent).await;
        inbox_tx.send(ToSession::End(Closing::GoingAway)).await.unwrap();
        while sent.next_levels().await.is_some() {}
    };
    tokio::join!(driver.run(), host);
}

#[tokio::test]
async fn levels_are_reported_when_they_change() {
    run(async |inbox_tx, sent| {
        inbox_tx.send(eval(1, "(() => 1)")).await.unwrap();
        sent.reach((1, 0)).await;
        inbox_tx.send(eval(2, "await new Promise(r => setTimeout(r, 60_000))")).await.unwrap();
        inbox_tx.send(eval(3, "3")).await.unwrap();
        sent.reach((1, 1)).await;
        inbox_tx.send(ToSession::Inspect { request: 1 }).await.unwrap();
        inbox_tx.send(ToSession::Detach { connection: 1 }).await.unwrap();
        sent.reach((0, 1)).await;
    })
    .await;
}

#[tokio::test]
async fn levels_are_reported_while_a_script_runs() {
    run(async |inbox_tx, sent| {
        inbox_tx.send(eval(1, "for (;;) {}")).await.unwrap();
        inbox_tx.send(eval(2, "2")).await.unwrap();
        sent.reach((0, 1)).await;
    })
    .await;
}
