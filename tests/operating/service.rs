//! The program as a service: it reports its state to a manager, takes a socket that was opened for it, reloads on SIGHUP
//! while sessions live on, and answers `health`.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use scomp::client::Client;

use crate::folder::Folder;
use crate::peer::{WAIT_MAX, get, port_of};
use crate::program::{Program, Running};

/// The manager's end: the states that the program reports.
struct Manager(UnixDatagram, Folder);

impl Manager {
    fn new() -> Self {
        let folder = Folder::with(&[]);
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(WAIT_MAX)).unwrap();
        Self(socket, folder)
    }

    fn path(&self) -> String {
        self.1.path().join("notify").to_str().unwrap().to_owned()
    }

    /// Waits for a report that begins so.
    fn wait_for(&self, start: &str) {
        let mut bytes = [0; 512];
        while let Ok(count) = self.0.recv(&mut bytes) {
            if bytes[..count].starts_with(start.as_bytes()) {
                return;
            }
        }
        panic!("the program does not report {start}");
    }
}

fn token_entry(principal: &str, token: &str) -> String {
    let hash = scomp::server::settings::TokenSettings::of_token(principal, token).sha256;
    format!("[[tokens]]\nprincipal = '{principal}'\nsha256 = '{hash}'\n")
}

fn start(folder: &Folder, manager: &Manager) -> (Running, u16) {
    let settings = folder.path().join("scomp.toml");
    let mut running = Program::new(["--config", settings.to_str().unwrap()])
        .variable(("NOTIFY_SOCKET", &manager.path()))
        .start();
    let port = port_of(&running.line());
    manager.wait_for("READY=1");
    (running, port)
}

async fn connect(port: u16, token: &str) -> Result<Client, scomp::client::ClientError> {
    Client::builder().token(token).connect(&format!("ws://127.0.0.1:{port}")).await
}

#[test]
fn manager_hears_of_start_life_and_stop() {
    let manager = Manager::new();
    let mut running = Program::new(["--listen", "127.0.0.1:0"])
        .variable(("NOTIFY_SOCKET", &manager.path()))
        .variable(("WATCHDOG_USEC", "100000"))
        .start();
    running.line();
    manager.wait_for("READY=1");
    manager.wait_for("WATCHDOG=1");
    manager.wait_for("WATCHDOG=1");
    running.signal("TERM");
    manager.wait_for("STOPPING=1");
    assert_eq!(running.end().code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_replaces_tokens_and_bindings_and_sessions_live_on() {
    let folder = Folder::with(&[
        ("scomp.toml", "listen = '127.0.0.1:0'\nbindings = 'b'\n[auth]\nfile = 'tokens.toml'\n"),
        ("tokens.toml", &token_entry("ann", "old")),
        ("b/orders.json", r#"{"package": "orders", "rust": "orders"}"#),
    ]);
    let manager = Manager::new();
    let (running, port) = start(&folder, &manager);
    let client = connect(port, "old").await.unwrap();
    client.eval("globalThis.kept = 7").await.unwrap();

    folder.write("tokens.toml", &token_entry("ann", "new"));
    folder.write(
        "b/store/declaration.json",
        r#"{"package": "store", "rust": "kv", "config": {"path": "kv.db"}}"#,
    );
    running.signal("HUP");
    manager.wait_for("RELOADING=1");
    manager.wait_for("READY=1");
    assert!(connect(port, "old").await.is_err(), "a token that was removed opens nothing");
    connect(port, "new").await.unwrap();
    let seen =
        client.eval("[kept, typeof kv, (await getOrder({ id: 'o_001' })).total].join()").await.unwrap();
    assert_eq!(seen.value, "7,object,142.5");

    std::fs::remove_file(folder.path().join("b/orders.json")).unwrap();
    running.signal("HUP");
    manager.wait_for("RELOADING=1");
    manager.wait_for("READY=1");
    assert_eq!(client.eval("[kept, typeof getOrder].join()").await.unwrap().value, "7,undefined");
    running.signal("TERM");
    let done = running.end();
    assert!(done.stderr.contains("reloaded") && done.code == 0, "{}", done.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_with_a_problem_changes_nothing() {
    let folder = Folder::with(&[
        ("scomp.toml", "listen = '127.0.0.1:0'\nbindings = 'b'\n[auth]\nfile = 'tokens.toml'\n"),
        ("tokens.toml", &token_entry("ann", "old")),
        ("b/orders.json", r#"{"package": "orders", "rust": "orders"}"#),
    ]);
    let manager = Manager::new();
    let (running, port) = start(&folder, &manager);
    folder.write("tokens.toml", &token_entry("ann", "new"));
    folder.write("b/orders.json", r#"{"package": "orders", "rust": "nothing"}"#);
    running.signal("HUP");
    manager.wait_for("RELOADING=1");
    manager.wait_for("READY=1");
    let client = connect(port, "old").await.unwrap();
    assert_eq!(client.eval("typeof getOrder").await.unwrap().value, "function");
    assert!(connect(port, "new").await.is_err());
    running.signal("TERM");
    let done = running.end();
    assert!(done.stderr.contains("the reload failed") && done.stderr.contains("/rust"), "{}", done.stderr);
}

/// Opens a socket, passes it as the first descriptor, and becomes the program.
const ACTIVATE: &str = "
import os, socket, sys
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2])
os.execv(sys.argv[1], sys.argv[1:2])
";

fn activate(sockets: &str) -> std::process::Child {
    Command::new("python3")
        .args(["-c", ACTIVATE, env!("CARGO_BIN_EXE_scomp-serve"), sockets])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn socket_of_the_manager_is_served() {
    use std::io::{BufRead as _, BufReader};
    let mut child = activate("1");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let port: u16 = lines.next().unwrap().parse().unwrap();
    assert_eq!(port_of(&lines.next().unwrap()), port);
    assert!(get(port, "/readyz", "").1.starts_with("HTTP/1.1 200"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn several_sockets_are_refused() {
    let done = activate("2").wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        done.status.code() == Some(2) && message.contains("LISTEN_FDS: expected one socket, got 2"),
        "{message}"
    );
}

#[test]
fn health_says_whether_a_server_is_ready() {
    let mut running = Program::new(["--listen", "127.0.0.1:0"]).start();
    let address = running.line().rsplit('/').next().unwrap().to_owned();
    let ready = Program::new(["health"]).variable(("SCOMP_LISTEN", &address)).run();
    assert_eq!((ready.code, ready.stdout.as_str()), (0, "ready\n"), "{}", ready.stderr);
    let by_url = Program::new(["health", "--url", &format!("http://{address}/")]).run();
    assert_eq!(by_url.code, 0, "{}", by_url.stderr);
    running.signal("TERM");
    assert_eq!(running.end().code, 0);
    let gone = Program::new(["health"]).variable(("SCOMP_LISTEN", &address)).run();
    assert!(gone.code == 1 && gone.stderr.contains("/readyz: "), "{}", gone.stderr);
}

#[test]
fn completions_and_manual_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let text = Program::new(["completions", shell]).run().stdout;
        assert!(text.contains("scomp-serve") && text.contains("check"), "{shell}");
    }
    let manual = Program::new(["man"]).run().stdout;
    for part in [".TH scomp-serve", ".SH CHECK", ".SH CONFIG", "\\-\\-listen"] {
        assert!(manual.contains(part), "{part} is not in {manual}");
    }
}
