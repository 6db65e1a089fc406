//! How a leg joins the set and leaves it, and how a lane ends.
//!
//! ```text
//!            join_leg             take_in_leg                      follow: the labels name it
//!  outside ───────────▶ joining ──────────────────────▶ taken in ─────────────────────────────▶ named
//!     ▲                    │ (the tail has passed the     │ a write failed: `leg_failed`, then    │
//!     │                    │ a place where it joined)     │ the frame is durable                  │
//!     └────────────────────┴──────────────────────────────┴───────────────────────────────────────┘ or follow:
//!                            write failed                     the labels have struck it off
//! ```
//!
//! A frame is durable when every leg of the *current* set, those taken in and named, has it. A joining leg gets every
//! new frame and is not believed alone, so it delays nobody's promise by failing. It is taken in once every frame that
//! recovery might need is on it, also from the uberblock before the newest (rules F6, F8).
//!
//! **Lane and labels** (rules F6). An import believes each leg that the labels name to have every frame. So the lane
//! must at every moment write to all legs that the labels name, and what it acknowledges on a smaller set than before
//! must wait until the labels name no more than that. The pool changes the labels for many reasons, of which a failed
//! frame is only one, and tells the lane each time ([`Lane::follow`]); a leg is taken into the labels only after the
//! lane has taken it in. Between a change of the labels and the call the lane writes to more legs than the labels name,
//! which is harmless. A frame must not carry a generation in which a leg that it goes to was struck off already:
//! recovery takes such a frame for the proof that lane and labels had parted. Hence generation and members change
//! together, under the state's lock. Where the labels name a leg that the lane does not write to, or still name one
//! that has just missed a frame, the lane ends: its promises go over to transaction groups (rules F25).

use std::io;
use std::sync::atomic::Ordering;

use tally_base::{LaneId, VdevGuid};

use super::{FailureHook, Lane, Standing, State};
use crate::config::{Leg, LegSet};
use crate::failure::LaneFailed;

/// The legs that get frames. Guarded by the lane's `state`, members and generation together; and while one leaves after
/// a failure, `dropping` is held over all of it, the change of the labels included.
pub(super) struct Legs {
    members: Vec<Member>,
    /// Of the set that the labels name; stands in each frame.
    pub(super) generation: u64,
}

/// A leg that gets every frame, and whether it counts.
pub(super) struct Member {
    pub(super) leg: Leg,
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Frames from this position on are on it; it does not count yet.
    Joining {
        /// Which position.
        from: u64,
    },
    /// It has every live frame and counts. The labels do not name it yet.
    Counts,
    /// The labels name it.
    Named,
}

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
        let part = Part::Joining { from: state.ring.head };
        assert!(state.legs.find(leg.guid).is_none(), "leg {} joins lane {} twice", leg.guid, self.id);
        state.legs.members.push(Member { leg, part });
        state.legs.invariant();
    }

    /// Takes a leg that has joined into the set, if every live frame is on it: two checkpoints after it joined at
    /// the latest. Says whether it belongs to the set now; `false` also if it has failed meanwhile. The pool
    /// then records the larger set, and [`Lane::follow`] says so.
    #[must_use]
    pub fn take_in_leg(&self, guid: VdevGuid) -> bool {
        let mut state = self.state.lock();
        let tail = state.ring.tail_released;
        let Some(member) = state.legs.members.iter_mut().find(|member| member.leg.guid == guid) else { return false };
        if matches!(member.part, Part::Joining { from } if from <= tail) {
            member.part = Part::Counts;
        }
        member.counts()
    }

    /// Whether the labels name a leg for this lane, as far as the lane was told: it takes part in the log.
    #[must_use]
    pub fn writes_to(&self, guid: VdevGuid) -> bool {
        let state = self.state.lock();
        state.is_open() && state.legs.find(guid).is_some_and(|member| member.part == Part::Named)
    }

    /// The labels name `set` from now on, durably; what `is_outside` says of a leg they do not name is whether it may
    /// be written at all. Legs that were named and are not any more leave, those that are named now count. Ends the
    /// lane if the labels name one that it does not write to.
    pub fn follow(&self, set: &LegSet, is_outside: &dyn Fn(VdevGuid) -> bool) {
        let followed = self.state.lock().follow(self.id, set, is_outside);
        if let Err(failed) = followed {
            self.fail(failed);
        }
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
            let counts = self.state.lock().legs.find(*guid).map(Member::counts);
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
        let set = (self.leg_failed)(guid, error)?;
        if set.legs.contains(&guid) {
            let cause = format!("the labels still name leg {guid}");
            return Err(LaneFailed::LegSet { lane: self.id, cause });
        }
        let mut state = self.state.lock();
        state.books.stats.leg_failure_count += 1;
        state.follow(self.id, &set, &|other| other == guid)
    }

    /// A leg failed that did not count yet: nothing rests on it, and the labels need not know.
    fn forget_leg(&self, guid: VdevGuid, error: &io::Error) {
        tracing::warn!(lane = %self.id, leg = %guid, %error, "a leg failed while it joined the intent log");
        let mut state = self.state.lock();
        state.legs.members.retain(|member| member.leg.guid != guid);
        state.legs.invariant();
        state.books.stats.leg_failure_count += 1;
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

impl State {
    /// See [`Lane::follow`]. A lane that has ended writes nothing any more.
    fn follow(&mut self, lane: LaneId, set: &LegSet, is_outside: &dyn Fn(VdevGuid) -> bool) -> Result<(), LaneFailed> {
        if self.is_open() { self.legs.follow(lane, set, is_outside) } else { Ok(()) }
    }
}

impl Legs {
    /// Those that the labels name.
    pub(super) fn new(legs: Vec<Leg>, generation: u64) -> Self {
        Self { members: legs.into_iter().map(|leg| Member { leg, part: Part::Named }).collect(), generation }
    }

    /// Whoever gets frames.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, Member> {
        self.members.iter()
    }

    fn find(&self, guid: VdevGuid) -> Option<&Member> {
        self.iter().find(|member| member.leg.guid == guid)
    }

    /// See [`Lane::follow`].
    fn follow(&mut self, lane: LaneId, set: &LegSet, is_outside: &dyn Fn(VdevGuid) -> bool) -> Result<(), LaneFailed> {
        // A newer set was heard of before this one.
        if set.generation < self.generation {
            return Ok(());
        }
        let is_written = |guid: &VdevGuid| self.find(*guid).is_some_and(Member::counts);
        if let Some(unwritten) = set.legs.iter().find(|guid| !is_written(guid)) {
            let cause = format!("the labels name leg {unwritten}, which does not get its frames");
            return Err(LaneFailed::LegSet { lane, cause });
        }
        if set.legs.is_empty() {
            return Err(LaneFailed::LegSet { lane, cause: "the labels name no leg".to_owned() });
        }
        self.generation = set.generation;
        self.members.retain_mut(|member| {
            let guid = member.leg.guid;
            if set.legs.contains(&guid) {
                member.part = Part::Named;
                return true;
            }
            member.part != Part::Named && !is_outside(guid)
        });
        self.invariant();
        Ok(())
    }

    /// Nothing is acknowledged by nobody: some leg counts. And each is there once, so that a failure has one meaning.
    fn invariant(&self) {
        debug_assert!(self.iter().any(Member::counts), "some leg counts");
        let is_there_once = |(place, member): (usize, &Member)| {
            self.members[..place].iter().all(|before| before.leg.guid != member.leg.guid)
        };
        debug_assert!(self.members.iter().enumerate().all(is_there_once), "each leg is there once");
    }

    /// None at all, which nothing that is written here leads to.
    #[cfg(test)]
    pub(super) fn clear(&mut self) {
        self.members.clear();
    }
}

impl Member {
    /// Whether a frame is durable only when it is on this leg.
    pub(super) fn counts(&self) -> bool {
        !matches!(self.part, Part::Joining { .. })
    }
}
