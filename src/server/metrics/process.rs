//! What the system knows of this process, under the names that Prometheus clients use; nothing where it does not say.

use std::fs;

use super::metric;

/// Ticks of the kernel's clock per second, as every Linux reports them to programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// Adds the metrics of the process.
pub(super) fn write(text: &mut String) {
    if let Some(bytes) = status_kibibytes("VmRSS:").map(|kibibytes| kibibytes << 10) {
        metric(text, "gauge", "scomp_memory_bytes", "Memory of the process in RAM", bytes);
        metric(text, "gauge", "process_resident_memory_bytes", "The same, by its usual name", bytes);
    }
    if let Some(stat) = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(Stat::parse) {
        metric(text, "counter", "process_cpu_seconds_total", "CPU time of the process", stat.cpu_seconds);
        metric(text, "gauge", "process_threads", "Threads of the process", stat.threads);
        if let Some(boot) = boot_seconds() {
            let started = boot + stat.started_after_boot;
            metric(
                text,
                "gauge",
                "process_start_time_seconds",
                "When the process started, in Unix time",
                started,
            );
        }
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd").map(Iterator::count) {
        // One of them is the folder that is read here.
        metric(text, "gauge", "process_open_fds", "Open file descriptors", open.saturating_sub(1));
    }
    if let Some(most) = descriptors_max() {
        metric(text, "gauge", "process_max_fds", "Most file descriptors that may be open", most);
    }
}

/// What `/proc/self/stat` says.
#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    threads: u64,
    started_after_boot: f64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name of the program stands in brackets and may contain anything.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        // Numbered from 3 in the manual.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) as f64 / TICKS_PER_SECOND,
            threads: field(20)?,
            started_after_boot: field(22)? as f64 / TICKS_PER_SECOND,
        })
    }
}

fn boot_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn descriptors_max() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn status_kibibytes(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_behind_the_name_of_the_program() {
        let text =
            "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 1200 1000 10 18446744073709551615";
        let expected = Stat { cpu_seconds: 3.0, threads: 9, started_after_boot: 12.0 };
        assert_eq!(Stat::parse(text), Some(expected));
        assert_eq!(Stat::parse("7 (a"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn every_metric_of_the_process_is_there() {
        let mut text = String::new();
        write(&mut text);
        for name in [
            "resident_memory_bytes",
            "cpu_seconds_total",
            "threads",
            "start_time_seconds",
            "open_fds",
            "max_fds",
        ] {
            assert!(text.contains(&format!("\nprocess_{name} ")), "{name} is not in {text}");
        }
    }
}
