//! Calls over a session's backchannel: which connection they go over. What a slot makes of them stands in [`crate::v4::state::backchannel`].

use smallvec::SmallVec;

use super::{BACK, Inner, Session};
use crate::rpc::Caller;
use crate::v4::state::backchannel::{CallId, Callback, Calling, Errand, Lost, Verdict};

impl Inner {
    /// Those that callbacks go over.
    fn ways_back(&self) -> SmallVec<[u64; 2]> {
        self.connections.iter().filter(|(_, ways)| ways & BACK != 0).map(|(connection, _)| *connection).collect()
    }
}

impl Session {
    /// Calls the client, if there is a connection for that and a slot. What comes of it is told once: by [`Self::returned`], [`Self::overdue`] or [`Self::lost`].
    #[must_use]
    pub fn call(&self, errand: Errand, callback: Callback) -> Option<Calling> {
        let mut inner = self.inner.lock();
        let connections = inner.ways_back();
        if inner.is_closed { None } else { inner.back.call(errand, callback, &connections) }
    }

    /// Whether there is a connection for that, and a slot that may be free again.
    #[must_use]
    pub fn can_call(&self) -> bool {
        let inner = self.inner.lock();
        !inner.is_closed && inner.is_reachable() && !inner.back.is_out_of_step()
    }

    /// A call was answered.
    #[must_use]
    pub fn returned(&self, id: &CallId, verdict: Verdict) -> Option<Errand> {
        self.inner.lock().back.returned(id, verdict)
    }

    /// The time of a call is over.
    #[must_use]
    pub fn overdue(&self, id: &CallId) -> Option<Errand> {
        self.inner.lock().back.overdue(id)
    }

    /// The connection of a call is closed, or, if it was not sent, did not take it.
    #[must_use]
    pub fn lost(&self, id: &CallId, is_sent: bool) -> Lost {
        let mut inner = self.inner.lock();
        let connections = inner.ways_back();
        inner.back.lost(id, is_sent, &connections)
    }

    /// BACKCHANNEL_CTL: as which program the client is called from now on, and as whom, if it names somebody that we can be.
    pub fn change_back(&self, program: u32, caller: Option<Caller>) {
        self.inner.lock().back.change(program, caller);
    }
}
