//! Credentials go to the server of the configuration, and nowhere else: not to other hosts, errors, values or logs.

use serde_json::{Value, json};

use crate::api::{self, SECRET, Session};
use crate::program::Program;
use crate::support::Folder;

#[tokio::test]
async fn credentials_are_sent_in_every_form() {
    let server = api::start(None).await;
    for (auth, expected) in [
        (json!({"bearer": SECRET}), json!({"uri": "/echo", "headers": {"authorization": "Bearer <secret>"}})),
        (
            json!({"basic": {"username": "ada", "password": "lovelace"}}),
            json!({"uri": "/echo", "headers": {"authorization": "${auth.basic}"}}),
        ),
        (
            json!({"apiKey": {"in": "header", "name": "X-Key", "value": SECRET}}),
            json!({"uri": "/echo", "headers": {"x-key": "<secret>"}}),
        ),
        (
            json!({"apiKey": {"in": "query", "name": "key", "value": SECRET}}),
            json!({"uri": "/echo?key=<secret>", "headers": {}}),
        ),
        (
            json!({"apiKey": {"in": "cookie", "name": "sid", "value": SECRET}}),
            json!({"uri": "/echo", "headers": {"cookie": "sid=<secret>"}}),
        ),
    ] {
        let config = json!({"server": format!("http://{server}"), "auth": auth});
        let mut session = Session::of_paths(&["/echo"], config).await;
        let mut seen = session.value("await api.get_echo()").await;
        if let Some(header) = seen["headers"].get_mut("authorization") {
            // The password is in no value, not even in this form.
            *header = Value::from(header.as_str().unwrap().replace("Basic ", ""));
        }
        assert_eq!((&seen["uri"], &seen["headers"]), (&expected["uri"], &expected["headers"]), "{auth}");
    }
}

#[tokio::test]
async fn script_cannot_set_or_read_credentials() {
    let server = api::start(None).await;
    let parameters = json!([
        {"name": "x-key", "in": "header", "required": true, "schema": {"type": "string"}},
        {"name": "key", "in": "query", "schema": {"type": "string"}},
    ]);
    let document = json!({"openapi": "3.0.0", "paths": {
        "/echo": {"get": {"parameters": parameters}}, "/reveal": {"get": {}}, "/repeat": {"get": {}},
    }});
    let auth = json!({"bearer": SECRET, "apiKey": {"in": "header", "name": "X-Key", "value": SECRET}});
    let config = json!({"server": format!("http://{server}"), "auth": auth});
    let mut session = Session::start(&document.to_string(), config).await;
    assert_eq!(session.value("(await api.get_echo({key: 'mine'})).uri").await, json!("/echo?key=mine"));
    assert_eq!(session.thrown("api.get_echo({'x-key': 'mine'})").await["name"], json!("InvalidInput"));
    assert_eq!(session.value("await api.get_reveal()").await, json!({"token": "${auth.bearer}"}));
    let thrown = session.thrown("api.get_repeat()").await;
    assert_eq!(thrown["data"]["body"]["token"], json!("Bearer ${auth.bearer}"));
    assert!(!thrown.to_string().contains(SECRET), "{thrown}");
}

#[tokio::test]
async fn redirect_keeps_credentials_at_the_server_only() {
    let other = api::start(None).await;
    let server = api::start(Some(other)).await;
    let auth = json!({"bearer": SECRET, "apiKey": [
        {"in": "header", "name": "X-Key", "value": SECRET},
        {"in": "cookie", "name": "sid", "value": SECRET},
        {"in": "query", "name": "key", "value": SECRET},
    ]});
    let config = json!({
        "server": format!("http://{server}"), "auth": auth, "redirectHosts": [other.to_string()], "redirectsMax": 3,
    });
    let mut session = Session::of_paths(&["/moved", "/away", "/local", "/loop"], config).await;
    let same = session.value("await api.post_moved({body: 1})").await;
    assert_eq!((&same["headers"]["x-key"], &same["body"]), (&json!("<secret>"), &json!("1")));
    let away = session.value("await api.post_away({body: 1})").await;
    assert_eq!(
        away,
        json!({"method": "POST", "uri": "/echo?at=other", "headers": {"content-type": "application/json"}, "body": "1"})
    );
    let local = session.thrown("api.get_local()").await;
    assert_eq!(local["name"], json!("PermissionDenied"));
    assert!(local["message"].as_str().unwrap().contains("is not among the allowed hosts"), "{local}");
    let looping = session.thrown("api.get_loop()").await;
    assert_eq!(looping["message"], json!("GET /loop: more than 3 redirects"));
}

#[tokio::test]
async fn redirect_to_an_unlisted_host_is_refused() {
    let other = api::start(None).await;
    let server = api::start(Some(other)).await;
    let config = json!({"server": format!("http://{server}"), "auth": {"bearer": SECRET}});
    let mut session = Session::of_paths(&["/away"], config).await;
    assert_eq!(session.thrown("api.get_away()").await["name"], json!("PermissionDenied"));
}

/// Everything is logged.
#[tokio::test(flavor = "multi_thread")]
async fn log_and_output_are_without_secrets() {
    let server = api::start(None).await;
    let auth = json!({"apiKey": [
        {"in": "query", "name": "key", "value": "${TEST_SECRET}"},
        {"in": "header", "name": "X-Key", "value": "l1teral-value"},
    ]});
    let openapi =
        json!({"document": "a.json", "server": format!("http://{server}"), "auth": auth, "timeoutMs": 300});
    let declaration = json!({"package": "api", "openapi": openapi}).to_string();
    let paths =
        json!({"/reveal": {"get": {}}, "/never": {"get": {}}, "/repeat": {"get": {}}, "/bad": {"get": 5}});
    let document = json!({"openapi": "3.1.0", "paths": paths}).to_string();
    let folder = Folder::with(&[("api/declaration.json", &declaration), ("api/a.json", &document)]);
    let dir = folder.path().to_str().unwrap().to_owned();
    let code = "for (const name of ['get_reveal', 'get_never', 'get_repeat']) console.log(await api[name]().catch((e) => e))";
    for arguments in [vec!["check"], vec!["types"], vec!["eval", "-e", code]] {
        let dir = dir.clone();
        let done = tokio::task::spawn_blocking(move || {
            let arguments = arguments.into_iter().chain(["--bindings", &dir]);
            let variables = [("TEST_SECRET", SECRET), ("SCOMP_LOG", "trace")];
            variables.into_iter().fold(Program::new(arguments), Program::variable).run()
        });
        let done = done.await.unwrap();
        assert_eq!(done.code, 0, "{}", done.stderr);
        let text = done.stdout + &done.stderr;
        assert!(!text.contains(SECRET) && !text.contains("l1teral-value"), "{text}");
    }
}

#[test]
fn missing_variable_is_a_problem_of_the_start() {
    let openapi =
        json!({"document": "a.json", "server": "http://127.0.0.1:1", "auth": {"bearer": "${TEST_ABSENT}"}});
    let declaration = json!({"package": "api", "openapi": openapi}).to_string();
    let folder =
        Folder::with(&[("api/declaration.json", &declaration), ("api/a.json", r#"{"openapi": "3.0.0"}"#)]);
    let done = Program::new(["check", "--bindings", folder.path().to_str().unwrap()]).run();
    assert_eq!(done.code, 1);
    assert!(
        done.stderr.contains("/openapi/auth/bearer: the environment has no `TEST_ABSENT`"),
        "{}",
        done.stderr
    );
}
