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

use self::editor::{Editor, Read};
use super::args::ReplArgs;
use super::eval::{print_console, run_code};
use super::inspect::{Paint, Style, inspect};
use super::link::{self, Link};
use super::report::{self, Source};
use super::{Failure, log, output};

/// Where a server is looked for when none is named.
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
    let link = connect(args).await?;
    let mut repl = Repl { link, evals: 0 };
    let mut editor = Editor::new()?;
    loop {
        let read;
        (editor, read) = editor.read().await?;
        match read {
            Read::End => break,
            Read::Interrupted => eprintln!("(Ctrl-D or .exit leaves)"),
            Read::Input(input) => match repl.act(&input).await? {
                Next::Go => {}
                Next::Leave => break,
            },
        }
    }
    repl.link.client.close().await;
    Ok(())
}

async fn connect(args: &ReplArgs) -> Result<Link, Failure> {
    let settings = args.settings.load(Overrides::default())?;
    log::start_quietly(&settings.log)?;
    let hint = "type .help for help";
    if let Some(url) = &args.remote.url {
        let link =
            Link::remote(url, &args.remote, print_console).await.map_err(|error| link::failed(&error))?;
        eprintln!("connected to {url}; {hint}");
        return Ok(link);
    }
    // Whoever names a folder wants its bindings, which a server that happens to run need not have.
    if args.settings.bindings.is_none() {
        match Link::remote(URL_DEFAULT, &args.remote, print_console).await {
            Ok(link) => {
                eprintln!("connected to {URL_DEFAULT}; {hint}");
                return Ok(link);
            }
            Err(error) if link::is_absent(&error) => eprint!("nobody listens at {URL_DEFAULT}; "),
            Err(error) => return Err(Failure::Run(format!("{URL_DEFAULT}: {error}"))),
        }
    }
    let link = Link::in_process(&settings, print_console).await?;
    eprintln!("started a server inside this program; {hint}");
    Ok(link)
}

enum Next {
    Go,
    Leave,
}

struct Repl {
    link: Link,
    evals: u64,
}

impl Repl {
    /// Does what one input asks for. Only what ends the whole program is a failure.
    async fn act(&mut self, input: &str) -> Result<Next, Failure> {
        match Command::of(input) {
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
            Command::Exit => return Ok(Next::Leave),
            Command::Unknown(word) => eprintln!("there is no command {word}; .help lists them"),
        }
        Ok(Next::Go)
    }

    async fn eval(&self, source: Source<'_>) -> Result<(), Failure> {
        let params = EvalParams {
            code: source.code.to_owned(),
            name: Some(source.name.to_owned()),
            ..EvalParams::default()
        };
        match run_code(&self.link.client, params).await {
            Ok(done) => {
                self.link.console.finish(&done.console, done.console_dropped);
                let printed = output::print_line(&inspect(&done.value, Style::for_stdout()));
                give_back_functions(&self.link.client, &done.value);
                printed
            }
            Err(error) => {
                self.link.console.finish(&error.console(), report::console_dropped(&error));
                eprintln!("{}", report::describe(&error, source, Style::for_stderr()));
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

    /// Invokes one of the server's own bindings; a text is printed, any other answer only means that it is done.
    async fn control(&self, binding: &str) -> Result<(), Failure> {
        match self.link.client.invoke(binding, json!({})).await {
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

    /// One line a binding: its name and the first line of its description.
    fn bindings(&self) -> String {
        let style = Style::for_stdout();
        let bindings = self.link.client.bindings();
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

/// A shown function is never called, so the session need not keep it.
fn give_back_functions(client: &Client, value: &Value) {
    if client.function(value).is_some() {
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| give_back_functions(client, item)),
        Value::Object(fields) => fields.values().for_each(|field| give_back_functions(client, field)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What an input means.
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
    fn of(input: &'a str) -> Self {
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

/// Whether an input is for the program: no JavaScript begins with a point and a letter.
fn is_command(input: &str) -> bool {
    let mut chars = input.trim_start().chars();
    chars.next() == Some('.') && chars.next().is_some_and(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_begin_with_a_point_and_a_letter() {
        for (input, expected) in [
            ("  ", Command::Nothing),
            (".help", Command::Help),
            (" .load a b.js ", Command::Load("a b.js")),
            (".load", Command::Unknown(".load")),
            (".nope x", Command::Unknown(".nope")),
            (".5 + 1", Command::Code(".5 + 1")),
            ("x.help", Command::Code("x.help")),
        ] {
            assert_eq!(Command::of(input), expected, "{input}");
        }
    }
}
