//! Values of `env` and `headers` appear in no result, no error, no description and no log.

use serde_json::json;

use crate::program::Program;
use crate::servers::{HOSTILE, SECRET, Session, hostile_config, published};
use crate::support::Folder;

#[tokio::test]
async fn failed_tool_throws_without_the_secret() {
    let mut session = Session::hostile("plain", 0).await;
    for (call, expected) in [
        ("hostile.fails({})", "it failed with ${SECRET}"),
        ("hostile.rejects({})", "rejected with ${SECRET}"),
    ] {
        assert_eq!(session.thrown(call).await, ("BindingError".to_owned(), expected.to_owned()));
    }
}

#[tokio::test]
async fn result_has_names_in_place_of_secrets() {
    let mut session = Session::hostile("plain", 0).await;
    assert_eq!(session.value("await hostile.repeats({})").await, json!("${SECRET} and \"${SECRET}\""));
}

#[tokio::test]
async fn published_server_cannot_show_its_environment() {
    let config = json!({
        "command": ["node", published("server-everything"), "stdio"],
        "env": {"API_KEY": "k3y \"with\" \\ in it", "FOLDER": "/some/folder"},
        "public": ["FOLDER"],
    });
    let mut session = Session::start("everything", config, &[]).await;
    let shown = session.value("JSON.parse(await everything.get_env({}))").await;
    assert_eq!((&shown["API_KEY"], &shown["FOLDER"]), (&json!("${API_KEY}"), &json!("/some/folder")));
}

/// Everything is logged, the messages between the programs excepted.
#[test]
fn log_and_output_are_without_secrets() {
    let mut config = hostile_config("plain", 0);
    config["env"]["SECRET"] = json!("${TEST_SECRET}");
    config["env"]["LITERAL"] = json!("l1teral-value");
    let declaration = json!({"package": "hostile", "mcp": config}).to_string();
    let folder =
        Folder::with(&[("hostile/declaration.json", &declaration), ("hostile/hostile.mjs", HOSTILE)]);
    let dir = folder.path().to_str().unwrap();
    let code = "for (const tool of ['fails', 'rejects', 'repeats', 'crash']) {
        console.log(await hostile[tool]({}).catch((error) => error));
    }";
    for arguments in [vec!["check"], vec!["types"], vec!["eval", "-e", code]] {
        let arguments = arguments.into_iter().chain(["--bindings", dir]);
        let variables = [("TEST_SECRET", SECRET), ("SCOMP_LOG", "trace")];
        let program = variables.into_iter().fold(Program::new(arguments), Program::variable);
        let done = program.run();
        assert_eq!(done.code, 0, "{}", done.stderr);
        let text = done.stdout + &done.stderr;
        assert!(!text.contains(SECRET) && !text.contains("l1teral-value"), "{text}");
    }
}

/// The server's own log has what the other program prints.
#[test]
fn printed_lines_are_logged_without_secrets() {
    let mut config = hostile_config("plain", 0);
    config["env"]["SECRET"] = json!("${TEST_SECRET}");
    let declaration = json!({"package": "hostile", "mcp": config}).to_string();
    let folder =
        Folder::with(&[("hostile/declaration.json", &declaration), ("hostile/hostile.mjs", HOSTILE)]);
    let arguments = ["--listen", "127.0.0.1:0", "--bindings", folder.path().to_str().unwrap()];
    let variables = [("TEST_SECRET", SECRET), ("SCOMP_LOG", "trace")];
    let mut running = variables.into_iter().fold(Program::new(arguments), Program::variable).start();
    assert!(running.line().starts_with("listening on "));
    running.signal("TERM");
    let done = running.end();
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stderr.contains("started with ${TEST_SECRET}"), "{}", done.stderr);
    assert!(!done.stderr.contains(SECRET), "{}", done.stderr);
}
