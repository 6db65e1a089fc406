//! The answering end of the control socket: a thread that accepts, and one for each connection.

use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix, SocketFlags, SocketType,
    recvmsg,
};
use rustix::process::Gid;

use crate::places::{IfAllAreBusy, Place, Places};

use super::access::Access;
use super::message::{LINE_BYTES_MAX, Progress, Reply, Request, Response};
use super::peer::Peer;

/// Most connections at a time: a person runs a handful of commands. Where more come, one goes that has asked for nothing,
/// or does not take its answer; with a request of each under way, who comes.
pub const CONNECTIONS_MAX: usize = 64;

/// Most connections of those who may only look. They have places of their own, and keep nobody away who may command.
pub const LOOKERS_MAX: usize = 32;

/// So many may have connected before the daemon comes to it.
const BACKLOG: i32 = 128;

/// How long an answer may find no room in the socket.
const UNREAD_TIME_MAX: Duration = Duration::from_secs(60);

/// Whoever carries requests out.
pub trait Service: Send + Sync + 'static {
    /// Carries one out for `asker`, who may be told how it goes.
    fn handle(&self, request: Request, asker: &Asker) -> Result<Reply, NotDone>;
}

/// Why a request came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDone {
    /// Something is not as it should be, in words for the person.
    Refused(String),
    /// Whoever had asked was gone before it was begun.
    Withdrawn,
}

impl From<String> for NotDone {
    fn from(message: String) -> Self {
        Self::Refused(message)
    }
}

/// Whoever waits at the other end for an answer.
#[derive(Clone, Debug)]
pub struct Asker {
    stream: Arc<UnixStream>,
    /// What came with the request.
    file: Arc<Mutex<Option<OwnedFd>>>,
}

impl Asker {
    /// At the other end of a connection.
    #[must_use]
    pub fn new(stream: Arc<UnixStream>) -> Self {
        Self { stream, file: Arc::default() }
    }

    /// The same, who has sent this along.
    fn with(self, file: Option<OwnedFd>) -> Self {
        Self { file: Arc::new(Mutex::new(file)), ..self }
    }

    /// The open file that came with the request, once.
    #[must_use]
    pub fn file(&self) -> Option<OwnedFd> {
        self.file.lock().take()
    }

    /// Who it is, as the kernel says: a number, and the name that the machine has for it.
    #[must_use]
    pub fn user(&self) -> String {
        let Ok(peer) = Peer::of(&self.stream) else { return "unknown".into() };
        let uid = peer.uid.as_raw();
        let names = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let is_it = |line: &&str| line.split(':').nth(2) == Some(&*uid.to_string());
        match names.lines().find(is_it).and_then(|line| line.split(':').next()) {
            Some(name) => format!("{uid} ({name})"),
            None => uid.to_string(),
        }
    }

    /// Tells how the request goes. It may take as long as [`UNREAD_TIME_MAX`], where nobody reads.
    pub fn hears(&self, progress: Progress) {
        // Work goes on when nobody watches any more.
        let _ = send(&self.stream, &Response::Progress(progress));
    }

    /// Tells that the request has been begun: from here on it is carried out, whoever hangs up.
    pub fn hears_of_beginning(&self) {
        let _ = send(&self.stream, &Response::Begun);
    }

    /// Whether the asker has hung up, or closed the side on which requests come: what has not been begun is not wanted
    /// any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let mut stream = [PollFd::new(&*self.stream, PollFlags::RDHUP)];
        // Who cannot be asked is taken to be there, and gets an answer.
        poll(&mut stream, Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody answers there.
    #[error(
        "a daemon is already running with the control socket {}; stop it, or choose another --data-dir or --socket",
        path.display()
    )]
    Taken {
        /// The socket.
        path: PathBuf,
    },
    /// Something else is in the way.
    #[error("{} is in the way of the control socket and is no socket; move it, or choose another --socket", path.display())]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// The kernel refused.
    #[error("cannot make the control socket {}: {source}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
}

/// A bound control socket, not yet answered. Dropping it removes the socket file.
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Binds the socket, taking the place of one that a dead daemon left. Members of `group` may connect, if there is one
    /// and the daemon's user may give the socket to it; else it has mode 0600.
    pub fn bind(path: &Path, group: Option<Gid>) -> Result<Self, ListenError> {
        let io_error = |source: io::Error| ListenError::Io { path: path.into(), source };
        remove_stale(path)?;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let socket = socket.map_err(|errno| io_error(errno.into()))?;
        let bind = || rustix::net::bind(&socket, &SocketAddrUnix::new(path)?);
        bind().map_err(|errno| io_error(errno.into()))?;
        let bound = Self { listener: UnixListener::from(socket), path: path.into() };
        let given = group.is_some_and(|gid| match chown(path, None, Some(gid.as_raw())) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, gid = gid.as_raw(), "cannot give the control socket to its group: it is the daemon's user's alone; name a group of the daemon's own (socket_group), or give the unit that one (Group=)");
                false
            }
        });
        let mode = if given { 0o660 } else { 0o600 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(io_error)?;
        // Not before: nobody connects to what does not listen.
        rustix::net::listen(&bound.listener, BACKLOG).map_err(|errno| io_error(errno.into()))?;
        Ok(bound)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts to answer, in threads that live as long as the process.
    pub fn serve(&self, service: Arc<dyn Service>) -> io::Result<()> {
        let listener = self.listener.try_clone()?;
        thread::Builder::new().name("control".into()).spawn(move || accept_all(&listener, &service))?;
        Ok(())
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // A socket that is gone already is what we want.
        let _ = fs::remove_file(&self.path);
    }
}

fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(ListenError::NotASocket { path: path.into() });
    }
    let taken = || ListenError::Taken { path: path.into() };
    for _ in 0..DYING_PROBES_MAX {
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return fs::remove_file(path).map_err(|source| ListenError::Io { path: path.into(), source });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(_) => return Err(taken()),
            Ok(stream) if lives(&stream) => return Err(taken()),
            Ok(_) => {}
        }
    }
    Err(taken())
}

/// How often a daemon is asked whether it lives while its connections break.
const DYING_PROBES_MAX: u32 = 20;
/// A daemon waits for a request this long without hanging up.
const LIFE_SIGN: Duration = Duration::from_millis(200);

/// Whether somebody is behind the connection: a process that was killed a moment ago still accepts until the kernel has
/// closed its descriptors, and then the connection breaks.
fn lives(mut stream: &UnixStream) -> bool {
    // Without a timeout the answer would be a guess; then the socket counts as taken.
    if stream.set_read_timeout(Some(LIFE_SIGN)).is_err() {
        return true;
    }
    let silence = stream.read(&mut [0]);
    silence.is_err_and(|error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
}

fn accept_all(listener: &UnixListener, service: &Arc<dyn Service>) {
    let commanders = Places::new(CONNECTIONS_MAX, IfAllAreBusy::Refuse);
    let lookers = Places::new(LOOKERS_MAX, IfAllAreBusy::Refuse);
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors, most likely: others need the time to give some back.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        let Some(allowed) = allowed(&stream) else { continue };
        let (places, most) = match allowed {
            Access::Command => (&commanders, CONNECTIONS_MAX),
            Access::Look => (&lookers, LOOKERS_MAX),
        };
        let stream = Arc::new(stream);
        let Some(place) = places.take(&stream) else {
            turn_away(&stream, most);
            continue;
        };
        let service = Arc::clone(service);
        let spawned = thread::Builder::new().name("control".into()).spawn(move || {
            // The peer may hang up whenever it likes.
            let _ = answer((&stream, allowed), &*service, &place);
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread for a control connection");
        }
    }
}

/// Says why to one for whom there is no place. His socket is empty, so that takes no time.
fn turn_away(stream: &UnixStream, most: usize) {
    let message = format!(
        "the daemon has {most} commands under way, as many as it takes: this one was not begun. Try again when \
         some of them have ended or are given up"
    );
    let _ = stream.set_nonblocking(true).and_then(|()| send(stream, &Response::Refused { message }));
}

/// What the peer may do, by what the kernel says of it. Who is neither root nor the daemon's user has come by the
/// group that the socket's mode lets in.
fn allowed(stream: &UnixStream) -> Option<Access> {
    match Peer::of(stream) {
        Ok(peer) => Some(Access::of(peer.uid, rustix::process::geteuid())),
        Err(error) => {
            tracing::warn!(%error, "the kernel does not tell who is at the control socket");
            None
        }
    }
}

/// What is told to whoever asks for more than may be.
const ONLY_LOOKS: &str = "members of the group of the daemon's socket may look, and change nothing: have it done by root (sudo), \
                          or by the user who runs the daemon";

/// The same of who names too much at once: each word of a request may be a line of the answer for each dataset, in the daemon's memory.
const TOO_LONG: &str =
    "a question of somebody who may only look has 16 KiB at most: ask for fewer names at a time, or with -r";
const LOOKING_LINE_BYTES_MAX: u64 = 16 << 10;

fn answer(
    (stream, allowed): (&Arc<UnixStream>, Access),
    service: &dyn Service,
    place: &Place<UnixStream>,
) -> io::Result<()> {
    // A stopped process reads nothing, and whoever tells it how its command goes would wait for it.
    stream.set_write_timeout(Some(UNREAD_TIME_MAX))?;
    let mut requests = BufReader::new(Incoming { stream, file: None, takes_files: allowed == Access::Command });
    loop {
        let mut line = Vec::new();
        let line_bytes_max = if allowed == Access::Command { LINE_BYTES_MAX } else { LOOKING_LINE_BYTES_MAX };
        (&mut requests).take(line_bytes_max).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(());
        }
        let response = match serde_json::from_slice::<Request>(&line) {
            Err(_) if line.len() as u64 == LOOKING_LINE_BYTES_MAX && allowed < Access::Command => {
                Response::Refused { message: TOO_LONG.into() }
            }
            Err(error) => Response::Refused { message: format!("the request cannot be read: {error}") },
            Ok(request) if request.access() > allowed => Response::Refused { message: ONLY_LOOKS.into() },
            Ok(request) => {
                place.is_busy();
                let asker = Asker::new(Arc::clone(stream)).with(requests.get_mut().file.take());
                let outcome = service.handle(request, &asker);
                place.is_idle();
                match outcome {
                    Ok(reply) => Response::Done(reply),
                    Err(NotDone::Refused(message)) => Response::Refused { message },
                    Err(NotDone::Withdrawn) => Response::Withdrawn,
                }
            }
        };
        send(stream, &response)?;
        if !line.ends_with(b"\n") {
            return Ok(()); // The line was too long or cut short: what follows is no request.
        }
    }
}

/// What comes in at a connection: bytes, and from who may command an open file beside them, of which the newest is kept.
struct Incoming<'a> {
    stream: &'a UnixStream,
    file: Option<OwnedFd>,
    takes_files: bool,
}

impl Read for Incoming<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.takes_files {
            // The kernel closes what comes beside bytes that are read so.
            return self.stream.read(buffer);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = recvmsg(self.stream, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.file = files.last().or(self.file.take());
            }
        }
        Ok(got.bytes)
    }
}

/// Piece by piece: a list of ten thousand datasets is megabytes, and many may ask at once.
fn send(stream: &UnixStream, response: &Response) -> io::Result<()> {
    let mut line = BufWriter::with_capacity(PIECE_BYTES, stream);
    serde_json::to_writer(&mut line, response)?;
    line.write_all(b"\n")?;
    line.flush()
}

const PIECE_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests;
