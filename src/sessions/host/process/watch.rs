//! Whether a worker answers, and what it uses.
//!
//! A worker answers a ping when no script runs or when a slice is over, so within milliseconds, however much its scripts
//! have to do. One that does not is stuck in a builtin, was stopped, or is not ours any more. It is ended when it has used
//! the CPU time of an eval since, or when a while has passed by the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::quota::Account;
use crate::runtime::{Claim, MemoryTotal};
use crate::worker::frame::ToWorker;

/// Time between two pings.
const PING_EVERY: Duration = Duration::from_millis(500);

/// CPU time past that of an eval after which a worker counts as stuck.
const STUCK_GRACE: Duration = Duration::from_secs(2);

/// How long a worker may be silent by the clock: a machine may be busy with other things for seconds.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What a worker last said.
#[derive(Debug, Default)]
pub(super) struct Health {
    answered: AtomicU64,
    memory_bytes: AtomicUsize,
}

impl Health {
    /// The worker answered a ping.
    pub(super) fn answer(&self, number: u64, memory_bytes: usize) {
        self.answered.store(number, Relaxed);
        self.memory_bytes.store(memory_bytes, Relaxed);
    }
}

/// Returns why the worker is to be ended.
pub(super) async fn watch(
    process: u32,
    to_worker: mpsc::Sender<ToWorker>,
    health: Arc<Health>,
    account: Arc<Account>,
    memory: Arc<MemoryTotal>,
    cpu_max: Duration,
) -> &'static str {
    let mut claim = Claim::empty(&memory);
    let mut number = 0;
    loop {
        let memory_bytes_max = memory.bytes_max().saturating_sub(memory.drawn() - claim.bytes());
        number += 1;
        let (cpu_before, sent_at) = (cpu_time(process), Instant::now());
        let mut cpu_charged = Duration::ZERO;
        // A worker that reads nothing is silent too.
        let _ = to_worker.try_send(ToWorker::Ping { number, memory_bytes_max });
        loop {
            tokio::time::sleep(PING_EVERY).await;
            let said = health.memory_bytes.load(Relaxed);
            // What it says may be wrong.
            claim.set(said.max(resident_bytes(process)));
            if health.answered.load(Relaxed) == number {
                break;
            }
            let cpu = cpu_time(process).saturating_sub(cpu_before);
            account.charge_cpu(cpu.saturating_sub(cpu_charged), Instant::now);
            cpu_charged = cpu;
            if cpu > cpu_max + STUCK_GRACE {
                return "a script did not return";
            }
            if sent_at.elapsed() > SILENCE_MAX {
                return "it does not answer";
            }
        }
    }
}

/// CPU time of the process, which has one thread.
fn cpu_time(process: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{process}/schedstat")).unwrap_or_default();
    let used = text.split(' ').next().and_then(|used| used.parse().ok());
    Duration::from_nanos(used.unwrap_or_default())
}

/// Memory of the process that no file stands behind.
fn resident_bytes(process: u32) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok());
    kib.unwrap_or_default().saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_of_a_process_is_read_from_the_system() {
        let own = std::process::id();
        assert!(resident_bytes(own) > 64 << 10);
        assert!(cpu_time(own) > Duration::ZERO);
        assert_eq!((resident_bytes(0), cpu_time(0)), (0, Duration::ZERO));
    }
}
