//! The official TypeScript and Python clients against the program, over stdio and HTTP, in both revisions.

use std::path::{Path, PathBuf};
use std::process::Command;

use scomp::server::settings::TokenSettings;
use serde_json::json;

use crate::program::{Program, Running};
use crate::support::Folder;

const ORDERS: &str = include_str!("../../bindings/orders/declaration.json");
const TOKEN: &str = "t0ken-of-the-tests";

/// Longest time by the clock that the scripts of the tests may take.
const WALL_MS: &str = "SCOMP_LIMITS_WALL_MS_MAX";

/// Where `install` put the clients.
pub(crate) fn installed() -> PathBuf {
    let folder = std::env::var_os("SCOMP_MCP_CLIENTS").map(PathBuf::from);
    folder.unwrap_or_else(|| {
        PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/scomp-serve-mcp-clients")
    })
}

fn script(name: &str) -> String {
    format!("{}/tests/mcp_server/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A language's client with a scenario to run.
fn client(language: &str, scenario: &str, era: &str) -> Command {
    let mut command = match language {
        "typescript" => {
            let mut node = Command::new("node");
            node.arg(script("client.mjs"));
            node
        }
        _ => {
            let mut python = Command::new("python3");
            python.arg(script("client.py")).env("PYTHONPATH", installed().join("python"));
            python
        }
    };
    command.args([scenario, era]).env("MCP_MODULES", installed());
    // Of the tests alone: a longer execution for the night.
    if let Some(long) = std::env::var_os("MCP_LONG_MS") {
        command.env("MCP_LONG_MS", long);
    }
    command
}

fn expect_ok(command: &mut Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("ok"), "{command:?}\n{text}");
}

/// The program with the example shop.
struct Shop {
    folder: Folder,
}

impl Shop {
    fn new() -> Self {
        Self { folder: Folder::with(&[("orders/declaration.json", ORDERS)]) }
    }

    fn bindings(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    /// Serves on a port that the system chooses; the address of the endpoint.
    fn listen(&self, config: Option<&Path>) -> (Running, String) {
        let mut arguments = vec!["--listen", "127.0.0.1:0", "--bindings", self.bindings()];
        let token = match config {
            Some(config) => {
                arguments.extend(["--config", config.to_str().unwrap()]);
                ("SCOMP_SHARDS", "1")
            }
            None => ("SCOMP_TOKEN", TOKEN),
        };
        let program = Program::new(arguments);
        let program =
            [token, (WALL_MS, "10min"), ("SCOMP_LOG", "warn")].into_iter().fold(program, Program::variable);
        let mut running = program.start();
        let line = running.line();
        let address = line.strip_prefix("listening on ").unwrap().to_owned();
        (running, format!("{address}/mcp"))
    }
}

/// Settings under which the example shop asks before it is read.
fn settings_with_approval() -> Folder {
    let token = TokenSettings::of_token("ann", TOKEN).sha256;
    let settings = format!(
        "[limits]\nwall_ms_max = '10min'\n[[auth.tokens]]\nprincipal = 'ann'\nsha256 = '{token}'\n\
         policy = {{ approve = ['getOrder'] }}\n"
    );
    Folder::with(&[("settings.toml", &settings)])
}

fn over_http(language: &str, era: &str, scenarios: &[&str]) {
    let shop = Shop::new();
    let settings = settings_with_approval();
    for scenario in scenarios {
        let is_approval = *scenario == "approval";
        let config = is_approval.then(|| settings.path().join("settings.toml"));
        let (_running, url) = shop.listen(config.as_deref());
        expect_ok(client(language, scenario, era).env("MCP_URL", &url).env("MCP_TOKEN", TOKEN));
    }
}

fn over_stdio(language: &str, era: &str, scenarios: &[&str]) {
    let shop = Shop::new();
    let settings = Folder::with(&[("settings.toml", "[limits]\nwall_ms_max = '10min'\n")]);
    let config = settings.path().join("settings.toml");
    let command =
        json!([env!("CARGO_BIN_EXE_scomp-serve"), "mcp", "--bindings", shop.bindings(), "--config", config]);
    for scenario in scenarios {
        expect_ok(client(language, scenario, era).env("MCP_COMMAND", command.to_string()));
    }
}

#[test]
fn typescript_client_over_http() {
    over_http("typescript", "auto", &["session", "wait", "cancel", "artifact", "approval"]);
}

#[test]
fn typescript_client_over_http_with_a_handshake() {
    over_http("typescript", "legacy", &["session", "wait", "cancel", "artifact", "approval"]);
}

#[test]
fn typescript_client_over_stdio() {
    over_stdio("typescript", "auto", &["session", "cancel"]);
    over_stdio("typescript", "legacy", &["session", "cancel"]);
}

#[test]
fn python_client_over_http() {
    over_http("python", "auto", &["session", "wait", "cancel", "approval"]);
}

#[test]
fn python_client_over_http_with_a_handshake() {
    over_http("python", "legacy", &["session", "cancel", "approval"]);
}

#[test]
fn python_client_over_stdio() {
    over_stdio("python", "auto", &["session"]);
    over_stdio("python", "legacy", &["cancel"]);
}
