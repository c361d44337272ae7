//! The real program over a state folder, killed and started again. Only a program that is linked at fixed addresses goes on
//! with the images of another process, and the tests themselves are not.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Folder, Wire};

/// How long a start or a stop may take: far more than a loaded machine needs.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A server that runs.
pub(crate) struct Server {
    child: Child,
    stderr: Option<JoinHandle<String>>,
    pub(crate) url: String,
}

/// A server that did not start.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
}

/// Starts the program on a folder with more arguments and variables.
pub(crate) fn try_start(
    state: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Result<Server, Refusal> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scomp-serve"));
    command.args(["--listen", "127.0.0.1:0", "--state"]).arg(state).args(arguments);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SCOMP_")) {
        command.env_remove(name);
    }
    command
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let stderr = std::thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    let (line_tx, line_rx) = channel();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| line_tx.send(line)));
    match line_rx.recv_timeout(WAIT_MAX) {
        Ok(line) => {
            let address = line.strip_prefix("listening on http://").unwrap_or_else(|| panic!("{line}"));
            Ok(Server { child, stderr: Some(stderr), url: format!("ws://{address}/") })
        }
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
            let code = child.wait().unwrap().code();
            Err(Refusal { code, stderr: stderr.join().unwrap() })
        }
        Err(error) => panic!("{error}"),
    }
}

/// Starts the program on a folder.
pub(crate) fn start(state: &Folder) -> Server {
    start_with(state, &[])
}

/// The same with variables.
pub(crate) fn start_with(state: &Folder, variables: &[(&str, &str)]) -> Server {
    try_start(&state.path().join("state"), &[], variables).unwrap_or_else(|refusal| panic!("{refusal:?}"))
}

impl Server {
    /// Ends it as a power cut would, or the kernel when memory is short.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop, waits until it has, and returns what it logged.
    pub(crate) fn stop(mut self) -> String {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
        let status = self.child.wait().unwrap();
        let log = self.stderr.take().unwrap().join().unwrap();
        assert!(status.success(), "{status}: {log}");
        log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a client keeps to resume its session.
#[derive(Debug, Clone)]
pub(crate) struct Ticket(pub(crate) Value);

impl Ticket {
    fn of(welcome: &Value) -> Self {
        Self(json!({"id": welcome["sessionId"], "token": welcome["metadata"]["session"]["token"]}))
    }

    pub(crate) fn id(&self) -> &str {
        self.0["id"].as_str().unwrap()
    }

    /// Opens a session.
    pub(crate) async fn open(url: &str, bindings: Value) -> (Wire, Self) {
        let (wire, welcome) = Wire::live_with(url, json!({"bindings": bindings})).await;
        (wire, Self::of(&welcome))
    }

    /// Resumes the session, which must be there.
    pub(crate) async fn resume(&self, url: &str, bindings: Value) -> (Wire, Self) {
        let (wire, welcome) = Wire::live_with(url, json!({"session": self.0, "bindings": bindings})).await;
        assert_eq!(welcome["metadata"]["session"]["resumed"], json!(true));
        assert_eq!(welcome["sessionId"], self.0["id"]);
        (wire, Self::of(&welcome))
    }

    /// The error of a resume that must be refused.
    pub(crate) async fn refused(&self, url: &str) -> Value {
        let mut wire = Wire::open(url).await;
        let answer = wire.request("handshake", json!({"protocol": "0.1", "session": self.0})).await;
        answer.get("error").unwrap_or_else(|| panic!("resumed: {answer}")).clone()
    }

    /// The file of its image.
    pub(crate) fn image(&self, state: &Folder) -> std::path::PathBuf {
        state.path().join(format!("state/images/{}.image", self.id()))
    }
}
