//! What the compiler says to a program that uses the crate in the wrong way.
//!
//! Each program is checked against the library that Cargo built for this test, so that nothing is built a second time.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library beside this test. Of several builds the latest is that of the present source.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let files = fs::read_dir(test.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libscomp-") && name.ends_with(".rlib")
    };
    let built_at = |path: &PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    files.filter(is_library).max_by_key(built_at).expect("a library")
}

/// The messages about a program.
fn messages(library: &Path, name: &str, program: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join(format!("{name}.rs"));
    fs::write(&source, program).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let checked = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "--out-dir"])
        .arg(&folder)
        .arg("-L")
        .arg(format!("dependency={}", library.parent().unwrap().display()))
        .arg("--extern")
        .arg(format!("scomp={}", library.display()))
        .arg(&source)
        .output()
        .unwrap();
    // The path is written out where another type of that name is in reach.
    String::from_utf8(checked.stderr).unwrap().replace("std::string::String", "String")
}

#[test]
fn compiler_says_what_was_expected() {
    let library = library();
    let plain =
        "/// Is fine.\n#[scomp::binding]\npub async fn fine(a: String) -> Option<u32> { a.parse().ok() }";
    assert_eq!(messages(&library, "fine", plain), "");
    let cases = [
        (
            "handler",
            "use scomp::binding::{Call, Handler};
             pub async fn f(_: String, _: Call) -> u32 { 1 }
             pub fn g() -> std::sync::Arc<dyn Handler> { std::sync::Arc::new(\"text\") }",
            "`&str` is not a handler",
            "expected an async function from `serde_json::Value` and `Call`",
        ),
        (
            "function",
            "pub fn f() -> scomp::package::Package { scomp::package::Package::new(\"p\").add::<String>() }",
            "`String` is not a binding function",
            "expected the name of a function with `#[scomp::binding]`",
        ),
        (
            "failure",
            "/// Fails.\n#[scomp::binding]\npub async fn f() -> Result<u32, String> { Ok(1) }",
            "a binding function cannot fail with `String`",
            "expected `BindingError`, a type with `#[derive(scomp::ErrorKind)]`",
        ),
        (
            "arguments",
            "use scomp::binding::Function;
             pub async fn f(g: Function<f64, f64>) { let _ = g.call(1.0).await; }",
            "`f64` is not a tuple of arguments",
            "one argument is a tuple too: `Function<(f64,), String>`",
        ),
        (
            "kinds",
            "pub fn f(e: &std::fmt::Error) { let _ = scomp::binding::BindingError::with_kind(e); }",
            "`std::fmt::Error` has no error kinds",
            "expected a type with `#[derive(scomp::ErrorKind)]`",
        ),
    ];
    for (name, program, message, label) in cases {
        let text = messages(&library, name, program);
        assert!(text.contains(message) && text.contains(label), "{name}:\n{text}");
    }
}
