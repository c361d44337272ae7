//! Two principals at one gateway: each has its own sessions and agents.

use serde_json::{Value, json};

use super::support::principals::token_of;
use super::support::{Folder, Running, Wire};
use super::{chat_request, read_events, text_of};

fn create_folder(serve: Value) -> Folder {
    let routes = json!([{"agent": "clerk", "channel": "test"}]);
    let mut config =
        json!({"serve": {"routes": routes, "memory": {"path": "store.sqlite", "semantic": true}}});
    for (name, value) in serve.as_object().unwrap() {
        config["serve"][name] = value.clone();
    }
    let declaration = json!({"package": "exoclaw", "rust": "exoclaw", "config": config});
    Folder::with(&[("exoclaw.json", &declaration.to_string())])
}

async fn connect_as(server: &Running, principal: &str) -> Wire {
    // Exoclaw has no subprotocol of its own, so the token is sent with that of the server.
    let url = format!("{}exoclaw", server.url);
    let mut wire = Wire::with_token(&url, &token_of(principal)).await;
    assert_eq!(wire.json().await["ok"], true);
    wire
}

async fn request(wire: &mut Wire, method: &str, params: Value) -> Value {
    wire.text(&json!({"id": "q", "method": method, "params": params}).to_string()).await;
    wire.json().await["result"].clone()
}

const CLERK: &str = "await exoclaw.agent({ id: 'clerk', onChat: ({ content, history }) => `${content} ${history.length}` }); 0";

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_other_principals_are_inaccessible() {
    let folder = create_folder(json!({}));
    let server = Running::for_principals(folder.path(), &["ada", "bob"]).await;
    let mut script = Wire::live_as(&server.url, "ada").await;
    script.value(CLERK).await;
    let (mut ada, mut bob) = (connect_as(&server, "ada").await, connect_as(&server, "bob").await);
    ada.text(&chat_request("1", "u", "my name is Ada")).await;
    assert_eq!(text_of(&read_events(&mut ada).await), "my name is Ada 0");
    let origin = json!({"channel": "test", "account": "u"});
    assert_eq!(request(&mut bob, "chat.history", origin.clone()).await["messages"], json!([]));
    assert_eq!(request(&mut bob, "session.list", json!({})).await, json!([]));
    assert_eq!(request(&mut bob, "session.clear", origin.clone()).await["cleared"], 0);
    let search = json!({"channel": "test", "account": "u", "query": "name"});
    assert_eq!(request(&mut bob, "memory.search", search.clone()).await, json!([]));
    assert_eq!(request(&mut bob, "status", json!({})).await["sessions"], 0);
    bob.text(&chat_request("1", "u", "hi")).await;
    assert_eq!(text_of(&read_events(&mut bob).await), "hi 0", "the agent gets no history of ada's session");
    assert_eq!(request(&mut ada, "chat.history", origin).await["messages"].as_array().unwrap().len(), 2);
    assert_eq!(request(&mut ada, "memory.search", search).await.as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_with_sessions_stays_with_its_principal() {
    let folder = create_folder(json!({}));
    let server = Running::for_principals(folder.path(), &["ada", "bob"]).await;
    let mut script = Wire::live_as(&server.url, "ada").await;
    script.value(CLERK).await;
    let mut ada = connect_as(&server, "ada").await;
    ada.text(&chat_request("1", "u", "secret")).await;
    read_events(&mut ada).await;
    script.invoke("session.close", json!({})).await;
    let mut bob = Wire::live_as(&server.url, "bob").await;
    let (kind, message) = bob.failure(CLERK).await;
    assert_eq!(kind, "PermissionDenied", "{message}");
    Wire::live_as(&server.url, "ada").await.value(CLERK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_and_shared_settings_apply() {
    let folder = create_folder(json!({"owners": {"clerk": "ada"}}));
    let server = Running::for_principals(folder.path(), &["ada", "bob"]).await;
    let (kind, _) = Wire::live_as(&server.url, "bob").await.failure(CLERK).await;
    assert_eq!(kind, "PermissionDenied");
    let folder = create_folder(json!({"shared": true}));
    let server = Running::for_principals(folder.path(), &["ada", "bob"]).await;
    let mut script = Wire::live_as(&server.url, "ada").await;
    script.value(CLERK).await;
    let (mut ada, mut bob) = (connect_as(&server, "ada").await, connect_as(&server, "bob").await);
    ada.text(&chat_request("1", "u", "hello")).await;
    read_events(&mut ada).await;
    let history = request(&mut bob, "chat.history", json!({"channel": "test", "account": "u"})).await;
    assert_eq!(history["messages"].as_array().unwrap().len(), 2);
}
