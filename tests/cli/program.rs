//! Runs the program; whatever it does not do within a while is a failure, never a hang.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long anything may take: far more than a loaded machine needs.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A run to be.
pub(crate) struct Program {
    command: Command,
    input: String,
}

/// A run that is over.
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A run that goes on.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines_rx: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
}

impl Program {
    /// With these arguments, and no settings from the environment.
    pub(crate) fn new<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scomp-serve"));
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ours = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SCOMP_"));
        for (name, _) in ours {
            command.env_remove(name);
        }
        command.env_remove("RUST_LOG");
        Self { command, input: String::new() }
    }

    pub(crate) fn variable(mut self, (name, value): (&str, &str)) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn input(mut self, text: &str) -> Self {
        text.clone_into(&mut self.input);
        self
    }

    /// Starts it, and leaves its stderr to the caller, who may never read it.
    pub(crate) fn start_with_unread_stderr(self) -> (Running, ChildStderr) {
        let mut stderr = None;
        let running = self.start_with(|child| {
            stderr = child.stderr.take();
            None
        });
        (running, stderr.unwrap())
    }

    pub(crate) fn start(self) -> Running {
        self.start_with(|child| {
            let mut stderr = child.stderr.take().unwrap();
            Some(std::thread::spawn(move || {
                let mut text = String::new();
                stderr.read_to_string(&mut text).unwrap();
                text
            }))
        })
    }

    fn start_with(mut self, read: impl FnOnce(&mut Child) -> Option<JoinHandle<String>>) -> Running {
        let mut child = self.command.spawn().unwrap();
        let stderr = read(&mut child);
        let mut stdin = child.stdin.take().unwrap();
        // A program that refuses to start reads nothing.
        let _ = stdin.write_all(self.input.as_bytes());
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (lines_tx, lines_rx) = channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| lines_tx.send(line))
        });
        Running { child, stdin: Some(stdin), lines_rx, stderr }
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Done {
        self.start().end()
    }
}

impl Running {
    /// The next line on its stdout.
    pub(crate) fn line(&mut self) -> String {
        self.lines_rx.recv_timeout(WAIT_MAX).expect("the program prints a line")
    }

    /// A line to its stdin.
    pub(crate) fn send(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Ends its input and waits for its end.
    pub(crate) fn end(mut self) -> Done {
        self.stdin = None;
        self.end_with_open_input()
    }

    /// Waits for its end.
    pub(crate) fn end_with_open_input(mut self) -> Done {
        let mut stdout = String::new();
        // The lines end when the program does.
        while let Some(line) = self.next_line_or_end() {
            stdout.push_str(&line);
            stdout.push('\n');
        }
        let stderr = self.stderr.take().map(|stderr| stderr.join().unwrap()).unwrap_or_default();
        let status = self.child.wait().unwrap();
        Done { code: status.code().unwrap_or(-1), stdout, stderr }
    }

    fn next_line_or_end(&self) -> Option<String> {
        match self.lines_rx.recv_timeout(WAIT_MAX) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("the program does not end"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only a failed test leaves it running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file with this content, apart from those of other runs.
pub(crate) fn temporary_file(name: &str, content: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("cli-{}-{name}", std::process::id()));
    std::fs::write(&path, content).unwrap();
    path
}

/// A folder without bindings.
pub(crate) fn empty_folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-empty-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
