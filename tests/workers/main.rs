//! Sessions in worker processes: what the walls stop, what the end of a worker costs, and what stays the same.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, missing_docs)]

mod ends;
mod sandbox;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;

use scomp::limits::Limits;
use scomp::server::Server;
use scomp::server::settings::{Isolation, IsolationSettings, SessionSettings, WorkerSettings};
use support::{Running, Wire, bindings};

/// The program whose `main` knows workers.
const PROGRAM: &str = env!("CARGO_BIN_EXE_scomp-serve");

/// Held while processes are started: tests tell theirs from those of others by what is new.
static STARTING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

async fn running(isolation: Isolation, limits: Limits, workers_max: usize) -> Running {
    let _starting = STARTING.lock().await;
    let workers = WorkerSettings { workers_max, per_principal_max: 1 };
    let isolation = IsolationSettings {
        isolation,
        workers,
        program: Some(PROGRAM.into()),
        ..IsolationSettings::default()
    };
    let server = Server::builder()
        .package(bindings::package())
        .limits(limits)
        .sessions(SessionSettings::default())
        .shards(2)
        .isolation(isolation)
        .build()
        .unwrap();
    Running::listening(server).await
}

/// The processes that a process has started.
fn children_of(parent: u32) -> Vec<u32> {
    let mut children = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let Some(process) = path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()) else {
            continue;
        };
        if parent_of(&path) == Some(parent) {
            children.push(process);
        }
    }
    children
}

fn parent_of(process: &Path) -> Option<u32> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    // After the name, which may contain anything: the state, then the parent. A process that has ended is not one any more.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    fields.next().filter(|_| state != "Z")?.parse().ok()
}

/// Opens a session, and finds the process that was started for it.
async fn open_apart(running: &Running) -> (Wire, u32) {
    let _starting = STARTING.lock().await;
    let before = children_of(std::process::id());
    let wire = Wire::live(&running.url).await;
    let after = children_of(std::process::id());
    let mut new = after.into_iter().filter(|process| !before.contains(process) && is_worker(*process));
    (wire, new.next().unwrap())
}

/// Opens a session in the process that it is given.
async fn open(running: &Running) -> Wire {
    let _starting = STARTING.lock().await;
    Wire::live(&running.url).await
}

fn is_worker(process: u32) -> bool {
    let line = std::fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
    // A probe has further arguments.
    line.split_terminator('\0').skip(1).eq(["worker"])
}
