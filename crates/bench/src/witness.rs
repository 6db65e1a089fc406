//! Who looks at the disks around one request, and what was seen.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::promise::Kind;
use crate::random::Random;
use crate::wire::random_u32;
use crate::work::{SETTLE_MAX, Watch, Work};

/// What a disk writes at least: what any change takes.
pub(crate) const CHANGE_BYTES: u64 = 512;
/// Content of a WRITE, of noise, where the server takes so much at once: more than a file system writes for a change
/// of anything else, so that a flush of something else is not taken for one of this.
pub(crate) const PROBE_BYTES: usize = 64 << 10;
/// Between two looks at disks that should rest.
const LOOK: Duration = Duration::from_micros(200);

/// How much is asked, and how long things are waited for.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Requests of each kind. With 200, a server that is right half of the time is found out for certain.
    pub probes: u64,
    /// How long the disks must have done nothing before each: at least and at most.
    pub rest: [Duration; 2],
    /// How long that is waited for. Disks that somebody else uses never rest.
    pub rest_timeout: Duration,
    /// How long the disks are watched, at least, for what comes without being asked for, when somebody is accused.
    pub idle: Duration,
    /// How long it may take until what was written arrives there.
    pub arrival: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            probes: 200,
            rest: [Duration::from_millis(1), Duration::from_millis(6)],
            rest_timeout: Duration::from_millis(25),
            idle: Duration::from_secs(1),
            arrival: SETTLE_MAX,
        }
    }
}

/// What came of one lone request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probed {
    /// It was answered, and this happened meanwhile.
    Answered(Seen),
    /// The server does not do this, so it promises nothing.
    Refused(String),
}

/// What was seen between a request and its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What the reply promises by; the server's answer may say.
    pub kind: Kind,
    /// Bytes that must have been written for it.
    pub bytes: u64,
    /// What the disks did.
    pub work: Work,
    /// What others of the machine did.
    pub elsewhere: Work,
    /// How long it took.
    pub took: Duration,
}

/// Who looks at the disks around a request.
pub struct Witness<'a> {
    watch: &'a mut dyn Watch,
    pace: &'a Pace,
    random: Random,
}

impl<'a> Witness<'a> {
    pub(crate) fn new(watch: &'a mut dyn Watch, pace: &'a Pace) -> Result<Self> {
        Ok(Self { watch, pace, random: Random::new(random_u32()?.into(), 0) })
    }

    /// Whose counters it looks at.
    pub(crate) fn source(&self) -> String {
        self.watch.source()
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
    pub(crate) fn blank(&mut self, time: Duration) -> Result<Work> {
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
