//! How a leg leaves the set, and how a lane ends.

use std::io;
use std::sync::atomic::Ordering;

use tally_base::VdevGuid;

use super::{FailureHook, Lane, Standing};
use crate::failure::LaneFailed;

impl Lane {
    /// Called once, when the lane fails (not when it is closed); at once, if that has happened already.
    pub fn on_failure(&self, hook: FailureHook) {
        let mut slot = self.hook.lock();
        let standing = self.state.lock().standing.clone();
        match standing {
            Standing::Ended(failed @ (LaneFailed::Write { .. } | LaneFailed::LegSet { .. })) => {
                drop(slot);
                hook(failed);
            }
            _ => *slot = Some(hook),
        }
    }

    /// Closes the lane: [`Lane::run`] returns, appends fail, and those who wait for what is not durable are told
    /// that it is broken. A pool that exports in good order syncs first.
    pub fn close(&self) {
        self.end(LaneFailed::Closed { lane: self.id });
    }

    /// Frame `seq` is not on these legs. They leave the set before anything may rest on the others; an error means
    /// that nothing may.
    ///
    /// A frame is durable when every leg of the *current* set has it. The set only ever shrinks, and each leg that
    /// a frame missed has left by the time it lands, so what was acknowledged on a larger set holds on the smaller.
    pub(super) fn drop_legs(&self, seq: u64, failures: &[(VdevGuid, io::Error)]) -> Result<(), LaneFailed> {
        let _one_at_a_time = self.dropping.lock();
        let has_failed = |guid: VdevGuid| failures.iter().any(|(failed, _)| *failed == guid);
        let has_survivor = self.state.lock().legs.iter().any(|leg| !has_failed(leg.guid));
        if !has_survivor {
            let cause = failures.last().map_or_else(String::new, |(guid, error)| format!("leg {guid}: {error}"));
            return Err(LaneFailed::Write { lane: self.id, seq, cause });
        }
        for (guid, error) in failures {
            // Another frame may have met the same failure.
            if self.state.lock().legs.iter().any(|leg| leg.guid == *guid) {
                self.drop_leg(*guid, error)?;
            }
        }
        Ok(())
    }

    fn drop_leg(&self, guid: VdevGuid, error: &io::Error) -> Result<(), LaneFailed> {
        tracing::warn!(lane = %self.id, leg = %guid, %error, "a leg of the intent log failed and leaves the set");
        let legset_gen = (self.leg_failed)(guid, error)?;
        let mut state = self.state.lock();
        if legset_gen <= state.legset_gen {
            let cause = format!("generation {legset_gen} does not follow {}", state.legset_gen);
            return Err(LaneFailed::LegSet { lane: self.id, cause });
        }
        state.legset_gen = legset_gen;
        state.legs.retain(|leg| leg.guid != guid);
        state.stats.leg_failure_count += 1;
        Ok(())
    }

    /// A frame is lost: so is everything after it, landed or not (rules F25). Never success for anybody who waits.
    pub(super) fn fail(&self, failed: LaneFailed) {
        if !self.end(failed.clone()) {
            return;
        }
        tracing::error!(lane = %self.id, error = %failed, "the lane takes no more records");
        let hook = self.hook.lock().take();
        if let Some(hook) = hook {
            hook(failed);
        }
    }

    /// Ends the lane, unless it has ended already.
    fn end(&self, failed: LaneFailed) -> bool {
        let mut state = self.state.lock();
        if !state.is_open() {
            return false;
        }
        state.standing = Standing::Ended(failed);
        self.ended.store(true, Ordering::Release);
        let charged = state.gathering.discard();
        self.budget.give(charged);
        drop(state);
        self.wake.notify_all();
        self.release_waiters();
        true
    }
}
