//! Brackets without their other half, for the message about a code that does not parse.

use super::{Bracket, Outcome, Scanner};

/// A bracket without its other half.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum BracketFault {
    /// The innermost one that is open at the end, and the offsets of those that were closed, in the order of their ends.
    Unclosed { at: usize, pairs: Vec<(usize, usize)> },
    /// One that closes nothing.
    Unopened(usize),
}

/// The first bracket that has no other half, if nothing else is wrong before.
pub(in super::super) fn bracket_fault(bytes: &[u8]) -> Option<BracketFault> {
    let mut scanner = Scanner { pairs: Some(Vec::new()), ..Scanner::new(bytes) };
    scanner.run();
    if scanner.outcome != Outcome::Broken {
        return None;
    }
    match (scanner.peek(0), scanner.open.last()) {
        (None, Some((bracket, _, behind))) => {
            let width = if *bracket == Bracket::Template { 2 } else { 1 };
            let at = behind.saturating_sub(width);
            Some(BracketFault::Unclosed { at, pairs: scanner.pairs.unwrap_or_default() })
        }
        (Some(b')' | b']' | b'}'), None) => Some(BracketFault::Unopened(scanner.at)),
        _ => None,
    }
}
