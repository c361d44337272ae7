//! Limits on the size of messages, results, values and schemas.

use scomp::limits::Limits;
use serde_json::json;

use crate::support::wire::Arrival;
use crate::support::{Running, Wire};
use crate::{kind, live};

#[tokio::test]
async fn message_may_be_as_long_as_the_limit() {
    let limits = Limits { message_bytes_max: 4096, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    let frame = |padding: usize| {
        let spaces = " ".repeat(padding);
        format!(r#"{{"jsonrpc":"2.0","id":900,"method":"eval","params":{{"code":"1"}}{spaces}}}"#)
    };
    let bare = frame(0).len();
    wire.text(&frame(4096 - bare)).await;
    assert_eq!(wire.answer(900).await["result"]["value"], json!(1));
    wire.text(&frame(4097 - bare)).await;
    assert_eq!(wire.next().await, Arrival::Closed(1009));
}

#[tokio::test]
async fn result_may_be_as_large_as_the_limit() {
    let limits = Limits { result_bytes_max: 102, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    assert_eq!(wire.value("'x'.repeat(100)").await, json!("x".repeat(100)));
    assert_eq!(wire.failure("'x'.repeat(101)").await.0, "ResultTooLarge");
    assert_eq!(wire.failure("'\\n'.repeat(100)").await.0, "ResultTooLarge");
    assert_eq!(wire.value("1 + 1").await, json!(2));
}

#[tokio::test]
async fn value_may_be_as_deep_as_the_limit_both_ways() {
    let limits = Limits { value_depth_max: 5, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    assert_eq!(wire.value("[[[[[]]]]]").await, json!([[[[[]]]]]));
    assert_eq!(wire.failure("[[[[[[]]]]]]").await.0, "Unserializable");
    assert_eq!(wire.value("await echo([[[[[]]]]])").await, json!([[[[[]]]]]));
    assert_eq!(wire.value("(x) => x").await["$fn"], json!("f1"));
    let fits = wire.request("invoke", json!({"ref": "f1", "input": [[[[[]]]]]})).await;
    assert_eq!(fits["result"]["value"], json!([[[[[]]]]]));
    let refused = wire.request("invoke", json!({"ref": "f1", "input": [[[[[[]]]]]]})).await;
    assert_eq!(kind(&refused), "InvalidParams");
}

#[tokio::test]
async fn text_of_an_error_is_cut() {
    const MAX: usize = 64 << 10;
    let (_running, mut wire) = live(Limits::default()).await;
    let (_, fits) = wire.failure(&format!("throw 'x'.repeat({})", MAX - "Uncaught 'x'".len())).await;
    assert!(fits.len() <= MAX && !fits.ends_with('…'), "{} bytes", fits.len());
    let (_, cut) = wire.failure("throw new Error('x'.repeat(20e6))").await;
    assert_eq!(cut.len(), MAX + '…'.len_utf8());
    let huge = "const e = new Error('\\x01'.repeat(6e6)); e.stack = 's'.repeat(6e6); e.name = 'n'.repeat(6e6); throw e";
    assert_eq!(wire.failure(huge).await.0, "EvalError");
    assert_eq!(wire.failure("throw new Error('a\\ud800b')").await.1, "Error: a\u{fffd}b");
    assert_eq!(wire.value("1 + 1").await, json!(2));
}

#[tokio::test]
async fn size_of_a_value_is_that_of_its_json() {
    let limits = Limits { result_bytes_max: 1000, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    // 2 brackets, 499 digits, 498 commas, and a digit more in one of them.
    assert_eq!(wire.value("Array.from({ length: 499 }, (_, i) => i ? 1 : 10)").await[0], json!(10));
    assert_eq!(wire.failure("Array.from({ length: 499 }, (_, i) => i ? 1 : 100)").await.0, "ResultTooLarge");
    let object = |x: usize| format!("({{ a: -1, b: 2, c: 'x'.repeat({x}) }})");
    let around = r#"{"a":-1,"b":2,"c":""}"#.len();
    assert_eq!(wire.value(&object(1000 - around)).await["b"], json!(2));
    assert_eq!(wire.failure(&object(1001 - around)).await.0, "ResultTooLarge");
}

#[tokio::test]
async fn value_too_large_to_send_differs_from_memory_limit() {
    let (_running, mut wire) = live(Limits::default()).await;
    for code in [
        "'x'.repeat(40 << 20)",
        "await 'x'.repeat(40 << 20)",
        "({ a: ['x'.repeat(40 << 20)] })",
        "({ ['x'.repeat(40 << 20)]: 1 })",
        "'x'.repeat(20 << 20) + 'y'.repeat(20 << 20)",
        "'\u{20ac}'.repeat(25 << 20)",
        "new Error('x'.repeat(40 << 20))",
        "new String('x'.repeat(40 << 20))",
        "new Map([['x'.repeat(40 << 20), 1]])",
        "({ toJSON: () => 'x'.repeat(40 << 20) })",
        "new Uint8Array(40 << 20)",
    ] {
        assert_eq!(wire.failure(code).await.0, "ResultTooLarge", "{code}");
    }
    assert_eq!(wire.failure("'x'.repeat(80 << 20)").await.0, "MemoryLimit");
    assert_eq!(wire.value("1 + 1").await, json!(2));
}

/// Compiled schemas of one connection; past it the handshake is refused, and a new one starts from nothing.
#[tokio::test]
async fn schemas_may_take_as_much_as_the_limit() {
    let declared = |count: usize| {
        let named = |n: usize| json!({"name": format!("t{n}"), "input": {"type": "object"}});
        json!({"protocol": "0.1", "bindings": (0..count).map(named).collect::<Vec<_>>()})
    };
    let one = Running::with(Limits { schema_bytes_max: 100_000, ..Limits::default() }).await;
    let mut fits = 0;
    for count in 1.. {
        let mut wire = Wire::open(&one.url).await;
        let answer = wire.request("handshake", declared(count)).await;
        if kind(&answer) == "InvalidParams" {
            let path = format!("/bindings/{fits}/input");
            assert_eq!(answer["error"]["data"]["path"], json!(path), "{answer}");
            // Again on the same connection: the refused ones were given back.
            assert_eq!(kind(&wire.request("handshake", declared(fits)).await), "no error");
            break;
        }
        fits = count;
    }
    assert!((30..100).contains(&fits), "{fits}");
}

/// A session that is resumed again and again with the same schemas takes no more of them than one connection may.
#[tokio::test]
async fn resumed_session_declares_its_schemas_anew() {
    let running = Running::with(Limits { schema_bytes_max: 20_000, ..Limits::default() }).await;
    let schema = json!({"type": "object", "properties": {"s": {"pattern": "^[a-z]+$"}}});
    let mut params = json!({"protocol": "0.1", "bindings": [{"name": "t", "input": schema}]});
    for round in 0..5 {
        let mut wire = Wire::open(&running.url).await;
        let answer = wire.request("handshake", params.clone()).await;
        assert_eq!(kind(&answer), "no error", "{round}: {answer}");
        let session = &answer["result"]["metadata"]["session"];
        assert_eq!(session["resumed"], json!(round > 0));
        params["session"] = json!({"id": answer["result"]["sessionId"], "token": session["token"]});
        assert_eq!(wire.value("await t({ s: '1' }).catch((e) => e.name)").await, json!("InvalidInput"));
    }
}
