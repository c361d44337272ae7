//! Colours, where there is a terminal that wants them.

use std::io::{self, IsTerminal};

/// Whether colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) struct Style {
    coloured: bool,
}

/// What a text is, which decides its colour.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) enum Paint {
    /// A string.
    Text,
    /// A number, a bigint, a boolean.
    Number,
    /// A date, a function.
    Special,
    /// `null`.
    Strong,
    /// What matters less.
    Faint,
    /// What went wrong.
    Error,
}

impl Style {
    /// Without colours.
    #[cfg(test)]
    pub(in crate::cli) const fn plain() -> Self {
        Self { coloured: false }
    }

    /// As stdout wants it.
    pub(in crate::cli) fn for_stdout() -> Self {
        Self::for_terminal(io::stdout().is_terminal())
    }

    /// As stderr wants it.
    pub(in crate::cli) fn for_stderr() -> Self {
        Self::for_terminal(io::stderr().is_terminal())
    }

    fn for_terminal(is_terminal: bool) -> Self {
        let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { coloured: is_terminal && !is_refused }
    }

    /// The text in its colour.
    pub(in crate::cli) fn paint(self, paint: Paint, text: &str) -> String {
        if !self.coloured || text.is_empty() {
            return text.to_owned();
        }
        let code = match paint {
            Paint::Text => "32",
            Paint::Number => "33",
            Paint::Special => "36",
            Paint::Strong => "1",
            Paint::Faint => "2",
            Paint::Error => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_used_only_when_enabled() {
        assert_eq!(Style::plain().paint(Paint::Text, "a"), "a");
        assert_eq!(Style { coloured: true }.paint(Paint::Text, "a"), "\x1b[32ma\x1b[0m");
    }
}
