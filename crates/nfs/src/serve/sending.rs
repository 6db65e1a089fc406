//! Replies on their way out of a connection: what a socket takes, and what of them is the peer's debt.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::hub::Hub;
use super::ledger::Debt;
use super::work::{Connection, House};
use crate::rpc::Reply;
use crate::service::Job;

impl Hub {
    /// Sends what the socket takes, and has the epoll tell when it takes more. What it does not take is the peer's debt.
    pub(super) fn send(&self, connection: &Arc<Connection>) -> io::Result<()> {
        let was_full = connection.output.is_full();
        let taken = connection.output.flush(&connection.stream)?;
        let telling = connection.telling.lock();
        let is_full = connection.output.is_full();
        if is_full {
            if taken || !was_full {
                connection.note_full(taken, self.now_ms());
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
    fn tell(&self, connection: &Arc<Connection>, reply: Reply) {
        if connection.link.is_open() {
            connection.output.push(reply);
            let _ = self.send(connection);
            self.resume(connection);
        }
    }
}

impl House for Hub {
    fn abandon(&self, job: &mut Job, connection: &Arc<Connection>) {
        let Some((reply, attached)) = self.service.abandon(job) else { return };
        self.tell(connection, reply.clone());
        for other in attached.iter().filter_map(|link| self.connection(link.id())) {
            self.tell(&other, reply.clone());
        }
    }

    fn count_out(&self) {
        self.request_count.fetch_sub(1, SeqCst);
    }

    fn there_is_room(&self, connection: &Arc<Connection>, others_may_go_on: bool) {
        if others_may_go_on {
            self.resume_crowded_out();
        }
        if connection.paused.load(SeqCst) && !self.stopping.load(SeqCst) {
            self.arm(connection);
        }
    }
}
