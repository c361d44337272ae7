//! Where places in stack traces were in the code as sent, for the evals whose code was rewritten.
//!
//! Functions outlive their eval, and so do their places; the maps of the latest evals are kept.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::session::Positions;

/// Evals whose maps are kept. Frames of older ones show the columns of the rewritten code, on the right lines.
pub(crate) const SOURCE_MAPS_MAX: usize = 32;

/// Anchors of all maps together, for the same reason: 1 MiB.
pub(crate) const ANCHORS_KEPT_MAX: usize = 1 << 16;

/// How QuickJS shows a frame of the prelude, whose bytecode has no file names.
const PRELUDE_FRAME: &str = "(<null>:";

/// See the module.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct SourceMaps {
    /// Newest last, one for each name.
    maps: VecDeque<(String, Positions)>,
}

impl SourceMaps {
    /// Keeps the map of an eval of that name, in the place of an earlier one.
    pub(crate) fn keep(&mut self, name: &str, positions: &Positions) {
        if self.maps.is_empty() && positions.is_identity() {
            return;
        }
        self.maps.retain(|(known, _)| known != name);
        if !positions.is_identity() {
            self.maps.push_back((name.to_owned(), positions.clone()));
        }
        let anchors = |maps: &VecDeque<(String, Positions)>| -> usize {
            maps.iter().map(|(_, positions)| positions.anchors()).sum()
        };
        while self.maps.len() > SOURCE_MAPS_MAX
            || (self.maps.len() > 1 && anchors(&self.maps) > ANCHORS_KEPT_MAX)
        {
            self.maps.pop_front();
        }
    }

    /// A stack trace with the places of the code as sent, and without the frames of the prelude.
    pub(crate) fn map(&self, stack: &str) -> String {
        let lines = stack.lines().filter(|line| !line.contains(PRELUDE_FRAME));
        lines.filter_map(|line| self.map_line(line)).collect::<Vec<_>>().join("\n")
    }

    /// The frame with its place in the code as sent; `None` for one of generated code.
    fn map_line(&self, line: &str) -> Option<String> {
        for (name, positions) in self.maps.iter().rev() {
            if let Some((head, (row, column), rest)) = place_in(line, name) {
                let (row, column) = positions.original(row, column)?;
                return Some(format!("{head}{row}:{column}{rest}"));
            }
        }
        Some(line.to_owned())
    }
}

/// Splits a frame of that file at its position.
fn place_in<'l>(line: &'l str, name: &str) -> Option<(&'l str, (u32, u32), &'l str)> {
    let found = line.rfind(&format!("{name}:"))?;
    let before = line.get(..found)?;
    if !(before.ends_with('(') || before.ends_with(' ')) {
        return None;
    }
    let (head, tail) = line.split_at(found + name.len() + 1);
    let end = tail.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(tail.len());
    let (row, column) = tail.get(..end)?.split_once(':')?;
    Some((head, (row.parse().ok()?, column.parse().ok()?), tail.get(end..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::positions::Recorder;

    fn shifted(by: usize) -> Positions {
        let mut recorder = Recorder::with_capacity(16);
        recorder.replace("", &"x".repeat(by));
        recorder.copy("abcdefgh");
        recorder.finish().1
    }

    #[test]
    fn frames_are_mapped_by_the_map_of_their_file() {
        let mut maps = SourceMaps::default();
        maps.keep("a.js", &shifted(4));
        maps.keep("b.js", &shifted(2));
        let stack =
            "    at f (a.js:1:6)\n    at call (<null>:3:4)\n    at b.js:1:6\n    at other (aa.js:1:6)\n";
        assert_eq!(maps.map(stack), "    at f (a.js:1:2)\n    at b.js:1:4\n    at other (aa.js:1:6)");
        maps.keep("a.js", &Positions::default());
        assert_eq!(maps.map("    at f (a.js:1:6)"), "    at f (a.js:1:6)");
    }

    #[test]
    fn oldest_map_is_dropped_past_the_limit() {
        let mut maps = SourceMaps::default();
        for number in 0..=SOURCE_MAPS_MAX {
            maps.keep(&format!("{number}.js"), &shifted(1));
        }
        assert_eq!(maps.maps.len(), SOURCE_MAPS_MAX);
        assert_eq!(maps.map("    at 0.js:1:5\n    at 1.js:1:5"), "    at 0.js:1:5\n    at 1.js:1:4");
    }
}
