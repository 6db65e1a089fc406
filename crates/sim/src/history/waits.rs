//! Nobody waits without an end: neither for an answer, nor to be admitted.
//!
//! The machine's time goes by where its disks do something, and where they hang. What a client waits has three parts:
//! what the disks hang, which nobody can bound; the group that is being synced when it comes; and the one that it is
//! in, or that makes room for it. So but for the hanging a wait is as long as two groups, and if it is not over by then
//! a wake-up was lost, or a throttle does not end. Beside a thread that syncs on and on this would be a run that never
//! ends.

use std::time::Duration;

use super::Checked;
use crate::clock::Ticks;

/// The longest that two groups keep the disks at work: some thousands of writes each, of 100 µs (the largest groups of
/// these histories have some hundreds).
const PATIENCE: Duration = Duration::from_secs(1);

/// Somebody who waits, and has looked in vain before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    first_look: Option<Duration>,
}

impl Patience {
    /// Has looked in vain once more. Who looks late finds the wait over: that is no fault of the server.
    pub(super) fn check_again(&mut self, clock: &Ticks) -> Checked<()> {
        let worked = clock.worked();
        let waited = worked - *self.first_look.get_or_insert(worked);
        if waited <= PATIENCE { Ok(()) } else { Err(format!("while disks were at work for {waited:?}")) }
    }
}
