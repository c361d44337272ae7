//! Finding bindings by words, for a model that looks for a tool; `closest` is for one that mistyped a name.
//!
//! Both are plain scans without an index: ten thousand bindings take some milliseconds, the calls are rare, and there
//! is nothing to keep in step with the catalog. Work is bounded by what is read of a query and of each binding.

mod closest;
mod meaning;
mod words;

use std::collections::HashSet;

use serde_json::Value;

pub(crate) use closest::closest;
pub(crate) use meaning::similar;
use words::{QueryWord, query_words, split_words};

use crate::protocol::declaration::Declaration;

/// Most words of a query that count.
/// A model's question is a dozen words; every further one costs a pass over all bindings.
pub(crate) const QUERY_WORDS_MAX: usize = 16;

/// Bytes of a query that are read, for the same reason.
pub(crate) const QUERY_BYTES_MAX: usize = 1024;

/// Most property names of a schema that are searched.
/// Deep schemas repeat themselves; the first names say what it is about.
pub(crate) const PROPERTIES_SEARCHED_MAX: usize = 64;

/// Bytes of a description that are searched; the first sentences say what a binding does.
pub(crate) const DESCRIPTION_SEARCHED_BYTES_MAX: usize = 2048;

const SCORE_EXACT_NAME: u32 = 1000;
const SCORE_NAME_WORD: u32 = 20;
const SCORE_NAME_PART: u32 = 10;
const SCORE_PROPERTY: u32 = 6;
const SCORE_DESCRIPTION_WORD: u32 = 4;
const SCORE_DESCRIPTION_PART: u32 = 2;
/// For each word beyond the first that a binding has: one that fits the whole query is better than one that has a word
/// of it everywhere.
const SCORE_FURTHER_WORD: u32 = 15;

/// One binding that a search found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Hit {
    /// The binding's name.
    pub name: String,
    /// Its description, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How well it fits; only the order between hits means something.
    pub score: u32,
}

/// A search for bindings that have words of the query in their name, description or property names, best first.
///
/// Binding by binding: a server may have thousands, and other work must not wait for all of them. Equal scores are
/// ordered by name, so that the same question has the same answer.
#[derive(Debug)]
pub(crate) struct Search<'a> {
    query: String,
    words: Vec<QueryWord>,
    hits: Vec<(u32, &'a Declaration)>,
}

impl<'a> Search<'a> {
    /// A search that has considered nothing yet.
    pub(crate) fn new(query: &str) -> Self {
        let query = cut(query, QUERY_BYTES_MAX).trim().to_owned();
        let words = query_words(&query, QUERY_WORDS_MAX);
        Self { query, words, hits: Vec::new() }
    }

    /// Compares one more binding with the query.
    pub(crate) fn consider(&mut self, binding: &'a Declaration) {
        let score = score(binding, &self.query, &self.words);
        if score > 0 {
            self.hits.push((score, binding));
        }
    }

    /// The best of what was considered.
    pub(crate) fn finish(mut self, limit: usize) -> Vec<Hit> {
        // Of equal ones the shorter name: `create_issue` before `create_issue_comment`.
        self.hits.sort_by_key(|(score, binding)| {
            (std::cmp::Reverse(*score), split_words(&binding.name).len(), &binding.name)
        });
        self.hits.truncate(limit);
        let hit = |(score, binding): (u32, &Declaration)| Hit {
            name: binding.name.clone(),
            description: binding.description.clone(),
            score,
        };
        self.hits.into_iter().map(hit).collect()
    }
}

fn score(binding: &Declaration, query: &str, words: &[QueryWord]) -> u32 {
    let exact = if binding.name.eq_ignore_ascii_case(query) { SCORE_EXACT_NAME } else { 0 };
    let name = SearchedText::of(&binding.name);
    let description = binding.description.as_deref().unwrap_or_default();
    let description = SearchedText::of(cut(description, DESCRIPTION_SEARCHED_BYTES_MAX));
    let properties = property_words(binding);
    let (mut found, mut matched) = (0, 0);
    for word in words {
        let of_word = name.best(word, SCORE_NAME_WORD, SCORE_NAME_PART)
            + description.best(word, SCORE_DESCRIPTION_WORD, SCORE_DESCRIPTION_PART)
            + if properties.contains(&word.word) { SCORE_PROPERTY } else { 0 };
        found += of_word;
        matched += u32::from(of_word > 0);
    }
    exact + found + SCORE_FURTHER_WORD * matched.saturating_sub(1)
}

/// The words of a name or a description, with their stems.
struct SearchedText(Vec<(String, String)>);

impl SearchedText {
    fn of(text: &str) -> Self {
        let with_stem = |word: String| {
            let stem = words::stem(&word);
            (word, stem)
        };
        Self(split_words(text).into_iter().map(with_stem).collect())
    }

    /// The word itself counts most, then a form of it, then another word for it, then a beginning (`config` in
    /// `configure`), and that only from three letters on.
    fn best(&self, wanted: &QueryWord, whole: u32, part: u32) -> u32 {
        let has = |fits: &dyn Fn(&str, &str) -> bool| self.0.iter().any(|(word, stem)| fits(word, stem));
        let is_part = |word: &str| {
            (wanted.word.len() >= 3 && word.starts_with(&wanted.word))
                || (word.len() >= 3 && wanted.word.starts_with(word))
        };
        if has(&|word, _| word == wanted.word) {
            whole
        } else if has(&|_, stem| stem == wanted.stem) {
            whole - 1
        } else if has(&|_, stem| wanted.synonyms.iter().any(|other| other == stem)) {
            part + 1
        } else if has(&|word, _| is_part(word)) {
            part
        } else {
            0
        }
    }
}

/// Words of the property names of both schemas, breadth first, `$defs` included.
fn property_words(binding: &Declaration) -> HashSet<String> {
    let mut words = HashSet::new();
    let mut pending: Vec<&Value> = binding.input.iter().chain(&binding.output).collect();
    let mut property_count = 0;
    let mut visited = 0;
    while let Some(schema) = pending.get(visited) {
        visited += 1;
        let Some(fields) = schema.as_object() else {
            continue;
        };
        for (key, value) in fields {
            match (key.as_str(), value) {
                ("properties" | "$defs", Value::Object(members)) => {
                    for (name, member) in members.iter().take(PROPERTIES_SEARCHED_MAX - property_count) {
                        property_count += 1;
                        words.extend(split_words(name));
                        pending.push(member);
                    }
                }
                ("items", item) => pending.push(item),
                ("anyOf" | "oneOf" | "allOf", Value::Array(branches)) => {
                    pending.extend(branches.iter().take(PROPERTIES_SEARCHED_MAX));
                }
                _ => {}
            }
        }
        if property_count >= PROPERTIES_SEARCHED_MAX || visited >= PROPERTIES_SEARCHED_MAX {
            break;
        }
    }
    words
}

/// The beginning of `text`, at most `bytes_max` long, cut between characters.
fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn search<'a>(
        bindings: impl IntoIterator<Item = &'a Declaration>,
        query: &str,
        limit: usize,
    ) -> Vec<Hit> {
        let mut search = Search::new(query);
        bindings.into_iter().for_each(|binding| search.consider(binding));
        search.finish(limit)
    }

    fn shop() -> Vec<Declaration> {
        let binding = |name: &str, description: &str, input: Value| Declaration {
            description: Some(description.to_owned()),
            input: Some(input),
            ..Declaration::named(name)
        };
        vec![
            binding("listOrders", "List the newest orders.", json!({"properties": {"pageSize": {}}})),
            binding("getOrder", "Fetch an order by ID.", json!({"properties": {"id": {"type": "string"}}})),
            binding("memory.transact", "Write facts to the store.", json!({"$defs": {"Fact": {}}})),
            binding("kv.delete", "Forget a key.", json!({"anyOf": [{"properties": {"prefix": {}}}]})),
        ]
    }

    fn found(query: &str) -> Vec<String> {
        search(&shop(), query, 10).into_iter().map(|hit| hit.name).collect()
    }

    #[test]
    fn exact_name_comes_first_in_any_case() {
        assert_eq!(found("getorder"), ["getOrder"]);
        assert_eq!(found("KV.delete")[0], "kv.delete");
    }

    #[test]
    fn words_are_found_in_names_descriptions_and_properties() {
        assert_eq!(found("order"), ["getOrder", "listOrders"]);
        assert_eq!(found("store something"), ["memory.transact"]);
        assert_eq!(found("page size"), ["listOrders"]);
        assert_eq!(found("prefix"), ["kv.delete"]);
        assert_eq!(found("fact"), ["memory.transact"]);
    }

    /// Five hundred tools: what is looked for is said in other words than their names have.
    #[test]
    fn tools_are_found_by_the_meaning_of_the_words() {
        let verbs = ["create", "delete", "get", "list", "update", "search", "send", "run", "cancel", "copy"];
        let nouns = "issue comment user team message file folder image repository setting order invoice event \
            log pipeline branch release label webhook secret page table report dashboard alert metric \
            deployment container volume network domain certificate product cart coupon review shipment \
            address card plan course lesson student grade room booking flight ticketType playlist song";
        let nouns: Vec<&str> = nouns.split_whitespace().collect();
        let tool = |verb: &str, noun: &str| Declaration {
            description: Some(format!("{verb} one {noun} of the workspace.")),
            ..Declaration::named(format!("work.{verb}_{noun}"))
        };
        let tools: Vec<Declaration> =
            nouns.iter().flat_map(|noun| verbs.iter().map(move |verb| tool(verb, noun))).collect();
        assert_eq!(tools.len(), 500);
        for (query, expected) in [
            ("create issue", "work.create_issue"),
            ("open a new ticket", "work.create_issue"),
            ("erase a picture", "work.delete_image"),
            ("editing settings", "work.update_setting"),
            ("creating repositories", "work.create_repository"),
            ("remove a directory", "work.delete_folder"),
            ("looking up people", "work.search_user"),
            ("dispatch an email", "work.send_message"),
            ("duplicate a dashboard", "work.copy_dashboard"),
            ("abort the deployment", "work.cancel_deployment"),
        ] {
            let names: Vec<String> = search(&tools, query, 5).into_iter().map(|hit| hit.name).collect();
            assert!(names.iter().any(|name| name == expected), "{query}: {names:?}");
        }
        assert_eq!(search(&tools, "create issue", 1)[0].name, "work.create_issue");
    }

    #[test]
    fn empty_and_unrelated_queries_find_nothing() {
        assert!(found("").is_empty());
        assert!(found("  .,; ").is_empty());
        assert!(found("weather").is_empty());
    }

    #[test]
    fn equal_scores_are_ordered_by_name_and_cut_at_the_limit() {
        let bindings: Vec<_> = ["b.find", "a.find", "c.find"].map(Declaration::named).into();
        let names: Vec<_> = search(&bindings, "find", 2).into_iter().map(|hit| hit.name).collect();
        assert_eq!(names, ["a.find", "b.find"]);
    }

    #[test]
    fn long_query_is_read_up_to_its_limit() {
        let padding = "zz ".repeat(QUERY_WORDS_MAX);
        assert!(found(&format!("{padding} order")).is_empty());
        assert_eq!(found(&"ü".repeat(QUERY_BYTES_MAX)), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn search_accepts_any_text(query in "\\PC{0,80}", description in "\\PC{0,80}") {
            let binding = Declaration { description: Some(description), ..Declaration::named("a.b") };
            prop_assert!(search(&[binding], &query, 1).len() <= 1);
        }
    }
}
