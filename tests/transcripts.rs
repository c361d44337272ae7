//! Plays every transcript under `tests/transcripts/scomp` over a real WebSocket.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::path::Path;
use std::sync::Arc;

use scomp::limits::Limits;
use support::Running;
use tokio::task::JoinSet;

/// Transcripts played at once: enough to keep two cores busy, few enough that none waits long.
const PLAYED_AT_ONCE: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_says_what_the_transcripts_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/scomp");
    let shared = Arc::new(Running::with(Limits::default()).await);
    let mut waiting = support::files(&folder, "txt").into_iter();
    let mut playing = JoinSet::new();
    let mut failures = Vec::new();
    loop {
        while playing.len() < PLAYED_AT_ONCE {
            let Some(path) = waiting.next() else { break };
            let shared = Arc::clone(&shared);
            playing.spawn(async move {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
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
