//! Forks and their originals side by side: they take turns at the same addresses and do not notice each other.

use std::time::Duration;

use scomp::limits::Limits;
use scomp::server::settings::SessionSettings;
use serde_json::{Value, json};

use super::forks::{fork, fork_at, kind, resume};
use super::support::{Running, Wire};
use super::{Live, live, live_with};

#[tokio::test]
async fn fork_goes_on_after_the_original_has_ended() {
    for mut live in [live().await, live_with(SessionSettings::default()).await] {
        live.wire.value("let n = 1; const next = () => ++n; 0").await;
        let mut other = fork(&mut live).await;
        assert_eq!(other.value("next()").await, json!(2));
        live.wire.invoke("session.close", json!({})).await;
        assert_eq!(other.value("next()").await, json!(3));
        let mut third = {
            let forked = fork_at(&mut other, json!({})).await;
            resume(&live, &forked).await
        };
        assert_eq!((third.value("next()").await, other.value("next()").await), (json!(4), json!(4)));
    }
}

#[tokio::test]
async fn original_goes_on_after_the_fork_has_ended() {
    for mut live in [live().await, live_with(SessionSettings::default()).await] {
        live.wire.value("let n = 1; const next = () => ++n; 0").await;
        let mut other = fork(&mut live).await;
        assert_eq!((other.value("next()").await, live.wire.value("next()").await), (json!(2), json!(2)));
        assert_eq!(other.value("next()").await, json!(3));
        // It is in the slot when it ends.
        other.invoke("session.close", json!({})).await;
        assert_eq!(live.wire.value("next()").await, json!(3));
        let mut again = fork(&mut live).await;
        assert_eq!(again.value("next()").await, json!(4));
        // It is away when it ends.
        assert_eq!(live.wire.value("next()").await, json!(4));
        again.invoke("session.close", json!({})).await;
        assert_eq!(live.wire.value("next()").await, json!(5));
    }
}

#[tokio::test]
async fn reset_and_rewind_of_one_leave_the_other_alone() {
    let mut live = live_with(SessionSettings::default()).await;
    live.wire.value("let n = 1; const next = () => ++n; 0").await;
    live.wire.invoke("session.checkpoint", json!({})).await;
    let mut other = fork(&mut live).await;
    assert_eq!((other.value("next()").await, live.wire.value("next()").await), (json!(2), json!(2)));
    for _ in 0..3 {
        other.invoke("session.reset", json!({})).await;
        assert_eq!(other.value("typeof next").await, json!("undefined"));
        assert_eq!(live.wire.value("n").await, json!(2));
        // From a slot of its own back to the one that it shares.
        other.invoke("session.rewind", json!({"checkpoint": 1})).await;
        assert_eq!((live.wire.value("n").await, other.value("[n, next()]").await), (json!(2), json!([1, 2])));
    }
    live.wire.invoke("session.rewind", json!({"checkpoint": 1})).await;
    assert_eq!((other.value("n").await, live.wire.value("n").await), (json!(2), json!(1)));
    live.wire.invoke("session.reset", json!({})).await;
    assert_eq!(other.value("next()").await, json!(3));
}

/// A loop that depends on the heap at every step, in several slices.
const LOOP: &str = "
    let sum = SEED;
    for (let i = 0; i < 30_000; i += 1) {
      const key = 'k' + i % 100;
      table.set(key, { sum, before: table.get(key)?.sum ?? 0 });
      sum = (Math.imul(sum, 31) + table.get(key).before + i) | 0;
    }
    [sum, table.size]";

fn expected(seed: i32) -> Value {
    let mut table = std::collections::HashMap::new();
    let mut sum = seed;
    for i in 0..30_000 {
        let before = table.insert(i % 100, sum).unwrap_or(0);
        sum = sum.wrapping_mul(31).wrapping_add(before).wrapping_add(i);
    }
    json!([sum, 100])
}

#[tokio::test]
async fn siblings_take_turns_in_long_loops() {
    let limits = Limits { wall_ms_max: 120_000, cpu_ms_max: 60_000, ..Limits::default() };
    let running = Running::on_shards(1, limits, SessionSettings::default()).await;
    let wire = Wire::live(&running.url).await;
    let mut live = Live { running, wire };
    live.wire.value("const table = new Map(); 0").await;
    let mut wires = vec![fork(&mut live).await, fork(&mut live).await];
    wires.push(live.wire);
    for round in 0..2 {
        let mut sent = Vec::new();
        for (seed, wire) in wires.iter_mut().enumerate() {
            let code = LOOP.replace("SEED", &(seed + 10 * round).to_string());
            let code = format!("{{ table.clear(); {code} }}");
            sent.push(wire.send("eval", json!({"code": code})).await);
        }
        for (seed, (wire, id)) in wires.iter_mut().zip(sent).enumerate() {
            let answer = wire.answer(id).await;
            let seed = i32::try_from(seed + 10 * round).unwrap();
            assert_eq!(answer["result"]["value"], expected(seed), "{answer}");
        }
    }
}

#[tokio::test]
async fn suspended_sibling_is_cancelled_and_ended_while_away() {
    let mut live = live_with(SessionSettings::default()).await;
    live.wire.value("let n = 0; 0").await;
    let (mut first, mut second) = (fork(&mut live).await, fork(&mut live).await);
    let endless = json!({"code": "for (;;) n += 1;"});
    let (one, two) = (first.send("eval", endless.clone()).await, second.send("eval", endless.clone()).await);
    assert_eq!(live.wire.value("n").await, json!(0));
    first.send("invoke", json!({"binding": "session.cancel", "input": {}})).await;
    assert_eq!(*kind(&first.answer(one).await), json!("Cancelled"));
    second.send("invoke", json!({"binding": "session.close", "input": {}})).await;
    assert_eq!(*kind(&second.answer(two).await), json!("SessionClosed"));
    assert_eq!(first.value("n > 0").await, json!(true));
    assert_eq!(live.wire.value("n").await, json!(0));
}

#[tokio::test]
async fn fork_counts_as_a_session() {
    let mut live = live_with(SessionSettings { sessions_max: 2, ..SessionSettings::default() }).await;
    let forked = fork_at(&mut live.wire, json!({})).await;
    assert_eq!(live.metric("scomp_sessions").await, 2.0);
    let refused = live.wire.invoke("session.fork", json!({})).await;
    assert_eq!(*kind(&refused), json!("Busy"), "{refused}");
    let mut other = resume(&live, &forked).await;
    other.invoke("session.close", json!({})).await;
    while live.metric("scomp_sessions").await > 1.0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    fork(&mut live).await;
}

#[tokio::test]
async fn family_has_a_limit_and_room_again() {
    let mut live = live().await;
    let mut last = fork_at(&mut live.wire, json!({})).await;
    for _ in 2..64 {
        last = fork_at(&mut live.wire, json!({})).await;
    }
    let refused = live.wire.invoke("session.fork", json!({})).await;
    assert_eq!(*kind(&refused), json!("Busy"), "{refused}");
    let mut other = resume(&live, &last).await;
    assert_eq!(*kind(&other.invoke("session.fork", json!({})).await), json!("Busy"));
    other.invoke("session.close", json!({})).await;
    loop {
        let answer = live.wire.invoke("session.fork", json!({})).await;
        if answer.get("result").is_some() {
            break;
        }
        assert_eq!(*kind(&answer), json!("Busy"), "{answer}");
    }
}

#[tokio::test]
async fn fork_without_room_for_detached_sessions_is_refused() {
    let mut live = live_with(SessionSettings { detached_max: 0, ..SessionSettings::default() }).await;
    let refused = live.wire.invoke("session.fork", json!({})).await;
    assert_eq!(*kind(&refused), json!("Busy"), "{refused}");
    assert_eq!(live.wire.value("1 + 1").await, json!(2));
}

#[tokio::test]
async fn fork_that_cannot_be_made_changes_nothing() {
    let sessions = SessionSettings { hibernated_bytes_max: 1 << 20, ..SessionSettings::default() };
    let mut live = live_with(sessions).await;
    live.wire.value("let big = new Uint8Array(2 << 20).fill(1); 0").await;
    let refused = live.wire.invoke("session.fork", json!({})).await;
    assert_eq!(*kind(&refused), json!("ImagesUnavailable"), "{refused}");
    assert_eq!(live.wire.value("big[1000000]").await, json!(1));
    assert_eq!(live.metric("scomp_sessions").await, 1.0, "its place is free again");
    let unknown = live.wire.invoke("session.fork", json!({"checkpoint": 7})).await;
    assert_eq!(*kind(&unknown), json!("UnknownCheckpoint"), "{unknown}");
    for wrong in [json!({"checkpoint": "1"}), json!({"checkpoint": -1}), json!({"checkpoints": 1}), json!(7)]
    {
        let refused = live.wire.invoke("session.fork", wrong).await;
        assert_eq!(*kind(&refused), json!("InvalidInput"), "{refused}");
    }
    let eval = live.wire.send("eval", json!({"code": "await forever({})"})).await;
    let busy = live.wire.invoke("session.fork", json!({})).await;
    assert_eq!(*kind(&busy), json!("Busy"), "{busy}");
    let fork = live.wire.send("invoke", json!({"binding": "session.fork", "input": {}})).await;
    live.wire.send("invoke", json!({"binding": "session.close", "input": {}})).await;
    assert_eq!(*kind(&live.wire.answer(fork).await), json!("Busy"));
    assert_eq!(*kind(&live.wire.answer(eval).await), json!("SessionClosed"));
}

/// Forks of forks at random, each with a model of what it has to be; every heap leaves memory after every turn, or none.
#[tokio::test]
async fn forks_at_random_behave_like_sessions_alone() {
    for (seed, mut live) in [(1, live().await), (2, live_with(SessionSettings::default()).await)] {
        let mut random = fastrand::Rng::with_seed(seed);
        live.wire
            .value(
                "let sum = 0, list = [], map = new Map();
                 const step = async (n) => {
                   list.push({ n, text: 'x'.repeat(n % 97) });
                   if (list.length > 40) list.splice(0, n % 40);
                   map.set('k' + n % 50, list.at(-1));
                   await null;
                   sum = (Math.imul(sum, 31) + await echo(n) + map.size + list.length) | 0;
                   return sum;
                 }; 0",
            )
            .await;
        let first = Wire::live(&live.running.url).await;
        let mut sessions = vec![(std::mem::replace(&mut live.wire, first), super::stress::Model::default())];
        for _ in 0..400 {
            let at = random.usize(..sessions.len());
            match random.u8(..20) {
                0 if sessions.len() < 8 => {
                    let (wire, model) = &mut sessions[at];
                    let (forked, model) = (fork_at(wire, json!({})).await, model.clone());
                    sessions.push((resume(&live, &forked).await, model));
                }
                1 if sessions.len() > 1 => {
                    let (mut wire, _) = sessions.swap_remove(at);
                    wire.invoke("session.close", json!({})).await;
                }
                _ => {
                    let n = random.u64(..1_000);
                    let (wire, model) = &mut sessions[at];
                    let value = wire.value(&format!("await step({n})")).await;
                    assert_eq!(value, json!(model.step(n)));
                }
            }
        }
        let mut sent = Vec::new();
        for (wire, _) in &mut sessions {
            let code = "for (let i = 0; i < 300; i += 1) await step(i); sum";
            sent.push(wire.send("eval", json!({"code": code})).await);
        }
        for ((wire, model), id) in sessions.iter_mut().zip(sent) {
            let sum = (0..300).map(|n| model.step(n)).last();
            assert_eq!(wire.answer(id).await["result"]["value"], json!(sum));
        }
    }
}
