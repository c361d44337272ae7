//! What the system knows of a process: CPU time and resident memory, from `/proc`.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};

/// CPU time of all threads of a process that live now.
///
/// From the scheduler's own account: it counts nanoseconds, where the usual `stat` counts ticks of 10 ms.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let mut total_ns: u64 = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let account = fs::read_to_string(task?.path().join("schedstat"))?;
        let run_ns = account.split_whitespace().next().context("an empty schedstat")?;
        total_ns += run_ns.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(total_ns))
}

/// Resident memory of a process, in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kilobytes = line.trim().strip_suffix("kB").context("VmRSS is not in kB")?;
    Ok(kilobytes.trim().parse::<u64>()? * 1024)
}

/// On which cores a client and its servers run.
///
/// Left alone, the scheduler puts both on one core or on two, and on a virtual machine that decides more than all else: a
/// core that sleeps takes longer to wake than an echo takes in all. So a comparison pins every process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// The client on the first core, the servers on the others: as if they were on machines of their own.
    Apart,
    /// All processes on the first core.
    Together,
    /// Wherever the scheduler likes.
    Anywhere,
}

impl Placement {
    /// Moves this process, which is the client, and the servers there; `false` where the system has no way to.
    pub(crate) fn set(self, servers: &[u32]) -> bool {
        let last = std::thread::available_parallelism().map_or(0, |cores| cores.get() - 1);
        let all = format!("0-{last}");
        let (client, server) = match self {
            Self::Apart => ("0".to_owned(), format!("{}-{last}", last.min(1))),
            Self::Together => ("0".to_owned(), "0".to_owned()),
            Self::Anywhere => (all.clone(), all),
        };
        pin(std::process::id(), &client) && servers.iter().all(|pid| pin(*pid, &server))
    }
}

/// Puts all threads of a process on these cores, such as `0` or `0-1`.
fn pin(pid: u32, cores: &str) -> bool {
    let pid = pid.to_string();
    let status = Command::new("taskset").args(["-a", "-c", "-p", cores, &pid]).stdout(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// What the machine calls its processor.
pub(crate) fn processor() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}
