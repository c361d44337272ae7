//! Agents that are scripts, and the tools of those that are models.

use serde_json::{Value, json};

use super::support::Wire;
use super::{Stub, chat, events, gateway_url, greeted, start, text_of};

const MODELS: &str = "exoclaw/profiles/models";
const SCRIPTS: &str = "exoclaw/profiles/scripts";

async fn asked(profile: &str, account: &str, contents: &[&str]) -> Vec<Vec<Value>> {
    let stub = Stub::start().await;
    let running = start(profile, &stub).await;
    let mut wire = greeted(&running).await;
    let mut answers = Vec::new();
    for content in contents {
        wire.text(&chat("c", account, content)).await;
        answers.push(events(&mut wire).await);
    }
    answers
}

fn result_of(events: &[Value]) -> &Value {
    let result = events.iter().find(|event| event["event"] == "tool_result");
    &result.unwrap_or_else(|| panic!("no result in {events:?}"))["data"]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_streams_its_answer_and_remembers() {
    let answers = asked(SCRIPTS, "ada", &["hi", "again"]).await;
    let texts: Vec<&Value> = answers[0].iter().map(|event| &event["data"]).collect();
    assert_eq!(texts, [&json!("default:test:ada:main: "), &json!("hi"), &json!(" (0)"), &Value::Null]);
    assert_eq!(text_of(&answers[1]), "default:test:ada:main: again (2)");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_script_are_sent_in_order_and_its_usage_counts() {
    let answers = asked(SCRIPTS, "tools", &["look", "look again"]).await;
    let names: Vec<&Value> = answers[0].iter().map(|event| &event["event"]).collect();
    assert_eq!(names, ["tool_use", "tool_result", "text", "usage", "done"]);
    assert_eq!(result_of(&answers[0]), &json!({"tool_use_id": "t1", "content": "seen", "is_error": false}));
    let refused =
        json!([{"id": "c", "error": "token budget exceeded (session:tools:test:tools:main: 1000/1000)"}]);
    assert_eq!(json!(answers[1]), refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_script_throws_is_the_error_of_its_chat_and_the_turn_is_not_kept() {
    let answers = asked(SCRIPTS, "broken", &["hi"]).await;
    let expected = json!([
        {"id": "c", "event": "text", "data": "so far"},
        {"id": "c", "event": "error", "data": "out of patience"},
        {"id": "c", "event": "done"},
    ]);
    assert_eq!(json!(answers[0]), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_emitted_after_the_end_is_refused() {
    let answers = asked(SCRIPTS, "late", &["hi", "what happened?"]).await;
    assert_eq!(text_of(&answers[0]), "over");
    assert_eq!(text_of(&answers[1]), "emit: the chat is over");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_agent_a_message_is_refused() {
    let answers = asked(SCRIPTS, "nobody", &["hi"]).await;
    assert_eq!(json!(answers[0]), json!([{"id": "c", "error": "no agent configured for test:nobody:main"}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_its_sessions_alone_and_ends_with_it() {
    let stub = Stub::start().await;
    let running = start(SCRIPTS, &stub).await;
    let mut wire = greeted(&running).await;
    let (mut one, mut other) = (Wire::live(&running.url).await, Wire::live(&running.url).await);
    let register = |answer: &str| json!({"code": format!("await exoclaw.agent({{id: 'passing', onChat: () => '{answer}'}})")});
    let refused_take = other
        .request("eval", json!({"code": "await exoclaw.agent({id: 'default', onChat: () => ''})"}))
        .await;
    let message = refused_take["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("another session is the agent `default` already"), "{message}");
    for answer in ["first", "second"] {
        assert_eq!(one.request("eval", register(answer)).await.get("error"), None);
        wire.text(&chat("c", "passing", "hi")).await;
        assert_eq!(text_of(&events(&mut wire).await), answer);
    }
    one.request("invoke", json!({"binding": "session.close", "input": {}})).await;
    assert_eq!(other.request("eval", register("third")).await.get("error"), None);
    wire.text(&chat("c", "passing", "hi")).await;
    assert_eq!(text_of(&events(&mut wire).await), "third");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_the_configuration_is_not_replaced_by_a_script() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut wire = Wire::live(&running.url).await;
    let code = "await exoclaw.agent({id: 'default', onChat: () => ''})";
    let answer = wire.request("eval", json!({"code": code})).await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("the agent `default` is a model of the configuration"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_runs_code_in_a_session_and_gets_its_value() {
    let code =
        "tool:code:console.log('so'); await kv.set({key: 'n', value: 20}); (await kv.get({key: 'n'})) + 1.5";
    let answers = asked(MODELS, "ada", &[code]).await;
    assert_eq!(
        result_of(&answers[0]),
        &json!({"tool_use_id": "call_1", "content": "so\n21.5", "is_error": false})
    );
    assert_eq!(text_of(&answers[0]), "Tool said ok.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_fails_is_told_to_the_model_which_goes_on() {
    let answers = asked(MODELS, "ada", &["tool:kv_get", "tool:code:throw new Error('boom')"]).await;
    let refused = result_of(&answers[0]);
    assert_eq!(refused["is_error"], true);
    assert!(refused["content"].as_str().unwrap().contains("kv.get: input"), "{refused}");
    let thrown = result_of(&answers[1]);
    assert_eq!((&thrown["content"], &thrown["is_error"]), (&json!("Error: boom"), &json!(true)));
    assert_eq!(text_of(&answers[1]), "Tool said ok.");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_told_the_names_of_bindings_and_the_model_names_that_it_may_use() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut wire = greeted(&running).await;
    wire.text(&chat("c", "ada", "tool:kv_get")).await;
    let told = events(&mut wire).await;
    assert_eq!(told[0]["data"]["name"], "kv.get");
    let offered: Vec<Value> =
        stub.requests()[0]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(offered, ["eval", "kv_get", "kv_set", "kv_delete", "kv_list", "kv_cas"]);
    wire.text(r#"{"id":"p","method":"plugin.list"}"#).await;
    let listed = wire.json().await["result"].clone();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]), (6, &json!({"name": "eval"})));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_of_a_chat_ends_with_it() {
    let stub = Stub::start().await;
    let running = start(MODELS, &stub).await;
    let mut wire = greeted(&running).await;
    wire.text(&chat("c", "ada", "tool:code:globalThis.left = 1")).await;
    events(&mut wire).await;
    let emptied = async {
        while !running.server.directory().list(usize::MAX).await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), emptied).await.expect("no session is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_policy_refuses_or_would_ask_for_a_model_cannot_do() {
    let stub = Stub::start().await;
    let running = start("exoclaw/profiles/policy", &stub).await;
    let mut wire = Wire::open(&gateway_url(&running)).await;
    wire.text(r#"{"token":"secret-token"}"#).await;
    wire.json().await;
    let mut content_of = async |code: &str| {
        wire.text(&chat("c", "ada", &format!("tool:code:{code}"))).await;
        result_of(&events(&mut wire).await)["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(content_of("await kv.set({key: 'k', value: 1}); 'kept'").await, "kept");
    let denied = content_of("await kv.delete({key: 'k'})").await;
    assert!(denied.contains("kv.delete is not allowed here"), "{denied}");
    let unapproved = content_of("await kv.get({key: 'k'})").await;
    assert!(unapproved.contains("kv.get: no approval"), "{unapproved}");
}
