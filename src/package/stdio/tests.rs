//! The Rust client on the other end of a pair.

use futures_util::{SinkExt as _, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;
use crate::binding::BindingLimits;
use crate::client::Client;
use crate::transport::{Frame, Outgoing, pair};

#[derive(Deserialize, schemars::JsonSchema)]
struct Sum {
    a: f64,
    b: f64,
}

#[derive(Serialize, schemars::JsonSchema)]
struct Total {
    total: f64,
}

async fn add(input: Sum, _: Call) -> Result<Total, BindingError> {
    Ok(Total { total: input.a + input.b })
}

/// Calls the function in its input, and returns one of its own and the one it received.
async fn echo(input: Value, call: Call) -> Result<Value, BindingError> {
    let back = call.function(&input["back"]).ok_or_else(|| BindingError::new("no function"))?;
    let returned = back.call(vec![json!("hi")], call.depth).await?;
    let answer = call.invoke("ask", json!({"n": 1})).await?;
    let own =
        call.export("double", handler(|arguments, _| async move { Ok(json!([arguments[0], arguments[0]])) }));
    Ok(json!({"returned": returned, "answer": answer, "own": own, "back": input["back"]}))
}

fn package() -> Package {
    let echoes = crate::protocol::declaration::Declaration::named("echo");
    Package::new("sums").bind("add", "Adds two numbers.", add).with(
        echoes,
        BindingLimits::default(),
        handler(echo),
    )
}

async fn connected() -> Client {
    let (ours, theirs) = pair(16);
    tokio::spawn(serve_over(theirs, package()));
    Client::builder()
        .bind(
            "ask",
            "Adds one.",
            |input: Value| async move { Ok(json!(input["n"].as_i64().unwrap_or(0) + 1)) },
        )
        .connect_transport(ours)
        .await
        .unwrap()
}

#[tokio::test]
async fn bindings_are_declared_and_called_with_checked_input() {
    let client = connected().await;
    let names: Vec<_> = client.bindings().iter().map(|binding| binding["name"].clone()).collect();
    assert_eq!(names, ["add", "echo"]);
    assert_eq!(client.invoke("add", json!({"a": 1, "b": 2})).await.unwrap(), json!({"total": 3.0}));
    let refused = client.invoke("add", json!({"a": "1"})).await.unwrap_err();
    assert_eq!(refused.kind(), "InvalidInput");
    assert_eq!(client.invoke("sub", json!({})).await.unwrap_err().kind(), "UnknownBinding");
}

#[tokio::test]
async fn eval_is_an_unknown_method() {
    let refused = connected().await.eval("1").await.unwrap_err();
    assert_eq!((refused.kind(), refused.rpc().unwrap().code), ("UnknownMethod", -32601));
}

#[tokio::test]
async fn functions_travel_both_ways_until_they_are_released() {
    let client = connected().await;
    let back =
        client.export("back", |arguments, _| async move { Ok(json!({"got": arguments})) }).await.unwrap();
    let answer = client.invoke("echo", json!({"back": back})).await.unwrap();
    assert_eq!((&answer["returned"], &answer["answer"]), (&json!({"got": ["hi"]}), &json!(2)));
    let double = client.function(&answer["own"]).unwrap();
    assert_eq!(double.call(vec![json!(2)]).await.unwrap(), json!([2, 2]));
    let returned = client.function(&answer["back"]).unwrap();
    assert_eq!(returned.call(vec![json!(7)]).await.unwrap(), json!({"got": [7]}));
    drop(double);
    // The release goes out before the next request, so this one meets a function that is gone.
    client.invoke("add", json!({"a": 1, "b": 2})).await.unwrap();
    assert!(client.function(&answer["own"]).is_none());
}

/// The next text that the host sends.
async fn read_json(
    frames: &mut (impl futures_util::Stream<Item = Result<Frame, crate::transport::TransportError>> + Unpin),
) -> Value {
    match frames.next().await {
        Some(Ok(Frame::Text(text))) => serde_json::from_str(&text).unwrap(),
        other => panic!("expected a text, got {other:?}"),
    }
}

#[tokio::test]
async fn peer_ids_that_look_like_ours_name_the_peers_functions() {
    let (ours, theirs) = pair(16);
    tokio::spawn(serve_over(theirs, package()));
    let (mut sink, mut frames) = ours.split();
    let mut send = async |message: Value| sink.send(Outgoing::Text(message.to_string())).await.unwrap();
    let invoke =
        |id: u64, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": "invoke", "params": params});
    send(json!({"jsonrpc": "2.0", "id": 1, "method": "handshake", "params": {"protocol": PROTOCOL}})).await;
    read_json(&mut frames).await;
    send(invoke(2, json!({"binding": "echo", "input": {"back": {"$fn": "h1"}}}))).await;
    let called = read_json(&mut frames).await;
    assert_eq!(called["params"], json!({"ref": "h1", "args": ["hi"]}));
    // The host has not sent a function of its own yet.
    send(invoke(3, json!({"ref": "h1", "args": []}))).await;
    assert_eq!(read_json(&mut frames).await["error"]["data"]["kind"], "UnknownRef");
    for value in [json!("said"), json!({"$fn": "h2"})] {
        let id =
            if value == "said" { called["id"].clone() } else { read_json(&mut frames).await["id"].clone() };
        send(json!({"jsonrpc": "2.0", "id": id, "result": {"value": value}})).await;
    }
    let answer = read_json(&mut frames).await;
    let value = &answer["result"]["value"];
    assert_eq!(
        (&answer["id"], &value["own"]["$fn"], &value["back"]["$fn"]),
        (&json!(2), &json!("h1"), &json!("h2"))
    );
    assert_eq!(value["answer"], json!({"$fn": "1:h2"}), "a function of an answer is not one of ours");
    send(invoke(4, json!({"ref": "h1", "args": [7]}))).await;
    assert_eq!(read_json(&mut frames).await["result"]["value"], json!([7, 7]));
    send(json!({"jsonrpc": "2.0", "method": "release_ref", "params": {"ref": "h1", "count": 1}})).await;
    send(invoke(5, json!({"ref": "h1", "args": [7]}))).await;
    assert_eq!(read_json(&mut frames).await["error"]["data"]["kind"], "UnknownRef");
    // Passed back, the peer's own function was kept by ours until now.
    send(json!({"jsonrpc": "2.0", "method": "release_ref", "params": {"ref": "h2", "count": 1}})).await;
    assert_eq!(read_json(&mut frames).await["params"]["ref"], "h1");
}

#[tokio::test]
async fn package_is_built_from_its_configuration_or_refused() {
    let built = |config: Value| async move {
        let (ours, theirs) = pair(16);
        let build = |config: &Value| match config["name"].as_str() {
            Some(name) => Ok(Package::new("built").bind(name, "Adds two numbers.", add)),
            None => Err("a name is missing".to_owned()),
        };
        tokio::spawn(serve_built(theirs, build));
        let metadata = json!({"config": config});
        Client::builder().metadata(metadata).connect_transport(ours).await
    };
    let client = built(json!({"name": "plus"})).await.unwrap();
    assert_eq!(client.invoke("plus", json!({"a": 1, "b": 2})).await.unwrap(), json!({"total": 3.0}));
    assert!(built(json!({})).await.unwrap_err().to_string().contains("a name is missing"));
    assert!(built(json!({"name": "Array"})).await.unwrap_err().to_string().contains("/bindings/0/name"));
}

#[tokio::test]
async fn end_of_input_ends_the_package() {
    let (ours, theirs) = pair(16);
    let serving = tokio::spawn(serve_over(theirs, package()));
    drop(ours);
    assert!(serving.await.unwrap().is_ok());
}

#[tokio::test]
async fn package_with_a_bad_name_is_not_served() {
    let package = Package::new("bad").bind("Array", "No.", add);
    let PackageError(problems) = serve_over(pair(1).0, package).await.unwrap_err();
    assert_eq!(problems[0].path, "/bindings/0/name");
}
