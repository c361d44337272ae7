//! Images that are not what the server wrote are refused, each with its kind, and disturb nothing else.

use std::fs;

use serde_json::{Value, json};

use crate::server::{Ticket, start};
use crate::support::{Folder, Wire};

/// Places in the header of a record: see `src/image/record/header.rs`.
const BUILD_AT: usize = 16;
const SESSION_AT: usize = 48;
const BODY_AT: usize = 128;

/// Stores two sessions, changes the image of the first, and resumes both. Returns the error of the first.
async fn refusal(change: impl FnOnce(&Ticket, &Ticket, &Folder)) -> Value {
    let state = Folder::with(&[]);
    let server = start(&state);
    let (mut wire, ticket) = Ticket::open(&server.url, json!([])).await;
    wire.value("globalThis.secret = 'first'; 0").await;
    let (mut wire, other) = Ticket::open(&server.url, json!([])).await;
    wire.value("globalThis.secret = 'second'; 0").await;
    server.stop();
    change(&ticket, &other, &state);
    let server = start(&state);
    let error = ticket.refused(&server.url).await;
    let (mut wire, _) = other.resume(&server.url, json!([])).await;
    assert_eq!(wire.value("secret").await, json!("second"));
    let mut fresh = Wire::live(&server.url).await;
    assert_eq!(fresh.value("1 + 1").await, json!(2));
    error
}

fn flip(ticket: &Ticket, state: &Folder, at: usize) {
    let path = ticket.image(state);
    let mut bytes = fs::read(&path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn assert_lost(error: &Value, reason: &str, image: Option<&str>) {
    assert_eq!(error["data"]["kind"], json!("SessionLost"), "{error}");
    assert_eq!(error["data"]["reason"], json!(reason), "{error}");
    assert_eq!(error["data"].get("image"), image.map(|kind| json!(kind)).as_ref(), "{error}");
}

#[tokio::test]
async fn forged_image_is_refused() {
    let error = refusal(|ticket, _, state| flip(ticket, state, BODY_AT + 5_000)).await;
    assert_lost(&error, "image", Some("ImageForged"));
}

#[tokio::test]
async fn truncated_image_is_refused() {
    let error = refusal(|ticket, _, state| {
        let path = ticket.image(state);
        let bytes = fs::read(&path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    })
    .await;
    assert_lost(&error, "image", Some("ImageTruncated"));
}

#[tokio::test]
async fn image_of_another_build_is_lost_to_the_engine() {
    let error = refusal(|ticket, _, state| flip(ticket, state, BUILD_AT)).await;
    assert_lost(&error, "engine", None);
}

#[tokio::test]
async fn image_of_another_session_is_refused() {
    let error = refusal(|ticket, other, state| {
        fs::copy(other.image(state), ticket.image(state)).unwrap();
    })
    .await;
    assert_lost(&error, "image", Some("ImageForged"));
    let error = refusal(|ticket, _, state| flip(ticket, state, SESSION_AT)).await;
    assert_lost(&error, "image", Some("ImageForged"));
}

#[tokio::test]
async fn older_image_is_refused() {
    let state = Folder::with(&[]);
    let server = start(&state);
    let (mut wire, ticket) = Ticket::open(&server.url, json!([])).await;
    wire.value("globalThis.n = 1").await;
    server.stop();
    let older = fs::read(ticket.image(&state)).unwrap();
    let server = start(&state);
    let (mut wire, ticket) = ticket.resume(&server.url, json!([])).await;
    wire.value("n = 2").await;
    server.stop();
    fs::write(ticket.image(&state), older).unwrap();
    let server = start(&state);
    assert_lost(&ticket.refused(&server.url).await, "image", Some("ImageTruncated"));
}
