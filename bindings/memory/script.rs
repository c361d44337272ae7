//! The bindings: what scripts do with spaces.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::Handlers;
use super::client::{Ask, ClientError, Mounted};
use super::codec::{Data, object};
use super::peers::Peers;
use crate::binding::{BindingError, Call, FunctionRef, add_effects_with_member, typed};
use crate::rpc::Kind;

mod watch;

/// How often an update is tried against others that write the same document.
/// Each time one of them got through, so with fewer writers than this everybody does.
const UPDATE_ATTEMPTS_MAX: usize = 16;

/// The handlers of the package, with what they share.
#[derive(Clone)]
struct Scripts {
    peers: Arc<Peers>,
    /// Numbers of watches in use: a session of a watch that ended serves the next one.
    watches: Arc<Mutex<BTreeSet<u64>>>,
}

#[derive(Deserialize, Clone)]
struct Place {
    space: String,
    peer: Option<String>,
}

#[derive(Deserialize)]
struct ReadInput {
    #[serde(flatten)]
    place: Place,
    id: String,
    #[serde(default)]
    path: Vec<String>,
}

#[derive(Deserialize)]
struct QueryInput {
    #[serde(flatten)]
    place: Place,
    roots: Value,
    #[serde(rename = "atSeq")]
    at_seq: Option<u64>,
}

#[derive(Deserialize)]
struct TransactInput {
    #[serde(flatten)]
    place: Place,
    operations: Value,
    #[serde(default)]
    reads: Vec<Value>,
}

#[derive(Deserialize)]
struct SetInput {
    #[serde(flatten)]
    place: Place,
    id: String,
    value: Value,
}

#[derive(Deserialize)]
struct PatchInput {
    #[serde(flatten)]
    place: Place,
    id: String,
    patches: Value,
}

#[derive(Deserialize)]
struct DeleteInput {
    #[serde(flatten)]
    place: Place,
    id: String,
}

#[derive(Deserialize)]
struct UpdateInput {
    #[serde(flatten)]
    place: Place,
    id: String,
    #[serde(rename = "fn")]
    change: Value,
}

/// All handlers.
pub(super) fn handlers(peers: Arc<Peers>) -> Handlers {
    let scripts = Scripts { peers, watches: Arc::default() };
    macro_rules! of {
        ($method:ident) => {{
            let scripts = scripts.clone();
            let handler = typed(move |input, call| {
                let scripts = scripts.clone();
                async move { scripts.$method(input, call).await }
            });
            // With a peer the call leaves this server, whatever it does there.
            add_effects_with_member(handler, "peer", &["external"])
        }};
    }
    vec![
        ("memory.open", of!(open)),
        ("memory.read", of!(read)),
        ("memory.query", of!(query)),
        ("memory.transact", of!(transact)),
        ("memory.set", of!(set)),
        ("memory.patch", of!(patch)),
        ("memory.delete", of!(delete)),
        ("memory.update", of!(update)),
        ("memory.watch", of!(watch)),
    ]
}

impl Scripts {
    fn mounted(&self, place: &Place, call: &Call) -> Result<Mounted, BindingError> {
        self.peers.mounted(&place.space, place.peer.as_deref(), &call.session.principal.name).map_err(told)
    }

    async fn open(self, place: Place, call: Call) -> Result<Value, BindingError> {
        let at = self.mounted(&place, &call)?;
        let identity = at.identity.did().to_owned();
        let opened = self.peers.ask(place.peer.as_deref(), |reply_tx| Ask::Open { at, reply_tx }).await;
        let opened = opened.map_err(told)?.to_plain();
        Ok(json!({
            "space": place.space,
            "identity": identity,
            "sessionId": opened["sessionId"],
            "serverSeq": opened["serverSeq"],
        }))
    }

    async fn read(self, input: ReadInput, call: Call) -> Result<Value, BindingError> {
        let found = self.found(&input.place, &call, &input.id).await?;
        let mut value = found.document.as_ref().and_then(|document| document.get("value")).cloned();
        for step in &input.path {
            value = value.as_ref().and_then(|value| below(value, step)).cloned();
        }
        let mut read = json!({"seq": found.seq, "exists": found.document.is_some()});
        if let Some(value) = value {
            read["value"] = value.to_plain();
        }
        Ok(read)
    }

    async fn query(self, input: QueryInput, call: Call) -> Result<Value, BindingError> {
        let mut query = object([("roots", Data::from_plain(input.roots))]);
        if let (Data::Map(members), Some(seq)) = (&mut query, input.at_seq) {
            members.insert("atSeq".to_owned(), seq.into());
        }
        Ok(self.ask_query(&input.place, &call, query).await.map_err(told)?.to_plain())
    }

    async fn transact(self, input: TransactInput, call: Call) -> Result<Value, BindingError> {
        refuse_functions(&call)?;
        let reads = Data::List(input.reads.into_iter().map(Data::from_plain).collect());
        let receipt = self.commit(&input.place, &call, Data::from_plain(input.operations), reads).await;
        Ok(receipt.map_err(told)?.to_plain())
    }

    async fn set(self, input: SetInput, call: Call) -> Result<Value, BindingError> {
        let document = object([("value", Data::from_plain(input.value))]);
        let operation = object([("op", "set".into()), ("id", input.id.as_str().into()), ("value", document)]);
        self.write(&input.place, &call, operation).await
    }

    async fn patch(self, input: PatchInput, call: Call) -> Result<Value, BindingError> {
        let patches = Data::from_plain(input.patches);
        let operation =
            object([("op", "patch".into()), ("id", input.id.as_str().into()), ("patches", patches)]);
        self.write(&input.place, &call, operation).await
    }

    async fn delete(self, input: DeleteInput, call: Call) -> Result<Value, BindingError> {
        let operation = object([("op", "delete".into()), ("id", input.id.as_str().into())]);
        self.write(&input.place, &call, operation).await
    }

    /// Writes without having read: it never conflicts.
    async fn write(&self, place: &Place, call: &Call, operation: Data) -> Result<Value, BindingError> {
        refuse_functions(call)?;
        let receipt = self.commit(place, call, Data::List(vec![operation]), Data::List(Vec::new())).await;
        let receipt = receipt.map_err(told)?;
        Ok(json!({"seq": receipt.get("seq").and_then(Data::as_u64)}))
    }

    /// Reads, lets the script change it, commits; again if others were faster.
    async fn update(self, input: UpdateInput, call: Call) -> Result<Value, BindingError> {
        let change = function(&call, &input.change, "fn")?;
        for _ in 0..UPDATE_ATTEMPTS_MAX {
            let found = self.found(&input.place, &call, &input.id).await?;
            let before =
                found.document.as_ref().and_then(|document| document.get("value")).map(Data::to_plain);
            let before = before.unwrap_or_else(undefined);
            let after = change.call(vec![before.clone()], call.depth).await?;
            if after == undefined() || after == before {
                return Ok(json!({"seq": found.seq, "value": before}));
            }
            match self.replace_value(&input, &call, &found, &after).await {
                Ok(receipt) => {
                    let seq = receipt.get("seq").and_then(Data::as_u64);
                    return Ok(json!({"seq": seq, "value": after}));
                }
                Err(error) if error.name == "ConflictError" => {}
                Err(error) => return Err(told(error)),
            }
        }
        Err(told(ClientError::new(
            "ConflictError",
            format!("others were faster {UPDATE_ATTEMPTS_MAX} times"),
        )))
    }

    /// Only the value is replaced: what else the document has stays.
    async fn replace_value(
        &self,
        input: &UpdateInput,
        call: &Call,
        found: &Found,
        value: &Value,
    ) -> Result<Data, ClientError> {
        let id = || Data::from(input.id.as_str());
        let value = Data::from_plain(value.clone());
        let replace = object([("op", "replace".into()), ("path", "/value".into()), ("value", value)]);
        let operation =
            object([("op", "patch".into()), ("id", id()), ("patches", Data::List(vec![replace]))]);
        let path = Data::List(vec!["value".into()]);
        let read = object([("id", id()), ("path", path), ("seq", found.seq.into())]);
        self.commit(&input.place, call, Data::List(vec![operation]), Data::List(vec![read])).await
    }

    async fn ask_query(&self, place: &Place, call: &Call, query: Data) -> Result<Data, ClientError> {
        let at = self.peers.mounted(&place.space, place.peer.as_deref(), &call.session.principal.name)?;
        self.peers.ask(place.peer.as_deref(), |reply_tx| Ask::Query { at, query, reply_tx }).await
    }

    async fn commit(
        &self,
        place: &Place,
        call: &Call,
        operations: Data,
        confirmed: Data,
    ) -> Result<Data, ClientError> {
        let at = self.peers.mounted(&place.space, place.peer.as_deref(), &call.session.principal.name)?;
        let reads = object([("confirmed", confirmed), ("pending", Data::List(Vec::new()))]);
        let commit = object([("reads", reads), ("operations", operations)]);
        self.peers.ask(place.peer.as_deref(), |reply_tx| Ask::Transact { at, commit, reply_tx }).await
    }

    async fn found(&self, place: &Place, call: &Call, id: &str) -> Result<Found, BindingError> {
        let selector = object([("path", Data::List(Vec::new())), ("schema", Data::Bool(false))]);
        let root = object([("id", id.into()), ("selector", selector)]);
        let query = object([("roots", Data::List(vec![root]))]);
        let answer = self.ask_query(place, call, query).await.map_err(told)?;
        let entities = answer.get("entities").and_then(Data::as_list).unwrap_or_default();
        let entity = entities.iter().find(|entity| entity.get("id").and_then(Data::as_str) == Some(id));
        Ok(Found {
            seq: entity.and_then(|entity| entity.get("seq")).and_then(Data::as_u64).unwrap_or(0),
            document: entity
                .and_then(|entity| entity.get("document"))
                .filter(|data| data.as_map().is_some())
                .cloned(),
        })
    }
}

/// A document, if there is one.
struct Found {
    seq: u64,
    document: Option<Data>,
}

fn undefined() -> Value {
    json!({"$undefined": true})
}

fn below<'a>(value: &'a Data, step: &str) -> Option<&'a Data> {
    match value {
        Data::List(items) => items.get(super::path::index_of(step)?),
        Data::Map(_) => value.get(step),
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Tag(..) => None,
    }
}

fn function(call: &Call, place: &Value, name: &str) -> Result<FunctionRef, BindingError> {
    let missing = || BindingError::of_kind(Kind::InvalidInput, format!("expected a function as {name}"));
    call.function(place).ok_or_else(missing)
}

fn refuse_functions(call: &Call) -> Result<(), BindingError> {
    if call.functions.is_empty() {
        return Ok(());
    }
    Err(BindingError::of_kind(Kind::InvalidInput, "a function cannot be stored"))
}

/// A server's refusal as a script sees it: by its name.
fn told(error: ClientError) -> BindingError {
    let data = json!({"kind": error.name, "retryAfterSeq": error.retry_after_seq});
    BindingError::new(error.message).data(data)
}
