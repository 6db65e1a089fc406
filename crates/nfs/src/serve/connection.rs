//! A connection: its socket, what comes in, what goes out, and how much of it is in the house.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::backlog::Backlog;
use super::input::Input;
use super::ledger::{Account, Debt};
use super::output::Output;
use crate::service::Link;

/// A client's TCP connection. Times are the hub's milliseconds, and 0 where there is nothing to tell.
pub(super) struct Connection {
    pub(super) link: Arc<Link>,
    pub(super) stream: Arc<TcpStream>,
    pub(super) account: Account,
    /// Locked while one worker receives: records come out in the order of the stream.
    pub(super) input: Mutex<Input>,
    pub(super) output: Output,
    /// Requests that wait.
    pub(super) backlog: Backlog,
    /// When something came.
    pub(super) heard_ms: AtomicU64,
    /// It has brought a whole request.
    pub(super) has_asked: AtomicBool,
    /// When the record began that has not arrived in full, or was read on.
    pub(super) record_began_ms: AtomicU64,
    /// How much of it has arrived.
    pub(super) record_arrived: AtomicU64,
    /// When the socket, which is full, took something.
    pub(super) unread_since_ms: AtomicU64,
    /// Held while it is noted whether replies are taken, so that the last word is the newest.
    pub(super) telling: Mutex<()>,
    /// Set before a worker decides not to read on; whoever then makes room arms the connection again.
    pub(super) paused: AtomicBool,
    /// It is among those that are read again when less work is in the house.
    pub(super) crowded_out: AtomicBool,
    /// Guards the arming in epoll, so that the last to arm saw everything.
    pub(super) arming: Mutex<()>,
}

impl Connection {
    pub(super) fn new(id: u64, peer: SocketAddr, stream: TcpStream, account: Account, now_ms: u64) -> Self {
        let stream = Arc::new(stream);
        Self {
            link: Arc::new(Link::over(id, peer, &stream)),
            stream,
            account,
            input: Mutex::default(),
            output: Output::default(),
            backlog: Backlog::default(),
            heard_ms: AtomicU64::new(now_ms),
            has_asked: AtomicBool::new(false),
            record_began_ms: AtomicU64::new(0),
            record_arrived: AtomicU64::new(0),
            unread_since_ms: AtomicU64::new(0),
            telling: Mutex::new(()),
            paused: AtomicBool::new(false),
            crowded_out: AtomicBool::new(false),
            arming: Mutex::new(()),
        }
    }

    /// Ends both directions. What is in the house goes on without it.
    pub(super) fn shut_down(&self) {
        self.link.close();
        // It fails if the peer was faster, which is as good.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.output.clear();
    }

    /// Drops the requests that nobody has begun; not under `arming`, as that gives their charges back.
    pub(super) fn drop_backlog(&self) {
        drop(self.backlog.close(&self.account));
    }

    /// Since when it owes something that it could have given.
    pub(super) fn owes_since_ms(&self) -> Option<u64> {
        let since = |what, at: &AtomicU64| self.account.owes(what).then(|| at.load(Relaxed)).filter(|at| *at != 0);
        let record = since(Debt::Record, &self.record_began_ms);
        let replies = since(Debt::Replies, &self.unread_since_ms);
        record.into_iter().chain(replies).min()
    }

    /// The time of a record that is on its way counts from now.
    pub(super) fn begin_record_anew(&self, now_ms: u64) {
        // It may come to its end just now.
        let _ = self.record_began_ms.fetch_update(Relaxed, Relaxed, |began| (began != 0).then_some(now_ms));
    }

    /// Since when it has brought no whole request: a byte now and then keeps no place.
    pub(super) fn idle_since_ms(&self) -> u64 {
        let (heard, began) = (self.heard_ms.load(Relaxed), self.record_began_ms.load(Relaxed));
        if began == 0 { heard } else { heard.min(began) }
    }

    /// Whether nothing is carried out for it.
    pub(super) fn is_idle(&self) -> bool {
        self.account.request_count() == 0 || self.backlog.is_parked()
    }
}
