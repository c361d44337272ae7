//! House rules that no other tool checks: the direction of use between layers, and sizes that stay readable.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// Longest source file. A newcomer should hold a file in mind; most are half of this.
const FILE_LINES_MAX: usize = 450;

/// From the bottom up: a layer may name only those before it.
const LAYERS: [(&str, &[&str]); 15] = [
    ("rpc", &[]),
    ("scomp", &["rpc"]),
    ("limits", &[]),
    ("budget", &[]),
    ("observe", &["rpc"]),
    ("quota", &["rpc", "limits"]),
    ("transport", &["rpc", "scomp", "limits", "budget"]),
    (
        "binding",
        &["observe", "quota", "rpc", "scomp", "limits", "transport", "client", "bindings", "peering"],
    ),
    ("peering", &["binding", "observe", "rpc", "transport"]),
    ("runtime", &["observe", "quota", "rpc", "scomp", "limits", "budget", "binding"]),
    ("client", &["rpc", "scomp", "limits", "transport"]),
    ("session", &["observe", "quota", "rpc", "scomp", "limits", "binding", "runtime"]),
    (
        "server",
        &[
            "observe",
            "quota",
            "rpc",
            "scomp",
            "limits",
            "budget",
            "transport",
            "binding",
            "peering",
            "runtime",
            "session",
            "client",
        ],
    ),
    ("config", &["observe", "quota", "limits", "session", "server", "binding"]),
    (
        "cli",
        &[
            "rpc",
            "scomp",
            "limits",
            "transport",
            "binding",
            "runtime",
            "session",
            "server",
            "client",
            "config",
        ],
    ),
];

fn rust_files(below: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(below) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    rust_files(&root.join(folder), &mut files);
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn no_layer_uses_one_above_it() {
    let mut wrong = Vec::new();
    for (layer, allowed) in LAYERS {
        for (path, text) in sources(&format!("src/{layer}")) {
            for (number, line) in text.lines().enumerate() {
                if line.trim_start().starts_with("//") {
                    continue;
                }
                let names = line.split("crate::").skip(1).map(|rest| {
                    rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default()
                });
                for name in names.filter(|name| LAYERS.iter().any(|(known, _)| known == name)) {
                    if name != layer && !allowed.contains(&name) {
                        wrong.push(format!("{}:{}: {layer} uses {name}", path.display(), number + 1));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_pure_layers_have_no_clock_no_channel_and_no_async() {
    let mut wrong = Vec::new();
    let pure = ["src/rpc", "src/scomp"].into_iter().flat_map(sources);
    let machines = ["src", "bindings"].into_iter().flat_map(sources);
    let machines = machines.filter(|(path, _)| path.ends_with("machine.rs"));
    for (path, text) in pure.chain(machines) {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for word in ["async fn", "Instant::now", "SystemTime", "tokio::", "mpsc", "Mutex"] {
            if code.contains(word) {
                wrong.push(format!("{}: {word}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_the_runtime_names_quickjs() {
    for (path, text) in sources("src").into_iter().chain(sources("bindings")) {
        let inside = path.components().any(|part| part.as_os_str() == "runtime");
        assert!(inside || !text.contains("rquickjs"), "{} names rquickjs", path.display());
    }
}

#[test]
fn every_file_says_what_it_owns_and_fits_in_the_head() {
    let mut wrong = Vec::new();
    for (path, text) in sources("src").into_iter().chain(sources("bindings")).chain(sources("tests")) {
        if !text.starts_with("//!") {
            wrong.push(format!("{}: no module docs", path.display()));
        }
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            wrong.push(format!("{}: {lines} lines", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_is_unfinished_or_switched_off() {
    let mut wrong = Vec::new();
    for (path, text) in sources("src").into_iter().chain(sources("bindings")).chain(sources("tests")) {
        if path.ends_with("tidy.rs") {
            continue;
        }
        for word in
            ["todo!(", "unimplemented!(", "TODO", "FIXME", "#[ignore", "should_panic", "unbounded_channel"]
        {
            if text.contains(word) {
                wrong.push(format!("{}: {word}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
