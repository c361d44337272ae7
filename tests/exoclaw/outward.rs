//! Scripts that chat with a gateway elsewhere, which here is another server of ours.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::support::{Folder, Running, Wire};
use super::{Stub, folder, gateway_url, start};

/// A server whose scripts reach a gateway, one with a token that they have not, and one that is not there.
struct Reaching {
    stub: Stub,
    _elsewhere: [Running; 2],
    running: Running,
}

async fn reaching() -> Reaching {
    let stub = Stub::start().await;
    let open = start("interop/exoclaw/default", &stub).await;
    let locked = start("interop/exoclaw/token", &stub).await;
    let variables = [("GATEWAY", gateway_url(&open)), ("LOCKED", gateway_url(&locked))];
    let variables = [(variables[0].0, variables[0].1.as_str()), (variables[1].0, variables[1].1.as_str())];
    let running = Running::folder_with(&folder("exoclaw/profiles/outward"), variables).await;
    let reaching = Reaching { stub, _elsewhere: [open, locked], running };
    reaching.until(r#"(await exoclaw.gateways({})).find((one) => one.name === "here").state === "up""#).await;
    reaching
}

impl Reaching {
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

    async fn until(&self, condition: &str) {
        let met = async { while self.eval(condition).await != json!(true) {} };
        tokio::time::timeout(std::time::Duration::from_secs(10), met).await.expect(condition);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn short_calls_are_answered_over_the_link() {
    let reaching = reaching().await;
    let code = r#"const gateway = "here"; [await exoclaw.ping({gateway}), await exoclaw.status({gateway}), await exoclaw.plugins({gateway})]"#;
    let expected = json!(["pong", {"version": "0.1.0", "plugins": 1, "sessions": 0}, [{"name": "echo"}]]);
    assert_eq!(reaching.eval(code).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_resolves_to_what_its_events_amount_to() {
    let reaching = reaching().await;
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
    assert_eq!(reaching.eval(code).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_in_a_chat_is_part_of_its_outcome() {
    let reaching = reaching().await;
    let code = |content: &str| {
        format!(
            r#"const it = await exoclaw.chat({{gateway: "here", channel: "t", account: "a", content: "{content}"}}); [it.text, it.error]"#
        )
    };
    assert_eq!(
        reaching.eval(&code("cut")).await,
        json!(["partial", "provider error: error decoding response body"])
    );
    let refused = r#"(await exoclaw.chat({gateway: "here", channel: "t", account: "x".repeat(512), content: ""})).error"#;
    assert_eq!(reaching.eval(refused).await, Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn chats_of_different_sessions_do_not_wait_for_each_other() {
    let reaching = reaching().await;
    let code = r#"
        const chat = (account, content, onEvent) => exoclaw.chat({gateway: "here", channel: "t", account, content, onEvent});
        let begun;
        const first = new Promise((resolve) => { begun = resolve; });
        globalThis.slow = chat("ada", "hold", () => begun());
        await first;
        [(await chat("bob", "hello")).text, await exoclaw.ping({gateway: "here"})]"#;
    let mut wire = Wire::live(&reaching.running.url).await;
    let answer = wire.request("eval", json!({"code": code})).await;
    assert_eq!(answer["result"]["value"], json!(["Hello world", "pong"]));
    reaching.stub.go_on();
    let answer = wire.request("eval", json!({"code": "(await slow).text"})).await;
    assert_eq!(answer["result"]["value"], "one two");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_the_eval_stops_the_stream_at_the_gateway() {
    let reaching = reaching().await;
    let mut wire = Wire::live(&reaching.running.url).await;
    let code = r#"await exoclaw.chat({gateway: "here", channel: "t", account: "ada", content: "hold"})"#;
    let eval = wire.send("eval", json!({"code": code})).await;
    reaching.stub.open_answers(1).await;
    let cancel = json!({"binding": "session.cancel", "input": {"evalId": eval}});
    wire.send("invoke", cancel).await;
    reaching.stub.open_answers(0).await;
    assert_eq!(wire.answer(eval).await["error"]["data"]["kind"], "Cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_throws_ends_its_chat() {
    let reaching = reaching().await;
    let code = r#"await exoclaw.chat({gateway: "here", channel: "t", account: "ada", content: "hold", onEvent: () => { throw new Error("enough"); }})"#;
    assert!(reaching.failure(code).await.contains("enough"));
    reaching.stub.open_answers(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_token_is_an_error_of_the_configuration_and_not_tried_again() {
    let reaching = reaching().await;
    reaching
        .until(r#"(await exoclaw.gateways({})).find((one) => one.name === "locked").state === "given up""#)
        .await;
    for code in [
        r#"await exoclaw.ping({gateway: "locked"})"#,
        r#"await exoclaw.chat({gateway: "locked", channel: "t", account: "a", content: ""})"#,
    ] {
        let failure = reaching.failure(code).await;
        assert!(
            failure.contains("auth_failed") && failure.contains("check `token` in the configuration"),
            "{failure}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_not_there_fails_at_once() {
    let reaching = reaching().await;
    reaching
        .until(r#"(await exoclaw.gateways({})).find((one) => one.name === "nowhere").error != null"#)
        .await;
    for code in [
        r#"await exoclaw.ping({gateway: "nowhere"})"#,
        r#"await exoclaw.chat({gateway: "nowhere", channel: "t", account: "a", content: ""})"#,
    ] {
        let failure = reaching.failure(code).await;
        assert!(failure.contains("nowhere: "), "{failure}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_no_gateway_has_is_told_with_those_that_there_are() {
    let reaching = reaching().await;
    let unknown = reaching.failure(r#"await exoclaw.ping({gateway: "x"})"#).await;
    assert!(unknown.contains("no gateway is called `x`; there are: here, locked, nowhere"), "{unknown}");
    let missing = reaching.failure("await exoclaw.ping({})").await;
    assert!(missing.contains("expected `gateway`, one of: here, locked, nowhere"), "{missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_keeps_the_text_so_far_when_the_gateway_dies() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    // Says hello, and on `chat.send` two words and nothing more.
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
