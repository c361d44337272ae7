//! The same work on ours, its floors and its peers, group by group, in turns within one run.

mod density;
mod fairness;
mod latency;
mod scaling;
mod throughput;

use anyhow::Result;

use crate::Scale;
use crate::client::{Client, check};
use crate::contender::{Contender, Part, servers};
use crate::proc::Placement;
use crate::scripts::Script;
use crate::server::Served;
use crate::stats::{Figure, Samples};
use crate::table::{Row, Unit};

/// One thing that is measured, and the result of each contender.
pub(crate) struct Case {
    pub(crate) group: Group,
    pub(crate) what: String,
    pub(crate) unit: Unit,
    /// Where it stands on the axis of its group, if that has one.
    pub(crate) at: Option<f64>,
    pub(crate) entries: Vec<Entry>,
}

/// How one contender did.
pub(crate) struct Entry {
    pub(crate) who: &'static str,
    pub(crate) part: Part,
    pub(crate) median: Figure,
    /// The median of its least disturbed round.
    pub(crate) best: f64,
}

/// Cases that make one plot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Latency,
    Throughput,
    Density,
    Fairness,
    StartUp,
    ReverseInvoke,
    BindingCall,
    Sessions,
    Payload,
}

impl Group {
    /// In the order of the report.
    pub(crate) const ALL: [Self; 9] = [
        Self::Latency,
        Self::Throughput,
        Self::Density,
        Self::Fairness,
        Self::StartUp,
        Self::ReverseInvoke,
        Self::BindingCall,
        Self::Sessions,
        Self::Payload,
    ];

    /// Its name in files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Throughput => "throughput",
            Self::Density => "density",
            Self::Fairness => "fairness",
            Self::StartUp => "start-up",
            Self::ReverseInvoke => "reverse-invoke",
            Self::BindingCall => "binding-call",
            Self::Sessions => "sessions",
            Self::Payload => "payload",
        }
    }

    /// What it shows.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Latency => "Latency: one eval at a time, there and back",
            Self::Throughput => "Throughput: 1+1 on 64 connections with 16 evals in flight each",
            Self::Density => "Density: resident memory of an idle session",
            Self::Fairness => "Fairness: 1+1 beside eight endless loops",
            Self::StartUp => "Start-up: connect, handshake, first eval",
            Self::ReverseInvoke => "Reverse-invoke: an eval that calls its client once",
            Self::BindingCall => "Binding call: one call of the host, out of 100 in an eval",
            Self::Sessions => "Scaling with sessions: 1+1 beside so many idle ones",
            Self::Payload => "Scaling with payload: a value of so many bytes, sent as code and given back",
        }
    }
}

impl Case {
    /// How the one of that name did.
    fn median_of(&self, who: &str) -> Option<Figure> {
        self.entries.iter().find(|entry| entry.who == who).map(|entry| entry.median)
    }

    /// How many times better ours is than that entry; below one, ours is worse.
    pub(crate) fn advantage(&self, entry: &Entry) -> Option<f64> {
        let ours = self.entries.iter().find(|entry| entry.part == Part::Ours)?.median.value;
        let theirs = entry.median.value;
        Some(match self.unit {
            Unit::Time | Unit::Memory => theirs / ours,
            Unit::Rate => ours / theirs,
        })
    }
}

/// Runs every group.
pub(crate) async fn run(scale: Scale) -> Result<Vec<Case>> {
    let servers = servers();
    let mut cases = Vec::new();
    cases.extend(latency::evals(&servers, scale).await?);
    cases.extend(latency::first_evals(&servers, scale).await?);
    // What asks for all that the machine has may use all of it.
    Placement::Anywhere.set(&[]);
    cases.extend(throughput::evals(&servers, scale).await?);
    cases.extend(density::idle_sessions(&servers, scale).await?);
    cases.extend(fairness::beside_endless_loops(&servers, scale).await?);
    cases.extend(scaling::with_sessions(scale).await?);
    cases.extend(scaling::with_payload(&servers, scale).await?);
    Placement::Anywhere.set(&[]);
    Ok(cases)
}

/// The goals that follow from the results of all contenders.
pub(crate) fn goals(cases: &[Case]) -> Vec<Row> {
    [scaling::goals(cases), throughput::goals(cases)].concat()
}

/// A contender that runs, with a connection and what was measured of it.
struct Runner {
    contender: Contender,
    server: Served,
    client: Client,
    samples: Samples,
}

impl Runner {
    async fn start(contender: &Contender) -> Result<Self> {
        let server = contender.start()?;
        let client = match contender.part {
            Part::Floor => Client::dial(server.address()).await?,
            Part::Ours | Part::Peer => Client::open_session(server.address()).await?,
        };
        Ok(Self { contender: contender.clone(), server, client, samples: Samples::default() })
    }

    /// Evaluates so many times, each checked. An echo only returns the frame.
    async fn round(&mut self, script: Script, count: usize) -> Result<()> {
        self.samples.start_round();
        for _ in 0..count {
            let text = self.client.eval_text(script.code);
            let start = std::time::Instant::now();
            let answer = match self.calls_client(script) {
                true => self.client.exchange_with_invoke(text).await?,
                false => self.client.exchange(text).await?,
            };
            self.samples.add_time(start.elapsed());
            if self.contender.part != Part::Floor {
                check(&answer, script.answer)?;
            }
        }
        Ok(())
    }

    fn calls_client(&self, script: Script) -> bool {
        self.contender.part != Part::Floor && script.code.contains("notify(")
    }

    /// What was measured so far; measuring begins anew.
    fn take_entry(&mut self, per: f64) -> Entry {
        let samples = std::mem::take(&mut self.samples);
        Entry {
            who: self.contender.name,
            part: self.contender.part,
            median: samples.median().per(per),
            best: samples.best_round().value / per,
        }
    }
}

/// Starts them all, on cores apart from the client's.
async fn start_all(contenders: &[Contender]) -> Result<Vec<Runner>> {
    let mut runners = Vec::new();
    for contender in contenders {
        runners.push(Runner::start(contender).await?);
    }
    place_apart(runners.iter().map(|runner| &runner.server));
    Ok(runners)
}

/// Where the system cannot pin processes, they run wherever the scheduler puts them.
fn place_apart<'a>(servers: impl Iterator<Item = &'a Served>) {
    let pids: Vec<u32> = servers.map(Served::pid).collect();
    Placement::Apart.set(&pids);
}
