//! Folders on disk, loaded for real.

use std::fs;
use std::sync::LazyLock;

use tokio::sync::Barrier;

use super::*;
use crate::binding::{Binding, handler};
use crate::package::{PackageContext, PackageInstance};
use crate::protocol::declaration::Declaration;

/// A package that is compiled in, as the server's own are.
const BUILT_IN: &[PackageDef] = &[PackageDef {
    name: "orders",
    declaration: include_str!("../../../bindings/orders/declaration.json"),
    open: |context| Box::pin(open_orders(context)),
}];

async fn open_orders(context: PackageContext) -> Result<PackageInstance, String> {
    let find = handler(|_input, _call| async { Ok(serde_json::Value::Null) });
    Ok(context.bind(vec![("getOrder", find)]).into())
}

/// A folder that goes when the test does.
struct Folder(PathBuf);

impl Folder {
    fn with(files: &[(&str, &str)]) -> Self {
        let dir = std::env::temp_dir().join(format!("scomp-loader-{}", uuid::Uuid::new_v4()));
        for (name, text) in files {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(dir)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn loaded(files: &[(&str, &str)]) -> Result<Loaded, Vec<(String, String, String)>> {
    let folder = Folder::with(files);
    load(&folder.0, &Environment::new(), BUILT_IN).await.map_err(|problems| {
        let shown = |problem: DeclarationProblem| {
            let origin = problem.origin.trim_start_matches(&folder.0.display().to_string()).to_owned();
            (origin, problem.path, problem.message)
        };
        problems.into_iter().map(shown).collect()
    })
}

/// Asserts that exactly these problems are found: file, JSON Pointer, and how the message begins.
async fn refused(files: &[(&str, &str)], expected: &[(&str, &str, &str)]) {
    let problems = loaded(files).await.unwrap_err();
    let all = format!("{problems:#?}");
    assert_eq!(problems.len(), expected.len(), "{all}");
    for ((file, path, message), (at_file, at_path, begins)) in problems.iter().zip(expected) {
        assert_eq!((file.as_str(), path.as_str()), (*at_file, *at_path), "{all}");
        assert!(message.starts_with(begins), "{message:?} does not begin with {begins:?}");
    }
}

#[tokio::test]
async fn packages_and_services_are_found_in_a_fixed_order() {
    let loaded = loaded(&[
        ("shop.json", r#"{"package": "shop", "description": "A shop.", "rust": "orders"}"#),
        ("services/b.ts", ""),
        ("services/a.js", ""),
        ("services/readme.md", ""),
        ("empty/other.json", "not looked at"),
        ("notes.txt", "not looked at"),
    ])
    .await
    .unwrap();
    let [package] = loaded.packages.as_slice() else { panic!("{:?}", loaded.packages) };
    assert_eq!((package.name.as_str(), package.description.as_deref()), ("shop", Some("A shop.")));
    assert_eq!(package.bindings, ["getOrder"]);
    let services: Vec<_> = loaded.services.iter().filter_map(|path| path.file_name()).collect();
    assert_eq!(services, ["a.js", "b.ts"]);
    assert!(loaded.handlers.get("getOrder").is_some_and(|binding| binding.origin.ends_with("shop.json")));
}

#[tokio::test]
async fn files_of_npm_are_not_declarations() {
    let loaded =
        loaded(&[("package.json", "{}"), ("package-lock.json", "{}"), ("tsconfig.json", "{}")]).await;
    assert!(loaded.unwrap().packages.is_empty());
}

#[tokio::test]
async fn missing_folder_is_a_problem() {
    let problems = load(Path::new("/nowhere/at/all"), &Environment::new(), BUILT_IN).await.unwrap_err();
    assert_eq!(problems[0].origin, "/nowhere/at/all");
}

#[tokio::test]
async fn all_problems_are_listed_with_their_places() {
    refused(
        &[
            ("a.json", "{"),
            ("b.json", "[]"),
            ("c.json", r#"{"pakage": 1, "description": 5, "bindings": {}, "rust": "orders"}"#),
            ("d.json", r#"{"package": "d", "rust": "orders", "command": ["x"]}"#),
            ("e.json", r#"{"package": "e", "command": []}"#),
            ("f.json", r#"{"package": "f", "command": ["x", 1], "env": "PATH"}"#),
            ("g.json", r#"{"package": "g", "rust": "nothing"}"#),
        ],
        &[
            ("/a.json", "", "not JSON: EOF"),
            ("/b.json", "", "expected object, got array"),
            ("/c.json", "/pakage", "unknown field; known are package"),
            ("/c.json", "/package", "missing"),
            ("/c.json", "/description", "expected string, got number"),
            ("/c.json", "/bindings", "expected array, got object"),
            ("/d.json", "", "expected exactly one of `rust`, `command`, `mcp` and `openapi`"),
            ("/e.json", "/command", "expected an executable"),
            ("/f.json", "/env", "expected array of strings, got string"),
            ("/f.json", "/command/1", "expected string, got number"),
            ("/g.json", "/rust", "no built-in package `nothing`; expected one of "),
        ],
    )
    .await;
}

#[tokio::test]
async fn declarations_and_handlers_must_match() {
    let undeclared = r#"{"package": "p", "rust": "orders", "bindings": [{"name": "getOrders"}]}"#;
    refused(
        &[("p/declaration.json", undeclared)],
        &[
            ("/p/declaration.json", "/bindings/0/name", "no handler for `getOrders`"),
            ("/p/declaration.json", "/bindings", "the handler `getOrder` is not declared"),
        ],
    )
    .await;
    let twice =
        r#"{"package": "p", "rust": "orders", "bindings": [{"name": "getOrder"}, {"name": "getOrder"}]}"#;
    refused(&[("p.json", twice)], &[("/p.json", "/bindings/1/name", "`getOrder` is declared twice")]).await;
}

#[tokio::test]
async fn problem_of_a_binding_points_to_the_member() {
    let file = r#"{"package": "p", "rust": "orders", "bindings": [
        {"name": "getOrder", "inputs": {}}, {"name": 5, "limits": {"timeoutMs": 0, "concurrency": 0}},
        {"name": "a", "limits": {"timeout": 1}}]}"#;
    refused(
        &[("p.json", file)],
        &[
            ("/p.json", "/bindings/0/inputs", "unknown field"),
            ("/p.json", "/bindings/1/limits/timeoutMs", "expected a positive integer"),
            ("/p.json", "/bindings/1/limits/concurrency", "expected a positive integer"),
            ("/p.json", "/bindings/1/name", "expected string, got number"),
            ("/p.json", "/bindings/2/limits", "unknown field `timeout`"),
        ],
    )
    .await;
    let schema = r#"{"package": "p", "rust": "orders", "bindings": [{"name": "getOrder", "input": {"properties": {"id": {"type": "strng"}}}}]}"#;
    let problems = loaded(&[("p.json", schema)]).await.unwrap_err();
    assert_eq!(problems[0].1, "/bindings/0/input/properties/id/type");
}

#[tokio::test]
async fn duplicate_names_and_packages_are_problems() {
    let problems = loaded(&[
        ("a.json", r#"{"package": "shop", "rust": "orders"}"#),
        ("b.json", r#"{"package": "shop", "rust": "orders"}"#),
    ])
    .await
    .unwrap_err();
    let places: Vec<_> = problems.iter().map(|(file, path, _)| (file.as_str(), path.as_str())).collect();
    assert_eq!(places, [("/b.json", "/package"), ("/b.json", "/bindings/0/name")]);
}

#[tokio::test]
async fn config_is_checked_against_the_own_schema() {
    let extra = r#"{"package": "p", "rust": "orders", "config": {"colour": "${COLOUR}"}}"#;
    refused(
        &[("p.json", extra)],
        &[("/p.json", "/config/colour", "the environment has no `COLOUR`"), ("/p.json", "/config", "")],
    )
    .await;
}

#[tokio::test]
async fn bad_schema_is_found_before_the_command_starts() {
    let file = r##"{"package": "p", "command": ["./not-there"], "bindings": [
        {"name": "a", "input": {"properties": {"id": {"type": "strng"}}}}, {"name": "b", "output": {"$ref": "#none"}}]}"##;
    refused(
        &[("p.json", file)],
        &[
            ("/p.json", "/bindings/0/input/properties/id/type", "matches none"),
            ("/p.json", "/bindings/1/output/$ref", "`#none` cannot be resolved"),
        ],
    )
    .await;
}

/// Packages that wait, for each other or for ever, before they open or fail.
const WAITING: &[PackageDef] = &[
    PackageDef {
        name: "meet",
        declaration: r#"{"package": "meet", "rust": "meet"}"#,
        open: |context| Box::pin(open_together(context)),
    },
    PackageDef {
        name: "hang",
        declaration: r#"{"package": "hang", "rust": "hang"}"#,
        open: |_| Box::pin(std::future::pending()),
    },
];

static OPENING: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(3));

/// Fails only when all three are opening, those with a shorter name later.
async fn open_together(context: PackageContext) -> Result<PackageInstance, String> {
    OPENING.wait().await;
    let name = context.config["name"].as_str().unwrap_or_default().to_owned();
    for _ in name.len()..10 {
        tokio::task::yield_now().await;
    }
    Err(format!("{name} fails"))
}

#[tokio::test]
async fn packages_open_concurrently_and_fail_in_file_order() {
    let file = |name: &str| {
        (
            format!("{name}.json"),
            format!(r#"{{"package": "{name}", "rust": "meet", "config": {{"name": "{name}"}}}}"#),
        )
    };
    let files = ["a", "bbbb", "cc"].map(file);
    let folder = Folder::with(&files.each_ref().map(|(path, text)| (path.as_str(), text.as_str())));
    let problems = load(&folder.0, &Environment::new(), WAITING).await.unwrap_err();
    let messages: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(messages, ["a fails", "bbbb fails", "cc fails"]);
}

#[tokio::test(start_paused = true)]
async fn package_that_does_not_open_in_time_is_a_problem() {
    let folder = Folder::with(&[("a.json", r#"{"package": "a", "rust": "hang"}"#)]);
    let began = tokio::time::Instant::now();
    let problems = load(&folder.0, &Environment::new(), WAITING).await.unwrap_err();
    assert_eq!(problems[0].message, "the package did not open within 30 s");
    assert!(began.elapsed() >= OPEN_TIME_MAX);
}

#[tokio::test]
async fn package_without_declared_bindings_offers_its_own() {
    const OWN: &[PackageDef] = &[PackageDef {
        name: "own",
        declaration: r#"{"package": "own", "rust": "own"}"#,
        open: |_| Box::pin(open_own()),
    }];
    async fn open_own() -> Result<PackageInstance, String> {
        let declaration = Declaration { effects: vec!["read".to_owned()], ..Declaration::named("own.get") };
        let get = handler(|_input, _call| async { Ok(serde_json::Value::Null) });
        Ok(vec![Binding::new(declaration, get)].into())
    }
    let folder = Folder::with(&[("a.json", r#"{"package": "a", "rust": "own"}"#)]);
    let loaded = load(&folder.0, &Environment::new(), OWN).await.unwrap();
    assert_eq!(loaded.packages[0].bindings, ["own.get"]);
    assert_eq!(loaded.handlers.get("own.get").unwrap().entry.declaration.effects, ["read"]);
}
