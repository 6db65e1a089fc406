//! A request in the house: what it is charged, and that it is answered wherever it is lost.
//!
//! Queues, backlogs and connections below hold it without knowing what it is; the hub above is what it counts in, and what
//! it tells of its end, by no more than [`House`].

use std::sync::Arc;

use super::connection;
use crate::service::Job;

/// A connection, on which requests wait.
pub(super) type Connection = connection::Connection<Box<Work>>;

/// What a request takes beside its record: itself, and what its record and its place in a queue cost the allocator.
const WORK_BYTES: usize = size_of::<Work>() + 128;

/// A request with the connection it came on. Dropping it gives back what it was charged, and lets nobody wait for it:
/// wherever a request is lost, with its connection, its promise or its worker, it comes by here.
pub(super) struct Work {
    pub(super) job: Job,
    pub(super) connection: Arc<Connection>,
    pub(super) charge: Charge,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.charge.house.abandon(&mut self.job, &self.connection);
    }
}

/// What requests count in.
pub(super) trait House: Send + Sync {
    /// Tells those who wait for a request that it is dropped, unless they have their answers.
    fn abandon(&self, job: &mut Job, connection: &Arc<Connection>);
    /// A request counts in it no more.
    fn count_out(&self);
    /// A connection's requests count less than before, and others may be read again for that, if it is said so.
    fn there_is_room(&self, connection: &Arc<Connection>, others_may_go_on: bool);
}

/// A request's share of the bounds.
pub(super) struct Charge {
    house: Arc<dyn House>,
    connection: Arc<Connection>,
    bytes: usize,
    /// Its connection is not charged for it, see [`super::doubtful`].
    is_apart: bool,
}

impl Charge {
    /// Of a request with a record of so many bytes, which `house` counts already.
    pub(super) fn new(house: Arc<dyn House>, connection: Arc<Connection>, record_bytes: usize) -> Self {
        let bytes = record_bytes + WORK_BYTES;
        connection.account.begin(bytes);
        Self { house, connection, bytes, is_apart: false }
    }

    /// Takes it off its connection's account, and off its address'.
    pub(super) fn set_apart(&mut self) {
        if !std::mem::replace(&mut self.is_apart, true) {
            let others_may_go_on = self.connection.account.set_apart(self.bytes);
            self.house.there_is_room(&self.connection, others_may_go_on);
        }
    }

    /// Puts it there again.
    pub(super) fn take_back(&mut self) {
        if std::mem::replace(&mut self.is_apart, false) {
            self.connection.account.take_back(self.bytes);
        }
    }

    /// It is set apart, and another connection's from now on.
    pub(super) fn hand_over(&mut self, heir: &Arc<Connection>) {
        self.connection.account.hand_over(&heir.account);
        self.connection = heir.clone();
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let account = &self.connection.account;
        let others_may_go_on = if self.is_apart { account.end_apart(self.bytes) } else { account.end(self.bytes) };
        self.house.count_out();
        self.house.there_is_room(&self.connection, others_may_go_on);
    }
}
