//! Content that a walk has met, to be read in the order in which it lies.
//!
//! Blocks are met in the order of files, and lie in the order in which they were written. So they are gathered over several
//! steps of the walk, whose blocks are held meanwhile, sorted by their places, and read in stretches of neighbours from each
//! leg. A stretch in which anything is wrong tells no more than that: its blocks are looked at one by one. A leg that joins has
//! none of it: it is given what another one has, where that is right.
//!
//! What is gathered keeps its places, so it is no more than can be looked at within [`LOOK_TIME`]: beside clients who never pause that is
//! far less than a disk gives to a walk alone (docs/design/0057).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tally_base::LongWork;
use tally_members::blockdev::BlockDevError;

use super::verdict::Keepers;
use super::{Holding, Subject};
use crate::block::{self, is_in_one_piece};
use crate::bp::BlockPtr;
use crate::io::BlockIo;
use crate::key::Key;

/// Stretches that are read at once, from each of their legs: one is compared while the other one comes. Where the log lies on
/// the same disk it is one, for whoever waits for a frame (rules P3).
const STRETCHES_AT_ONCE: usize = 2;

/// So long content is gathered, and as long it takes to look at it: shorter than a transaction group is open. A walk that holds
/// something for longer than a group waits for no turn until it has looked at all of it.
const LOOK_TIME: Duration = Duration::from_secs(1);
/// But no less content than this at once.
const BYTES_MIN: u64 = 1 << 20;
/// Steps of the walk in which content is gathered, if they do not come to enough: as many leaves.
const STEPS_MAX: usize = 1024;

/// Neighbours on one vdev.
pub(super) type Stretch = Vec<(Key, BlockPtr)>;

/// See the module's head.
pub(super) struct Gathered {
    content: Vec<(Key, BlockPtr)>,
    bytes: u64,
    held: Vec<Arc<Holding>>,
    steps: usize,
    /// When its first step was over, by the clock that nobody sets.
    since: Option<Duration>,
    /// Enough at once, as the last look tells.
    pub(super) bytes_enough: u64,
    bytes_max: u64,
}

impl Gathered {
    /// Nothing yet. `bytes_max` are looked at together where that takes no time.
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            content: Vec::new(),
            bytes: 0,
            held: Vec::new(),
            steps: 0,
            since: None,
            bytes_enough: bytes_max,
            bytes_max,
        }
    }

    /// A step is over. Whether it is time to look at what was gathered.
    pub(super) fn is_enough_at(&mut self, now: Duration) -> bool {
        self.steps += 1;
        let since = *self.since.get_or_insert(now);
        self.steps >= STEPS_MAX || self.bytes >= self.bytes_enough || now.saturating_sub(since) >= LOOK_TIME
    }

    /// The look at so much took so long. It may have been in a hurry, so the next one is at no more than twice as much.
    pub(super) fn note_look(&mut self, bytes: u64, took: Duration) {
        let within = u128::from(bytes) * LOOK_TIME.as_nanos() / took.as_nanos().max(1);
        let within = u64::try_from(within).unwrap_or(u64::MAX);
        if bytes > 0 {
            let most = self.bytes_enough.saturating_mul(2).min(self.bytes_max);
            self.bytes_enough = within.clamp(BYTES_MIN.min(most), most);
        }
    }

    /// Content that a step has met, and what holds its blocks ([`super::Pool::hold_blocks`]).
    pub(super) fn take(&mut self, content: (Key, BlockPtr), held: &Arc<Holding>) {
        self.bytes += content.1.dva.bytes();
        self.content.push(content);
        if !self.held.last().is_some_and(|last| Arc::ptr_eq(last, held)) {
            self.held.push(Arc::clone(held));
        }
    }

    /// Bytes of that content.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All of it, as many stretches together as are read at once; and what holds it. A stretch is no longer than a device
    /// write, if no single block is.
    pub(super) fn in_order(&mut self, io: &BlockIo) -> (Vec<Vec<Stretch>>, Vec<Arc<Holding>>) {
        let left = Self { bytes_enough: self.bytes_enough, ..Self::new(self.bytes_max) };
        let Self { mut content, held, .. } = std::mem::replace(self, left);
        let bytes_max = io.write_bytes_max() as u64;
        content.sort_unstable_by_key(|(_, bp)| bp.dva);
        let mut stretches: Vec<Stretch> = Vec::new();
        for (key, bp) in content {
            let fits = |stretch: &Stretch| {
                let (first, last) = (stretch.first().map(|(_, bp)| bp.dva), stretch.last().map(|(_, bp)| bp.dva));
                first.zip(last).is_some_and(|(first, last)| {
                    let is_neighbour = last.vdev == bp.dva.vdev && last.end() == bp.dva.offset;
                    is_neighbour && bp.dva.end().saturating_sub(first.offset) <= bytes_max
                })
            };
            match stretches.last_mut().filter(|stretch| fits(stretch)) {
                Some(stretch) => stretch.push((key, bp)),
                None => stretches.push(vec![(key, bp)]),
            }
        }
        let at_once = if io.has_log_beside() { 1 } else { STRETCHES_AT_ONCE };
        (stretches.chunks(at_once).map(<[Stretch]>::to_vec).collect(), held)
    }
}

/// Of each of these whether all of its blocks are right on every leg that is to keep them, or are by now. False also where that cannot be
/// told at once: of a block in pieces or in two places, or on a vdev that is no subject.
pub(super) fn which_are_right(
    io: &BlockIo,
    subjects: &[Subject<'_>],
    stretches: &[Stretch],
) -> Result<Vec<bool>, BlockDevError> {
    let mut looks = Vec::new();
    let mut right: Vec<_> = Vec::new();
    for (at, stretch) in stretches.iter().enumerate() {
        let can_tell = stretch.iter().all(|(_, bp)| is_in_one_piece(bp) && bp.copy.is_none());
        let index = stretch.first().map(|(_, bp)| bp.dva.vdev);
        let subject = subjects.iter().find(|subject| can_tell && Some(subject.vdev.index()) == index);
        let keepers = subject.map(Subject::keepers).unwrap_or_default();
        right.push(Mutex::new(!keepers.is_empty()));
        looks.extend(
            subject
                .into_iter()
                .flat_map(|subject| keepers.iter().map(move |leg| (at, subject, *leg)).collect::<Vec<_>>()),
        );
    }
    let failed = Mutex::new(None);
    io.each(looks.len(), &|number| {
        let (at, subject, leg) = looks[number];
        let (start, length) = extent_of(&stretches[at]);
        let is_right = |bytes: &[u8]| {
            let mut work = LongWork::default();
            stretches[at].iter().all(|(_, bp)| {
                work.step();
                block::is_at(bytes, start, bp)
            })
        };
        let outcome = match subject.keepers {
            Keepers::Joining(_) => subject.vdev.bring(leg, start, length, &is_right),
            Keepers::These(_) | Keepers::Online => Ok(subject.vdev.leg_has(leg, start, length, &is_right)),
        };
        *right[at].lock() &= matches!(outcome, Ok(true));
        if let Err(error) = outcome {
            *failed.lock() = Some(error);
        }
    });
    failed.into_inner().map_or_else(|| Ok(right.into_iter().map(Mutex::into_inner).collect()), Err)
}

/// Where a stretch begins, and how long it is.
fn extent_of(stretch: &Stretch) -> (u64, usize) {
    let start = stretch.first().map_or(0, |(_, bp)| bp.dva.offset);
    let end = stretch.last().map_or(0, |(_, bp)| bp.dva.end());
    (start, usize::try_from(end.saturating_sub(start)).unwrap_or(0))
}
