//! The performance goals, and all contenders side by side: `benches/run`, or `--quick` for a tenth of the counts.
//!
//! Each goal is a ratio between the server and a floor: the least that the same machine needs for the same work without
//! it. Both sides of a ratio are measured in turns within one run, because absolute times swing with the neighbours.
//! Nothing is asserted; the table says which goals are met. The floors run in processes of their own: this program
//! started again with a role.

mod binding;
mod busy;
mod client;
mod contender;
mod echo;
mod floor;
mod latency;
mod load;
mod memory;
mod ours;
mod plot;
mod proc;
#[path = "../support/ready.rs"]
mod ready;
mod report;
mod scripts;
mod server;
mod stats;
mod table;
mod versus;

use anyhow::{Context as _, Result, bail};

use echo::Echo;

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    divisor: usize,
}

impl Scale {
    /// `count` of the full run, at this scale.
    pub(crate) fn of(self, count: usize) -> usize {
        (count / self.divisor).max(1)
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let role = arguments.iter().find_map(|argument| argument.strip_prefix(server::ROLE_FLAG));
    let has_flag = |flag: &str| arguments.iter().any(|argument| argument == flag);
    match role {
        None => measure(Scale { divisor: if has_flag("--quick") { 10 } else { 1 } }, has_flag("--write")),
        Some("echo-each") => echo::serve(Echo::Each),
        Some("echo-batched") => echo::serve(Echo::Batched),
        Some("echo-evaluated") => echo::serve(Echo::Evaluated),
        Some("busy") => busy::keep(),
        Some(other) => match other.split_once('-') {
            Some(("contexts", count)) => memory::hold_bare_contexts(count.parse()?),
            Some(("scomp", idle)) => ours::serve(idle.parse()?),
            Some(_) | None => bail!("unknown role: {other}"),
        },
    }
}

/// Runs every measurement, prints the tables, and writes the document if `writes`.
fn measure(scale: Scale, writes: bool) -> Result<()> {
    // One thread for the client, so that it takes one core at most.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let environment = environment()?;
    println!("{environment}");
    let mut rows = Vec::new();
    rows.extend(runtime.block_on(latency::round_trip(scale))?);
    rows.extend(runtime.block_on(load::cpu_per_request(scale))?);
    rows.extend(runtime.block_on(latency::reverse_invoke(scale))?);
    rows.extend(runtime.block_on(memory::sessions(scale))?);
    rows.extend(runtime.block_on(latency::first_eval(scale))?);
    rows.extend(runtime.block_on(latency::beside_endless_loops(scale))?);
    rows.extend(runtime.block_on(binding::ready_call(scale))?);
    let cases = runtime.block_on(versus::run(scale))?;
    rows.extend(versus::goals(&cases));
    println!("{}\n", table::render(&rows));
    println!("{}\n\na peer is faster:\n{}", report::side_by_side(&cases), report::faster_peers(&cases));
    if writes {
        println!("\nwritten to {}", report::write(&environment, &rows, &cases)?.display());
    }
    Ok(())
}

fn environment() -> Result<String> {
    let cores = std::thread::available_parallelism()?;
    let processor = proc::processor().unwrap_or_else(|| "unknown processor".to_owned());
    let engine = engine_version().context("the lock file names no rquickjs-sys")?;
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    Ok(format!("{cores} cores ({processor}), QuickJS-ng of rquickjs-sys {engine}, {profile} build\n"))
}

/// The lock file knows which engine was built; asking the engine itself would take `unsafe`.
fn engine_version() -> Option<&'static str> {
    let lock = include_str!("../../Cargo.lock");
    let entry = lock.split("[[package]]").find(|entry| entry.contains("name = \"rquickjs-sys\""))?;
    entry.lines().find_map(|line| line.strip_prefix("version = "))?.strip_prefix('"')?.strip_suffix('"')
}
