//! One run's stage: a folder of its own on a server, the disks below it, and parts that are measured one by one.
//!
//! The clients work on threads of their own; the thread that measures looks at counters and tells how far things are.
//! A part ends with the last reply. What the disks do from then on belongs to it still: a server may have promised
//! what it writes a moment later. So the stage waits until the disks are quiet, and keeps both counts apart.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::client::{As, Client, Interrupted, Site};
use crate::meter::Meter;
use crate::promise::Kind;
use crate::wire::random_u32;
use crate::work::{SETTLE_MAX, Watch, Work};

/// How often somebody is told.
pub(crate) const TOLD_EVERY: Duration = Duration::from_millis(100);

/// How far a run is, for whoever looks on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// So much of it is done.
    Progress {
        /// What is done, for people.
        what: &'a str,
        /// Units done.
        done: u64,
        /// Units in all; 0 where nobody knows.
        total: u64,
    },
    /// Something that a person should read.
    Line(&'a str),
}

/// A measured part of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// What is done in it: `create`.
    pub name: String,
    /// What is counted: `files`, `MiB`.
    pub item: String,
    /// How many of them.
    pub items: u64,
    /// From the first request to the last reply.
    pub elapsed_seconds: f64,
    /// Requests (of a mounted directory: system calls), half of which were answered within this time.
    pub p50_ns: u64,
    /// 99 of 100 were answered within this time.
    pub p99_ns: u64,
    /// How many were sent and answered.
    pub requests: u64,
    /// Replies that promised durability.
    pub promises: u64,
    /// Bytes of content that were promised to be durable.
    pub promised_bytes: u64,
    /// By which kinds of requests.
    #[serde(default)]
    pub kinds: Vec<Kind>,
    /// Clients at once.
    #[serde(default)]
    pub connections: usize,
    /// What the disks did until the last reply.
    pub work: Option<Work>,
    /// What they did until they were quiet.
    pub settled: Option<Work>,
}

impl Phase {
    /// Items for each second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let items = self.items as f64;
        items / self.elapsed_seconds.max(1e-9)
    }

    /// Whether fewer bytes ever reached log and pool than were promised: work that was never done. The content is
    /// noise, so nothing can have made it smaller.
    #[must_use]
    pub fn collapsed(&self) -> bool {
        self.settled.is_some_and(|work| work.write_bytes < self.promised_bytes)
    }
}

/// What a run takes place in.
pub(crate) struct Stage<'a, S: Site> {
    pub(crate) site: &'a S,
    pub(crate) folder: <S::Client as Client>::Node,
    pub(crate) watch: Option<&'a mut Box<dyn Watch>>,
    pub(crate) told: &'a mut dyn FnMut(Told<'_>),
    pub(crate) stop: &'a AtomicBool,
    pub(crate) quiet: Duration,
    pub(crate) whose: As,
}

/// What a client calls behind each item.
pub(crate) struct Tick<'a> {
    meter: &'a Meter,
    stop: &'a AtomicBool,
    failed: &'a AtomicBool,
}

impl Tick<'_> {
    /// So many items are done; an error says that the rest is not wanted any more.
    pub(crate) fn done(&self, items: u64) -> Result<()> {
        self.meter.done(items);
        ensure!(!self.stop.load(Relaxed) && !self.failed.load(Relaxed), Interrupted);
        Ok(())
    }
}

impl<S: Site> Stage<'_, S> {
    pub(crate) fn folder(&self) -> &<S::Client as Client>::Node {
        &self.folder
    }

    pub(crate) fn whose(&self) -> As {
        self.whose
    }

    /// A client whose requests are not measured.
    pub(crate) fn lone(&self) -> Result<S::Client> {
        self.site.client(&Arc::new(Meter::default()))
    }

    /// Where the noise of one part starts.
    pub(crate) fn seed(&self) -> Result<u64> {
        Ok(u64::from(random_u32()?) << 32 | u64::from(random_u32()?))
    }

    /// Measures `work`, done by several clients at once.
    pub(crate) fn phase(
        &mut self,
        name: &str,
        item: &str,
        items: u64,
        connections: usize,
        work: impl Fn(usize, &mut S::Client, &Tick<'_>) -> Result<()> + Sync,
    ) -> Result<Phase> {
        let meter = Arc::new(Meter::default());
        let clients: Vec<_> = (0..connections).map(|_| self.site.client(&meter)).collect::<Result<_>>()?;
        let before = self.work()?;
        let elapsed = self.at_once(name, items, &meter, clients, &work)?;
        let after = self.work()?;
        let nanoseconds = |part| u64::try_from(meter.requests.quantile(part).as_nanos()).unwrap_or(u64::MAX);
        let mut phase = Phase {
            name: name.to_owned(),
            item: item.to_owned(),
            items: meter.items(),
            elapsed_seconds: elapsed.as_secs_f64(),
            p50_ns: nanoseconds(0.5),
            p99_ns: nanoseconds(0.99),
            requests: meter.requests.count(),
            promises: meter.promises(),
            promised_bytes: meter.bytes(),
            kinds: meter.kinds(),
            connections,
            work: after.zip(before).map(|(after, before)| after.since(&before)),
            settled: None,
        };
        if let Some(before) = before {
            phase.settled = Some(self.wait_for_disks(&before, phase.promised_bytes)?);
        }
        Ok(phase)
    }

    fn work(&mut self) -> Result<Option<Work>> {
        self.watch.as_mut().map(|watch| watch.work()).transpose()
    }

    /// Time from the first start to the last end, as the clients themselves saw it: on a busy machine this thread may
    /// run again when all is over.
    fn at_once(
        &mut self,
        name: &str,
        items: u64,
        meter: &Meter,
        clients: Vec<S::Client>,
        work: &(impl Fn(usize, &mut S::Client, &Tick<'_>) -> Result<()> + Sync),
    ) -> Result<Duration> {
        let (failed, barrier, count) = (AtomicBool::new(false), Barrier::new(clients.len() + 1), clients.len());
        let (ended, ends) = channel();
        std::thread::scope(|scope| {
            for (index, mut client) in clients.into_iter().enumerate() {
                let (ended, failed, barrier, stop) = (ended.clone(), &failed, &barrier, self.stop);
                scope.spawn(move || {
                    barrier.wait();
                    let started = Instant::now();
                    let outcome = work(index, &mut client, &Tick { meter, stop, failed });
                    failed.fetch_or(outcome.is_err(), Relaxed);
                    // Nobody listens any more where another client has failed.
                    let _ = ended.send((started, Instant::now(), outcome));
                });
            }
            drop(ended);
            barrier.wait();
            let (mut times, mut outcomes) = (Vec::with_capacity(count), Vec::with_capacity(count));
            while outcomes.len() < count {
                match ends.recv_timeout(TOLD_EVERY) {
                    Ok((started, ended, outcome)) => {
                        times.push((started, ended));
                        outcomes.push(outcome);
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        (self.told)(Told::Progress { what: name, done: meter.items(), total: items });
                    }
                    Err(RecvTimeoutError::Disconnected) => anyhow::bail!("a client thread panicked"),
                }
            }
            first_failure(outcomes).with_context(|| name.to_owned())?;
            let first = times.iter().map(|(started, _)| *started).min();
            let last = times.iter().map(|(_, ended)| *ended).max();
            Ok(last.zip(first).map_or(Duration::ZERO, |(last, first)| last - first))
        })
    }

    /// Waits until the disks are quiet and have all that was promised, and gives what they did since `before`.
    fn wait_for_disks(&mut self, before: &Work, promised_bytes: u64) -> Result<Work> {
        let (started, stop) = (Instant::now(), self.stop);
        let Some(watch) = self.watch.as_mut() else { return Ok(Work::default()) };
        let (mut last, mut changed) = (watch.work()?, Instant::now());
        while !self.quiet.is_zero() && started.elapsed() < SETTLE_MAX.max(self.quiet) {
            let reached = last.since(before).write_bytes >= promised_bytes;
            if reached && changed.elapsed() >= self.quiet {
                break;
            }
            ensure!(!stop.load(Relaxed), Interrupted);
            std::thread::sleep(TOLD_EVERY);
            (self.told)(Told::Progress { what: "waiting for the disks", done: 0, total: 0 });
            let now = watch.work()?;
            if now.write_bytes != last.write_bytes {
                changed = Instant::now();
            }
            last = now;
        }
        Ok(last.since(before))
    }
}

/// The failure that made the others stop, not one of those that were stopped.
fn first_failure(outcomes: Vec<Result<()>>) -> Result<()> {
    let mut interrupted = Ok(());
    for outcome in outcomes {
        match outcome {
            Err(error) if error.is::<Interrupted>() => interrupted = Err(error),
            other => other?,
        }
    }
    interrupted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collapsed_is_about_what_ever_reached_the_disks() {
        let phase = |promised_bytes, settled: Option<u64>| Phase {
            promised_bytes,
            settled: settled.map(|write_bytes| Work { write_bytes, ..Work::default() }),
            ..Phase::default()
        };
        let cases = [(4096, Some(4096), false), (4096, Some(4095), true), (0, Some(0), false), (4096, None, false)];
        for (promised, settled, expected) in cases {
            assert_eq!(phase(promised, settled).collapsed(), expected, "{promised} {settled:?}");
        }
    }

    #[test]
    fn of_several_failures_the_cause_is_told() {
        let stopped = || Err(Interrupted.into());
        let cause = || Err(anyhow::anyhow!("the disk is full"));
        assert!(first_failure(vec![Ok(()), Ok(())]).is_ok());
        assert!(first_failure(vec![Ok(()), stopped()]).unwrap_err().is::<Interrupted>());
        assert_eq!(first_failure(vec![stopped(), cause(), stopped()]).unwrap_err().to_string(), "the disk is full");
    }
}
