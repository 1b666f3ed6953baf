//! What the operating system says about memory: the one file that asks it.
//!
//! On Linux a container's limit counts like the machine's end. A Mac does not say in one number what is available; there only
//! the process's own footprint is watched.

use std::path::Path;
use std::sync::OnceLock;

use super::{Measure, Meter};

/// The operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Meter for System {
    fn measure(&self) -> Option<Measure> {
        Some(Measure { footprint_bytes: footprint_bytes()?, available_bytes: available_bytes() })
    }
}

/// What this process takes. Pages of files, which the system drops when memory is short, are left out where it tells them apart: a
/// model that is being loaded shows them beside its weights and would seem to take twice its size.
fn footprint_bytes() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/status").ok().and_then(|status| field(&status, "RssAnon:"));
    own.or_else(|| Some(memory_stats::memory_stats()?.physical_mem as u64))
}

/// Memory that can be taken now without pushing anything out. Where the system does not say, all there is; `None` where
/// it does not even say that.
pub fn free_bytes() -> Option<u64> {
    available_bytes().or_else(installed_bytes)
}

/// All memory that this process could ever get: the machine's, or its container's limit.
pub fn installed_bytes() -> Option<u64> {
    static INSTALLED: OnceLock<Option<u64>> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        let machine = meminfo("MemTotal:").or_else(|| {
            let sysctl = std::process::Command::new("sysctl").args(["-n", "hw.memsize"]).output().ok()?;
            String::from_utf8(sysctl.stdout).ok()?.trim().parse().ok()
        });
        smaller(container().map(|container| container.limit), machine)
    })
}

fn available_bytes() -> Option<u64> {
    let left = container().map(|Container { limit, used, cached }| limit.saturating_sub(used.saturating_sub(cached)));
    smaller(left, meminfo("MemAvailable:"))
}

fn smaller(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

/// What a container may take, takes, and would give back.
struct Container {
    limit: u64,
    used: u64,
    /// Files that were read and can be dropped. Without this a container that has loaded a model looks full.
    cached: u64,
}

fn container() -> Option<Container> {
    let kinds = [
        ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"],
        [
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
            "/sys/fs/cgroup/memory/memory.stat",
        ],
    ];
    kinds.iter().find_map(|[limit, used, stat]| {
        let cached = std::fs::read_to_string(stat).map_or(0, |stat| cached(&stat));
        Some(Container { limit: number(limit)?, used: number(used)?, cached })
    })
}

/// Inactive pages of files, and half of the active ones: the kernel's own rule of thumb for what is available.
fn cached(stat: &str) -> u64 {
    let field = |name: &str| -> u64 {
        let lines = stat.lines().filter_map(|line| line.split_once(' '));
        lines.filter(|(key, _)| *key == name).find_map(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
    };
    field("inactive_file") + field("active_file") / 2
}

fn number(path: &str) -> Option<u64> {
    std::fs::read_to_string(Path::new(path)).ok()?.trim().parse().ok()
}

fn meminfo(name: &str) -> Option<u64> {
    field(&std::fs::read_to_string("/proc/meminfo").ok()?, name)
}

fn field(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    //! The forms that Linux writes.

    use super::*;

    #[test]
    fn fields_by_their_whole_name() {
        let text = "VmRSS:\t  70 kB\nRssAnon:\t   6 kB\nRssFile:\t  64 kB\n";
        assert_eq!(field(text, "RssAnon:"), Some(6144), "a process's own pages");
        let text = "MemTotal: 9 kB\nMemAvailable:    2 kB\n";
        assert_eq!(field(text, "MemAvailable:"), Some(2048));
        assert_eq!(field(text, "MemTotal:"), Some(9216));
        assert_eq!(field("MemAvailable: much", "MemAvailable:"), None);
    }

    #[test]
    fn what_a_container_would_give_back() {
        assert_eq!(cached("anon 5\nfile 700\ninactive_file 100\nactive_file 60\ntotal_inactive_file 9\n"), 130);
        assert_eq!(cached(""), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_answers() {
        let now = System.measure().expect("Linux says");
        let (available, installed) = (now.available_bytes.expect("Linux says"), installed_bytes().expect("Linux says"));
        assert!(now.footprint_bytes > 1 << 16 && available <= installed, "{now:?} of {installed}");
        // A page that is touched is counted.
        let much = std::hint::black_box(vec![1u8; 64 << 20]);
        let then = System.measure().expect("Linux says").footprint_bytes;
        assert!(then >= now.footprint_bytes + (48 << 20), "{then} after {}", now.footprint_bytes);
        drop(much);
    }
}
