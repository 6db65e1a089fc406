//! What commands leave for the daemon's own thread, and who may still take it back.
//!
//! Commands that change something are carried out one after the other. While one waits for its turn its asker may press
//! Ctrl-C, and then it must not be begun, hours later, when he has forgotten it. Once it is begun it is carried out.
//! Between the two stands one flag, which whoever comes first takes:
//!
//! ```text
//!   waiting ── the daemon's thread, with the asker still there ──▶ begun: carried out, whoever hangs up
//!      └────── the connection's thread, or the daemon's, with the asker gone ──▶ withdrawn: never begun
//! ```

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::error::PoolsError;
use super::new_files::NewFile;
use crate::control::listener::{Asker, NotDone};
use crate::control::message::{Progress, Reply, Request};

/// What the daemon's own thread waits for.
pub(super) enum Event {
    /// Export the pools and end.
    Stop,
    /// Read the exports of the configuration file again.
    Reload,
    /// Carry out a command.
    Work(Work),
    /// Go on with one that was prepared in a thread of its own.
    Prepared(Begun),
    /// End what clients have of pools that were exported a lease ago.
    RetainedTooLong,
}

/// What the daemon's own thread does for a connection.
pub(super) struct Work {
    request: Request,
    asker: Asker,
    answer: Sender<Answer>,
    is_decided: Arc<AtomicBool>,
}

/// What the connection has of it.
pub(super) struct Order {
    /// How it goes, and what came of it.
    pub(super) answers: Receiver<Answer>,
    is_decided: Arc<AtomicBool>,
}

/// From the daemon's thread to the connection's.
pub(super) enum Answer {
    /// It will be carried out.
    Begun,
    /// It goes on.
    Progress(Progress),
    /// The end.
    End(Result<Reply, NotDone>),
}

/// Work for a request, and the order that waits for it.
pub(super) fn order(request: Request, asker: Asker) -> (Work, Order) {
    let (answer, answers) = channel();
    let is_decided = Arc::<AtomicBool>::default();
    let order = Order { answers, is_decided: Arc::clone(&is_decided) };
    (Work { request, asker, answer, is_decided }, order)
}

impl Order {
    /// Whether it has not been begun; then it never will be.
    pub(super) fn take_back(&self) -> bool {
        !self.is_decided.swap(true, Ordering::AcqRel)
    }
}

impl Work {
    /// Whether it copies or reads a whole disk, or is at one that may hang, and must not keep the daemon's thread from others.
    pub(super) const fn takes_long(&self) -> bool {
        matches!(
            self.request,
            Request::PoolAttach { .. }
                | Request::PoolAdd { .. }
                | Request::PoolRemove { .. }
                | Request::PoolDetach { .. }
                | Request::PoolReplace { .. }
                | Request::PoolOffline { .. }
                | Request::PoolOnline { .. }
                | Request::PoolScrub { .. }
                | Request::PoolReopen { .. }
                | Request::PoolSync { .. }
                | Request::PoolLabelClear { .. }
                // It asks the same disks as the command that it foresees.
                | Request::PoolTry { .. }
        )
    }

    /// Whether files are to be made before the daemon's thread can do anything.
    pub(super) const fn makes_files(&self) -> bool {
        matches!(self.request, Request::PoolCreate { file_bytes: Some(_), .. })
    }

    /// Another voice, for when this is lost.
    pub(super) fn voice(&self) -> Voice {
        Voice { answer: self.answer.clone(), told: None }
    }

    /// Begins, if anybody still wants it.
    pub(super) fn begin(self) -> Option<Begun> {
        let Self { request, asker, answer, is_decided } = self;
        if is_decided.swap(true, Ordering::AcqRel) {
            return None;
        }
        if asker.is_gone() {
            tracing::info!("a command was not begun: whoever had asked for it is gone");
            let _ = answer.send(Answer::End(Err(NotDone::Withdrawn)));
            return None;
        }
        let _ = answer.send(Answer::Begun);
        let (user, file) = (asker.user(), asker.file());
        Some(Begun { request, user, file, files: Vec::new(), voice: Voice { answer, told: None } })
    }
}

/// Work that will be carried out.
pub(super) struct Begun {
    pub(super) request: Request,
    /// Who asked for it.
    pub(super) user: String,
    /// What came with it.
    pub(super) file: Option<OwnedFd>,
    /// Made for it. Whoever drops them takes them back.
    pub(super) files: Vec<NewFile>,
    pub(super) voice: Voice,
}

/// Tells how work goes, and what came of it. Nobody may be there any more.
pub(super) struct Voice {
    answer: Sender<Answer>,
    told: Option<Instant>,
}

/// How often somebody hears how work goes: what waits for an asker that does not read must not grow with every block of a
/// pool (I6).
const BETWEEN_NEWS: Duration = Duration::from_millis(200);

impl Voice {
    pub(super) fn goes(&mut self, state: Progress) {
        if self.told.is_none_or(|told| told.elapsed() >= BETWEEN_NEWS) {
            self.told = Some(Instant::now());
            let _ = self.answer.send(Answer::Progress(state));
        }
    }

    pub(super) fn ends(self, result: Result<Reply, PoolsError>) {
        if let Err(error) = &result {
            tracing::info!(%error, "a command was refused");
        }
        let _ = self.answer.send(Answer::End(result.map_err(|error| NotDone::Refused(error.to_string()))));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn ordered() -> (Work, Order, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (work, order) = order(Request::PoolExport { name: "tank".into() }, Asker::new(Arc::new(ours)));
        (work, order, theirs)
    }

    #[test]
    fn it_is_begun_or_taken_back_and_never_both() {
        let (work, order, _asker) = ordered();
        assert!(work.begin().is_some() && !order.take_back());
        assert!(matches!(order.answers.recv(), Ok(Answer::Begun)));

        let (work, order, _asker) = ordered();
        assert!(order.take_back() && work.begin().is_none());
        assert!(order.answers.recv().is_err());

        // Nobody had looked since he went, or closed his side to hear what becomes of it.
        let (work, order, asker) = ordered();
        drop(asker);
        assert!(work.begin().is_none() && !order.take_back());
        let (work, order, asker) = ordered();
        asker.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(work.begin().is_none());
        assert!(matches!(order.answers.recv(), Ok(Answer::End(Err(NotDone::Withdrawn)))));
    }
}
