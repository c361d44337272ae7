//! A scan of the bytes of a code, to decide whether it has to be parsed at all. Most evals declare nothing that
//! must be rewritten, and a parse costs more than the run of `1+1`. A word in a string or a comment costs only
//! the parse.

/// Whether the code may hold a declaration that `prepare` rewrites.
pub(super) fn may_declare(code: &str, is_binding: &dyn Fn(&str) -> bool) -> bool {
    // A search for a word is many times as fast as a look at each byte, and data has none of these.
    let words = ["let", "const", "class", "function"];
    words.iter().any(|word| code.contains(word))
        && some_word(code, |word, rest| is_declaration(word) || is_function(word, rest, is_binding))
}

/// Whether it may be a function that takes the name of a binding, which has effects outside of its brackets too.
pub(super) fn may_replace_binding(code: &str, is_binding: &dyn Fn(&str) -> bool) -> bool {
    code.contains("function") && some_word(code, |word, rest| is_function(word, rest, is_binding))
}

/// Whether something holds of a word of the code that begins like one of interest, and of what follows it.
fn some_word(code: &str, is_meant: impl Fn(&[u8], &[u8]) -> bool) -> bool {
    let bytes = code.as_bytes();
    let mut in_word = false;
    for (at, byte) in bytes.iter().enumerate() {
        let starts = !in_word && matches!(byte, b'l' | b'c' | b'f');
        in_word = is_word(*byte);
        if starts && let Some(rest) = bytes.get(at..) {
            let (word, rest) = rest.split_at(leading_word(rest).len());
            if is_meant(word, rest) {
                return true;
            }
        }
    }
    false
}

/// Whether a word begins a declaration of the block that it stands in.
pub(super) fn is_declaration(word: &[u8]) -> bool {
    matches!(word, b"let" | b"const" | b"class")
}

fn is_function(word: &[u8], rest: &[u8], is_binding: &dyn Fn(&str) -> bool) -> bool {
    word == b"function" && names_binding(rest, is_binding)
}

/// Whether a function's name, after the keyword, is a binding's; a comment in between counts as one.
fn names_binding(rest: &[u8], is_binding: &dyn Fn(&str) -> bool) -> bool {
    let mut rest = rest;
    while let [b' ' | b'\t' | b'\r' | b'\n' | b'*', tail @ ..] = rest {
        rest = tail;
    }
    match rest.first() {
        Some(b'/' | b'\\') => true,
        Some(byte) if is_word(*byte) => std::str::from_utf8(leading_word(rest)).is_ok_and(is_binding),
        Some(_) | None => false,
    }
}

fn leading_word(bytes: &[u8]) -> &[u8] {
    let length = bytes.iter().take_while(|byte| is_word(**byte)).count();
    bytes.get(..length).unwrap_or_default()
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'\\') || !byte.is_ascii()
}

/// How often a code says `let`, `const`, `var`, `class` or `function`; strings and comments count too.
pub(crate) fn declaration_words(code: &str) -> usize {
    // A shorter code cannot have too many.
    if code.len() < super::DECLARATIONS_MAX * 4 {
        return 0;
    }
    let words = ["let ", "const ", "var ", "class ", "function "].into_iter();
    // A search that finds none is much cheaper than a count.
    words.filter(|word| code.contains(word)).map(|word| code.matches(word).count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(code: &str) -> bool {
        may_declare(code, &|name| name == "getOrder")
    }

    #[test]
    fn expressions_are_not_parsed() {
        for code in
            ["1+1", "", "letter + constant", "a_let", "$class", "x = function () {}", "function f() {}"]
        {
            assert!(!seen(code), "{code}");
        }
    }

    #[test]
    fn declarations_are_seen() {
        for code in ["let a", "a;const b=1", "{}class A{}", "1\nlet\na"] {
            assert!(seen(code), "{code}");
        }
    }

    #[test]
    fn functions_are_seen_when_they_take_a_bindings_name() {
        assert!(seen("async function * getOrder() {}"));
        assert!(seen("function/**/getOrder() {}"));
        assert!(seen("function getOrd\\u0065r() {}") || seen("function \\u0067etOrder() {}"));
        assert!(!seen("function getOrders() {}"));
    }
}
