//! A connection: its socket, what comes in, what goes out, and how much of it is in the house.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tally_base::{Rng, SystemRng};

use super::backlog::Backlog;
use super::input::Input;
use super::ledger::{Account, Debt};
use super::output::Output;
use crate::link::Link;
use crate::rpc::Calls;
use crate::v4::state::CallId;

/// So many bytes of a record that arrived excuse a millisecond of its age: half a megabit a second is honest, and a byte
/// now and then is not.
const RECORD_BYTES_EXCUSE_MS: u64 = 64;
/// For so long it is nobody's fault that we do not read the rest of a record. Then it may be: whoever has requests that
/// take long can have half a record behind them for as long.
const PAUSE_EXCUSED_MS: u64 = 1000;
/// A full socket that has taken nothing for this many times what that took of late takes nothing, within these bounds: a socket tells of room when a third of it is free, which over a slow line is seldom.
const TAKES_TIMES: u64 = 2;
const TAKES_MS_MIN: u64 = 250;
const TAKES_MS_MAX: u64 = 5_000;

/// A client's TCP connection, and what waits on it (`work` says what that is). Times are the hub's milliseconds, and 0
/// where there is nothing to tell.
pub(super) struct Connection<W> {
    pub(super) link: Arc<Link>,
    pub(super) stream: Arc<TcpStream>,
    pub(super) account: Account,
    /// Locked while one worker receives: records come out in the order of the stream.
    pub(super) input: Mutex<Input>,
    pub(super) output: Output,
    /// Calls of ours that wait for its replies.
    pub(super) calls: Calls<CallId>,
    /// Requests that wait.
    pub(super) backlog: Backlog<W>,
    /// When something came.
    pub(super) heard_ms: AtomicU64,
    /// It has brought a whole request.
    pub(super) has_asked: AtomicBool,
    /// When the record began that has not arrived in full, or was read on.
    pub(super) record_began_ms: AtomicU64,
    /// How much of it has arrived.
    pub(super) record_arrived: AtomicU64,
    /// Since when the rest of it is owed: since it began, or later as far as what came excuses its age.
    record_owed_ms: AtomicU64,
    /// When the socket, which is full, took something.
    pub(super) unread_since_ms: AtomicU64,
    /// After how long it did again, of late.
    takes_every_ms: AtomicU64,
    /// Held while it is noted whether replies are taken, so that the last word is the newest.
    pub(super) telling: Mutex<()>,
    /// Set before a worker decides not to read on; whoever then makes room arms the connection again.
    pub(super) paused: AtomicBool,
    /// It is among those that are read again when less work is in the house.
    pub(super) crowded_out: AtomicBool,
    /// Guards the arming in epoll, so that the last to arm saw everything.
    pub(super) arming: Mutex<()>,
}

impl<W> Connection<W> {
    pub(super) fn new(id: u64, peer: SocketAddr, stream: TcpStream, account: Account, now_ms: u64) -> Self {
        let stream = Arc::new(stream);
        Self {
            link: Arc::new(Link::over(id, peer, &stream)),
            stream,
            account,
            input: Mutex::default(),
            output: Output::default(),
            calls: Calls::numbered_from((SystemRng.next_u64() >> 32) as u32),
            backlog: Backlog::default(),
            heard_ms: AtomicU64::new(now_ms),
            has_asked: AtomicBool::new(false),
            record_began_ms: AtomicU64::new(0),
            record_arrived: AtomicU64::new(0),
            record_owed_ms: AtomicU64::new(0),
            unread_since_ms: AtomicU64::new(0),
            takes_every_ms: AtomicU64::new(0),
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
        let is_partial = self.account.owes(Debt::Record) && self.record_began_ms.load(Relaxed) != 0;
        let record = is_partial.then(|| self.record_owed_ms.load(Relaxed));
        let replies = self.account.owes(Debt::Replies).then(|| self.unread_since_ms.load(Relaxed));
        record.into_iter().chain(replies.filter(|at| *at != 0)).min()
    }

    /// So much has arrived of a record; under the input's lock. One that comes is younger than one that was begun after it
    /// and not gone on with. Counted from its beginning alone, an honest WRITE of a mebibyte was the oldest debt of its
    /// address while an attacker there came anew with each look. Nothing is put by: most of a record at once and then a
    /// byte now and then is no record that comes.
    pub(super) fn record_comes(&self, is_new: bool, arrived: u64, now_ms: u64) {
        let before = self.record_arrived.swap(arrived, Relaxed);
        if is_new || self.record_began_ms.load(Relaxed) == 0 {
            self.record_owed_ms.store(now_ms, Relaxed);
            self.record_began_ms.store(now_ms, Relaxed);
            return;
        }
        let excused = arrived.saturating_sub(before) / RECORD_BYTES_EXCUSE_MS;
        let later = |owed: u64| Some(owed.max(now_ms.min(owed + excused)));
        let _ = self.record_owed_ms.fetch_update(Relaxed, Relaxed, later);
    }

    /// From now on we do not read the rest of its record.
    pub(super) fn excuse_pause(&self, now_ms: u64) {
        self.record_owed_ms.store(now_ms + PAUSE_EXCUSED_MS, Relaxed);
    }

    /// It is read on. What is missing may be in the socket.
    pub(super) fn end_pause(&self, now_ms: u64) {
        self.record_owed_ms.store(now_ms, Relaxed);
        self.begin_record_anew(now_ms);
    }

    /// The time of a record that is on its way counts from now.
    pub(super) fn begin_record_anew(&self, now_ms: u64) {
        // It may come to its end just now.
        let _ = self.record_began_ms.fetch_update(Relaxed, Relaxed, |began| (began != 0).then_some(now_ms));
    }

    /// Its socket is full, and has just become so, or has `taken` something; under `telling`.
    pub(super) fn note_full(&self, taken: bool, now_ms: u64) {
        let before = self.unread_since_ms.swap(now_ms, Relaxed);
        if taken && before != 0 {
            // Where room is told of twice in a moment that is not how long it takes.
            let of_late = self.takes_every_ms.load(Relaxed) / 2;
            self.takes_every_ms.store(now_ms.saturating_sub(before).max(of_late), Relaxed);
        }
    }

    /// Whether its socket, which is full, goes on taking something.
    pub(super) fn takes_replies(&self, now_ms: u64) -> bool {
        let within = (self.takes_every_ms.load(Relaxed) * TAKES_TIMES).clamp(TAKES_MS_MIN, TAKES_MS_MAX);
        match self.unread_since_ms.load(Relaxed) {
            // It has become full just now, and that is about to be noted.
            0 => true,
            since => now_ms.saturating_sub(since) <= within,
        }
    }

    /// Since when it has brought no whole request: a byte now and then keeps no place.
    pub(super) fn idle_since_ms(&self) -> u64 {
        let (heard, began) = (self.heard_ms.load(Relaxed), self.record_began_ms.load(Relaxed));
        if began == 0 { heard } else { heard.min(began) }
    }

    /// Whether nothing is carried out for it.
    pub(super) fn is_idle(&self) -> bool {
        self.account.has_no_requests() || self.backlog.is_parked()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::serve::ledger::Ledger;

    fn connection() -> Connection<()> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let peer = stream.local_addr().unwrap();
        Connection::new(2, peer, stream, Ledger::new(1 << 20, 1 << 20).open(peer.ip()), 1)
    }

    #[test]
    fn a_socket_takes_what_it_has_taken_at_its_pace() {
        let connection = connection();
        let takes_for = |connection: &Connection<()>, from: u64| {
            (0..20_000).take_while(|ms| connection.takes_replies(from + ms)).count() as u64 - 1
        };
        connection.note_full(true, 1000);
        assert_eq!(takes_for(&connection, 1000), TAKES_MS_MIN, "nothing is known of it");
        connection.note_full(true, 1800);
        assert_eq!(takes_for(&connection, 1800), 1600, "a slow line");
        connection.note_full(true, 1801);
        assert_eq!(takes_for(&connection, 1801), 800, "told of twice");
        connection.note_full(true, 60_000);
        assert_eq!(takes_for(&connection, 60_000), TAKES_MS_MAX, "and not for ever");
        (1..10).for_each(|nth| connection.note_full(true, 60_000 + nth));
        assert_eq!(takes_for(&connection, 60_009), TAKES_MS_MIN, "it was slow once");
    }

    #[test]
    fn a_record_is_as_old_as_what_is_missing() {
        let connection = connection();
        assert_eq!(connection.owes_since_ms(), None);
        connection.account.owe(Debt::Record, 1000);
        let is_told = |is_new, arrived, now| {
            connection.record_comes(is_new, arrived, now);
            connection.owes_since_ms()
        };
        assert_eq!(is_told(true, 900_000, 500), Some(500), "most of it at once");
        assert_eq!(is_told(false, 900_001, 9_000), Some(500), "and then a byte");
        assert_eq!(is_told(false, 900_001 + 6400, 9_100), Some(600), "a hundred milliseconds' worth");
        assert_eq!(is_told(false, 1_000_000, 9_200), Some(2_062), "it comes, and was late");
        assert_eq!(is_told(false, 1_048_576, 9_300), Some(2_821));
        assert_eq!(is_told(true, 64, 9_400), Some(9_400), "the next");
        assert_eq!(is_told(false, 65_536, 9_700), Some(9_700), "it comes");
        connection.excuse_pause(9_800);
        assert_eq!(connection.owes_since_ms(), Some(10_800), "nobody's fault, for a while");
        connection.begin_record_anew(10_000);
        assert_eq!(is_told(false, 65_537, 10_000), Some(10_800), "it came while that was decided");
        connection.end_pause(12_000);
        assert_eq!(connection.owes_since_ms(), Some(12_000));
        connection.account.owe(Debt::Replies, 1000);
        connection.unread_since_ms.store(600, Relaxed);
        assert_eq!(connection.owes_since_ms(), Some(600), "and these it does not take");
    }
}
