//! One session with a server: its requests, its commits and its watch.

use std::collections::BTreeMap;
use std::time::Instant;

use super::super::auth::encode_bytes;
use super::super::codec::{Data, Dialect, object};
use super::commits::Commits;
use super::request::{ClientError, Reply, Request};
use super::watch::WatchState;
use super::{ClientOptions, Signer};

/// A request that is ready to be sent.
pub(super) struct OutgoingRequest {
    pub(super) pending: PendingRequest,
    pub(super) kind: &'static str,
    pub(super) body: Data,
}

/// A request that was sent and has no response yet.
#[derive(Debug)]
pub(super) enum PendingRequest {
    Open,
    Transact { local_seq: u64 },
    Query { reply_tx: Reply },
    Watch,
    Ack,
}

impl PendingRequest {
    /// Whether the caller stopped waiting for the response.
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

#[derive(Debug)]
pub(super) struct ClientSession {
    signer: Signer,
    phase: Phase,
    session_id: Option<String>,
    token: Option<String>,
    seen_seq: u64,
    acked_seq: u64,
    commits: Commits,
    queries: Vec<(Data, Reply)>,
    open_replies: Vec<Reply>,
    /// The server's response to the last `session.open`.
    open_response: Option<Data>,
    watch: Option<WatchState>,
    /// Whether `session.watch.set` has to be sent.
    is_watch_due: bool,
    is_rejected: bool,
}

impl ClientSession {
    pub(super) fn new(signer: Signer) -> Self {
        Self {
            signer,
            phase: Phase::Closed,
            session_id: None,
            token: None,
            seen_seq: 0,
            acked_seq: 0,
            commits: Commits::default(),
            queries: Vec::new(),
            open_replies: Vec::new(),
            open_response: None,
            watch: None,
            is_watch_due: false,
            is_rejected: false,
        }
    }

    pub(super) fn has_id(&self, session_id: &str) -> bool {
        self.session_id.as_deref() == Some(session_id)
    }

    /// Whether a watch or a commit requires the session to be open, without any new request.
    pub(super) fn is_needed(&self) -> bool {
        let is_watching = self.watch.as_ref().is_some_and(|watch| !watch.is_abandoned());
        is_watching || self.commits.has_pending()
    }

    /// Whether the server rejected `session.open` for good.
    pub(super) fn is_rejected(&self) -> bool {
        self.is_rejected
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.is_needed()
            && self.phase != Phase::Opening
            && self.queries.is_empty()
            && !self.commits.has_conflicts()
    }

    pub(super) fn add_request(&mut self, request: Request) {
        match request {
            Request::Open { reply_tx, .. } => match (&self.open_response, self.phase) {
                (Some(response), Phase::Open) => {
                    let _ = reply_tx.send(Ok(response.clone()));
                }
                (_, Phase::Closed | Phase::Opening | Phase::Open) => self.open_replies.push(reply_tx),
            },
            Request::Query { query, reply_tx, .. } => self.queries.push((query, reply_tx)),
            Request::Transact { commit, reply_tx, .. } => self.commits.add(commit, reply_tx),
            Request::Watch { watches, syncs, reply_tx, .. } => {
                self.watch = Some(WatchState::new(watches, syncs, reply_tx));
                self.is_watch_due = true;
            }
            Request::Unwatch { .. } => {
                self.watch = None;
                // A closed session has no watches on the server.
                self.is_watch_due = self.phase != Phase::Closed;
            }
        }
    }

    /// Moves a closed session that has work to `Opening`; returns whether it did.
    pub(super) fn start_opening(&mut self) -> bool {
        let has_work = self.is_needed() || !self.queries.is_empty() || !self.open_replies.is_empty();
        if self.phase != Phase::Closed || !has_work {
            return false;
        }
        self.phase = Phase::Opening;
        true
    }

    /// The signed body of `session.open`.
    pub(super) fn build_open_body(
        &self,
        options: &ClientOptions,
        space: &str,
        audience_and_challenge: Option<(&str, &str)>,
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
            self.signer.sign_open(&options.protocol, space, &session, audience_and_challenge, now_seconds);
        let signature = match options.dialect {
            Dialect::Tagged => encode_bytes(&signature),
            // Servers of this dialect do not know the tag for bytes.
            Dialect::Plain => Data::List(signature.iter().map(|byte| u64::from(*byte).into()).collect()),
        };
        let authorization = object([("signature", signature)]);
        object([("session", session), ("invocation", invocation), ("authorization", authorization)])
    }

    /// The requests that an open session has to send, in order.
    pub(super) fn take_requests(&mut self) -> Vec<OutgoingRequest> {
        let (Phase::Open, Some(session_id)) = (self.phase, self.session_id.clone()) else {
            return Vec::new();
        };
        let mut requests = Vec::new();
        let mut add = |pending: PendingRequest, kind: &'static str, key: &str, value: Data| {
            let body = object([("sessionId", session_id.as_str().into()), (key, value)]);
            requests.push(OutgoingRequest { pending, kind, body });
        };
        if std::mem::take(&mut self.is_watch_due) {
            let watches = self.watch.as_ref().map_or(Data::List(Vec::new()), |watch| watch.watches.clone());
            add(PendingRequest::Watch, "session.watch.set", "watches", watches);
        }
        for (local_seq, commit) in self.commits.take_unsent() {
            add(PendingRequest::Transact { local_seq }, "transact", "commit", commit);
        }
        for (query, reply_tx) in std::mem::take(&mut self.queries) {
            add(PendingRequest::Query { reply_tx }, "graph.query", "query", query);
        }
        if self.acked_seq < self.seen_seq {
            self.acked_seq = self.seen_seq;
            add(PendingRequest::Ack, "session.ack", "seenSeq", self.seen_seq.into());
        }
        requests
    }

    pub(super) fn on_response(
        &mut self,
        pending: PendingRequest,
        result: Result<Data, ClientError>,
        now: Instant,
    ) {
        match pending {
            PendingRequest::Open => self.on_open_result(result),
            PendingRequest::Transact { local_seq } => self.on_commit_result(local_seq, result, now),
            PendingRequest::Query { reply_tx } => {
                let _ = reply_tx.send(result);
            }
            PendingRequest::Watch => self.on_watch_result(result),
            PendingRequest::Ack => {}
        }
    }

    fn on_open_result(&mut self, result: Result<Data, ClientError>) {
        match result {
            Ok(response) => self.on_open(response),
            Err(error) if error.name == "SessionRevokedError" && self.session_id.is_some() => {
                // Another session cannot find out whether the server accepted the pending commits.
                let lost = ClientError::connection("session lost; the result of the commit is unknown");
                self.commits.fail_all(&lost);
                self.reset();
            }
            Err(error) if error.is_retriable() => self.phase = Phase::Closed,
            Err(error) => {
                self.phase = Phase::Closed;
                self.fail_all(&error);
                self.is_rejected = true;
            }
        }
    }

    fn on_open(&mut self, response: Data) {
        self.phase = Phase::Open;
        let text = |key: &str| response.get(key).and_then(Data::as_str).map(str::to_owned);
        (self.session_id, self.token) = (text("sessionId"), text("sessionToken"));
        let is_resumed = response.get("resumed").and_then(Data::as_bool).unwrap_or(false);
        if is_resumed {
            if let Some(sync) = response.get("sync") {
                self.apply_sync(sync);
            }
        } else {
            self.is_watch_due |= self.watch.is_some();
            self.commits.on_new_session();
        }
        // `session.open` carried the seen seq.
        self.acked_seq = self.seen_seq;
        self.record_caught_up(&response);
        self.open_replies.drain(..).for_each(|reply_tx| {
            let _ = reply_tx.send(Ok(response.clone()));
        });
        self.open_response = Some(response);
    }

    fn on_commit_result(&mut self, local_seq: u64, result: Result<Data, ClientError>, now: Instant) {
        match result {
            Err(error) if error.name == "SessionError" => {
                // The server lost the session: it is opened again and the commits are sent again.
                self.phase = Phase::Closed;
                self.commits.mark_unsent();
            }
            result => self.commits.on_result(local_seq, result, now),
        }
    }

    fn on_watch_result(&mut self, result: Result<Data, ClientError>) {
        let Some(watch) = &mut self.watch else { return };
        match (result, watch.first_sync_tx.take()) {
            (Ok(ok), Some(first_sync_tx)) => {
                let sync = ok.get("sync").cloned().unwrap_or(Data::Null);
                watch.record_versions(&sync);
                self.record_seen_seq(&sync);
                let _ = first_sync_tx.send(Ok(sync));
            }
            (Ok(ok), None) => {
                if let Some(sync) = ok.get("sync") {
                    watch.forget_missing(sync);
                    self.apply_sync(sync);
                }
            }
            (Err(error), first_sync_tx) => {
                tracing::warn!(%error, "memory server rejected a watch");
                if let Some(first_sync_tx) = first_sync_tx {
                    let _ = first_sync_tx.send(Err(error));
                }
                self.watch = None;
            }
        }
    }

    /// Applies a sync of the server and passes new versions to the watching script.
    pub(super) fn apply_sync(&mut self, sync: &Data) {
        if let Some(watch) = &mut self.watch {
            watch.deliver(sync);
        }
        self.record_seen_seq(sync);
        self.record_caught_up(sync);
    }

    fn record_seen_seq(&mut self, sync: &Data) {
        self.seen_seq = self.seen_seq.max(sync.get("toSeq").and_then(Data::as_u64).unwrap_or(0));
    }

    fn record_caught_up(&mut self, data: &Data) {
        self.commits.record_caught_up(data.get("caughtUpLocalSeq").and_then(Data::as_u64).unwrap_or(0));
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.commits.wake_at()
    }

    pub(super) fn wake(&mut self, now: Instant) {
        self.commits.wake(now);
    }

    /// The server ended the session. Its commits fail; a watch continues in a new session.
    pub(super) fn on_revoked(&mut self) {
        self.commits.fail_all(&ClientError::new("SessionRevokedError", "session revoked by the server"));
        self.reset();
    }

    fn reset(&mut self) {
        self.phase = Phase::Closed;
        self.session_id = None;
        self.token = None;
        self.commits.reset();
    }

    /// Fails queries and opens; commits and watches wait for the next connection.
    pub(super) fn on_disconnect(&mut self) {
        self.phase = Phase::Closed;
        self.commits.on_disconnect();
        self.fail_requests(&ClientError::connection("connection to the memory server lost"));
    }

    fn fail_all(&mut self, error: &ClientError) {
        self.commits.fail_all(error);
        self.fail_requests(error);
        if let Some(first_sync_tx) = self.watch.take().and_then(|watch| watch.first_sync_tx) {
            let _ = first_sync_tx.send(Err(error.clone()));
        }
    }

    fn fail_requests(&mut self, error: &ClientError) {
        let queries = std::mem::take(&mut self.queries).into_iter().map(|(_, reply_tx)| reply_tx);
        for reply_tx in queries.chain(std::mem::take(&mut self.open_replies)) {
            let _ = reply_tx.send(Err(error.clone()));
        }
    }
}
