//! The asking end of the control socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use super::message::{ANSWER_BYTES_MAX, Progress, Reply, Request, Response};
use super::plain::plain;
use super::socket;

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no daemon answers at {}\nStart one with `tally serve`, or name its socket with --socket or TALLY_SOCKET.",
        words(looked)
    )]
    NoDaemon {
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// A socket is there and may not be used, or is no socket.
    #[error(
        "cannot connect to the daemon at {}: {source}\nIts socket admits the user who started it, and root.",
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
}

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
        let connect_error = |errno: Errno| ClientError::Connect { path: path.into(), source: errno.into() };
        let daemon = socket_peercred(&stream).map_err(connect_error)?.uid;
        if !daemon.is_root() && daemon != geteuid() {
            return Err(ClientError::Foreign { path: path.into(), uid: daemon.as_raw() });
        }
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Asks, and waits for the end of the answer.
    pub fn ask(&mut self, request: &Request, progress: &mut dyn FnMut(&Progress)) -> Result<Reply, ClientError> {
        let mut line = serde_json::to_vec(request).map_err(ClientError::Garbled)?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).map_err(ClientError::Broken)?;
        loop {
            match self.read_response()? {
                Response::Progress(state) => progress(&state),
                Response::Done(reply) => return Ok(reply),
                Response::Refused { message } => return Err(ClientError::Refused(message)),
            }
        }
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
