//! Edits to a text: insertions, and ranges blanked or replaced, applied in one pass.
//!
//! Everything the transform does is an edit of the code as sent, never a reprint of a tree: what is not touched
//! stays byte for byte, and `Positions` can say where each column came from. Offsets are those of the parsed
//! text, which has a prefix in front of the code (see `parse`); `base` takes it off again.

use std::borrow::Cow;

use oxc_span::Span;

use super::CODE_BYTES_MAX;
use super::positions::{Positions, Recorder};

/// Most text that edits may add to one code.
/// Every edit but one adds a fixed amount for what it finds; an `enum` repeats its name for each member, so a
/// long name would make the output quadratic. Four times the longest code is more than any other edit needs.
const EDIT_TEXT_BYTES_MAX: usize = 4 * CODE_BYTES_MAX;

/// The edits of one code, in any order; those of one offset stay in the order they were made.
pub(super) struct Edits {
    base: usize,
    list: Vec<Edit>,
    text_bytes: usize,
}

struct Edit {
    start: usize,
    end: usize,
    with: With,
}

enum With {
    Spaces,
    Text(Cow<'static, str>),
}

impl Edits {
    pub(super) fn new(base: usize) -> Self {
        Self { base, list: Vec::new(), text_bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// More was written than a code may grow by.
    pub(super) fn is_overgrown(&self) -> bool {
        self.text_bytes > EDIT_TEXT_BYTES_MAX
    }

    pub(super) fn insert(&mut self, at: u32, text: impl Into<Cow<'static, str>>) {
        self.replace(at, at, text);
    }

    /// The text must have as many line breaks as the range: lines never move.
    pub(super) fn replace(&mut self, start: u32, end: u32, text: impl Into<Cow<'static, str>>) {
        let text = text.into();
        self.text_bytes = self.text_bytes.saturating_add(text.len());
        self.push(start, end, With::Text(text));
    }

    pub(super) fn blank(&mut self, start: u32, end: u32) {
        if start < end {
            self.push(start, end, With::Spaces);
        }
    }

    pub(super) fn blank_span(&mut self, span: Span) {
        self.blank(span.start, span.end);
    }

    fn push(&mut self, start: u32, end: u32, with: With) {
        let start = (start as usize).saturating_sub(self.base);
        let end = (end as usize).saturating_sub(self.base).max(start);
        self.list.push(Edit { start, end, with });
    }

    pub(super) fn apply(mut self, code: &str) -> (String, Positions) {
        // An insertion stands before a range that starts at the same offset.
        self.list.sort_by_key(|edit| (edit.start, edit.start != edit.end));
        let mut output = Recorder::with_capacity(code.len() + code.len() / 8);
        let mut cursor = 0;
        for edit in &self.list {
            output.copy(slice(code, cursor, edit.start));
            cursor = cursor.max(edit.start);
            let replaced = slice(code, cursor, edit.end);
            match &edit.with {
                With::Spaces => output.blank(replaced),
                With::Text(text) => output.replace(replaced, text),
            }
            cursor = cursor.max(edit.end);
        }
        output.copy(slice(code, cursor, code.len()));
        output.finish()
    }
}

/// Empty when the range is: overlapping edits are cut, never doubled.
fn slice(code: &str, start: usize, end: usize) -> &str {
    code.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(code: &str, edit: impl FnOnce(&mut Edits)) -> String {
        let mut edits = Edits::new(0);
        edit(&mut edits);
        edits.apply(code).0
    }

    #[test]
    fn blanks_keep_line_breaks() {
        assert_eq!(applied("ab\ncd", |edits| edits.blank(1, 4)), "a \n d");
    }

    #[test]
    fn insertion_stands_before_a_range_of_the_same_start() {
        let output = applied("abc", |edits| {
            edits.blank(1, 2);
            edits.insert(1, "<");
        });
        assert_eq!(output, "a< c");
    }

    #[test]
    fn overlapping_ranges_are_cut() {
        let output = applied("abcdef", |edits| {
            edits.blank(1, 4);
            edits.blank(2, 5);
        });
        assert_eq!(output, "a    f");
    }

    #[test]
    fn text_is_overgrown_past_its_limit() {
        let mut edits = Edits::new(0);
        edits.insert(0, " ".repeat(EDIT_TEXT_BYTES_MAX));
        assert!(!edits.is_overgrown());
        edits.insert(0, "x");
        assert!(edits.is_overgrown());
    }
}
