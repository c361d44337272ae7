//! What keeps a session in memory: a full disk, no folder. The session goes on.

use std::path::PathBuf;

use scomp::server::settings::SessionSettings;
use serde_json::json;

use super::live_with;
use super::support::Folder;

#[tokio::test]
async fn session_past_the_limit_of_the_disk_stays_in_memory() {
    let bytes = |hibernated_bytes_max| SessionSettings {
        hibernate_every_turn: true,
        hibernated_bytes_max,
        ..SessionSettings::default()
    };
    let mut live = live_with(bytes(1 << 20)).await;
    live.wire.value("let n = 1; 0").await;
    assert_eq!(live.metric("scomp_sessions_hibernated").await, 1.0);
    // Its image has no room for this, so it stays until it is small again.
    live.wire.value("let big = new Uint8Array(2 << 20).fill(1); 0").await;
    assert_eq!(live.metric("scomp_sessions_hibernated").await, 0.0);
    assert_eq!(live.wire.value("[n, big[1000000]]").await, json!([1, 1]));
    live.wire.value("big = null; 0").await;
    assert_eq!(live.metric("scomp_sessions_hibernated").await, 1.0);
    assert_eq!(live.wire.value("n").await, json!(1));
    drop(live);
    let mut none = live_with(bytes(0)).await;
    none.wire.value("1").await;
    assert_eq!(none.metric("scomp_sessions_hibernated").await, 0.0);
}

#[tokio::test]
async fn server_without_a_folder_keeps_sessions_in_memory() {
    let hibernate_folder = Some(PathBuf::from("/nonexistent/folder"));
    let sessions =
        SessionSettings { hibernate_every_turn: true, hibernate_folder, ..SessionSettings::default() };
    let mut live = live_with(sessions).await;
    assert_eq!(live.wire.value("1 + 1").await, json!(2));
    assert_eq!(live.metric("scomp_sessions_hibernated").await, 0.0);
}

#[tokio::test]
async fn folder_that_goes_away_changes_nothing() {
    let folder = Folder::with(&[]);
    let hibernate_folder = Some(folder.path().to_owned());
    let sessions =
        SessionSettings { hibernate_every_turn: true, hibernate_folder, ..SessionSettings::default() };
    let mut live = live_with(sessions).await;
    live.wire.value("0").await;
    drop(folder);
    // The file is held by its descriptor.
    assert_eq!(live.wire.value("let n = 1; n").await, json!(1));
    assert_eq!(live.metric("scomp_sessions_hibernated").await, 1.0);
    assert_eq!(live.wire.value("n").await, json!(1));
}
