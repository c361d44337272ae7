//! Servers and documents that misbehave.

use serde_json::{Map, Value, json};

use crate::api::{self, SHORT, Session};
use crate::program::{Done, Program};
use crate::support::Folder;

#[tokio::test]
async fn slow_endless_and_garbled_responses_end_the_call() {
    let server = api::start(None).await;
    let config = json!({
        "server": format!("http://{server}"), "timeoutMs": u64::try_from(SHORT.as_millis()).unwrap(), "bytesMax": 1_000_000,
    });
    let paths = ["/never", "/slow", "/endless", "/garbage", "/deep", "/echo"];
    let mut session = Session::of_paths(&paths, config).await;
    for (call, name, message) in [
        ("api.get_never()", "Timeout", "GET /never: no response within 300 ms"),
        ("api.get_slow()", "Timeout", "GET /slow: no response within 300 ms"),
        ("api.get_endless()", "ResultTooLarge", "GET /endless: response body exceeds 1000000 bytes"),
        ("api.get_garbage()", "InvalidOutput", "GET /garbage: the response is not JSON"),
        ("api.get_deep()", "InvalidOutput", "GET /deep: the response is not JSON"),
        ("api.post_echo({body: 'x'.repeat(1_000_000)})", "InvalidInput", "expected at most 1000000 bytes"),
    ] {
        let thrown = session.thrown(call).await;
        assert_eq!(thrown["name"], json!(name), "{call}: {thrown}");
        assert!(thrown["message"].as_str().unwrap().contains(message), "{call}: {thrown}");
    }
    assert_eq!(session.value("(await api.get_echo()).method").await, json!("GET"));
}

#[tokio::test]
async fn server_that_is_not_there_fails_the_call() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut session = Session::of_paths(&["/a"], json!({"server": format!("http://127.0.0.1:{port}")})).await;
    let thrown = session.thrown("api.get_a()").await;
    assert_eq!(thrown["name"], json!("BindingError"));
    assert!(thrown["message"].as_str().unwrap().starts_with("GET /a: "), "{thrown}");
}

/// Runs `check` on a document.
fn check(document: &str) -> Done {
    let declaration =
        json!({"package": "api", "openapi": {"document": "a.yaml", "server": "http://127.0.0.1:1"}});
    let folder =
        Folder::with(&[("api/declaration.json", &declaration.to_string()), ("api/a.yaml", document)]);
    Program::new(["check", "--bindings", folder.path().to_str().unwrap()]).run()
}

#[test]
fn document_of_ten_thousand_operations_opens() {
    let item = |at: usize| (format!("/p{at}"), json!({"get": {"operationId": format!("op{at}")}}));
    let paths: Map<String, Value> = (0..10_000).map(item).collect();
    let done = check(&json!({"openapi": "3.1.0", "paths": paths}).to_string());
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout.contains("1 package, 2000 bindings"), "{}", &done.stdout[..1000]);
    assert!(done.stdout.contains("not mapped: GET /p2000: the package has 2000 operations already"));
    assert!(done.stdout.contains("not mapped: paths: 7000 further items are not mapped either"));
}

#[test]
fn cyclic_and_huge_schemas_open() {
    let schema = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let answer = |name: &str| json!({"get": {"responses": {"200": {"description": "", "content": {"application/json": {"schema": schema(name)}}}}}});
    let wide: Map<String, Value> = (0..5_000).map(|at| (format!("p{at}"), schema("Wide"))).collect();
    let mut paths: Map<String, Value> = (0..20).map(|at| (format!("/wide{at}"), answer("Wide"))).collect();
    for name in ["Self", "A", "All"] {
        paths.insert(format!("/{name}"), answer(name));
    }
    let document = json!({"openapi": "3.0.0", "paths": paths, "components": {"schemas": {
        "Wide": {"properties": wide},
        "Self": schema("Self"), "A": schema("B"), "B": schema("A"),
        "All": {"allOf": [schema("All"), {"type": "object"}]},
    }}});
    let done = check(&document.to_string());
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout.contains("api.get_wide19 [read]"), "{}", done.stdout);
    assert!(done.stdout.contains("note: GET /wide0: parts of its schemas past 32768 bytes accept any value"));
}

#[test]
fn document_that_cannot_be_read_is_a_problem() {
    let long = format!("{{\"openapi\": \"3.0.0\", \"a\": \"{}\"}}", "x".repeat(16 << 20));
    for (document, expected) in [
        (long.as_str(), "expected at most 16777216 bytes"),
        (&"[".repeat(1_000_000), "not YAML"),
        (&format!("{{\"a\": {}", "[".repeat(1_000_000)), "not JSON"),
        ("swagger: '2.0'", "Swagger 2.0 is not supported"),
        ("\u{0}\u{1}", "not YAML"),
        ("", "not an OpenAPI document"),
        ("5", "not an OpenAPI document"),
    ] {
        let done = check(document);
        assert_eq!(done.code, 1, "{}", done.stdout);
        assert!(done.stderr.contains(expected) && done.stderr.len() < 2_000, "{}", done.stderr);
    }
}

#[test]
fn wrong_types_everywhere_are_listed() {
    for wrong in [json!(5), json!([]), json!("x"), json!(null), json!(true)] {
        let operation = |field: &str| json!({"get": {field: wrong}});
        let fields = [
            "operationId",
            "tags",
            "summary",
            "parameters",
            "requestBody",
            "responses",
            "servers",
            "deprecated",
        ];
        let mut paths: Map<String, Value> =
            fields.iter().map(|field| (format!("/{field}"), operation(field))).collect();
        paths.insert("/item".to_owned(), wrong.clone());
        paths.insert("/operation".to_owned(), json!({"get": wrong}));
        paths.insert("/good".to_owned(), json!({"get": {}}));
        let done = check(&json!({"openapi": "3.1.0", "paths": paths, "components": wrong}).to_string());
        assert_eq!(done.code, 0, "{wrong}: {}", done.stderr);
        assert!(done.stdout.contains("api.get_good [read]"), "{wrong}: {}", done.stdout);
        assert!(
            done.stdout.contains("not mapped: GET /operation: expected an object"),
            "{wrong}: {}",
            done.stdout
        );
        assert_eq!(check(&json!({"openapi": "3.1.0", "paths": wrong}).to_string()).code, 0);
    }
}
