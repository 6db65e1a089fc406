//! Records that nobody waits for: who writes them, and when. The reasons stand in the head of [`super`].

use std::time::Duration;

use tally_base::Lsn;

use super::{Lane, State};

/// A record is written so long after it was appended, at the latest, give or take the write itself: within a second.
pub(super) const UNWAITED_MAX: Duration = Duration::from_millis(750);

impl Lane {
    /// Writes what was gathered up to now, unless somebody else is writing: then the lane thread goes on behind it. For
    /// whoever closes a transaction group, and has waited for all that belongs to it.
    pub fn write_gathered(&self) {
        let end = self.state.lock().gathering.next_lsn();
        while self.begins_before(end) && self.drive_frame() {}
    }

    fn begins_before(&self, end: Lsn) -> bool {
        self.state.lock().gathering.first_lsn() < end
    }

    /// Writes a frame if its first record has waited for [`UNWAITED_MAX`]; says whether it did. [`Lane::run`] does this
    /// by itself.
    #[cfg(test)]
    pub(crate) fn write_overdue(&self) -> bool {
        self.overdue_in(&self.state.lock()) == Some(Duration::ZERO) && self.drive_frame()
    }

    /// How long until gathered records have to be written; `None` where there are none, or no slot.
    pub(super) fn overdue_in(&self, state: &State) -> Option<Duration> {
        let began = state.gathering.began().filter(|_| self.may_begin(state))?;
        Some((began + UNWAITED_MAX).saturating_sub(self.clock.monotonic()))
    }

    /// A record has begun a frame: whether the lane thread must be woken, to write the full one before it, or to look
    /// later whether this one was written.
    pub(super) fn needs_thread(&self, state: &mut State) -> bool {
        if state.gathering.has_full() && self.may_begin(state) {
            state.watch.is_wanted = true;
            return true;
        }
        !std::mem::replace(&mut state.watch.age_watched, true)
    }
}
