//! The recorded load as a closed loop: what would have happened with another log device.
//!
//! A client that gets its reply sooner asks sooner. So a recording is not played back by its clock, but by its causes:
//! a request follows the newest reply that its connection had been given before, after the time that the client took to
//! think. Requests that were under way together stay so.
//!
//! The server between the two is the real one's outline: a worker for each processor, the recorded time of work for
//! each request, and a log that writes one frame at a time with all that has gathered meanwhile. What waited for a
//! transaction group waits as long as it did.
//!
//! Not modelled: clients that share the server's processors, or wait for each other's files; the pool's disks, which
//! have other work when the log is no longer on them. So the rate that was seen is scaled by the ratio of two such
//! runs, one with the log as it is and one with the candidate: most of what is left out is in both.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::latency::{Device, Samples};
use crate::control::load::{KeptBy, LoadEvent, RecordedLoad};
use crate::control::spread::Spread;

/// A log frame's header, and what its length is a multiple of, bytes.
const HEADER_BYTES: u64 = 256;
const SECTOR: u64 = 4096;

/// A client that takes no longer from a reply to its next request does so for the time that the system takes.
const THOUGHT_MAX_NS: u64 = 1_000_000;

/// What a request waits for.
#[derive(Clone, Copy, Debug)]
enum Rest {
    Nothing,
    Log { bytes: u64 },
    Group { ns: u64 },
}

#[derive(Clone, Debug)]
struct Step {
    work_ns: u64,
    rest: Rest,
    reply_ns: u64,
    connection: usize,
    /// Steps that follow its reply, and after how long.
    followers: Vec<(usize, u64)>,
}

/// A load that can be run.
#[derive(Clone, Debug)]
pub struct Loop {
    steps: Vec<Step>,
    /// Steps without a reply before them, and when they came.
    first: Vec<(usize, u64)>,
    connection_count: usize,
    /// Beside the device, for each frame.
    frame_ns: u64,
    workers: usize,
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Requests per second, summed over connections.
    pub rate: f64,
    /// From reading to reply of those that waited for the log.
    pub latency: Spread,
    /// Frames written.
    pub frames: u64,
}

impl Loop {
    /// The recorded load on a server with so many processors.
    #[must_use]
    pub fn new(load: &RecordedLoad, workers: usize) -> Self {
        let mut connections: BTreeMap<u64, Vec<&LoadEvent>> = BTreeMap::new();
        for event in &load.events {
            connections.entry(event.connection).or_default().push(event);
        }
        let mut new = Self {
            steps: Vec::with_capacity(load.events.len()),
            first: Vec::new(),
            connection_count: connections.len(),
            frame_ns: frame_overhead(&load.events),
            workers: workers.max(1),
        };
        for (connection, mut events) in connections.into_values().enumerate() {
            events.sort_by_key(|event| event.read_ns);
            new.add(connection, &events);
        }
        new
    }

    /// The same load where everything that processors do takes this part of its time. What a client thinks for longer
    /// than
    /// [`THOUGHT_MAX_NS`] it does not spend on its way from a reply to the next request, but on something of its own.
    #[must_use]
    pub fn scaled(&self, part: f64) -> Self {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let scale = |ns: &mut u64| *ns = (*ns as f64 * part) as u64;
        let mut new = self.clone();
        scale(&mut new.frame_ns);
        for step in &mut new.steps {
            scale(&mut step.work_ns);
            scale(&mut step.reply_ns);
            for (_, think_ns) in step.followers.iter_mut().filter(|(_, think_ns)| *think_ns <= THOUGHT_MAX_NS) {
                scale(think_ns);
            }
        }
        new
    }

    /// Finds for each request of a connection the reply that it follows.
    fn add(&mut self, connection: usize, events: &[&LoadEvent]) {
        let base = self.steps.len();
        let mut replies: Vec<(u64, usize)> =
            events.iter().enumerate().map(|(index, event)| (event.sent_ns(), base + index)).collect();
        replies.sort_unstable();
        for event in events {
            let rest = match event.by {
                KeptBy::Nobody => Rest::Nothing,
                KeptBy::Log => Rest::Log { bytes: event.record_bytes },
                KeptBy::Group => Rest::Group { ns: event.wait_ns },
            };
            let (work_ns, reply_ns) = (event.work_ns, event.reply_ns);
            self.steps.push(Step { work_ns, rest, reply_ns, connection, followers: Vec::new() });
        }
        for (index, event) in events.iter().enumerate() {
            let before = replies.partition_point(|(sent_ns, _)| *sent_ns <= event.read_ns);
            match before.checked_sub(1).and_then(|last| replies.get(last)) {
                Some(&(sent_ns, cause)) => self.steps[cause].followers.push((base + index, event.read_ns - sent_ns)),
                None => self.first.push((base + index, event.read_ns)),
            }
        }
    }

    /// Runs it with this log device.
    #[must_use]
    pub fn run(&self, device: Device) -> Run {
        let mut world = World {
            load: self,
            device,
            events: BinaryHeap::new(),
            idle_workers: self.workers,
            ready: VecDeque::new(),
            gathered: Vec::new(),
            is_writing: false,
            read_ns: vec![0; self.steps.len()],
            spans: vec![(u64::MAX, 0, 0); self.connection_count],
            latencies: BTreeMap::new(),
            frames: 0,
        };
        for &(step, at) in &self.first {
            world.events.push(Reverse((at, Event::Read(step))));
        }
        while let Some(Reverse((now, event))) = world.events.pop() {
            world.handle(now, event);
        }
        world.outcome()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Worked(usize),
    Written(Vec<usize>),
    WaitEnded(usize),
    Replied(usize),
    Read(usize),
}

struct World<'a> {
    load: &'a Loop,
    device: Device,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    idle_workers: usize,
    /// Read, and waiting for a worker.
    ready: VecDeque<usize>,
    /// Waiting for a frame.
    gathered: Vec<usize>,
    is_writing: bool,
    read_ns: Vec<u64>,
    /// First request, last reply and count, by connection.
    spans: Vec<(u64, u64, u64)>,
    latencies: BTreeMap<u64, u64>,
    frames: u64,
}

impl World<'_> {
    fn handle(&mut self, now: u64, event: Event) {
        match event {
            Event::Read(step) => {
                self.read_ns[step] = now;
                self.ready.push_back(step);
                self.begin_work(now);
            }
            Event::Worked(step) => {
                self.idle_workers += 1;
                match self.load.steps[step].rest {
                    Rest::Nothing => self.at(now, Event::WaitEnded(step)),
                    Rest::Group { ns } => self.at(now + ns, Event::WaitEnded(step)),
                    Rest::Log { .. } => {
                        self.gathered.push(step);
                        self.begin_frame(now);
                    }
                }
                self.begin_work(now);
            }
            Event::Written(steps) => {
                self.is_writing = false;
                for step in steps {
                    self.at(now, Event::WaitEnded(step));
                }
                self.begin_frame(now);
            }
            Event::WaitEnded(step) => self.at(now + self.load.steps[step].reply_ns, Event::Replied(step)),
            Event::Replied(step) => self.reply(now, step),
        }
    }

    fn at(&mut self, when: u64, event: Event) {
        self.events.push(Reverse((when, event)));
    }

    fn begin_work(&mut self, now: u64) {
        while self.idle_workers > 0
            && let Some(step) = self.ready.pop_front()
        {
            self.idle_workers -= 1;
            self.at(now + self.load.steps[step].work_ns, Event::Worked(step));
        }
    }

    fn begin_frame(&mut self, now: u64) {
        if self.is_writing || self.gathered.is_empty() {
            return;
        }
        self.is_writing = true;
        self.frames += 1;
        let steps = std::mem::take(&mut self.gathered);
        let bytes = |step: &usize| match self.load.steps[*step].rest {
            // A record has a head of its own.
            Rest::Log { bytes } if bytes > 0 => bytes + 40,
            _ => 0,
        };
        let frame_bytes = (HEADER_BYTES + steps.iter().map(bytes).sum::<u64>()).next_multiple_of(SECTOR);
        let took = self.device.draw(frame_bytes) + self.load.frame_ns;
        self.at(now + took, Event::Written(steps));
    }

    fn reply(&mut self, now: u64, index: usize) {
        let step = &self.load.steps[index];
        let span = &mut self.spans[step.connection];
        *span = (span.0.min(self.read_ns[index]), span.1.max(now), span.2 + 1);
        if matches!(step.rest, Rest::Log { .. }) {
            *self.latencies.entry(now - self.read_ns[index]).or_default() += 1;
        }
        for &(follower, think_ns) in &step.followers {
            self.events.push(Reverse((now + think_ns, Event::Read(follower))));
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn outcome(self) -> Run {
        let rate =
            |&(first, last, count): &(u64, u64, u64)| count as f64 * 1e9 / (last.saturating_sub(first)).max(1) as f64;
        Run {
            rate: self.spans.iter().filter(|span| span.2 > 1).map(rate).sum(),
            latency: Spread(self.latencies.into_iter().collect()),
            frames: self.frames,
        }
    }
}

/// The rate of the recording itself, by the same rule as that of a run.
#[must_use]
#[allow(clippy::cast_precision_loss)]
pub fn recorded_rate(load: &RecordedLoad) -> f64 {
    let mut spans: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
    for event in &load.events {
        let span = spans.entry(event.connection).or_insert((u64::MAX, 0, 0));
        *span = (span.0.min(event.read_ns), span.1.max(event.sent_ns()), span.2 + 1);
    }
    let rate = |&(first, last, count): &(u64, u64, u64)| count as f64 * 1e9 / last.saturating_sub(first).max(1) as f64;
    spans.values().filter(|span| span.2 > 1).map(rate).sum()
}

/// The log's device as the recording has met it. Requests of one frame were told the same time.
#[must_use]
pub fn recorded_device(load: &RecordedLoad) -> Device {
    let mut frames: Vec<(u64, u64)> = Vec::new();
    for event in load.events.iter().filter(|event| event.by == KeptBy::Log && event.device_ns > 0) {
        match frames.iter_mut().rev().take(64).find(|(ns, _)| *ns == event.device_ns) {
            Some((_, bytes)) => *bytes += event.frame_bytes,
            None => frames.push((event.device_ns, event.frame_bytes)),
        }
    }
    let mut by_length: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (ns, bytes) in frames {
        by_length.entry(bytes.max(SECTOR).next_power_of_two()).or_default().push(ns);
    }
    Device::new(by_length.into_iter().map(|(bytes, ns)| Samples::new(bytes, ns)).collect())
}

/// What the log takes for a frame beside the device: the wait for a slot of those who had none to wait for.
fn frame_overhead(events: &[LoadEvent]) -> u64 {
    let kept = events.iter().filter(|event| event.by == KeptBy::Log);
    let mut slots: Vec<u64> = kept.map(|event| event.wait_ns.saturating_sub(event.device_ns)).collect();
    slots.sort_unstable();
    slots.get(slots.len() / 10).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests;
