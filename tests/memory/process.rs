//! The program itself, for tests that take it away.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server in a process of its own, which can be killed.
pub struct Process {
    child: Child,
    pub url: String,
}

impl Process {
    pub fn start(folder: &Path) -> Self {
        Self::start_at(folder, "127.0.0.1:0")
    }

    /// The same at an address that is known beforehand.
    pub fn start_at(folder: &Path, listen: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_scomp-serve"))
            .args(["--listen", listen, "--bindings"])
            .arg(folder)
            .env("SCOMP_LOG", "error")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().rsplit_once(' ').unwrap().1.replace("http", "ws");
        Self { child, url: format!("{url}/") }
    }

    /// As `kill -9` does: nothing is flushed or closed.
    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
