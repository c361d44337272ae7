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

/// What came from the keyboard, or from a pipe.
pub(super) enum Read {
    Input(String),
    Interrupted,
    End,
}

/// Reads inputs.
pub(super) enum Editor {
    /// With editing and history.
    Terminal { lines: Box<rustyline::Editor<WholeInput, FileHistory>>, history: Option<PathBuf> },
    /// From a pipe or a file, where an input that is cut off is still an input: what is wrong with it gets told.
    Plain,
}

impl Editor {
    /// An editor with the history of earlier times.
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
            // The first time there is none.
            let _ = lines.load_history(file);
        }
        Ok(Self::Terminal { lines: Box::new(lines), history })
    }

    /// The next input. The editor travels to another thread and back, because reading blocks.
    pub(super) async fn read(mut self) -> Result<(Self, Read), Failure> {
        let reading = tokio::task::spawn_blocking(move || {
            let read = self.read_here();
            (self, read)
        });
        let (editor, read) = reading.await.map_err(|error| Failure::Run(error.to_string()))?;
        Ok((editor, read?))
    }

    fn read_here(&mut self) -> Result<Read, Failure> {
        match self {
            Self::Plain => {
                let input = read_plain(&mut io::stdin().lock()).map_err(|error| cannot_read(&error))?;
                Ok(input.map_or(Read::End, Read::Input))
            }
            Self::Terminal { lines, history } => {
                let read = match lines.readline(PROMPT) {
                    Ok(input) => Read::Input(input),
                    Err(ReadlineError::Interrupted) => Read::Interrupted,
                    Err(ReadlineError::Eof) => Read::End,
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

/// Saved after every input, so that it survives whatever ends the program. A history that cannot be saved is no reason
/// to stop.
fn save_history(lines: &mut rustyline::Editor<WholeInput, FileHistory>, file: &Path) {
    if let Some(folder) = file.parent() {
        let _ = std::fs::create_dir_all(folder);
    }
    let _ = lines.save_history(file);
}

/// As many lines as belong together; `None` at the end.
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
    fn lines_that_belong_together_are_one_input_and_a_cut_off_one_is_not_lost() {
        let mut reader = io::Cursor::new("f(\n1)\n.load {\n2\n[");
        let mut inputs = Vec::new();
        while let Some(input) = read_plain(&mut reader).unwrap() {
            inputs.push(input);
        }
        assert_eq!(inputs, ["f(\n1)\n", ".load {\n", "2\n", "["]);
    }

    #[test]
    fn the_history_is_in_the_users_data_folder() {
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
