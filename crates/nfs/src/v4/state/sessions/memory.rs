//! What sessions may keep.
//!
//! A session is charged at once for as much as its slots may keep, so that keeping results can never fail. What it takes of the machine before that is
//! little: slots are made as they are first used, and their results as they come.
//!
//! ```text
//!  left of 64 MiB          │ slots of a session                 │ kept of each reply
//!  ────────────────────────┼────────────────────────────────────┼───────────────────
//!  more than a half        │ as many as it asks for, up to 64   │ 2 KiB
//!  less                    │ as fit into 1/1024 of what is left │ 1 KiB
//!  not enough for one slot │ DELAY: no session                  │
//! ```
//!
//! By the second row there is always some for who comes next: of the last half alone more sessions can be had than there may be clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{Session, Slot};
use crate::v4::state::bounds::{
    KEPT_BYTES_MAX, KEPT_BYTES_SHORT, SESSIONS_BYTES_MAX, SESSIONS_BYTES_SHORT, SESSIONS_SHARE, SLOTS_MAX,
};

/// A session without its slots for requests, with those for callbacks and as whom these come, and its places in maps, roughly.
pub(super) const SESSION_BYTES: usize = 1024;

const _: () = assert!(size_of::<Session>() + 512 <= SESSION_BYTES);

/// What all sessions are charged for.
#[derive(Debug, Default)]
pub(super) struct Account(Arc<AtomicUsize>);

impl Account {
    /// For a session that asks for `slots`. Called by one at a time; charges may end meanwhile.
    pub(super) fn charge(&self, slots: u32) -> Option<(Grant, Charge)> {
        let grant = Grant::of(slots, SESSIONS_BYTES_MAX.saturating_sub(self.charged()))?;
        self.0.fetch_add(grant.bytes(), Relaxed);
        Some((grant, Charge { account: self.0.clone(), bytes: grant.bytes() }))
    }

    /// Bytes.
    pub(super) fn charged(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// What a session may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) slots: u32,
    pub(super) kept_bytes_max: usize,
}

impl Grant {
    /// For who asks for `slots`, where `left` bytes are left.
    fn of(slots: u32, left: usize) -> Option<Self> {
        let slots = slots.clamp(1, SLOTS_MAX);
        let grant = if left > SESSIONS_BYTES_SHORT {
            Self { slots, kept_bytes_max: KEPT_BYTES_MAX }
        } else {
            let fit = (left / SESSIONS_SHARE).saturating_sub(SESSION_BYTES) / (KEPT_BYTES_SHORT + size_of::<Slot>());
            Self { slots: slots.min(fit as u32).max(1), kept_bytes_max: KEPT_BYTES_SHORT }
        };
        (grant.bytes() <= left).then_some(grant)
    }

    fn bytes(self) -> usize {
        SESSION_BYTES + self.slots as usize * (self.kept_bytes_max + size_of::<Slot>())
    }
}

/// What a session has of the memory of all, for as long as there is something of it.
#[derive(Debug)]
pub(super) struct Charge {
    account: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.fetch_sub(self.bytes, Relaxed);
    }
}
