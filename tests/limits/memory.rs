//! Limits on the heap and the stack of a session.

use scomp::limits::{Limits, MEMORY_BYTES_MIN, STACK_BYTES_MAX, STACK_BYTES_MIN, VALUE_DEPTH_MAX};
use scomp::server::{Server, StartError};
use serde_json::json;

use crate::live;

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
async fn stack_is_bounded() {
    let limits = Limits { stack_bytes_max: 128 << 10, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    let depth = "function f(n) { return n === 0 ? 0 : 1 + f(n - 1) }";
    assert_eq!(wire.value(&format!("{depth} f(50)")).await, json!(50));
    assert_eq!(wire.failure(&format!("{depth} f(1e6)")).await.0, "StackOverflow");
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
