//! Reading a mirror: one leg after the other until one has it right, and the next one sooner where a leg is slow.
//!
//! A read that takes much longer than reads of its disk do is asked of another leg, too, and the first good answer holds.
//! What the slow one brings is for nobody: its helper owns the buffer. Which is asked first, [`super::pace`] says. A leg that has owed an answer for long comes last
//! from the beginning, so that a disk that hangs keeps a few helpers and not one for each read.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use tally_base::Clock;
use tally_disk::{AlignedBuf, IoKind};

use super::{VdevLeg, gone};
use crate::label::LABEL_BYTES;

/// No read is asked of another leg sooner: a hard disk that seeks for many takes so long and is well.
const IMPATIENT_MIN: Duration = Duration::from_millis(50);
/// Nor before this many times what one in a hundred of its reads takes.
const IMPATIENT_P99S: u32 = 4;
/// A leg that owes an answer for longer is read last.
const SLOW: Duration = Duration::from_secs(1);
/// And at once where it is slow and owes so many reads: each keeps a helper for as long as the disk hangs, and there are 512 of
/// those for all disks. Without helpers nobody can be left.
const OWED_READS_MAX: u64 = 32;

/// What a leg has answered.
type Answer = (usize, io::Result<Vec<AlignedBuf>>);

/// A range that is read from some of these legs.
pub(super) struct Asking {
    legs: Vec<Arc<VdevLeg>>,
    offset: u64,
    length: usize,
    /// How many of them were asked, in their order.
    asked: usize,
    /// Those that owe an answer.
    owing: Vec<usize>,
    /// By which answers are measured.
    clock: Option<Arc<dyn Clock>>,
    /// The second leg is asked at once, too.
    probes: bool,
    /// It was, and nobody waits for it as long as there is another one to ask.
    probed: Option<usize>,
    sender: Sender<Answer>,
    answers: Receiver<Answer>,
}

impl Asking {
    /// Of these legs, in this order. Nobody is asked yet. With `probes` the second one is asked beside the first, to hear how
    /// quick it is.
    pub(super) fn of(
        legs: Vec<Arc<VdevLeg>>,
        (offset, length): (u64, usize),
        (clock, probes): (Option<Arc<dyn Clock>>, bool),
    ) -> Self {
        let (sender, answers) = mpsc::channel();
        Self { legs, offset, length, asked: 0, owing: Vec::new(), clock, probes, probed: None, sender, answers }
    }

    /// The next answer, from whichever leg it comes; nothing once all have given theirs.
    pub(super) fn next(&mut self) -> Option<(Arc<VdevLeg>, io::Result<AlignedBuf>)> {
        if self.owing.is_empty() {
            if self.ask().is_none() {
                self.owing.push(self.probed.take()?);
            }
            if std::mem::take(&mut self.probes) && self.ask().is_some() {
                self.probed = self.owing.pop();
            }
        }
        loop {
            match self.answers.recv_timeout(IMPATIENT_MIN) {
                Ok((index, outcome)) => {
                    self.owing.retain(|owing| *owing != index);
                    self.probed = self.probed.filter(|probed| *probed != index);
                    let one = |mut parts: Vec<AlignedBuf>| parts.pop().ok_or_else(gone);
                    return Some((Arc::clone(&self.legs[index]), outcome.and_then(one)));
                }
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let is_left = |index: &usize| self.legs[*index].left_after().is_some();
            if let Some(place) = self.owing.iter().position(is_left) {
                let leg = Arc::clone(&self.legs[self.owing.remove(place)]);
                return Some((leg, Err(io::Error::new(io::ErrorKind::TimedOut, "it hangs"))));
            }
            if self.owing.iter().all(|index| is_slow(&self.legs[*index])) {
                self.ask();
            }
        }
    }

    /// Asks the next leg, if there is one.
    fn ask(&mut self) -> Option<()> {
        let (index, leg) = (self.asked, self.legs.get(self.asked)?);
        self.asked += 1;
        self.owing.push(index);
        let owed = Owed { index, sender: Some(self.sender.clone()) };
        begin((leg, self.clock.clone()), self.offset, vec![AlignedBuf::zeroed(self.length)], owed);
        Some(())
    }
}

fn begin((leg, clock): (&VdevLeg, Option<Arc<dyn Clock>>), offset: u64, parts: Vec<AlignedBuf>, owed: Owed) {
    let (pace, at_once) = (Arc::clone(&leg.pace), leg.active(IoKind::Read) + 1);
    let length = parts.iter().map(|part| part.len()).sum();
    let began = clock.map(|clock| (clock.monotonic(), clock));
    let answer = move |parts, outcome: io::Result<()>| {
        if let (Ok(()), Some((began, clock))) = (&outcome, began) {
            let now = clock.monotonic();
            pace.note(length, now.saturating_sub(began), at_once, now);
        }
        owed.give(outcome.map(|()| parts));
    };
    match leg.patient() {
        Some(disk) => disk.begin_read(LABEL_BYTES + offset, parts, answer),
        None => answer(parts, Err(gone())),
    }
}

/// Reads `parts` from a leg for nobody yet, and not for longer than it usually takes. Where it is left they are empty.
pub(super) fn read_quietly(
    (leg, clock): (&VdevLeg, Option<Arc<dyn Clock>>),
    offset: u64,
    parts: &mut [AlignedBuf],
) -> bool {
    let (sender, answers) = mpsc::channel();
    let own = parts.iter_mut().map(|part| std::mem::replace(part, AlignedBuf::with_capacity(0))).collect();
    begin((leg, clock), offset, own, Owed { index: 0, sender: Some(sender) });
    loop {
        match answers.recv_timeout(IMPATIENT_MIN) {
            Ok((_, Ok(read))) => {
                parts.iter_mut().zip(read).for_each(|(part, read)| *part = read);
                return true;
            }
            Err(RecvTimeoutError::Timeout) if !is_slow(leg) => {}
            _ => return false,
        }
    }
}

/// What a helper owes: an answer, and be it because it panicked.
struct Owed {
    index: usize,
    sender: Option<Sender<Answer>>,
}

impl Owed {
    fn give(mut self, outcome: io::Result<Vec<AlignedBuf>>) {
        self.send(outcome);
    }

    fn send(&mut self, outcome: io::Result<Vec<AlignedBuf>>) {
        if let Some(sender) = self.sender.take() {
            // Who has what he wanted hears no more.
            let _heard = sender.send((self.index, outcome));
        }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        self.send(Err(io::Error::other("the reading thread died")));
    }
}

/// Whether a leg owes an answer for much longer than its reads take.
fn is_slow(leg: &VdevLeg) -> bool {
    let Some(disk) = leg.disk() else { return true };
    let usual = disk.times(IoKind::Read).latency.quantile(0.99);
    disk.silent_for().is_none_or(|silent| silent >= IMPATIENT_MIN.max(usual * IMPATIENT_P99S))
}

/// Whether a leg has owed an answer for long: it comes last.
pub(super) fn is_silent(leg: &VdevLeg) -> bool {
    let silent = leg.disk().and_then(|disk| disk.silent_for());
    silent.is_some_and(|silent| silent >= SLOW) || leg.active(IoKind::Read) >= OWED_READS_MAX && is_slow(leg)
}

#[cfg(test)]
mod tests;
