//! What a gateway does beside answering: who waits for whom, what is remembered for whom, and what a provider may do.

use serde_json::{Value, json};

use super::support::wire::Arrival;
use super::support::{Folder, Wire};
use super::{Stub, chat, events, gateway_url, greeted, start, text_of};

const MODELS: &str = "exoclaw/profiles/models";

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_stops_the_model_and_frees_the_session() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut leaving = greeted(&running).await;
    leaving.text(&chat("c", "ada", "hold")).await;
    assert_eq!(leaving.json().await["data"], "one ");
    stub.open_answers(1).await;
    drop(leaving);
    stub.open_answers(0).await;
    let mut next = greeted(&running).await;
    next.text(&chat("c", "ada", "history")).await;
    assert_eq!(text_of(&events(&mut next).await), r#"[["user","history"]]"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_used_before_it_left_is_counted() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut leaving = greeted(&running).await;
    leaving.text(&chat("c", "ada", "hold")).await;
    leaving.json().await;
    drop(leaving);
    stub.open_answers(0).await;
    let mut next = greeted(&running).await;
    next.text(&chat("c", "ada", "hello")).await;
    events(&mut next).await;
    let status =
        json!({"id": "b", "method": "budget.status", "params": {"channel": "test", "account": "ada"}});
    next.text(&status.to_string()).await;
    assert_eq!(next.json().await["result"]["session"]["used"], 150 + 192);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ping_is_answered_while_an_answer_streams() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut wire = greeted(&running).await;
    wire.text(&chat("c", "ada", "hold")).await;
    assert_eq!(wire.json().await["data"], "one ");
    wire.text(r#"{"id":"p","method":"ping"}"#).await;
    assert_eq!(wire.json().await, json!({"id": "p", "result": "pong"}));
    stub.go_on();
    assert_eq!(text_of(&events(&mut wire).await), "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_one_chat_at_a_time_and_who_waited_knows_the_turn_before() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let (mut first, mut second, mut other) =
        (greeted(&running).await, greeted(&running).await, greeted(&running).await);
    first.text(&chat("1", "ada", "hold")).await;
    assert_eq!(first.json().await["data"], "one ");
    second.text(&chat("2", "ada", "history")).await;
    other.text(&chat("3", "bob", "hello")).await;
    assert_eq!(text_of(&events(&mut other).await), "Hello world");
    assert_eq!(stub.requests().len(), 2, "the second chat of the session has to wait");
    stub.go_on();
    assert_eq!(text_of(&events(&mut first).await), "two");
    let told = text_of(&events(&mut second).await);
    assert_eq!(told, r#"[["user","hold"],["assistant","one two"],["user","history"]]"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_are_told_to_the_agent_of_their_account_only() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut wire = greeted(&running).await;
    for (account, content) in [("ada", "my name is Ada"), ("ada", "who am I?"), ("bob", "what is my name?")] {
        wire.text(&chat("c", account, content)).await;
        events(&mut wire).await;
    }
    let systems: Vec<Value> = stub.requests().iter().map(|request| request["system"].clone()).collect();
    let bare = json!("Be kind.\n\nYou are an old lobster.\n");
    assert_eq!((&systems[0], &systems[2]), (&bare, &bare));
    assert!(systems[1].as_str().unwrap().ends_with("\n- name: Ada"), "{}", systems[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn results_go_back_to_chat_completions_in_its_own_shapes() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut wire = greeted(&running).await;
    let params = json!({"channel": "openai", "account": "ada", "content": "tool:nosuch"});
    wire.text(&json!({"id": "c", "method": "chat.send", "params": params}).to_string()).await;
    assert_eq!(text_of(&events(&mut wire).await), "Tool said ok.");
    let follow_up = stub.requests().pop().unwrap();
    let function = json!({"name": "nosuch", "arguments": r#"{"message":"hi"}"#});
    let expected = json!([
        {"role": "user", "content": "tool:nosuch"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "call_123", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "call_123", "content": "error: unknown tool: nosuch"},
    ]);
    assert_eq!(follow_up["messages"], expected);
}

async fn ends_with_error(channel: &str, content: &str) -> String {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut wire = greeted(&running).await;
    let params = json!({"channel": channel, "account": "ada", "content": content});
    wire.text(&json!({"id": "c", "method": "chat.send", "params": params}).to_string()).await;
    let events = events(&mut wire).await;
    let [.., error, done] = events.as_slice() else { panic!("expected two events, got {events:?}") };
    assert_eq!(done, &json!({"id": "c", "event": "done"}));
    assert_eq!(error["event"], "error");
    error["data"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_stalls_is_an_error_and_then_done() {
    assert_eq!(ends_with_error("hasty", "hold").await, "provider error: the answer stalled for 200 ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_breaks_off_is_an_error_and_then_done() {
    assert_eq!(ends_with_error("test", "cut").await, "provider error: error decoding response body");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_answers_garbage_is_an_error_and_then_done() {
    assert_eq!(ends_with_error("test", "garbage").await, "provider error: expected an event stream");
    assert_eq!(ends_with_error("openai", "garbage").await, "provider error: expected an event stream");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_reports_an_error_in_its_answer_is_an_error_and_then_done() {
    assert_eq!(ends_with_error("test", "sseerror").await, "provider error: overloaded_error: Overloaded");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_remembered_can_be_asked_for_and_cleared() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut wire = greeted(&running).await;
    wire.text(&chat("c", "ada", "my dog is Luna")).await;
    events(&mut wire).await;
    let mut ask = async |method: &str, params: Value| {
        wire.text(&json!({"id": "q", "method": method, "params": params}).to_string()).await;
        wire.json().await["result"].clone()
    };
    let ada = json!({"channel": "test", "account": "ada"});
    let history = ask("chat.history", ada.clone()).await;
    let contents: Vec<&Value> =
        history["messages"].as_array().unwrap().iter().map(|message| &message["content"]).collect();
    assert_eq!(
        (&history["session"], contents),
        (&json!("default:test:ada:main"), vec![&json!("my dog is Luna"), &json!("Hello world")])
    );
    let search = |account: &str| json!({"channel": "test", "account": account, "query": "which DOG?"});
    assert_eq!(ask("memory.search", search("ada")).await, json!([{"subject": "dog", "value": "Luna"}]));
    assert_eq!(ask("memory.search", search("bob")).await, json!([]));
    let sessions = ask("session.list", json!({})).await;
    assert_eq!(
        (&sessions[0]["session"], &sessions[0]["turns"], &sessions[0]["tokens"]),
        (&json!("default:test:ada:main"), &json!(1), &json!(192))
    );
    let budget = ask("budget.status", ada.clone()).await;
    assert_eq!(
        (&budget["session"]["used"], &budget["daily"]),
        (&json!(192), &json!({"used": 192, "limit": null}))
    );
    assert_eq!(ask("session.clear", ada.clone()).await["cleared"], 1);
    assert_eq!(ask("chat.history", ada).await["messages"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_its_own_has_the_gateway_at_ws_and_a_health_page() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let (wanted, is_open) = running.server.listens().remove(0);
    assert_eq!((wanted.as_str(), is_open), ("127.0.0.1:0", true));
    let listener = tokio::net::TcpListener::bind(&wanted).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = running.server.clone();
    tokio::spawn(async move { server.serve_at(&wanted, listener).await });
    let mut wire = Wire::open(&format!("ws://{address}/ws")).await;
    assert_eq!(wire.json().await["ok"], true);
    assert_eq!(get(address, "/health").await, "ok");
}

/// The body of a page.
async fn get(address: std::net::SocketAddr, path: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_outlive_the_server_in_a_file() {
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
        wire.text(&chat("c", "ada", content)).await;
        assert_eq!(text_of(&events(&mut wire).await), expected);
        running.server.stop(std::time::Duration::ZERO).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_has_a_longest_length() {
    const MESSAGE_BYTES_MAX: usize = 16 << 20;
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let ping = r#"{"id":"p","method":"ping"}"#;
    let padded = |bytes: usize| format!("{ping}{}", " ".repeat(bytes - ping.len()));
    let mut wire = greeted(&running).await;
    wire.text(&padded(MESSAGE_BYTES_MAX)).await;
    assert_eq!(wire.json().await, json!({"id": "p", "result": "pong"}));
    wire.text(&padded(MESSAGE_BYTES_MAX + 1)).await;
    assert_eq!(wire.next().await, Arrival::Closed(1009));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_providers_failure_so_much_is_told() {
    const FAILURE_BYTES_MAX: usize = 16 << 10;
    let told = |bytes: usize| async move { ends_with_error("test", &format!("fail:{bytes}")).await };
    let status = "500 Internal Server Error: ";
    assert_eq!(told(FAILURE_BYTES_MAX).await.len(), status.len() + FAILURE_BYTES_MAX);
    assert_eq!(told(FAILURE_BYTES_MAX + 1).await.len(), status.len() + FAILURE_BYTES_MAX);
}
