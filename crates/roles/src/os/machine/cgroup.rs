//! Memory limits of control groups, as containers and systemd set them: versions 1 and 2.
//!
//! The limits of processors are in [`std::thread::available_parallelism`], which reads `cpu.max` and its
//! forerunners itself.

use std::collections::HashSet;

/// Memory that the control groups of a process allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The smallest limit in bytes.
    pub limit: u64,
    /// Bytes that the process can still get before a group reaches its limit.
    pub available: u64,
}

/// Names of the files of a version.
struct Names {
    limit: &'static str,
    used: &'static str,
    /// Field of `memory.stat` with the page cache that the system drops when memory runs short.
    cache: &'static str,
}

const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cache: "total_inactive_file",
};
const VERSION_2: Names =
    Names { limit: "memory.max", used: "memory.current", cache: "inactive_file" };

/// The mount of a hierarchy of groups.
struct Mount<'a> {
    /// The group that the mount shows as its top.
    root: &'a str,
    point: &'a str,
    names: Names,
}

/// Returns the limits of this process; `None` without a limit. `read` returns the text of a file, if it
/// can be read.
pub fn memory(read: impl Fn(&str) -> Option<String>) -> Option<Memory> {
    let groups = read("/proc/self/cgroup")?;
    let mounts = read("/proc/self/mountinfo")?;
    let all = mounts.lines().filter_map(mount).filter_map(|mount| {
        let group = groups.lines().find_map(|line| mount.group_of(line))?;
        mount.least(group, &read)
    });
    all.reduce(Memory::and)
}

/// Returns the mount of a hierarchy that limits memory, from a line of `mountinfo`.
fn mount(line: &str) -> Option<Mount<'_>> {
    // Optional fields end with a dash: the number of fields before it varies.
    let (place, system) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let root = place.next()?;
    let point = place.next()?;
    let mut system = system.split(' ');
    let names = match system.next()? {
        "cgroup2" => VERSION_2,
        "cgroup" if system.nth(1)?.split(',').any(|option| option == "memory") => VERSION_1,
        _ => return None,
    };
    Some(Mount { root, point, names })
}

impl Mount<'_> {
    /// Returns the group in a line of `/proc/self/cgroup`, if the line is about this hierarchy.
    fn group_of<'a>(&self, line: &'a str) -> Option<&'a str> {
        let (id, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        let is_version_2 = id == "0" && controllers.is_empty();
        let is_mine = match self.names.limit == VERSION_2.limit {
            true => is_version_2,
            false => controllers.split(',').any(|name| name == "memory"),
        };
        is_mine.then_some(group)
    }

    /// Returns the least memory that a group and the groups above it allow.
    fn least(&self, group: &str, read: &impl Fn(&str) -> Option<String>) -> Option<Memory> {
        // A container may see the path of its group on the host, whose upper part it has no files of.
        let below = group.strip_prefix(self.root.trim_end_matches('/')).unwrap_or_default();
        let mut below = below.trim_end_matches('/');
        let mut least: Option<Memory> = None;
        let mut seen = HashSet::new();
        while seen.insert(below) {
            let found = self.of(&format!("{}{below}", self.point.trim_end_matches('/')), read);
            least = least.into_iter().chain(found).reduce(Memory::and);
            below = below.rsplit_once('/').map_or("", |(above, _)| above);
        }
        least
    }

    /// Returns the memory that one group allows, if it has a limit.
    fn of(&self, folder: &str, read: &impl Fn(&str) -> Option<String>) -> Option<Memory> {
        let number = |name: &str| read(&format!("{folder}/{name}"))?.trim().parse::<u64>().ok();
        // `max` is no number, and means no limit.
        let limit = number(self.names.limit)?;
        let used = number(self.names.used).unwrap_or(0);
        let stat = read(&format!("{folder}/memory.stat")).unwrap_or_default();
        let mut fields = stat.lines().filter_map(|line| line.split_once(' '));
        let cache = fields.find(|(name, _)| *name == self.names.cache);
        let cache = cache.and_then(|(_, bytes)| bytes.parse().ok()).unwrap_or(0);
        Some(Memory { limit, available: limit.saturating_sub(used.saturating_sub(cache)) })
    }
}

impl Memory {
    /// Returns the memory that both limits allow.
    fn and(self, other: Self) -> Self {
        Self { limit: self.limit.min(other.limit), available: self.available.min(other.available) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files by their paths.
    fn found(files: &[(&str, &str)]) -> Option<Memory> {
        memory(|path| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).into()))
    }

    const GIB: u64 = 1 << 30;
    const MOUNT_2: &str = "24 1 0:22 / /sys rw - sysfs sysfs rw\n\
        31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn containers_of_version_2_see_their_limit_at_the_top() {
        let files = [
            ("/proc/self/cgroup", "0::/\n"),
            ("/proc/self/mountinfo", MOUNT_2),
            ("/sys/fs/cgroup/memory.max", "1073741824\n"),
            ("/sys/fs/cgroup/memory.current", "536870912\n"),
            ("/sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 268435456\nactive_file 7\n"),
        ];
        // A quarter of the limit is cache that can be dropped.
        assert_eq!(found(&files), Some(Memory { limit: GIB, available: 3 * GIB / 4 }));
        assert_eq!(found(&files[..4]), Some(Memory { limit: GIB, available: GIB / 2 }));
    }

    #[test]
    fn the_least_limit_of_all_levels_counts() {
        let service = [
            ("/proc/self/cgroup", "0::/system.slice/sudare.service\n"),
            ("/proc/self/mountinfo", MOUNT_2),
            ("/sys/fs/cgroup/system.slice/sudare.service/memory.max", "max\n"),
            ("/sys/fs/cgroup/system.slice/memory.max", "4294967296\n"),
        ];
        assert_eq!(found(&service), Some(Memory { limit: 4 * GIB, available: 4 * GIB }));
        assert_eq!(found(&service[..3]), None);
        // The upper group has the smaller limit, and the lower one less left.
        let both = [
            &service[..],
            &[
                ("/sys/fs/cgroup/system.slice/memory.current", "0"),
                ("/sys/fs/cgroup/system.slice/sudare.service/memory.current", "7516192768"),
            ],
        ]
        .concat();
        let mut both = both;
        both[2].1 = "8589934592\n";
        assert_eq!(found(&both), Some(Memory { limit: 4 * GIB, available: GIB }));
    }

    #[test]
    fn containers_of_version_1_see_paths_of_the_host() {
        let files = [
            (
                "/proc/self/cgroup",
                "5:cpu,cpuacct:/docker/4f2a\n4:memory:/docker/4f2a\n1:name=systemd:/\n",
            ),
            (
                "/proc/self/mountinfo",
                "35 31 0:32 /docker/4f2a /sys/fs/cgroup/memory ro,nosuid master:15 - cgroup cgroup rw,memory\n\
                 36 31 0:33 /docker/4f2a /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n",
            ),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n"),
            ("/sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 0\n"),
        ];
        assert_eq!(found(&files), Some(Memory { limit: 2 * GIB, available: GIB }));
        // A mount that shows another group than the process's: its top is the best guess.
        let other = "4:memory:/docker/beef\n";
        let files = [&[("/proc/self/cgroup", other)], &files[1..]].concat();
        assert_eq!(found(&files), Some(Memory { limit: 2 * GIB, available: GIB }));
    }

    #[test]
    fn machines_with_both_versions_take_the_one_that_limits() {
        let files = [
            ("/proc/self/cgroup", "4:memory:/jobs/7\n0::/\n"),
            (
                "/proc/self/mountinfo",
                "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                 41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            ),
            // No limit in version 1 is the largest number of whole pages.
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "1073741824\n"),
        ];
        assert_eq!(found(&files), Some(Memory { limit: GIB, available: GIB }));
        let unlimited = found(&files[..3]).unwrap();
        assert!(unlimited.limit > 1 << 60 && unlimited.available > 1 << 60);
    }

    #[test]
    fn unreadable_limits_do_not_apply() {
        assert_eq!(found(&[]), None);
        assert_eq!(
            found(&[("/proc/self/cgroup", "0::/\n"), ("/proc/self/mountinfo", "a b\n - \n")]),
            None
        );
        let files = [
            ("/proc/self/cgroup", "0::/a/../..\n"),
            ("/proc/self/mountinfo", MOUNT_2),
            ("/sys/fs/cgroup/memory.max", "many"),
        ];
        assert_eq!(found(&files), None);
    }
}
