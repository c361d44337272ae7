//! The line editor: history, several lines where the code goes on, plain reading where there is no terminal.

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Helper};

use super::complete::is_complete;
use super::is_command;
use crate::cli::Failure;

const PROMPT: &str = "> ";

/// Inputs that are remembered: months of use, and still read in an instant.
const HISTORY_ENTRIES_MAX: usize = 1_000;

/// A result of reading the terminal or a pipe.
pub(super) enum InputEvent {
    Input(String),
    Interrupted,
    End,
}

/// Reads inputs.
pub(super) enum Editor {
    /// With editing and history.
    Terminal { lines: Box<rustyline::Editor<WholeInput, FileHistory>>, history: Option<PathBuf> },
    /// Reads a pipe or a file. An input that is cut off is still evaluated, so that its error is reported.
    Plain,
}

impl Editor {
    /// An editor with the history of earlier runs.
    pub(super) fn new() -> Result<Self, Failure> {
        if !io::stdin().is_terminal() {
            return Ok(Self::Plain);
        }
        let config = Config::builder()
            .max_history_size(HISTORY_ENTRIES_MAX)
            .and_then(|config| config.history_ignore_dups(true))
            .map(|config| config.auto_add_history(true).build());
        let mut lines =
            config.and_then(rustyline::Editor::with_config).map_err(|error| cannot_read(&error))?;
        lines.set_helper(Some(WholeInput));
        let history = history_file();
        if let Some(file) = &history {
            // At the first start there is no history file.
            let _ = lines.load_history(file);
        }
        Ok(Self::Terminal { lines: Box::new(lines), history })
    }

    /// Reads the next input. The editor moves to another thread and back, because reading blocks.
    pub(super) async fn read(mut self) -> Result<(Self, InputEvent), Failure> {
        let reading = tokio::task::spawn_blocking(move || {
            let read = self.read_here();
            (self, read)
        });
        let (editor, read) = reading.await.map_err(|error| Failure::Run(error.to_string()))?;
        Ok((editor, read?))
    }

    fn read_here(&mut self) -> Result<InputEvent, Failure> {
        match self {
            Self::Plain => {
                let input = read_plain(&mut io::stdin().lock()).map_err(|error| cannot_read(&error))?;
                Ok(input.map_or(InputEvent::End, InputEvent::Input))
            }
            Self::Terminal { lines, history } => {
                let read = match lines.readline(PROMPT) {
                    Ok(input) => InputEvent::Input(input),
                    Err(ReadlineError::Interrupted) => InputEvent::Interrupted,
                    Err(ReadlineError::Eof) => InputEvent::End,
                    Err(error) => return Err(cannot_read(&error)),
                };
                if let Some(file) = history {
                    save_history(lines, file);
                }
                Ok(read)
            }
        }
    }
}

/// Saves the history after every input, so that it survives a crash. A failure to save it is ignored.
fn save_history(lines: &mut rustyline::Editor<WholeInput, FileHistory>, file: &Path) {
    if let Some(folder) = file.parent() {
        let _ = std::fs::create_dir_all(folder);
    }
    let _ = lines.save_history(file);
}

/// Reads the lines of one input; `None` at the end.
fn read_plain(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut input = String::new();
    loop {
        let is_end = reader.read_line(&mut input)? == 0;
        if is_end && input.is_empty() {
            return Ok(None);
        }
        if is_end || is_whole(&input) {
            return Ok(Some(input));
        }
    }
}

fn is_whole(input: &str) -> bool {
    is_command(input) || is_complete(input)
}

fn cannot_read(error: &dyn std::error::Error) -> Failure {
    Failure::Run(format!("cannot read input: {error}"))
}

fn history_file() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    data_folder(variable).map(|folder| folder.join("scomp-serve").join("history"))
}

/// Where programs keep a user's data.
fn data_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |path: PathBuf| Some(path).filter(|path| path.is_absolute());
    variable("XDG_DATA_HOME")
        .and_then(absolute)
        .or_else(|| variable("APPDATA"))
        .or_else(|| variable("HOME").map(|home| home.join(Path::new(".local/share"))))
}

/// Enter ends the input only where the code is complete.
pub(super) struct WholeInput;

impl Validator for WholeInput {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_whole(context.input()) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

impl Completer for WholeInput {
    type Candidate = String;
}

impl Hinter for WholeInput {
    type Hint = String;
}

impl Highlighter for WholeInput {}

impl Helper for WholeInput {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_reader_joins_lines_of_one_input() {
        let mut reader = io::Cursor::new("f(\n1)\n.load {\n2\n[");
        let mut inputs = Vec::new();
        while let Some(input) = read_plain(&mut reader).unwrap() {
            inputs.push(input);
        }
        assert_eq!(inputs, ["f(\n1)\n", ".load {\n", "2\n", "["]);
    }

    #[test]
    fn history_is_in_the_users_data_folder() {
        let with = |pairs: &'static [(&str, &str)]| {
            data_folder(|name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value))
            })
        };
        assert_eq!(with(&[("XDG_DATA_HOME", "/d"), ("HOME", "/h")]), Some("/d".into()));
        assert_eq!(with(&[("XDG_DATA_HOME", "relative"), ("HOME", "/h")]), Some("/h/.local/share".into()));
        assert_eq!(with(&[]), None);
    }
}
