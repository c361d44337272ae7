//! The state folder itself: who may have it, its key, its format, its limits.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::restart::metric;
use crate::server::{Ticket, start, start_with, try_start};
use crate::support::Folder;

#[tokio::test]
async fn second_server_is_refused_and_takes_over_later() {
    let state = Folder::with(&[]);
    let server = start(&state);
    let folder = state.path().join("state");
    let no_wait = [("SCOMP_STATE_TAKEOVER_MS", "0")];
    let refusal = try_start(&folder, &[], &no_wait).err().unwrap();
    assert_eq!(refusal.code, Some(1));
    assert!(refusal.stderr.contains("is in use by another server (process "), "{}", refusal.stderr);
    assert!(refusal.stderr.contains("StateLocked"), "{}", refusal.stderr);
    let (mut wire, ticket) = Ticket::open(&server.url, json!([])).await;
    wire.value("globalThis.n = 7").await;
    // A new server waits for the old one to stop.
    let next = std::thread::spawn({
        let folder = folder.clone();
        move || try_start(&folder, &[], &[("SCOMP_STATE_TAKEOVER_MS", "60000")])
    });
    server.stop();
    let server = next.join().unwrap().unwrap();
    let (mut wire, _) = ticket.resume(&server.url, json!([])).await;
    assert_eq!(wire.value("n").await, json!(7));
}

#[tokio::test]
async fn key_beside_the_images_is_warned_about() {
    let state = Folder::with(&[]);
    assert!(start(&state).stop().contains("set state.key_file"));
    let elsewhere = Folder::with(&[("key", &"ab".repeat(32))]);
    let key = elsewhere.path().join("key");
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let state = Folder::with(&[]);
    let variables = [("SCOMP_STATE_KEY_FILE", key.to_str().unwrap())];
    let server = start_with(&state, &variables);
    let (mut wire, ticket) = Ticket::open(&server.url, json!([])).await;
    wire.value("globalThis.n = 7").await;
    let log = server.stop();
    assert!(!log.contains("set state.key_file"), "{log}");
    // With another key the session cannot be read.
    fs::write(&key, "cd".repeat(32)).unwrap();
    let server = start_with(&state, &variables);
    let error = ticket.refused(&server.url).await;
    assert_eq!(
        (&error["data"]["kind"], &error["data"]["image"]),
        (&json!("SessionLost"), &json!("ImageKey"))
    );
    server.stop();
    fs::write(&key, "ab".repeat(32)).unwrap();
    let server = start_with(&state, &variables);
    let (mut wire, _) = ticket.resume(&server.url, json!([])).await;
    assert_eq!(wire.value("n").await, json!(7));
}

#[test]
fn key_that_others_can_read_is_refused() {
    let state = Folder::with(&[("key", &"ab".repeat(32))]);
    let key = state.path().join("key");
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let variables = [("SCOMP_STATE_KEY_FILE", key.to_str().unwrap())];
    let refusal = try_start(&state.path().join("state"), &[], &variables).err().unwrap();
    assert!(refusal.stderr.contains("mode 0644, expected 0600 or 0400"), "{}", refusal.stderr);
}

#[test]
fn folder_of_a_newer_format_is_refused() {
    let state = Folder::with(&[]);
    start(&state).stop();
    let database = rusqlite::Connection::open(state.path().join("state/state.sqlite")).unwrap();
    database.execute("UPDATE meta SET value = 99 WHERE key = 'format'", []).unwrap();
    drop(database);
    let refusal = try_start(&state.path().join("state"), &[], &[]).err().unwrap();
    assert!(refusal.stderr.contains("has format 99, expected at most 1"), "{}", refusal.stderr);
}

#[test]
fn folder_that_cannot_be_made_is_refused() {
    let refusal = try_start(std::path::Path::new("/proc/state"), &[], &[]).err().unwrap();
    assert_eq!(refusal.code, Some(1));
    assert!(refusal.stderr.contains("state.dir: /proc/state: "), "{}", refusal.stderr);
}

#[tokio::test]
async fn files_are_readable_by_their_owner_alone() {
    let state = Folder::with(&[]);
    let server = start(&state);
    let (mut wire, ticket) = Ticket::open(&server.url, json!([])).await;
    wire.value("globalThis.secret = 'hunter2 hunter2 hunter2'; 0").await;
    server.stop();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state.path().join("state")), 0o700);
    assert_eq!(mode(&ticket.image(&state)), 0o600);
    let image = fs::read(ticket.image(&state)).unwrap();
    assert!(!image.windows(7).any(|window| window == b"hunter2"), "the image is not encrypted");
}

#[tokio::test]
async fn session_past_the_quota_runs_on_and_is_not_stored() {
    let state = Folder::with(&[]);
    let variables = [("SCOMP_STATE_PRINCIPAL_BYTES_MAX", "1"), ("SCOMP_SESSIONS_HIBERNATE_AFTER_MS", "20")];
    let server = start_with(&state, &variables);
    let (mut first, ticket) = Ticket::open(&server.url, json!([])).await;
    first.value("globalThis.n = 1").await;
    while !ticket.image(&state).exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let (mut second, refused) = Ticket::open(&server.url, json!([])).await;
    second.value("globalThis.n = 2").await;
    while metric(&server, "scomp_store_failures_total{kind=\"DiskQuota\"}").await.is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(second.value("n").await, json!(2), "it runs on in memory");
    assert!(!refused.image(&state).exists());
}
