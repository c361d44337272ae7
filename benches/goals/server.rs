//! Servers as processes of their own: the real program, and this one in the role of a floor.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

/// The flag that starts this program in another role.
pub(crate) const ROLE_FLAG: &str = "--role=";

/// What a server says first; the address follows.
const GREETING: &str = "listening on http://";

/// A server that runs until dropped.
pub(crate) struct Served {
    child: Child,
    address: String,
}

impl Served {
    /// The real program on a free port, with its default settings, silent unless something is wrong.
    pub(crate) fn scomp() -> Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scomp-serve"));
        command.args(["--listen", "127.0.0.1:0"]);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SCOMP_"))
        {
            command.env_remove(name);
        }
        command.env("SCOMP_LOG", "warn");
        Self::start(command)
    }

    /// This program in the role of a server.
    pub(crate) fn role(role: &str) -> Result<Self> {
        Self::start(as_role(role)?)
    }

    /// Any program that says where it listens.
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut served = Self { child, address: String::new() };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().strip_prefix(GREETING).with_context(|| format!("it said {line:?}"))?;
        address.clone_into(&mut served.address);
        Ok(served)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The line that a server prints first.
pub(crate) fn greet(address: std::net::SocketAddr) {
    println!("{GREETING}{address}");
}

/// Runs this program in a role to its end; what it printed.
pub(crate) fn output_of_role(role: &str) -> Result<String> {
    let output = as_role(role)?.stderr(Stdio::inherit()).output()?;
    anyhow::ensure!(output.status.success(), "the role {role} failed");
    Ok(String::from_utf8(output.stdout)?)
}

fn as_role(role: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(format!("{ROLE_FLAG}{role}"));
    Ok(command)
}
