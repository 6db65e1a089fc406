//! Calls of ours on their way out of a connection, and their replies on the way in (rules V33). They go by the same output as replies do: what a socket does not take is its
//! peer's debt. A peer whose socket is full is called as long as that goes on taking something: who reads as fast as his line allows has replies waiting all the time. One that takes nothing is not called. No worker waits for any of it.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use bytes::Bytes;

use super::complaints::Complaint;
use super::hub::Hub;
use super::work::Connection;
use crate::rpc::{Matched, Outgoing};
use crate::stats::count;
use crate::v4::state::CallId;

impl Hub {
    /// Makes the calls that are to be made.
    pub(super) fn make_calls(self: &Arc<Self>) {
        while let Some((connection, id, outgoing)) = self.service.next_call() {
            let taken = self.connection(connection).is_some_and(|connection| self.make(&connection, id, &outgoing));
            if !taken {
                self.service.call_lost(&id, false);
            }
        }
    }

    /// False: the connection does not take it.
    fn make(self: &Arc<Self>, connection: &Arc<Connection>, id: CallId, outgoing: &Outgoing) -> bool {
        if !self.takes_calls(connection) || self.stopping.load(SeqCst) {
            return false;
        }
        let Ok(message) = connection.calls.begin(outgoing, id) else { return false };
        count(&self.service.stats().calls_made);
        connection.output.push(message);
        if let Err(error) = self.send(connection) {
            tracing::debug!(%error, peer = %connection.link.peer(), "a call could not be sent");
            // It is told of the call as of one that may have been sent.
            self.close(connection);
            return true;
        }
        // What others have put there meanwhile may have been what its backlog waits for.
        self.resume(connection);
        true
    }

    /// Whether a call would be sent before long. How many wait is bounded by slots, and by what a connection has of calls; they are its peer's debt as replies are.
    fn takes_calls(&self, connection: &Connection) -> bool {
        !connection.output.is_full() || connection.takes_replies(self.now_ms())
    }

    /// A reply came over a connection.
    pub(super) fn take_reply(&self, connection: &Arc<Connection>, record: &Bytes) {
        match connection.calls.returned(record) {
            Matched::With(id, returned) => self.service.call_returned(&id, &returned),
            Matched::Nothing { is_enough } => {
                count(&self.service.stats().replies_unmatched);
                if is_enough {
                    self.complaints.add(Complaint::NoCall, connection.link.peer());
                    self.close(connection);
                }
            }
        }
    }
}
