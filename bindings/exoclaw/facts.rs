//! Extracts facts that users state about themselves, and selects those relevant to a message.
//!
//! Only messages of users are read: an agent must not become a source of its own facts. The
//! patterns are a few English phrases. There is one fact per subject, and a later statement
//! replaces an earlier one.

use serde::Serialize;

/// Longest subject of a fact, enough for a few words.
const SUBJECT_BYTES_MAX: usize = 64;

/// Longest value of a fact. Longer texts are not facts but prose.
const VALUE_BYTES_MAX: usize = 256;

/// Most facts of one message. A message with more is probably a list of something else.
pub(crate) const FACTS_PER_MESSAGE_MAX: usize = 16;

/// Most facts that an agent gets with a message.
pub(crate) const FACTS_IN_PROMPT_MAX: usize = 10;

/// Shortest word that is searched for. Shorter ones occur in every sentence.
const WORD_CHARS_MIN: usize = 3;

/// Something that an account's user stated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Fact {
    pub(crate) subject: String,
    pub(crate) value: String,
}

/// The phrases that introduce a fact, with its subject. The first that matches a clause wins.
const PHRASES: [(&str, &str); 9] = [
    ("my name is ", "name"),
    ("call me ", "name"),
    ("i live in ", "location"),
    ("i moved to ", "location"),
    ("i'm from ", "origin"),
    ("i am from ", "origin"),
    ("i work at ", "employer"),
    ("i work for ", "employer"),
    ("i prefer ", "preference"),
];

pub(crate) fn extract_facts(message: &str) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    for clause in message.split(['.', '!', '?', ',', ';', '(', ')', '\n']) {
        if facts.len() == FACTS_PER_MESSAGE_MAX {
            break;
        }
        if let Some(fact) = extract_fact(clause.trim()) {
            facts.retain(|earlier| earlier.subject != fact.subject);
            facts.push(fact);
        }
    }
    facts
}

fn extract_fact(clause: &str) -> Option<Fact> {
    // Lowercasing only ASCII keeps byte positions the same in both texts.
    let lower = clause.to_ascii_lowercase();
    for (phrase, subject) in PHRASES {
        if let Some(at) = find_at_word(&lower, phrase) {
            return new_fact(subject, clause.get(at + phrase.len()..)?);
        }
    }
    let rest = clause.get(find_at_word(&lower, "my ")? + "my ".len()..)?;
    let (subject, value) = rest.split_once(" is ")?;
    new_fact(&subject.trim().to_lowercase(), value)
}

/// Finds `pattern` where it starts a word.
fn find_at_word(text: &str, pattern: &str) -> Option<usize> {
    let starts_word =
        |at: &usize| text.get(..*at).is_some_and(|before| !before.ends_with(|c: char| c.is_alphanumeric()));
    text.match_indices(pattern).map(|(at, _)| at).find(starts_word)
}

/// Returns `None` if the subject or the value is empty or too long.
fn new_fact(subject: &str, value: &str) -> Option<Fact> {
    let value = value.trim();
    let fits = !subject.is_empty()
        && subject.len() <= SUBJECT_BYTES_MAX
        && !value.is_empty()
        && value.len() <= VALUE_BYTES_MAX;
    fits.then(|| Fact { subject: subject.to_owned(), value: value.to_owned() })
}

/// Sorts by the number of words in common with `query`, most first. The sort is stable.
pub(crate) fn sort_by_relevance(mut facts: Vec<Fact>, query: &str) -> Vec<Fact> {
    let words = split_words(query);
    facts.sort_by_cached_key(|fact| std::cmp::Reverse(count_matches(fact, &words)));
    facts
}

/// Returns the facts with at least one word in common with `query`, sorted by relevance.
pub(crate) fn search_facts(facts: Vec<Fact>, query: &str) -> Vec<Fact> {
    let words = split_words(query);
    let matching = facts.into_iter().filter(|fact| count_matches(fact, &words) > 0).collect();
    sort_by_relevance(matching, query)
}

fn split_words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| word.chars().count() >= WORD_CHARS_MIN).map(str::to_lowercase).collect()
}

fn count_matches(fact: &Fact, words: &[String]) -> usize {
    let text = format!("{} {}", fact.subject, fact.value).to_lowercase();
    words.iter().filter(|word| text.contains(word.as_str())).count()
}

/// Formats the first facts as text for an agent; `None` if the list is empty.
pub(crate) fn format_facts(facts: &[Fact]) -> Option<String> {
    if facts.is_empty() {
        return None;
    }
    let lines: Vec<String> = facts
        .iter()
        .take(FACTS_IN_PROMPT_MAX)
        .map(|fact| format!("- {}: {}", fact.subject, fact.value))
        .collect();
    Some(format!("What the user has said about themselves:\n{}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(message: &str) -> Vec<(String, String)> {
        extract_facts(message).into_iter().map(|fact| (fact.subject, fact.value)).collect()
    }

    fn fact(subject: &str, value: &str) -> Fact {
        Fact { subject: subject.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn statements_in_sentences_are_extracted() {
        let stated =
            pairs("Hi! My name is Ada Lovelace, I live in London. I work for Babbage; my dog is Luna.");
        let expected =
            [("name", "Ada Lovelace"), ("location", "London"), ("employer", "Babbage"), ("dog", "Luna")];
        assert_eq!(stated, expected.map(|(subject, value)| (subject.to_owned(), value.to_owned())));
    }

    #[test]
    fn later_statement_replaces_an_earlier_one() {
        assert_eq!(pairs("I live in Paris. I moved to Rome."), [("location".to_owned(), "Rome".to_owned())]);
    }

    #[test]
    fn phrase_matches_at_the_start_of_a_word() {
        assert_eq!(pairs("Tommy is here"), []);
        assert_eq!(
            pairs("well, so my favourite colour is blue"),
            [("favourite colour".to_owned(), "blue".to_owned())]
        );
        assert_eq!(pairs("my name is "), []);
    }

    #[test]
    fn letters_with_longer_lowercase_are_kept() {
        assert_eq!(pairs("İİİ my name is İda"), [("name".to_owned(), "İda".to_owned())]);
    }

    #[test]
    fn statement_past_the_length_limit_is_ignored() {
        let value = |bytes| format!("my name is {}", "x".repeat(bytes));
        assert_eq!(extract_facts(&value(VALUE_BYTES_MAX)).len(), 1);
        assert_eq!(extract_facts(&value(VALUE_BYTES_MAX + 1)), []);
        let subject = |bytes| format!("my {} is 1", "x".repeat(bytes));
        assert_eq!(extract_facts(&subject(SUBJECT_BYTES_MAX)).len(), 1);
        assert_eq!(extract_facts(&subject(SUBJECT_BYTES_MAX + 1)), []);
    }

    #[test]
    fn facts_of_one_message_are_limited() {
        let many = |count: usize| (0..count).map(|n| format!("my n{n} is {n}. ")).collect::<String>();
        assert_eq!(extract_facts(&many(FACTS_PER_MESSAGE_MAX)).len(), FACTS_PER_MESSAGE_MAX);
        assert_eq!(extract_facts(&many(FACTS_PER_MESSAGE_MAX + 1)).len(), FACTS_PER_MESSAGE_MAX);
    }

    #[test]
    fn facts_are_sorted_by_common_words() {
        let facts = vec![fact("dog", "Luna"), fact("location", "London"), fact("name", "Ada")];
        let sorted = sort_by_relevance(facts.clone(), "what is my NAME?");
        assert_eq!(
            sorted.iter().map(|fact| fact.subject.as_str()).collect::<Vec<_>>(),
            ["name", "dog", "location"]
        );
        assert_eq!(search_facts(facts.clone(), "luna"), [fact("dog", "Luna")]);
        assert_eq!(search_facts(facts, "it is"), []);
    }

    #[test]
    fn formatted_facts_are_limited() {
        let facts: Vec<Fact> = (0..=FACTS_IN_PROMPT_MAX).map(|n| fact(&n.to_string(), "x")).collect();
        assert_eq!(format_facts(&[]), None);
        let lines = |facts: &[Fact]| format_facts(facts).unwrap_or_default().lines().count() - 1;
        assert_eq!(
            (lines(&facts[..FACTS_IN_PROMPT_MAX]), lines(&facts)),
            (FACTS_IN_PROMPT_MAX, FACTS_IN_PROMPT_MAX)
        );
    }

    proptest! {
        #[test]
        fn extracted_values_are_parts_of_the_message(message in "(my |MY | is |i live in |İ|[a-z.,é🦞 ]){0,20}") {
            let facts = extract_facts(&message);
            prop_assert!(facts.iter().all(|fact| !fact.value.is_empty() && message.contains(&fact.value)));
        }
    }
}
