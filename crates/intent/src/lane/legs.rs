//! How a leg joins the set and leaves it, and how a lane ends.
//!
//! ```text
//!            join_leg              admit_leg (the tail has passed the place where it joined)
//!  outside ───────────▶ joining ───────────────────────▶ in the set
//!     ▲                    │ a write failed                │ a write failed: `leg_failed`, then the frame is durable
//!     └────────────────────┴───────────────────────────────┘ or remove_leg
//! ```
//!
//! A frame is durable when every leg of the *current* set has it. A joining leg gets every new frame and is not
//! believed alone, so it delays nobody's promise by failing. It is admitted once every frame that recovery might
//! need is on it, also from the uberblock before the newest (rules F6, F8). The set in the labels is changed by the
//! pool: after `admit_leg` (until then the larger set is only stricter than the labels say), and before
//! `remove_leg` (so that nothing rests on a set that the labels do not know).

use std::io;
use std::sync::atomic::Ordering;

use tally_base::VdevGuid;

use super::{FailureHook, Lane, Member, Standing};
use crate::config::Leg;
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

    /// From here on `leg` gets every frame, beside the set. Its ring must not hold frames of this epoch.
    ///
    /// # Panics
    /// If a leg of that name is there already.
    pub fn join_leg(&self, leg: Leg) {
        let mut state = self.state.lock();
        assert!(
            !state.legs.iter().any(|member| member.leg.guid == leg.guid),
            "leg {} joins lane {} twice",
            leg.guid,
            self.id
        );
        let joined_at = Some(state.head);
        state.legs.push(Member { leg, joined_at });
    }

    /// Takes a leg that has joined into the set, if every live frame is on it: two checkpoints after it joined at
    /// the latest. Says whether it belongs to the set now; `false` also if it has failed meanwhile. The pool
    /// then records the larger set and calls [`Lane::set_legset_gen`].
    #[must_use]
    pub fn admit_leg(&self, guid: VdevGuid) -> bool {
        let mut state = self.state.lock();
        let tail = state.tail_released;
        let Some(member) = state.legs.iter_mut().find(|member| member.leg.guid == guid) else { return false };
        member.joined_at = member.joined_at.filter(|joined_at| tail < *joined_at);
        member.joined_at.is_none()
    }

    /// Takes a leg out, after the set without it was recorded under `legset_gen`.
    ///
    /// # Panics
    /// If no other leg is in the set.
    pub fn remove_leg(&self, guid: VdevGuid, legset_gen: u64) {
        let mut state = self.state.lock();
        state.legs.retain(|member| member.leg.guid != guid);
        assert!(state.legs.iter().any(Member::counts), "the last leg of lane {} cannot be removed", self.id);
        state.legset_gen = state.legset_gen.max(legset_gen);
    }

    /// The set was recorded under this generation: frames carry it from here on.
    pub fn set_legset_gen(&self, legset_gen: u64) {
        let mut state = self.state.lock();
        state.legset_gen = state.legset_gen.max(legset_gen);
    }

    /// Frame `seq` is not on these legs. They leave the set before anything may rest on the others; an error means
    /// that nothing may.
    ///
    /// Each leg that a frame missed has left by the time the frame lands, so what was acknowledged on a larger set
    /// holds on the smaller.
    pub(super) fn drop_legs(&self, seq: u64, failures: &[(VdevGuid, io::Error)]) -> Result<(), LaneFailed> {
        let _one_at_a_time = self.dropping.lock();
        let has_failed = |guid: VdevGuid| failures.iter().any(|(failed, _)| *failed == guid);
        let has_survivor = self.state.lock().legs.iter().any(|member| member.counts() && !has_failed(member.leg.guid));
        if !has_survivor {
            let cause = failures.last().map_or_else(String::new, |(guid, error)| format!("leg {guid}: {error}"));
            return Err(LaneFailed::Write { lane: self.id, seq, cause });
        }
        for (guid, error) in failures {
            // Another frame may have met the same failure.
            let counts = self.state.lock().legs.iter().find(|member| member.leg.guid == *guid).map(Member::counts);
            match counts {
                Some(true) => self.drop_leg(*guid, error)?,
                Some(false) => self.forget_leg(*guid, error),
                None => {}
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
        state.legs.retain(|member| member.leg.guid != guid);
        state.stats.leg_failure_count += 1;
        Ok(())
    }

    /// A leg failed that did not count yet: nothing rests on it, and the labels need not know.
    fn forget_leg(&self, guid: VdevGuid, error: &io::Error) {
        tracing::warn!(lane = %self.id, leg = %guid, %error, "a leg failed while it joined the intent log");
        let mut state = self.state.lock();
        state.legs.retain(|member| member.leg.guid != guid);
        state.stats.leg_failure_count += 1;
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

impl Member {
    fn counts(&self) -> bool {
        self.joined_at.is_none()
    }
}
