//! What an account tells about itself in passing, and what of it matters for a question.
//!
//! Only what the user says is read: an agent that repeats or invents things must not become its own source. The
//! patterns are few and plain English; one fact a subject, and the last word counts.

use serde::Serialize;

/// Longest subject of a fact: a few words.
const SUBJECT_BYTES_MAX: usize = 64;

/// Longest value of a fact: more is no fact but a story.
const VALUE_BYTES_MAX: usize = 256;

/// Facts that one message may bring; a message that has more is a list of something else.
pub(crate) const FACTS_PER_MESSAGE_MAX: usize = 16;

/// Facts that an agent is told with a message: what fits into a glance.
pub(crate) const FACTS_TOLD_MAX: usize = 10;

/// Shortest word that can be searched for; shorter ones are in every sentence.
const WORD_CHARS_MIN: usize = 3;

/// Something that is known of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Fact {
    pub(crate) subject: String,
    pub(crate) value: String,
}

/// How a sentence begins that states a fact, and of what. In order: the first that fits a place is taken.
const OPENINGS: [(&str, &str); 9] = [
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

/// The facts that a message states.
pub(crate) fn stated_in(message: &str) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    for clause in message.split(['.', '!', '?', ',', ';', '(', ')', '\n']) {
        if facts.len() == FACTS_PER_MESSAGE_MAX {
            break;
        }
        if let Some(fact) = stated_by(clause.trim()) {
            facts.retain(|earlier| earlier.subject != fact.subject);
            facts.push(fact);
        }
    }
    facts
}

fn stated_by(clause: &str) -> Option<Fact> {
    // Only ASCII changes its case here, so that places in one text are places in the other.
    let lower = clause.to_ascii_lowercase();
    for (opening, subject) in OPENINGS {
        if let Some(at) = word_position(&lower, opening) {
            return fact(subject, clause.get(at + opening.len()..)?);
        }
    }
    let rest = clause.get(word_position(&lower, "my ")? + "my ".len()..)?;
    let (subject, value) = rest.split_once(" is ")?;
    fact(&subject.trim().to_lowercase(), value)
}

/// Where `pattern` begins at the beginning of a word.
fn word_position(text: &str, pattern: &str) -> Option<usize> {
    let begins_word =
        |at: &usize| text.get(..*at).is_some_and(|before| !before.ends_with(|c: char| c.is_alphanumeric()));
    text.match_indices(pattern).map(|(at, _)| at).find(begins_word)
}

fn fact(subject: &str, value: &str) -> Option<Fact> {
    let value = value.trim();
    let fits = !subject.is_empty()
        && subject.len() <= SUBJECT_BYTES_MAX
        && !value.is_empty()
        && value.len() <= VALUE_BYTES_MAX;
    fits.then(|| Fact { subject: subject.to_owned(), value: value.to_owned() })
}

/// Those that have most in common with `query` first; those that have the same keep their order.
pub(crate) fn by_relevance(mut facts: Vec<Fact>, query: &str) -> Vec<Fact> {
    let words = words_of(query);
    facts.sort_by_cached_key(|fact| std::cmp::Reverse(in_common(fact, &words)));
    facts
}

/// Those that have something in common with `query`, the most first.
pub(crate) fn matching(facts: Vec<Fact>, query: &str) -> Vec<Fact> {
    let words = words_of(query);
    let found = facts.into_iter().filter(|fact| in_common(fact, &words) > 0).collect();
    by_relevance(found, query)
}

fn words_of(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| word.chars().count() >= WORD_CHARS_MIN).map(str::to_lowercase).collect()
}

fn in_common(fact: &Fact, words: &[String]) -> usize {
    let text = format!("{} {}", fact.subject, fact.value).to_lowercase();
    words.iter().filter(|word| text.contains(word.as_str())).count()
}

/// The facts as an agent is told of them; `None` if there are none.
pub(crate) fn told(facts: &[Fact]) -> Option<String> {
    if facts.is_empty() {
        return None;
    }
    let lines: Vec<String> =
        facts.iter().take(FACTS_TOLD_MAX).map(|fact| format!("- {}: {}", fact.subject, fact.value)).collect();
    Some(format!("What the user has said about themselves:\n{}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(message: &str) -> Vec<(String, String)> {
        stated_in(message).into_iter().map(|fact| (fact.subject, fact.value)).collect()
    }

    fn known(subject: &str, value: &str) -> Fact {
        Fact { subject: subject.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn facts_are_found_in_plain_sentences() {
        let stated =
            pairs("Hi! My name is Ada Lovelace, I live in London. I work for Babbage; my dog is Luna.");
        let expected =
            [("name", "Ada Lovelace"), ("location", "London"), ("employer", "Babbage"), ("dog", "Luna")];
        assert_eq!(stated, expected.map(|(subject, value)| (subject.to_owned(), value.to_owned())));
    }

    #[test]
    fn the_last_word_counts() {
        assert_eq!(pairs("I live in Paris. I moved to Rome."), [("location".to_owned(), "Rome".to_owned())]);
    }

    #[test]
    fn patterns_begin_with_a_word_and_may_stand_in_a_sentence() {
        assert_eq!(pairs("Tommy is here"), []);
        assert_eq!(
            pairs("well, so my favourite colour is blue"),
            [("favourite colour".to_owned(), "blue".to_owned())]
        );
        assert_eq!(pairs("my name is "), []);
    }

    #[test]
    fn letters_that_grow_in_lower_case_shift_nothing() {
        assert_eq!(pairs("İİİ my name is İda"), [("name".to_owned(), "İda".to_owned())]);
    }

    #[test]
    fn long_ones_are_no_facts() {
        let value = |bytes| format!("my name is {}", "x".repeat(bytes));
        assert_eq!(stated_in(&value(VALUE_BYTES_MAX)).len(), 1);
        assert_eq!(stated_in(&value(VALUE_BYTES_MAX + 1)), []);
        let subject = |bytes| format!("my {} is 1", "x".repeat(bytes));
        assert_eq!(stated_in(&subject(SUBJECT_BYTES_MAX)).len(), 1);
        assert_eq!(stated_in(&subject(SUBJECT_BYTES_MAX + 1)), []);
    }

    #[test]
    fn a_message_brings_a_bounded_number() {
        let many = |count: usize| (0..count).map(|n| format!("my n{n} is {n}. ")).collect::<String>();
        assert_eq!(stated_in(&many(FACTS_PER_MESSAGE_MAX)).len(), FACTS_PER_MESSAGE_MAX);
        assert_eq!(stated_in(&many(FACTS_PER_MESSAGE_MAX + 1)).len(), FACTS_PER_MESSAGE_MAX);
    }

    #[test]
    fn what_is_asked_for_comes_first() {
        let facts = vec![known("dog", "Luna"), known("location", "London"), known("name", "Ada")];
        let sorted = by_relevance(facts.clone(), "what is my NAME?");
        assert_eq!(
            sorted.iter().map(|fact| fact.subject.as_str()).collect::<Vec<_>>(),
            ["name", "dog", "location"]
        );
        assert_eq!(matching(facts.clone(), "luna"), [known("dog", "Luna")]);
        assert_eq!(matching(facts, "it is"), []);
    }

    #[test]
    fn only_the_first_few_are_told() {
        let facts: Vec<Fact> = (0..=FACTS_TOLD_MAX).map(|n| known(&n.to_string(), "x")).collect();
        assert_eq!(told(&[]), None);
        let lines = |facts: &[Fact]| told(facts).unwrap_or_default().lines().count() - 1;
        assert_eq!((lines(&facts[..FACTS_TOLD_MAX]), lines(&facts)), (FACTS_TOLD_MAX, FACTS_TOLD_MAX));
    }

    proptest! {
        #[test]
        fn no_message_breaks_the_reader(message in "(my |MY | is |i live in |İ|[a-z.,é🦞 ]){0,20}") {
            let facts = stated_in(&message);
            prop_assert!(facts.iter().all(|fact| !fact.value.is_empty() && message.contains(&fact.value)));
        }
    }
}
