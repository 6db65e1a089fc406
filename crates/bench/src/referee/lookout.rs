//! Looks at the disks on both sides of a request, and of none.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Blind, Kind, Pace, Probed};
use crate::work::{Watch, Work};

/// Before every so many requests the disks rest for longer: a server that flushes a moment behind its replies may be in
/// step with short rests, and not with both.
const LONG_EVERY: u64 = 10;
/// Behind every so many requests comes a blind look.
const BLIND_EVERY: u64 = 8;

/// Whoever watches, and what has been seen without a request.
pub struct Lookout<'a> {
    watch: &'a mut dyn Watch,
    pace: Pace,
    asked: u64,
    windows: Duration,
    blind: Blind,
}

impl<'a> Lookout<'a> {
    /// Nothing asked yet.
    pub fn new(watch: &'a mut dyn Watch, pace: Pace) -> Self {
        Self { watch, pace, asked: 0, windows: Duration::ZERO, blind: Blind::default() }
    }

    /// What was seen with nothing asked.
    #[must_use]
    pub fn blind(&self) -> Blind {
        self.blind
    }

    /// Mean time of a request, seconds.
    #[must_use]
    pub fn window_seconds(&self) -> f64 {
        #[allow(clippy::cast_precision_loss)] // Some thousands.
        let asked = self.asked.max(1) as f64;
        self.windows.as_secs_f64() / asked
    }

    /// Whose counters they are, in words.
    #[must_use]
    pub fn source(&self) -> String {
        self.watch.source()
    }

    /// One request between two looks, on disks that are at rest. It says by what its reply promises.
    pub(crate) fn ask(&mut self, request: impl FnOnce() -> Result<Kind>) -> Result<Probed> {
        let rest = if self.asked % LONG_EVERY == LONG_EVERY - 1 { self.pace.rest_long } else { self.pace.rest };
        self.rest(rest)?;
        let others = self.watch.elsewhere();
        let (before, started) = (self.watch.work()?, Instant::now());
        let kind = request()?;
        let took = started.elapsed();
        let work = self.watch.work()?.since(&before);
        let elsewhere = changed(&others, &self.watch.elsewhere());
        self.asked += 1;
        self.windows += took;
        if self.asked.is_multiple_of(BLIND_EVERY) {
            self.look_blind(took)?;
        }
        Ok(Probed::Answered { kind, work, elsewhere })
    }

    /// What a request would have met by chance.
    fn look_blind(&mut self, window: Duration) -> Result<()> {
        self.rest(self.pace.rest_long)?;
        let before = self.watch.work()?;
        std::thread::sleep(window);
        let work = self.watch.work()?.since(&before);
        self.blind.looks += 1;
        self.blind.events += u64::from(work.durable_events + work.unknown_events > 0);
        self.blind.writes += u64::from(work.write_bytes > 0);
        Ok(())
    }

    /// Durable events in a second in which nothing is asked.
    pub(super) fn idle(&mut self) -> Result<f64> {
        self.rest(self.pace.rest_long)?;
        let (before, started) = (self.watch.work()?, Instant::now());
        std::thread::sleep(self.pace.idle);
        let work = self.watch.work()?.since(&before);
        #[allow(clippy::cast_precision_loss)]
        let events = (work.durable_events + work.unknown_events) as f64;
        Ok(events / started.elapsed().as_secs_f64())
    }

    /// Waits until the disks have done nothing for so long, or cannot be waited for any longer.
    fn rest(&mut self, quiet: Duration) -> Result<()> {
        let started = Instant::now();
        let mut before = self.watch.work()?;
        loop {
            std::thread::sleep(quiet);
            let now = self.watch.work()?;
            let at_rest = now == before && self.watch.is_at_rest()?;
            if at_rest || started.elapsed() >= self.pace.rest_max {
                return Ok(());
            }
            before = now;
        }
    }
}

/// Disks that were written to and flushed.
fn changed(before: &[(String, Work)], after: &[(String, Work)]) -> Vec<String> {
    let earlier = |name: &str| before.iter().find(|(other, _)| other == name).map(|(_, work)| *work);
    let did = |(name, now): &(String, Work)| {
        let work = now.since(&earlier(name)?);
        (work.write_bytes > 0 && work.durable_events + work.unknown_events > 0).then(|| name.clone())
    };
    after.iter().filter_map(did).collect()
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
        let late = std::cell::RefCell::new(Late::default());
        for request in 0..10 {
            let mut watch = late.borrow_mut();
            let probed = Lookout::new(&mut *watch, Pace::default()).ask(|| Ok(Kind::Create)).unwrap();
            let Probed::Answered { work, .. } = probed else { panic!("{probed:?}") };
            assert_eq!(work.durable_events, 0, "request {request}");
            watch.looks_left = Some(3);
        }
        assert_eq!(late.borrow().events, 9, "the flushes came, each too late");
    }
}
