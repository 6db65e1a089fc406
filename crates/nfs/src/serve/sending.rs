//! Replies on their way out of a connection: what a socket takes, and what of them is the peer's debt.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::connection::Connection;
use super::hub::Hub;
use super::ledger::Debt;
use crate::rpc::Reply;

impl Hub {
    /// Sends what the socket takes, and has the epoll tell when it takes more. What it does not take is the peer's debt.
    pub(super) fn send(self: &Arc<Self>, connection: &Arc<Connection>) -> io::Result<()> {
        let was_full = connection.output.is_full();
        let taken = connection.output.flush(&connection.stream)?;
        let telling = connection.telling.lock();
        let is_full = connection.output.is_full();
        if is_full {
            if taken || !was_full {
                connection.unread_since_ms.store(self.now_ms(), Relaxed);
            }
            connection.account.owe(Debt::Replies, connection.output.held_bytes());
        } else if connection.account.owes(Debt::Replies) {
            connection.unread_since_ms.store(0, Relaxed);
            connection.account.owe(Debt::Replies, 0);
        }
        drop(telling);
        if is_full && !was_full {
            self.arm(connection);
        }
        Ok(())
    }

    /// Sends a reply for a request that is dropped. The connection is not closed if that fails: that would drop requests in
    /// the midst of dropping one, and the epoll tells of a broken socket as well.
    pub(super) fn tell(self: &Arc<Self>, connection: &Arc<Connection>, reply: Reply) {
        if connection.link.is_open() {
            connection.output.push(reply);
            let _ = self.send(connection);
            self.resume(connection);
        }
    }
}
