//! The lone probe: one request at a time, and a look at the disks on both sides of each.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Blanks, Findings, Kind, KindCount, Pace, Probed, Seen};
use crate::client::Client;
use crate::random::Random;
use crate::wire::random_u32;
use crate::work::{Watch, Work};

/// What a disk writes at least: what any change takes.
pub(crate) const CHANGE_BYTES: u64 = 512;
/// Content of a WRITE, of noise, where the server takes so much at once: more than a file system writes for a change
/// of anything else, so that a flush of something else is not taken for one of this.
pub(crate) const PROBE_BYTES: usize = 64 << 10;
/// Between two looks at disks that should rest.
const LOOK: Duration = Duration::from_micros(200);

/// Probes every kind in an empty folder; says how many requests are done, and stops at an error from there.
pub fn probe<C: Client>(
    client: &mut C,
    folder: &C::Node,
    kinds: &[Kind],
    watch: &mut dyn Watch,
    pace: &Pace,
    told: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Findings> {
    let mut counts: BTreeMap<Kind, KindCount> = kinds.iter().map(|kind| (*kind, KindCount::new(*kind))).collect();
    let mut witness = Witness::new(watch, pace)?;
    let mut blanks = Blanks::default();
    let (mut windows, mut requests) = (Duration::ZERO, 0_u32);
    for (place, &kind) in kinds.iter().enumerate() {
        let folder = client.make_folder(folder, &format!("probe-{place}"))?;
        let mut took = Duration::ZERO;
        for number in 0..pace.probes {
            told(place as u64 * pace.probes + number)?;
            if !took.is_zero() {
                blanks.add(&witness.blank(took)?);
            }
            let probed = client.probe(&folder, kind, number, &mut witness);
            match probed.with_context(|| format!("the probe of {}", kind.word()))? {
                Probed::Answered(seen) => {
                    counts.entry(seen.kind).or_insert_with(|| KindCount::new(seen.kind)).add(&seen);
                    took = seen.took;
                    (windows, requests) = (windows + took, requests + 1);
                }
                Probed::Refused(reason) => {
                    counts.entry(kind).or_insert_with(|| KindCount::new(kind)).refused = Some(reason);
                    break;
                }
            }
        }
    }
    Ok(Findings {
        source: witness.watch.source(),
        kinds: counts.into_values().collect(),
        blanks,
        window_seconds: windows.as_secs_f64() / f64::from(requests.max(1)),
    })
}

/// Who looks at the disks around a request.
pub struct Witness<'a> {
    watch: &'a mut dyn Watch,
    pace: &'a Pace,
    random: Random,
}

impl<'a> Witness<'a> {
    fn new(watch: &'a mut dyn Watch, pace: &'a Pace) -> Result<Self> {
        Ok(Self { watch, pace, random: Random::new(random_u32()?.into(), 0) })
    }

    /// One request between two looks, on disks that are at rest. Its reply says what kind it was, and for what it
    /// promises so many bytes must have been written.
    pub(crate) fn ask(&mut self, bytes: u64, request: impl FnOnce() -> Result<Kind>) -> Result<Probed> {
        self.rest()?;
        let elsewhere = self.watch.elsewhere()?;
        let (before, started) = (self.watch.work()?, Instant::now());
        let kind = request()?;
        // Right away: what a server does behind its reply comes too late.
        let work = self.watch.work()?.since(&before);
        let took = started.elapsed();
        let elsewhere = self.watch.elsewhere()?.since(&elsewhere);
        Ok(Probed::Answered(Seen { kind, bytes, work, elsewhere, took }))
    }

    /// What the disks do in so long a time in which nothing is asked.
    fn blank(&mut self, time: Duration) -> Result<Work> {
        self.rest()?;
        let before = self.watch.work()?;
        std::thread::sleep(time);
        Ok(self.watch.work()?.since(&before))
    }

    /// Waits until the disks have done nothing for a while, which is another one each time.
    fn rest(&mut self) -> Result<()> {
        let [least, most] = self.pace.rest;
        let spread = usize::try_from((most.saturating_sub(least)).as_micros())?;
        let wanted = least + Duration::from_micros(self.random.below(spread + 1) as u64);
        let started = Instant::now();
        let (mut before, mut quiet_since) = (self.watch.work()?, started);
        while started.elapsed() < self.pace.rest_timeout {
            std::thread::sleep(LOOK);
            let now = self.watch.work()?;
            if now != before || !self.watch.is_at_rest()? {
                (before, quiet_since) = (now, Instant::now());
            } else if quiet_since.elapsed() >= wanted {
                return Ok(());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Disks under a server that replies first and flushes behind it: the event comes with the third look from then.
    #[derive(Default)]
    struct Late {
        events: u64,
        looks_left: Option<u32>,
    }

    impl Watch for Late {
        fn work(&mut self) -> Result<Work> {
            self.looks_left = self.looks_left.and_then(|left| left.checked_sub(1));
            if self.looks_left == Some(0) {
                self.events += 1;
            }
            Ok(Work { durable_events: self.events, write_bytes: self.events * 4096, ..Work::default() })
        }

        fn is_at_rest(&mut self) -> Result<bool> {
            Ok(self.looks_left.is_none())
        }

        fn source(&self) -> String {
            "a test".into()
        }
    }

    #[test]
    fn a_flush_behind_the_reply_does_not_help_the_next_request() {
        let mut late = Late::default();
        for request in 0..10 {
            let pace = Pace::default();
            let probed = Witness::new(&mut late, &pace).unwrap().ask(CHANGE_BYTES, || Ok(Kind::Create)).unwrap();
            let Probed::Answered(seen) = probed else { panic!("{probed:?}") };
            assert_eq!(seen.work.durable_events, 0, "request {request}");
            late.looks_left = Some(3);
        }
        assert_eq!(late.events, 9, "the flushes came, each too late");
    }
}
