//! How deep a code is nested, found before it is parsed: the parser and the walks over its tree are recursive, and
//! a code must not be able to overflow the stack. One pass over the tokens, no recursion, computes an upper bound of
//! the stack a parse takes: every open bracket counts, and so does every token since the statement or list item
//! around it began (`!!!!a`, `a.b.c.d`, `x=>y=>z` and `else if` all nest one level a token or two).
//! Telling a regular expression from a division is the one thing tokens alone cannot always do; where it matters,
//! the pass abandons the exact bound and counts every token of the code.

use super::lexis::leading_word;
use super::tokens::{Outcome, scan};

/// Stack an ordinary token of a chain may take, in bytes: `yield` is the worst, in an unoptimized build.
pub(super) const TOKEN_STACK_BYTES: usize = 500;
/// Stack a token may take that starts a construct of many parts, such as `new`, `class` or the `<` of type arguments.
const HEAVY_TOKEN_STACK_BYTES: usize = 2_800;
/// Stack an open bracket takes on top of its token; a default value in a parameter list is the worst.
pub(super) const BRACKET_STACK_BYTES: usize = 4_200;
/// Stack a parse may take.
/// Two thirds of the 1.5 MiB a script's stack has; the rest is what was there before, and margin.
pub(super) const PARSE_STACK_BYTES_MAX: usize = 1 << 20;

/// What is known of a code before it is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nesting {
    /// It can be parsed.
    Bounded,
    /// A bracket or a literal has no end: it is not a program, and the engine reports it best.
    Broken,
    /// A parse could overflow the stack; the offset is where the bound was passed.
    TooDeep(usize),
}

/// Measures a code.
pub(super) fn measure(code: &str) -> Nesting {
    measure_scoped(code).0
}

/// The same, and whether it surely declares its variables, constants and classes inside of brackets only.
pub(super) fn measure_scoped(code: &str) -> (Nesting, bool) {
    let (outcome, may_declare) = scan(code.as_bytes());
    let nesting = match outcome {
        Outcome::Deep(at) => Nesting::TooDeep(at),
        Outcome::Unsure => count_all(code.as_bytes()),
        Outcome::Broken if count_all(code.as_bytes()) != Nesting::Bounded => Nesting::Broken,
        Outcome::Broken | Outcome::Fine => Nesting::Bounded,
    };
    (nesting, outcome == Outcome::Fine && !may_declare)
}

/// Whether even the count of all tokens, which no reading of the code can exceed, is within the bound.
pub(super) fn is_small(code: &str) -> bool {
    count_all(code.as_bytes()) == Nesting::Bounded
}

fn count_all(bytes: &[u8]) -> Nesting {
    let mut cost = 0;
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let word = leading_word(rest);
        cost += match rest.first() {
            _ if !word.is_empty() => word_weight(word),
            Some(b'(' | b'[' | b'{') => TOKEN_STACK_BYTES + BRACKET_STACK_BYTES,
            Some(byte) if byte.is_ascii_whitespace() => 0,
            Some(byte) => mark_weight(*byte),
            None => 0,
        };
        if cost > PARSE_STACK_BYTES_MAX {
            return Nesting::TooDeep(at);
        }
        at += word.len().max(1);
    }
    Nesting::Bounded
}

pub(super) fn word_weight(word: &[u8]) -> usize {
    match word {
        b"new" | b"class" | b"extends" | b"function" | b"for" => HEAVY_TOKEN_STACK_BYTES,
        _ => TOKEN_STACK_BYTES,
    }
}

pub(super) fn mark_weight(byte: u8) -> usize {
    if byte == b'<' { HEAVY_TOKEN_STACK_BYTES } else { TOKEN_STACK_BYTES }
}
