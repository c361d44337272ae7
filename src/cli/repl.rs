//! `scomp-serve repl`: evaluates what is typed, in one session.
//!
//! Reading a line blocks, so it happens on a thread of its own; meanwhile the connection lives on. Ctrl-C while code
//! runs ends that code; while a line is typed it drops the line. Ctrl-D leaves.

mod complete;
mod editor;

use std::path::Path;

use scomp::client::{Client, EvalParams};
use scomp::config::Overrides;
use serde_json::{Value, json};

use self::editor::{Editor, InputEvent};
use super::args::ReplArgs;
use super::connect::{self, ConsoleClient};
use super::eval::{print_console, run_code};
use super::inspect::{Paint, Style, inspect};
use super::report::{self, Source};
use super::{Failure, log, output};

/// The server that is tried without `--url`.
const URL_DEFAULT: &str = "ws://127.0.0.1:7400";

const HELP: &str = "\
Type JavaScript or TypeScript; declarations stay. Input goes on while a bracket or a template is open.
  .bindings    what scripts can call
  .types       the same, as TypeScript declarations
  .load FILE   evaluate a file
  .reset       forget everything that was declared
  .help        this text
  .exit        leave, as Ctrl-D does
Ctrl-C ends the code that runs.";

/// Reads, evaluates and prints until the input ends.
pub(super) async fn run(args: &ReplArgs) -> Result<(), Failure> {
    let connection = connect(args).await?;
    let mut repl = Repl { connection, evals: 0 };
    let mut editor = Editor::new()?;
    loop {
        let read;
        (editor, read) = editor.read().await?;
        match read {
            InputEvent::End => break,
            InputEvent::Interrupted => eprintln!("(Ctrl-D or .exit leaves)"),
            InputEvent::Input(input) => match repl.run_input(&input).await? {
                NextStep::Continue => {}
                NextStep::Exit => break,
            },
        }
    }
    repl.connection.client.close().await;
    Ok(())
}

async fn connect(args: &ReplArgs) -> Result<ConsoleClient, Failure> {
    let settings = args.settings.load(Overrides::default())?;
    log::start_quietly(&settings.log)?;
    let hint = "type .help for help";
    if let Some(url) = &args.remote.url {
        let connection = ConsoleClient::remote(url, &args.remote, print_console)
            .await
            .map_err(|error| connect::to_failure(&error))?;
        eprintln!("connected to {url}; {hint}");
        return Ok(connection);
    }
    // `--bindings` asks for the bindings of a folder, which a running server need not have.
    if args.settings.bindings.is_none() {
        match ConsoleClient::remote(URL_DEFAULT, &args.remote, print_console).await {
            Ok(connection) => {
                eprintln!("connected to {URL_DEFAULT}; {hint}");
                return Ok(connection);
            }
            Err(error) if connect::is_absent(&error) => eprint!("no server at {URL_DEFAULT}; "),
            Err(error) => return Err(Failure::Run(format!("{URL_DEFAULT}: {error}"))),
        }
    }
    let connection = ConsoleClient::in_process(&settings, print_console).await?;
    eprintln!("started a server inside this program; {hint}");
    Ok(connection)
}

enum NextStep {
    Continue,
    Exit,
}

struct Repl {
    connection: ConsoleClient,
    evals: u64,
}

impl Repl {
    /// Runs one input. Only an error that ends the program is a failure.
    async fn run_input(&mut self, input: &str) -> Result<NextStep, Failure> {
        match Command::parse(input) {
            Command::Nothing => {}
            Command::Code(code) => {
                self.evals += 1;
                let name = format!("repl-{}.js", self.evals);
                self.eval(Source { name: &name, code }).await?;
            }
            Command::Help => eprintln!("{HELP}"),
            Command::Bindings => output::print(&self.bindings())?,
            Command::Types => self.control("bindings.types").await?,
            Command::Reset => self.control("session.reset").await?,
            Command::Load(file) => self.load(Path::new(file)).await?,
            Command::Exit => return Ok(NextStep::Exit),
            Command::Unknown(word) => eprintln!("unknown command {word}; .help lists the commands"),
        }
        Ok(NextStep::Continue)
    }

    async fn eval(&self, source: Source<'_>) -> Result<(), Failure> {
        let params = EvalParams {
            code: source.code.to_owned(),
            name: Some(source.name.to_owned()),
            ..EvalParams::default()
        };
        match run_code(&self.connection.client, params).await {
            Ok(done) => {
                self.connection.console.finish(&done.console, done.console_dropped);
                let printed = output::print_line(&inspect(&done.value, Style::for_stdout()));
                release_functions(&self.connection.client, &done.value);
                printed
            }
            Err(error) => {
                self.connection.console.finish(&error.console(), report::console_dropped(&error));
                eprintln!("{}", report::describe(&error, Style::for_stderr()));
                // Without a connection there is nothing left to evaluate in.
                if error.rpc().is_some() { Ok(()) } else { Err(Failure::Reported) }
            }
        }
    }

    async fn load(&self, file: &Path) -> Result<(), Failure> {
        let name = file.display().to_string();
        match std::fs::read_to_string(file) {
            Ok(code) => self.eval(Source { name: &name, code: &code }).await,
            Err(error) => {
                eprintln!("{name}: {error}");
                Ok(())
            }
        }
    }

    /// Invokes a control binding. A string result is printed, any other means success.
    async fn control(&self, binding: &str) -> Result<(), Failure> {
        match self.connection.client.invoke(binding, json!({})).await {
            Ok(Value::String(text)) => output::print_line(&text),
            Ok(_) => {
                eprintln!("done");
                Ok(())
            }
            Err(error) => {
                eprintln!("{error}");
                Ok(())
            }
        }
    }

    /// One line per binding: its name and the first line of its description.
    fn bindings(&self) -> String {
        let style = Style::for_stdout();
        let bindings = self.connection.client.bindings();
        let lines = bindings.iter().map(|binding| {
            let field = |name: &str| binding.get(name).and_then(Value::as_str).unwrap_or_default();
            let first_line = field("description").lines().next().unwrap_or_default();
            format!(
                "{}  {}\n",
                style.paint(Paint::Special, field("name")),
                style.paint(Paint::Faint, first_line)
            )
        });
        lines.collect()
    }
}

/// Releases the functions in a value that was printed: they are never called.
fn release_functions(client: &Client, value: &Value) {
    if client.function(value).is_some() {
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| release_functions(client, item)),
        Value::Object(fields) => fields.values().for_each(|field| release_functions(client, field)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A parsed input.
#[derive(Debug, PartialEq, Eq)]
enum Command<'a> {
    Nothing,
    Code(&'a str),
    Help,
    Bindings,
    Types,
    Reset,
    Load(&'a str),
    Exit,
    Unknown(&'a str),
}

impl<'a> Command<'a> {
    fn parse(input: &'a str) -> Self {
        let trimmed = input.trim();
        if trimmed.is_empty() {
            return Self::Nothing;
        }
        if !is_command(trimmed) {
            return Self::Code(input);
        }
        let (word, rest) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
        match (word, rest.trim()) {
            (".help", "") => Self::Help,
            (".bindings", "") => Self::Bindings,
            (".types", "") => Self::Types,
            (".reset", "") => Self::Reset,
            (".exit", "") => Self::Exit,
            (".load", file) if !file.is_empty() => Self::Load(file),
            _ => Self::Unknown(word),
        }
    }
}

/// Whether an input is a command: no JavaScript begins with a dot and a letter.
fn is_command(input: &str) -> bool {
    let mut chars = input.trim_start().chars();
    chars.next() == Some('.') && chars.next().is_some_and(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_begin_with_a_dot_and_a_letter() {
        for (input, expected) in [
            ("  ", Command::Nothing),
            (".help", Command::Help),
            (" .load a b.js ", Command::Load("a b.js")),
            (".load", Command::Unknown(".load")),
            (".nope x", Command::Unknown(".nope")),
            (".5 + 1", Command::Code(".5 + 1")),
            ("x.help", Command::Code("x.help")),
        ] {
            assert_eq!(Command::parse(input), expected, "{input}");
        }
    }
}
