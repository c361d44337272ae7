//! Many connections with many evals in flight: how many a second, and the CPU time of each.

use std::time::Instant;

use anyhow::Result;
use futures_util::future::try_join_all;

use super::latency::QUICKJS_ALONE;
use super::{Case, Entry, Group};
use crate::client::Client;
use crate::contender::{Contender, Part, batched_echo, echo, ours};
use crate::scripts::{AGENT, ONE_PLUS_ONE, Script};
use crate::server::Served;
use crate::stats::{Samples, nanoseconds};
use crate::table::{Goal, Row, Unit};
use crate::{Scale, proc};

const CONNECTIONS: usize = 64;
const IN_FLIGHT: usize = 16;

/// What the goal of calls of the host is measured against.
const DENO: &str = "Deno, node:vm";

const AGENT_CPU: &str = "CPU time of the server for an agent script";

struct Loaded {
    contender: Contender,
    server: Served,
    clients: Vec<Client>,
    cpu_ns: Samples,
    per_second: Samples,
}

/// Requests a second and CPU time of a request, in turns.
pub(crate) async fn evals(servers: &[Contender], scale: Scale) -> Result<Vec<Case>> {
    let mut all = Vec::new();
    for contender in [&[echo(), batched_echo()], servers].concat() {
        all.push(Loaded::start(contender).await?);
    }
    in_turns(&mut all, ONE_PLUS_ONE, scale.of(200)).await?;
    let case = |what: &str, unit, samples: fn(&Loaded) -> &Samples| Case {
        group: Group::Throughput,
        what: what.to_owned(),
        unit,
        at: None,
        entries: all.iter().map(|loaded| loaded.entry(unit, samples(loaded))).collect(),
    };
    let mut cases = vec![
        case("evals of 1+1 a second", Unit::Rate, |loaded| &loaded.per_second),
        case("CPU time of the server for each", Unit::Time, |loaded| &loaded.cpu_ns),
    ];
    // An echo of a script is not a floor for it.
    all.retain(|loaded| loaded.contender.part != Part::Floor);
    in_turns(&mut all, AGENT, scale.of(20)).await?;
    let entries = all.iter().map(|loaded| loaded.entry(Unit::Time, &loaded.cpu_ns)).collect();
    cases.push(Case {
        group: Group::Throughput,
        what: AGENT_CPU.to_owned(),
        unit: Unit::Time,
        at: None,
        entries,
    });
    Ok(cases)
}

/// One round for each to warm up, then five that count; what was measured before is forgotten.
async fn in_turns(all: &mut [Loaded], script: Script, per_connection: usize) -> Result<()> {
    for loaded in &mut *all {
        loaded.round(script, IN_FLIGHT).await?;
        (loaded.cpu_ns, loaded.per_second) = Default::default();
    }
    for _ in 0..5 {
        for loaded in &mut *all {
            loaded.round(script, per_connection).await?;
        }
    }
    Ok(())
}

/// CPU time of a script with ten calls of the host, against Deno's, where that is installed.
pub(crate) fn goals(cases: &[Case]) -> Vec<Row> {
    let of = |what: &str, who: &str| cases.iter().find(|case| case.what == what)?.median_of(who);
    let Some(ours) = of(AGENT_CPU, ours().name) else { return Vec::new() };
    let row = |what: &str, floor, goal| Row { what: what.to_owned(), unit: Unit::Time, ours, floor, goal };
    let deno = of(AGENT_CPU, DENO);
    let mut rows = Vec::new();
    if deno.is_some() {
        rows.push(row("agent script, 10 host calls, CPU at 64 x 16 / Deno", deno, Goal::RatioMax(1.5)));
    }
    let alone = of(AGENT.name, QUICKJS_ALONE);
    rows.push(row("- the same / QuickJS alone, one context, one at a time", alone, Goal::Shown));
    rows
}

impl Loaded {
    async fn start(contender: Contender) -> Result<Self> {
        let server = contender.start()?;
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            clients.push(match contender.part {
                Part::Floor => Client::dial(server.address()).await?,
                Part::Ours | Part::Peer => Client::open_session(server.address()).await?,
            });
        }
        let (cpu_ns, per_second) = Default::default();
        Ok(Self { contender, server, clients, cpu_ns, per_second })
    }

    async fn round(&mut self, script: Script, per_connection: usize) -> Result<()> {
        let expected = match self.contender.part {
            Part::Floor => script.code,
            Part::Ours | Part::Peer => script.answer,
        };
        let before = proc::cpu_time(self.server.pid())?;
        let start = Instant::now();
        let running = self.clients.iter_mut();
        try_join_all(running.map(|client| client.pipeline(script.code, IN_FLIGHT, per_connection, expected)))
            .await?;
        let took = start.elapsed();
        let spent = proc::cpu_time(self.server.pid())?.saturating_sub(before);
        let requests = (CONNECTIONS * per_connection) as f64;
        self.cpu_ns.start_round();
        self.cpu_ns.add(nanoseconds(spent) / requests);
        self.per_second.start_round();
        self.per_second.add(requests / took.as_secs_f64());
        Ok(())
    }

    fn entry(&self, unit: Unit, samples: &Samples) -> Entry {
        let best = match unit {
            Unit::Rate => samples.highest_round(),
            Unit::Time | Unit::Memory => samples.best_round(),
        };
        Entry {
            who: self.contender.name,
            part: self.contender.part,
            median: samples.median(),
            best: best.value,
        }
    }
}
