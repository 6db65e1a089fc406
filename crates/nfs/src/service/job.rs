//! A request while it is in the house.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tally_fs::vfs::ReplyKey;

use super::Link;
use crate::rpc::{Call, Reply};
use crate::v3::{Procedure, Status};

/// When what happened to a job.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Its last byte was read.
    pub read_at: Instant,
    /// Its (last) execution began.
    pub started: Instant,
    /// Its (last) execution ended, and its wait began.
    pub executed: Instant,
    /// Time that the working thread itself spent in the device.
    pub in_device: Duration,
}

/// A request that was read and not yet answered.
pub struct Job {
    /// When what happened.
    pub times: Times,
    pub(super) call: Call,
    pub(super) link: Arc<Link>,
    pub(super) procedure: Option<Procedure>,
    pub(super) memory: Memory,
    pub(super) keep: bool,
    pub(super) pending: Option<Pending>,
    pub(super) status: Option<Status>,
}

/// What the reply cache knows of a job.
pub(super) enum Memory {
    /// Nothing.
    None,
    /// It is the first of its kind.
    Begun(ReplyKey),
    /// It is carried out beside another connection's.
    Apart(ReplyKey),
}

/// A reply that waits.
pub(super) struct Pending {
    pub(super) reply: Reply,
}

impl Job {
    pub(super) fn new(call: Call, link: Arc<Link>, read_at: Instant) -> Self {
        Self {
            times: Times { read_at, started: read_at, executed: read_at, in_device: Duration::ZERO },
            call,
            link,
            procedure: None,
            memory: Memory::None,
            keep: true,
            pending: None,
            status: None,
        }
    }

    /// The connection it came on.
    #[must_use]
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// The procedure of NFSv3, once it is known.
    #[must_use]
    pub fn procedure(&self) -> Option<Procedure> {
        self.procedure
    }

    /// Bytes of the record, which it keeps in memory.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        self.call.record_bytes()
    }

    /// Its answer is not to be remembered.
    pub(super) fn forget(&mut self) {
        self.keep = false;
        self.pending = None;
    }
}
