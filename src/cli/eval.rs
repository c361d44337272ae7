//! `scomp-serve eval`: evaluates one script and prints its value.

use std::io::{self, IsTerminal, Read};

use scomp::client::{Client, ClientError, ConsoleLine, EvalOutput, EvalParams};
use scomp::config::Overrides;
use scomp::transport::{TransportError, close_code};

use super::args::EvalArgs;
use super::connect::{self, ConsoleClient, PrintLine};
use super::inspect::{Style, inspect, is_undefined};
use super::report;
use super::signals::Signals;
use super::{Failure, log, output};

/// Evaluates, and prints the value to stdout or the error to stderr.
pub(super) async fn run(args: &EvalArgs) -> Result<(), Failure> {
    let settings = args.settings.load(Overrides::default())?;
    log::start_quietly(&settings.log)?;
    let (name, code) = source(args)?;
    let print: PrintLine = if args.json { print_aside } else { print_console };
    let connection = match &args.remote.url {
        Some(url) => ConsoleClient::remote(url, &args.remote, print)
            .await
            .map_err(|error| connect::to_failure(&error))?,
        None => ConsoleClient::in_process(&settings, print).await?,
    };
    let params = EvalParams { code, timeout_ms: args.timeout_ms, name: Some(name), ..EvalParams::default() };
    let printed = match run_code(&connection.client, params).await {
        Ok(output) => {
            connection.console.finish(&output.console, output.console_dropped);
            print_value(&output, args.json)
        }
        Err(error) => {
            connection.console.finish(&error.console(), report::console_dropped(&error));
            eprintln!("{}", report::describe(&error, Style::for_stderr()));
            Err(Failure::Reported)
        }
    };
    connection.client.close().await;
    printed
}

/// Runs code. Ctrl-C cancels it, and its outcome then says so; a second Ctrl-C no longer waits for that.
pub(super) async fn run_code(client: &Client, params: EvalParams) -> Result<EvalOutput, ClientError> {
    let mut interrupts = Signals::to_interrupt().map_err(TransportError::from)?;
    let mut pending = client.start_eval(params).await?;
    let mut is_cancelled = false;
    loop {
        tokio::select! {
            outcome = &mut pending => return outcome,
            _name = interrupts.next() => {
                if is_cancelled {
                    let reason = "abandoned after a second Ctrl-C".to_owned();
                    return Err(ClientError::Closed { code: close_code::ABNORMAL, reason });
                }
                is_cancelled = true;
                let (client, id) = (client.clone(), pending.id());
                // On a task of its own, so that a server that does not answer can still be abandoned. A failure shows in the outcome.
                tokio::spawn(async move { client.cancel(Some(id)).await });
            }
        }
    }
}

/// The name of the code in stack traces, and the code.
fn source(args: &EvalArgs) -> Result<(String, String), Failure> {
    if let Some(code) = &args.code {
        return Ok(("[eval]".to_owned(), code.clone()));
    }
    match &args.file {
        Some(file) if file.as_os_str() != "-" => {
            let shown = file.display().to_string();
            let code =
                std::fs::read_to_string(file).map_err(|error| Failure::Usage(format!("{shown}: {error}")))?;
            Ok((shown, code))
        }
        None if io::stdin().is_terminal() => {
            Err(Failure::Usage("eval: expected -e CODE, a FILE, or code on stdin".to_owned()))
        }
        Some(_) | None => {
            let mut code = String::new();
            let read = io::stdin().read_to_string(&mut code);
            read.map_err(|error| Failure::Usage(format!("stdin: {error}")))?;
            Ok(("[stdin]".to_owned(), code))
        }
    }
}

/// Prints a string as it is, so that it can be piped, and nothing for `undefined`.
fn print_value(output: &EvalOutput, json: bool) -> Result<(), Failure> {
    let value = &output.value;
    if json {
        return output::print_line(&value.to_string());
    }
    match value.as_str() {
        Some(text) => output::print_line(text),
        None if is_undefined(value) => Ok(()),
        None => output::print_line(&inspect(value, Style::for_stdout())),
    }
}

/// Prints a console line: warnings and errors to stderr, others to stdout.
pub(super) fn print_console(line: &ConsoleLine) {
    match line.level.as_str() {
        "warn" | "error" => print_aside(line),
        // A closed stdout is not an error of the script.
        _ => drop(output::print_line(&line.text)),
    }
}

/// Keeps stdout for the value.
fn print_aside(line: &ConsoleLine) {
    eprintln!("{}", line.text);
}
