//! Marks that an import cannot read.
//!
//! **The problem.** A node of the catalog with marks has rotted, in both of its places. Without them the pool is as good as before, so it is not kept from anybody
//! (rules S3). But a request that comes again must not be told that nothing was done where its mark may have been in that node: DEADSESSION says so, and
//! its client would believe it.
//!
//! **The idea.** What is known of a session is all of it, or nothing. A session of which one mark may be lost is forgotten with all others that it has, those in other nodes and those that the log
//! would bring, and whoever asks is told BADSESSION: that nobody knows what was done, as of a session that was never persistent (rules V6). Nothing of it is
//! known then in later lives either, when nobody knows any more that a node was lost.
//!
//! **Why not otherwise.** To tell of what is left would keep what was lost in mind, over restarts, for as long as sessions are remembered; a node has some hundred marks, of few sessions.

use std::ops::RangeInclusive;

use tally_base::SessionBytes;

use super::session_of;
use crate::key::{Class, Key};

/// Sessions of which marks may be lost, in their order.
#[derive(Debug, Default)]
pub(crate) struct LostMarks(Vec<RangeInclusive<SessionBytes>>);

impl LostMarks {
    /// What stands from the first key up to, not including, the second cannot be read, and is behind what was noted before. `false`: that may be more than marks.
    pub(crate) fn note(&mut self, from: Option<Key>, to: Option<Key>) -> bool {
        let (Some(from), Some(to)) = (from, to) else { return false };
        let end = Class::Mark.end();
        if from.class != Class::Mark || end.is_none_or(|end| end < to) {
            return false;
        }
        let last = if to.class == Class::Mark { session_of(&to) } else { SessionBytes::from([u8::MAX; 16]) };
        let sessions = session_of(&from)..=last;
        match self.0.last_mut().filter(|before| sessions.start() <= before.end()) {
            Some(before) => *before = *before.start()..=*sessions.end(),
            None => self.0.push(sessions),
        }
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of this session may be among them.
    pub(crate) fn may_have(&self, session: &SessionBytes) -> bool {
        let behind = self.0.partition_point(|sessions| sessions.start() <= session);
        behind.checked_sub(1).is_some_and(|at| session <= self.0[at].end())
    }

    /// What an import says of it.
    pub(super) fn remark(&self) -> Option<String> {
        (!self.is_empty()).then(|| {
            "part of what requests of NFSv4 sessions have changed cannot be read, and those sessions are forgotten: a client that sends a request from before this import \
             again may find that it has been carried out"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests;
