//! Round trips of one client: every script, a reverse-invoke, calls of the host, and the first eval of a connection.

use std::time::Instant;

use anyhow::Result;

use super::{Case, Entry, Group, Runner, place_apart, start_all};
use crate::client::{Client, check};
use crate::contender::{Contender, Part, echo};
use crate::scripts::{AGENT, FIB, HUNDRED_CALLS, JSON, NOTIFY, ONE_PLUS_ONE, Script};
use crate::server::Served;
use crate::stats::Samples;
use crate::table::Unit;
use crate::{Scale, floor};

/// Evals of one server before it is the next one's turn.
pub(crate) const EVALS_PER_ROUND: usize = 100;

/// The floor under every script.
pub(crate) const QUICKJS_ALONE: &str = "QuickJS alone";

/// What is measured: a script, how often in a round, how many rounds, and by how many its time is divided.
struct Plan {
    group: Group,
    script: Script,
    per_round: usize,
    rounds: usize,
    per: f64,
}

const PLANS: [Plan; 6] = [
    Plan { group: Group::Latency, script: ONE_PLUS_ONE, per_round: EVALS_PER_ROUND, rounds: 30, per: 1.0 },
    Plan { group: Group::Latency, script: AGENT, per_round: 50, rounds: 12, per: 1.0 },
    Plan { group: Group::Latency, script: JSON, per_round: 10, rounds: 10, per: 1.0 },
    Plan { group: Group::Latency, script: FIB, per_round: 5, rounds: 10, per: 1.0 },
    Plan { group: Group::ReverseInvoke, script: NOTIFY, per_round: 50, rounds: 20, per: 1.0 },
    Plan { group: Group::BindingCall, script: HUNDRED_CALLS, per_round: 10, rounds: 10, per: 100.0 },
];

/// Every script on every server, in turns.
pub(crate) async fn evals(servers: &[Contender], scale: Scale) -> Result<Vec<Case>> {
    let mut runners = start_all(&[&[echo()], servers].concat()).await?;
    let mut cases = Vec::new();
    for plan in PLANS {
        cases.push(measure(&plan, &mut runners, scale).await?);
    }
    Ok(cases)
}

async fn measure(plan: &Plan, runners: &mut [Runner], scale: Scale) -> Result<Case> {
    let mut raw = Samples::default();
    // The engine alone cannot call a client.
    let has_raw = plan.group != Group::ReverseInvoke;
    for runner in runners.iter_mut() {
        runner.round(plan.script, plan.per_round).await?;
        runner.samples = Samples::default();
    }
    for _ in 0..scale.of(plan.rounds) {
        for runner in runners.iter_mut() {
            runner.round(plan.script, plan.per_round).await?;
        }
        if has_raw {
            floor::script_evals(plan.script, plan.per_round, &mut raw)?;
        }
    }
    let mut entries: Vec<Entry> = runners.iter_mut().map(|runner| runner.take_entry(plan.per)).collect();
    if has_raw {
        entries.push(Entry {
            who: QUICKJS_ALONE,
            part: Part::Floor,
            median: raw.median().per(plan.per),
            best: raw.best_round().value / plan.per,
        });
    }
    // An echo of the frame is not a floor for a call inside of a script.
    if plan.group == Group::BindingCall {
        entries.retain(|entry| entry.who != echo().name);
    }
    let what = plan.script.name.to_owned();
    Ok(Case { group: plan.group, what, unit: Unit::Time, at: None, entries })
}

/// From nothing to the first value.
pub(crate) async fn first_evals(servers: &[Contender], scale: Scale) -> Result<Vec<Case>> {
    let contenders = [&[echo()], servers].concat();
    let started = contenders.iter().map(Contender::start).collect::<Result<Vec<_>>>()?;
    place_apart(started.iter());
    let mut samples: Vec<Samples> = contenders.iter().map(|_| Samples::default()).collect();
    for _ in 0..scale.of(12) {
        for ((contender, server), samples) in contenders.iter().zip(&started).zip(&mut samples) {
            samples.start_round();
            for _ in 0..8 {
                first_eval(contender.part, server, samples).await?;
            }
        }
    }
    let entries = contenders.iter().zip(&samples).map(|(contender, samples)| Entry {
        who: contender.name,
        part: contender.part,
        median: samples.median(),
        best: samples.best_round().value,
    });
    Ok(vec![Case {
        group: Group::StartUp,
        what: "connect, handshake, 1+1".to_owned(),
        unit: Unit::Time,
        at: None,
        entries: entries.collect(),
    }])
}

async fn first_eval(part: Part, server: &Served, samples: &mut Samples) -> Result<()> {
    let start = Instant::now();
    let mut client = match part {
        Part::Floor => Client::dial(server.address()).await?,
        Part::Ours | Part::Peer => Client::open_session(server.address()).await?,
    };
    let text = client.eval_text(ONE_PLUS_ONE.code);
    let answer = client.exchange(text).await?;
    samples.add_time(start.elapsed());
    match part {
        Part::Floor | Part::Peer => {}
        // Ours would keep the session for its client to come back.
        Part::Ours => return client.close_session().await,
    }
    if part == Part::Peer { check(&answer, ONE_PLUS_ONE.answer) } else { Ok(()) }
}
