//! Two principals at one gateway: each has its own sessions, and its own agents.

use serde_json::{Value, json};

use super::support::principals::token_of;
use super::support::{Folder, Running, Wire};
use super::{chat, events, text_of};

fn declared(serve: Value) -> Folder {
    let routes = json!([{"agent": "clerk", "channel": "test"}]);
    let mut config =
        json!({"serve": {"routes": routes, "memory": {"path": "kept.sqlite", "semantic": true}}});
    for (name, value) in serve.as_object().unwrap() {
        config["serve"][name] = value.clone();
    }
    let declaration = json!({"package": "exoclaw", "rust": "exoclaw", "config": config});
    Folder::with(&[("exoclaw.json", &declaration.to_string())])
}

async fn client(server: &Running, principal: &str) -> Wire {
    // This protocol has no subprotocol, so the token is shown under another's name.
    let request = format!("{}exoclaw", server.url);
    let mut wire = Wire::with_token(&request, &token_of(principal)).await;
    assert_eq!(wire.json().await["ok"], true);
    wire
}

async fn answer(wire: &mut Wire, method: &str, params: Value) -> Value {
    wire.text(&json!({"id": "q", "method": method, "params": params}).to_string()).await;
    wire.json().await["result"].clone()
}

const CLERK: &str = "await exoclaw.agent({ id: 'clerk', onChat: ({ content, history }) => `${content} ${history.length}` }); 0";

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_one_principal_are_closed_to_another() {
    let folder = declared(json!({}));
    let server = Running::for_principals(folder.path(), &["ada", "bob"]).await;
    let mut script = Wire::live_as(&server.url, "ada").await;
    script.value(CLERK).await;
    let (mut ada, mut bob) = (client(&server, "ada").await, client(&server, "bob").await);
    ada.text(&chat("1", "u", "my name is Ada")).await;
    assert_eq!(text_of(&events(&mut ada).await), "my name is Ada 0");
    let place = json!({"channel": "test", "account": "u"});
    assert_eq!(answer(&mut bob, "chat.history", place.clone()).await["messages"], json!([]));
    assert_eq!(answer(&mut bob, "session.list", json!({})).await, json!([]));
    assert_eq!(answer(&mut bob, "session.clear", place.clone()).await["cleared"], 0);
    let search = json!({"channel": "test", "account": "u", "query": "name"});
    assert_eq!(answer(&mut bob, "memory.search", search.clone()).await, json!([]));
    assert_eq!(answer(&mut bob, "status", json!({})).await["sessions"], 0);
    bob.text(&chat("1", "u", "hi")).await;
    assert_eq!(text_of(&events(&mut bob).await), "hi 0", "the agent is told nothing of ada's session");
    assert_eq!(answer(&mut ada, "chat.history", place).await["messages"].as_array().unwrap().len(), 2);
    assert_eq!(answer(&mut ada, "memory.search", search).await.as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_with_sessions_stays_its_principals() {
    let folder = declared(json!({}));
    let server = Running::for_principals(folder.path(), &["ada", "bob"]).await;
    let mut script = Wire::live_as(&server.url, "ada").await;
    script.value(CLERK).await;
    let mut ada = client(&server, "ada").await;
    ada.text(&chat("1", "u", "secret")).await;
    events(&mut ada).await;
    script.invoke("session.close", json!({})).await;
    let mut bob = Wire::live_as(&server.url, "bob").await;
    let (kind, message) = bob.failure(CLERK).await;
    assert_eq!(kind, "PermissionDenied", "{message}");
    Wire::live_as(&server.url, "ada").await.value(CLERK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_names_owners_or_shares_all() {
    let folder = declared(json!({"owners": {"clerk": "ada"}}));
    let server = Running::for_principals(folder.path(), &["ada", "bob"]).await;
    let (kind, _) = Wire::live_as(&server.url, "bob").await.failure(CLERK).await;
    assert_eq!(kind, "PermissionDenied");
    let folder = declared(json!({"shared": true}));
    let server = Running::for_principals(folder.path(), &["ada", "bob"]).await;
    let mut script = Wire::live_as(&server.url, "ada").await;
    script.value(CLERK).await;
    let (mut ada, mut bob) = (client(&server, "ada").await, client(&server, "bob").await);
    ada.text(&chat("1", "u", "hello")).await;
    events(&mut ada).await;
    let history = answer(&mut bob, "chat.history", json!({"channel": "test", "account": "u"})).await;
    assert_eq!(history["messages"].as_array().unwrap().len(), 2);
}
