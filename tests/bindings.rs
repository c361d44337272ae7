//! Packages from a folder, called by scripts: built in, and served by a real Node child.
//!
//! Needs `node` in PATH. The children are in `tests/bindings/`, one file for each way to behave.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use scomp::bindings::BUILT_IN;
use scomp::client::{Client, ClientError};
use scomp::package::loader::{self, CommandPackage, Loaded};
use scomp::rpc::ErrorObject;
use scomp::server::Server;
use serde_json::{Value, json};

/// A folder with one declaration beside copies of the children; it goes when the test does.
struct Folder(PathBuf);

impl Folder {
    fn with(declaration: &Value) -> Self {
        let dir = std::env::temp_dir().join(format!("scomp-bindings-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&dir).unwrap();
        let children = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bindings");
        for child in std::fs::read_dir(children).unwrap() {
            let child = child.unwrap();
            std::fs::copy(child.path(), dir.join(child.file_name())).unwrap();
        }
        std::fs::write(dir.join("child.json"), declaration.to_string()).unwrap();
        Self(dir)
    }

    async fn load(&self) -> Result<Loaded, Vec<String>> {
        let mut env = loader::environment();
        env.insert("CHILD_SECRET".to_owned(), "s3cret".to_owned());
        env.insert("CHILD_HIDDEN".to_owned(), "not for the child".to_owned());
        let loaded = loader::load(&self.0, &env, BUILT_IN).await;
        let loaded = loaded.map_err(|problems| {
            problems
                .into_iter()
                .map(|problem| format!("{}: {}", problem.path, problem.message))
                .collect::<Vec<_>>()
        });
        if let Err(problems) = &loaded {
            let lacks_node = problems.iter().any(|problem| problem.contains("`node` cannot be started"));
            assert!(!lacks_node, "these tests need node in PATH: {problems:?}");
        }
        loaded
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn node(child: &str) -> Value {
    json!({"package": "child", "command": ["node", child]})
}

/// A server with the bindings of a folder, and a client of it.
struct PackageContext {
    client: Client,
    command: Arc<CommandPackage>,
    _server: Server,
    _folder: Folder,
}

async fn setup(declaration: Value) -> PackageContext {
    let folder = Folder::with(&declaration);
    let loaded = folder.load().await.unwrap();
    let command = Arc::clone(&loaded.commands[0]);
    let server = Server::builder().shards(1).loaded(loaded).build().unwrap();
    let client = Client::builder().connect_transport(server.connect()).await.unwrap();
    PackageContext { client, command, _server: server, _folder: folder }
}

async fn value(client: &Client, code: &str) -> Value {
    client.eval(code).await.unwrap().value
}

/// The error that the script did not catch, as the handler gave it.
async fn cause(client: &Client, code: &str) -> (String, ErrorObject) {
    let Err(ClientError::Rpc(error)) = client.eval(code).await else { panic!("the eval did not fail") };
    let cause = error.data.as_ref().and_then(|data| data.get("cause").cloned());
    let cause: ErrorObject =
        serde_json::from_value(cause.unwrap_or_else(|| panic!("no cause: {error:?}"))).unwrap();
    (cause.kind().unwrap_or_default().to_owned(), cause)
}

#[tokio::test]
async fn worked_example_runs_with_the_packages_of_the_repository() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("bindings");
    let loaded = loader::load(&dir, &loader::environment(), BUILT_IN).await.unwrap();
    let names: Vec<_> = loaded.packages.iter().map(|package| package.name.as_str()).collect();
    // Those behind `"mcp"` and `"openapi"` have no folder with a declaration: their bindings are those of what one names.
    let built_in: Vec<_> = BUILT_IN
        .iter()
        .map(|package| package.name)
        .filter(|name| !matches!(*name, "mcp" | "openapi"))
        .collect();
    assert_eq!(names, built_in);
    let server = Server::builder().shards(1).loaded(loaded).build().unwrap();
    let client = Client::builder().connect_transport(server.connect()).await.unwrap();
    assert_eq!(value(&client, "const o = await getOrder({ id: 'o_001' }); o.total").await, json!(142.5));
    assert_eq!(value(&client, "await getOrder({ id: 'o_999' })").await, Value::Null);
    let counted = "await kv.set({key: 'n', value: 1}); await kv.cas({key: 'n', expected: await kv.get({key: 'n'}), value: 2})";
    assert_eq!(value(&client, counted).await, json!(true));
    assert_eq!(value(&client, "await kv.get({key: 'none'}) === undefined").await, json!(true));
}

#[tokio::test]
async fn child_is_called_concurrently_and_with_its_schemas() {
    let PackageContext { client, .. } = &setup(node("polite.mjs")).await;
    // The first call is answered only when the second one has come.
    assert_eq!(value(client, "await Promise.all([child.meet({}), child.meet({})])").await, json!([2, 2]));
    let (kind, _) = cause(client, "await child.add({a: 'x', b: 1})").await;
    assert_eq!(kind, "InvalidInput");
    let (_, own) = cause(client, "await child.fail({})").await;
    assert_eq!((own.code, own.message.as_str(), own.data), (77, "as I said", Some(json!({"kind": "Mine"}))));
    let names: Vec<_> =
        client.bindings().iter().filter_map(|binding| binding["name"].as_str().map(str::to_owned)).collect();
    assert!(names.contains(&"child.meet".to_owned()));
    assert_eq!(names.iter().filter(|name| *name == "session.info").count(), 1, "{names:?}");
}

#[tokio::test]
async fn child_sees_its_configuration_and_passed_environment_only() {
    let declaration = json!({
        "package": "child", "command": ["node", "polite.mjs"], "env": ["CHILD_SECRET"],
        "config": {"secret": "${CHILD_SECRET}"}, "configSchema": {"required": ["secret"]},
    });
    let PackageContext { client, .. } = &setup(declaration).await;
    let seen = value(client, "await child.surroundings({})").await;
    assert_eq!(seen["config"], json!({"secret": "s3cret"}));
    let names: Vec<_> = seen["env"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let allowed = ["CHILD_SECRET", "HOME", "LANG", "PATH", "TMPDIR"];
    assert!(names.contains(&"CHILD_SECRET") && names.iter().all(|name| allowed.contains(name)), "{names:?}");
}

#[tokio::test]
async fn functions_cross_between_script_and_child() {
    let PackageContext { client, .. } = &setup(node("polite.mjs")).await;
    let called = "await child.call({ fn: (n) => n + 1, arg: 41 })";
    assert_eq!(value(client, called).await, json!(42));
    let given = "const add = await child.adder({ n: 5 }); await add(37)";
    assert_eq!(value(client, given).await, json!(42));
}

#[tokio::test]
async fn child_that_dies_fails_its_calls_and_comes_back() {
    let PackageContext { client, command, .. } = &setup(node("polite.mjs")).await;
    let (kind, _) = cause(client, "await child.die({})").await;
    assert_eq!(kind, "PeerGone");
    command.started(2).await;
    assert_eq!(value(client, "await child.add({a: 1, b: 2})").await, json!(3));
}

#[tokio::test]
async fn child_that_says_nothing_in_time_times_out_and_goes_on() {
    let declaration = json!({
        "package": "child", "command": ["node", "silent.mjs"],
        "bindings": [{"name": "child.hang", "limits": {"timeoutMs": 50}}],
    });
    let PackageContext { client, command, .. } = &setup(declaration).await;
    let (kind, _) = cause(client, "await child.hang({})").await;
    assert_eq!(kind, "Timeout");
    assert!(command.is_running());
}

#[tokio::test]
async fn child_that_answers_nothing_any_more_is_started_again() {
    let declaration = json!({
        "package": "child",
        "command": ["node", "silent.mjs"],
        "bindings": [{"name": "child.hang", "limits": {"timeoutMs": 50}}],
    });
    let PackageContext { client, command, .. } = &setup(declaration).await;
    let many = "await Promise.allSettled(Array.from({ length: 600 }, () => child.hang({}))); 'done'";
    assert_eq!(value(client, many).await, json!("done"));
    command.started(2).await;
}

#[tokio::test]
async fn what_child_and_file_say_must_be_the_same() {
    let declaration = json!({
        "package": "child", "command": ["node", "silent.mjs"],
        "bindings": [{"name": "child.hang", "effects": ["write"], "input": {"type": "object"}}, {"name": "child.more"}],
    });
    let problems = Folder::with(&declaration).load().await.unwrap_err();
    let expected = [
        "/bindings/0/input: the command declares `child.hang` differently",
        "/bindings/0/effects: the command declares `child.hang` differently",
        "/bindings/1/name: the command does not offer `child.more`",
    ];
    assert_eq!(problems, expected);
}

#[tokio::test]
async fn child_that_does_not_speak_the_protocol_is_a_start_error() {
    for (command, expected) in [
        (json!(["node", "garbage.mjs"]), "/command: `node` failed the handshake"),
        (json!(["./not-there"]), "not-there` cannot be started"),
        (json!(["node", "bad_schema.mjs"]), "/command/input/type: "),
        (json!(["node", "bad_name.mjs"]), "/command/name: "),
    ] {
        let problems =
            Folder::with(&json!({"package": "child", "command": command})).load().await.unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(expected), "{problems:?}");
    }
}

/// Its output refers to a definition that is missing: that is anything, for executables as for clients.
#[tokio::test]
async fn declaration_of_the_specification_is_served() {
    let setup = setup(node("spec_order.mjs")).await;
    assert_eq!(value(&setup.client, "(await getOrder({ id: 'o_001' })).total").await, json!(142.5));
    let file = json!({"package": "child", "rust": "orders", "bindings": [
        {"name": "getOrder", "output": {"$ref": "#/$defs/Order"}}]});
    let problems = Folder::with(&file).load().await.unwrap_err();
    assert!(problems[0].starts_with("/bindings/0/output/$ref: "), "{problems:?}");
}

#[tokio::test]
async fn malformed_tag_from_a_child_is_an_invalid_output() {
    let setup = setup(node("spec_order.mjs")).await;
    let caught = value(&setup.client, "await child.malformed({}).catch((e) => [e.name, e.data.path])").await;
    assert_eq!(caught, json!(["InvalidOutput", "/at/$date"]));
    let direct = setup.client.invoke("child.malformed", json!({})).await.unwrap_err();
    let ClientError::Rpc(error) = direct else { panic!("{direct}") };
    assert_eq!((error.kind(), error.code), (Some("InvalidOutput"), -32004));
}

#[tokio::test]
async fn child_that_never_answers_the_handshake_is_given_up() {
    let folder = Folder::with(&node("mute.mjs"));
    let problems = folder.load().await.unwrap_err();
    assert_eq!(problems, ["/command: `node` did not answer the handshake within 10 s"]);
}

#[tokio::test]
async fn child_that_floods_is_ended() {
    let PackageContext { client, .. } = &setup(node("flood.mjs")).await;
    let (kind, _) = cause(client, "await child.flood({})").await;
    assert_eq!(kind, "PeerGone");
}

#[tokio::test]
async fn example_in_node_works_as_it_stands() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let loaded = loader::load(&dir, &loader::environment(), BUILT_IN).await.unwrap();
    let server = Server::builder().shards(1).loaded(loaded).build().unwrap();
    let client = Client::builder().connect_transport(server.connect()).await.unwrap();
    let code = "[await text.reverse({text: 'abc'}), await text.count({text: 'one two'})]";
    assert_eq!(value(&client, code).await, json!(["cba", 2]));
}

/// Whether a process is there, be it as a zombie.
#[cfg(target_os = "linux")]
fn is_there(pid: &str) -> bool {
    Path::new("/proc").join(pid.trim()).exists()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn command_that_fails_its_handshake_leaves_no_process() {
    // It refuses, and stays.
    let script = "require('fs').writeFileSync('pid', `${process.pid}`);
        setInterval(() => {}, 9e6);
        process.stdin.once('data', (line) => {
            const error = { code: 1, message: 'not today' };
            console.log(JSON.stringify({ jsonrpc: '2.0', id: JSON.parse(line).id, error }));
        })";
    let folder = Folder::with(&json!({"package": "child", "command": ["node", "-e", script]}));
    let problems = folder.load().await.unwrap_err();
    assert!(problems[0].contains("failed the handshake"), "{problems:?}");
    let pid = std::fs::read_to_string(folder.0.join("pid")).unwrap();
    assert!(!is_there(&pid));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn command_that_is_stopped_leaves_no_process() {
    let PackageContext { client, command, _server: server, .. } = &setup(node("polite.mjs")).await;
    let pid = value(client, "await child.pid({})").await.to_string();
    assert!(is_there(&pid));
    server.stop(std::time::Duration::ZERO).await;
    assert!(!is_there(&pid) && !command.is_running());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn command_that_is_started_again_leaves_no_process() {
    let PackageContext { client, command, .. } = &setup(node("polite.mjs")).await;
    let pid = value(client, "await child.pid({})").await.to_string();
    client.eval("await child.die({})").await.unwrap_err();
    command.started(2).await;
    assert!(!is_there(&pid));
}
