//! Evals, calls both ways, and functions as values.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::sync::Notify;

use super::super::machine::{INVOKES_QUEUED_MAX, INVOKES_RUNNING_MAX};
use super::*;
use crate::client::{CallError, ConsoleLine};
use crate::protocol::methods::EvalParams;
use crate::rpc::{ErrorObject, Kind};

#[tokio::test]
async fn eval_returns_value_console_and_stats() {
    let (client, mut script) = connected(Client::builder()).await;
    let params = EvalParams { code: "1".into(), stats: true, timeout_ms: Some(9), ..EvalParams::default() };
    let answering = async {
        script
            .expect(
                json!({"id": 2, "method": "eval", "params": {"code": "1", "timeoutMs": 9, "stats": true}}),
            )
            .await;
        let console = json!([{"level": "log", "text": "hi", "atMs": 3}]);
        let stats = json!({"cpuMs": 1.5, "wallMs": 2, "bindingCalls": 1, "memoryBytes": 10});
        let result = json!({"value": null, "console": console, "consoleDropped": 4, "stats": stats});
        script.send(json!({"id": 2, "result": result})).await;
    };
    let (output, ()) = tokio::join!(client.eval_with(params), answering);
    let output = output.unwrap();
    assert_eq!((output.value, output.console_dropped), (json!(null), 4));
    assert_eq!(output.console[0].text, "hi");
    assert_eq!(output.stats.unwrap().binding_calls, 1);
}

#[tokio::test]
async fn answer_without_value_is_unexpected() {
    let (client, mut script) = connected(Client::builder()).await;
    let answering = async {
        script.next().await;
        script.send(json!({"id": 2, "result": {}})).await;
        script.next().await;
        script.send(json!({"id": 3, "result": []})).await;
    };
    let calls = async { (client.eval("1").await, client.invoke("a", json!(1)).await) };
    let ((eval, invoke), ()) = tokio::join!(calls, answering);
    assert_eq!((eval.unwrap_err().kind(), invoke.unwrap_err().kind()), ("Unexpected", "Unexpected"));
}

#[tokio::test]
async fn server_errors_keep_their_kind_and_data() {
    let (client, mut script) = connected(Client::builder()).await;
    let answering = async {
        script.next().await;
        let data = json!({"kind": "Timeout", "stack": "at 1"});
        script.send(json!({"id": 2, "error": {"code": -32000, "message": "too slow", "data": data}})).await;
    };
    let (outcome, ()) = tokio::join!(client.eval("for(;;);"), answering);
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), "Timeout");
    assert_eq!(error.rpc().unwrap().data.as_ref().unwrap()["stack"], "at 1");
}

#[tokio::test]
async fn running_eval_is_cancelled_by_its_id() {
    let (client, mut script) = connected(Client::builder()).await;
    let pending = client.start_eval(EvalParams { code: "x".into(), ..EvalParams::default() }).await.unwrap();
    let cancelling = async {
        let id = script.next().await["id"].clone();
        let params = json!({"binding": "session.cancel", "input": {"evalId": id}});
        script.expect(json!({"id": 3, "method": "invoke", "params": params})).await;
        script.send(json!({"id": 3, "result": {"value": [id]}})).await;
        let error = ErrorObject::new(Kind::Cancelled, "cancelled");
        script.send(json!({"id": id, "error": error})).await;
    };
    let (ended, ()) = tokio::join!(pending.cancel(), cancelling);
    assert_eq!(ended.unwrap(), json!([2]));
    assert_eq!(pending.await.unwrap_err().kind(), "Cancelled");
}

#[tokio::test]
async fn server_calls_run_concurrently_while_an_eval_waits() {
    let gate = Arc::new(Notify::new());
    let held = Arc::clone(&gate);
    let builder = Client::builder().bind("add", "", |(a, b): (i64, i64)| async move { Ok(a + b) }).binding(
        "slow",
        "",
        None,
        None,
        move |_, _| {
            let held = Arc::clone(&held);
            async move {
                held.notified().await;
                Ok(json!("late"))
            }
        },
    );
    let (client, mut script) = connected(builder).await;
    let serving = async {
        script.next().await;
        // Server id 2 and client id 2 are unrelated: ids are scoped by direction.
        script.send(json!({"id": 2, "method": "invoke", "params": {"binding": "slow", "input": {}}})).await;
        script
            .send(json!({"id": 3, "method": "invoke", "params": {"binding": "add", "input": [1, 2]}}))
            .await;
        script.expect(json!({"id": 3, "result": {"value": 3}})).await;
        script.send(json!({"id": 2, "result": {"value": "done"}})).await;
        gate.notify_one();
        script.expect(json!({"id": 2, "result": {"value": "late"}})).await;
    };
    let (output, ()) = tokio::join!(client.eval("1"), serving);
    assert_eq!(output.unwrap().value, "done");
}

#[tokio::test]
async fn errors_and_panics_of_handlers_are_answers() {
    let own = || ErrorObject { code: 7, message: "own".into(), data: None };
    let builder = Client::builder()
        .binding("own", "", None, None, move |_, _| async move { Err(own()) })
        .binding("panic", "", None, None, |_, _| async { panic!("on purpose") })
        .bind("typed", "", |_: u8| async { Err::<(), _>(CallError::from(std::io::Error::other("io"))) });
    let (_client, mut script) = connected(builder).await;
    for (binding, input, code, kind) in [
        ("own", json!(1), 7, json!(null)),
        ("panic", json!(1), -32000, json!("BindingError")),
        ("typed", json!(1), -32000, json!("BindingError")),
        ("typed", json!("no number"), -32602, json!("InvalidInput")),
    ] {
        script
            .send(json!({"id": 1, "method": "invoke", "params": {"binding": binding, "input": input}}))
            .await;
        let error = script.next().await["error"].clone();
        assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(code), &kind), "{binding}");
    }
}

fn call_of(id: impl Into<Value>, binding: &str) -> Value {
    let id = id.into();
    json!({"id": id, "method": "invoke", "params": {"binding": binding, "input": id}})
}

#[tokio::test]
async fn calls_past_the_running_limit_wait_and_none_is_refused() {
    let (gate, held) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (open, started) = (Arc::clone(&gate), Arc::clone(&held));
    let builder = Client::builder().binding("wait", "", None, None, move |input, _| {
        let (open, started) = (Arc::clone(&open), Arc::clone(&started));
        async move {
            started.fetch_add(1, Ordering::Relaxed);
            open.notified().await;
            Ok(input)
        }
    });
    let (_client, mut script) = connected(builder).await;
    for id in 0..INVOKES_RUNNING_MAX + 2 {
        script.send(call_of(id, "wait")).await;
    }
    script.send(call_of(5, "wait")).await;
    let refused = script.next().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(null), &json!(-32600)));
    assert!(held.load(Ordering::Relaxed) <= INVOKES_RUNNING_MAX);
    for _ in 0..INVOKES_RUNNING_MAX + 2 {
        gate.notify_one();
        let answer = script.next().await;
        assert_eq!(answer["result"]["value"], answer["id"]);
    }
}

#[tokio::test]
async fn calls_past_the_queue_limit_are_busy() {
    let builder = Client::builder().binding("never", "", None, None, |_, _| std::future::pending());
    let (_client, mut script) = connected(builder).await;
    for id in 0..INVOKES_RUNNING_MAX + INVOKES_QUEUED_MAX {
        script.send(call_of(id, "never")).await;
    }
    script.send(call_of("more", "never")).await;
    assert_eq!(script.next().await["error"]["data"]["kind"], "Busy");
}

#[tokio::test]
async fn handler_that_calls_back_lends_its_place() {
    let builder = Client::builder()
        .binding("nest", "", None, None, |input, context| async move {
            context.client().invoke("back", input).await.map_err(|_| ErrorObject::new(Kind::PeerGone, ""))
        })
        .bind("leaf", "", |n: u64| async move { Ok(n) });
    let (_client, mut script) = connected(builder).await;
    for id in 0..INVOKES_RUNNING_MAX {
        script.send(call_of(id, "nest")).await;
        // The client has at most so many calls of its own with the server.
        if id < 400 {
            assert_eq!(script.next().await["params"]["binding"], "back");
        }
    }
    script.send(call_of("nested", "leaf")).await;
    loop {
        let message = script.next().await;
        if message["id"] == "nested" {
            break;
        }
        assert_eq!(message["params"]["binding"], "back");
    }
}

/// Reports that it was dropped.
struct Dropped(tokio::sync::mpsc::Sender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.try_send("dropped");
    }
}

#[tokio::test]
async fn cancelled_call_ends_its_handler_without_an_answer() {
    let (events_tx, mut events_rx) = tokio::sync::mpsc::channel(4);
    let builder = Client::builder()
        .binding("wait", "", None, None, move |_, _| {
            let dropped = Dropped(events_tx.clone());
            async move {
                let _ = dropped.0.try_send("started");
                std::future::pending().await
            }
        })
        .bind("echo", "", |value: Value| async { Ok(value) });
    let (_client, mut script) = connected(builder).await;
    script.send(call_of(1, "wait")).await;
    assert_eq!(events_rx.recv().await, Some("started"));
    script.send(json!({"method": "cancel_invoke", "params": {"id": 1}})).await;
    assert_eq!(events_rx.recv().await, Some("dropped"));
    script.send(json!({"method": "cancel_invoke", "params": {"id": 99}})).await;
    script.send(json!({"method": "cancel_invoke", "params": {"id": "x"}})).await;
    script.send(call_of(1, "echo")).await;
    script.expect(json!({"id": 1, "result": {"value": 1}})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn console_lines_keep_their_order_beside_handlers_that_wait() {
    let (line_tx, mut line_rx) = tokio::sync::mpsc::channel::<ConsoleLine>(1);
    let builder = Client::builder().on_console(move |line| line_tx.try_send(line).unwrap()).binding(
        "never",
        "",
        None,
        None,
        |_, _| std::future::pending(),
    );
    let (_client, mut script) = connected(builder).await;
    for id in 0..INVOKES_RUNNING_MAX + 1 {
        script.send(call_of(id, "never")).await;
    }
    for n in 0..5000 {
        let line = json!({"level": "log", "text": n.to_string(), "atMs": 0});
        let params = json!({"binding": "console.write", "input": line});
        script.send(json!({"id": format!("line {n}"), "method": "invoke", "params": params})).await;
        assert_eq!(script.next().await["id"], format!("line {n}"));
        assert_eq!(line_rx.recv().await.unwrap().text, n.to_string());
    }
}

#[tokio::test]
async fn server_that_calls_before_it_reads_is_answered() {
    let (_client, mut script) =
        connected(Client::builder().bind("echo", "", |value: Value| async { Ok(value) })).await;
    let calls = FRAMES_MAX * 8;
    for id in 0..calls {
        script.send(json!({"id": id, "method": "invoke", "params": {"binding": "echo", "input": id}})).await;
    }
    let mut answered = Vec::new();
    for _ in 0..calls {
        answered.push(script.next().await["result"]["value"].as_u64().unwrap());
    }
    answered.sort_unstable();
    assert!(answered.into_iter().eq(0..calls as u64));
}

#[tokio::test]
async fn handler_calls_back_into_its_connection() {
    let builder = Client::builder().binding("twice", "", None, None, |input, context| async move {
        context.client().invoke("double", input).await.map_err(|_| ErrorObject::new(Kind::PeerGone, "gone"))
    });
    let (_client, mut script) = connected(builder).await;
    script.send(json!({"id": 1, "method": "invoke", "params": {"binding": "twice", "input": 4}})).await;
    script.expect(json!({"id": 2, "method": "invoke", "params": {"binding": "double", "input": 4}})).await;
    script.send(json!({"id": 2, "result": {"value": 8}})).await;
    script.expect(json!({"id": 1, "result": {"value": 8}})).await;
}

#[tokio::test]
async fn console_lines_arrive_as_they_are_printed() {
    let (line_tx, mut line_rx) = tokio::sync::mpsc::channel::<ConsoleLine>(1);
    let builder = Client::builder().on_console(move |line| line_tx.try_send(line).unwrap());
    let (_client, mut script) = connected(builder).await;
    let line = json!({"level": "warn", "text": "hot", "atMs": 1, "evalId": 2});
    script
        .send(json!({"id": 1, "method": "invoke", "params": {"binding": "console.write", "input": line}}))
        .await;
    script.expect(json!({"id": 1, "result": {"value": null}})).await;
    let line = line_rx.recv().await.unwrap();
    assert_eq!((line.level.as_str(), line.eval_id), ("warn", Some(json!(2))));
}

#[tokio::test]
async fn exported_function_lives_until_every_sending_is_released() {
    let (client, mut script) = connected(Client::builder()).await;
    let sum =
        |args: Vec<Value>, _| async move { Ok(json!(args.iter().filter_map(Value::as_i64).sum::<i64>())) };
    let function = client.export("sum", sum).await.unwrap();
    assert_eq!(function, json!({"$fn": "c1", "name": "sum"}));
    let sending = client.invoke("each", json!([function, function]));
    let serving = async {
        script.next().await;
        let call = |id: u64| json!({"id": id, "method": "invoke", "params": {"ref": "c1", "args": [1, 2]}});
        script.send(call(1)).await;
        script.expect(json!({"id": 1, "result": {"value": 3}})).await;
        script.send(json!({"method": "release_ref", "params": {"ref": "c1"}})).await;
        script.send(call(2)).await;
        script.expect(json!({"id": 2, "result": {"value": 3}})).await;
        script.send(json!({"method": "release_ref", "params": {"ref": "c1", "count": 1}})).await;
        script.send(call(3)).await;
        assert_eq!(script.next().await["error"]["data"]["kind"], "UnknownRef");
        script.send(json!({"id": 2, "result": {"value": null}})).await;
    };
    let (sent, ()) = tokio::join!(sending, serving);
    assert!(sent.is_ok());
}

#[tokio::test]
async fn received_function_is_released_with_its_last_handle() {
    let (client, mut script) = connected(Client::builder()).await;
    let serving = async {
        script.next().await;
        let function = json!({"$fn": "f1", "name": "tick"});
        script.send(json!({"id": 2, "result": {"value": [function, function]}})).await;
    };
    let (output, ()) = tokio::join!(client.eval("[tick, tick]"), serving);
    let value = output.unwrap().value;
    let tick = client.function(&value[0]).unwrap();
    assert_eq!(tick.name(), Some("tick"));
    assert!(client.function(&json!({"$fn": "f9"})).is_none());
    let calling = async {
        script.expect(json!({"id": 3, "method": "invoke", "params": {"ref": "f1", "args": [1]}})).await;
        script.send(json!({"id": 3, "result": {"value": "ticked"}})).await;
    };
    let args = vec![json!(1)];
    let (called, ()) = tokio::join!(tick.call(args), calling);
    assert_eq!(called.unwrap(), "ticked");
    drop((tick.clone(), tick));
    script.expect(json!({"method": "release_ref", "params": {"ref": "f1", "count": 2}})).await;
    assert!(client.function(&value[1]).is_none());
}
