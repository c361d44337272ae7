//! Published servers from npm and PyPI, over stdin and stdout.

use serde_json::json;

use crate::servers::{Session, published, python};
use crate::support::Folder;

#[tokio::test]
async fn everything_calls_fails_and_reports_progress() {
    let config = json!({"command": ["node", published("server-everything"), "stdio"]});
    let mut session = Session::start("everything", config, &[]).await;
    assert_eq!(session.value("await everything.echo({message: 'hi'})").await, json!("Echo: hi"));
    let sum = session.value("await everything.get_sum({a: 2, b: 3})").await;
    assert_eq!(sum, json!("The sum of 2 and 3 is 5."));
    let typed = session.value("await everything.get_structured_content({location: 'Chicago'})").await;
    assert!(typed["temperature"].is_number() && typed["conditions"].is_string(), "{typed}");
    let image =
        session.value("(await everything.get_tiny_image({})).map((one) => one.mimeType ?? typeof one)").await;
    assert_eq!(image, json!(["string", "image/png", "string"]));
    let (kind, message) = session.thrown("everything.get_sum({a: 'x', b: 3})").await;
    assert_eq!(kind, "InvalidInput", "{message}");
    let code = "const seen = [];
        await everything.trigger_long_running_operation({duration: 0.2, steps: 4, onProgress: (at) => { seen.push(at) }});
        seen.map((at) => [at.progress, at.total])";
    assert_eq!(session.value(code).await, json!([[1, 4], [2, 4], [3, 4], [4, 4]]));
    let listed = session.value("(await everything.resources.list({})).resources.length > 0").await;
    assert_eq!(listed, json!(true));
    let prompt =
        session.value("(await everything.prompts.get({name: 'simple-prompt'})).messages[0].role").await;
    assert_eq!(prompt, json!("user"));
}

#[tokio::test]
async fn filesystem_reads_writes_and_refuses() {
    let files = Folder::with(&[("a.txt", "alpha")]);
    let root = std::fs::canonicalize(files.path()).unwrap();
    let root = root.to_str().unwrap();
    let config = json!({"command": ["node", published("server-filesystem"), root]});
    let mut session = Session::start("files", config, &[]).await;
    let read = session.value(&format!("await files.read_text_file({{path: '{root}/a.txt'}})")).await;
    assert_eq!(read["content"], json!("alpha"));
    session.value(&format!("await files.write_file({{path: '{root}/b.txt', content: 'beta'}})")).await;
    assert_eq!(std::fs::read_to_string(files.path().join("b.txt")).unwrap(), "beta");
    let (kind, message) = session.thrown("files.read_text_file({path: '/etc/passwd'})").await;
    assert_eq!(kind, "BindingError");
    assert!(message.contains("Access denied"), "{message}");
    let effects = session.wire.invoke("bindings.search", json!({"query": "write file"})).await;
    assert!(effects.to_string().contains("files.write_file"), "{effects}");
}

#[tokio::test]
async fn memory_keeps_entities() {
    let store = Folder::with(&[]);
    let file = store.path().join("memory.jsonl");
    let config = json!({
        "command": ["node", published("server-memory")],
        "env": {"MEMORY_FILE_PATH": file}, "public": ["MEMORY_FILE_PATH"],
    });
    let mut session = Session::start("graph", config, &[]).await;
    let code = "await graph.create_entities({entities: [{name: 'Ada', entityType: 'person', observations: ['counts']}]});
        (await graph.search_nodes({query: 'Ada'})).entities[0].observations";
    assert_eq!(session.value(code).await, json!(["counts"]));
}

#[tokio::test]
async fn time_converts_and_refuses() {
    let config = python(&["-m", "mcp_server_time", "--local-timezone", "Europe/Berlin"]);
    let mut session = Session::start("time", config, &[]).await;
    let code = "(await time.convert_time({source_timezone: 'UTC', time: '12:00', target_timezone: 'Asia/Tokyo'})).time_difference";
    assert_eq!(session.value(code).await, json!("+9.0h"));
    let (kind, message) = session.thrown("time.get_current_time({timezone: 'Nowhere'})").await;
    assert_eq!(kind, "BindingError");
    assert!(message.contains("Nowhere"), "{message}");
}

#[tokio::test]
async fn newest_revision_is_spoken_with_the_python_library() {
    let mut session = Session::sdk().await;
    assert_eq!(session.value("(await sdk.revision({})).result").await, json!("2026-07-28"));
    assert_eq!(session.value("await sdk.add({a: 1, b: 2})").await, json!({"sum": 3}));
    assert_eq!(session.thrown("sdk.fail({reason: 'x'})").await.0, "BindingError");
    let code =
        "const seen = []; await sdk.count({to: 3, onProgress: (at) => { seen.push(at.message) }}); seen";
    assert_eq!(session.value(code).await, json!(["at 1", "at 2", "at 3"]));
    assert_eq!(
        session.value("(await sdk.resources.read({uri: 'note://one'}))[0].text").await,
        json!("the note")
    );
    let prompt =
        session.value("(await sdk.prompts.get({name: 'greet', arguments: {name: 'Ada'}})).messages").await;
    assert_eq!(prompt, json!([{"role": "user", "content": "Greet Ada."}]));
}
