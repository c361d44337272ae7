//! Plays steps on the server and on the model in parallel.

use std::time::Duration;

use scomp::limits::Limits;
use scomp::server::settings::SessionSettings;
use serde_json::{Value, json};

use crate::client::{Client, Owed};
use crate::expected::Expected;
use crate::support::{Running, Wire};

/// How long the server may take to notice what it cannot be asked about.
const NOTICE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Sessions of one life; a further one would only dilute the others.
const SESSIONS_MAX: usize = 4;

/// Which token a returning client shows.
#[derive(Debug, Clone, Copy)]
pub enum Ticket {
    Current,
    Previous,
    /// One that was good once.
    Void,
    Wrong,
}

#[derive(Debug, Clone)]
pub enum Step {
    Fresh(usize),
    Resume { slot: usize, session: usize, ticket: Ticket },
    Eval { slot: usize, value: i32 },
    EvalUnheard { slot: usize, value: i32 },
    Keyed { slot: usize, key: u8, heard: bool },
    Invoke { slot: usize, value: i32 },
    Hold(usize),
    Release(usize),
    Hang(usize),
    Cancel { slot: usize, queued: bool },
    Drop(usize),
    Close(usize),
}

pub struct Simulation {
    running: Running,
    slots: Vec<Option<Client>>,
    sessions: Vec<Expected>,
}

/// Counts its runs; every other key takes a moment, so that connections go while it runs.
fn counting(key: u8) -> Value {
    let wait = if key.is_multiple_of(2) { "" } else { "await new Promise(r => setTimeout(r, 2)); " };
    json!({"code": format!("{wait}globalThis.n = (globalThis.n ?? 0) + 1"), "key": format!("k{key}")})
}

impl Simulation {
    pub async fn new(shards: usize, slots: usize) -> Self {
        let running = Running::on_shards(shards, Limits::default(), SessionSettings::default()).await;
        Self { running, slots: (0..slots).map(|_| None).collect(), sessions: Vec::new() }
    }

    pub async fn play(&mut self, step: Step) {
        match step {
            Step::Fresh(slot) => self.fresh(slot).await,
            Step::Resume { slot, session, ticket } => self.come_back(slot, session, ticket).await,
            Step::Drop(slot) => self.leave(slot).await,
            Step::Eval { slot, .. }
            | Step::EvalUnheard { slot, .. }
            | Step::Keyed { slot, .. }
            | Step::Invoke { slot, .. }
            | Step::Hold(slot)
            | Step::Release(slot)
            | Step::Hang(slot)
            | Step::Cancel { slot, .. }
            | Step::Close(slot) => {
                let Some(client) = self.slots[slot].take() else { return };
                self.slots[slot] = self.with_client(client, step).await;
            }
        }
    }

    /// Plays a step of a live connection; returns the connection unless the step ended it.
    async fn with_client(&mut self, mut client: Client, step: Step) -> Option<Client> {
        let session = &mut self.sessions[client.session];
        if let Step::Invoke { value, .. } = step {
            session.heard(false);
            assert_eq!(client.invoke("echo", json!(value)).await, json!(value));
            return Some(client);
        }
        // From here on the session is known to have run something: a loss cannot leave that open.
        wake(&mut client, session).await;
        match step {
            Step::Eval { value, .. } => {
                client
                    .request("eval", json!({"code": format!("({value})")}), Owed::Value(json!(value)))
                    .await;
            }
            Step::EvalUnheard { value, .. } => {
                client.send("eval", json!({"code": format!("({value})")}), Owed::Value(json!(value))).await;
            }
            Step::Keyed { key, heard, .. } => {
                session.keys.entry(key).or_default();
                let id = client.send("eval", counting(key), Owed::Keyed(key)).await;
                if heard {
                    client.answer(id).await;
                }
            }
            Step::Hold(_) => hold(&mut client, session).await,
            Step::Release(_) => release(&mut client, session).await,
            Step::Hang(_) => hang(&mut client, session).await,
            Step::Cancel { queued, .. } => cancel(&mut client, session, queued).await,
            Step::Close(_) => {
                client.answer_all().await;
                client.invoke("session.close", json!({})).await;
                session.left();
                session.is_over = true;
                record_outcomes(session, client.closed_with(1000).await);
                return None;
            }
            Step::Fresh(_) | Step::Resume { .. } | Step::Invoke { .. } | Step::Drop(_) => {}
        }
        record_outcomes(session, client.outcomes.drain(..));
        Some(client)
    }

    async fn fresh(&mut self, slot: usize) {
        self.leave(slot).await;
        if self.sessions.len() == SESSIONS_MAX {
            return;
        }
        let (wire, welcome) = Wire::live_with(&self.running.url, json!({})).await;
        let token = welcome["metadata"]["session"]["token"].clone();
        self.sessions.push(Expected::new(welcome["sessionId"].clone(), token, slot));
        self.slots[slot] = Some(Client::new(wire, self.sessions.len() - 1));
    }

    async fn come_back(&mut self, slot: usize, session: usize, ticket: Ticket) {
        let Some(number) = session.checked_rem(self.sessions.len()) else { return };
        self.leave(slot).await;
        let session = &mut self.sessions[number];
        let token = match ticket {
            Ticket::Current => Some(&session.current),
            Ticket::Previous => session.previous.as_ref(),
            Ticket::Void => session.void.as_ref(),
            Ticket::Wrong => None,
        };
        let token = token.cloned().unwrap_or_else(|| json!("never given"));
        let mut wire = Wire::open(&self.running.url).await;
        let resume = json!({"protocol": "0.1", "session": {"id": session.id, "token": token}});
        let answer = wire.request("handshake", resume).await;
        if !session.accepts(&token) {
            assert_eq!(
                answer["error"]["data"]["kind"],
                json!("SessionRefused"),
                "{session:?} let in: {answer}"
            );
            assert_eq!(wire.failure("1").await.0, "NotReady");
            return;
        }
        let welcome = &answer["result"]["metadata"]["session"];
        assert_eq!(welcome["resumed"], json!(true), "{session:?} refused: {answer}");
        let before = session.holder;
        session.resumed(&token, welcome["token"].clone(), slot);
        if let Some(taken) = before.and_then(|before| self.slots[before].take()) {
            let outcomes = taken.closed_with(4001).await;
            record_outcomes(&mut self.sessions[number], outcomes);
        }
        self.slots[slot] = Some(Client::new(wire, number));
    }

    /// The connection is lost. Whether a session that ran nothing is gone by then shows in the directory alone.
    async fn leave(&mut self, slot: usize) {
        let Some(client) = self.slots[slot].take() else { return };
        let session = &mut self.sessions[client.session];
        drop(client);
        session.left();
        if session.is_over {
            let id = session.id.clone();
            self.eventually("the session ends", |ids| !ids.contains(&id)).await;
        }
    }

    /// Waits for the list of sessions to be as it should.
    async fn eventually(&self, what: &str, is_so: impl Fn(&[Value]) -> bool) {
        let mut every = tokio::time::interval(Duration::from_millis(2));
        let noticed = tokio::time::timeout(NOTICE_WAIT_MAX, async {
            loop {
                let listed = self.running.server.sessions(usize::MAX).await;
                let ids: Vec<Value> = listed.into_iter().map(|listed| json!(listed.id)).collect();
                if is_so(&ids) {
                    return;
                }
                every.tick().await;
            }
        });
        noticed.await.unwrap_or_else(|_| panic!("{what}: not in {NOTICE_WAIT_MAX:?}"));
    }

    /// Comes back to every session, asks for every key again, counts, and closes it: nothing may be left.
    pub async fn settle_everything(&mut self) {
        for slot in 0..self.slots.len() {
            self.leave(slot).await;
        }
        for number in 0..self.sessions.len() {
            if self.sessions[number].is_over {
                continue;
            }
            self.come_back(0, number, Ticket::Current).await;
            let mut client = self.slots[0].take().unwrap();
            let session = &mut self.sessions[number];
            wake(&mut client, session).await;
            for key in session.keys.keys() {
                client.send("eval", counting(*key), Owed::Keyed(*key)).await;
            }
            client.answer_all().await;
            record_outcomes(session, client.outcomes.drain(..));
            let ran = Owed::Value(json!(session.keys.len()));
            client.request("eval", json!({"code": "globalThis.n ?? 0"}), ran).await;
            let info = client.invoke("session.info", json!({})).await;
            for count in ["evalsQueued", "callsInFlight", "functionsHeld", "functionsImported"] {
                assert_eq!(info[count], json!(0), "{count} in {info}");
            }
            self.slots[0] = self.with_client(client, Step::Close(0)).await;
        }
        self.eventually("all sessions end", <[Value]>::is_empty).await;
        self.running.server.stop(Duration::ZERO).await;
    }
}

fn record_outcomes(session: &mut Expected, outcomes: impl IntoIterator<Item = (u8, u64)>) {
    for (key, outcome) in outcomes {
        session.keyed_outcome(key, outcome);
    }
}

/// Frees the session of what hangs in it and lets it run something.
async fn wake(client: &mut Client, session: &mut Expected) {
    session.heard(true);
    if std::mem::take(&mut session.is_hung) {
        client.invoke("session.cancel", json!({})).await;
    }
    client.request("eval", json!({"code": "'awake'"}), Owed::Value(json!("awake"))).await;
}

/// Gets a function of the script and calls it.
async fn hold(client: &mut Client, session: &mut Expected) {
    let answer = client.request("eval", json!({"code": "() => 7"}), Owed::Anything).await;
    let reference = answer.pointer("/result/value/$fn").unwrap_or_else(|| panic!("{answer}")).clone();
    client.request("invoke", json!({"ref": reference, "args": []}), Owed::Value(json!(7))).await;
    session.held.push(reference);
    check_held(client, session).await;
}

async fn release(client: &mut Client, session: &mut Expected) {
    if let Some(reference) = session.held.pop() {
        client.notify("release_ref", json!({"ref": reference})).await;
    }
    check_held(client, session).await;
}

async fn check_held(client: &mut Client, session: &Expected) {
    let info = client.invoke("session.info", json!({})).await;
    assert_eq!(info["functionsHeld"], json!(session.held.len()), "{info}");
}

/// Leaves an eval behind that waits for ever.
async fn hang(client: &mut Client, session: &mut Expected) {
    client.send("eval", json!({"code": "await forever({})"}), Owed::Cancelled).await;
    while client.invoke("session.info", json!({})).await["running"] != json!(true) {}
    session.is_hung = true;
}

/// Cancels one of two evals, then the other.
async fn cancel(client: &mut Client, session: &mut Expected, queued: bool) {
    hang(client, session).await;
    session.is_hung = false;
    let behind = if queued { Owed::Cancelled } else { Owed::Value(json!("behind")) };
    let behind = client.send("eval", json!({"code": "'behind'"}), behind).await;
    if queued {
        let ended = client.invoke("session.cancel", json!({"evalId": behind})).await;
        assert_eq!(ended, json!([behind]));
    }
    let ended = client.invoke("session.cancel", json!({})).await;
    assert_eq!(ended.as_array().map(Vec::len), Some(1), "{ended}");
    client.answer_all().await;
}
