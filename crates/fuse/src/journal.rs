//! What a mount's programs have open and locked, kept where whoever serves the mount behind this process finds it.
//!
//! The kernel keeps no copy of what it has asked for: neither OPEN nor SETLK are said again. So each is written into a file that is nothing but memory (memfd_create(2)) before its answer goes, and the file is kept beside the mount's descriptor by whoever
//! keeps that. It outlives the process and not the machine, as programs do.
//!
//! ```text
//!  two files, one of which counts:
//!   0 ┌───────────┬──────────────┬───────────────┬──────────┐
//!     │ MAGIC u64 │ version u64  │ generation u64│ 0 …      │   the newer generation counts; 0 is none
//!  64 ├───────────┴──────────────┴───────────────┴──────────┤
//!     │ records, each of a head of 64 bytes and what follows│   in the order in which things happened
//!     └──────────────────────────────────────────────────────┘
//! ```
//!
//! *Appended, and written anew.* A record goes by one write(2), and what the file's end cuts off was never written: a killed process stops between pages. Where too much is in the file that is over, what counts is written into the other one, and its generation last.
//!
//! *Before and behind.* What is given to a program stands here once it is given and before it is told; what is given up stands here before anybody else can have it. So whoever comes behind this process believes at most in a lock that was asked to go, for which the kernel asks again (rules V45).
//!
//! *Without it* everything goes on as well, until the process ends: where a record cannot be written nothing is kept from there on.

mod record;
mod state;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::fs::MemfdFlags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub(crate) use self::record::{Entry, Gives, Locker};
pub(crate) use self::state::State;
use crate::wire;

/// "tallyfus".
const MAGIC: u64 = u64::from_be_bytes(*b"tallyfus");
/// Of what is in it. Another one is not read: its mount ends.
const VERSION: u64 = 1;
/// From when on what counts is written anew, bytes; and where that is more, from twice as many on.
const ANEW_FROM: u64 = 256 << 10;
/// Most that are read at a time, bytes.
const READ_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Head {
    magic: u64,
    version: u64,
    generation: u64,
    unused: [u64; 5],
}

const HEAD_BYTES: u64 = size_of::<Head>() as u64;

/// Why nothing is taken over.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// It cannot be read or made.
    #[error("what a mount had open cannot be kept: {0}")]
    Io(#[from] io::Error),
    /// It is of another version, or none.
    #[error("what a mount had open was written down by another version, or could not be to its end")]
    Unknown,
    /// Requests that its process had read are lost, and the kernel does not say them again.
    #[error("its process ended suddenly, and this kernel does not ask again for what it had asked (Linux 6.10 does)")]
    Lost,
}

/// Of one mount.
pub(crate) struct Journal {
    id: [u8; 16],
    files: [File; 2],
    at: Mutex<At>,
    /// Nothing is kept any more.
    is_broken: AtomicBool,
}

struct At {
    active: usize,
    generation: u64,
    end: u64,
    anew_from: u64,
}

impl Journal {
    /// An empty one, about what this says.
    pub(crate) fn begin(about: &[u8]) -> Result<Self, NotKept> {
        let mut id = [0; 16];
        getrandom(&mut id)?;
        let file = || Ok::<_, io::Error>(File::from(rustix::fs::memfd_create("tally-mount", MemfdFlags::CLOEXEC)?));
        let journal = Self {
            id,
            files: [file()?, file()?],
            at: Mutex::new(At { active: 0, generation: 0, end: 0, anew_from: ANEW_FROM }),
            is_broken: AtomicBool::new(false),
        };
        let mut state = State::default();
        (state.id, state.about) = (id, Bytes::copy_from_slice(about));
        journal.write_anew(&mut journal.at.lock(), &state)?;
        Ok(journal)
    }

    /// One that another process has kept, and all that is in it.
    pub(crate) fn resume(files: [OwnedFd; 2]) -> Result<(Self, State), NotKept> {
        let files = files.map(File::from);
        let generation = |file: &File| {
            let mut head = Head::default();
            let read = file.read_exact_at(head.as_mut_bytes(), 0);
            if read.is_ok() && (head.magic, head.version) == (MAGIC, VERSION) { head.generation } else { 0 }
        };
        let generations = files.each_ref().map(generation);
        let active = usize::from(generations[1] > generations[0]);
        let generation = generations[active];
        if generation == 0 {
            return Err(NotKept::Unknown);
        }
        let (state, end) = read(&files[active]).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => NotKept::Unknown,
            _ => NotKept::Io(error),
        })?;
        // What was cut off is nothing, also behind a shorter one.
        files[active].set_len(end)?;
        if state.about.is_empty() {
            return Err(NotKept::Unknown);
        }
        let at = Mutex::new(At { active, generation, end, anew_from: end.max(ANEW_FROM) });
        Ok((Self { id: state.id, files, at, is_broken: AtomicBool::new(false) }, state))
    }

    /// All that is in it now. Nothing, if it cannot be kept any more.
    pub(crate) fn state(&self) -> Option<State> {
        let at = self.at.lock();
        let state = read(&self.files[at.active]).ok()?.0;
        self.is_whole().then_some(state)
    }

    /// By which the mount is told from every other one.
    pub(crate) const fn id(&self) -> &[u8; 16] {
        &self.id
    }

    /// For who keeps them, in any order.
    pub(crate) fn files(&self) -> [BorrowedFd<'_>; 2] {
        self.files.each_ref().map(File::as_fd)
    }

    /// Whether all is in it.
    fn is_whole(&self) -> bool {
        !self.is_broken.load(Ordering::Acquire)
    }

    /// Something happens, or has happened.
    pub(crate) fn note(&self, entry: &Entry<'_>) {
        if !self.is_whole() {
            return;
        }
        let record = entry.encoded();
        let mut at = self.at.lock();
        let written = self.files[at.active].write_all_at(&record, at.end);
        let written = written.and_then(|()| {
            at.end += record.len() as u64;
            if at.end < at.anew_from { Ok(()) } else { self.renew(&mut at) }
        });
        if let Err(error) = written {
            self.is_broken.store(true, Ordering::Release);
            tracing::error!(%error, "what a mount has open cannot be written down any more: it ends with this process");
            // Half of it would be worse than nothing.
            for file in &self.files {
                let _ = file.set_len(0);
            }
        }
    }

    fn renew(&self, at: &mut At) -> io::Result<()> {
        let (state, _) = read(&self.files[at.active])?;
        self.write_anew(at, &state)
    }

    /// What counts, into the file that does not; from then on that one does.
    fn write_anew(&self, at: &mut At, state: &State) -> io::Result<()> {
        let to = 1 - at.active;
        let file = &self.files[to];
        file.set_len(0)?;
        let (mut end, mut buffer) = (HEAD_BYTES, Vec::with_capacity(READ_BYTES));
        for entry in state.entries() {
            buffer.extend_from_slice(&entry.encoded());
            if buffer.len() >= READ_BYTES {
                file.write_all_at(&buffer, end)?;
                end += buffer.len() as u64;
                buffer.clear();
            }
        }
        file.write_all_at(&buffer, end)?;
        end += buffer.len() as u64;
        let head = Head { magic: MAGIC, version: VERSION, generation: at.generation + 1, ..Head::default() };
        file.write_all_at(head.as_bytes(), 0)?;
        self.files[at.active].set_len(0)?;
        *at = At { active: to, generation: head.generation, end, anew_from: (2 * end).max(ANEW_FROM) };
        Ok(())
    }
}

fn getrandom(id: &mut [u8; 16]) -> io::Result<()> {
    let bytes = rustix::rand::getrandom(&mut id[..], rustix::rand::GetRandomFlags::empty())?;
    if bytes == id.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// All that is in a file, and where that ends.
fn read(file: &File) -> io::Result<(State, u64)> {
    let (mut state, mut at, mut buffer) = (State::default(), HEAD_BYTES, Vec::new());
    loop {
        let have = buffer.len();
        buffer.resize(have + READ_BYTES, 0);
        let bytes = file.read_at(&mut buffer[have..], at + have as u64)?;
        buffer.truncate(have + bytes);
        let mut rest = &buffer[..];
        while let Some((entry, bytes)) =
            Entry::first(rest).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?
        {
            state.apply(&entry);
            rest = &rest[bytes..];
            at += bytes as u64;
        }
        let left = rest.len();
        if bytes == 0 {
            return Ok((state, at));
        }
        buffer.drain(..buffer.len() - left);
    }
}

/// Most that follow a record's head, bytes: a request of the longest kind.
const REST_BYTES_MAX: usize = tally_vfs::WRITE_BYTES_MAX as usize + wire::HEAD_BYTES_MAX;

#[cfg(test)]
mod tests;
