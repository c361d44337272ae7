//! Plays every transcript under `tests/transcripts` over a real WebSocket.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use scomp::limits::Limits;
use scomp::server::settings::Isolation;
use support::Running;
use tokio::task::JoinSet;

/// Transcripts played concurrently: enough to keep two cores busy, few enough that none waits long.
const PLAYED_MAX: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_says_what_the_transcripts_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let shared = Arc::new(Running::with(Limits::default()).await);
    let areas = std::fs::read_dir(&folder).unwrap().map(|area| area.unwrap().path());
    // Sessions in worker processes are not forked.
    let has_forks = support::isolation().isolation == Isolation::Thread;
    let is_played = |path: &PathBuf| has_forks || !path.ends_with("control/fork.txt");
    let mut waiting = areas.flat_map(|area| support::files(&area, "txt")).filter(is_played);
    let mut playing = JoinSet::new();
    let mut failures = Vec::new();
    loop {
        while playing.len() < PLAYED_MAX {
            let Some(path) = waiting.next() else { break };
            let shared = Arc::clone(&shared);
            playing.spawn(async move {
                let name = name_of(&path);
                let text = std::fs::read_to_string(&path).unwrap();
                let played = support::player::play(&text, &shared).await;
                played.map_err(|message| format!("{name}:{message}"))
            });
        }
        match playing.join_next().await {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(failure))) => failures.push(failure),
            Some(Err(panic)) => failures.push(panic.to_string()),
            None => break,
        }
    }
    failures.sort();
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

/// Its area and its file.
fn name_of(path: &Path) -> String {
    let parts: Vec<_> = path.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
    format!("{}/{}", parts[1], parts[0])
}
