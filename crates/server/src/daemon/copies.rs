//! What runs for hours beside other commands: copies to disks that join, the look at every block before one leaves, and
//! scrubs.
//!
//! Such a command has a thread of its own, so that the daemon's is free for the others, and for the end. What it must
//! be safe from stands here: on a vdev disks join, one beside the other, or one leaves; one scrub beside them; none on a pool that is being let
//! go, and each can be stopped, by whoever detaches the disk that joins, by `scrub -s`, and by the end of the daemon. It
//! looks whether it should go on with each step, so that a stop takes as long as one step. A scrub, and a copy to a disk that joins or comes back, keep nobody
//! from letting go of their pool: they are interrupted, and the next import goes on with them.
//!
//! ```text
//!   begin ──▶ preparing ──▶ copying ──▶ (checking) ──▶ joining or leaving ──▶ ended: its outcome is kept for `status`
//!                  └───────────┴── stop ────┴──▶ the disk is taken out again, or stays: as before
//! ```
//!
//! A disk that joins is checked where another one leaves for it. A scrub has no copying, and ends with what it has checked. What is known of it beyond the import stands in the pool
//! ([`super::scrub`]).
//!
//! What ended is remembered for as long as the pool is imported: the last of each vdev with those that ran beside it, and the last scrub.

mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tally_base::VdevGuid;
use tally_store::pool::membership::Stage;

pub(super) use self::words::{outcome_words, remarks_of, scrub_words};
use super::error::DiskError;
use crate::control::report::{CopyReport, EventClass};

/// How long whoever lets go of a pool waits for the end of its scrub and of its copies. A step is over in a moment, unless a disk hangs; and
/// one that has hung for so long is shown by `status`.
const STOPPING_MAX: Duration = Duration::from_secs(5);

/// What a command is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A disk joins.
    Join,
    /// A disk leaves.
    Leave,
    /// A spare is given back, which nobody has asked for: it is stopped for whatever somebody wants, and tried again.
    GiveBack,
    /// A disk is taken out of use.
    Offline,
    /// A disk that was away comes back.
    Return,
    /// Every block of the pool is looked at.
    Scrub,
}

impl Purpose {
    /// The event that tells of its beginning.
    const fn begins(self) -> EventClass {
        match self {
            Self::Join | Self::Return => EventClass::ResilverStart,
            Self::Leave | Self::GiveBack => EventClass::CheckStart,
            Self::Offline => EventClass::OfflineStart,
            Self::Scrub => EventClass::ScrubStart,
        }
    }
}

/// What there is to do, and what is done, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// None: the disk is made ready, and there is nothing to count.
    stage: Option<Stage>,
    copy_bytes: u64,
    check_bytes: u64,
    copied: u64,
    checked: u64,
    /// Bytes that were done before it went on, and for how long it had been running by then.
    before: u64,
    ran: Duration,
}

/// A command that is under way.
pub(super) struct Copy {
    /// None: the whole pool.
    vdev: Option<VdevGuid>,
    purpose: Purpose,
    /// The disk that joins or leaves; of a scrub empty.
    path: PathBuf,
    /// The disk in whose place it comes, and which leaves then.
    leaves: Option<PathBuf>,
    began: Instant,
    stop: AtomicBool,
    /// It was stopped as its pool is let go, and goes on with the next import.
    interrupted: AtomicBool,
    progress: Mutex<Progress>,
}

impl Copy {
    /// Says how much there will be to do.
    pub(super) fn expect(&self, copy_bytes: u64, check_bytes: u64) {
        let mut progress = self.progress.lock();
        (progress.copy_bytes, progress.check_bytes) = (copy_bytes, check_bytes);
    }

    /// It has been running before, and so many bytes were copied, and checked, by then.
    pub(super) fn goes_on(&self, copied: u64, checked: u64, ran: Duration) {
        let mut progress = self.progress.lock();
        (progress.copied, progress.checked) = (copied.min(progress.copy_bytes), checked.min(progress.check_bytes));
        (progress.before, progress.ran) = (progress.copied + progress.checked, ran);
    }

    /// Notes that so many bytes of a stage are done. Whether it should go on.
    pub(super) fn note(&self, stage: Stage, done: u64) -> bool {
        let mut progress = self.progress.lock();
        progress.stage = Some(stage);
        match stage {
            Stage::Copying | Stage::Bringing => progress.copied = done.min(progress.copy_bytes),
            Stage::CheckingCopy | Stage::CheckingRest => {
                progress.copied = progress.copy_bytes;
                progress.checked = done.min(progress.check_bytes);
            }
        }
        !self.is_stopped()
    }

    /// Whether somebody wants it to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Whether it was stopped as its pool is let go.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// For how long it has been running.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    #[allow(clippy::cast_precision_loss)] // It is shown with three digits.
    fn report(&self) -> CopyReport {
        let progress = *self.progress.lock();
        let (done, total) = (progress.copied + progress.checked, progress.copy_bytes + progress.check_bytes);
        let seconds = self.elapsed().as_secs_f64();
        let done_now = done.saturating_sub(progress.before) as f64;
        let bytes_per_second = if seconds > 0.0 { done_now / seconds } else { 0.0 };
        let left = total.saturating_sub(done) as f64;
        CopyReport {
            what: match self.purpose {
                Purpose::Join | Purpose::Return => "resilver",
                Purpose::Leave | Purpose::GiveBack => "check",
                Purpose::Offline => "offline",
                Purpose::Scrub => "scrub",
            }
            .into(),
            device: self.path.display().to_string(),
            partial: progress.stage == Some(Stage::Bringing),
            phase: match progress.stage {
                _ if self.is_stopped() => "stopping",
                None => "preparing",
                Some(Stage::Copying | Stage::Bringing) => "copying",
                Some(Stage::CheckingCopy | Stage::CheckingRest) => "checking",
            }
            .into(),
            done_bytes: done,
            total_bytes: total,
            seconds: seconds + progress.ran.as_secs_f64(),
            bytes_per_second,
            seconds_left: (bytes_per_second > 0.0).then(|| left / bytes_per_second),
        }
    }

    /// Whether another command can run beside it: disks may join one vdev side by side, but each once, and for one disk only one.
    fn goes_beside(&self, about: About<'_>) -> bool {
        let joins = |purpose| matches!(purpose, Purpose::Join | Purpose::Return);
        let paths = [Some(about.path), about.leaves];
        let is_same = |own: &Path| paths.contains(&Some(own));
        let is_about_the_same = is_same(&self.path) || self.leaves.as_deref().is_some_and(is_same);
        self.vdev != about.vdev || joins(self.purpose) && joins(about.purpose) && !is_about_the_same
    }

    /// In words, for whoever wants something that cannot be while it runs.
    fn words(&self) -> String {
        let report = self.report();
        let percent = u128::from(report.done_bytes) * 100 / u128::from(report.total_bytes.max(1));
        let path = self.path.display();
        match self.purpose {
            Purpose::Join => format!("the copy to {path} is still running ({percent} %)"),
            Purpose::Leave | Purpose::GiveBack => {
                format!("{path} is about to leave, and its blocks are being checked ({percent} %)")
            }
            Purpose::Offline => format!("{path} is being taken out of use"),
            Purpose::Return => format!("{path} is being brought up to date ({percent} %)"),
            Purpose::Scrub => format!("a scrub is under way ({percent} %)"),
        }
    }

    /// What keeps others from beginning, with what its kind is stopped by.
    fn busy(&self) -> DiskError {
        let other = self.words();
        if self.purpose == Purpose::Scrub { DiskError::Scrubbing { other } } else { DiskError::Busy { other } }
    }
}

/// What somebody wants to begin.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    /// On this vdev; none: on all of them.
    pub(super) vdev: Option<VdevGuid>,
    /// What it is.
    pub(super) purpose: Purpose,
    /// The disk that joins or leaves.
    pub(super) path: &'a Path,
    /// The disk that leaves when that one has joined.
    pub(super) leaves: Option<&'a Path>,
}

/// What came of a command.
#[derive(Clone, Debug)]
struct Ended {
    at: Instant,
    /// A line for `status`, with no end of line.
    outcome: String,
    /// What is not as it should be, for as long as it is not.
    notice: Option<String>,
}

#[derive(Default)]
struct State {
    running: Vec<Arc<Copy>>,
    /// By vdev and disk.
    ended: BTreeMap<(Option<VdevGuid>, PathBuf), Ended>,
    /// The pool is being let go: nothing begins any more.
    closed: bool,
}

impl State {
    fn check_beside(&self, about: About<'_>) -> Result<(), DiskError> {
        if self.closed {
            return Err(DiskError::LettingGo);
        }
        let in_the_way = self.running.iter().find(|other| !other.goes_beside(about));
        in_the_way.map_or(Ok(()), |other| Err(other.busy()))
    }

    /// None begins any more, and those that run hear that they are interrupted.
    fn close(&mut self) {
        self.closed = true;
        for copy in &self.running {
            // Why it is stopped does not change when somebody wants it again.
            if !copy.is_stopped() {
                // In this order: who sees that it is stopped asks why.
                copy.interrupted.store(true, Ordering::Release);
                copy.stop.store(true, Ordering::Release);
            }
        }
    }

    /// Whether none of these runs.
    fn check_without(&self, keeps: impl Fn(Purpose) -> bool) -> Result<(), DiskError> {
        let in_the_way = self.running.iter().find(|copy| keeps(copy.purpose));
        in_the_way.map_or(Ok(()), |other| Err(other.busy()))
    }
}

/// The copies, checks and scrubs of one pool.
#[derive(Default)]
pub struct Copies {
    state: Mutex<State>,
    one_ended: Condvar,
}

/// Keeps the place of a copy that runs; others may begin when it is dropped.
pub(super) struct Running {
    copies: Arc<Copies>,
    pub(super) copy: Arc<Copy>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.copies.state.lock().running.retain(|other| !Arc::ptr_eq(other, &self.copy));
        self.copies.one_ended.notify_all();
    }
}

impl Running {
    /// What came of it is known elsewhere, and what was kept of one before is out of date.
    pub(super) fn ended_well(&self) {
        self.copies.state.lock().ended.retain(|(vdev, _), _| *vdev != self.copy.vdev);
    }

    /// Keeps for `status` what came of it.
    pub(super) fn ended(&self, outcome: String, notice: Option<String>) {
        let Copy { vdev, path, began, .. } = &*self.copy;
        let mut state = self.copies.state.lock();
        // What ended before this one began is none of today.
        state.ended.retain(|(of, _), ended| of != vdev || ended.at > *began);
        state.ended.insert((*vdev, path.clone()), Ended { at: Instant::now(), outcome, notice });
    }
}

impl Copies {
    /// Whether something that keeps disks from joining or leaving could begin on that vdev now.
    pub(super) fn check(&self, vdev: VdevGuid) -> Result<(), DiskError> {
        self.check_beside(About { vdev: Some(vdev), purpose: Purpose::Leave, path: Path::new(""), leaves: None })
    }

    /// Whether this could begin now.
    pub(super) fn check_beside(&self, about: About<'_>) -> Result<(), DiskError> {
        self.state.lock().check_beside(about)
    }

    /// Begins a scrub, unless there is one, or the pool is being let go.
    pub(super) fn begin_scrub(self: &Arc<Self>) -> Result<Running, DiskError> {
        self.begin(About { vdev: None, purpose: Purpose::Scrub, path: Path::new(""), leaves: None })
    }

    /// The same, unless anything else runs: for one that nobody waits for.
    pub(super) fn begin_scrub_alone(self: &Arc<Self>) -> Result<Running, DiskError> {
        let busy = self.state.lock().running.first().map(|other| other.busy());
        // What begins in between is let be, as beside any scrub.
        busy.map_or_else(|| self.begin_scrub(), Err)
    }

    /// Begins, unless something runs that it cannot be beside, or the pool is being let go.
    pub(super) fn begin(self: &Arc<Self>, about: About<'_>) -> Result<Running, DiskError> {
        let mut state = self.state.lock();
        state.check_beside(about)?;
        let About { vdev, purpose, path, leaves } = about;
        let copy = Arc::new(Copy {
            vdev,
            purpose,
            path: path.into(),
            leaves: leaves.map(Path::to_owned),
            began: Instant::now(),
            stop: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
            progress: Mutex::default(),
        });
        state.running.push(Arc::clone(&copy));
        Ok(Running { copies: Arc::clone(self), copy })
    }

    /// Whether the disk at `path` is being copied to, or brought up to date.
    pub(super) fn is_joining(&self, vdev: VdevGuid, path: &Path) -> bool {
        let joins = |copy: &Arc<Copy>| matches!(copy.purpose, Purpose::Join | Purpose::Return);
        self.state.lock().running.iter().any(|copy| copy.vdev == Some(vdev) && copy.path == path && joins(copy))
    }

    /// Stops the copy to the disk at `path`, and waits for its end; and so for a spare that is about to be given back. Whether
    /// there was one.
    pub(super) fn stop_join(&self, vdev: VdevGuid, path: &Path) -> bool {
        let joins = |copy: &Copy| matches!(copy.purpose, Purpose::Join | Purpose::Return | Purpose::GiveBack);
        self.stop(|copy| copy.vdev == Some(vdev) && copy.path == path && joins(copy))
    }

    /// Stops the scrub, and waits for its end. Whether there was one.
    pub(super) fn stop_scrub(&self) -> bool {
        self.stop(|copy| copy.purpose == Purpose::Scrub)
    }

    fn stop(&self, is_it: impl Fn(&Copy) -> bool) -> bool {
        let mut state = self.state.lock();
        let Some(copy) = state.running.iter().find(|copy| is_it(copy)).cloned() else { return false };
        copy.stop.store(true, Ordering::Release);
        while state.running.iter().any(|other| Arc::ptr_eq(other, &copy)) {
            self.one_ended.wait(&mut state);
        }
        true
    }

    /// Whether nothing runs that keeps the pool from being destroyed: a copy, too, as it has nowhere to go on.
    pub(super) fn check_destroy(&self) -> Result<(), DiskError> {
        self.state.lock().check_without(|purpose| !matches!(purpose, Purpose::Scrub | Purpose::GiveBack))
    }

    /// From now on none begins: the pool is let go. A scrub, a spare that is about to be given back, and copies to disks that join or come back are
    /// interrupted, as the next import goes on with them. Refused while anything else runs; and where that waits for a disk, as whoever
    /// lets go keeps all other commands waiting. What was interrupted then goes on by itself here.
    pub(super) fn close(&self) -> Result<(), DiskError> {
        let mut state = self.state.lock();
        state.check_without(|purpose| matches!(purpose, Purpose::Leave | Purpose::Offline))?;
        state.close();
        let until = Instant::now() + STOPPING_MAX;
        while !state.running.is_empty() {
            if self.one_ended.wait_until(&mut state, until).timed_out() && !state.running.is_empty() {
                state.closed = false;
                return Err(DiskError::Stopping);
            }
        }
        Ok(())
    }

    /// Ends all of them, and waits; none begins any more. Copies to disks that join go on with the next import.
    pub(super) fn stop_all(&self) {
        let mut state = self.state.lock();
        state.close();
        while !state.running.is_empty() {
            self.one_ended.wait(&mut state);
        }
    }

    /// Whether something runs on a vdev, or on any.
    pub(super) fn runs_on(&self, vdev: Option<VdevGuid>) -> bool {
        let is_it = |copy: &Arc<Copy>| copy.vdev.is_some() && (vdev.is_none() || copy.vdev == vdev);
        self.state.lock().running.iter().any(is_it)
    }

    /// Whether a scrub runs.
    pub(super) fn is_scrubbing(&self) -> bool {
        self.state.lock().running.iter().any(|copy| copy.purpose == Purpose::Scrub)
    }

    /// Those that run.
    pub(super) fn running(&self) -> Vec<CopyReport> {
        self.state.lock().running.iter().map(|copy| copy.report()).collect()
    }

    /// The event by which each that runs began, and the disk that it is about.
    pub(super) fn begun(&self) -> Vec<(EventClass, String)> {
        let event = |copy: &Arc<Copy>| (copy.purpose.begins(), copy.path.display().to_string());
        self.state.lock().running.iter().map(event).collect()
    }

    /// What came of the last ones of each vdev, and of a scrub that could not go on, in a line each.
    pub(super) fn outcomes(&self) -> Vec<String> {
        self.state.lock().ended.values().map(|ended| ended.outcome.clone()).collect()
    }

    /// Whether what a copy to this disk has left is told of.
    pub(super) fn has_notice(&self, vdev: VdevGuid, path: &Path) -> bool {
        let ended = &self.state.lock().ended;
        ended.get(&(Some(vdev), path.to_owned())).is_some_and(|ended| ended.notice.is_some())
    }

    /// What they left that is not as it should be.
    pub(super) fn notices(&self) -> Vec<String> {
        self.state.lock().ended.values().filter_map(|ended| ended.notice.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
