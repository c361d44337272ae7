//! Documents from public packages.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::api::{self, Session};
use crate::program::Program;
use crate::support::{Folder, files};

/// A file of a package that `tests/openapi/install` installed.
fn installed(path: &str) -> PathBuf {
    let home =
        || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/scomp-serve-openapi-documents");
    let folder = std::env::var_os("SCOMP_OPENAPI_DOCUMENTS").map_or_else(home, PathBuf::from);
    let path = folder.join("node_modules").join(path);
    assert!(path.exists(), "{} is missing: run tests/openapi/install first", path.display());
    path
}

fn text(path: &str) -> String {
    std::fs::read_to_string(installed(path)).unwrap()
}

async fn session(path: &str, mut config: Value) -> Session {
    let server = api::start(None).await;
    config["server"] = json!(format!("http://{server}"));
    config["outputs"] = json!(false);
    Session::start(&text(path), config).await
}

#[tokio::test]
async fn petstore_is_called_with_all_kinds_of_parameters() {
    let mut session = session("@readme/oas-examples/3.0/json/petstore.json", json!({})).await;
    let pet = session.value("await api.getPetById({petId: 7})").await;
    assert_eq!((&pet["method"], &pet["uri"]), (&json!("GET"), &json!("/pet/7")));
    let found = session.value("await api.findPetsByStatus({status: ['available', 'sold']})").await;
    assert_eq!(found["uri"], json!("/pet/findByStatus?status=available&status=sold"));
    let added = session.value("await api.addPet({body: {name: 'Rex', photoUrls: []}})").await;
    assert_eq!(added["body"], json!(r#"{"name":"Rex","photoUrls":[]}"#));
    let thrown = session.thrown("api.findPetsByStatus({status: ['lost']})").await;
    assert_eq!(thrown["name"], json!("InvalidInput"));
}

#[tokio::test]
async fn styles_of_a_published_document_are_written() {
    let mut session =
        session("@readme/oas-examples/3.0/json/parameters-style.json", json!({"response": "body"})).await;
    let values = "{primitive: 'buster', array: ['pug', 'lab'], object: {name: 'buster', age: 3}}";
    for (name, expected) in [
        ("paths_standard", "/anything/path/buster/pug,lab/name,buster,age,3"),
        (
            "paths_matrix_nonExploded",
            "/anything/path/matrix/;primitive=buster/;array=pug,lab/;object=name,buster,age,3",
        ),
        ("paths_label_nonExploded", "/anything/path/label/.buster/.pug,lab/.name,buster,age,3"),
    ] {
        assert_eq!(
            session.value(&format!("(await api.{name}({values})).uri")).await,
            json!(expected),
            "{name}"
        );
    }
}

#[tokio::test]
async fn figma_document_in_yaml_is_typed_and_called() {
    let path = "@figma/rest-api-spec/openapi/openapi.yaml";
    let auth = json!({"apiKey": {"in": "header", "name": "X-Figma-Token", "value": "f1gma-token"}});
    let mut session =
        session(path, json!({"auth": auth, "include": ["getFile", "*omment*", "tag:Users"]})).await;
    let file = session.value("await api.getFile({file_key: 'abc', depth: 2})").await;
    assert_eq!(
        (&file["uri"], &file["headers"]["x-figma-token"]),
        (&json!("/v1/files/abc?depth=2"), &json!("${auth.apiKey}"))
    );
    let comment = session.value("await api.postComment({file_key: 'abc', body: {message: 'hi'}})").await;
    assert_eq!(comment["body"], json!(r#"{"message":"hi"}"#));
    assert_eq!(
        session.value("typeof api.getMe + typeof api.getProjectFiles").await,
        json!("functionundefined")
    );
    let found = session.wire.invoke("bindings.search", json!({"query": "comment"})).await;
    assert!(found.to_string().contains("api.postComment"), "{found}");
}

/// Every document of a folder opens; what is not mapped has a reason that is known here.
fn check_examples(version: &str, extension: &str) {
    let folder = Folder::with(&[]);
    let documents = files(&installed(&format!("@readme/oas-examples/{version}/{extension}")), extension);
    for (at, path) in documents.iter().enumerate() {
        let openapi = json!({"document": path, "server": "http://127.0.0.1:1"});
        let package = format!("p{at}");
        folder
            .write(&format!("{package}.json"), &json!({"package": package, "openapi": openapi}).to_string());
    }
    let done = Program::new(["check", "--bindings", folder.path().to_str().unwrap()]).run();
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(documents.len() >= 12, "{} documents", documents.len());
    let is_known = |line: &&str| KNOWN_REASONS.iter().any(|reason| line.contains(reason));
    let unmapped = done.stdout.lines().filter(|line| line.contains("not mapped: "));
    let unknown: Vec<&str> = unmapped.filter(|line| !is_known(line)).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn published_examples_of_3_0_in_json_open() {
    check_examples("3.0", "json");
}

#[test]
fn published_examples_of_3_1_in_yaml_open() {
    check_examples("3.1", "yaml");
}

/// Mistakes of the documents, and what is not supported.
const KNOWN_REASONS: &[&str] = &["its own server", "leads to another document"];
