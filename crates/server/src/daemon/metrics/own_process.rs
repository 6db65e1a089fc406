//! What the kernel says of this process. Zero where it says nothing.

use std::fs;

use rustix::process::{Resource, getrlimit};

/// Under the names that all Prometheus clients have for these.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) cpu_seconds: f64,
    pub(super) resident_bytes: u64,
    pub(super) virtual_bytes: u64,
    pub(super) threads: u64,
    pub(super) open_fds: u64,
    pub(super) max_fds: u64,
}

/// Places in /proc/self/stat, from the field behind the program's name.
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;
const THREADS: usize = 17;
const VIRTUAL_BYTES: usize = 20;
const RESIDENT_PAGES: usize = 21;

impl Usage {
    /// What `/proc` says of this process; zeroes where it says nothing.
    pub(super) fn now() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let mut usage = Self::parse(&stat, rustix::param::clock_ticks_per_second(), rustix::param::page_size() as u64);
        usage.open_fds = fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64);
        usage.max_fds = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        usage
    }

    fn parse(stat: &str, ticks_per_second: u64, page_bytes: u64) -> Self {
        // The name of the program is in parentheses and may contain any.
        let fields: Vec<&str> = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        #[allow(clippy::cast_precision_loss)]
        let cpu_seconds = (number(USER_TICKS) + number(SYSTEM_TICKS)) as f64 / ticks_per_second.max(1) as f64;
        Self {
            cpu_seconds,
            resident_bytes: number(RESIDENT_PAGES).saturating_mul(page_bytes),
            virtual_bytes: number(VIRTUAL_BYTES),
            threads: number(THREADS),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_kernel_is_understood() {
        let line = "4242 (tally) x) S 1 4242 4242 0 -1 4194560 900 0 0 0 150 50 0 0 20 0 17 0 12345 1000000 300 18446744073709551615 1 1";
        let expected = Usage {
            cpu_seconds: 2.0,
            resident_bytes: 300 * 4096,
            virtual_bytes: 1_000_000,
            threads: 17,
            ..Usage::default()
        };
        assert_eq!(Usage::parse(line, 100, 4096), expected);
        assert_eq!(Usage::parse("", 0, 4096), Usage::default());
        let now = Usage::now();
        assert!(now.resident_bytes > 0 && now.threads > 0 && now.open_fds > 0, "{now:?}");
    }
}
