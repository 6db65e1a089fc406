//! What all compounds share.

use std::time::Instant;

use parking_lot::Mutex;
use tally_base::{Rng, SystemRng};

use super::state::{BootId, ClientId, Clients, Introduced, Introduction, Principal, Unknown};

/// Nothing can be opened or locked yet.
const NOBODY_HOLDS: fn(ClientId) -> bool = |_| false;

/// The clients, and the time of this start of the server.
pub struct House {
    clients: Mutex<Clients>,
    start: Instant,
}

impl Default for House {
    fn default() -> Self {
        // An id of another start is told from one of this by a draw: a clock may go back.
        let boot = BootId((SystemRng.next_u64() >> 32) as u32);
        Self { clients: Mutex::new(Clients::new(boot)), start: Instant::now() }
    }
}

impl House {
    pub(super) fn introduce(&self, introduction: Introduction) -> Result<Introduced, Unknown> {
        self.clients.lock().introduce(introduction, &NOBODY_HOLDS, &SystemRng, self.start.elapsed())
    }

    /// What a client holds that started anew goes; nobody holds anything yet.
    pub(super) fn confirm(&self, said: Introduced, principal: Principal) -> Result<(), Unknown> {
        self.clients.lock().confirm(said, principal, &NOBODY_HOLDS, self.start.elapsed()).map(drop)
    }

    pub(super) fn renew(&self, id: ClientId) -> Result<(), Unknown> {
        self.clients.lock().renew(id, self.start.elapsed())
    }
}
