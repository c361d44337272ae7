//! Sessions whose heap leaves memory and comes back, over the wire: their clients notice nothing.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, missing_docs)]

mod checkpoints;
mod forks;
mod idle;
mod kinds;
mod refusals;
mod siblings;
mod stress;
#[path = "../support/mod.rs"]
mod support;

use scomp::limits::Limits;
use scomp::server::settings::SessionSettings;
use support::{Running, Wire};

/// A server with one shard, and a connection to it.
struct Live {
    running: Running,
    wire: Wire,
}

async fn live_with(sessions: SessionSettings) -> Live {
    let running = Running::on_shards(1, Limits::default(), sessions).await;
    let wire = Wire::live(&running.url).await;
    Live { running, wire }
}

/// Every turn ends with the heap out of memory.
async fn live() -> Live {
    live_with(SessionSettings { hibernate_every_turn: true, ..SessionSettings::default() }).await
}

impl Live {
    /// A number of the metrics.
    async fn metric(&self, name: &str) -> f64 {
        metric(&self.running, name).await
    }

    /// Waits until so many sessions have no heap in memory.
    async fn hibernated(&self, count: f64) {
        while self.metric("scomp_sessions_hibernated").await < count {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

async fn metric(running: &Running, name: &str) -> f64 {
    let page = running.metrics().await;
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |number| number.parse().unwrap())
}
