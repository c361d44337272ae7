//! Names: from those of Rust to those of JavaScript, and which ones a binding may have.

/// Longest name of a binding, as in a declaration.
const NAME_BYTES_MAX: usize = 128;

/// Most segments of a name.
const SEGMENTS_MAX: usize = 8;

/// `get_order` as `getOrder`.
pub(crate) fn camel_case(name: &str) -> String {
    let mut words = name.trim_matches('_').split('_').filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| text + &capitalized(word))
}

/// `get_order` as `GetOrder`.
pub(crate) fn pascal_case(name: &str) -> String {
    name.split('_').map(capitalized).collect()
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

/// What is wrong with the name of a binding, as far as it can be seen here; the server knows more.
pub(crate) fn binding_name_problem(name: &str) -> Option<String> {
    if name.len() > NAME_BYTES_MAX || name.split('.').count() > SEGMENTS_MAX {
        return Some(format!("expected at most {NAME_BYTES_MAX} bytes in at most {SEGMENTS_MAX} segments"));
    }
    let is_identifier = |segment: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$';
        let mut bytes = segment.bytes();
        bytes.next().is_some_and(is_letter) && bytes.all(|byte| is_letter(byte) || byte.is_ascii_digit())
    };
    let wrong = name.split('.').find(|segment| !is_identifier(segment))?;
    Some(format!("`{wrong}` is not an identifier; expected a dotted name such as `orders.get`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_camel_case() {
        for (name, camel) in [("get", "get"), ("get_order", "getOrder"), ("_a__b_", "aB"), ("v2_x", "v2X")] {
            assert_eq!(camel_case(name), camel);
        }
        assert_eq!(pascal_case("get_order"), "GetOrder");
    }

    #[test]
    fn names_past_the_limits_are_refused() {
        assert_eq!(binding_name_problem("orders.get"), None);
        assert_eq!(binding_name_problem("a.b.c.d.e.f.g.h"), None);
        assert!(binding_name_problem("a.b.c.d.e.f.g.h.i").is_some());
        assert_eq!(binding_name_problem(&"a".repeat(NAME_BYTES_MAX)), None);
        assert!(binding_name_problem(&"a".repeat(NAME_BYTES_MAX + 1)).is_some());
        for name in ["", "a..b", "1st", "get order", "größe"] {
            assert!(binding_name_problem(name).is_some(), "{name}");
        }
    }
}
