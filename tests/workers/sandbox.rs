//! What native code in a worker can reach: nothing.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};

use super::*;

/// Exit codes of a probe: its attempt failed, or succeeded.
const REFUSED: i32 = 40;
const REACHED: i32 = 41;

/// The signal of a forbidden system call.
const SIGSYS: i32 = 31;

/// The attempts that the program knows, and what becomes of each inside the sandbox.
fn probes() -> Vec<(String, String)> {
    let output = Command::new(PROGRAM).args(["worker", "probes"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .collect()
}

fn attempt(name: &str, place: &str) -> ExitStatus {
    let parent = std::process::id().to_string();
    let mut command = Command::new(PROGRAM);
    command.args(["worker", name, &parent, place]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap()
}

#[test]
fn forbidden_system_calls_are_stopped() {
    let probes = probes();
    assert!(probes.len() >= 25, "{probes:?}");
    for (name, fate) in probes {
        let status = attempt(&name, "inside");
        match fate.as_str() {
            "killed" => assert_eq!(status.signal(), Some(SIGSYS), "{name}: {status}"),
            "refused" => assert_eq!(status.code(), Some(REFUSED), "{name}: {status}"),
            other => panic!("{other}"),
        }
    }
}

/// Otherwise the test above would pass without a sandbox.
#[test]
fn attempts_succeed_outside_of_the_sandbox() {
    for name in [
        "open-file",
        "open-file-old",
        "file-facts",
        "fork",
        "map-code",
        "make-code",
        "signal-parent",
        "socket",
    ] {
        assert_eq!(attempt(name, "outside").code(), Some(REACHED), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_has_no_environment_and_few_descriptors() {
    let running = running(Isolation::Principal, Limits::default(), 8).await;
    let (mut wire, worker) = open_apart(&running).await;
    assert_eq!(wire.eval("1 + 1").await["result"]["value"], 2);
    let environment = std::fs::read_to_string(format!("/proc/{worker}/environ")).unwrap_or_default();
    assert!(
        environment.split('\0').all(|entry| entry.is_empty() || entry.starts_with("TZ=")),
        "{environment}"
    );
    let descriptors = std::fs::read_dir(format!("/proc/{worker}/fd"));
    let targets: Vec<String> = descriptors
        .map(|entries| {
            let paths = entries.map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap_or_default());
            paths.map(|path| path.to_string_lossy().into_owned()).collect()
        })
        .unwrap_or_default();
    for target in &targets {
        let is_known =
            ["socket:", "/dev/null", "anon_inode:", "pipe:"].iter().any(|kind| target.starts_with(kind))
                || target.ends_with("(deleted)");
        assert!(is_known, "{targets:?}");
    }
    let status = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "Threads:\t1"] {
        assert!(status.lines().any(|found| found == line), "{line}\n{status}");
    }
}
