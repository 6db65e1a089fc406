//! The block caches give way when the machine runs short of memory.
//!
//! A cache that was sized as a part of the machine's memory stays that large for ever, whatever else the machine is
//! asked to do later. The kernel tells when processes wait for memory ("pressure stall information"): of the machine,
//! and of the control group that the daemon runs in. So a thread looks at both every other second. While they wait for
//! more than a little of their time the caches shrink by a quarter a look, down to a sixteenth; when it is over they
//! grow again, slowly, so that they do not swing. Where the kernel does not tell, the caches stay as they are.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ticker::Ticker;
use crate::process::GROUP_ROOTS;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(2);
/// Percent of the last ten seconds in which some process waited for memory: above, caches shrink.
const SHORT_PERCENT: f64 = 5.0;
/// Below, they grow; between the two they stay, so that they do not swing.
const CALM_PERCENT: f64 = 1.0;

/// The whole of a cache, in parts of it, and the least that is left.
const WHOLE: u64 = 1024;
const LEAST: u64 = WHOLE / 16;
/// By so much it grows in one look: from the least to the whole in a minute.
const GROWTH: u64 = WHOLE / 32;

/// So much of a cache, of [`WHOLE`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Share(u64);

impl Share {
    /// The share of so many bytes.
    pub(super) fn of(self, bytes: u64) -> u64 {
        (u128::from(bytes) * u128::from(self.0) / u128::from(WHOLE)) as u64
    }
}

/// How much of a cache is to be used next, of [`WHOLE`].
fn next_share(share: u64, waiting_percent: f64) -> u64 {
    if waiting_percent > SHORT_PERCENT {
        (share - share / 4).max(LEAST)
    } else if waiting_percent < CALM_PERCENT {
        (share + GROWTH).min(WHOLE)
    } else {
        share
    }
}

/// `some avg10` of a file of pressure stall information.
fn waiting_percent(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split(' ').find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
}

/// The files that may tell: the machine's, and those of the process' control group, by what `/proc/self/cgroup` says.
fn candidates(cgroup: &str) -> Vec<PathBuf> {
    let group = cgroup.lines().find_map(|line| line.strip_prefix("0::/"));
    let of_group = group.into_iter().flat_map(|group| GROUP_ROOTS.map(|root| Path::new(root).join(group)));
    let of_group = of_group.map(|group| group.join("memory.pressure"));
    std::iter::once(PathBuf::from("/proc/pressure/memory")).chain(of_group).collect()
}

fn sources() -> Vec<PathBuf> {
    let mut sources = candidates(&std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default());
    sources.retain(|path| path.exists());
    sources
}

/// Starts the thread that looks; `limit` sets every cache to a share of its size.
pub(super) fn watch(limit: impl Fn(Share) + Send + 'static) -> io::Result<Ticker> {
    let sources = sources();
    let mut share = WHOLE;
    Ticker::start("pressure", INTERVAL, move || {
        let told = sources.iter().filter_map(|path| waiting_percent(&std::fs::read_to_string(path).ok()?));
        let next = next_share(share, told.fold(0.0, f64::max));
        if share == WHOLE && next < share {
            tracing::info!("the machine is short of memory: the block caches give way");
        }
        // A pool that was imported meanwhile is brought in line as well.
        if next < WHOLE || share < WHOLE {
            limit(Share(next));
        }
        share = next;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_give_way_fast_and_come_back_slowly() {
        let mut share = WHOLE;
        let mut looks = |count: usize, percent: f64| {
            (0..count).for_each(|_| share = next_share(share, percent));
            share
        };
        assert_eq!(looks(10, 0.0), WHOLE);
        assert_eq!(looks(1, 30.0), 768);
        assert_eq!(looks(5, 2.0), 768, "neither short nor calm");
        assert_eq!(looks(20, 30.0), LEAST);
        assert!(looks(10, 0.0) < WHOLE / 2);
        assert_eq!(looks(20, 0.0), WHOLE);
        assert_eq!(
            [WHOLE, 768, LEAST].map(|share| Share(share).of(u64::MAX)),
            [u64::MAX, u64::MAX / 4 * 3 + 2, u64::MAX / 16]
        );
    }

    /// With both versions of control groups mounted the one that tells has a place of its own. It was not found, and a
    /// daemon in a group that was short of memory looked at the machine alone.
    #[test]
    fn the_group_is_found_wherever_it_stands() {
        let both = candidates("4:memory:/old\n0::/system.slice/tally.service\n");
        for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
            let file = PathBuf::from(format!("{root}/system.slice/tally.service/memory.pressure"));
            assert!(both.contains(&file), "{both:?}");
        }
        assert_eq!(candidates("4:memory:/old\n"), [PathBuf::from("/proc/pressure/memory")]);
    }

    #[test]
    fn the_kernels_words_are_understood() {
        let text = "some avg10=12.50 avg60=3.00 avg300=0.10 total=123\nfull avg10=1.00 avg60=0.0 avg300=0.0 total=1\n";
        assert_eq!(waiting_percent(text), Some(12.5));
        for odd in ["", "some", "some avg10=", "full avg10=1.00 total=1", "some avg60=1"] {
            assert_eq!(waiting_percent(odd), None, "{odd}");
        }
    }
}
