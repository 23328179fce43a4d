//! Facts about this machine and process from the operating system.

mod cgroup;

use std::fs;

/// Returns the number of threads that the system offers this process, by its affinity and the limits of its
/// control groups.
pub fn cores() -> usize {
    // One thread works everywhere, so a system that does not tell is no error.
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the memory in bytes that this process can get without swapping, where `/proc` reports it: the
/// available memory of the machine, or what the limit of a control group leaves.
pub fn available_bytes() -> Option<u64> {
    let free = kib_field(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    Some(limits().map_or(free, |limits| free.min(limits.available)))
}

/// Returns the memory in bytes that this process may use, where `/proc` reports it: the memory of the
/// machine, or a smaller limit of a control group, such as a container's.
pub fn memory_bytes() -> Option<u64> {
    let all = installed_bytes()?;
    Some(limits().map_or(all, |limits| all.min(limits.limit)))
}

/// Returns the memory of the machine in bytes, where `/proc` reports it.
pub fn installed_bytes() -> Option<u64> {
    kib_field(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

fn limits() -> Option<cgroup::Memory> {
    cgroup::memory(|path| fs::read_to_string(path).ok())
}

/// Returns the peak memory of this process in bytes, where `/proc` reports it.
pub fn peak_rss_bytes() -> Option<u64> {
    kib_field(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// Returns the system's policy on huge pages for large buffers, where `/sys` reports it: `always`,
/// `madvise` or `never`.
pub fn huge_pages() -> Option<String> {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn kib_field(text: &str, name: &str) -> Option<u64> {
    // `/proc` writes kB for units of 1024 bytes.
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(1024 * line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_kibibytes() {
        let text = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(kib_field(text, "VmHWM:"), Some(2 << 20));
        assert_eq!(kib_field(text, "VmSwap:"), None);
        assert_eq!(kib_field("VmHWM: many", "VmHWM:"), None);
        assert!(cores() >= 1);
    }
}
