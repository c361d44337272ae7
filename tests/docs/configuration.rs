//! `docs/configuration.md` and `docs/configuration.schema.json` are what the settings' types say.
//!
//! `DOCS=overwrite cargo test --test docs configuration` writes them anew.

use std::fs;

use crate::root;

/// Above this line a person writes, below it the types.
const MARK: &str = "<!-- Below: written by `DOCS=overwrite cargo test --test docs configuration`. -->\n";

fn compare(file: &str, expected: &str) {
    let path = root().join(file);
    if std::env::var("DOCS").is_ok_and(|action| action == "overwrite") {
        fs::write(&path, expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "{file} is not what the settings are; {differs:?}\nrun DOCS=overwrite cargo test --test docs configuration"
    );
}

#[test]
fn configuration_document_is_that_of_the_types() {
    let path = root().join("docs/configuration.md");
    let text = fs::read_to_string(&path).unwrap();
    let (introduction, _) = text.split_once(MARK).expect("the mark below which the reference begins");
    let reference = scomp::config::reference();
    compare("docs/configuration.md", &format!("{introduction}{MARK}\n{}\n", reference.trim_end()));
}

#[test]
fn configuration_schema_is_that_of_the_types() {
    compare("docs/configuration.schema.json", &format!("{:#}\n", scomp::config::json_schema()));
}
