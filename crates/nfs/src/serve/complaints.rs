//! What is told about strangers: the first of a kind at once, the others together, once in a while. A line for each of
//! them would let whoever can connect write two megabytes of log a second.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Between two lines of a kind.
const INTERVAL: Duration = Duration::from_secs(60);

/// Why a connection was closed or not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Complaint {
    Crowded,
    Replaced,
    InDebt,
    RecordOverdue,
    RepliesOverdue,
    NoRecord,
    NoCall,
    NoSocket,
}

impl Complaint {
    const ALL: [Self; 8] = [
        Self::Crowded,
        Self::Replaced,
        Self::InDebt,
        Self::RecordOverdue,
        Self::RepliesOverdue,
        Self::NoRecord,
        Self::NoCall,
        Self::NoSocket,
    ];

    fn text(self) -> &'static str {
        match self {
            Self::Crowded => "connection refused: the limit on connections is reached, and all of them are at work",
            Self::Replaced => {
                "idle connection closed: the limit on connections is reached; a client that it was comes again"
            }
            Self::InDebt => {
                "connection closed: unfinished requests and replies that are not taken hold too much memory"
            }
            Self::RecordOverdue => "connection closed: it began a request and did not go on",
            Self::RepliesOverdue => "connection closed: it takes no replies",
            Self::NoRecord => "connection closed: it sent something that is no request; is the peer an NFS client?",
            Self::NoCall => "connection closed: it sent something that is no RPC call",
            Self::NoSocket => "a connection could not be set up; raise the limit on open files if this repeats",
        }
    }
}

/// What is to be told.
#[derive(Default)]
pub(super) struct Complaints {
    kinds: [Mutex<Kind>; Complaint::ALL.len()],
}

#[derive(Default)]
struct Kind {
    untold: u64,
    latest: Option<SocketAddr>,
    told_at: Option<Instant>,
}

impl Complaints {
    pub(super) fn add(&self, what: Complaint, peer: SocketAddr) {
        let Some(kind) = self.kinds.get(what as usize) else { return };
        let mut kind = kind.lock();
        kind.untold += 1;
        kind.latest = Some(peer);
        kind.tell(what);
    }

    /// Tells what has waited for its time.
    pub(super) fn tell(&self) {
        Complaint::ALL.iter().zip(&self.kinds).for_each(|(what, kind)| kind.lock().tell(*what));
    }
}

impl Kind {
    fn tell(&mut self, what: Complaint) {
        let Some(peer) = self.latest.filter(|_| self.told_at.is_none_or(|told| told.elapsed() >= INTERVAL)) else {
            return;
        };
        tracing::warn!(%peer, count = self.untold, "{}", what.text());
        *self = Self { untold: 0, latest: None, told_at: Some(Instant::now()) };
    }
}
