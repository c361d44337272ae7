//! White space and comments between the tokens of a text that parsed.

use super::parse::ParsedCode;

/// Offset of the first character at or after `offset` that is neither white space nor in a comment.
pub(super) fn skip(parsed: &ParsedCode, offset: u32) -> u32 {
    let mut offset = offset;
    loop {
        let rest = parsed.text.get(offset as usize..).unwrap_or_default();
        let skipped = if rest.starts_with("//") {
            rest.find(['\n', '\r', '\u{2028}', '\u{2029}']).unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else {
            rest.len() - rest.trim_start_matches(|character: char| is_space(character)).len()
        };
        if skipped == 0 {
            return offset;
        }
        offset = offset.saturating_add(u32::try_from(skipped).unwrap_or(u32::MAX));
    }
}

fn is_space(character: char) -> bool {
    character.is_whitespace() || character == '\u{feff}'
}

pub(super) fn has_line_break(parsed: &ParsedCode, start: u32, end: u32) -> bool {
    parsed.slice(start, end).contains(['\n', '\r', '\u{2028}', '\u{2029}'])
}

/// The words that stand between `start` and `end`, each with its offset.
pub(super) fn words<'a>(parsed: &ParsedCode<'a>, start: u32, end: u32) -> Vec<(u32, &'a str)> {
    let mut words = Vec::new();
    let mut offset = skip(parsed, start);
    while offset < end {
        let rest = parsed.slice(offset, end);
        let length = rest.find(|character: char| !character.is_ascii_alphabetic()).unwrap_or(rest.len());
        if length > 0 {
            words.push((offset, rest.get(..length).unwrap_or_default()));
        }
        let other = rest.chars().next().map_or(1, char::len_utf8);
        let step = if length > 0 { length } else { other };
        offset = skip(parsed, offset.saturating_add(u32::try_from(step).unwrap_or(u32::MAX)));
    }
    words
}
