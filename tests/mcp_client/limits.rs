//! Servers at and past their limits. The limits of a list and of a line have tests of their own beside them.

use std::time::{Duration, Instant};

use scomp::package::loader::{self, PackageInfo};
use serde_json::json;

use crate::servers::{HOSTILE, Session, hostile_config};
use crate::support::Folder;

/// How long a server with 500 tools may take to start, the start of node included.
const START_WAIT_MAX: Duration = Duration::from_secs(2);

/// What `check` sees of the hostile server in a mode.
async fn load(mode: &str, count: usize) -> PackageInfo {
    let declaration = json!({"package": "hostile", "mcp": hostile_config(mode, count)}).to_string();
    let folder =
        Folder::with(&[("hostile/declaration.json", &declaration), ("hostile/hostile.mjs", HOSTILE)]);
    let loaded =
        loader::load(folder.path(), &loader::environment(), scomp::bindings::BUILT_IN).await.unwrap();
    loaded.packages.into_iter().next().unwrap()
}

/// Why the hostile server cannot be opened in a mode.
async fn problem(mode: &str) -> String {
    let declaration = json!({"package": "hostile", "mcp": hostile_config(mode, 0)}).to_string();
    let folder =
        Folder::with(&[("hostile/declaration.json", &declaration), ("hostile/hostile.mjs", HOSTILE)]);
    let loaded = loader::load(folder.path(), &loader::environment(), scomp::bindings::BUILT_IN).await;
    let problems = loaded.unwrap_err();
    assert_eq!((problems.len(), problems[0].path.as_str()), (1, "/mcp"));
    problems[0].message.clone()
}

#[tokio::test]
async fn five_hundred_tools_start_in_time_and_are_found() {
    let started = Instant::now();
    let mut session = Session::hostile("tools", 500).await;
    let took = started.elapsed();
    assert!(took <= START_WAIT_MAX, "{took:?}");
    assert_eq!(session.value("Object.keys(hostile).length").await, json!(500));
    let found = session.wire.invoke("bindings.search", json!({"query": "invoice customer"})).await;
    let text = found["result"]["value"].to_string();
    assert!(text.contains("hostile.tool_417"), "{found}");
    assert_eq!(session.value("await hostile.tool_499({})").await, json!("tool_499"));
}

#[tokio::test]
async fn tools_past_the_limit_are_left_out() {
    let at = load("tools", 2_000).await;
    assert_eq!((at.bindings.len(), at.unmapped), (2_000, vec![]));
    let past = load("tools", 2_001).await;
    assert_eq!(past.bindings.len(), 2_000);
    assert_eq!(past.unmapped[0].reason, "the server lists more than 2000 tools; the rest is left out");
}

#[tokio::test]
async fn pages_past_the_limit_are_left_out() {
    let at = load("pages", 100).await;
    assert_eq!((at.bindings.len(), at.unmapped), (100, vec![]));
    let past = load("pages", 101).await;
    assert_eq!(past.bindings.len(), 100);
    assert_eq!(past.unmapped[0].reason, "the list has more than 100 pages; the rest is left out");
}

#[tokio::test]
async fn message_past_the_limit_ends_the_connection() {
    let mut session = Session::hostile("plain", 0).await;
    let (kind, message) = session.thrown("hostile.huge({})").await;
    assert_eq!(kind, "PeerGone");
    assert!(message.ends_with("the server sent a message of more than 16777216 bytes"), "{message}");
}

#[tokio::test]
async fn lines_past_the_limit_end_the_connection() {
    let mut session = Session::hostile("plain", 0).await;
    assert_eq!(session.value("await hostile.banner({lines: 100})").await, json!("printed"));
    let (kind, message) = session.thrown("hostile.banner({lines: 101})").await;
    assert_eq!(kind, "PeerGone");
    assert!(message.ends_with("the server sent 101 lines in a row that are not messages"), "{message}");
}

#[tokio::test]
async fn calls_past_the_limit_are_refused() {
    let mut session = Session::hostile("plain", 0).await;
    let code = "const calls = Array.from({length: 257}, () => hostile.wait({}).catch((error) => error.name));
        const first = await Promise.race(calls);
        await hostile.echo({text: 'x'}).catch((error) => error.name).then((busy) => { globalThis.busy = busy });
        [first, busy]";
    assert_eq!(session.value(code).await, json!(["Busy", "Busy"]));
    session.folder.write("hostile/go", "");
    let code =
        "(await Promise.all(calls)).reduce((seen, one) => ({...seen, [one]: (seen[one] ?? 0) + 1}), {})";
    assert_eq!(session.value(code).await, json!({"waited": 256, "Busy": 1}));
}

#[tokio::test]
async fn server_that_ends_at_start_is_reported_without_the_secret() {
    let message = problem("ends").await;
    assert!(message.starts_with("the handshake failed: "), "{message}");
    assert!(message.ends_with("it printed: started with ${SECRET}"), "{message}");
}
