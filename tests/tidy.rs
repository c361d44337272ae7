//! House rules that no other tool checks: the order of layers, sizes that stay readable, and plain English.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Longest source file. A newcomer should hold a file in mind; most are a third of this.
const FILE_LINES_MAX: usize = 400;

/// Files that are longer, with their present length. They only shrink: a change that shortens one lowers its row, and
/// removes it at [`FILE_LINES_MAX`].
const LONG_FILES: &[(&str, usize)] = &[];

/// The name of a test is shorter than this, so that it can be read in a report and searched for.
const TEST_NAME_CHARS_MAX: usize = 60;

/// Tests whose names are longer. The count only goes down: a change that lowers it lowers it here too.
const LONG_TEST_NAMES_LEFT: usize = 0;

/// From the bottom up. A layer may name only layers of earlier rows, and not its neighbours in its own row.
const LAYERS: &[&[&str]] = &[
    &["rpc", "limits", "budget", "concurrency", "image", "sandbox"],
    &["protocol", "observe", "quota", "store"],
    &["transport"],
    &["schema"],
    &["catalog"],
    &["binding", "settings_file"],
    &["client", "peering", "session"],
    &["package"],
    &["mcp"],
    &["bindings"],
    &["runtime"],
    &["worker"],
    &["sessions"],
    &["server"],
    &["config", "testing"],
    &["cli", "fuzzing"],
];

/// Words of a dialect that strangers had to learn, and how often each may still occur. The counts only go down: a
/// change that lowers one lowers it here too.
const WORDS_LEFT: &[(&str, usize)] = &[
    ("told", 0),
    ("whoever", 0),
    ("nobody", 0),
    ("somebody", 0),
    ("those who", 0),
    ("those_who", 0),
    ("is none", 0),
    ("at once", 0),
    ("at_once", 0),
    ("put down", 0),
    ("put_down", 0),
    ("farewell", 0),
    ("patience", 0),
    ("keep_house", 0),
    ("spoken here", 0),
];

fn files_with(extensions: &[&str], below: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(below) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(name.as_str(), "node_modules" | "dist" | "target") {
                files_with(extensions, &path, found);
            }
        } else if extensions.iter().any(|extension| name.ends_with(extension)) {
            found.push(path);
        }
    }
}

fn texts(place: &str, extensions: &[&str]) -> Vec<(PathBuf, String)> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(place);
    let mut files = Vec::new();
    if place.is_file() {
        files.push(place);
    } else {
        files_with(extensions, &place, &mut files);
    }
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    texts(folder, &[".rs"])
}

fn layer_sources(layer: &str) -> Vec<(PathBuf, String)> {
    match layer {
        "bindings" => sources("bindings"),
        _ => {
            sources(&format!("src/{layer}")).into_iter().chain(sources(&format!("src/{layer}.rs"))).collect()
        }
    }
}

/// The modules that a file names after `crate::` or, in the program, after `scomp::`.
fn named_layers(text: &str) -> Vec<(usize, String)> {
    let mut named = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        for root in ["crate::", "scomp::"] {
            for rest in line.split(root).skip(1) {
                let name = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
                named.push((number + 1, name.unwrap_or_default().to_owned()));
            }
        }
    }
    named
}

#[test]
fn layers_name_only_layers_below_them() {
    let mut wrong = Vec::new();
    for (row, layers) in LAYERS.iter().enumerate() {
        for layer in *layers {
            let sources = layer_sources(layer);
            assert!(!sources.is_empty(), "the layer {layer} has no file");
            let below: Vec<&str> = LAYERS[..row].iter().flat_map(|row| row.iter().copied()).collect();
            for (path, text) in sources {
                for (number, name) in named_layers(&text) {
                    let is_layer = LAYERS.iter().any(|row| row.contains(&name.as_str()));
                    if is_layer && name != *layer && !below.contains(&name.as_str()) {
                        wrong.push(format!("{}:{number}: {layer} uses {name}", path.display()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_of_the_library_is_a_layer() {
    let (_, library) = sources("src/lib.rs").remove(0);
    let modules = library.lines().filter_map(|line| line.trim().strip_prefix("pub mod ")?.strip_suffix(';'));
    for module in modules {
        assert!(LAYERS.iter().any(|row| row.contains(&module)), "{module} is in no row of LAYERS");
    }
}

#[test]
fn pure_layers_have_no_clock_channel_or_async() {
    let mut wrong = Vec::new();
    let pure = ["src/rpc", "src/protocol", "src/session"].into_iter().flat_map(sources);
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

fn all_sources() -> impl Iterator<Item = (PathBuf, String)> {
    ["src", "bindings", "tests"].into_iter().flat_map(sources)
}

#[test]
fn files_have_module_docs() {
    let missing: Vec<_> = all_sources().filter(|(_, text)| !text.starts_with("//!")).collect();
    let paths: Vec<_> = missing.iter().map(|(path, _)| path.display().to_string()).collect();
    assert!(paths.is_empty(), "without module docs:\n{}", paths.join("\n"));
}

#[test]
fn files_have_a_readable_length() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lengths: BTreeMap<String, usize> = all_sources()
        .map(|(path, text)| (path.strip_prefix(root).unwrap().display().to_string(), text.lines().count()))
        .collect();
    let mut wrong = Vec::new();
    for (path, lines) in &lengths {
        let exception = LONG_FILES.iter().find(|(file, _)| file == path).map(|(_, lines)| *lines);
        match exception {
            None if *lines > FILE_LINES_MAX => {
                wrong.push(format!("{path}: {lines} lines, expected at most {FILE_LINES_MAX}"));
            }
            Some(max) if *lines > max => {
                wrong.push(format!("{path}: {lines} lines, expected at most its present {max}"));
            }
            Some(_) if *lines <= FILE_LINES_MAX => {
                wrong.push(format!("{path}: remove its row of LONG_FILES"))
            }
            Some(max) if *lines < max => {
                wrong.push(format!("{path}: {lines} lines, lower its row of LONG_FILES from {max}"));
            }
            Some(_) | None => {}
        }
    }
    for (file, _) in LONG_FILES {
        if !lengths.contains_key(*file) {
            wrong.push(format!("{file}: no such file, remove its row of LONG_FILES"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The functions with a test attribute, also those inside of macros such as `proptest!`.
fn test_names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let declaration = line.strip_prefix("async ").unwrap_or(line);
        if is_test && let Some(rest) = declaration.strip_prefix("fn ") {
            names.push(
                rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap().to_owned(),
            );
            is_test = false;
        }
    }
    names
}

#[test]
fn test_names_are_found_behind_other_attributes() {
    let text = "#[test]\n#[cfg(unix)]\nfn first() {}\nfn helper() {}\n  #[tokio::test(start_paused = true)]\n  async fn second() {}";
    assert_eq!(test_names(text), ["first", "second"]);
}

#[test]
fn test_names_are_short() {
    let mut long = Vec::new();
    for (path, text) in all_sources() {
        let names = test_names(&text).into_iter().filter(|name| name.len() >= TEST_NAME_CHARS_MAX);
        long.extend(names.map(|name| format!("{}: {name}", path.display())));
    }
    let (count, left) = (long.len(), LONG_TEST_NAMES_LEFT);
    assert!(
        count <= left,
        "{count} names of tests have {TEST_NAME_CHARS_MAX} characters or more, {left} are left:\n{}",
        long.join("\n")
    );
    assert!(
        count == left,
        "only {count} names of tests are too long: lower LONG_TEST_NAMES_LEFT from {left}"
    );
}

#[test]
fn nothing_is_unfinished_or_switched_off() {
    let mut wrong = Vec::new();
    for (path, text) in all_sources() {
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

#[test]
fn words_of_the_old_dialect_do_not_come_back() {
    let folders = ["src", "bindings", "tests", "benches", "examples", "docs", "js", "fuzz", "README.md"];
    let extensions = [".rs", ".ts", ".js", ".mjs", ".md", ".py", ".json", ".txt"];
    let texts: Vec<String> = folders
        .into_iter()
        .flat_map(|folder| texts(folder, &extensions))
        .filter(|(path, _)| !path.ends_with("tidy.rs") && !path.ends_with("package-lock.json"))
        // Recorded from others, in their words.
        .filter(|(path, _)| !path.components().any(|part| part.as_os_str() == "interop"))
        // Two of the words are an operator of Python, with a capital.
        .map(
            |(path, text)| {
                if path.extension().is_some_and(|end| end == "py") { text } else { text.to_lowercase() }
            },
        )
        .collect();
    for (word, left) in WORDS_LEFT {
        let count: usize = texts.iter().map(|text| count_word(text, word)).sum();
        assert!(count <= *left, "`{word}` occurs {count} times, {left} are left to rephrase");
        assert!(count == *left, "`{word}` occurs {count} times only: lower its row from {left}");
    }
}

/// Occurrences of `word` that are not part of a longer word. `_` separates words: names of functions count.
fn count_word(text: &str, word: &str) -> usize {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(word)
        .filter(|(at, found)| {
            !is_letter(text[..*at].chars().next_back()) && !is_letter(text[at + found.len()..].chars().next())
        })
        .count()
}
