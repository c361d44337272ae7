//! Random protocol traffic from 24 clients against the real program: requests, answers, resets, closes, resumes, cancels,
//! releases, invokes, keyed evals, take-overs, and connections that end in the packet of their last request.
//!
//! What must hold all the time: the process lives and does not panic; each answered id was asked and is answered once; a
//! keyed eval runs at most once and returns the same answer to every repeat; every request on a connection that stays open
//! is answered. After each round all clients leave, and sessions, connections, references and queued evals go back to
//! zero, and memory settles.
//!
//! The seed decides what each client does; when the server does its part is up to the machine, so a failure may need
//! several runs of its seed. `cargo test --test state_fuzz` is a short run. A long one, as in `.ci/nightly`:
//!
//! ```sh
//! STATE_FUZZ_SEED=7 STATE_FUZZ_SECONDS=120 cargo test --test state_fuzz -- --nocapture
//! ```
//!
//! `STATE_FUZZ_PROGRAM` names another build of the program, such as an optimised one.
#![allow(clippy::unwrap_used, missing_docs)]

mod client;
mod code;
mod link;
mod operations;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::Client;
use server::Server;
use tokio::task::JoinSet;

/// Clients at the same time.
const CLIENTS: u64 = 24;

/// The seed of the run inside `cargo test`.
const SEED_DEFAULT: u64 = 1;

/// Seconds of traffic of that run. Long enough for some ten thousand messages.
const SECONDS_DEFAULT: u64 = 6;

/// Seconds of traffic between two looks at what is left.
const ROUND_SECONDS_MAX: u64 = 20;

/// What memory may grow by between the first round and the last. The allocators keep some of what was freed.
const GROWTH_BYTES_MAX: u64 = 96 << 20;

/// What the clients did, for the report.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) connects: AtomicU64,
    pub(crate) resumes: AtomicU64,
    pub(crate) packets: AtomicU64,
    pub(crate) messages: AtomicU64,
    pub(crate) answers: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) keyed_runs: AtomicU64,
    pub(crate) keyed_repeats: AtomicU64,
    pub(crate) resets: AtomicU64,
    pub(crate) abrupt_ends: AtomicU64,
    pub(crate) take_overs: AtomicU64,
    pub(crate) lost_sessions: AtomicU64,
}

/// Counts one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

/// One round of traffic; the failures of all clients.
async fn round(url: &str, seed: u64, seconds: u64, counts: &Arc<Counts>) -> Vec<String> {
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let name = format!("{seed}-{number}");
        let rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
        let client = Client::new(name, url.to_owned(), rng, Arc::clone(counts));
        clients.spawn(client.run(until));
    }
    let mut failures = Vec::new();
    while let Some(done) = clients.join_next().await {
        match done {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => failures.push(failure),
            Err(panic) => failures.push(panic.to_string()),
        }
    }
    failures
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_traffic_breaks_no_promise() {
    let seed = number("STATE_FUZZ_SEED", SEED_DEFAULT);
    let seconds = number("STATE_FUZZ_SECONDS", SECONDS_DEFAULT);
    println!("state fuzz: seed {seed}, {seconds} s");
    let counts = Arc::new(Counts::default());
    let mut server = Server::start().await;
    let rounds = seconds.div_ceil(ROUND_SECONDS_MAX).max(2);
    let mut memory = Vec::new();
    for number in 0..rounds {
        let round_seed = seed.wrapping_mul(1_000).wrapping_add(number);
        let mut failures = round(server.url(), round_seed, seconds.div_ceil(rounds), &counts).await;
        match server.settled().await {
            Ok(bytes) => memory.push(bytes),
            Err(failure) => failures.insert(0, failure),
        }
        let (all, log, report) = (failures.join("\n"), server.log(), counts.report());
        assert!(failures.is_empty(), "seed {seed}, round {number}:\n{all}\n{log}\n{report}");
    }
    println!("state fuzz: seed {seed} held; {}; memory after each round {memory:?}", counts.report());
    let (first, last) = (memory[0], memory[memory.len() - 1]);
    assert!(last <= first + GROWTH_BYTES_MAX, "seed {seed}: memory grew: {memory:?}");
}

impl Counts {
    fn report(&self) -> String {
        let fields = [
            ("connects", &self.connects),
            ("resumes", &self.resumes),
            ("packets", &self.packets),
            ("messages", &self.messages),
            ("answers", &self.answers),
            ("calls to clients", &self.calls),
            ("keyed runs", &self.keyed_runs),
            ("keyed repeats", &self.keyed_repeats),
            ("resets", &self.resets),
            ("abrupt ends", &self.abrupt_ends),
            ("take-overs", &self.take_overs),
            ("lost sessions", &self.lost_sessions),
        ];
        let texts = fields.map(|(name, counter)| format!("{} {name}", counter.load(Ordering::Relaxed)));
        texts.join(", ")
    }
}
