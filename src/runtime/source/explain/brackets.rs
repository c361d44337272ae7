//! A bracket that is never closed, or closed without having been opened.
//!
//! At the end of a code the outermost bracket is the one that is left open, though mostly it is an inner one that lacks
//! its end. People and models indent their code, so a brace that closes further to the left than the line began that
//! opened it shows where the other one is missing.

use super::super::tokens::{self, BracketFault};

/// The bracket that is wrong: its offset, and what to say.
pub(super) fn explain(code: &str) -> Option<(usize, String)> {
    match tokens::bracket_fault(code.as_bytes())? {
        BracketFault::Unclosed { at, pairs } => {
            let at = misplaced(code, &pairs).unwrap_or(at);
            let opening = code.get(at..)?.chars().next()?;
            let (closing, shown) = match opening {
                '(' => (')', "("),
                '[' => (']', "["),
                '$' => ('}', "${"),
                _ => ('}', "{"),
            };
            let line = line_of(code, at);
            Some((at, format!("`{shown}` opened on line {line} is never closed: `{closing}` is missing")))
        }
        BracketFault::Unopened(at) => {
            let closing = code.get(at..)?.chars().next()?;
            let opening = match closing {
                ')' => '(',
                ']' => '[',
                _ => '{',
            };
            Some((at, format!("Unexpected `{closing}`: there is no `{opening}` that it could close")))
        }
    }
}

/// The bracket that closes nothing, if there is one.
pub(super) fn unopened(code: &str) -> Option<(usize, String)> {
    match tokens::bracket_fault(code.as_bytes())? {
        BracketFault::Unopened(_) => explain(code),
        BracketFault::Unclosed { .. } => None,
    }
}

/// The first bracket whose end, at the start of a line, stands further to the left than the line that opened it.
fn misplaced(code: &str, pairs: &[(usize, usize)]) -> Option<usize> {
    pairs.iter().find_map(|(open, close)| {
        let (opening, closing) = (indent(code, *open), indent(code, *close));
        let starts_line = line_start(code, *close) + closing == *close;
        let is_below = line_start(code, *open) != line_start(code, *close);
        (starts_line && is_below && closing < opening).then_some(*open)
    })
}

fn line_of(code: &str, offset: usize) -> u32 {
    crate::session::positions::locate(code, offset).0
}

fn line_start(code: &str, offset: usize) -> usize {
    code.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1)
}

/// Bytes of white space at the start of the line of an offset.
fn indent(code: &str, offset: usize) -> usize {
    let line = code.get(line_start(code, offset)..).unwrap_or_default();
    line.bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}
