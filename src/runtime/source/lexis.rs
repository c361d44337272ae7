//! What the tokens of a code look like, as far as `nesting` must distinguish them. Bytes in, lengths out.

use super::scan::is_word;

/// What a word may do where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Name,
    /// An operand, a name or a statement must follow.
    Operator,
    /// The same, and it never starts a statement.
    Continues,
    /// The head of a control statement must follow.
    Control,
    /// The same, and the word may belong to the statement before.
    ContinuesControl,
    /// A name or an operator, depending on where it stands.
    Either,
    /// The same, and as an operator it never starts a statement.
    ContinuesEither,
    /// A statement that ends after it, or after one name.
    Jump,
}

pub(super) fn role(word: &[u8]) -> Role {
    match word {
        b"if" | b"for" | b"with" => Role::Control,
        b"while" => Role::ContinuesControl,
        b"else" | b"in" | b"instanceof" | b"extends" => Role::Continues,
        b"return" | b"typeof" | b"void" | b"delete" | b"new" | b"throw" | b"case" | b"do" | b"class"
        | b"function" => Role::Operator,
        b"await" | b"yield" | b"keyof" | b"readonly" | b"unique" | b"infer" | b"asserts" | b"async"
        | b"abstract" | b"default" => Role::Either,
        b"of" | b"as" | b"satisfies" | b"is" | b"implements" => Role::ContinuesEither,
        b"break" | b"continue" | b"debugger" => Role::Jump,
        _ => Role::Name,
    }
}

/// The bytes up to the end of the word, or to white space beyond ASCII, which its bytes alone do not show;
/// one such space is a word of its own.
pub(super) fn leading_word(bytes: &[u8]) -> &[u8] {
    let mut length = 0;
    while let Some(byte) = bytes.get(length).filter(|byte| is_word(**byte)) {
        if byte.is_ascii() {
            length += 1;
            continue;
        }
        let rest = bytes.get(length..).unwrap_or_default();
        let Some(character) = first_character(rest) else {
            break;
        };
        if is_space(character) {
            length = if length == 0 { character.len_utf8() } else { length };
            break;
        }
        length += character.len_utf8();
    }
    bytes.get(..length.max(usize::from(bytes.first().is_some_and(|byte| is_word(*byte))))).unwrap_or_default()
}

/// The first character of a text, found without a look at the rest of it.
fn first_character(bytes: &[u8]) -> Option<char> {
    const CHARACTER_BYTES_MAX: usize = 4;
    let head = bytes.get(..bytes.len().min(CHARACTER_BYTES_MAX))?;
    let chunk = head.utf8_chunks().next()?;
    chunk.valid().chars().next()
}

/// Length of a word that is white space in truth, and whether it breaks the line.
pub(super) fn unusual_space(word: &[u8]) -> Option<(usize, bool)> {
    let first = first_character(word)?;
    is_space(first).then(|| (first.len_utf8(), matches!(first, '\u{2028}' | '\u{2029}')))
}

fn is_space(character: char) -> bool {
    character.is_whitespace() || character == '\u{feff}'
}

fn word_length(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_word(**byte)).count()
}

/// Length of the number that starts here. A point belongs to it after plain digits only.
pub(super) fn number(rest: &[u8]) -> usize {
    let tail = |from: usize| rest.get(from..).map_or(0, word_length);
    let starts_in_point = rest.first() == Some(&b'.');
    let mut length = usize::from(starts_in_point);
    length += tail(length);
    let digits = rest.get(..length).unwrap_or_default();
    let plain = digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'_')
        && (digits.len() == 1 || digits.first() != Some(&b'0'));
    if plain && rest.get(length) == Some(&b'.') {
        length += 1;
        length += tail(length);
    }
    let has_radix = matches!(rest.get(..2), Some([b'0', b'x' | b'X' | b'b' | b'B' | b'o' | b'O']));
    let in_exponent = length > 0 && matches!(rest.get(length - 1), Some(b'e' | b'E'));
    if in_exponent && !has_radix && matches!(rest.get(length), Some(b'+' | b'-')) {
        length += 1;
        length += tail(length);
    }
    length
}

/// Length of the regular expression that starts here, without its flags, if its end is on the line.
pub(super) fn regex(rest: &[u8]) -> Option<usize> {
    let mut in_class = false;
    let mut at = 1;
    loop {
        match rest.get(at)? {
            b'\n' | b'\r' => return None,
            0xe2 if is_line_separator(rest.get(at..)?) => return None,
            b'\\' => at += 1,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'/' if !in_class => return Some(at + 1),
            _ => {}
        }
        at += 1;
    }
}

/// Offset of the line break that ends the line.
pub(super) fn line_end(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let ends = |(at, byte): (usize, &u8)| match byte {
        b'\n' | b'\r' => true,
        0xe2 => rest.get(at..).is_some_and(is_line_separator),
        _ => false,
    };
    from + rest.iter().enumerate().position(ends).unwrap_or(rest.len())
}

fn is_line_separator(bytes: &[u8]) -> bool {
    bytes.starts_with("\u{2028}".as_bytes()) || bytes.starts_with("\u{2029}".as_bytes())
}

/// Whether a text leaves a scan in the same state as a regular expression and as two divisions.
pub(super) fn reads_alike(body: &[u8]) -> bool {
    body.is_ascii()
        && !body.iter().any(|byte| {
            matches!(
                byte,
                b'"' | b'\''
                    | b'`'
                    | b'('
                    | b')'
                    | b'['
                    | b']'
                    | b'{'
                    | b'}'
                    | b'/'
                    | b'*'
                    | b'\\'
                    | b';'
                    | b','
            )
        })
}

pub(super) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_a_member_begins() {
        for (text, length) in [
            ("1.return", 8),
            ("1..return", 2),
            ("1.5.return", 3),
            ("1e5.x", 3),
            ("1e-5.x", 4),
            ("0x1e+1", 4),
            ("010.x", 3),
            ("0.5", 3),
            (".5.x", 2),
            ("1n.x", 2),
            ("1_0.5e+3x", 9),
        ] {
            assert_eq!(number(text.as_bytes()), length, "{text}");
        }
    }

    #[test]
    fn regexes_end_outside_of_a_class() {
        assert_eq!(regex(br"/a[/]\/b/g"), Some(9));
        assert_eq!(regex(b"/a\n/"), None);
        assert_eq!(regex("/a\u{2028}/".as_bytes()), None);
    }

    #[test]
    fn spaces_beyond_ascii_are_no_letters() {
        assert_eq!(leading_word("aé\u{a0}b".as_bytes()), "aé".as_bytes());
        assert_eq!(unusual_space(leading_word("\u{2028}b".as_bytes())), Some((3, true)));
        assert_eq!(unusual_space("é".as_bytes()), None);
        assert_eq!(leading_word(b"\xff\xff"), b"\xff");
        assert_eq!(leading_word(b"+a"), b"");
    }
}
