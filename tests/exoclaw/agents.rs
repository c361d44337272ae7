//! Script agents, and the tools of model agents.

use serde_json::{Value, json};

use super::support::Wire;
use super::{Stub, chat_request, connect, gateway_url, read_events, start, text_of};

const MODELS: &str = "exoclaw/profiles/models";
const SCRIPTS: &str = "exoclaw/profiles/scripts";

/// Sends messages to a new server and returns the events of each answer.
async fn chat(profile: &str, account: &str, contents: &[&str]) -> Vec<Vec<Value>> {
    let stub = Stub::start().await;
    let running = start(profile, &stub).await;
    let mut wire = connect(&running).await;
    let mut answers = Vec::new();
    for content in contents {
        wire.text(&chat_request("c", account, content)).await;
        answers.push(read_events(&mut wire).await);
    }
    answers
}

fn result_of(events: &[Value]) -> &Value {
    let result = events.iter().find(|event| event["event"] == "tool_result");
    &result.unwrap_or_else(|| panic!("expected a tool result in {events:?}"))["data"]
}

#[tokio::test(flavor = "multi_thread")]
async fn script_agent_streams_its_answer_and_gets_history() {
    let answers = chat(SCRIPTS, "ada", &["hi", "again"]).await;
    let texts: Vec<&Value> = answers[0].iter().map(|event| &event["data"]).collect();
    assert_eq!(texts, [&json!("default:test:ada:main: "), &json!("hi"), &json!(" (0)"), &Value::Null]);
    assert_eq!(text_of(&answers[1]), "default:test:ada:main: again (2)");
}

#[tokio::test(flavor = "multi_thread")]
async fn script_events_are_sent_in_order_and_usage_counts() {
    let answers = chat(SCRIPTS, "tools", &["look", "look again"]).await;
    let names: Vec<&Value> = answers[0].iter().map(|event| &event["event"]).collect();
    assert_eq!(names, ["tool_use", "tool_result", "text", "usage", "done"]);
    assert_eq!(result_of(&answers[0]), &json!({"tool_use_id": "t1", "content": "seen", "is_error": false}));
    let rejected =
        json!([{"id": "c", "error": "token budget exceeded (session:tools:test:tools:main: 1000/1000)"}]);
    assert_eq!(json!(answers[1]), rejected);
}

#[tokio::test(flavor = "multi_thread")]
async fn error_thrown_by_a_script_ends_the_chat() {
    let answers = chat(SCRIPTS, "broken", &["hi"]).await;
    let expected = json!([
        {"id": "c", "event": "text", "data": "so far"},
        {"id": "c", "event": "error", "data": "out of range"},
        {"id": "c", "event": "done"},
    ]);
    assert_eq!(json!(answers[0]), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn emit_after_the_end_of_the_chat_fails() {
    let answers = chat(SCRIPTS, "late", &["hi", "what happened?"]).await;
    assert_eq!(text_of(&answers[0]), "over");
    assert_eq!(text_of(&answers[1]), "emit: the chat has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn message_for_unregistered_agent_is_rejected() {
    let answers = chat(SCRIPTS, "unregistered", &["hi"]).await;
    assert_eq!(
        json!(answers[0]),
        json!([{"id": "c", "error": "no agent configured for test:unregistered:main"}])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_belongs_to_one_session_and_ends_with_it() {
    let stub = Stub::start().await;
    let running = start(SCRIPTS, &stub).await;
    let mut wire = connect(&running).await;
    let (mut one, mut other) = (Wire::live(&running.url).await, Wire::live(&running.url).await);
    let register = |answer: &str| json!({"code": format!("await exoclaw.agent({{id: 'passing', onChat: () => '{answer}'}})")});
    let rejected = other
        .request("eval", json!({"code": "await exoclaw.agent({id: 'default', onChat: () => ''})"}))
        .await;
    let message = rejected["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("agent `default` is already registered by another session"), "{message}");
    for answer in ["first", "second"] {
        assert_eq!(one.request("eval", register(answer)).await.get("error"), None);
        wire.text(&chat_request("c", "passing", "hi")).await;
        assert_eq!(text_of(&read_events(&mut wire).await), answer);
    }
    one.request("invoke", json!({"binding": "session.close", "input": {}})).await;
    assert_eq!(other.request("eval", register("third")).await.get("error"), None);
    wire.text(&chat_request("c", "passing", "hi")).await;
    assert_eq!(text_of(&read_events(&mut wire).await), "third");
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_model_cannot_be_registered_by_a_script() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut wire = Wire::live(&running.url).await;
    let code = "await exoclaw.agent({id: 'default', onChat: () => ''})";
    let answer = wire.request("eval", json!({"code": code})).await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("agent `default` is a configured model"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn eval_tool_returns_console_lines_and_value() {
    let code =
        "tool:code:console.log('so'); await kv.set({key: 'n', value: 20}); (await kv.get({key: 'n'})) + 1.5";
    let answers = chat(MODELS, "ada", &[code]).await;
    assert_eq!(
        result_of(&answers[0]),
        &json!({"tool_use_id": "call_1", "content": "so\n21.5", "is_error": false})
    );
    assert_eq!(text_of(&answers[0]), "Tool said ok.");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_tool_is_reported_to_the_model() {
    let answers = chat(MODELS, "ada", &["tool:kv_get", "tool:code:throw new Error('boom')"]).await;
    let rejected = result_of(&answers[0]);
    assert_eq!(rejected["is_error"], true);
    assert!(rejected["content"].as_str().unwrap().contains("kv.get: "), "{rejected}");
    let thrown = result_of(&answers[1]);
    assert_eq!((&thrown["content"], &thrown["is_error"]), (&json!("Error: boom"), &json!(true)));
    assert_eq!(text_of(&answers[1]), "Tool said ok.");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_have_binding_names_and_the_model_tool_names() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut wire = connect(&running).await;
    wire.text(&chat_request("c", "ada", "tool:kv_get")).await;
    let seen = read_events(&mut wire).await;
    assert_eq!(seen[0]["data"]["name"], "kv.get");
    let offered: Vec<Value> =
        stub.requests()[0]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(offered, ["eval", "kv_get", "kv_set", "kv_delete", "kv_list", "kv_cas"]);
    wire.text(r#"{"id":"p","method":"plugin.list"}"#).await;
    let listed = wire.json().await["result"].clone();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]), (6, &json!({"name": "eval"})));
}

#[tokio::test(flavor = "multi_thread")]
async fn session_of_the_tools_is_closed_after_the_chat() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut wire = connect(&running).await;
    wire.text(&chat_request("c", "ada", "tool:code:globalThis.left = 1")).await;
    read_events(&mut wire).await;
    let all_closed = async {
        while !running.server.sessions(usize::MAX).await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), all_closed)
        .await
        .expect("the session should be closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_of_the_token_principal_applies_to_tools() {
    let stub = Stub::start().await;
    let running = start("exoclaw/profiles/policy", &stub).await;
    let mut wire = Wire::open(&gateway_url(&running)).await;
    wire.text(r#"{"token":"secret-token"}"#).await;
    wire.json().await;
    let mut content_of = async |code: &str| {
        wire.text(&chat_request("c", "ada", &format!("tool:code:{code}"))).await;
        result_of(&read_events(&mut wire).await)["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(content_of("await kv.set({key: 'k', value: 1}); 'kept'").await, "kept");
    let denied = content_of("await kv.delete({key: 'k'})").await;
    assert!(denied.contains("kv.delete is not allowed here"), "{denied}");
    let not_approved = content_of("await kv.get({key: 'k'})").await;
    assert!(not_approved.contains("kv.get: no approval"), "{not_approved}");
}
