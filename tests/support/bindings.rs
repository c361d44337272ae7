//! The server bindings that transcripts and tests call.

use std::sync::Arc;

use parking_lot::Mutex;
use scomp::binding::{BindingError, BindingLimits, Call, FunctionRef, Handler, handler};
use scomp::package::Package;
use scomp::protocol::declaration::Declaration;
use scomp::rpc::Kind;
use serde_json::{Value, json};

/// The package with all of them.
pub fn package() -> Package {
    let mut package = Package::new("tests").with(get_order(), BindingLimits::default(), handler(order)).with(
        declared("limited", json!({"name": "limited", "output": {"type": "null"}})),
        BindingLimits { timeout_ms: Some(100), concurrency: None },
        handler(|_, call: Call| async move {
            call.cancel.cancelled().await;
            Ok(Value::Null)
        }),
    );
    for (name, work) in plain_handlers() {
        package = package.with(Declaration::named(name), BindingLimits::default(), work);
    }
    package
        .with(
            declared("strict", json!({
                "name": "strict",
                "input": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
                "output": {"type": "integer", "maximum": 10},
            })),
            BindingLimits::default(),
            handler(|input, _| async move { Ok(input["n"].clone()) }),
        )
        .with(
            declared("each", json!({
                "name": "each",
                "input": {
                    "type": "object", "required": ["items", "visit"],
                    "properties": {"items": {"type": "array"}, "visit": {"type": "object", "required": ["$fn"]}},
                },
            })),
            BindingLimits::default(),
            handler(each),
        )
}

/// The handlers of bindings that declare only their name.
fn plain_handlers() -> [(&'static str, Arc<dyn Handler>); 12] {
    [
        ("echo", handler(|input, _| async move { Ok(input) })),
        (
            "forever",
            handler(|_, call: Call| async move {
                call.cancel.cancelled().await;
                Err(BindingError::of_kind(Kind::Cancelled, "the call was cancelled"))
            }),
        ),
        (
            "fail.coded",
            handler(|_, _| async {
                Err(BindingError::with_code(-7, "no such order")
                    .data(json!({"order": "o_9", "kind": "NoSuchOrder"})))
            }),
        ),
        ("fail.plain", handler(|_, _| async { Err(BindingError::new("out of paper")) })),
        ("fail.bare", handler(|_, _| async { Err(BindingError::with_code(5, "bare")) })),
        (
            "fail.panic",
            handler(|_, _| async {
                std::future::ready(()).await;
                panic!("a handler's own fault")
            }),
        ),
        ("relay", handler(relay)),
        ("apply", handler(apply)),
        ("memory.transact", handler(|input, _| async move { Ok(json!({"ok": input})) })),
        ("counter.make", handler(make_counter)),
        ("keeper.keep", handler(keep)),
        ("keeper.call", handler(call_kept)),
    ]
}

fn declared(what: &str, value: Value) -> Declaration {
    Declaration::from_file(&value).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// The declaration of the worked example.
fn get_order() -> Declaration {
    declared(
        "getOrder",
        json!({
            "name": "getOrder",
            "description": "Fetch an order by ID. Returns null if not found.",
            "input": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
            "output": {
                "oneOf": [{"$ref": "#/$defs/Order"}, {"type": "null"}],
                "$defs": {"Order": {"type": "object", "required": ["id", "total"]}},
            },
            "effects": ["read"],
        }),
    )
}

async fn order(input: Value, _call: Call) -> Result<Value, BindingError> {
    Ok(match input["id"].as_str() {
        Some("o_001") => json!({"id": "o_001", "total": 142.5}),
        _ => Value::Null,
    })
}

/// Calls another binding for the script: `{binding, input}`.
async fn relay(input: Value, call: Call) -> Result<Value, BindingError> {
    let binding = input["binding"].as_str().unwrap_or_default();
    call.invoke(binding, input["input"].clone()).await
}

/// Calls a function: `{fn, args}`.
async fn apply(input: Value, call: Call) -> Result<Value, BindingError> {
    let function = call.function(&input["fn"]).ok_or_else(|| BindingError::new("`fn` is not a function"))?;
    let arguments = input["args"].as_array().cloned().unwrap_or_default();
    function.call(arguments, call.depth).await
}

async fn each(input: Value, call: Call) -> Result<Value, BindingError> {
    let visit =
        call.function(&input["visit"]).ok_or_else(|| BindingError::new("`visit` is not a function"))?;
    let mut out = Vec::new();
    for item in input["items"].as_array().cloned().unwrap_or_default() {
        out.push(visit.call(vec![item], call.depth).await?);
    }
    Ok(Value::Array(out))
}

/// Returns a function that counts its calls.
async fn make_counter(_input: Value, call: Call) -> Result<Value, BindingError> {
    let count = Arc::new(Mutex::new(0_u64));
    Ok(call.export(
        "next",
        handler(move |_, _| {
            let mut count = count.lock();
            *count += 1;
            let now = *count;
            async move { Ok(json!(now)) }
        }),
    ))
}

/// The functions that `keeper.keep` holds beyond its call, by session.
static KEPT: Mutex<Vec<(String, FunctionRef)>> = Mutex::new(Vec::new());

async fn keep(input: Value, call: Call) -> Result<Value, BindingError> {
    let function = call.function(&input["fn"]).ok_or_else(|| BindingError::new("`fn` is not a function"))?;
    KEPT.lock().push((call.session.id.clone(), function));
    Ok(Value::Null)
}

async fn call_kept(input: Value, call: Call) -> Result<Value, BindingError> {
    let kept = KEPT.lock().iter().rev().find(|(session, _)| *session == call.session.id).cloned();
    let (_, function) = kept.ok_or_else(|| BindingError::new("nothing is kept"))?;
    function.call(vec![input], call.depth).await
}
