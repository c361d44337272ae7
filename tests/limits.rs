//! Every limit at its edge: what is just allowed, and what is one past it.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use scomp::limits::{Limits, MEMORY_BYTES_MIN, STACK_BYTES_MAX, STACK_BYTES_MIN, VALUE_DEPTH_MAX};
use scomp::server::{Server, StartError};
use serde_json::{Value, json};
use support::wire::Arrival;
use support::{Running, Wire};

async fn live(limits: Limits) -> (Running, Wire) {
    let running = Running::with(limits).await;
    let wire = Wire::live(&running.url).await;
    (running, wire)
}

fn kind(answer: &Value) -> &str {
    answer.pointer("/error/data/kind").and_then(Value::as_str).unwrap_or("no error")
}

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
async fn as_many_evals_wait_as_the_limit_says() {
    let limits = Limits { queued_evals_max: 2, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    let running = wire.send("eval", json!({"code": "await forever({})"})).await;
    wire.info().await;
    let second = wire.send("eval", json!({"code": "2"})).await;
    let third = wire.send("eval", json!({"code": "3"})).await;
    let refused = wire.request("eval", json!({"code": "4"})).await;
    assert_eq!(kind(&refused), "QueueFull");
    wire.invoke("session.info", json!({})).await;
    wire.send("invoke", json!({"binding": "session.cancel", "input": {"evalId": running}})).await;
    assert_eq!(kind(&wire.answer(running).await), "Cancelled");
    assert_eq!(wire.answer(second).await["result"]["value"], json!(2));
    assert_eq!(wire.answer(third).await["result"]["value"], json!(3));
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
async fn cpu_time_and_time_by_the_clock_end_an_eval() {
    let limits = Limits { cpu_ms_max: 100, wall_ms_max: 200, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    assert_eq!(wire.failure("for (;;) ;").await.0, "Timeout");
    assert_eq!(wire.failure("await new Promise(r => setTimeout(r, 1e6))").await.0, "Timeout");
    assert_eq!(wire.value("await new Promise(r => setTimeout(() => r(5), 1))").await, json!(5));
}

#[tokio::test]
async fn memory_is_bounded_and_comes_back() {
    let limits = Limits { memory_bytes_max: 8 << 20, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    assert_eq!(wire.value("new Uint8Array(4 << 20).length").await, json!(4 << 20));
    for _ in 0..5 {
        assert_eq!(
            wire.failure("const a = []; for (;;) a.push(new Uint8Array(1 << 20))").await.0,
            "MemoryLimit"
        );
        assert_eq!(wire.value("1 + 1").await, json!(2));
    }
}

#[tokio::test]
async fn eval_past_the_memory_limit_without_a_loop_fails() {
    let limits = Limits { memory_bytes_max: 8 << 20, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    // No list is so long that its block would be refused: only the stop request shows that there is no room.
    let text = "const list = (count, item) => `[${Array(count).fill(item)}]`;
        globalThis.t = list(20, list(100, list(100, 1))); 1";
    assert_eq!(wire.value(text).await, json!(1));
    let mut outcomes = Vec::new();
    // Each takes a third of the limit and more.
    for _ in 0..4 {
        let answer = wire.eval("globalThis.held = [JSON.parse(t), globalThis.held]; 1").await;
        outcomes.push(answer.pointer("/error/data/kind").cloned());
        if outcomes.last() != Some(&None) {
            break;
        }
    }
    assert_eq!(outcomes.last(), Some(&Some(json!("MemoryLimit"))));
    assert_eq!(wire.value("1 + 1").await, json!(2));
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
async fn stack_is_bounded() {
    let limits = Limits { stack_bytes_max: 128 << 10, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    let depth = "function f(n) { return n === 0 ? 0 : 1 + f(n - 1) }";
    assert_eq!(wire.value(&format!("{depth} f(50)")).await, json!(50));
    assert_eq!(wire.failure(&format!("{depth} f(1e6)")).await.0, "StackOverflow");
}

#[tokio::test]
async fn timers_are_counted() {
    let limits = Limits { timers_max: 3, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    let set = "const ids = []; for (let i = 0; i < 3; i++) ids.push(setTimeout(() => {}, 1e6)); ids.length";
    assert_eq!(wire.value(set).await, json!(3));
    let (_, message) = wire.failure("setTimeout(() => {}, 1e6)").await;
    assert!(message.starts_with("RangeError"), "{message}");
    assert_eq!(wire.value("clearTimeout(ids[0]); setInterval(() => {}, 1e6) > 0").await, json!(true));
}

#[tokio::test]
async fn references_are_counted_each_way() {
    let limits = Limits { references_max: 3, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    assert_eq!(
        wire.value("globalThis.f = [() => 1, () => 2, () => 3]; f").await.as_array().unwrap().len(),
        3
    );
    assert_eq!(wire.failure("() => 4").await.0, "TooManyRefs");
    assert_eq!(wire.value("f[0]").await["$fn"], json!("f1"));
    let release = json!({"jsonrpc": "2.0", "method": "release_ref", "params": {"ref": "f1", "count": 2}});
    wire.text(&release.to_string()).await;
    assert_eq!(wire.value("() => 4").await["$fn"], json!("f4"));
}

#[tokio::test]
async fn calls_of_one_eval_are_counted() {
    let limits = Limits { calls_per_eval_max: 3, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    let calls = |n: u32| format!("for (let i = 0; i < {n}; i++) await echo(i); 'done'");
    assert_eq!(wire.value(&calls(3)).await, json!("done"));
    let answer = wire.eval(&calls(4)).await;
    assert!(answer.to_string().contains("TooManyCalls"), "{answer}");
    assert_eq!(wire.value(&calls(3)).await, json!("done"));
}

#[tokio::test]
async fn invokes_inside_invokes_are_counted() {
    let limits = Limits { invoke_depth_max: 4, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    let nested = |n: u32| {
        format!(
            "let i = {{ binding: 'echo', input: 1 }}; for (let n = 0; n < {n}; n++) i = {{ binding: 'relay', input: i }}; await relay(i)"
        )
    };
    assert_eq!(wire.value(&nested(1)).await, json!(1));
    let answer = wire.eval(&nested(8)).await;
    assert!(answer.to_string().contains("TooDeep"), "{answer}");
}

#[tokio::test]
async fn open_requests_are_counted() {
    let limits = Limits { requests_open_max: 3, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(wire.send("invoke", json!({"binding": "forever", "input": {}})).await);
    }
    let refused = wire.request("invoke", json!({"binding": "echo", "input": 1})).await;
    assert_eq!(kind(&refused), "Busy");
}

#[tokio::test]
async fn outcomes_of_keys_are_forgotten_oldest_first() {
    let limits = Limits { keyed_outcomes_max: 2, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    let code = "globalThis.n = (globalThis.n ?? 0) + 1";
    let mut run = async |key: &str| {
        let answer = wire.request("eval", json!({"code": code, "key": key})).await;
        answer["result"]["value"].as_u64().unwrap()
    };
    assert_eq!((run("a").await, run("b").await, run("a").await), (1, 2, 1));
    assert_eq!((run("c").await, run("b").await), (3, 2));
    assert_eq!(run("a").await, 4);
}

#[tokio::test]
async fn binding_has_its_time() {
    let limits = Limits { binding_ms_max: 100, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    assert_eq!(kind(&wire.invoke("forever", json!({})).await), "Timeout");
    assert_eq!(wire.value("await forever({}).catch(e => e.name)").await, json!("Timeout"));
}

#[tokio::test]
async fn floating_call_is_answered_or_refused_and_pays_for_itself() {
    let floats = "globalThis.seen = []; setTimeout(async () => { try { seen.push(await echo(1)) } catch (e) { seen.push(e.name) } }, 0); 0";
    let waits = "while (seen.length === 0) await new Promise((done) => setTimeout(done, 1)); seen[0]";
    let (_running, mut wire) = live(Limits { calls_per_eval_max: 1, ..Limits::default() }).await;
    wire.value(floats).await;
    assert_eq!(wire.value(waits).await, json!(1));
    assert_eq!(wire.value("await echo(2)").await, json!(2));
    let (_running, mut wire) = live(Limits { floating_calls: false, ..Limits::default() }).await;
    wire.value(floats).await;
    assert_eq!(wire.value(waits).await, json!("Cancelled"));
}

#[tokio::test]
async fn call_into_a_function_of_the_script_has_its_time() {
    let (_running, mut wire) = live(Limits { wall_ms_max: 100, ..Limits::default() }).await;
    let function = wire.value("() => new Promise(() => {})").await;
    let answer = wire.request("invoke", json!({"ref": function["$fn"], "input": 1})).await;
    assert_eq!(kind(&answer), "Timeout");
    let function = wire.value("() => { for (;;); }").await;
    let answer = wire.request("invoke", json!({"ref": function["$fn"], "input": 1})).await;
    assert_eq!(kind(&answer), "Timeout");
    assert_eq!(wire.value("1 + 1").await, json!(2));
}

#[tokio::test]
async fn limits_that_would_crash_are_refused_by_the_builder() {
    for (limits, name) in [
        (Limits { memory_bytes_max: 64, ..Limits::default() }, "limits.memory_bytes_max"),
        (Limits { stack_bytes_max: 18 << 20, ..Limits::default() }, "limits.stack_bytes_max"),
        (Limits { value_depth_max: 1 << 20, ..Limits::default() }, "limits.value_depth_max"),
        (Limits { wall_ms_max: u64::MAX, ..Limits::default() }, "limits.wall_ms_max"),
    ] {
        let refused = Server::builder().limits(limits).build().err().unwrap();
        assert!(
            matches!(refused, StartError::Settings(_)) && refused.to_string().starts_with(name),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn session_works_with_the_least_memory() {
    let (_running, mut wire) = live(Limits { memory_bytes_max: MEMORY_BYTES_MIN, ..Limits::default() }).await;
    let everything = "console.log({ a: [new Map([[1, new Error('x')]])] }); console.table([{ a: 1 }]); \
        structuredClone([new Date()]); new URL('http://a/?b').searchParams; new TextEncoder().encode('x'); \
        new AbortController(); JSON.stringify([1])";
    assert_eq!(wire.value(everything).await, json!("[1]"));
    assert_eq!(wire.failure("globalThis.list = []; for (;;) list.push({})").await.0, "MemoryLimit");
    assert_eq!(wire.value(everything).await, json!("[1]"));
}

/// Recursion through native code of each kind, until the stack is at its end.
const RECURSIONS: [&str; 4] = [
    "(function f() { f(); })()",
    "(function f() { [1].map(f); })()",
    "let p = new Proxy({}, { get() { return p.x; } }); p.x",
    "(function f() { return { toString: f } + ''; })()",
];

#[tokio::test]
async fn stack_ends_with_an_error_at_both_ends_of_its_range() {
    for stack_bytes_max in [STACK_BYTES_MIN, STACK_BYTES_MAX] {
        let (_running, mut wire) = live(Limits { stack_bytes_max, ..Limits::default() }).await;
        for code in RECURSIONS {
            assert_eq!(wire.failure(code).await.0, "StackOverflow", "{stack_bytes_max}: {code}");
        }
        // Whether these fit depends on the size of QuickJS's frames; they are answered in any case.
        wire.eval("JSON.parse('['.repeat(1e6))").await;
        wire.eval("let list = []; for (let i = 0; i < 1e5; i++) list = [list]; String(list)").await;
        assert_eq!(wire.value("console.log({ a: [1] }); 1 + 1").await, json!(2));
    }
}

#[tokio::test]
async fn deepest_value_is_converted_at_the_end_of_the_stack() {
    let limits = Limits { value_depth_max: VALUE_DEPTH_MAX, cpu_ms_max: 60_000, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    let nested = |wrapped: &str| {
        format!("let value = 0; for (let i = 0; i < {VALUE_DEPTH_MAX}; i++) value = {wrapped};")
    };
    // As deep in the script as a call of a binding still begins, and at every depth above.
    for wrapped in ["[value]", "i % 2 ? new Map([[1, value]]) : new Set([value])"] {
        let nested = nested(wrapped);
        let code = format!(
            "{nested} (function f() {{ try {{ f(); }} catch {{}} echo(value).catch(() => 0); }})(); 1"
        );
        assert_eq!(wire.value(&code).await, json!(1));
    }
    let nested = nested("i % 2 ? [value] : { value }");
    assert!(wire.value(&format!("{nested} value")).await.is_array());
    let deeper = format!("{nested} [value]");
    assert_eq!(wire.failure(&deeper).await.0, "Unserializable");
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

#[tokio::test]
async fn stored_outcome_that_cannot_be_resent_holds_no_references() {
    let (_running, mut wire) = live(Limits { references_max: 3, ..Limits::default() }).await;
    let keyed = json!({"code": "[() => 1, () => 2]", "key": "k"});
    let stored = wire.request("eval", keyed.clone()).await;
    for function in stored["result"]["value"].as_array().unwrap() {
        let released = json!({"jsonrpc": "2.0", "method": "release_ref", "params": {"ref": function["$fn"]}});
        wire.text(&released.to_string()).await;
    }
    wire.value("[() => 3, () => 4]").await;
    assert_eq!(kind(&wire.request("eval", keyed).await), "TooManyRefs");
    assert_eq!(wire.info().await["functionsHeld"], json!(2));
}
