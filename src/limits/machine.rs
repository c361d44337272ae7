//! How much memory there is for this process: that of the machine, or less where a control group says so.

use std::path::Path;
use std::sync::OnceLock;

/// Assumed where the system does not report it: small enough for any machine that runs a server.
const ASSUMED_BYTES: usize = 4 << 30;

/// Memory that this process may use.
pub fn memory_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of(&text));
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let group = group_limit(&groups, |path| std::fs::read_to_string(path).ok());
        machine.into_iter().chain(group).min().unwrap_or(ASSUMED_BYTES)
    })
}

/// `MemTotal` of `/proc/meminfo`.
fn total_of(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: usize = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The least limit of the control groups that the process is in, and of those above them. A container often sees its
/// own group as the root, so the root is read too.
fn group_limit(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<usize> {
    let limit_at = |path: &Path| read(path)?.trim().parse::<usize>().ok();
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let groups = Path::new(group).ancestors();
        limits.extend(groups.filter_map(|group| {
            limit_at(&Path::new(root).join(group.strip_prefix("/").unwrap_or(group)).join(file))
        }));
    }
    limits.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_of_meminfo_is_read_in_bytes() {
        assert_eq!(total_of("MemTotal:       24689764 kB\nMemFree: 1 kB\n"), Some(24_689_764 << 10));
        assert_eq!(total_of("nothing\n"), None);
    }

    #[test]
    fn group_limit_is_the_least_on_the_way_to_the_root() {
        let read = |path: &Path| match path.to_str()? {
            "/sys/fs/cgroup/a/b/memory.max" => Some("max\n".to_owned()),
            "/sys/fs/cgroup/a/memory.max" => Some("500\n".to_owned()),
            "/sys/fs/cgroup/memory.max" => Some("900\n".to_owned()),
            "/sys/fs/cgroup/memory/c/memory.limit_in_bytes" => Some("700\n".to_owned()),
            _ => None,
        };
        assert_eq!(group_limit("0::/a/b\n", read), Some(500));
        assert_eq!(group_limit("0::/\n", read), Some(900));
        assert_eq!(group_limit("5:cpu:/c\n4:memory:/c\n", read), Some(700));
        assert_eq!(group_limit("0::/x\nnonsense\n", |_| None), None);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(memory_bytes() > 64 << 20);
    }
}
