//! Names of other systems as identifiers: tools of MCP servers, operations of documents.
//!
//! There a name may be anything; a binding is called by an identifier. The mapping depends on the set of names alone,
//! never on their order, and a name that becomes ambiguous is given up by both: a script that still uses it fails
//! with `UnknownBinding`, and does not call something else.

use std::collections::BTreeMap;

use crate::protocol::names::is_identifier;

/// Segments that no binding may have.
const FORBIDDEN: [&str; 3] = ["__proto__", "constructor", "prototype"];

/// The identifier of each name, none of which is in `reserved`. A name that no identifier can be found for is left out:
/// its hash is another's too.
pub(crate) fn assign<'a>(
    names: impl IntoIterator<Item = &'a str>,
    reserved: &[&str],
) -> BTreeMap<&'a str, String> {
    let own = |name: &'a str| (name, identifier(name, reserved));
    let names: BTreeMap<&str, String> = names.into_iter().map(own).collect();
    let claims = count(names.values());
    let resolve = |(name, plain): (&&'a str, &String)| {
        let is_free = claims.get(plain.as_str()) == Some(&1) || *name == plain;
        let resolved = if is_free { plain.clone() } else { format!("{plain}_{:08x}", hash(name)) };
        (*name, resolved)
    };
    let mut resolved: BTreeMap<&str, String> = names.iter().map(resolve).collect();
    let ambiguous: Vec<String> = {
        let claims = count(resolved.values());
        claims.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name.to_owned()).collect()
    };
    resolved.retain(|name, identifier| name == identifier || !ambiguous.contains(identifier));
    resolved
}

fn count<'a>(identifiers: impl Iterator<Item = &'a String>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for identifier in identifiers {
        *counts.entry(identifier.as_str()).or_default() += 1;
    }
    counts
}

/// The identifier of a name by itself: other characters become `_`.
pub(crate) fn identifier(name: &str, reserved: &[&str]) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '$') { c } else { '_' };
    let mut mapped: String = name.chars().map(letter).collect();
    if !is_identifier(&mapped) {
        mapped.insert(0, '_');
    }
    if FORBIDDEN.contains(&mapped.as_str()) || reserved.contains(&mapped.as_str()) {
        mapped.push('_');
    }
    mapped
}

/// FNV-1a: short, stable over releases, and not secret.
fn hash(name: &str) -> u32 {
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
    name.bytes().fold(2_166_136_261, mix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn identifier_replaces_what_cannot_be_written() {
        for (name, expected) in [
            ("create_issue", "create_issue"),
            ("create-issue", "create_issue"),
            ("repo.create", "repo_create"),
            ("2fa", "_2fa"),
            ("", "_"),
            ("größe", "gr__e"),
            ("__proto__", "__proto___"),
            ("constructor", "constructor_"),
            ("prompts", "prompts_"),
            ("delete", "delete"),
        ] {
            assert_eq!(identifier(name, &["prompts"]), expected, "{name}");
        }
    }

    #[test]
    fn colliding_names_keep_apart_and_the_exact_one_stays() {
        let names = assign(["a_b", "a-b", "a.b", "c-d", "e"], &[]);
        assert_eq!((names["a_b"].as_str(), names["c-d"].as_str(), names["e"].as_str()), ("a_b", "c_d", "e"));
        assert_ne!(names["a-b"], names["a.b"]);
        assert!(names["a-b"].starts_with("a_b_") && names["a-b"].len() == "a_b_".len() + 8, "{names:?}");
        let alone = assign(["a-b", "a.b"], &[]);
        assert!(alone.values().all(|name| name != "a_b"), "{alone:?}");
    }

    #[test]
    fn name_that_imitates_a_hash_takes_it_from_the_other() {
        let hashed = format!("a_b_{:08x}", hash("a-b"));
        let names = assign(["a-b", "a.b", &hashed], &[]);
        assert_eq!(names.get(hashed.as_str()), Some(&hashed));
        assert!(!names.contains_key("a-b") && names.contains_key("a.b"), "{names:?}");
    }

    proptest! {
        #[test]
        fn identifiers_are_distinct_and_independent_of_order(mut names in prop::collection::vec("[ab.-]{0,3}", 0..8)) {
            let first: BTreeMap<String, String> =
                assign(names.iter().map(String::as_str), &[]).into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
            names.reverse();
            let second = assign(names.iter().map(String::as_str), &[]);
            prop_assert!(first.iter().all(|(name, mapped)| second[name.as_str()] == *mapped));
            let distinct: std::collections::BTreeSet<&String> = first.values().collect();
            prop_assert_eq!(distinct.len(), first.len());
            prop_assert!(distinct.into_iter().all(|mapped| is_identifier(mapped)));
        }
    }
}
