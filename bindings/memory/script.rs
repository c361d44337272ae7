//! The handlers of the `memory.*` bindings.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::Handlers;
use super::client::{ClientError, Request, SpaceIdentity};
use super::codec::{Data, object};
use super::peers::Peers;
use crate::binding::{BindingError, Call, FunctionRef, add_effects_with_member, typed};
use crate::rpc::Kind;

mod watch;

/// Most attempts of an update whose document others write concurrently.
/// At each conflict another writer succeeded, so with fewer writers than this all of them succeed.
const UPDATE_ATTEMPTS_MAX: usize = 16;

/// State shared by the handlers.
#[derive(Clone)]
struct ScriptBindings {
    peers: Arc<Peers>,
    /// Numbers of watches in use. A free number is used again, and with it the session of its last
    /// watch.
    watches: Arc<Mutex<BTreeSet<u64>>>,
}

#[derive(Deserialize, Clone)]
struct SpaceInput {
    space: String,
    peer: Option<String>,
}

#[derive(Deserialize)]
struct ReadInput {
    #[serde(flatten)]
    target: SpaceInput,
    id: String,
    #[serde(default)]
    path: Vec<String>,
}

#[derive(Deserialize)]
struct QueryInput {
    #[serde(flatten)]
    target: SpaceInput,
    roots: Value,
    #[serde(rename = "atSeq")]
    at_seq: Option<u64>,
}

#[derive(Deserialize)]
struct TransactInput {
    #[serde(flatten)]
    target: SpaceInput,
    operations: Value,
    #[serde(default)]
    reads: Vec<Value>,
}

#[derive(Deserialize)]
struct SetInput {
    #[serde(flatten)]
    target: SpaceInput,
    id: String,
    value: Value,
}

#[derive(Deserialize)]
struct PatchInput {
    #[serde(flatten)]
    target: SpaceInput,
    id: String,
    patches: Value,
}

#[derive(Deserialize)]
struct DeleteInput {
    #[serde(flatten)]
    target: SpaceInput,
    id: String,
}

#[derive(Deserialize)]
struct UpdateInput {
    #[serde(flatten)]
    target: SpaceInput,
    id: String,
    #[serde(rename = "fn")]
    change: Value,
}

pub(super) fn build_handlers(peers: Arc<Peers>) -> Handlers {
    let bindings = ScriptBindings { peers, watches: Arc::default() };
    macro_rules! handler {
        ($method:ident) => {{
            let bindings = bindings.clone();
            let handler = typed(move |input, call| {
                let bindings = bindings.clone();
                async move { bindings.$method(input, call).await }
            });
            // A call with `peer` leaves this server.
            add_effects_with_member(handler, "peer", &["external"])
        }};
    }
    vec![
        ("memory.open", handler!(open)),
        ("memory.read", handler!(read)),
        ("memory.query", handler!(query)),
        ("memory.transact", handler!(transact)),
        ("memory.set", handler!(set)),
        ("memory.patch", handler!(patch)),
        ("memory.delete", handler!(delete)),
        ("memory.update", handler!(update)),
        ("memory.watch", handler!(watch)),
    ]
}

impl ScriptBindings {
    fn resolve_space(&self, target: &SpaceInput, call: &Call) -> Result<SpaceIdentity, BindingError> {
        self.peers
            .resolve_space(&target.space, target.peer.as_deref(), &call.session.principal.name)
            .map_err(to_binding_error)
    }

    async fn open(self, target: SpaceInput, call: Call) -> Result<Value, BindingError> {
        let space = self.resolve_space(&target, &call)?;
        let identity = space.identity.did().to_owned();
        let response = self
            .peers
            .request(target.peer.as_deref(), |reply_tx| Request::Open { target: space, reply_tx })
            .await;
        let response = response.map_err(to_binding_error)?.to_plain();
        Ok(json!({
            "space": target.space,
            "identity": identity,
            "sessionId": response["sessionId"],
            "serverSeq": response["serverSeq"],
        }))
    }

    async fn read(self, input: ReadInput, call: Call) -> Result<Value, BindingError> {
        let fetched = self.read_document(&input.target, &call, &input.id).await?;
        let mut value = fetched.document.as_ref().and_then(|document| document.get("value")).cloned();
        for step in &input.path {
            value = value.as_ref().and_then(|value| get_child(value, step)).cloned();
        }
        let mut read = json!({"seq": fetched.seq, "exists": fetched.document.is_some()});
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
        Ok(self.run_query(&input.target, &call, query).await.map_err(to_binding_error)?.to_plain())
    }

    async fn transact(self, input: TransactInput, call: Call) -> Result<Value, BindingError> {
        reject_functions(&call)?;
        let reads = Data::List(input.reads.into_iter().map(Data::from_plain).collect());
        let receipt = self.commit(&input.target, &call, Data::from_plain(input.operations), reads).await;
        Ok(receipt.map_err(to_binding_error)?.to_plain())
    }

    async fn set(self, input: SetInput, call: Call) -> Result<Value, BindingError> {
        let document = object([("value", Data::from_plain(input.value))]);
        let operation = object([("op", "set".into()), ("id", input.id.as_str().into()), ("value", document)]);
        self.write(&input.target, &call, operation).await
    }

    async fn patch(self, input: PatchInput, call: Call) -> Result<Value, BindingError> {
        let patches = Data::from_plain(input.patches);
        let operation =
            object([("op", "patch".into()), ("id", input.id.as_str().into()), ("patches", patches)]);
        self.write(&input.target, &call, operation).await
    }

    async fn delete(self, input: DeleteInput, call: Call) -> Result<Value, BindingError> {
        let operation = object([("op", "delete".into()), ("id", input.id.as_str().into())]);
        self.write(&input.target, &call, operation).await
    }

    /// Commits without reads, which cannot conflict.
    async fn write(&self, target: &SpaceInput, call: &Call, operation: Data) -> Result<Value, BindingError> {
        reject_functions(call)?;
        let receipt = self.commit(target, call, Data::List(vec![operation]), Data::List(Vec::new())).await;
        let receipt = receipt.map_err(to_binding_error)?;
        Ok(json!({"seq": receipt.get("seq").and_then(Data::as_u64)}))
    }

    /// Reads, calls the script's function and commits; repeats this after a conflict.
    async fn update(self, input: UpdateInput, call: Call) -> Result<Value, BindingError> {
        let change = expect_function(&call, &input.change, "fn")?;
        for _ in 0..UPDATE_ATTEMPTS_MAX {
            let fetched = self.read_document(&input.target, &call, &input.id).await?;
            let before =
                fetched.document.as_ref().and_then(|document| document.get("value")).map(Data::to_plain);
            let before = before.unwrap_or_else(undefined);
            let after = change.call(vec![before.clone()], call.depth).await?;
            if after == undefined() || after == before {
                return Ok(json!({"seq": fetched.seq, "value": before}));
            }
            match self.replace_value(&input, &call, &fetched, &after).await {
                Ok(receipt) => {
                    let seq = receipt.get("seq").and_then(Data::as_u64);
                    return Ok(json!({"seq": seq, "value": after}));
                }
                Err(error) if error.name == "ConflictError" => {}
                Err(error) => return Err(to_binding_error(error)),
            }
        }
        Err(to_binding_error(ClientError::new(
            "ConflictError",
            format!("update still conflicts after {UPDATE_ATTEMPTS_MAX} attempts"),
        )))
    }

    /// Replaces the value and keeps the other members of the document.
    async fn replace_value(
        &self,
        input: &UpdateInput,
        call: &Call,
        fetched: &FetchedDocument,
        value: &Value,
    ) -> Result<Data, ClientError> {
        let id = || Data::from(input.id.as_str());
        let value = Data::from_plain(value.clone());
        let replace = object([("op", "replace".into()), ("path", "/value".into()), ("value", value)]);
        let operation =
            object([("op", "patch".into()), ("id", id()), ("patches", Data::List(vec![replace]))]);
        let path = Data::List(vec!["value".into()]);
        let read = object([("id", id()), ("path", path), ("seq", fetched.seq.into())]);
        self.commit(&input.target, call, Data::List(vec![operation]), Data::List(vec![read])).await
    }

    async fn run_query(&self, target: &SpaceInput, call: &Call, query: Data) -> Result<Data, ClientError> {
        let space =
            self.peers.resolve_space(&target.space, target.peer.as_deref(), &call.session.principal.name)?;
        self.peers
            .request(target.peer.as_deref(), |reply_tx| Request::Query { target: space, query, reply_tx })
            .await
    }

    async fn commit(
        &self,
        target: &SpaceInput,
        call: &Call,
        operations: Data,
        confirmed: Data,
    ) -> Result<Data, ClientError> {
        let space =
            self.peers.resolve_space(&target.space, target.peer.as_deref(), &call.session.principal.name)?;
        let reads = object([("confirmed", confirmed), ("pending", Data::List(Vec::new()))]);
        let commit = object([("reads", reads), ("operations", operations)]);
        self.peers
            .request(target.peer.as_deref(), |reply_tx| Request::Transact { target: space, commit, reply_tx })
            .await
    }

    async fn read_document(
        &self,
        target: &SpaceInput,
        call: &Call,
        id: &str,
    ) -> Result<FetchedDocument, BindingError> {
        let selector = object([("path", Data::List(Vec::new())), ("schema", Data::Bool(false))]);
        let root = object([("id", id.into()), ("selector", selector)]);
        let query = object([("roots", Data::List(vec![root]))]);
        let response = self.run_query(target, call, query).await.map_err(to_binding_error)?;
        let entities = response.get("entities").and_then(Data::as_list).unwrap_or_default();
        let entity = entities.iter().find(|entity| entity.get("id").and_then(Data::as_str) == Some(id));
        Ok(FetchedDocument {
            seq: entity.and_then(|entity| entity.get("seq")).and_then(Data::as_u64).unwrap_or(0),
            document: entity
                .and_then(|entity| entity.get("document"))
                .filter(|data| data.as_map().is_some())
                .cloned(),
        })
    }
}

struct FetchedDocument {
    seq: u64,
    document: Option<Data>,
}

fn undefined() -> Value {
    json!({"$undefined": true})
}

fn get_child<'a>(value: &'a Data, step: &str) -> Option<&'a Data> {
    match value {
        Data::List(items) => items.get(super::path::parse_index(step)?),
        Data::Map(_) => value.get(step),
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Tag(..) => None,
    }
}

fn expect_function(call: &Call, value: &Value, name: &str) -> Result<FunctionRef, BindingError> {
    let missing = || BindingError::of_kind(Kind::InvalidInput, format!("{name}: expected a function"));
    call.function(value).ok_or_else(missing)
}

fn reject_functions(call: &Call) -> Result<(), BindingError> {
    if call.functions.is_empty() {
        return Ok(());
    }
    Err(BindingError::of_kind(Kind::InvalidInput, "functions cannot be stored"))
}

/// The protocol's error name becomes the kind of the script's error.
fn to_binding_error(error: ClientError) -> BindingError {
    let data = json!({"kind": error.name, "retryAfterSeq": error.retry_after_seq});
    BindingError::new(error.message).data(data)
}
