//! Words of names, descriptions and queries: how they are split, what their stems are, and which mean the same.

/// Words that say nothing about what is looked for.
const STOP_WORDS: [&str; 32] = [
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "for", "from", "how", "i", "in",
    "into", "is", "it", "me", "my", "of", "on", "or", "some", "that", "the", "this", "to", "want", "what",
    "with",
];

/// Words that names of tools and queries use for the same thing. A word may be in several groups.
const SYNONYMS: &[&[&str]] = &[
    &["create", "add", "new", "make", "insert", "open", "register", "post", "submit"],
    &["delete", "remove", "destroy", "drop", "erase", "discard", "unlink", "forget"],
    &["get", "fetch", "read", "retrieve", "load", "show", "view", "download"],
    &["list", "all", "enumerate", "index", "browse"],
    &["update", "edit", "change", "modify", "patch", "replace", "write", "put", "save", "store"],
    &["search", "find", "look", "query", "lookup", "filter", "match"],
    &["send", "post", "publish", "deliver", "notify", "dispatch"],
    &["run", "execute", "start", "launch", "invoke", "call", "trigger"],
    &["stop", "cancel", "abort", "end", "terminate", "kill", "close"],
    &["copy", "duplicate", "clone", "fork"],
    &["move", "rename", "transfer"],
    &["upload", "attach", "import"],
    &["issue", "ticket", "bug", "task", "problem"],
    &["comment", "note", "remark", "reply"],
    &["user", "person", "people", "member", "account", "profile", "contact", "customer"],
    &["group", "team", "organization", "org"],
    &["message", "mail", "email", "chat"],
    &["file", "document", "attachment"],
    &["folder", "directory", "dir"],
    &["image", "picture", "photo", "icon"],
    &["repository", "repo", "project"],
    &["settings", "config", "configuration", "preferences", "options"],
    &["price", "cost", "amount", "total", "fee"],
    &["order", "purchase", "sale"],
    &["payment", "charge", "invoice", "bill"],
    &["event", "appointment", "meeting", "calendar"],
    &["log", "history", "audit"],
    &["error", "failure", "exception"],
    &["time", "date", "clock", "now"],
    &["weather", "forecast"],
    &["key", "token", "secret", "credential", "password"],
    &["permission", "role", "access"],
];

/// A word of a query with everything that is taken for it.
#[derive(Debug)]
pub(super) struct QueryWord {
    pub(super) word: String,
    pub(super) stem: String,
    /// The stems of words that mean the same.
    pub(super) synonyms: Vec<String>,
}

/// The words of a query that count, at most so many.
pub(super) fn query_words(query: &str, words_max: usize) -> Vec<QueryWord> {
    let mut words = split_words(query);
    words.truncate(words_max);
    let telling: Vec<String> =
        words.iter().filter(|word| !STOP_WORDS.contains(&word.as_str())).cloned().collect();
    // A query of nothing else is taken at its word.
    let words = if telling.is_empty() { words } else { telling };
    words.into_iter().map(query_word).collect()
}

fn query_word(word: String) -> QueryWord {
    let own = stem(&word);
    let groups = SYNONYMS.iter().filter(|group| group.iter().any(|other| stem(other) == own));
    let mut synonyms: Vec<String> = groups.flat_map(|group| group.iter().map(|other| stem(other))).collect();
    synonyms.retain(|other| *other != own);
    synonyms.sort_unstable();
    synonyms.dedup();
    QueryWord { word, stem: own, synonyms }
}

/// Splits `getOrder_byID` into `get`, `order`, `by`, `id`, and `parseHTTPHeader` into `parse`, `http`, `header`, all in
/// lower case.
pub(super) fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before: Option<char> = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_after_lower = before.is_some_and(|c| c.is_lowercase() || c.is_numeric());
        // The last capital of several begins the word that follows: `HTTPHeader`.
        let ends_capitals =
            before.is_some_and(char::is_uppercase) && letters.peek().is_some_and(|c| c.is_lowercase());
        let begins_word = letter.is_uppercase() && (is_after_lower || ends_capitals);
        if (begins_word || !letter.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        }
        before = Some(letter);
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// The part of an English word that its forms share: `issues` and `issue`, `creating`, `created` and `creation`.
pub(super) fn stem(word: &str) -> String {
    if !word.is_ascii() || word.len() < 4 {
        return word.to_owned();
    }
    let singular = singular(word);
    let base = ["ation", "ing", "ed", "ion", "er", "or"]
        .iter()
        .filter_map(|ending| singular.strip_suffix(ending))
        .find(|base| base.len() >= 3 && base.bytes().any(|letter| b"aeiouy".contains(&letter)));
    // `creation` is `creat` and `configuration` is `configur`: the `at` of the first is part of the word.
    let base = match (base, singular.strip_suffix("ation")) {
        (Some(base), Some(_)) if base.len() < 5 => singular.strip_suffix("ion").unwrap_or(base),
        (Some(base), _) => base,
        (None, _) => &singular,
    };
    let base = base.strip_suffix('e').filter(|base| base.len() >= 3).unwrap_or(base);
    let mut letters = base.bytes().rev();
    match (letters.next(), letters.next()) {
        // `running` is `run`, `missing` stays `miss`.
        (Some(last), Some(before)) if last == before && base.len() > 3 && !b"lsz".contains(&last) => {
            base[..base.len() - 1].to_owned()
        }
        _ => base.to_owned(),
    }
}

fn singular(word: &str) -> String {
    let is_hissing = |base: &str| ["s", "x", "z", "ch", "sh"].iter().any(|ending| base.ends_with(ending));
    if let Some(base) = word.strip_suffix("ies").filter(|base| base.len() >= 2) {
        return format!("{base}y");
    }
    if let Some(base) = word.strip_suffix("es").filter(|base| is_hissing(base)) {
        return base.to_owned();
    }
    match word.strip_suffix('s') {
        Some(base) if !["s", "u", "i"].iter().any(|ending| base.ends_with(ending)) => base.to_owned(),
        Some(_) | None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_at_case_and_punctuation() {
        for (name, expected) in [
            ("getOrder_byID", &["get", "order", "by", "id"][..]),
            ("github.create-issue", &["github", "create", "issue"]),
            ("parseHTTPHeader", &["parse", "http", "header"]),
            ("OAuth2Token", &["o", "auth2", "token"]),
            ("listURLs", &["list", "ur", "ls"]),
            ("", &[]),
        ] {
            assert_eq!(split_words(name), expected, "{name}");
        }
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for forms in [
            &["issue", "issues"][..],
            &["create", "creates", "created", "creating", "creation", "creator"],
            &["delete", "deletes", "deleted", "deleting", "deletion"],
            &["query", "queries"],
            &["message", "messages", "messaging"],
            &["address", "addresses"],
            &["run", "running"],
            &["configure", "configuration"],
            &["status"],
        ] {
            let stems: Vec<String> = forms.iter().map(|form| stem(form)).collect();
            assert!(stems.iter().all(|one| *one == stems[0]), "{forms:?} {stems:?}");
        }
        assert_eq!(
            (stem("string"), stem("bus"), stem("größe")),
            ("string".to_owned(), "bus".to_owned(), "größe".to_owned())
        );
    }

    #[test]
    fn query_has_no_stop_words_unless_there_are_no_others() {
        let words =
            |query: &str| query_words(query, 16).into_iter().map(|word| word.word).collect::<Vec<_>>();
        assert_eq!(words("how do I create an issue"), ["create", "issue"]);
        assert_eq!(words("what is it"), ["what", "is", "it"]);
        assert_eq!(query_words("one two three", 2).len(), 2);
    }
}
