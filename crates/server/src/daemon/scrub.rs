//! `tally pool scrub`: every block on every disk of a pool is looked at, beside whatever clients do.
//!
//! It runs in a thread of its own, and whoever has asked for it need not wait; [`super::copies`] knows how far it is. How it
//! stands beyond that the pool itself knows ([`tally_store::pool::ScrubJob`]). An export and the end of the daemon interrupt it,
//! between two blocks: the next import goes on with it, unless it was paused.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use tally_base::{Size, Time};
use tally_store::pool::membership::Stage;
use tally_store::pool::{JobState, Pool, ScrubJob, SecureError, SecureReport};

use super::copies::{Copies, Running, remarks_of, scrub_words};
use super::error::{PoolsError, ScrubError};
use super::served::ServedPool;
use crate::control::message::{OnProgress, Progress};
use crate::control::report::{ScrubReport, SpaceReport};
use crate::dates::{utc, utc_as_ctime};

impl ServedPool {
    /// Begins a scrub. With `wait` it is over when this returns; then what came of it is told.
    pub(super) fn scrub(self: Arc<Self>, wait: bool, progress: OnProgress<'_>) -> Result<Vec<String>, PoolsError> {
        let name = self.filer.name();
        if self.filer.pool().read_only() {
            return Err(ScrubError::ReadOnly { pool: name }.into());
        }
        let running = self.copies.begin_scrub().map_err(ScrubError::Kept)?;
        if wait {
            let what = format!("scrubbing {name}");
            let mut tell = |done, total| progress(Progress { what: what.clone(), done, total });
            let (outcome, secured) = run(self, running, &mut tell).map_err(ScrubError::Ended)?;
            return Ok(std::iter::once(outcome).chain(remarks_of(&secured)).collect());
        }
        let job = self.filer.pool().scrub_job().filter(ScrubJob::is_open);
        spawn(self, running).map_err(ScrubError::NoThread)?;
        let what = if job.is_some() { "goes on" } else { "has begun" };
        Ok(vec![format!("the scrub of '{name}' {what}; `tally pool status {name}` shows how far it is")])
    }

    /// Stops the scrub, be it that it is paused.
    pub(super) fn stop_scrub(&self) -> Result<(), PoolsError> {
        let ran = self.copies.stop_scrub();
        let was_open = self.filer.pool().stop_scrub();
        self.filer.sync()?;
        if ran || was_open { Ok(()) } else { Err(ScrubError::NoScrub { pool: self.filer.name() }.into()) }
    }

    /// Pauses the scrub: it goes on when somebody asks for it, whatever happens in between.
    pub(super) fn pause_scrub(&self) -> Result<(), PoolsError> {
        let pool = self.filer.pool();
        self.copies.stop_scrub();
        if pool.pause_scrub() {
            // It is told that it is paused when that is durable.
            self.filer.sync()?;
            return Ok(());
        }
        let is_paused = pool.scrub_job().is_some_and(|job| job.state == JobState::Paused);
        let pool = self.filer.name();
        Err(if is_paused { ScrubError::Paused { pool } } else { ScrubError::NoScrub { pool } }.into())
    }

    /// Begins a scrub that is due, if nothing else runs over whole disks. Nobody waits for it.
    pub(super) fn begin_due_scrub(self: &Arc<Self>) -> Result<(), ScrubError> {
        let running = self.copies.begin_scrub_alone()?;
        spawn(Arc::clone(self), running).map_err(ScrubError::NoThread)
    }
}

/// A pool that was just imported may have been in the middle of one.
pub(super) fn resume(served: &Arc<ServedPool>) {
    let pool = served.filer.pool();
    if pool.read_only() || pool.scrub_job().is_none_or(|job| job.state != JobState::Running) {
        return;
    }
    let begun = served.copies.begin_scrub().map_err(|why| why.to_string());
    let spawned = begun.and_then(|running| spawn(Arc::clone(served), running).map_err(|why| why.to_string()));
    match spawned {
        Ok(()) => tracing::info!("the scrub of '{}' goes on", served.filer.name()),
        Err(why) => tracing::warn!("the scrub of '{}' does not go on: {why}", served.filer.name()),
    }
}

fn spawn(served: Arc<ServedPool>, running: Running) -> std::io::Result<()> {
    let scrub = move || {
        if let Err(why) = run(served, running, &mut |_, _| {}) {
            tracing::warn!("{why}");
        }
    };
    thread::Builder::new().name("scrub".into()).spawn(scrub).map(|_| ())
}

/// Carries a scrub out, and keeps what came of it for `status`: in a line, which is given. An error is why it ended early.
fn run(
    served: Arc<ServedPool>,
    running: Running,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<(String, SecureReport), String> {
    let pool = Arc::clone(served.filer.pool());
    let before = pool.scrub_job().filter(ScrubJob::is_open);
    let total = before.as_ref().map_or_else(|| pool.io.allocator().space().allocated, |job| job.total_bytes);
    let mut done = before.as_ref().map_or(0, |job| job.report.checked_bytes);
    running.copy.expect(0, total);
    running.copy.goes_on(0, done, before.map_or(Duration::ZERO, |job| job.ran));
    let scrubbed = served.filer.scrub(&mut |checked| {
        done = checked;
        tell(checked, total);
        running.copy.note(Stage::CheckingRest, checked)
    });
    // What came of it the pool knows, unless something was in its way.
    let outcome = match &scrubbed {
        Ok(_) => pool.scrub_job().map_or_else(String::new, |job| job_words(&job)),
        Err(SecureError::Stopped) => format!("scrub stopped after {}", Size(done)),
        Err(error) => format!(
            "scrub ended early, after {} on {} UTC, and `tally pool scrub` goes on with it: {error}",
            Size(done),
            utc_of(now())
        ),
    };
    match &scrubbed {
        Ok(_) | Err(SecureError::Stopped) => running.ended_well(),
        Err(_) => running.ended(outcome.clone(), None),
    }
    // In this order: who waits for the end of all that runs may open the disks next.
    drop((served, pool));
    drop(running);
    match scrubbed {
        Ok(secured) => Ok((outcome, secured)),
        Err(_) => Err(outcome),
    }
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

fn utc_of(time: Time) -> String {
    utc(seconds(time))
}

/// The end of a scrub, in the form of `zpool`.
fn ctime_of(time: Time) -> String {
    utc_as_ctime(seconds(time)) + " UTC"
}

const fn seconds(time: Time) -> u64 {
    time.0 / 1_000_000_000
}

/// How a pool's scrub stands, unless it is running now.
pub(super) fn standing(pool: &Pool, copies: &Copies) -> Option<ScrubReport> {
    let job = pool.scrub_job()?;
    Some(ScrubReport {
        state: match job.state {
            _ if copies.is_scrubbing() => "running",
            JobState::Running => "interrupted",
            JobState::Paused => "paused",
            JobState::Finished => "finished",
            JobState::Stopped => "stopped",
        }
        .into(),
        words: if copies.is_scrubbing() { String::new() } else { job_words(&job) },
        began: seconds(job.began),
        changed: seconds(job.changed),
        ran_seconds: job.ran.as_secs_f64(),
        done_bytes: job.report.checked_bytes.min(job.total_bytes),
        total_bytes: job.total_bytes,
        repaired: job.report.repaired_count,
        errors: job.report.lost_count + job.report.given_up_count,
        space: job.report.space.filter(|_| job.state == JobState::Finished).map(|space| SpaceReport {
            leaked_bytes: space.leaked_bytes,
            hidden: space.hidden,
            given_bytes: space.given_bytes,
            alarms: space.alarm_count,
        }),
    })
}

/// The line for `status`, as `zpool status` has it.
fn job_words(job: &ScrubJob) -> String {
    let (done, total) = (job.report.checked_bytes.min(job.total_bytes), job.total_bytes);
    let tenths = u128::from(done) * 1000 / u128::from(total.max(1));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    // It is shown in three digits.
    let rate = Size((done as f64 / job.ran.as_secs_f64().max(1e-3)) as u64);
    let left = total.saturating_sub(done);
    let so_far = format!(
        "{} / {} at {rate}/s, {}.{}% done, {} left, {} repaired, {} errors",
        Size(done),
        Size(total),
        tenths / 10,
        tenths % 10,
        Size(left),
        job.report.repaired_count,
        job.report.lost_count + job.report.given_up_count
    );
    let (began, changed) = (utc_of(job.began), utc_of(job.changed));
    match job.state {
        JobState::Running => {
            format!(
                "scrub of {began} UTC was interrupted: `tally pool scrub`, or the next import, goes on with it\n        {so_far}"
            )
        }
        JobState::Paused => format!("scrub paused since {changed} UTC, begun on {began}\n        {so_far}"),
        JobState::Finished => scrub_words(&job.report, job.ran, &ctime_of(job.changed)),
        JobState::Stopped => format!("scrub canceled on {}\n        after {}", ctime_of(job.changed), Size(done)),
    }
}
