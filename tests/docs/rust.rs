//! The Rust in the documents is Rust that is compiled: that of the crate's documentation and of the examples.

use std::fs;

use crate::markdown::blocks;
use crate::root;

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn rust_blocks(document: &str) -> Vec<String> {
    let rust = blocks(&read(document)).into_iter().filter(|block| block.language == "rust");
    rust.map(|block| block.text).collect()
}

#[test]
fn readme_shows_the_example_of_the_crate() {
    let documentation: String = read("src/lib.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//!"))
        .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)))
        .collect();
    let [example] = &rust_blocks("README.md")[..] else { panic!("expected one block of Rust") };
    assert!(documentation.contains(example), "not in src/lib.rs:\n{example}");
    assert!(example.lines().count() <= 16, "the README promises a binding in a few lines");
}

#[test]
fn bindings_document_quotes_the_examples() {
    let sources = ["examples/rust_bindings.rs", "examples/stdio_bindings.rs", "tests/docs/rust.rs"].map(read);
    let unindented = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let sources = unindented(&sources.concat());
    // Each statement is compared by itself, because documents leave out what lies between.
    for block in rust_blocks("docs/bindings.md") {
        for part in block.split_inclusive(";\n") {
            let part = unindented(part.trim());
            assert!(sources.contains(&part), "in no example:\n{part}");
        }
    }
}

#[tokio::test]
async fn packages_are_tested_in_one_line() {
    /// Counts nothing.
    #[scomp::binding(name = "delivery.each")]
    fn each(visit: scomp::binding::Function<(), ()>) -> usize {
        usize::from(!visit.is_gone())
    }
    let package = || Ok::<_, std::fmt::Error>(scomp::package::Package::new("delivery").add::<each>());
    let test = async || -> Result<(), Box<dyn std::error::Error>> {
        assert_eq!(scomp::testing::eval(package()?, "await delivery.each({ visit() {} })").await?, 1);
        Ok(())
    };
    test().await.unwrap();
}
