//! The asking end of the control socket.

use std::io::{self, BufRead, BufReader, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, geteuid};

use super::message::{ANSWER_BYTES_MAX, Progress, Reply, Request, Response};
use super::peer::Peer;
use super::plain::plain;
use super::socket;

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no daemon answers at {}\nStart it with `systemctl start tally` or `tally serve`, or name its socket with --socket or TALLY_SOCKET.",
        words(looked)
    )]
    NoDaemon {
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// A socket is there and may not be used, or is no socket.
    #[error(
        "cannot connect to the daemon at {}: {source}\nIts socket lets in the user who started it, root, and to look \
         also members of its group, which is 'tally' unless the configuration says another (adduser USER tally, and log in anew).",
        path.display()
    )]
    Connect {
        /// Which socket.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// Somebody else answers there.
    #[error(
        "what answers at {} is a program of user {uid}: a daemon of root's or of your own is spoken to, nobody else's.\n\
         Name the right socket with --socket or TALLY_SOCKET, or run the command as that user.",
        path.display()
    )]
    Foreign {
        /// Which socket.
        path: PathBuf,
        /// Whose.
        uid: u32,
    },
    /// The daemon went away in the middle.
    #[error(
        "the connection to the daemon broke: {0}\nWhether the request was carried out is not known; ask for the state."
    )]
    Broken(#[source] io::Error),
    /// An answer that this version does not understand.
    #[error("the daemon's answer cannot be read ({0}); are command and daemon of the same version?")]
    Garbled(#[source] serde_json::Error),
    /// The daemon refused.
    #[error("{0}")]
    Refused(String),
    /// The person wanted no more of it, and this is what becomes of it.
    #[error("interrupted; {0}")]
    Interrupted(Fate),
}

/// What becomes of a request whose asker was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The daemon had not begun, and does not any more.
    Withdrawn,
    /// The daemon had begun, and carries it out.
    GoesOn,
    /// It has not said.
    Unknown,
}

impl std::fmt::Display for Fate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Withdrawn => "the daemon had not begun with it: nothing was done",
            Self::GoesOn => "the daemon had begun with it, and carries it out",
            Self::Unknown => "whether the daemon carries it out is not known",
        })
    }
}

/// One message of an answer.
enum Step {
    Begun,
    Progress,
    End(Result<Reply, ClientError>),
}

/// Why a wait is over.
#[derive(PartialEq, Eq)]
enum Awaited {
    Answer,
    Interrupt,
    /// Of the patience.
    End,
}

/// How long the daemon may take to say what becomes of a request that is taken back. It looks ten times a second.
const TAKING_BACK_MAX: Duration = Duration::from_secs(5);

fn words(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or ")
}

/// A connection to the daemon.
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the socket that was named, else to the first one of the usual places at which somebody listens.
    pub fn connect(named: Option<&Path>) -> Result<Self, ClientError> {
        let looked = socket::candidates(named);
        for path in &looked {
            match UnixStream::connect(path) {
                Ok(stream) => return Self::of(stream, path),
                // Nothing there, or left behind by a daemon that is gone.
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {}
                Err(source) => return Err(ClientError::Connect { path: path.clone(), source }),
            }
        }
        Err(ClientError::NoDaemon { looked })
    }

    /// Speaks to root's programs and one's own: whoever made the socket listen, by what the kernel says.
    fn of(stream: UnixStream, path: &Path) -> Result<Self, ClientError> {
        let connect_error = |source: io::Error| ClientError::Connect { path: path.into(), source };
        let daemon = Peer::of(&stream).map_err(connect_error)?.uid;
        if !daemon.is_root() && daemon != geteuid() {
            return Err(ClientError::Foreign { path: path.into(), uid: daemon.as_raw() });
        }
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// The process that answers.
    #[must_use]
    pub fn daemon(&self) -> Option<Pid> {
        Peer::of(self.stream.get_ref()).ok()?.pid
    }

    /// Asks, and waits for the end of the answer.
    pub fn ask(&mut self, request: &Request, progress: &mut dyn FnMut(&Progress)) -> Result<Reply, ClientError> {
        self.write(request)?;
        loop {
            if let Step::End(outcome) = self.step(progress)? {
                return outcome;
            }
        }
    }

    /// Asks for something that changes something, and waits for the end of the answer, or until there is something to
    /// read from `interrupted`. Then the request is taken back, if it has not been begun.
    pub fn ask_unless(
        &mut self,
        interrupted: BorrowedFd<'_>,
        request: &Request,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Reply, ClientError> {
        self.write(request)?;
        let mut has_begun = false;
        loop {
            if self.wait_beside(Some(interrupted), None)? == Awaited::Interrupt {
                return if has_begun { Err(ClientError::Interrupted(Fate::GoesOn)) } else { self.take_back(progress) };
            }
            match self.step(progress)? {
                Step::End(outcome) => return outcome,
                Step::Begun => has_begun = true,
                Step::Progress => {}
            }
        }
    }

    /// Takes back what was asked for, and hears what becomes of it.
    fn take_back(&mut self, progress: &mut dyn FnMut(&Progress)) -> Result<Reply, ClientError> {
        self.stream.get_ref().shutdown(Shutdown::Write).map_err(ClientError::Broken)?;
        let until = Instant::now() + TAKING_BACK_MAX;
        while self.wait_beside(None, Some(until.saturating_duration_since(Instant::now())))? == Awaited::Answer {
            match self.step(progress)? {
                Step::End(outcome) => return outcome,
                Step::Begun => return Err(ClientError::Interrupted(Fate::GoesOn)),
                Step::Progress => {}
            }
        }
        Err(ClientError::Interrupted(Fate::Unknown))
    }

    /// The same, with an open file beside the request.
    pub fn ask_with(&mut self, request: &Request, file: BorrowedFd<'_>) -> Result<Reply, ClientError> {
        let mut line = serde_json::to_vec(request).map_err(ClientError::Garbled)?;
        line.push(b'\n');
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [file];
        // There is room for one.
        let _fits = control.push(SendAncillaryMessage::ScmRights(&files));
        let broken = |errno: Errno| ClientError::Broken(errno.into());
        let sent = sendmsg(self.stream.get_ref(), &[IoSlice::new(&line)], &mut control, SendFlags::NOSIGNAL);
        let rest = line.get(sent.map_err(broken)?..).unwrap_or_default();
        self.stream.get_mut().write_all(rest).map_err(ClientError::Broken)?;
        loop {
            if let Step::End(outcome) = self.step(&mut |_| {})? {
                return outcome;
            }
        }
    }

    fn write(&mut self, request: &Request) -> Result<(), ClientError> {
        let mut line = serde_json::to_vec(request).map_err(ClientError::Garbled)?;
        line.push(b'\n');
        match self.stream.get_mut().write_all(&line) {
            // Whoever was turned away has been told why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(ClientError::Broken),
        }
    }

    /// Reads one message.
    fn step(&mut self, progress: &mut dyn FnMut(&Progress)) -> Result<Step, ClientError> {
        Ok(match self.read_response()? {
            Response::Begun => Step::Begun,
            Response::Progress(state) => {
                progress(&state);
                Step::Progress
            }
            Response::Done(reply) => Step::End(Ok(reply)),
            Response::Refused { message } => Step::End(Err(ClientError::Refused(message))),
            Response::Withdrawn => Step::End(Err(ClientError::Interrupted(Fate::Withdrawn))),
        })
    }

    /// Waits for an answer; for an interrupt, where that is of interest; and no longer than `patience`.
    fn wait_beside(
        &self,
        interrupted: Option<BorrowedFd<'_>>,
        patience: Option<Duration>,
    ) -> Result<Awaited, ClientError> {
        if !self.stream.buffer().is_empty() {
            return Ok(Awaited::Answer);
        }
        let mut files = vec![PollFd::new(self.stream.get_ref(), PollFlags::IN)];
        files.extend(interrupted.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)));
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        let woken = loop {
            match poll(&mut files, patience.as_ref()) {
                // A signal: where it is of interest, there is something to read as well.
                Err(Errno::INTR) => {}
                woken => break woken.map_err(|errno| ClientError::Broken(errno.into()))?,
            }
        };
        let is_answer = files.first().is_some_and(|answer| !answer.revents().is_empty());
        Ok(match woken {
            0 => Awaited::End,
            _ if is_answer => Awaited::Answer,
            _ => Awaited::Interrupt,
        })
    }

    fn read_response(&mut self) -> Result<Response, ClientError> {
        let mut line = Vec::new();
        let mut bounded = (&mut self.stream).take(ANSWER_BYTES_MAX);
        bounded.read_until(b'\n', &mut line).map_err(ClientError::Broken)?;
        if line.is_empty() {
            return Err(ClientError::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
        serde_json::from_slice(&plain(line)).map_err(ClientError::Garbled)
    }
}

#[cfg(test)]
mod tests;
