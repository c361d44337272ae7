//! Servers whose tools change: live sessions see it with their next eval.

use serde_json::{Value, json};

use crate::servers::{Listening, Session, free_port};
use crate::support::Wire;

/// A tool is added while a session is open; the session's client learns of it, and its next eval has it.
async fn grows(session: &Session, package: &str) {
    let changed = json!({"bindings": [{"name": "bindings.changed"}]});
    let (mut wire, _) = Wire::live_with(&session.running.url, changed).await;
    assert_eq!(wire.value(&format!("typeof {package}.added")).await, json!("undefined"));
    let id = wire.send("eval", json!({"code": format!("await {package}.grow({{}}); 0")})).await;
    let (mut is_answered, mut announced) = (false, Value::Null);
    while !is_answered || announced.is_null() {
        let message = wire.json().await;
        match message.get("method") {
            None => {
                assert_eq!(message["id"], json!(id));
                is_answered = true;
            }
            Some(_) => {
                announced = message["params"]["input"]["added"].clone();
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"value": null}});
                wire.text(&answer.to_string()).await;
            }
        }
    }
    assert_eq!(announced, json!([format!("{package}.added")]));
    let value = wire.value(&format!("await {package}.added({{}})")).await;
    assert!(value == json!("added") || value == json!({"result": "added"}), "{value}");
}

#[tokio::test]
async fn added_tool_reaches_a_live_session() {
    grows(&Session::hostile("plain", 0).await, "hostile").await;
}

#[tokio::test]
async fn added_tool_of_the_newest_revision_reaches_a_live_session() {
    grows(&Session::sdk().await, "sdk").await;
}

#[tokio::test]
async fn added_tool_reaches_a_live_session_over_http() {
    let server = Listening::sdk(free_port());
    grows(&Session::start("sdk", json!({"url": server.url}), &[]).await, "sdk").await;
}
