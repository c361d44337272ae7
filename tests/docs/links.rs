//! Every relative link of the documents leads to a file of the repository, and its anchor to a heading.

use std::fs;
use std::path::{Path, PathBuf};

use crate::markdown::{anchors, links};
use crate::root;

/// The documents beside those of `docs/`.
const DOCUMENTS: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benches/README.md"];

fn in_docs() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries.filter(|path| path.extension().is_some_and(|is| is == "md")).collect();
    found.sort();
    found
}

/// What is wrong with a link of the document at `path`.
fn problem(path: &Path, target: &str) -> Option<String> {
    if ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
        return None;
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let file = if file.is_empty() { path.to_owned() } else { path.parent().unwrap().join(file) };
    if !file.exists() {
        return Some(format!("no file `{target}`"));
    }
    let anchor = anchor?;
    let headings = anchors(&fs::read_to_string(&file).unwrap_or_default());
    (!headings.iter().any(|heading| heading == anchor)).then(|| format!("no heading `{target}`"))
}

#[test]
fn relative_links_lead_to_files_and_headings() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for path in DOCUMENTS.iter().map(|name| root().join(name)).chain(in_docs()) {
        for (line, target) in links(&fs::read_to_string(&path).unwrap()) {
            count += 1;
            let problem = problem(&path, &target);
            wrong.extend(problem.map(|problem| format!("{}:{line}: {problem}", path.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 50, "only {count} links were found");
}

#[test]
fn broken_links_are_found() {
    let path = root().join("README.md");
    assert_eq!(problem(&path, "docs/protocol.md#framing"), None);
    assert_eq!(problem(&path, "https://example.com/none"), None);
    assert_eq!(problem(&path, "docs/none.md").unwrap(), "no file `docs/none.md`");
    assert_eq!(problem(&path, "docs/protocol.md#none").unwrap(), "no heading `docs/protocol.md#none`");
    assert_eq!(problem(&path, "#none").unwrap(), "no heading `#none`");
}

#[test]
fn index_lists_every_document() {
    let index = root().join("docs/README.md");
    let listed: Vec<_> = links(&fs::read_to_string(&index).unwrap())
        .into_iter()
        .filter_map(|(_, target)| root().join("docs").join(target).canonicalize().ok())
        .collect();
    let documents = DOCUMENTS.iter().map(|name| root().join(name)).chain(in_docs());
    for path in documents.filter(|path| *path != index) {
        let path = path.canonicalize().unwrap();
        assert!(listed.contains(&path), "docs/README.md does not list {}", path.display());
    }
}
