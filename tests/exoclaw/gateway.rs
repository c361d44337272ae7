//! Disconnects, the order of chats, memory, and errors of providers.

use serde_json::{Value, json};

use super::support::wire::Arrival;
use super::support::{Folder, Wire};
use super::{Stub, chat_request, connect, gateway_url, read_events, start, text_of};

const MODELS: &str = "exoclaw/profiles/models";

#[tokio::test(flavor = "multi_thread")]
async fn disconnect_stops_the_model_and_unlocks_the_session() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut leaving = connect(&running).await;
    leaving.text(&chat_request("c", "ada", "hold")).await;
    assert_eq!(leaving.json().await["data"], "one ");
    stub.wait_for_open_answers(1).await;
    drop(leaving);
    stub.wait_for_open_answers(0).await;
    let mut next = connect(&running).await;
    next.text(&chat_request("c", "ada", "history")).await;
    assert_eq!(text_of(&read_events(&mut next).await), r#"[["user","history"]]"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_before_a_disconnect_is_counted() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut leaving = connect(&running).await;
    leaving.text(&chat_request("c", "ada", "hold")).await;
    leaving.json().await;
    drop(leaving);
    stub.wait_for_open_answers(0).await;
    let mut next = connect(&running).await;
    next.text(&chat_request("c", "ada", "hello")).await;
    read_events(&mut next).await;
    let status =
        json!({"id": "b", "method": "budget.status", "params": {"channel": "test", "account": "ada"}});
    next.text(&status.to_string()).await;
    assert_eq!(next.json().await["result"]["session"]["used"], 150 + 192);
}

#[tokio::test(flavor = "multi_thread")]
async fn ping_is_answered_during_a_stream() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut wire = connect(&running).await;
    wire.text(&chat_request("c", "ada", "hold")).await;
    assert_eq!(wire.json().await["data"], "one ");
    wire.text(r#"{"id":"p","method":"ping"}"#).await;
    assert_eq!(wire.json().await, json!({"id": "p", "result": "pong"}));
    stub.resume();
    assert_eq!(text_of(&read_events(&mut wire).await), "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_chat_of_a_session_sees_the_previous_turn() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let (mut first, mut second, mut other) =
        (connect(&running).await, connect(&running).await, connect(&running).await);
    first.text(&chat_request("1", "ada", "hold")).await;
    assert_eq!(first.json().await["data"], "one ");
    second.text(&chat_request("2", "ada", "history")).await;
    other.text(&chat_request("3", "bob", "hello")).await;
    assert_eq!(text_of(&read_events(&mut other).await), "Hello world");
    assert_eq!(stub.requests().len(), 2, "the second chat of the session waits");
    stub.resume();
    assert_eq!(text_of(&read_events(&mut first).await), "two");
    let history = text_of(&read_events(&mut second).await);
    assert_eq!(history, r#"[["user","hold"],["assistant","one two"],["user","history"]]"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_are_added_to_prompts_of_their_account_only() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut wire = connect(&running).await;
    for (account, content) in [("ada", "my name is Ada"), ("ada", "who am I?"), ("bob", "what is my name?")] {
        wire.text(&chat_request("c", account, content)).await;
        read_events(&mut wire).await;
    }
    let systems: Vec<Value> = stub.requests().iter().map(|request| request["system"].clone()).collect();
    let prompt = json!("Be kind.\n\nYou are an old lobster.\n");
    assert_eq!((&systems[0], &systems[2]), (&prompt, &prompt));
    assert!(systems[1].as_str().unwrap().ends_with("\n- name: Ada"), "{}", systems[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_results_are_sent_to_openai_as_tool_messages() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut wire = connect(&running).await;
    let params = json!({"channel": "openai", "account": "ada", "content": "tool:nosuch"});
    wire.text(&json!({"id": "c", "method": "chat.send", "params": params}).to_string()).await;
    assert_eq!(text_of(&read_events(&mut wire).await), "Tool said ok.");
    let follow_up = stub.requests().pop().unwrap();
    let function = json!({"name": "nosuch", "arguments": r#"{"message":"hi"}"#});
    let expected = json!([
        {"role": "user", "content": "tool:nosuch"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "call_123", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "call_123", "content": "error: unknown tool: nosuch"},
    ]);
    assert_eq!(follow_up["messages"], expected);
}

/// Sends a message whose answer ends with an error event and `done`. Returns the text of the error.
async fn chat_error(channel: &str, content: &str) -> String {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut wire = connect(&running).await;
    let params = json!({"channel": channel, "account": "ada", "content": content});
    wire.text(&json!({"id": "c", "method": "chat.send", "params": params}).to_string()).await;
    let events = read_events(&mut wire).await;
    let [.., error, done] = events.as_slice() else { panic!("expected two events, got {events:?}") };
    assert_eq!(done, &json!({"id": "c", "event": "done"}));
    assert_eq!(error["event"], "error");
    error["data"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_provider_ends_the_chat_with_an_error() {
    assert_eq!(chat_error("hasty", "hold").await, "provider error: the answer stalled for 200 ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_provider_connection_ends_the_chat_with_an_error() {
    assert_eq!(chat_error("test", "cut").await, "provider error: error decoding response body");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_provider_answer_ends_the_chat_with_an_error() {
    assert_eq!(chat_error("test", "garbage").await, "provider error: expected an event stream");
    assert_eq!(chat_error("openai", "garbage").await, "provider error: expected an event stream");
}

#[tokio::test(flavor = "multi_thread")]
async fn error_event_of_a_provider_ends_the_chat_with_an_error() {
    assert_eq!(chat_error("test", "sseerror").await, "provider error: overloaded_error: Overloaded");
}

#[tokio::test(flavor = "multi_thread")]
async fn history_facts_and_budget_can_be_queried_and_cleared() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut wire = connect(&running).await;
    wire.text(&chat_request("c", "ada", "my dog is Luna")).await;
    read_events(&mut wire).await;
    let mut request = async |method: &str, params: Value| {
        wire.text(&json!({"id": "q", "method": method, "params": params}).to_string()).await;
        wire.json().await["result"].clone()
    };
    let ada = json!({"channel": "test", "account": "ada"});
    let history = request("chat.history", ada.clone()).await;
    let contents: Vec<&Value> =
        history["messages"].as_array().unwrap().iter().map(|message| &message["content"]).collect();
    assert_eq!(
        (&history["session"], contents),
        (&json!("default:test:ada:main"), vec![&json!("my dog is Luna"), &json!("Hello world")])
    );
    let search = |account: &str| json!({"channel": "test", "account": account, "query": "which DOG?"});
    assert_eq!(request("memory.search", search("ada")).await, json!([{"subject": "dog", "value": "Luna"}]));
    assert_eq!(request("memory.search", search("bob")).await, json!([]));
    let sessions = request("session.list", json!({})).await;
    assert_eq!(
        (&sessions[0]["session"], &sessions[0]["turns"], &sessions[0]["tokens"]),
        (&json!("default:test:ada:main"), &json!(1), &json!(192))
    );
    let budget = request("budget.status", ada.clone()).await;
    assert_eq!(
        (&budget["session"]["used"], &budget["daily"]),
        (&json!(192), &json!({"used": 192, "limit": null}))
    );
    assert_eq!(request("session.clear", ada.clone()).await["cleared"], 1);
    assert_eq!(request("chat.history", ada).await["messages"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn own_address_serves_the_gateway_and_a_health_page() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let (listen, is_open) = running.server.listens().remove(0);
    assert_eq!((listen.as_str(), is_open), ("127.0.0.1:0", true));
    let listener = tokio::net::TcpListener::bind(&listen).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = running.server.clone();
    tokio::spawn(async move { server.serve_at(&listen, listener).await });
    let mut wire = Wire::open(&format!("ws://{address}/ws")).await;
    assert_eq!(wire.json().await["ok"], true);
    assert_eq!(get(address, "/health").await, "ok");
}

/// Requests a page and returns its body.
async fn get(address: std::net::SocketAddr, path: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_in_a_file_survive_a_restart() {
    let stub = Stub::start().await;
    let endpoint = format!("{}/v1/messages", stub.url);
    let agent = json!({"provider": "anthropic", "model": "stub", "endpoint": endpoint, "apiKey": "k"});
    let serve = json!({"agents": {"default": agent}, "memory": {"path": "turns.sqlite"}});
    let declaration = json!({"package": "exoclaw", "rust": "exoclaw", "config": {"serve": serve}});
    let folder = Folder::with(&[("exoclaw.json", &declaration.to_string())]);
    for (content, expected) in [
        ("hello", "Hello world"),
        ("history", r#"[["user","hello"],["assistant","Hello world"],["user","history"]]"#),
    ] {
        let running = super::Running::folder(folder.path()).await;
        let mut wire = Wire::open(&gateway_url(&running)).await;
        wire.json().await;
        wire.text(&chat_request("c", "ada", content)).await;
        assert_eq!(text_of(&read_events(&mut wire).await), expected);
        running.server.stop(std::time::Duration::ZERO).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn message_past_the_limit_closes_with_1009() {
    const MESSAGE_BYTES_MAX: usize = 16 << 20;
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let ping = r#"{"id":"p","method":"ping"}"#;
    let padded = |bytes: usize| format!("{ping}{}", " ".repeat(bytes - ping.len()));
    let mut wire = connect(&running).await;
    wire.text(&padded(MESSAGE_BYTES_MAX)).await;
    assert_eq!(wire.json().await, json!({"id": "p", "result": "pong"}));
    wire.text(&padded(MESSAGE_BYTES_MAX + 1)).await;
    assert_eq!(wire.next().await, Arrival::Closed(1009));
}

#[tokio::test(flavor = "multi_thread")]
async fn error_body_of_a_provider_is_truncated() {
    const ERROR_BODY_BYTES_MAX: usize = 16 << 10;
    let error = |bytes: usize| async move { chat_error("test", &format!("fail:{bytes}")).await };
    let status = "500 Internal Server Error: ";
    assert_eq!(error(ERROR_BODY_BYTES_MAX).await.len(), status.len() + ERROR_BODY_BYTES_MAX);
    assert_eq!(error(ERROR_BODY_BYTES_MAX + 1).await.len(), status.len() + ERROR_BODY_BYTES_MAX);
}
