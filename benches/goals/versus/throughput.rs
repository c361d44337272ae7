//! Many connections with many evals in flight: how many a second, and the CPU time of each.

use std::time::Instant;

use anyhow::Result;
use futures_util::future::try_join_all;

use super::{Case, Entry, Group};
use crate::client::Client;
use crate::contender::{Contender, Part, batched_echo, echo};
use crate::scripts::ONE_PLUS_ONE;
use crate::server::Served;
use crate::stats::{Samples, nanoseconds};
use crate::table::Unit;
use crate::{Scale, proc};

const CONNECTIONS: usize = 64;
const IN_FLIGHT: usize = 16;

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
        let mut loaded = Loaded::start(contender).await?;
        loaded.round(IN_FLIGHT).await?;
        (loaded.cpu_ns, loaded.per_second) = Default::default();
        all.push(loaded);
    }
    for _ in 0..5 {
        for loaded in &mut all {
            loaded.round(scale.of(200)).await?;
        }
    }
    let case = |what: &str, unit, samples: fn(&Loaded) -> &Samples| Case {
        group: Group::Throughput,
        what: what.to_owned(),
        unit,
        at: None,
        entries: all.iter().map(|loaded| loaded.entry(unit, samples(loaded))).collect(),
    };
    Ok(vec![
        case("evals of 1+1 a second", Unit::Rate, |loaded| &loaded.per_second),
        case("CPU time of the server for each", Unit::Time, |loaded| &loaded.cpu_ns),
    ])
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

    async fn round(&mut self, per_connection: usize) -> Result<()> {
        let expected = match self.contender.part {
            Part::Floor => ONE_PLUS_ONE.code,
            Part::Ours | Part::Peer => ONE_PLUS_ONE.answer,
        };
        let before = proc::cpu_time(self.server.pid())?;
        let start = Instant::now();
        let running = self.clients.iter_mut();
        try_join_all(running.map(|client| client.pipeline(IN_FLIGHT, per_connection, expected))).await?;
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
