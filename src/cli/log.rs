//! The log, on stderr: for people or for programs. It never waits for its reader.

use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::time::Duration;

use scomp::config::{LogFormat, LogSettings};
use scomp::observe::log::LogQueue;
use tracing_subscriber::EnvFilter;

use super::Failure;

/// Variables with directives such as `info,scomp=debug`; the first that is set wins over the settings.
const FILTER_VARIABLES: [&str; 2] = ["SCOMP_LOG", "RUST_LOG"];

/// How long the end of the program waits for a reader that stalls. Others take milliseconds.
const FLUSH_WAIT_MAX: Duration = Duration::from_secs(1);

/// The queue of this program's log, once there is one.
static QUEUE: OnceLock<LogQueue> = OnceLock::new();

/// Starts the log.
pub(super) fn start(settings: &LogSettings) -> Result<(), Failure> {
    let from_variable = FILTER_VARIABLES.iter().find_map(|variable| {
        let directives = std::env::var(variable).ok().filter(|text| !text.is_empty())?;
        Some((*variable, directives))
    });
    let (origin, directives) = from_variable.unwrap_or_else(|| ("log.level", settings.level.clone()));
    // The MCP library logs whole messages with the values in them. An operator that names it in the directives
    // asks for that.
    let is_named = directives.contains("rmcp");
    let bounded = if is_named { directives.clone() } else { format!("{directives},rmcp=off") };
    let filter = EnvFilter::try_new(bounded)
        .map_err(|error| Failure::Usage(format!("{origin}: {directives:?}: {error}")))?;
    let queue = queue(settings.format)?;
    let log = tracing_subscriber::fmt()
        .with_writer(move || queue.clone())
        .with_ansi(io::stderr().is_terminal())
        .with_env_filter(filter);
    match settings.format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    // The default hook writes to stderr itself, and would hold up the shard that a handler panics on.
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Starts the log of a command whose output is for people: by default it has only warnings and errors.
pub(super) fn start_quietly(settings: &LogSettings) -> Result<(), Failure> {
    let is_default = *settings == LogSettings::default();
    let level = if is_default { "warn" } else { &settings.level };
    start(&LogSettings { format: settings.format, level: level.to_owned() })
}

/// Writes a message to stderr, after the lines of the log.
pub(super) fn report(message: &str) {
    match queue(LogFormat::Text) {
        Ok(queue) => queue.push(format!("{message}\n").as_bytes()),
        Err(_) => eprintln!("{message}"),
    }
}

/// Waits until the log is written, but not for a reader that stalls.
pub(crate) fn finish() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH_WAIT_MAX);
    }
}

fn queue(format: LogFormat) -> Result<LogQueue, Failure> {
    if let Some(queue) = QUEUE.get() {
        return Ok(queue.clone());
    }
    let announce = move |dropped: u64| match format {
        LogFormat::Text => format!("WARN {dropped} log lines were dropped: stderr was not read in time\n"),
        LogFormat::Json => format!(
            "{{\"level\":\"WARN\",\"fields\":{{\"message\":\"log lines were dropped: stderr was not read in time\",\
             \"dropped\":{dropped}}},\"target\":\"scomp_serve::log\"}}\n"
        ),
    };
    let queue = LogQueue::start(stderr(), announce)
        .map_err(|error| Failure::Run(format!("cannot start the log: {error}")))?;
    Ok(QUEUE.get_or_init(|| queue).clone())
}

/// Stderr by a descriptor of its own, so that a write that does not return holds no lock of the standard library.
fn stderr() -> Box<dyn Write + Send> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd as _;
        if let Ok(descriptor) = io::stderr().as_fd().try_clone_to_owned() {
            return Box::new(std::fs::File::from(descriptor));
        }
    }
    Box::new(io::stderr())
}

fn log_panic(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
    let backtrace = std::backtrace::Backtrace::capture();
    if tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!(thread, %backtrace, "{info}");
    } else {
        report(&format!("thread {thread:?} {info}\n{backtrace}"));
    }
}
