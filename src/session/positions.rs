//! Where a place of the generated code was in the code as sent.
//!
//! Lines never move, so only columns are kept: anchors at which the distance between the two changes. Columns
//! count from 1, in bytes, as the engine reports them. A place inside generated text maps to where it was put in.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Most anchors kept for one code.
/// A code with more edits than that is machine-made; the columns of its later lines are reported as generated.
const POSITION_ANCHORS_MAX: usize = 1 << 16;

/// Maps generated positions back; the default maps each to itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Positions {
    anchors: Option<Arc<[Anchor]>>,
    /// Lines of the code as sent; what was put behind them is ours.
    lines: u32,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Anchor {
    line: u32,
    generated: u32,
    original: u32,
    /// Generated text: all of it comes from one place.
    inserted: bool,
}

impl Positions {
    /// Whether every place is where it was.
    pub(crate) fn is_identity(&self) -> bool {
        self.anchors.is_none()
    }

    /// How many anchors it has.
    pub(crate) fn anchors(&self) -> usize {
        self.anchors.as_ref().map_or(0, |anchors| anchors.len())
    }

    /// The line and column in the code as sent, both from 1; `None` for code that was put behind it.
    pub(crate) fn original(&self, line: u32, column: u32) -> Option<(u32, u32)> {
        let Some(anchors) = &self.anchors else {
            return Some((line, column));
        };
        (line <= self.lines).then(|| Self::nearest(anchors, line, column))
    }

    fn nearest(anchors: &[Anchor], line: u32, column: u32) -> (u32, u32) {
        let after = anchors.partition_point(|anchor| (anchor.line, anchor.generated) <= (line, column));
        let anchor = after.checked_sub(1).and_then(|last| anchors.get(last));
        match anchor {
            Some(anchor) if anchor.line == line && anchor.inserted => (line, anchor.original),
            Some(anchor) if anchor.line == line => {
                (line, anchor.original.saturating_add(column - anchor.generated))
            }
            Some(_) | None => (line, column),
        }
    }
}

/// The line and column, from 1, of a byte offset.
pub(crate) fn locate(code: &str, offset: usize) -> (u32, u32) {
    let before = code.get(..offset).unwrap_or(code);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = columns(before.get(line_start..).unwrap_or_default()).saturating_add(1);
    (u32::try_from(line).unwrap_or(u32::MAX), column)
}

/// The engine counts bytes.
fn columns(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

/// Writes the generated code and notes where its columns leave those of the code as sent.
pub(crate) struct Recorder {
    output: String,
    anchors: Vec<Anchor>,
    line: u32,
    generated: u32,
    original: u32,
}

impl Recorder {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { output: String::with_capacity(bytes), anchors: Vec::new(), line: 1, generated: 1, original: 1 }
    }

    pub(crate) fn copy(&mut self, text: &str) {
        self.output.push_str(text);
        self.advance(text);
    }

    pub(crate) fn blank(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '\n' | '\r' | '\u{2028}' | '\u{2029}' => self.output.push(character),
                _ => self.output.extend(std::iter::repeat_n(' ', character.len_utf8())),
            }
        }
        self.advance(text);
    }

    pub(crate) fn replace(&mut self, replaced: &str, text: &str) {
        self.output.push_str(text);
        if !replaced.contains('\n') && columns(replaced) == columns(text) {
            self.advance(replaced);
            return;
        }
        self.anchor(true);
        self.generated = after(self.generated, text);
        self.original = after(self.original, replaced);
        self.line = self.line.saturating_add(line_breaks(replaced));
        self.anchor(false);
    }

    pub(crate) fn finish(self) -> (String, Positions) {
        let anchors = (!self.anchors.is_empty()).then(|| self.anchors.into());
        (self.output, Positions { anchors, lines: self.line })
    }

    fn advance(&mut self, text: &str) {
        self.generated = after(self.generated, text);
        self.original = after(self.original, text);
        self.line = self.line.saturating_add(line_breaks(text));
    }

    fn anchor(&mut self, inserted: bool) {
        if self.anchors.len() < POSITION_ANCHORS_MAX {
            let Self { line, generated, original, .. } = *self;
            self.anchors.push(Anchor { line, generated, original, inserted });
        }
    }
}

fn line_breaks(text: &str) -> u32 {
    u32::try_from(text.bytes().filter(|byte| *byte == b'\n').count()).unwrap_or(u32::MAX)
}

/// The column after `text` that starts at `column`.
fn after(column: u32, text: &str) -> u32 {
    match text.rfind('\n') {
        Some(at) => columns(text.get(at + 1..).unwrap_or_default()) + 1,
        None => column.saturating_add(columns(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_maps_to_itself() {
        assert_eq!(Positions::default().original(7, 9), Some((7, 9)));
    }

    #[test]
    fn columns_after_an_insertion_move_back() {
        let mut recorder = Recorder::with_capacity(0);
        recorder.copy("a\nb");
        recorder.replace("", "1234");
        recorder.copy("c\nd");
        let (output, positions) = recorder.finish();
        assert_eq!(output, "a\nb1234c\nd");
        assert_eq!(positions.original(2, 1), Some((2, 1)));
        assert_eq!(positions.original(2, 4), Some((2, 2)));
        assert_eq!(positions.original(2, 6), Some((2, 2)));
        assert_eq!(positions.original(2, 7), Some((2, 3)));
        assert_eq!(positions.original(3, 1), Some((3, 1)));
    }

    #[test]
    fn anchors_stop_at_their_limit() {
        let mut recorder = Recorder::with_capacity(0);
        for _ in 0..POSITION_ANCHORS_MAX {
            recorder.replace("", "x");
            recorder.copy("\n");
        }
        let (_, positions) = recorder.finish();
        assert_eq!(positions.anchors.as_ref().map(|anchors| anchors.len()), Some(POSITION_ANCHORS_MAX));
        assert_eq!(positions.original(1, 2), Some((1, 1)));
        assert_eq!(positions.original(60_000, 2), Some((60_000, 2)));
        assert_eq!(positions.original(1 << 17, 1), None);
    }
}
