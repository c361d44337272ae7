//! What scripts do with spaces: in the embedded store, and in that of another server which comes and goes.

use std::net::TcpListener;

use scomp::client::Client;
use serde_json::{Value, json};

use crate::process::Process;
use crate::profile;
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
    var heard = [];
    var until = async (holds) => { while (!(await holds())) await new Promise((next) => setTimeout(next, 5)); };
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_written_read_changed_and_deleted() {
    let folder = profile("signed");
    let running = Running::folder(folder.path()).await;
    let client = client(&running).await;
    eval(&client, HELPERS).await;
    let told = eval(
        &client,
        r#"
        const at = { ...place, id: "of:doc" };
        const said = [];
        said.push(await memory.read(at));
        said.push(await memory.set({ ...at, value: { list: [1, 2], link: { "/": { "link@1": { id: "of:other", path: [] } } } } }));
        said.push(await memory.read({ ...at, path: ["list", "1"] }));
        said.push(await memory.patch({ ...at, patches: [{ op: "append", path: "/value/list", values: [3] }] }));
        said.push((await memory.read({ ...at, path: ["list"] })).value);
        await memory.set({ ...place, id: "of:other", value: "linked" });
        const roots = [{ id: "of:doc", selector: { path: [], schema: true } }];
        said.push((await memory.query({ ...place, roots })).entities.map((entity) => entity.id));
        said.push((await memory.query({ ...place, roots, atSeq: 1 })).entities[0].document.value.list);
        await memory.delete(at);
        said.push(await memory.read(at));
        said
        "#,
    )
    .await;
    let wanted = json!([
        {"seq": 0, "exists": false},
        {"seq": 1},
        {"seq": 1, "exists": true, "value": 2},
        {"seq": 2},
        [1, 2, 3],
        ["of:doc", "of:other"],
        [1, 2],
        {"seq": 4, "exists": false},
    ]);
    assert_eq!(told, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_of_many_sessions_all_count() {
    let folder = profile("signed");
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
async fn a_conflict_is_told_by_its_name() {
    let folder = profile("signed");
    let running = Running::folder(folder.path()).await;
    let client = client(&running).await;
    eval(&client, HELPERS).await;
    let told = eval(
        &client,
        r#"
        await memory.set({ ...place, id: "of:x", value: 1 });
        const reads = [{ id: "of:x", path: ["value"], seq: 0 }];
        await memory.transact({ ...place, operations: [{ op: "delete", id: "of:x" }], reads })
            .then(() => "written", (error) => [error.name, error.data.retryAfterSeq]);
        "#,
    )
    .await;
    assert_eq!(told, json!(["ConflictError", 1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn watching_scripts_are_told_until_they_let_go() {
    let folder = profile("signed");
    let running = Running::folder(folder.path()).await;
    let (watcher, writer) = (client(&running).await, client(&running).await);
    eval(&watcher, HELPERS).await;
    eval(&writer, HELPERS).await;
    let start = r#"
        var watch = await memory.watch({ ...place, watches: watchOf("of:x"), onSync: (sync) => { heard.push(sync); } });
        watch.sync.upserts[0].deleted
    "#;
    assert_eq!(eval(&watcher, start).await, json!(true));
    eval(&writer, r#"await memory.set({ ...place, id: "of:x", value: 1 })"#).await;
    let first = eval(&watcher, "await until(() => heard.length); heard.pop().upserts[0].doc.value").await;
    assert_eq!(first, json!(1));
    eval(&watcher, "await watch.unwatch()").await;
    let again = r#"
        watch = await memory.watch({ ...place, watches: watchOf("of:y"), onSync: (sync) => { heard.push(sync); } });
    "#;
    eval(&watcher, again).await;
    let both = r#"
        await memory.set({ ...place, id: "of:x", value: 2 });
        await memory.set({ ...place, id: "of:y", value: 3 });
    "#;
    eval(&writer, both).await;
    eval(&watcher, "await until(() => heard.length)").await;
    let second = eval(&watcher, "heard.map((sync) => sync.upserts.map((one) => one.id))").await;
    assert_eq!(second, json!([["of:y"]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_nobody_holds_any_more_ends() {
    let folder = profile("signed");
    let running = Running::folder(folder.path()).await;
    let client = client(&running).await;
    eval(&client, HELPERS).await;
    let told = r#"
        const onSync = (sync) => { heard.push(...sync.upserts.map((one) => one.id)); };
        let first = await memory.watch({ ...place, watches: watchOf("of:x"), onSync });
        const second = await memory.watch({ ...place, watches: watchOf("of:y"), onSync });
        first = undefined;
        let value = 0;
        // It ends soon, not at once: in the end only the one that is held tells something.
        await until(async () => {
            heard = [];
            await memory.set({ ...place, id: "of:x", value: value++ });
            await memory.set({ ...place, id: "of:y", value: value++ });
            await until(() => heard.includes("of:y"));
            return !heard.includes("of:x");
        });
        heard
    "#;
    assert_eq!(eval(&client, told).await, json!(["of:y"]));
}

/// A server that is a client of another one by the name `other`.
async fn client_of(listen: &str) -> (Folder, Running) {
    let peers = json!({"other": {"url": format!("ws://{listen}/memory")}});
    let declaration = json!({"package": "memory", "rust": "memory", "config": {"secret": "a secret of sixteen", "peers": peers}});
    let folder = Folder::with(&[("memory/declaration.json", &declaration.to_string())]);
    let running = Running::folder(folder.path()).await;
    (folder, running)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_and_comes_back_is_taken_up_again() {
    let listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let folder = profile("signed");
    let (_near_folder, near) = client_of(&listen).await;
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
        var watch = await memory.watch({ ...place, watches: watchOf("of:x"), onSync: (sync) => { heard.push(sync.upserts[0].doc.value); } });
        await memory.set({ ...place, id: "of:x", value: "before" });
        await until(() => heard.length);
        heard.pop()
    "#;
    assert_eq!(eval(&script, start).await, json!("before"));
    far.kill();
    let failing = r#"await until(async () => !(await up())); await memory.set({ ...place, id: "of:x", value: 0 }).catch((error) => error.name)"#;
    assert_eq!(eval(&script, failing).await, json!("ConnectionError"));
    let _far = Process::start_at(folder.path(), &listen);
    let resumed = r#"
        await until(up);
        const { value } = await memory.update({ ...place, id: "of:x", fn: (value) => value + " and after" });
        await until(() => heard.length);
        [value, heard]
    "#;
    // The watch is restored: it tells the new version, and the one that is known already not again.
    assert_eq!(eval(&script, resumed).await, json!(["before and after", ["before and after"]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_that_never_answers_the_greeting_is_not_there() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (_folder, near) = client_of(&listener.local_addr().unwrap().to_string()).await;
    let (stream, _) = listener.accept().await.unwrap();
    let mut silent = tokio_tungstenite::accept_async(stream).await.unwrap();
    // The greeting is here, so the connection is up on both sides.
    futures_util::StreamExt::next(&mut silent).await.unwrap().unwrap();
    let script = client(&near).await;
    let open =
        r#"await memory.open({ space: "s", peer: "other" }).then(() => "open", (error) => error.name)"#;
    assert_eq!(eval(&script, open).await, json!("ConnectionError"));
}
