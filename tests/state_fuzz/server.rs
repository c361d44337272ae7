//! The program under test, and what its operator sees of it.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How long the server may take to notice that all clients are gone, on a machine with other work. A session without a
/// connection is kept for a second.
const SETTLE_WAIT_MAX: Duration = Duration::from_secs(60);

/// Limits that are met often.
const SETTINGS: [(&str, &str); 14] = [
    ("SCOMP_SHARDS", "2"),
    ("SCOMP_LOG_LEVEL", "warn"),
    ("SCOMP_SESSIONS_TTL_MS", "1000"),
    ("SCOMP_SESSIONS_DETACHED_MAX", "16"),
    ("SCOMP_SESSIONS_SESSIONS_MAX", "80"),
    ("SCOMP_LIMITS_CPU_MS_MAX", "100"),
    ("SCOMP_LIMITS_WALL_MS_MAX", "500"),
    ("SCOMP_LIMITS_MEMORY_BYTES_MAX", "3000000"),
    ("SCOMP_LIMITS_REFERENCES_MAX", "40"),
    ("SCOMP_LIMITS_TIMERS_MAX", "20"),
    ("SCOMP_LIMITS_QUEUED_EVALS_MAX", "8"),
    ("SCOMP_LIMITS_REQUESTS_OPEN_MAX", "32"),
    ("SCOMP_LIMITS_CALLS_PER_EVAL_MAX", "20"),
    ("SCOMP_LIMITS_CLIENT_GRACE_MS", "200"),
];

/// The program. It ends with the test.
pub(crate) struct Server {
    child: Child,
    url: String,
    folder: PathBuf,
}

impl Server {
    /// Starts it with two packages, of which one keeps functions of scripts.
    pub(crate) async fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("state-fuzz-{}", std::process::id()));
        let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("bindings");
        for package in ["kv", "holon"] {
            let target = folder.join("bindings").join(package);
            std::fs::create_dir_all(&target).unwrap();
            let declaration = packages.join(package).join("declaration.json");
            std::fs::copy(declaration, target.join("declaration.json")).unwrap();
        }
        let program = std::env::var_os("STATE_FUZZ_PROGRAM");
        let mut command = Command::new(program.unwrap_or_else(|| env!("CARGO_BIN_EXE_scomp-serve").into()));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SCOMP_"))
        {
            command.env_remove(name);
        }
        let log = File::create(folder.join("log")).unwrap();
        let mut child = command
            .args(["--listen", "127.0.0.1:0", "--bindings"])
            .arg(folder.join("bindings"))
            .envs(SETTINGS)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").map(str::to_owned);
        let url = format!("ws://{}/", address.unwrap_or_else(|| panic!("it did not start: {line}")));
        Self { child, url, folder }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The end of what it logged.
    pub(crate) fn log(&self) -> String {
        let text = std::fs::read(self.folder.join("log")).unwrap_or_default();
        let from = text.len().saturating_sub(4_000);
        String::from_utf8_lossy(&text[from..]).into_owned()
    }

    /// Waits until nothing of the clients is left; returns the memory of the process, or what is wrong.
    pub(crate) async fn settled(&mut self) -> Result<u64, String> {
        let deadline = tokio::time::Instant::now() + SETTLE_WAIT_MAX;
        let mut every = tokio::time::interval(Duration::from_millis(100));
        loop {
            every.tick().await;
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the process ended: {status}"));
            }
            let page = self.metrics().await?;
            let left =
                ["scomp_sessions", "scomp_references", "scomp_evals_queued"].map(|name| value(&page, name));
            // The one who asks is connected too.
            let connections = value(&page, "scomp_connections");
            if left == [0; 3] && connections <= 1 {
                return self.judge(&page);
            }
            if tokio::time::Instant::now() > deadline {
                return Err(format!(
                    "left over: sessions, references, queued evals {left:?}, connections {connections}"
                ));
            }
        }
    }

    fn judge(&self, page: &str) -> Result<u64, String> {
        let stuck = value(page, "scomp_stuck_shards");
        if stuck > 0 {
            return Err(format!("scomp_stuck_shards is {stuck}"));
        }
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        match log.lines().find(|line| line.contains("panicked") || line.contains(" ERROR ")) {
            Some(line) => Err(line.to_owned()),
            None => Ok(value(page, "scomp_memory_bytes")),
        }
    }

    async fn metrics(&self) -> Result<String, String> {
        let address = self.url.trim_start_matches("ws://").trim_end_matches('/');
        let read = async {
            let mut stream = TcpStream::connect(address).await?;
            let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut page = String::new();
            stream.read_to_string(&mut page).await?;
            std::io::Result::Ok(page)
        };
        match tokio::time::timeout(SETTLE_WAIT_MAX, read).await {
            Ok(Ok(page)) => Ok(page),
            Ok(Err(error)) => Err(format!("no metrics: {error}")),
            Err(_) => Err("the server does not answer".to_owned()),
        }
    }
}

/// A number of the page; what was never counted is 0.
fn value(page: &str, name: &str) -> u64 {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |number| number.trim().parse::<f64>().unwrap().round() as u64)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
