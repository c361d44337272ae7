//! The servers of the tests, and a session on each.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Folder, Running, Wire};

pub(crate) const HOSTILE: &str = include_str!("hostile.mjs");
const SDK: &str = include_str!("sdk_server.py");

/// What the hostile server has in its environment.
pub(crate) const SECRET: &str = "s3cret-value";

/// A server with one package, and a session on it.
pub(crate) struct Session {
    pub(crate) folder: Folder,
    pub(crate) running: Running,
    pub(crate) wire: Wire,
}

impl Session {
    /// The package `name` with this configuration, and files beside its declaration.
    pub(crate) async fn start(name: &str, mcp: Value, files: &[(&str, &str)]) -> Self {
        let folder = Folder::with(&[(
            &format!("{name}/declaration.json"),
            &json!({"package": name, "mcp": mcp}).to_string(),
        )]);
        files.iter().for_each(|(file, text)| folder.write(&format!("{name}/{file}"), text));
        let running = Running::folder(folder.path()).await;
        let wire = Wire::live(&running.url).await;
        Self { folder, running, wire }
    }

    /// The package `hostile` in a mode.
    pub(crate) async fn hostile(mode: &str, count: usize) -> Self {
        Self::start("hostile", hostile_config(mode, count), &[("hostile.mjs", HOSTILE)]).await
    }

    /// The package `sdk` over stdin and stdout.
    pub(crate) async fn sdk() -> Self {
        Self::start("sdk", python(&["sdk_server.py"]), &[("sdk_server.py", SDK)]).await
    }

    pub(crate) async fn value(&mut self, code: &str) -> Value {
        self.wire.value(code).await
    }

    /// The kind and the message of what a call throws.
    pub(crate) async fn thrown(&mut self, call: &str) -> (String, String) {
        let code = format!("await {call}.then(() => 'nothing', (error) => [error.name, error.message])");
        let thrown = self.value(&code).await;
        let text = |at: usize| thrown[at].as_str().unwrap_or_else(|| panic!("{call}: {thrown}")).to_owned();
        (text(0), text(1))
    }
}

/// The configuration of the hostile server.
pub(crate) fn hostile_config(mode: &str, count: usize) -> Value {
    json!({
        "command": ["node", "hostile.mjs", mode, count.to_string()],
        "env": {"SECRET": SECRET},
        "timeoutMs": 5_000,
    })
}

/// A program of Python, with the installed packages.
pub(crate) fn python(arguments: &[&str]) -> Value {
    let command: Vec<&str> = ["python3"].into_iter().chain(arguments.iter().copied()).collect();
    json!({"command": command, "env": {"PYTHONPATH": installed("python")}, "public": ["PYTHONPATH"]})
}

/// A server of npm.
pub(crate) fn published(name: &str) -> String {
    installed(&format!("node_modules/@modelcontextprotocol/{name}/dist/index.js"))
}

/// Something that `tests/mcp_client/install` installed.
fn installed(path: &str) -> String {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/scomp-serve-mcp-servers");
    let path = std::env::var_os("SCOMP_MCP_SERVERS").map_or_else(home, PathBuf::from).join(path);
    assert!(path.exists(), "{} is missing: run tests/mcp_client/install first", path.display());
    path.to_str().unwrap().to_owned()
}

/// A server that listens. It ends with this.
pub(crate) struct Listening {
    child: Child,
    pub(crate) url: String,
    _folder: Folder,
}

impl Listening {
    /// The published server with everything.
    pub(crate) fn everything(port: u16) -> Self {
        let mut command = Command::new("node");
        command.arg(published("server-everything")).arg("streamableHttp").env("PORT", port.to_string());
        Self::start(command, port, "listening on port", Folder::with(&[]))
    }

    /// The server on the Python library.
    pub(crate) fn sdk(port: u16) -> Self {
        let folder = Folder::with(&[("sdk_server.py", SDK)]);
        let mut command = Command::new("python3");
        command.arg(folder.path().join("sdk_server.py")).arg(port.to_string());
        command.env("PYTHONPATH", installed("python"));
        Self::start(command, port, "Uvicorn running", folder)
    }

    fn start(mut command: Command, port: u16, announcement: &str, folder: Folder) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut printed = String::new();
        while !printed.contains(announcement) {
            assert_ne!(stderr.read_line(&mut printed).unwrap(), 0, "the server ended: {printed}");
        }
        // What it prints later must not block it.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self { child, url: format!("http://127.0.0.1:{port}/mcp"), _folder: folder }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that is free now. Another program may take it, but the system goes through all others first.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
