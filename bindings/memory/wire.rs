//! Messages on the wire: parses requests of clients, and builds responses and events.

use super::codec::{Data, object};
use super::commit::{parse_entity, parse_path};
use super::names::{Entity, ID_BYTES_MAX, Scope};
use super::path::Path;
use super::store::{CommitReceipt, Revision};
use super::traverse::DocumentState;

/// The current and the former name of the protocol.
pub(super) const PROTOCOLS: [&str; 2] = ["memory", "memory/v2"];

/// Most watches of one request, and of one session.
pub(super) const WATCHES_MAX: usize = 10_000;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ClientMessage {
    Hello { protocol: String, flags: Flags },
    Request(Request),
}

/// The features on which client and server must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flags {
    /// Sent by the oldest clients, which expect both echoed.
    Rich { storable_values: bool, unified_encoding: bool },
    /// Whether links and references are tagged values.
    ModernCells(bool),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub(super) id: String,
    pub(super) space: String,
    pub(super) body: RequestBody,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum RequestBody {
    Open { session: Data, invocation: Option<Data>, authorization: Option<Data> },
    InSession { session_id: String, command: Command },
}

/// A request within a session.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Command {
    Transact { commit: Data },
    Query { query: Data },
    WatchSet { watches: Vec<Data> },
    WatchAdd { watches: Vec<Data> },
    Ack { seen_seq: u64 },
    SchedulerSnapshots,
}

/// An error in a response.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WireError {
    pub(super) name: &'static str,
    pub(super) message: String,
    pub(super) detail: Option<(&'static str, Data)>,
}

impl WireError {
    pub(super) fn new(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, message: message.into(), detail: None }
    }

    #[must_use]
    pub(super) fn with(self, key: &'static str, value: impl Into<Data>) -> Self {
        Self { detail: Some((key, value.into())), ..self }
    }

    fn to_data(&self) -> Data {
        let mut error = object([("name", self.name.into()), ("message", self.message.as_str().into())]);
        if let (Data::Map(members), Some((key, value))) = (&mut error, &self.detail) {
            members.insert((*key).to_owned(), value.clone());
        }
        error
    }
}

/// `None` if the message is invalid.
pub(super) fn parse_message(data: &Data) -> Option<ClientMessage> {
    let kind = data.get("type")?.as_str()?;
    if kind == "hello" {
        let protocol = data.get("protocol")?.as_str()?.to_owned();
        return Some(ClientMessage::Hello { protocol, flags: Flags::parse(data.get("flags")?)? });
    }
    let body = match kind {
        "session.open" => RequestBody::Open {
            session: data.get("session").filter(|session| session.as_map().is_some())?.clone(),
            invocation: data.get("invocation").cloned(),
            authorization: data.get("authorization").cloned(),
        },
        _ => RequestBody::InSession {
            session_id: parse_id(data.get("sessionId")?)?,
            command: Command::parse(kind, data)?,
        },
    };
    let space = data.get("space")?.as_str()?.to_owned();
    Some(ClientMessage::Request(Request { id: parse_id(data.get("requestId")?)?, space, body }))
}

fn parse_id(data: &Data) -> Option<String> {
    data.as_str().filter(|text| text.len() <= ID_BYTES_MAX).map(str::to_owned)
}

impl Command {
    fn parse(kind: &str, data: &Data) -> Option<Self> {
        let is_object = |data: &&Data| data.as_map().is_some();
        let watches = || {
            let watches = data.get("watches")?.as_list()?;
            (watches.len() <= WATCHES_MAX).then(|| watches.to_vec())
        };
        match kind {
            "transact" => Some(Self::Transact { commit: data.get("commit").filter(is_object)?.clone() }),
            "graph.query" => {
                let query = data.get("query").filter(is_object)?;
                query.get("roots")?.as_list()?;
                Some(Self::Query { query: query.clone() })
            }
            "session.watch.set" => Some(Self::WatchSet { watches: watches()? }),
            "session.watch.add" => Some(Self::WatchAdd { watches: watches()? }),
            "session.ack" => Some(Self::Ack { seen_seq: data.get("seenSeq")?.as_u64()? }),
            "scheduler.snapshot.list" => Some(Self::SchedulerSnapshots),
            _ => None,
        }
    }
}

impl Flags {
    /// Known flags must be booleans or absent; unknown ones are ignored.
    fn parse(data: &Data) -> Option<Self> {
        data.as_map()?;
        for known in [
            "persistentSchedulerState",
            "commitPreconditions",
            "syncSchemaTable",
            "syncSchemaTableV2",
            "pendingReadStacks",
            "verdictCatchUpMarkers",
        ] {
            parse_flag(data, known)?;
        }
        match (parse_flag(data, "richStorableValues")?, parse_flag(data, "unifiedJsonEncoding")?) {
            (None, None) => Some(Self::ModernCells(parse_flag(data, "modernCellRep")?.unwrap_or(false))),
            (rich, unified) => Some(Self::Rich {
                storable_values: rich.unwrap_or(false),
                unified_encoding: unified.unwrap_or(false),
            }),
        }
    }

    fn to_data(self) -> Data {
        match self {
            Self::Rich { storable_values, unified_encoding } => object([
                ("richStorableValues", Data::Bool(storable_values)),
                ("unifiedJsonEncoding", Data::Bool(unified_encoding)),
            ]),
            Self::ModernCells(modern) => object([
                ("modernCellRep", Data::Bool(modern)),
                ("persistentSchedulerState", Data::Bool(false)),
                ("commitPreconditions", Data::Bool(false)),
                ("syncSchemaTable", Data::Bool(false)),
                ("syncSchemaTableV2", Data::Bool(false)),
            ]),
        }
    }
}

fn parse_flag(data: &Data, name: &str) -> Option<Option<bool>> {
    match data.get(name) {
        None => Some(None),
        Some(value) => value.as_bool().map(Some),
    }
}

/// A document from which a query starts, with its selector.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Root {
    pub(super) entity: Entity,
    pub(super) path: Path,
    pub(super) schema: Option<Data>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Query {
    pub(super) roots: Vec<Root>,
    pub(super) at_seq: Option<u64>,
}

impl Query {
    pub(super) fn parse(data: &Data) -> Result<Self, WireError> {
        let invalid = |problem: &str| WireError::new("QueryError", format!("query.{problem}"));
        let roots = data.get("roots").and_then(Data::as_list);
        let roots = roots.ok_or_else(|| invalid("roots: expected a list"))?;
        match data.get("branch").map(Data::as_str) {
            None | Some(Some("")) => {}
            Some(_) => return Err(invalid("branch: unknown branch")),
        }
        let at_seq = match data.get("atSeq") {
            None => None,
            Some(seq) => {
                Some(seq.as_u64().ok_or_else(|| invalid("atSeq: expected an integer of at least 0"))?)
            }
        };
        let roots = roots.iter().enumerate().map(|(index, root)| {
            Root::parse(root).ok_or_else(|| invalid(&format!("roots[{index}]: invalid root")))
        });
        Ok(Self { roots: roots.collect::<Result<_, _>>()?, at_seq })
    }
}

impl Root {
    fn parse(data: &Data) -> Option<Self> {
        let selector = data.get("selector").filter(|selector| selector.as_map().is_some())?;
        let path = selector.get("path").map_or(Some(Path::new()), parse_path)?;
        Some(Self { entity: parse_entity(data)?, path, schema: selector.get("schema").cloned() })
    }
}

pub(super) fn hello_ok(protocol: &str, flags: Flags, session_open: Data) -> Data {
    object([
        ("type", "hello.ok".into()),
        ("protocol", protocol.into()),
        ("flags", flags.to_data()),
        ("sessionOpen", session_open),
    ])
}

/// The audience and the challenge for the next `session.open`.
pub(super) fn session_open_metadata(audience: &str, challenge: &str, expires_at: u64) -> Data {
    let challenge = object([("value", challenge.into()), ("expiresAt", expires_at.into())]);
    object([("audience", audience.into()), ("challenge", challenge)])
}

pub(super) fn response(request_id: &str, result: Result<Data, WireError>) -> Data {
    let (key, value) = match result {
        Ok(ok) => ("ok", ok),
        Err(error) => ("error", error.to_data()),
    };
    object([("type", "response".into()), ("requestId", request_id.into()), (key, value)])
}

pub(super) fn invalid_message() -> Data {
    response("invalid", Err(WireError::new("InvalidMessageError", "Unable to parse memory message")))
}

pub(super) fn session_effect(space: &str, session_id: &str, sync: Data) -> Data {
    object([
        ("type", "session/effect".into()),
        ("space", space.into()),
        ("sessionId", session_id.into()),
        ("effect", sync),
    ])
}

pub(super) fn session_revoked(space: &str, session_id: &str, reason: &'static str) -> Data {
    object([
        ("type", "session/revoked".into()),
        ("space", space.into()),
        ("sessionId", session_id.into()),
        ("reason", reason.into()),
    ])
}

/// The changes between two commits, as sent to a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Sync {
    pub(super) from_seq: u64,
    pub(super) to_seq: u64,
    pub(super) upserts: Vec<(Entity, DocumentState)>,
    pub(super) removes: Vec<Entity>,
    pub(super) caught_up_local_seq: Option<u64>,
}

impl Sync {
    pub(super) fn is_empty(&self) -> bool {
        self.upserts.is_empty() && self.removes.is_empty() && self.caught_up_local_seq.is_none()
    }

    pub(super) fn to_data(&self) -> Data {
        let mut sync = object([
            ("type", "sync".into()),
            ("fromSeq", self.from_seq.into()),
            ("toSeq", self.to_seq.into()),
            ("upserts", Data::List(self.upserts.iter().map(upsert_data).collect())),
            ("removes", Data::List(self.removes.iter().map(entity_fields).collect())),
        ]);
        if let (Data::Map(members), Some(local_seq)) = (&mut sync, self.caught_up_local_seq) {
            members.insert("caughtUpLocalSeq".to_owned(), local_seq.into());
        }
        sync
    }
}

fn entity_fields(entity: &Entity) -> Data {
    object([("branch", "".into()), ("id", entity.id.as_str().into()), ("scope", entity.scope.name().into())])
}

fn upsert_data((entity, state): &(Entity, DocumentState)) -> Data {
    let mut upsert = entity_fields(entity);
    if let Data::Map(members) = &mut upsert {
        members.insert("seq".to_owned(), state.seq.into());
        match &state.document {
            Some(document) => members.insert("doc".to_owned(), Data::clone(document)),
            None => members.insert("deleted".to_owned(), Data::Bool(true)),
        };
    }
    upsert
}

/// A document in the response to a query.
pub(super) fn entity_snapshot(entity: &Entity, state: &DocumentState) -> Data {
    let document = state.document.as_ref().map_or(Data::Null, |document| Data::clone(document));
    let mut snapshot = object([
        ("branch", "".into()),
        ("id", entity.id.as_str().into()),
        ("seq", state.seq.into()),
        ("document", document),
    ]);
    if let (Data::Map(members), Scope::User | Scope::Session) = (&mut snapshot, entity.scope) {
        members.insert("scope".to_owned(), entity.scope.name().into());
    }
    snapshot
}

/// The response to `transact`.
pub(super) fn receipt_data(receipt: &CommitReceipt) -> Data {
    let revisions = receipt.revisions.iter().map(|revision| revision_data(revision, receipt.seq)).collect();
    object([("seq", receipt.seq.into()), ("branch", "".into()), ("revisions", Data::List(revisions))])
}

fn revision_data(revision: &Revision, seq: u64) -> Data {
    let mut data = object([
        ("id", revision.key.id.as_str().into()),
        ("branch", "".into()),
        ("seq", seq.into()),
        ("opIndex", revision.op_index.into()),
        ("commitSeq", seq.into()),
        ("op", revision.op.as_str().into()),
    ]);
    let Data::Map(members) = &mut data else { return data };
    if let Some(content) = &revision.data {
        let key = if revision.op == "patch" { "patches" } else { "document" };
        members.insert(key.to_owned(), content.clone());
    }
    let scope_key = revision.key.scope_key.as_str();
    if scope_key != "space" {
        let scope = if scope_key.starts_with("user:") { Scope::User } else { Scope::Session };
        members.insert("scope".to_owned(), scope.name().into());
        members.insert("scopeKey".to_owned(), scope_key.into());
    }
    data
}

#[cfg(test)]
mod tests;
