//! The list of pools for the next start, beside what the pools do.
//!
//! What a command has done to a pool is done, whether or not the list could be written behind it. So a failure to write is
//! no failure of the command: whoever asked is told what is true now, `status` goes on telling it, and the list is tried
//! again with the next command and every ten seconds, until it is written.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tally_base::PoolGuid;

use super::error::PoolsError;
use super::pools::Pools;
use super::served::ServedPool;
use super::state::{KnownPool, State, StateError};
use super::ticker::Ticker;

/// How often a list is tried again that could not be written. A folder is full for hours, and each try costs a small write.
const BETWEEN_TRIES: Duration = Duration::from_secs(10);

/// Tries to write the list again until it is written.
pub(super) fn keep_writing(pools: &Arc<Pools>) -> io::Result<Ticker> {
    let pools = Arc::clone(pools);
    Ticker::start("list", BETWEEN_TRIES, move || pools.write_list_again())
}

impl Pools {
    /// The pools of the list, to import at the start.
    #[must_use]
    pub fn listed(&self) -> Vec<KnownPool> {
        self.state.lock().pools().to_vec()
    }

    /// Whether no daemon has ever served from this data directory.
    #[must_use]
    pub fn is_first_start(&self) -> bool {
        self.state.lock().is_new()
    }

    /// Where the disks of a pool of the list were, by its name or guid.
    pub(super) fn known_paths(&self, pool: &str) -> Vec<PathBuf> {
        let state = self.state.lock();
        let known = state
            .pools()
            .iter()
            .filter(|known| known.name == pool || known.guid.to_string().eq_ignore_ascii_case(pool));
        known.flat_map(|known| known.paths.clone()).collect()
    }

    /// Writes a pool down as it is now.
    pub(super) fn remember(&self, pool: &ServedPool) -> Result<(), StateError> {
        self.change_list(|state| {
            // That is new behind an import.
            if pool.is_accepted() {
                state.note_accepted(pool.accepted());
            }
            state.remember(pool.known())
        })
    }

    /// Writes down with which disks a pool goes on, before it does: refused where that cannot be written.
    pub(super) fn remember_disks(&self, pool: &ServedPool) -> Result<(), StateError> {
        self.change_list(|state| state.remember_or_not(pool.known()))
    }

    /// Writes the port down, which makes a list where there was none. Gives what is wrong with the list.
    pub(super) fn remember_port(&self, port: u16) -> Option<String> {
        let _told_here = self.change_list(|state| state.remember_port(port));
        self.state.lock().unwritten().map(trouble)
    }

    /// Takes a pool off the list.
    pub(super) fn unlist(&self, pool: PoolGuid) {
        let _told_later = self.change_list(|state| state.forget(pool));
    }

    /// Tries again what could not be written, if there is something.
    pub(super) fn write_list_again(&self) {
        let _known = self.change_list(State::write_again);
    }

    /// What is wrong with the list at the end of the process, if something is.
    pub(super) fn last_words_on_list(&self) -> Option<String> {
        self.write_list_again();
        let state = self.state.lock();
        let why = state.unwritten()?;
        Some(format!("{why}\nThe next start goes by the list as it was."))
    }

    /// Behind a command on a pool: an error where the next start would not know of it. `gone`: what that start would do
    /// about the pool if the list still has it.
    pub(super) fn must_be_listed(&self, pool: PoolGuid, done: &[String], gone: &str) -> Result<(), PoolsError> {
        let state = self.state.lock();
        let Some(why) = state.unwritten() else { return Ok(()) };
        let what = match state.entries(pool) {
            [wanted, written] if wanted == written => return Ok(()),
            [None, _] => format!("The list still has the pool: {gone}"),
            [Some(_), None] => NOT_LISTED.into(),
            [Some(_), Some(_)] => FORMER.into(),
        };
        Err(PoolsError::Unlisted { done: done.to_vec(), trouble: format!("{}\n{what}", trouble(why)) })
    }

    pub(super) fn change_list(
        &self,
        change: impl FnOnce(&mut State) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let mut state = self.state.lock();
        let was_unwritten = state.unwritten().is_some();
        let changed = change(&mut state);
        match state.unwritten() {
            Some(why) if !was_unwritten => tracing::error!("{}", trouble(why)),
            None if was_unwritten => tracing::info!("the list of pools is written again"),
            _ => {}
        }
        // `status` does not wait for a list that is being written: it has its own copy of this.
        for pool in self.all() {
            let what = match state.entries(pool.guid()) {
                [Some(_), None] => NOT_LISTED,
                [Some(wanted), Some(written)] if wanted != written => FORMER,
                _ => "This pool is on it.",
            };
            *pool.list_trouble.lock() = state.unwritten().map(|why| format!("{}\n{what}", trouble(why)));
        }
        self.absent.still_listed(|guid| {
            let why = state.unwritten().filter(|_| state.entries(guid)[1].is_some())?;
            Some(format!("The pool was exported, but {}\nA start before that imports it again.", trouble(why)))
        });
        changed
    }
}

const NOT_LISTED: &str = "A start before that does not import the pool by itself; `tally pool import` does.";
const FORMER: &str =
    "A start before that imports the pool as it was before: by its former disks, and with its former options.";

fn trouble(why: &str) -> String {
    format!("{why}. It is tried again every {} s.", BETWEEN_TRIES.as_secs())
}
