//! As much of Markdown as the documents use: headings, links, and fenced blocks of code.

use std::collections::HashMap;

/// A fenced block of code.
#[derive(Debug, PartialEq)]
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
}

/// The blocks of code of a document, in order.
pub(crate) fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in document.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(language), None) => {
                open = Some(Block { language: language.to_owned(), text: String::new() });
            }
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.text.push_str(line);
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    blocks
}

/// The lines outside of blocks of code, with their numbers.
fn prose(document: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    document.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((at + 1, line))
    })
}

/// The targets of all links and images, with their line numbers. Code between backticks has none.
pub(crate) fn links(document: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(document) {
        // Every second piece is code.
        let text: String = line.split('`').step_by(2).collect();
        for behind in text.split("](").skip(1) {
            let target = behind.split(')').next().unwrap_or_default();
            links.push((number, target.to_owned()));
        }
    }
    links
}

/// The anchors of a document's headings, made as GitHub makes them.
pub(crate) fn anchors(document: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut anchors = Vec::new();
    for (_, line) in prose(document) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let anchor = anchor(heading.trim());
        let count = seen.entry(anchor.clone()).or_default();
        anchors.push(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn anchors_are_those_of_github() {
    let document = "# A `b.c`, (d)\n```\n# code\n```\n## Same\n## Same\n#no heading\n";
    assert_eq!(anchors(document), ["a-bc-d", "same", "same-1"]);
}

#[test]
fn links_in_code_are_not_links() {
    let document = "[a](b.md#c) `[no](no)` ![d](e.png)\n```\n[no](no)\n```\n[f](g)";
    let found = links(document);
    assert_eq!(found, [(1, "b.md#c".to_owned()), (1, "e.png".to_owned()), (5, "g".to_owned())]);
}

#[test]
fn blocks_have_their_language_and_text() {
    let document = "a\n```json\n{}\n```\n```\nb\nc\n```\n";
    let block = |language: &str, text: &str| Block { language: language.to_owned(), text: text.to_owned() };
    assert_eq!(blocks(document), [block("json", "{}\n"), block("", "b\nc\n")]);
}
