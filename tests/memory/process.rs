//! The server as a child process, for tests that kill it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub struct Process {
    child: Child,
    pub url: String,
}

impl Process {
    pub fn start(folder: &Path) -> Self {
        Self::start_at(folder, "127.0.0.1:0")
    }

    /// Starts the server at a given address.
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

    /// Kills the process like `kill -9`: nothing is flushed or closed.
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
