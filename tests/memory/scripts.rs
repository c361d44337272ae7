//! The bindings in scripts: with the embedded store, and with a peer that stops and restarts.

use std::net::TcpListener;

use scomp::client::Client;
use serde_json::{Value, json};

use crate::copy_profile;
use crate::process::Process;
use crate::support::{Folder, Running};

async fn client(running: &Running) -> Client {
    Client::builder().connect_transport(running.server.connect()).await.unwrap()
}

async fn eval(client: &Client, code: &str) -> Value {
    client.eval(code).await.unwrap_or_else(|error| panic!("{error}\n{code}")).value
}

const HELPERS: &str = r#"
    var place = { space: "did:key:zShared" };
    var watchOf = (id) => [{ id: "w", kind: "graph", query: { roots: [{ id, selector: { path: [], schema: true } }] } }];
    var received = [];
    var until = async (holds) => { while (!(await holds())) await new Promise((next) => setTimeout(next, 5)); };
"#;

#[tokio::test(flavor = "multi_thread")]
async fn script_writes_reads_patches_and_deletes_a_document() {
    let folder = copy_profile("signed");
    let running = Running::folder(folder.path()).await;
    let client = client(&running).await;
    eval(&client, HELPERS).await;
    let result = eval(
        &client,
        r#"
        const at = { ...place, id: "of:doc" };
        const results = [];
        results.push(await memory.read(at));
        results.push(await memory.set({ ...at, value: { list: [1, 2], link: { "/": { "link@1": { id: "of:other", path: [] } } } } }));
        results.push(await memory.read({ ...at, path: ["list", "1"] }));
        results.push(await memory.patch({ ...at, patches: [{ op: "append", path: "/value/list", values: [3] }] }));
        results.push((await memory.read({ ...at, path: ["list"] })).value);
        await memory.set({ ...place, id: "of:other", value: "linked" });
        const roots = [{ id: "of:doc", selector: { path: [], schema: true } }];
        results.push((await memory.query({ ...place, roots })).entities.map((entity) => entity.id));
        results.push((await memory.query({ ...place, roots, atSeq: 1 })).entities[0].document.value.list);
        await memory.delete(at);
        results.push(await memory.read(at));
        results
        "#,
    )
    .await;
    let expected = json!([
        {"seq": 0, "exists": false},
        {"seq": 1},
        {"seq": 1, "exists": true, "value": 2},
        {"seq": 2},
        [1, 2, 3],
        ["of:doc", "of:other"],
        [1, 2],
        {"seq": 4, "exists": false},
    ]);
    assert_eq!(result, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_updates_of_many_sessions_all_succeed() {
    let folder = copy_profile("signed");
    let running = Running::folder(folder.path()).await;
    let update = r#"
        for (let i = 0; i < 5; i++)
            await memory.update({ space: "did:key:zShared", id: "of:n", fn: (value) => ({ n: (value?.n ?? 0) + 1 }) });
    "#;
    let (first, second, third) = (client(&running).await, client(&running).await, client(&running).await);
    tokio::join!(eval(&first, update), eval(&second, update), eval(&third, update));
    let read = r#"(await memory.read({ space: "did:key:zShared", id: "of:n" })).value.n"#;
    assert_eq!(eval(&first, read).await, json!(15));
}

#[tokio::test(flavor = "multi_thread")]
async fn conflict_error_has_its_name_and_retry_after_seq() {
    let folder = copy_profile("signed");
    let running = Running::folder(folder.path()).await;
    let client = client(&running).await;
    eval(&client, HELPERS).await;
    let result = eval(
        &client,
        r#"
        await memory.set({ ...place, id: "of:x", value: 1 });
        const reads = [{ id: "of:x", path: ["value"], seq: 0 }];
        await memory.transact({ ...place, operations: [{ op: "delete", id: "of:x" }], reads })
            .then(() => "written", (error) => [error.name, error.data.retryAfterSeq]);
        "#,
    )
    .await;
    assert_eq!(result, json!(["ConflictError", 1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn watching_script_receives_changes_until_unwatch() {
    let folder = copy_profile("signed");
    let running = Running::folder(folder.path()).await;
    let (watcher, writer) = (client(&running).await, client(&running).await);
    eval(&watcher, HELPERS).await;
    eval(&writer, HELPERS).await;
    let start = r#"
        var watch = await memory.watch({ ...place, watches: watchOf("of:x"), onSync: (sync) => { received.push(sync); } });
        watch.sync.upserts[0].deleted
    "#;
    assert_eq!(eval(&watcher, start).await, json!(true));
    eval(&writer, r#"await memory.set({ ...place, id: "of:x", value: 1 })"#).await;
    let first =
        eval(&watcher, "await until(() => received.length); received.pop().upserts[0].doc.value").await;
    assert_eq!(first, json!(1));
    eval(&watcher, "await watch.unwatch()").await;
    let again = r#"
        watch = await memory.watch({ ...place, watches: watchOf("of:y"), onSync: (sync) => { received.push(sync); } });
    "#;
    eval(&watcher, again).await;
    let both = r#"
        await memory.set({ ...place, id: "of:x", value: 2 });
        await memory.set({ ...place, id: "of:y", value: 3 });
    "#;
    eval(&writer, both).await;
    eval(&watcher, "await until(() => received.length)").await;
    let second = eval(&watcher, "received.map((sync) => sync.upserts.map((one) => one.id))").await;
    assert_eq!(second, json!([["of:y"]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn released_watch_ends() {
    let folder = copy_profile("signed");
    let running = Running::folder(folder.path()).await;
    let client = client(&running).await;
    eval(&client, HELPERS).await;
    let code = r#"
        const onSync = (sync) => { received.push(...sync.upserts.map((one) => one.id)); };
        let first = await memory.watch({ ...place, watches: watchOf("of:x"), onSync });
        const second = await memory.watch({ ...place, watches: watchOf("of:y"), onSync });
        first = undefined;
        let value = 0;
        // The released watch ends soon, but not immediately.
        await until(async () => {
            received = [];
            await memory.set({ ...place, id: "of:x", value: value++ });
            await memory.set({ ...place, id: "of:y", value: value++ });
            await until(() => received.includes("of:y"));
            return !received.includes("of:x");
        });
        received
    "#;
    assert_eq!(eval(&client, code).await, json!(["of:y"]));
}

/// Starts a server with a peer `other` at the given address.
async fn start_client_of(listen: &str) -> (Folder, Running) {
    let peers = json!({"other": {"url": format!("ws://{listen}/memory")}});
    let declaration = json!({"package": "memory", "rust": "memory", "config": {"secret": "a secret of sixteen", "peers": peers}});
    let folder = Folder::with(&[("memory/declaration.json", &declaration.to_string())]);
    let running = Running::folder(folder.path()).await;
    (folder, running)
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_is_restored_when_the_peer_restarts() {
    let listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let folder = copy_profile("signed");
    let (_near_folder, near) = start_client_of(&listen).await;
    let script = client(&near).await;
    eval(&script, HELPERS).await;
    eval(
        &script,
        r#"place.peer = "other"; var up = () => memory.open(place).then(() => true, () => false);"#,
    )
    .await;
    let down = r#"await memory.open(place).then(() => "open", (error) => error.name)"#;
    assert_eq!(eval(&script, down).await, json!("ConnectionError"));
    let far = Process::start_at(folder.path(), &listen);
    let start = r#"
        await until(up);
        var watch = await memory.watch({ ...place, watches: watchOf("of:x"), onSync: (sync) => { received.push(sync.upserts[0].doc.value); } });
        await memory.set({ ...place, id: "of:x", value: "before" });
        await until(() => received.length);
        received.pop()
    "#;
    assert_eq!(eval(&script, start).await, json!("before"));
    far.kill();
    let failing = r#"await until(async () => !(await up())); await memory.set({ ...place, id: "of:x", value: 0 }).catch((error) => error.name)"#;
    assert_eq!(eval(&script, failing).await, json!("ConnectionError"));
    let _far = Process::start_at(folder.path(), &listen);
    let resumed = r#"
        await until(up);
        const { value } = await memory.update({ ...place, id: "of:x", fn: (value) => value + " and after" });
        await until(() => received.length);
        [value, received]
    "#;
    // The restored watch sends only the new version.
    assert_eq!(eval(&script, resumed).await, json!(["before and after", ["before and after"]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_that_never_answers_hello_is_a_connection_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (_folder, near) = start_client_of(&listener.local_addr().unwrap().to_string()).await;
    let (stream, _) = listener.accept().await.unwrap();
    let mut silent = tokio_tungstenite::accept_async(stream).await.unwrap();
    // `hello` has arrived, so the connection is open on both sides.
    futures_util::StreamExt::next(&mut silent).await.unwrap().unwrap();
    let script = client(&near).await;
    let open =
        r#"await memory.open({ space: "s", peer: "other" }).then(() => "open", (error) => error.name)"#;
    assert_eq!(eval(&script, open).await, json!("ConnectionError"));
}
