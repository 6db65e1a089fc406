//! The lone probe: one request at a time, and a look at the disks on both sides of each.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Findings, Kind, KindCount, PROBES, Probed};
use crate::client::Client;
use crate::work::Watch;

/// How long disks must have done nothing before a request is sent: longer than it takes a server to go on with what it
/// put off.
const REST: Duration = Duration::from_millis(1);
/// How long that is waited for. Disks that somebody else uses never rest.
const REST_TIMEOUT: Duration = Duration::from_millis(25);
/// How long nothing is asked, to see what the disks do on their own.
const IDLE: Duration = Duration::from_secs(1);

/// Probes every kind in an empty folder; says how many requests are done, and stops at an error from there.
pub fn probe<C: Client>(
    client: &mut C,
    folder: &C::Node,
    kinds: &[Kind],
    watch: &mut dyn Watch,
    told: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Findings> {
    let mut counts: BTreeMap<Kind, KindCount> = kinds.iter().map(|kind| (*kind, KindCount::new(*kind))).collect();
    let before = idle(watch)?;
    let (mut windows, mut requests) = (Duration::ZERO, 0_u32);
    for (place, &kind) in kinds.iter().enumerate() {
        let folder = client.make_folder(folder, &format!("probe-{place}"))?;
        for number in 0..PROBES {
            told(place as u64 * PROBES + number)?;
            let probed = client.probe(&folder, kind, number, watch);
            match probed.with_context(|| format!("the probe of {}", kind.word()))? {
                Probed::Answered { kind, work, took } => {
                    counts.entry(kind).or_insert_with(|| KindCount::new(kind)).add(&work);
                    (windows, requests) = (windows + took, requests + 1);
                }
                Probed::Refused(reason) => {
                    counts.entry(kind).or_insert_with(|| KindCount::new(kind)).refused = Some(reason);
                    break;
                }
            }
        }
    }
    let after = idle(watch)?;
    Ok(Findings {
        source: watch.source(),
        kinds: counts.into_values().collect(),
        idle_events_per_second: before.max(after),
        window_seconds: windows.as_secs_f64() / f64::from(requests.max(1)),
    })
}

/// One request between two looks, on disks that are at rest.
pub(crate) fn ask(kind: Kind, watch: &mut dyn Watch, request: impl FnOnce() -> Result<()>) -> Result<Probed> {
    rest(watch)?;
    let (before, started) = (watch.work()?, Instant::now());
    request()?;
    let took = started.elapsed();
    Ok(Probed::Answered { kind, work: watch.work()?.since(&before), took })
}

/// Waits until the disks have done nothing for a moment.
fn rest(watch: &mut dyn Watch) -> Result<()> {
    let started = Instant::now();
    let mut before = watch.work()?;
    while started.elapsed() < REST_TIMEOUT {
        std::thread::sleep(REST);
        let now = watch.work()?;
        if now == before && watch.is_at_rest()? {
            return Ok(());
        }
        before = now;
    }
    Ok(())
}

/// Durable events in a second in which nothing is asked.
fn idle(watch: &mut dyn Watch) -> Result<f64> {
    rest(watch)?;
    let (before, started) = (watch.work()?, Instant::now());
    std::thread::sleep(IDLE);
    let work = watch.work()?.since(&before);
    #[allow(clippy::cast_precision_loss)]
    let events = (work.durable_events + work.unknown_events) as f64;
    Ok(events / started.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Work;

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
            Ok(Work { durable_events: self.events, ..Work::default() })
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
            let probed = ask(Kind::Create, &mut late, || Ok(())).unwrap();
            let Probed::Answered { work, .. } = probed else { panic!("{probed:?}") };
            assert_eq!(work.durable_events, 0, "request {request}");
            late.looks_left = Some(3);
        }
        assert_eq!(late.events, 9, "the flushes came, each too late");
    }
}
