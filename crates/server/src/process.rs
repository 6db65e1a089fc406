//! What the daemon learns from the machine, and asks of it for itself.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Gid, Resource, Rlimit, getrlimit, setrlimit};
use tally_base::name_hash;

/// What is assumed where the kernel does not tell.
const MEMORY_BYTES_UNKNOWN: u64 = 1 << 30;

/// Memory that this process may count on: the machine's, or where one of the control groups that it is in, at whatever
/// depth, has less, that.
#[must_use]
pub fn memory_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo_total(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = memory_limits(&groups).into_iter().filter_map(|path| {
        // `max`, and a group that is not seen from here, say nothing.
        fs::read_to_string(path).ok()?.trim().parse().ok()
    });
    machine.into_iter().chain(limits).min().unwrap_or(MEMORY_BYTES_UNKNOWN)
}

/// The files that may name a limit, by what `/proc/self/cgroup` says: of the process' groups of both versions, and of all
/// those above them, whose limits hold as well. The first version says so with a huge number where there is none.
fn memory_limits(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let (roots, name): (&[&str], _) = match controllers {
            "" => (&GROUP_ROOTS, "memory.max"),
            words if words.split(',').any(|word| word == "memory") => (&OLD_GROUP_ROOTS, "memory.limit_in_bytes"),
            _ => continue,
        };
        for root in roots {
            // Within a container the path may be one of the machine, of which nothing is to be seen but the root.
            let group = Path::new(group.trim_start_matches('/'));
            files.extend(group.ancestors().map(|group| Path::new(root).join(group).join(name)));
        }
    }
    files
}

/// Where control groups are: alone, or beside those of the first version.
pub(crate) const GROUP_ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const OLD_GROUP_ROOTS: [&str; 1] = ["/sys/fs/cgroup/memory"];

fn meminfo_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The group of this name, of those that the machine itself has: a directory of users may hang, and this is asked at the start.
#[must_use]
pub fn group(name: &str) -> Option<Gid> {
    gid_in(&fs::read_to_string("/etc/group").ok()?, name)
}

fn gid_in(groups: &str, name: &str) -> Option<Gid> {
    let mut fields = groups.lines().map(|line| line.split(':'));
    let gid = fields.find_map(|mut line| (line.next() == Some(name)).then(|| line.nth(1)))??.parse().ok()?;
    // The highest number is what chown takes for no group at all.
    (gid != u32::MAX).then(|| Gid::from_raw(gid))
}

/// Raises RLIMIT_NOFILE to `wanted`, or as far as it may go. Gives the limit that holds.
pub fn raise_open_files(wanted: u64) -> u64 {
    let now = getrlimit(Resource::Nofile);
    let current = now.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return current;
    }
    let target = now.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    match setrlimit(Resource::Nofile, Rlimit { current: Some(target), maximum: now.maximum }) {
        Ok(()) => target,
        Err(error) => {
            tracing::warn!(%error, current, wanted, "cannot raise the limit of open files");
            current
        }
    }
}

/// User and group of this process: whoever starts the daemon owns the root directories it makes.
#[must_use]
pub fn owner() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

/// This machine's name.
#[must_use]
pub fn host_name() -> String {
    first_line("/proc/sys/kernel/hostname")
}

/// A name of a machine as it is, and without its domain where it has one.
#[must_use]
pub fn long_and_short(name: &str) -> Vec<&str> {
    let short = name.split_once('.').map(|(short, _domain)| short).filter(|short| !short.is_empty());
    [name].into_iter().chain(short).collect()
}

/// A number that stays this machine's across restarts, by which a pool knows where it is in use. Of `named`, if the
/// machine's owner has given it a name for that.
#[must_use]
pub fn host_id(named: Option<&str>) -> u64 {
    let owner_says = named.map(str::to_owned);
    // Without an id the name has to do: all are only compared with what this function gave elsewhere.
    let known = owner_says.into_iter().chain([first_line("/etc/machine-id"), host_name()]);
    name_hash(0, known.into_iter().find(|identity| !identity.is_empty()).unwrap_or_default().as_bytes())
}

fn first_line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_a_long_name_and_a_short_one() {
        assert_eq!(long_and_short("files.example.org"), ["files.example.org", "files"]);
        assert_eq!([long_and_short("files"), long_and_short(".x"), long_and_short("")], [["files"], [".x"], [""]]);
    }

    #[test]
    fn groups_of_the_machine() {
        let groups = "root:x:0:\ntally:x:998:ann,bob\nbroken\ntall:x:nine:\nall:x:4294967295:\n";
        let cases =
            [("tally", Some(998)), ("root", Some(0)), ("tall", None), ("broken", None), ("all", None), ("", None)];
        for (name, gid) in cases {
            assert_eq!(gid_in(groups, name).map(Gid::as_raw), gid, "{name:?}");
        }
    }

    /// Clones of a virtual machine have one machine-id, and a container may have another with each start.
    #[test]
    fn a_machine_is_who_its_owner_says() {
        assert_eq!(host_id(Some("nas-1")), host_id(Some("nas-1")));
        assert_ne!(host_id(Some("nas-1")), host_id(Some("nas-2")));
        assert_ne!(host_id(Some("nas-1")), host_id(None));
        assert_eq!(host_id(Some("")), host_id(None));
    }

    /// Only the root of the groups was asked, which in a service or a nested container has no limit of its own: the cache
    /// was a quarter of the machine, and the kernel killed the daemon.
    #[test]
    fn the_limits_of_all_groups_above_count() {
        let limits = memory_limits("0::/user.slice/app.slice/tally.service\n");
        for path in ["user.slice/app.slice/tally.service/", "user.slice/app.slice/", "user.slice/", ""] {
            let file = PathBuf::from(format!("/sys/fs/cgroup/{path}memory.max"));
            assert!(limits.contains(&file), "{path}: {limits:?}");
        }
        let limits = memory_limits("12:cpu,cpuacct:/x\n4:memory:/docker/0123\n1:name=systemd:/y\n0::/\n");
        for path in ["memory/docker/0123/memory.limit_in_bytes", "memory/memory.limit_in_bytes", "memory.max"] {
            assert!(limits.contains(&Path::new("/sys/fs/cgroup").join(path)), "{path}: {limits:?}");
        }
        assert!(!limits.iter().any(|path| path.ends_with("x/memory.max") || path.starts_with("/sys/fs/cgroup/y")));
        assert_eq!(memory_limits("garbage\n0:\n::\n").len(), 2, "an empty path is the root");
        assert!(memory_limits("").is_empty());
    }

    #[test]
    fn memory_is_read_from_meminfo() {
        assert_eq!(meminfo_total("MemTotal:       16314532 kB\nMemFree: 1 kB\n"), Some(16_314_532 * 1024));
        assert_eq!(meminfo_total("MemFree: 1 kB\n"), None);
        assert_eq!(meminfo_total("MemTotal: 18446744073709551615 kB\n"), None);
        assert!(memory_bytes() > 0);
    }
}
