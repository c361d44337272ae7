//! A session that asks for little beside eight that ask for everything.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Case, Entry, Group, Runner};
use crate::Scale;
use crate::client::Client;
use crate::contender::{Contender, Part};
use crate::scripts::{ENDLESS, ONE_PLUS_ONE};
use crate::table::Unit;

/// Endless loops beside the session.
const LOOPS: usize = 8;

/// How long the session is watched. An eval that waits is waited for, however long that takes.
const WATCHED: Duration = Duration::from_millis(1_200);

/// How long the loops get to start.
const SETTLE: Duration = Duration::from_millis(100);

/// The median and the worst of what the good session sees.
pub(crate) async fn beside_endless_loops(servers: &[Contender], scale: Scale) -> Result<Vec<Case>> {
    let (mut medians, mut worst) = (Vec::new(), Vec::new());
    for contender in servers {
        let mut runner = Runner::start(contender).await?;
        runner.round(ONE_PLUS_ONE, 20).await?;
        runner.samples = Default::default();
        for _ in 0..scale.of(2) {
            watch(&mut runner).await?;
        }
        let p99 = runner.samples.p99();
        let entry = runner.take_entry(1.0);
        worst.push(Entry { who: entry.who, part: entry.part, median: p99, best: p99.value });
        medians.push(entry);
    }
    let case = |what: &str, entries| Case {
        group: Group::Fairness,
        what: what.to_owned(),
        unit: Unit::Time,
        at: None,
        entries,
    };
    Ok(vec![case("median of 1+1", medians), case("99 of 100 evals of 1+1 take at most", worst)])
}

async fn watch(runner: &mut Runner) -> Result<()> {
    let mut loops = Vec::new();
    for _ in 0..LOOPS {
        loops.push(Client::open_session(runner.server.address()).await?);
    }
    for client in &mut loops {
        let text = client.eval_text(ENDLESS);
        client.send(text).await?;
    }
    tokio::time::sleep(SETTLE).await;
    let start = Instant::now();
    while start.elapsed() < WATCHED {
        runner.round(ONE_PLUS_ONE, 1).await?;
    }
    for client in &mut loops {
        match runner.contender.part {
            Part::Ours => client.cancel_eval().await?,
            // A peer cannot be asked to stop: its time limit ends the loop, with an error.
            Part::Peer | Part::Floor => drop(client.receive().await?),
        }
    }
    Ok(())
}
