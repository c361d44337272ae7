//! Scripts that chat with remote gateways, which are other servers of this test.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::support::{Folder, Running, Wire};
use super::{Stub, folder, gateway_url, start};

/// A server with three remote gateways: one that works, one that rejects its token, and one that is
/// unreachable.
struct Setup {
    stub: Stub,
    _remote: [Running; 2],
    running: Running,
}

async fn set_up() -> Setup {
    let stub = Stub::start().await;
    let open = start("interop/exoclaw/default", &stub).await;
    let locked = start("interop/exoclaw/token", &stub).await;
    let variables = [("GATEWAY", gateway_url(&open)), ("LOCKED", gateway_url(&locked))];
    let variables = [(variables[0].0, variables[0].1.as_str()), (variables[1].0, variables[1].1.as_str())];
    let running = Running::folder_with(&folder("exoclaw/profiles/remote"), variables).await;
    let setup = Setup { stub, _remote: [open, locked], running };
    setup
        .wait_until(r#"(await exoclaw.gateways({})).find((one) => one.name === "here").state === "up""#)
        .await;
    setup
}

impl Setup {
    async fn eval(&self, code: &str) -> Value {
        let mut wire = Wire::live(&self.running.url).await;
        let answer = wire.request("eval", json!({"code": code})).await;
        answer.pointer("/result/value").unwrap_or_else(|| panic!("{code}: {answer}")).clone()
    }

    async fn failure(&self, code: &str) -> String {
        let mut wire = Wire::live(&self.running.url).await;
        let answer = wire.request("eval", json!({"code": code})).await;
        answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{code}: {answer}")).to_owned()
    }

    async fn wait_until(&self, condition: &str) {
        let condition_met = async { while self.eval(condition).await != json!(true) {} };
        tokio::time::timeout(std::time::Duration::from_secs(10), condition_met).await.expect(condition);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn short_calls_are_answered_over_the_link() {
    let setup = set_up().await;
    let code = r#"const gateway = "here"; [await exoclaw.ping({gateway}), await exoclaw.status({gateway}), await exoclaw.plugins({gateway})]"#;
    let expected = json!(["pong", {"version": "0.1.0", "plugins": 1, "sessions": 0}, [{"name": "echo"}]]);
    assert_eq!(setup.eval(code).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_resolves_to_the_collected_result() {
    let setup = set_up().await;
    let code = r#"
        const seen = [];
        const outcome = await exoclaw.chat({
            gateway: "here", channel: "test", account: "ada", content: "tool:echo", onEvent: ({event}) => { seen.push(event); },
        });
        ({seen, outcome})"#;
    let expected = json!({
        "seen": ["tool_use", "usage", "tool_result", "text", "usage", "done"],
        "outcome": {
            "text": "Tool said ok.", "usage": {"input_tokens": 300, "output_tokens": 50}, "error": null,
            "toolCalls": [{"id": "call_123", "name": "echo", "input": {"message": "hi"}, "result": "echo: hi", "isError": false}],
        },
    });
    assert_eq!(setup.eval(code).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_chat_resolves_with_the_error() {
    let setup = set_up().await;
    let code = |content: &str| {
        format!(
            r#"const it = await exoclaw.chat({{gateway: "here", channel: "t", account: "a", content: "{content}"}}); [it.text, it.error]"#
        )
    };
    assert_eq!(
        setup.eval(&code("cut")).await,
        json!(["partial", "provider error: error decoding response body"])
    );
    let longest_account = r#"(await exoclaw.chat({gateway: "here", channel: "t", account: "x".repeat(512), content: ""})).error"#;
    assert_eq!(setup.eval(longest_account).await, Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn chats_of_different_sessions_run_concurrently() {
    let setup = set_up().await;
    let code = r#"
        const chat = (account, content, onEvent) => exoclaw.chat({gateway: "here", channel: "t", account, content, onEvent});
        let start;
        const first = new Promise((resolve) => { start = resolve; });
        globalThis.slow = chat("ada", "hold", () => start());
        await first;
        [(await chat("bob", "hello")).text, await exoclaw.ping({gateway: "here"})]"#;
    let mut wire = Wire::live(&setup.running.url).await;
    let answer = wire.request("eval", json!({"code": code})).await;
    assert_eq!(answer["result"]["value"], json!(["Hello world", "pong"]));
    setup.stub.resume();
    let answer = wire.request("eval", json!({"code": "(await slow).text"})).await;
    assert_eq!(answer["result"]["value"], "one two");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_eval_stops_the_stream_at_the_gateway() {
    let setup = set_up().await;
    let mut wire = Wire::live(&setup.running.url).await;
    let code = r#"await exoclaw.chat({gateway: "here", channel: "t", account: "ada", content: "hold"})"#;
    let eval = wire.send("eval", json!({"code": code})).await;
    setup.stub.wait_for_open_answers(1).await;
    let cancel = json!({"binding": "session.cancel", "input": {"evalId": eval}});
    wire.send("invoke", cancel).await;
    setup.stub.wait_for_open_answers(0).await;
    assert_eq!(wire.answer(eval).await["error"]["data"]["kind"], "Cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn error_thrown_by_on_event_ends_the_chat() {
    let setup = set_up().await;
    let code = r#"await exoclaw.chat({gateway: "here", channel: "t", account: "ada", content: "hold", onEvent: () => { throw new Error("enough"); }})"#;
    assert!(setup.failure(code).await.contains("enough"));
    setup.stub.wait_for_open_answers(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_token_is_reported_and_not_retried() {
    let setup = set_up().await;
    setup
        .wait_until(
            r#"(await exoclaw.gateways({})).find((one) => one.name === "locked").state === "given up""#,
        )
        .await;
    for code in [
        r#"await exoclaw.ping({gateway: "locked"})"#,
        r#"await exoclaw.chat({gateway: "locked", channel: "t", account: "a", content: ""})"#,
    ] {
        let failure = setup.failure(code).await;
        assert!(
            failure.contains("auth_failed") && failure.contains("check `token` in the configuration"),
            "{failure}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_gateway_fails_calls_and_chats() {
    let setup = set_up().await;
    setup
        .wait_until(r#"(await exoclaw.gateways({})).find((one) => one.name === "nowhere").error != null"#)
        .await;
    for code in [
        r#"await exoclaw.ping({gateway: "nowhere"})"#,
        r#"await exoclaw.chat({gateway: "nowhere", channel: "t", account: "a", content: ""})"#,
    ] {
        let failure = setup.failure(code).await;
        assert!(failure.contains("nowhere: "), "{failure}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_gateway_error_lists_the_known_ones() {
    let setup = set_up().await;
    let unknown = setup.failure(r#"await exoclaw.ping({gateway: "x"})"#).await;
    assert!(unknown.contains("unknown gateway `x`; expected one of: here, locked, nowhere"), "{unknown}");
    let missing = setup.failure("await exoclaw.ping({})").await;
    assert!(missing.contains("gateway: expected one of: here, locked, nowhere"), "{missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_keeps_the_text_so_far_when_the_gateway_dies() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    // A gateway that answers `chat.send` with two text events and then closes the connection.
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
            tokio::spawn(async move {
                socket.send(Message::text(r#"{"ok":true,"version":"0.1.0"}"#)).await.unwrap();
                while let Some(Ok(frame)) = socket.next().await {
                    let Message::Text(text) = frame else { continue };
                    let request: Value = serde_json::from_str(text.as_str()).unwrap();
                    for word in ["one ", "two"] {
                        let event = json!({"id": request["id"], "event": "text", "data": word});
                        socket.send(Message::text(event.to_string())).await.unwrap();
                    }
                    return;
                }
            });
        }
    });
    let declaration =
        json!({"package": "exoclaw", "rust": "exoclaw", "config": {"gateways": {"far": {"url": url}}}});
    let folder = Folder::with(&[("exoclaw.json", &declaration.to_string())]);
    let running = Running::folder(folder.path()).await;
    let mut wire = Wire::live(&running.url).await;
    let chat =
        r#"const it = await exoclaw.chat({channel: "t", account: "a", content: "go"}); [it.text, it.error]"#;
    assert_eq!(wire.value(chat).await, json!(["one two", "far: the connection was lost"]));
}
