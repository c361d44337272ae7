//! The spaces of one thread. A file is opened for the first request of its space, and closed when
//! the last session has ended.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::access::{Access, EVERYONE};
use super::codec::Data;
use super::machine::{ConnectionId, OpenRequest, OutgoingMessages, Space};
use super::message_sender::MessageSender;
use super::names::{file_stem, split_script_space};
use super::store::{Durability, Store};
use super::traverse::DocumentState;
use super::wire::{self, Command, WireError};
use crate::peering::PendingRecord;

/// Most open spaces per thread: each is a file, or a database in memory.
pub(super) const SPACES_OPEN_MAX: usize = 1024;

/// Interval between checks for expired sessions.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Default)]
pub(super) struct StoreSettings {
    /// Without a folder, spaces are in memory and last as long as the server.
    pub(super) folder: Option<PathBuf>,
    pub(super) durability: Durability,
    /// By space; `*` applies to all spaces without an entry.
    pub(super) access: HashMap<String, Access>,
}

pub(super) struct Job {
    pub(super) space: String,
    pub(super) task: Task,
}

pub(super) enum Task {
    Open {
        request_id: String,
        open_request: OpenRequest,
        sender: MessageSender,
        session_open: Data,
    },
    Request {
        request_id: String,
        connection_id: ConnectionId,
        session_id: String,
        command: Command,
        sender: MessageSender,
        /// Audit record, finished with the outcome of the request.
        record: Option<PendingRecord>,
    },
    /// Applies to all spaces.
    Disconnect {
        connection_id: ConnectionId,
    },
    PutBlob {
        id: String,
        document: Data,
        principal: Option<String>,
        reply_tx: oneshot::Sender<Result<u64, WireError>>,
    },
    GetBlob {
        id: String,
        principal: Option<String>,
        reply_tx: oneshot::Sender<Result<DocumentState, WireError>>,
    },
}

pub(super) struct SpaceTable {
    settings: StoreSettings,
    spaces: HashMap<String, Space>,
    senders: HashMap<ConnectionId, MessageSender>,
    /// Spaces with a pending flush.
    changed_spaces: BTreeSet<String>,
    expiry_at: Instant,
    clock: fn() -> Instant,
}

impl SpaceTable {
    pub(super) fn new(settings: StoreSettings, clock: fn() -> Instant) -> Self {
        Self {
            settings,
            spaces: HashMap::new(),
            senders: HashMap::new(),
            changed_spaces: BTreeSet::new(),
            expiry_at: clock() + EXPIRY_INTERVAL,
            clock,
        }
    }

    pub(super) fn handle_job(&mut self, job: Job, now: Instant) {
        let Job { space, task } = job;
        match task {
            Task::Open { request_id, open_request, sender, session_open } => {
                self.senders.insert(open_request.connection_id, sender);
                self.open_session(&space, &request_id, &open_request, session_open, now);
            }
            Task::Request { request_id, connection_id, session_id, command, sender, record } => {
                let mut outgoing = OutgoingMessages::new();
                let result = match self.spaces.get_mut(&space) {
                    Some(space) => {
                        space.handle_request(connection_id, &session_id, command, now, &mut outgoing)
                    }
                    None => Err(WireError::new("SessionError", "Session is not open on this connection")),
                };
                if let Some(record) = record {
                    record.finish(result.as_ref().map_or_else(|error| error.name, |_| "ok"));
                }
                // Events caused by the request precede its response.
                self.deliver(outgoing);
                sender.send(&wire::response(&request_id, result));
            }
            Task::Disconnect { connection_id } => {
                self.senders.remove(&connection_id);
                self.spaces.values_mut().for_each(|space| space.on_disconnect(connection_id, now));
            }
            Task::PutBlob { id, document, principal, reply_tx } => {
                let mut outgoing = OutgoingMessages::new();
                let stored = self.open_space(&space).and_then(|space| {
                    space.put_blob(&id, document, principal.as_deref(), now, &mut outgoing)
                });
                self.deliver(outgoing);
                let _ = reply_tx.send(stored);
            }
            Task::GetBlob { id, principal, reply_tx } => {
                let found =
                    self.open_space(&space).and_then(|space| space.get_blob(&id, principal.as_deref()));
                let _ = reply_tx.send(found);
            }
        }
        self.restart_flush_delay(space);
    }

    fn restart_flush_delay(&mut self, name: String) {
        if let Some(space) = self.spaces.get_mut(&name)
            && space.flush_at().is_some()
        {
            space.restart_flush_delay((self.clock)());
            self.changed_spaces.insert(name);
        }
    }

    fn open_session(
        &mut self,
        name: &str,
        request_id: &str,
        open_request: &OpenRequest,
        session_open: Data,
        now: Instant,
    ) {
        let mut outgoing = OutgoingMessages::new();
        let result =
            self.open_space(name).and_then(|space| space.open_session(open_request, now, &mut outgoing));
        let result = match result {
            Ok(mut response) => {
                if let Data::Map(members) = &mut response {
                    members.insert("sessionOpen".to_owned(), session_open);
                }
                Ok(response)
            }
            // The signed challenge is used up here too, so the client needs the next one.
            Err(error) => Err(error.with("sessionOpen", session_open)),
        };
        outgoing.push((open_request.connection_id, wire::response(request_id, result)));
        self.deliver(outgoing);
    }

    /// The file of a space, if the store has files; `None` if the name is invalid.
    fn file_path(&self, name: &str) -> Option<Option<PathBuf>> {
        let stem = file_stem(name)?;
        let folder = self.settings.folder.as_ref();
        Some(folder.map(|folder| folder.join(format!("{}.sqlite", stem.display()))))
    }

    /// Returns the space, which is opened if necessary.
    fn open_space(&mut self, name: &str) -> Result<&mut Space, WireError> {
        if !self.spaces.contains_key(name) {
            if self.spaces.len() >= SPACES_OPEN_MAX {
                return Err(WireError::new("RateLimitError", "too many open spaces"));
            }
            let store = self.open_store(name)?;
            let space =
                Space::new(name.to_owned(), self.find_access(name), store, new_id).map_err(|error| {
                    tracing::error!(space = name, %error, "cannot read the owner of a space");
                    WireError::new("ProtocolError", "cannot open the space")
                })?;
            self.spaces.insert(name.to_owned(), space);
        }
        self.spaces.get_mut(name).ok_or_else(|| WireError::new("SessionError", "Unknown session for space"))
    }

    /// The configured access lists of a space; spaces of scripts have none.
    fn find_access(&self, name: &str) -> Access {
        if split_script_space(name).is_some() {
            return Access::default();
        }
        let access = self.settings.access.get(name).or_else(|| self.settings.access.get(EVERYONE));
        access.cloned().unwrap_or_default()
    }

    fn open_store(&self, name: &str) -> Result<Store, WireError> {
        let invalid = || WireError::new("ProtocolError", "Invalid memory space identifier");
        let file = self.file_path(name).ok_or_else(invalid)?;
        Store::open(file.as_deref(), self.settings.durability).map_err(|error| {
            tracing::error!(space = name, %error, "cannot open a space");
            WireError::new("ProtocolError", "cannot open the space")
        })
    }

    fn deliver(&self, outgoing: OutgoingMessages) {
        for (connection_id, message) in outgoing {
            if let Some(sender) = self.senders.get(&connection_id) {
                sender.send(&message);
            }
        }
    }

    /// When to call [`SpaceTable::wake`] if no job arrives.
    pub(super) fn wake_at(&self) -> Instant {
        self.flush_times().map(|(at, _)| at).fold(self.expiry_at, Instant::min)
    }

    /// When to call [`SpaceTable::wake`] even if jobs are queued.
    pub(super) fn overdue_at(&self) -> Option<Instant> {
        self.flush_times().map(|(_, by)| by).min()
    }

    fn flush_times(&self) -> impl Iterator<Item = (Instant, Instant)> {
        self.changed_spaces.iter().filter_map(|name| self.spaces.get(name)?.flush_at())
    }

    /// Sends due syncs, and removes expired sessions.
    pub(super) fn wake(&mut self, now: Instant) {
        let mut outgoing = OutgoingMessages::new();
        let (spaces, changed_spaces) = (&mut self.spaces, &mut self.changed_spaces);
        changed_spaces.retain(|name| match spaces.get_mut(name) {
            Some(space) if space.flush_at().is_some_and(|(at, _)| at <= now) => {
                space.flush(&mut outgoing);
                false
            }
            Some(space) => space.flush_at().is_some(),
            None => false,
        });
        self.deliver(outgoing);
        if self.expiry_at <= now {
            self.expiry_at = now + EXPIRY_INTERVAL;
            self.expire_sessions(now);
        }
    }

    fn expire_sessions(&mut self, now: Instant) {
        let has_files = self.settings.folder.is_some();
        let changed_spaces = &self.changed_spaces;
        self.spaces.retain(|name, space| {
            space.expire_sessions(now);
            // Closing a space in memory would lose its documents.
            let can_close = has_files || space.is_empty();
            !(can_close && space.has_no_sessions() && !changed_spaces.contains(name))
        });
    }
}

fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::super::message_sender::message_channel;
    use super::*;

    fn open(space_table: &mut SpaceTable, space: &str, sender: &MessageSender) {
        let open_request = OpenRequest::new(1, None, &Data::Null);
        let (request_id, sender) = ("r".to_owned(), sender.clone());
        let task = Task::Open { request_id, open_request, sender, session_open: Data::Null };
        space_table.handle_job(Job { space: space.to_owned(), task }, Instant::now());
    }

    #[test]
    fn space_past_the_open_limit_is_rejected() {
        let mut space_table = SpaceTable::new(StoreSettings::default(), Instant::now);
        let (sender, mut messages_rx) = message_channel(CancellationToken::new());
        (0..SPACES_OPEN_MAX).for_each(|number| open(&mut space_table, &number.to_string(), &sender));
        assert_eq!(space_table.spaces.len(), SPACES_OPEN_MAX);
        (0..SPACES_OPEN_MAX).for_each(|_| assert!(messages_rx.try_recv().unwrap().contains("\"ok\"")));
        open(&mut space_table, "one more", &sender);
        assert!(messages_rx.try_recv().unwrap().contains("RateLimitError"));
    }

    #[test]
    fn space_without_sessions_is_closed_if_nothing_is_lost() {
        let folder = std::env::temp_dir().join(format!("scomp-hub-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&folder).unwrap();
        let in_files = StoreSettings { folder: Some(folder.clone()), ..StoreSettings::default() };
        for (settings, is_written, left) in [
            (in_files.clone(), true, 0),
            (in_files, false, 0),
            (StoreSettings::default(), true, 1),
            (StoreSettings::default(), false, 0),
        ] {
            let mut space_table = SpaceTable::new(settings, Instant::now);
            let (sender, _messages_rx) = message_channel(CancellationToken::new());
            open(&mut space_table, "s", &sender);
            if is_written {
                let (reply_tx, _reply_rx) = oneshot::channel();
                let (id, document) = ("cid:x".to_owned(), Data::Map(Default::default()));
                let task = Task::PutBlob { id, document, principal: None, reply_tx };
                space_table.handle_job(Job { space: "s".to_owned(), task }, Instant::now());
            }
            let task = Task::Disconnect { connection_id: 1 };
            space_table.handle_job(Job { space: String::new(), task }, Instant::now());
            space_table.wake(Instant::now() + Duration::from_secs(29));
            assert_eq!(space_table.spaces.len(), 1);
            space_table.wake(Instant::now() + Duration::from_secs(61));
            assert_eq!(space_table.spaces.len(), left);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn conflict_is_sent_after_the_effect_of_earlier_commits() {
        let mut space_table = SpaceTable::new(StoreSettings::default(), Instant::now);
        let (sender, mut messages_rx) = message_channel(CancellationToken::new());
        let mut session_ids = Vec::new();
        for _ in 0..2 {
            open(&mut space_table, "s", &sender);
            let opened = messages_rx.try_recv().unwrap();
            let opened = super::super::codec::Dialect::Tagged.decode(&opened).unwrap();
            let session_id = opened.get("ok").and_then(|ok| ok.get("sessionId")).and_then(Data::as_str);
            session_ids.push(session_id.unwrap().to_owned());
        }
        let mut request = |session_id: &str, kind: &str, body: serde_json::Value| {
            let mut message = serde_json::json!({
                "type": kind, "requestId": kind, "space": "s", "sessionId": session_id,
            });
            message.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            let Some(wire::ClientMessage::Request(request)) = wire::parse_message(&Data::from_plain(message))
            else {
                panic!("expected a request")
            };
            let wire::RequestBody::InSession { session_id, command } = request.body else {
                panic!("expected a request in a session")
            };
            let (request_id, sender) = (request.id, sender.clone());
            let task =
                Task::Request { request_id, connection_id: 1, session_id, command, sender, record: None };
            space_table.handle_job(Job { space: "s".to_owned(), task }, Instant::now());
        };
        let query = serde_json::json!({"roots": [{"id": "x", "selector": {"path": [], "schema": true}}]});
        let watches = serde_json::json!([{"id": "w", "kind": "graph", "query": query}]);
        request(&session_ids[0], "session.watch.set", serde_json::json!({"watches": watches}));
        let commit = |confirmed: serde_json::Value| {
            let operations = serde_json::json!([{"op": "set", "id": "x", "value": {"value": 1}}]);
            let reads = serde_json::json!({"confirmed": confirmed});
            serde_json::json!({"commit": {"localSeq": 1, "reads": reads, "operations": operations}})
        };
        request(&session_ids[1], "transact", commit(serde_json::json!([])));
        let stale = serde_json::json!([{"id": "x", "path": ["value"], "seq": 0}]);
        request(&session_ids[0], "transact", commit(stale));
        let texts: Vec<String> = std::iter::from_fn(|| messages_rx.try_recv()).collect();
        let position = |word: &str| texts.iter().position(|text| text.contains(word)).unwrap();
        assert!(position("session/effect") < position("ConflictError"), "{texts:?}");
    }
}
