//! Names that mean the same as one that is not there: `fetchOrder` for `getOrder`, `append` for `push`.

use super::closest::closest;
use super::split_words;

/// Words that programmers use for one another. A word may be in several lists.
const SYNONYMS: &[&[&str]] = &[
    &["get", "fetch", "read", "load", "retrieve", "obtain", "lookup", "find"],
    &["set", "put", "write", "save", "store", "update", "upsert"],
    &["delete", "remove", "del", "rm", "unset", "destroy", "erase", "drop"],
    &["list", "all", "keys", "entries", "scan", "ls", "enumerate"],
    &["search", "find", "query", "lookup", "filter"],
    &["send", "post", "emit", "publish", "notify", "dispatch"],
    &["create", "add", "new", "make", "insert", "register"],
    &["call", "invoke", "run", "execute", "exec"],
    &["push", "append", "add"],
    &["includes", "contains", "has"],
    &["length", "len", "size", "count"],
    &["concat", "extend"],
    &["filter", "select", "where"],
    &["map", "collect"],
    &["trim", "strip"],
];

/// Single words whose other form has several.
const FORMS: &[(&str, &str)] = &[
    ("upper", "toUpperCase"),
    ("lower", "toLowerCase"),
    ("startswith", "startsWith"),
    ("endswith", "endsWith"),
    ("each", "forEach"),
    ("substr", "slice"),
    ("sorted", "toSorted"),
    ("isoformat", "toISOString"),
];

/// Shortest beginning of a name that is completed.
const BEGINNING_BYTES_MIN: usize = 4;

/// Names that a writer of `missing` may have meant: those that it is the beginning of, those with nearly
/// the same letters, then those that mean the same.
pub(crate) fn similar(names: &[String], missing: &str, limit: usize) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut add = |name: &String| {
        if found.len() < limit && !found.contains(name) {
            found.push(name.clone());
        }
    };
    if missing.len() >= BEGINNING_BYTES_MIN {
        let lower = missing.to_lowercase();
        names.iter().filter(|name| name.to_lowercase().starts_with(&lower)).for_each(&mut add);
    }
    closest(names.iter().map(String::as_str), missing, limit).iter().for_each(&mut add);
    let words = split_words(missing);
    names.iter().filter(|name| means(name, missing, &words)).for_each(&mut add);
    found
}

fn means(name: &str, missing: &str, words: &[String]) -> bool {
    if FORMS.iter().any(|(from, to)| from.eq_ignore_ascii_case(missing) && *to == name) {
        return true;
    }
    let others = split_words(name);
    others.len() == words.len()
        && !words.is_empty()
        && words.iter().zip(&others).all(|(word, other)| word == other || are_synonyms(word, other))
}

fn are_synonyms(a: &str, b: &str) -> bool {
    SYNONYMS.iter().any(|group| group.contains(&a) && group.contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_letters_beginning_and_meaning() {
        let names: Vec<String> =
            ["kv.get", "kv.set", "kv.delete", "crm.search", "getOrder", "toUpperCase", "push"]
                .into_iter()
                .map(str::to_owned)
                .collect();
        for (missing, found) in [
            ("kvv.get", "kv.get"),
            ("KV.get", "kv.get"),
            ("kv.fetch", "kv.get"),
            ("kv.remove", "kv.delete"),
            ("crm.serch", "crm.search"),
            ("crm.find", "crm.search"),
            ("getO", "getOrder"),
            ("fetchOrder", "getOrder"),
            ("upper", "toUpperCase"),
            ("append", "push"),
        ] {
            assert_eq!(similar(&names, missing, 3).first().map(String::as_str), Some(found), "{missing}");
        }
        assert_eq!(similar(&names, "nothingLikeIt", 3), Vec::<String>::new());
    }
}
