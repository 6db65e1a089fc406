//! `tally pool scrub`: every block on every disk of a pool is looked at, beside whatever clients do.
//!
//! It runs in a thread of its own, and whoever has asked for it need not wait; [`super::copies`] knows how far it is, and
//! what came of the last one. An export and the end of the daemon stop it, between two blocks.

use std::thread;
use std::time::SystemTime;

use tally_base::Size;
use tally_store::pool::membership::Stage;
use tally_store::pool::{SecureError, SecureReport};

use super::copies::{Running, scrub_words};
use super::dates::utc;
use super::disks::{DiskError, remarks_of};
use super::pools::{OnProgress, Pools, PoolsError, ServedPool};
use crate::control::message::Progress;

/// Why no scrub was begun or stopped, or why one did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum ScrubError {
    /// Nothing can be repaired.
    #[error("pool '{pool}' is imported read-only, and a scrub repairs what it finds: import it without --readonly")]
    ReadOnly {
        /// Which pool.
        pool: String,
    },
    /// There is none.
    #[error("no scrub of pool '{pool}' is under way; `tally pool status` shows the last one")]
    NoScrub {
        /// Which pool.
        pool: String,
    },
    /// Another command keeps it from beginning.
    #[error(transparent)]
    Kept(#[from] DiskError),
    /// The system has no thread for it.
    #[error("the scrub cannot run: {0}; try again when the machine has less to do")]
    NoThread(std::io::Error),
    /// It has ended early.
    #[error("{0}")]
    Ended(String),
}

impl Pools {
    /// Begins a scrub. With `wait` it is over when this returns; then what came of it is told.
    pub fn scrub(&self, name: &str, wait: bool, progress: OnProgress<'_>) -> Result<Vec<String>, PoolsError> {
        let served = self.pool(name)?;
        if served.filer.pool().read_only() {
            return Err(ScrubError::ReadOnly { pool: name.into() }.into());
        }
        let running = served.copies.begin_scrub().map_err(ScrubError::Kept)?;
        if wait {
            let what = format!("scrubbing {name}");
            let mut tell = |done, total| progress(Progress { what: what.clone(), done, total });
            let ended = run(&served, &running, &mut tell);
            // In this order: who waits for the end of all that runs may open the disks next.
            drop(served);
            drop(running);
            let (outcome, secured) = ended.map_err(ScrubError::Ended)?;
            return Ok(std::iter::once(outcome).chain(remarks_of(&secured)).collect());
        }
        let scrub = move || {
            if let Err(why) = run(&served, &running, &mut |_, _| {}) {
                tracing::warn!("{why}");
            }
            // In this order, as above.
            drop(served);
            drop(running);
        };
        thread::Builder::new().name("scrub".into()).spawn(scrub).map_err(ScrubError::NoThread)?;
        Ok(vec![format!("the scrub of '{name}' has begun; `tally pool status {name}` shows how far it is")])
    }

    /// Stops the scrub.
    pub fn stop_scrub(&self, name: &str) -> Result<(), PoolsError> {
        let served = self.pool(name)?;
        if served.copies.stop_scrub() { Ok(()) } else { Err(ScrubError::NoScrub { pool: name.into() }.into()) }
    }
}

/// Carries a scrub out, and keeps what came of it for `status`: in a line, which is given. An error is why it ended early.
fn run(
    served: &ServedPool,
    running: &Running,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<(String, SecureReport), String> {
    let space = served.filer.pool().io.allocator().space();
    running.copy.expect(0, space.allocated);
    let mut done = 0;
    let scrubbed = served.filer.scrub(&mut |checked| {
        done = checked;
        tell(checked, space.allocated);
        running.copy.note(Stage::CheckingRest, checked)
    });
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (elapsed, now) = (running.copy.elapsed(), utc(now));
    let outcome = match &scrubbed {
        Ok(secured) => scrub_words(secured, elapsed, &now),
        Err(SecureError::Stopped) => format!("scrub stopped after {} on {now} UTC", Size(done)),
        Err(error) => format!("scrub ended early, after {} on {now} UTC: {error}", Size(done)),
    };
    running.ended(outcome.clone(), None);
    match scrubbed {
        Ok(secured) => Ok((outcome, secured)),
        Err(_) => Err(outcome),
    }
}
