//! The spaces of one thread: opens their files when the first one comes, closes them when the last one is gone.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::access::{Access, EVERYONE};
use super::codec::Data;
use super::machine::{Connection, Opening, Outbox, Space};
use super::names::{file_stem, split_script_space};
use super::outlet::Outlet;
use super::store::{Durability, Store};
use super::traverse::State;
use super::wire::{self, Command, WireError};
use crate::peering::PendingRecord;

/// Most spaces that are open on one thread: each is a file, or a database in memory.
pub(super) const SPACES_OPEN_MAX: usize = 1024;

/// How often sessions that were left behind are looked for.
const EXPIRY_EVERY: Duration = Duration::from_secs(1);

/// Where spaces are kept, and who may use them.
#[derive(Debug, Clone, Default)]
pub(super) struct StoreSettings {
    /// The folder; without one spaces are in memory and last as long as the server.
    pub(super) folder: Option<PathBuf>,
    pub(super) durability: Durability,
    /// By space; `*` is for those that are not named.
    pub(super) access: HashMap<String, Access>,
}

/// Something to be done in a space.
pub(super) struct Job {
    pub(super) space: String,
    pub(super) task: Task,
}

pub(super) enum Task {
    Open {
        request_id: String,
        opening: Opening,
        outlet: Outlet,
        session_open: Data,
    },
    Request {
        request_id: String,
        connection: Connection,
        session_id: String,
        command: Command,
        outlet: Outlet,
        /// Of what is recorded when it is done.
        record: Option<PendingRecord>,
    },
    /// A connection is gone; in every space.
    Disconnected {
        connection: Connection,
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
        reply_tx: oneshot::Sender<Result<State, WireError>>,
    },
}

/// All spaces of a thread.
pub(super) struct Hub {
    settings: StoreSettings,
    spaces: HashMap<String, Space>,
    outlets: HashMap<Connection, Outlet>,
    /// Spaces with something to tell.
    dirty: BTreeSet<String>,
    expiry_at: Instant,
    clock: fn() -> Instant,
}

impl Hub {
    pub(super) fn new(settings: StoreSettings, clock: fn() -> Instant) -> Self {
        Self {
            settings,
            spaces: HashMap::new(),
            outlets: HashMap::new(),
            dirty: BTreeSet::new(),
            expiry_at: clock() + EXPIRY_EVERY,
            clock,
        }
    }

    pub(super) fn handle(&mut self, job: Job, now: Instant) {
        let Job { space, task } = job;
        match task {
            Task::Open { request_id, opening, outlet, session_open } => {
                self.outlets.insert(opening.connection, outlet);
                self.open(&space, &request_id, &opening, session_open, now);
            }
            Task::Request { request_id, connection, session_id, command, outlet, record } => {
                let mut outbox = Outbox::new();
                let result = match self.spaces.get_mut(&space) {
                    Some(space) => space.request(connection, &session_id, command, now, &mut outbox),
                    None => Err(WireError::new("SessionError", "Session is not open on this connection")),
                };
                if let Some(record) = record {
                    record.finish(result.as_ref().map_or_else(|error| error.name, |_| "ok"));
                }
                // What the request found out comes before its answer.
                self.deliver(outbox);
                outlet.send(&wire::response(&request_id, result));
            }
            Task::Disconnected { connection } => {
                self.outlets.remove(&connection);
                self.spaces.values_mut().for_each(|space| space.disconnected(connection, now));
            }
            Task::PutBlob { id, document, principal, reply_tx } => {
                let mut outbox = Outbox::new();
                let stored = self
                    .entered(&space)
                    .and_then(|space| space.put_blob(&id, document, principal.as_deref(), now, &mut outbox));
                self.deliver(outbox);
                let _ = reply_tx.send(stored);
            }
            Task::GetBlob { id, principal, reply_tx } => {
                let found = self.entered(&space).and_then(|space| space.blob(&id, principal.as_deref()));
                let _ = reply_tx.send(found);
            }
        }
        self.settle(space);
    }

    fn settle(&mut self, name: String) {
        if let Some(space) = self.spaces.get_mut(&name)
            && space.flush_at().is_some()
        {
            space.settle((self.clock)());
            self.dirty.insert(name);
        }
    }

    fn open(&mut self, name: &str, request_id: &str, opening: &Opening, session_open: Data, now: Instant) {
        let mut outbox = Outbox::new();
        let opened = self.entered(name).and_then(|space| space.open(opening, now, &mut outbox));
        let opened = match opened {
            Ok(mut opened) => {
                if let Data::Map(members) = &mut opened {
                    members.insert("sessionOpen".to_owned(), session_open);
                }
                Ok(opened)
            }
            // The challenge that was signed is used up all the same: the next opening needs another one.
            Err(error) => Err(error.with("sessionOpen", session_open)),
        };
        outbox.push((opening.connection, wire::response(request_id, opened)));
        self.deliver(outbox);
    }

    /// Where a space is kept, if in a file; `None` if it can be kept nowhere.
    fn file(&self, name: &str) -> Option<Option<PathBuf>> {
        let stem = file_stem(name)?;
        let folder = self.settings.folder.as_ref();
        Some(folder.map(|folder| folder.join(format!("{}.sqlite", stem.display()))))
    }

    /// The space of that name, opened if it is not yet.
    fn entered(&mut self, name: &str) -> Result<&mut Space, WireError> {
        if !self.spaces.contains_key(name) {
            if self.spaces.len() >= SPACES_OPEN_MAX {
                return Err(WireError::new("RateLimitError", "too many spaces are open"));
            }
            let store = self.store(name)?;
            let space = Space::new(name.to_owned(), self.access(name), store, fresh).map_err(|error| {
                tracing::error!(space = name, %error, "cannot read the owner of a space");
                WireError::new("ProtocolError", "the space cannot be opened")
            })?;
            self.spaces.insert(name.to_owned(), space);
        }
        self.spaces.get_mut(name).ok_or_else(|| WireError::new("SessionError", "Unknown session for space"))
    }

    /// What the configuration says of a space; of the spaces of scripts it says nothing.
    fn access(&self, name: &str) -> Access {
        if split_script_space(name).is_some() {
            return Access::default();
        }
        let access = self.settings.access.get(name).or_else(|| self.settings.access.get(EVERYONE));
        access.cloned().unwrap_or_default()
    }

    fn store(&self, name: &str) -> Result<Store, WireError> {
        let invalid = || WireError::new("ProtocolError", "Invalid memory space identifier");
        let file = self.file(name).ok_or_else(invalid)?;
        Store::open(file.as_deref(), self.settings.durability).map_err(|error| {
            tracing::error!(space = name, %error, "a space cannot be opened");
            WireError::new("ProtocolError", "the space cannot be opened")
        })
    }

    fn deliver(&self, outbox: Outbox) {
        for (connection, message) in outbox {
            if let Some(outlet) = self.outlets.get(&connection) {
                outlet.send(&message);
            }
        }
    }

    /// When there is something to do if no job comes.
    pub(super) fn wake_at(&self) -> Instant {
        self.flush_times().map(|(at, _)| at).fold(self.expiry_at, Instant::min)
    }

    /// When there is something to do even if jobs wait.
    pub(super) fn overdue_at(&self) -> Option<Instant> {
        self.flush_times().map(|(_, by)| by).min()
    }

    fn flush_times(&self) -> impl Iterator<Item = (Instant, Instant)> {
        self.dirty.iter().filter_map(|name| self.spaces.get(name)?.flush_at())
    }

    /// Tells the sessions what they wait for, and forgets those that are gone.
    pub(super) fn wake(&mut self, now: Instant) {
        let mut outbox = Outbox::new();
        let (spaces, dirty) = (&mut self.spaces, &mut self.dirty);
        dirty.retain(|name| match spaces.get_mut(name) {
            Some(space) if space.flush_at().is_some_and(|(at, _)| at <= now) => {
                space.flush(&mut outbox);
                false
            }
            Some(space) => space.flush_at().is_some(),
            None => false,
        });
        self.deliver(outbox);
        if self.expiry_at <= now {
            self.expiry_at = now + EXPIRY_EVERY;
            self.expire(now);
        }
    }

    fn expire(&mut self, now: Instant) {
        let is_kept_in_files = self.settings.folder.is_some();
        let dirty = &self.dirty;
        self.spaces.retain(|name, space| {
            space.expire(now);
            // A space in memory is gone when it is closed, so one that was written to stays.
            let can_close = is_kept_in_files || space.is_empty();
            !(can_close && space.is_deserted() && !dirty.contains(name))
        });
    }
}

fn fresh() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::super::outlet::outlet;
    use super::*;

    fn open(hub: &mut Hub, space: &str, outlet: &Outlet) {
        let opening = Opening::new(1, None, &Data::Null);
        let (request_id, outlet) = ("r".to_owned(), outlet.clone());
        let task = Task::Open { request_id, opening, outlet, session_open: Data::Null };
        hub.handle(Job { space: space.to_owned(), task }, Instant::now());
    }

    #[test]
    fn spaces_are_opened_up_to_the_limit() {
        let mut hub = Hub::new(StoreSettings::default(), Instant::now);
        let (outlet, mut messages_rx) = outlet(CancellationToken::new());
        (0..SPACES_OPEN_MAX).for_each(|number| open(&mut hub, &number.to_string(), &outlet));
        assert_eq!(hub.spaces.len(), SPACES_OPEN_MAX);
        (0..SPACES_OPEN_MAX)
            .for_each(|_| assert!(messages_rx.try_recv().unwrap().take_text().contains("\"ok\"")));
        open(&mut hub, "one more", &outlet);
        assert!(messages_rx.try_recv().unwrap().take_text().contains("RateLimitError"));
    }

    #[test]
    fn a_file_is_closed_when_the_last_session_is_gone_and_a_space_in_memory_is_not() {
        let folder = std::env::temp_dir().join(format!("scomp-hub-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&folder).unwrap();
        let in_files = StoreSettings { folder: Some(folder.clone()), ..StoreSettings::default() };
        for (settings, is_written, left) in [
            (in_files.clone(), true, 0),
            (in_files, false, 0),
            (StoreSettings::default(), true, 1),
            (StoreSettings::default(), false, 0),
        ] {
            let mut hub = Hub::new(settings, Instant::now);
            let (outlet, _messages_rx) = outlet(CancellationToken::new());
            open(&mut hub, "s", &outlet);
            if is_written {
                let (reply_tx, _reply_rx) = oneshot::channel();
                let (id, document) = ("cid:x".to_owned(), Data::Map(Default::default()));
                let task = Task::PutBlob { id, document, principal: None, reply_tx };
                hub.handle(Job { space: "s".to_owned(), task }, Instant::now());
            }
            let task = Task::Disconnected { connection: 1 };
            hub.handle(Job { space: String::new(), task }, Instant::now());
            hub.wake(Instant::now() + Duration::from_secs(29));
            assert_eq!(hub.spaces.len(), 1);
            hub.wake(Instant::now() + Duration::from_secs(61));
            assert_eq!(hub.spaces.len(), left);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn conflict_is_sent_after_the_effect_of_what_was_committed() {
        let mut hub = Hub::new(StoreSettings::default(), Instant::now);
        let (outlet, mut messages_rx) = outlet(CancellationToken::new());
        let mut session_ids = Vec::new();
        for _ in 0..2 {
            open(&mut hub, "s", &outlet);
            let opened = messages_rx.try_recv().unwrap().take_text();
            let opened = super::super::codec::Dialect::Tagged.decode(&opened).unwrap();
            let session_id = opened.get("ok").and_then(|ok| ok.get("sessionId")).and_then(Data::as_str);
            session_ids.push(session_id.unwrap().to_owned());
        }
        let mut ask = |session_id: &str, kind: &str, body: serde_json::Value| {
            let mut message = serde_json::json!({
                "type": kind, "requestId": kind, "space": "s", "sessionId": session_id,
            });
            message.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            let Some(wire::ClientMessage::Request(request)) = wire::read(&Data::from_plain(message)) else {
                panic!("not a request")
            };
            let wire::Body::InSession { session_id, command } = request.body else { panic!("no session") };
            let (request_id, outlet) = (request.id, outlet.clone());
            let task = Task::Request { request_id, connection: 1, session_id, command, outlet, record: None };
            hub.handle(Job { space: "s".to_owned(), task }, Instant::now());
        };
        let query = serde_json::json!({"roots": [{"id": "x", "selector": {"path": [], "schema": true}}]});
        let watches = serde_json::json!([{"id": "w", "kind": "graph", "query": query}]);
        ask(&session_ids[0], "session.watch.set", serde_json::json!({"watches": watches}));
        let commit = |confirmed: serde_json::Value| {
            let operations = serde_json::json!([{"op": "set", "id": "x", "value": {"value": 1}}]);
            let reads = serde_json::json!({"confirmed": confirmed});
            serde_json::json!({"commit": {"localSeq": 1, "reads": reads, "operations": operations}})
        };
        ask(&session_ids[1], "transact", commit(serde_json::json!([])));
        let stale = serde_json::json!([{"id": "x", "path": ["value"], "seq": 0}]);
        ask(&session_ids[0], "transact", commit(stale));
        let texts: Vec<String> = std::iter::from_fn(|| messages_rx.try_recv().ok())
            .map(|mut message| message.take_text())
            .collect();
        let position = |word: &str| texts.iter().position(|text| text.contains(word)).unwrap();
        assert!(position("session/effect") < position("ConflictError"), "{texts:?}");
    }
}
