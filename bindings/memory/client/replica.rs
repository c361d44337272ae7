//! One session with a server: what it asks, what is under way, and what it was told.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::super::auth::bytes_data;
use super::super::codec::{Data, Dialect, object};
use super::ask::{Ask, ClientError, Reply};
use super::watching::Watching;
use super::{Manner, Signer};

/// How long a refused commit waits for what it missed. The server sends that within half a second; one that never
/// does must not hold the script up.
const CATCH_UP_MAX: Duration = Duration::from_secs(2);

/// A request to be sent.
pub(super) struct Send {
    pub(super) purpose: Purpose,
    pub(super) kind: &'static str,
    pub(super) body: Data,
}

/// What an answer is for.
#[derive(Debug)]
pub(super) enum Purpose {
    Open,
    Transact { local_seq: u64 },
    Query { reply_tx: Reply },
    Watch,
    Ack,
}

impl Purpose {
    /// Whether nobody waits for the answer.
    pub(super) fn is_abandoned(&self) -> bool {
        match self {
            Self::Query { reply_tx } => reply_tx.is_closed(),
            Self::Open | Self::Transact { .. } | Self::Watch | Self::Ack => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Closed,
    Opening,
    Open,
}

/// A commit whose outcome is not known.
#[derive(Debug)]
struct Outstanding {
    commit: Data,
    reply_tx: Reply,
    is_sent: bool,
}

/// A refused commit whose caller is told once it can try again.
#[derive(Debug)]
struct Refused {
    local_seq: u64,
    until: Instant,
    error: ClientError,
    reply_tx: Reply,
}

/// A session.
#[derive(Debug)]
pub(super) struct Replica {
    signer: Signer,
    phase: Phase,
    session_id: Option<String>,
    token: Option<String>,
    seen_seq: u64,
    acked_seq: u64,
    next_local_seq: u64,
    caught_up: u64,
    outstanding: BTreeMap<u64, Outstanding>,
    refused: Vec<Refused>,
    queries: Vec<(Data, Reply)>,
    opens: Vec<Reply>,
    opened: Option<Data>,
    watching: Option<Watching>,
    /// Whether the server has to be told what is watched.
    is_watch_due: bool,
    is_over: bool,
}

impl Replica {
    pub(super) fn new(signer: Signer) -> Self {
        Self {
            signer,
            phase: Phase::Closed,
            session_id: None,
            token: None,
            seen_seq: 0,
            acked_seq: 0,
            next_local_seq: 0,
            caught_up: 0,
            outstanding: BTreeMap::new(),
            refused: Vec::new(),
            queries: Vec::new(),
            opens: Vec::new(),
            opened: None,
            watching: None,
            is_watch_due: false,
            is_over: false,
        }
    }

    pub(super) fn is_session(&self, session_id: &str) -> bool {
        self.session_id.as_deref() == Some(session_id)
    }

    /// Whether it has to be open without being asked for anything new.
    pub(super) fn is_needed(&self) -> bool {
        let is_watching = self.watching.as_ref().is_some_and(|watching| !watching.is_abandoned());
        is_watching || !self.outstanding.is_empty()
    }

    /// Whether it was refused, so that nothing will ever come of it.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether anything is under way.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_needed()
            && self.phase != Phase::Opening
            && self.queries.is_empty()
            && self.refused.is_empty()
    }

    /// Takes something to do.
    pub(super) fn take(&mut self, ask: Ask) {
        match ask {
            Ask::Open { reply_tx, .. } => match (&self.opened, self.phase) {
                (Some(opened), Phase::Open) => {
                    let _ = reply_tx.send(Ok(opened.clone()));
                }
                (_, Phase::Closed | Phase::Opening | Phase::Open) => self.opens.push(reply_tx),
            },
            Ask::Query { query, reply_tx, .. } => self.queries.push((query, reply_tx)),
            Ask::Transact { commit, reply_tx, .. } => {
                self.next_local_seq += 1;
                let mut commit = commit;
                if let Data::Map(members) = &mut commit {
                    members.insert("localSeq".to_owned(), self.next_local_seq.into());
                }
                self.outstanding
                    .insert(self.next_local_seq, Outstanding { commit, reply_tx, is_sent: false });
            }
            Ask::Watch { watches, mailbox, reply_tx, .. } => {
                self.watching = Some(Watching::new(watches, mailbox, reply_tx));
                self.is_watch_due = true;
            }
            Ask::Unwatch { .. } => {
                self.watching = None;
                // A session that the server does not know needs no word of farewell.
                self.is_watch_due = self.phase != Phase::Closed;
            }
        }
    }

    /// Whether it has to be opened now, and is being opened from now on.
    pub(super) fn begin_opening(&mut self) -> bool {
        let has_work = self.is_needed() || !self.queries.is_empty() || !self.opens.is_empty();
        if self.phase != Phase::Closed || !has_work {
            return false;
        }
        self.phase = Phase::Opening;
        true
    }

    /// The body of the opening, signed.
    pub(super) fn opening(
        &self,
        manner: &Manner,
        space: &str,
        metadata: Option<(&str, &str)>,
        now_seconds: u64,
    ) -> Data {
        let mut session = BTreeMap::new();
        if let Some(session_id) = &self.session_id {
            session.insert("sessionId".to_owned(), session_id.as_str().into());
            session.insert("seenSeq".to_owned(), self.seen_seq.into());
        }
        if let Some(token) = &self.token {
            session.insert("sessionToken".to_owned(), token.as_str().into());
        }
        let session = Data::Map(session);
        let (invocation, signature) =
            self.signer.sign_open(&manner.protocol, space, &session, metadata, now_seconds);
        let signature = match manner.dialect {
            Dialect::Tagged => bytes_data(&signature),
            // Servers of this dialect know no tag for bytes.
            Dialect::Plain => Data::List(signature.iter().map(|byte| u64::from(*byte).into()).collect()),
        };
        let authorization = object([("signature", signature)]);
        object([("session", session), ("invocation", invocation), ("authorization", authorization)])
    }

    /// What there is to be sent in an open session, in order.
    pub(super) fn take_sends(&mut self) -> Vec<Send> {
        let (Phase::Open, Some(session_id)) = (self.phase, self.session_id.clone()) else {
            return Vec::new();
        };
        let mut sends = Vec::new();
        let mut send = |purpose: Purpose, kind: &'static str, key: &str, value: Data| {
            sends.push(Send {
                purpose,
                kind,
                body: object([("sessionId", session_id.as_str().into()), (key, value)]),
            });
        };
        if std::mem::take(&mut self.is_watch_due) {
            let watches =
                self.watching.as_ref().map_or(Data::List(Vec::new()), |watching| watching.watches.clone());
            send(Purpose::Watch, "session.watch.set", "watches", watches);
        }
        for (local_seq, outstanding) in
            self.outstanding.iter_mut().filter(|(_, outstanding)| !outstanding.is_sent)
        {
            outstanding.is_sent = true;
            send(
                Purpose::Transact { local_seq: *local_seq },
                "transact",
                "commit",
                outstanding.commit.clone(),
            );
        }
        for (query, reply_tx) in std::mem::take(&mut self.queries) {
            send(Purpose::Query { reply_tx }, "graph.query", "query", query);
        }
        if self.acked_seq < self.seen_seq {
            self.acked_seq = self.seen_seq;
            send(Purpose::Ack, "session.ack", "seenSeq", self.seen_seq.into());
        }
        sends
    }

    /// An answer came in.
    pub(super) fn answered(&mut self, purpose: Purpose, result: Result<Data, ClientError>, now: Instant) {
        match purpose {
            Purpose::Open => self.on_opened(result),
            Purpose::Transact { local_seq } => self.on_verdict(local_seq, result, now),
            Purpose::Query { reply_tx } => {
                let _ = reply_tx.send(result);
            }
            Purpose::Watch => self.on_watching(result),
            Purpose::Ack => {}
        }
    }

    fn on_opened(&mut self, result: Result<Data, ClientError>) {
        match result {
            Ok(opened) => self.begin(opened),
            Err(error) if error.name == "SessionRevokedError" && self.session_id.is_some() => {
                // Whether the server took what was under way cannot be found out in another session.
                self.fail_commits(&ClientError::connection("the session was lost; the outcome is unknown"));
                self.reset();
            }
            Err(error) if error.is_retriable() => self.phase = Phase::Closed,
            Err(error) => {
                self.phase = Phase::Closed;
                self.fail(&error);
                self.is_over = true;
            }
        }
    }

    fn begin(&mut self, opened: Data) {
        self.phase = Phase::Open;
        let text = |key: &str| opened.get(key).and_then(Data::as_str).map(str::to_owned);
        (self.session_id, self.token) = (text("sessionId"), text("sessionToken"));
        let is_resumed = opened.get("resumed").and_then(Data::as_bool).unwrap_or(false);
        if is_resumed {
            if let Some(sync) = opened.get("sync") {
                self.integrate(sync);
            }
        } else {
            self.is_watch_due |= self.watching.is_some();
            // The mark that refused commits wait for went with the old session; what it announced comes anew.
            self.caught_up = 0;
            self.release(|_, _| true);
        }
        // The opening said what was seen.
        self.acked_seq = self.seen_seq;
        self.note_caught_up(&opened);
        self.opens.drain(..).for_each(|reply_tx| {
            let _ = reply_tx.send(Ok(opened.clone()));
        });
        self.opened = Some(opened);
    }

    fn on_verdict(&mut self, local_seq: u64, result: Result<Data, ClientError>, now: Instant) {
        match result {
            Err(error) if error.name == "SessionError" => {
                // The server forgot the session: it is opened again, and what is under way is sent again.
                self.phase = Phase::Closed;
                self.outstanding.values_mut().for_each(|outstanding| outstanding.is_sent = false);
            }
            Err(error)
                if error.name == "ConflictError"
                    && error.retry_after_seq.is_some()
                    && self.caught_up < local_seq =>
            {
                if let Some(Outstanding { reply_tx, .. }) = self.outstanding.remove(&local_seq) {
                    self.refused.push(Refused { local_seq, until: now + CATCH_UP_MAX, error, reply_tx });
                }
            }
            verdict => {
                if let Some(Outstanding { reply_tx, .. }) = self.outstanding.remove(&local_seq) {
                    let _ = reply_tx.send(verdict);
                }
            }
        }
    }

    fn on_watching(&mut self, result: Result<Data, ClientError>) {
        let Some(watching) = &mut self.watching else { return };
        match (result, watching.first_tx.take()) {
            (Ok(ok), Some(first_tx)) => {
                let sync = ok.get("sync").cloned().unwrap_or(Data::Null);
                watching.note(&sync);
                self.seen(&sync);
                let _ = first_tx.send(Ok(sync));
            }
            (Ok(ok), None) => {
                if let Some(sync) = ok.get("sync") {
                    watching.forget_missing(sync);
                    self.integrate(sync);
                }
            }
            (Err(error), first_tx) => {
                tracing::warn!(%error, "a watch was refused");
                if let Some(first_tx) = first_tx {
                    let _ = first_tx.send(Err(error));
                }
                self.watching = None;
            }
        }
    }

    /// Takes in what the server says has changed, and passes on what is new to the script.
    pub(super) fn integrate(&mut self, sync: &Data) {
        if let Some(watching) = &mut self.watching {
            watching.tell(sync);
        }
        self.seen(sync);
        self.note_caught_up(sync);
    }

    fn seen(&mut self, sync: &Data) {
        self.seen_seq = self.seen_seq.max(sync.get("toSeq").and_then(Data::as_u64).unwrap_or(0));
    }

    fn note_caught_up(&mut self, data: &Data) {
        let local_seq = data.get("caughtUpLocalSeq").and_then(Data::as_u64).unwrap_or(0);
        self.caught_up = self.caught_up.max(local_seq);
        self.release(|refused, caught_up| refused.local_seq <= caught_up);
    }

    fn release(&mut self, is_due: impl Fn(&Refused, u64) -> bool) {
        let (due, waiting): (Vec<_>, Vec<_>) =
            self.refused.drain(..).partition(|refused| is_due(refused, self.caught_up));
        self.refused = waiting;
        for Refused { reply_tx, error, .. } in due {
            let _ = reply_tx.send(Err(error));
        }
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.refused.iter().map(|refused| refused.until).min()
    }

    pub(super) fn wake(&mut self, now: Instant) {
        self.release(|refused, _| refused.until <= now);
    }

    /// Another connection took the session: commits of it are not ours any more, and watches go on in a new one.
    pub(super) fn revoked(&mut self) {
        self.fail_commits(&ClientError::new("SessionRevokedError", "the session was taken over"));
        self.reset();
    }

    fn reset(&mut self) {
        self.phase = Phase::Closed;
        self.session_id = None;
        self.token = None;
        self.next_local_seq = 0;
        self.caught_up = 0;
    }

    /// The connection is gone. Commits and watches wait for the next one.
    pub(super) fn disconnected(&mut self) {
        self.phase = Phase::Closed;
        self.outstanding.retain(|_, outstanding| !outstanding.reply_tx.is_closed() || outstanding.is_sent);
        self.outstanding.values_mut().for_each(|outstanding| outstanding.is_sent = false);
        let gone = ClientError::connection("the connection to the memory server was lost");
        self.fail_questions(&gone);
    }

    fn fail(&mut self, error: &ClientError) {
        self.fail_commits(error);
        self.fail_questions(error);
        if let Some(first_tx) = self.watching.take().and_then(|watching| watching.first_tx) {
            let _ = first_tx.send(Err(error.clone()));
        }
    }

    fn fail_commits(&mut self, error: &ClientError) {
        let outstanding = std::mem::take(&mut self.outstanding).into_values();
        let refused = std::mem::take(&mut self.refused).into_iter();
        for reply_tx in
            outstanding.map(|commit| commit.reply_tx).chain(refused.map(|refused| refused.reply_tx))
        {
            let _ = reply_tx.send(Err(error.clone()));
        }
    }

    fn fail_questions(&mut self, error: &ClientError) {
        let queries = std::mem::take(&mut self.queries).into_iter().map(|(_, reply_tx)| reply_tx);
        for reply_tx in queries.chain(std::mem::take(&mut self.opens)) {
            let _ = reply_tx.send(Err(error.clone()));
        }
    }
}
