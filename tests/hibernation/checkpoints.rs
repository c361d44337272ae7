//! Sessions that go back to a checkpoint, over the wire.

use scomp::server::settings::SessionSettings;
use serde_json::{Value, json};

use super::support::Wire;
use super::{live, live_with};

async fn checkpoint(wire: &mut Wire) -> Value {
    wire.invoke("session.checkpoint", json!({})).await["result"]["value"]["checkpoint"].clone()
}

async fn rewind(wire: &mut Wire, checkpoint: &Value) {
    let answer = wire.invoke("session.rewind", json!({"checkpoint": checkpoint})).await;
    assert_eq!(answer["result"]["value"]["checkpoint"], *checkpoint, "{answer}");
}

fn kind(answer: &Value) -> &Value {
    &answer["error"]["data"]["kind"]
}

async fn go_back_and_forth(wire: &mut Wire) {
    wire.value(
        "let n = 1; const next = () => ++n; let settle; const p = new Promise((r) => { settle = r; }); 0",
    )
    .await;
    let first = checkpoint(wire).await;
    assert_eq!(
        wire.value("globalThis.later = 1; settle('a'); [next(), next(), await p]").await,
        json!([2, 3, "a"])
    );
    let second = checkpoint(wire).await;
    assert_eq!(wire.value("next()").await, json!(4));
    rewind(wire, &second).await;
    assert_eq!(wire.value("[n, later]").await, json!([3, 1]));
    for _ in 0..3 {
        rewind(wire, &first).await;
        assert_eq!(
            wire.value("settle('b'); [typeof later, next(), await p]").await,
            json!(["undefined", 2, "b"])
        );
    }
    let gone = wire.invoke("session.rewind", json!({"checkpoint": second})).await;
    assert_eq!(*kind(&gone), json!("UnknownCheckpoint"), "{gone}");
    assert_eq!(wire.value("n").await, json!(2), "it is as it was");
}

#[tokio::test]
async fn session_goes_back_as_often_as_asked() {
    go_back_and_forth(&mut live_with(SessionSettings::default()).await.wire).await;
}

#[tokio::test]
async fn hibernated_session_goes_back() {
    go_back_and_forth(&mut live().await.wire).await;
}

#[tokio::test]
async fn functions_sent_since_the_checkpoint_are_unknown() {
    let mut live = live().await;
    let wire = &mut live.wire;
    let before = wire.value("let calls = 0; () => ++calls").await["$fn"].clone();
    let released = wire.value("() => 'released'").await["$fn"].clone();
    let mark = checkpoint(wire).await;
    let after = wire.value("() => 'after'").await["$fn"].clone();
    wire.request("invoke", json!({"ref": before, "args": []})).await;
    let release = json!({"jsonrpc": "2.0", "method": "release_ref", "params": {"ref": released}});
    wire.text(&release.to_string()).await;
    rewind(wire, &mark).await;
    let answer = wire.request("invoke", json!({"ref": before, "args": []})).await;
    assert_eq!(answer["result"]["value"], json!(1), "{answer}");
    for gone in [&after, &released] {
        let answer = wire.request("invoke", json!({"ref": gone, "args": []})).await;
        assert_eq!(*kind(&answer), json!("UnknownRef"), "{answer}");
    }
    assert_ne!(wire.value("() => 'new'").await["$fn"], after, "a number is not used again");
    // A context of its own numbers functions from the start.
    wire.invoke("session.reset", json!({})).await;
    let other = wire.value("() => 'other'").await["$fn"].clone();
    rewind(wire, &mark).await;
    let answer = wire.request("invoke", json!({"ref": other, "args": []})).await;
    assert_eq!(*kind(&answer), json!("UnknownRef"), "{answer}");
    assert_eq!(wire.value("calls").await, json!(0));
}

#[tokio::test]
async fn calls_and_timers_of_the_checkpoint_go_on() {
    let mut live = live().await;
    let wire = &mut live.wire;
    wire.value("let seen = 'nothing'; forever({}).catch((e) => { seen = e.name; }); 0").await;
    wire.value("let fired = 0; setTimeout(() => { fired += 1; }, 20); 0").await;
    let mark = checkpoint(wire).await;
    wire.value("await new Promise((r) => setTimeout(r, 40))").await;
    assert_eq!(wire.value("[seen, fired]").await, json!(["nothing", 1]));
    rewind(wire, &mark).await;
    wire.value("await new Promise((r) => setTimeout(r, 1))").await;
    assert_eq!(wire.value("[seen, fired]").await, json!(["Cancelled", 1]));
}

#[tokio::test]
async fn checkpoint_of_a_busy_session_is_refused() {
    let mut live = live().await;
    let wire = &mut live.wire;
    let mark = checkpoint(wire).await;
    let eval = wire.send("eval", json!({"code": "await forever({})"})).await;
    let refused = wire.invoke("session.checkpoint", json!({})).await;
    assert_eq!(*kind(&refused), json!("Busy"), "{refused}");
    let refused = wire.invoke("session.rewind", json!({"checkpoint": mark})).await;
    assert_eq!(*kind(&refused), json!("Busy"), "{refused}");
    let cancel = wire.send("invoke", json!({"binding": "session.cancel", "input": {}})).await;
    assert_eq!(*kind(&wire.answer(eval).await), json!("Cancelled"));
    wire.answer(cancel).await;
    rewind(wire, &mark).await;
}

#[tokio::test]
async fn oldest_of_too_many_checkpoints_goes() {
    let mut live = live().await;
    let wire = &mut live.wire;
    let labelled = wire.invoke("session.checkpoint", json!({"label": "first"})).await;
    let list = wire.invoke("session.checkpoints", json!({})).await["result"]["value"].clone();
    assert_eq!(
        (&list[0]["checkpoint"], &list[0]["label"]),
        (&json!(1), &json!("first")),
        "{labelled} {list}"
    );
    for _ in 0..16 {
        checkpoint(wire).await;
    }
    let list = wire.invoke("session.checkpoints", json!({})).await["result"]["value"].clone();
    assert_eq!((list.as_array().unwrap().len(), &list[0]["checkpoint"]), (16, &json!(2)), "{list}");
    let long = wire.invoke("session.checkpoint", json!({"label": "x".repeat(257)})).await;
    assert_eq!(*kind(&long), json!("InvalidInput"), "{long}");
}

#[tokio::test]
async fn full_disk_refuses_checkpoints_and_changes_nothing() {
    let sessions = SessionSettings { hibernated_bytes_max: 1 << 20, ..SessionSettings::default() };
    let mut live = live_with(sessions).await;
    let wire = &mut live.wire;
    wire.value("let big = new Uint8Array(2 << 20).fill(1); 0").await;
    let refused = wire.invoke("session.checkpoint", json!({})).await;
    assert_eq!(*kind(&refused), json!("ImagesUnavailable"), "{refused}");
    assert_eq!(wire.value("big[1000000]").await, json!(1));
    assert_eq!(wire.invoke("session.checkpoints", json!({})).await["result"]["value"], json!([]));
}
