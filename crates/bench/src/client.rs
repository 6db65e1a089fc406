//! Who does the work of a case: a connection that sends what real clients send, or system calls on a mounted folder,
//! of which the kernel makes requests.
//!
//! The cases and the referee are written once, over [`Client`]; it has the verbs of a person at a shell, not those of
//! the protocol, because that is where the two have something in common.

mod export;
mod mounted;

use std::fmt;
use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::meter::Meter;
use crate::promise::Kind;
use crate::witness::{Probed, Witness};

pub use export::Export;
pub use mounted::Mounted;

/// A place to work in, from which any number of clients come.
pub trait Site: Sync {
    /// What the clients of this place are.
    type Client: Client;

    /// A new client, on a connection of its own where there are connections.
    fn client(&self, meter: &Arc<Meter>) -> Result<Self::Client>;

    /// Makes a folder for one run and gives it.
    fn make_run(&self, name: &str) -> Result<<Self::Client as Client>::Node>;

    /// Removes it with all that is in it; tells how many names are gone so far.
    fn remove_run(&self, name: &str, gone: &mut dyn FnMut(u64)) -> Result<()>;

    /// Bytes of the pieces in which a long file goes: a power of two, and not more than wanted.
    fn piece_bytes(&self, wanted: usize) -> usize {
        wanted
    }

    /// Kinds of requests whose replies promise durability here.
    fn kinds(&self) -> &'static [Kind];

    /// Why nothing can be said about this place, whatever the disks do.
    fn beyond_judgement(&self) -> Option<String>;
}

/// A client: what a tool does with files, whatever carries it out.
pub trait Client: Send {
    /// A file or folder.
    type Node: Clone + Send + Sync;

    /// Makes a folder and gives the node to go on with.
    fn make_folder(&mut self, parent: &Self::Node, name: &str) -> Result<Self::Node>;

    /// Finds what is there.
    fn find(&mut self, folder: &Self::Node, name: &str) -> Result<Self::Node>;

    /// Gives a folder the attributes that the tool sets once all is in it.
    fn finish_folder(&mut self, folder: &Self::Node, tool: Tool) -> Result<()>;

    /// Makes a file with this content, as the tool does.
    fn add_file(&mut self, folder: &Self::Node, name: &str, data: &[u8], tool: Tool) -> Result<Self::Node>;

    /// Makes a symbolic link, as the tool does.
    fn add_symlink(&mut self, folder: &Self::Node, name: &str, to: &str, tool: Tool) -> Result<()>;

    /// Gives a file another name.
    fn link(&mut self, file: &Self::Node, folder: &Self::Node, name: &str) -> Result<()>;

    /// Makes an empty file.
    fn create(&mut self, folder: &Self::Node, name: &str) -> Result<Self::Node>;

    /// Truncates a file and writes it again, as `echo > file` does.
    fn overwrite(&mut self, file: &Self::Node, data: &[u8]) -> Result<()>;

    /// Writes pieces one behind the other, and has them made durable at the end.
    fn write_long(&mut self, file: &Self::Node, pieces: &mut Pieces<'_>) -> Result<()>;

    /// Reads so many pieces, not from a cache of this machine, and checks that each is what was written.
    fn read_long(&mut self, file: &Self::Node, pieces: &mut Pieces<'_>) -> Result<()>;

    /// Looks at the attributes of everything in a folder; gives the number of names.
    fn list(&mut self, folder: &Self::Node) -> Result<u64>;

    /// Prepares what one request of a kind needs, sends it alone, and looks at the disks right before and right after.
    fn probe(&mut self, folder: &Self::Node, kind: Kind, number: u64, witness: &mut Witness<'_>) -> Result<Probed>;
}

/// Whose sequence of requests is sent for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `tar -x` as root: times, owner and mode behind the content.
    TarAsRoot,
    /// `tar -x` as somebody else: times.
    TarAsUser,
    /// `cp -a`: times and mode.
    CpArchive,
    /// `cp -a` as root of what belongs to somebody else: times, owner and mode.
    CpArchiveAsRoot,
    /// `cp -r`: nothing.
    CpRecursive,
}

/// What a tool sets on what it has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Access and modification time.
    Times,
    /// User and group, as root alone may.
    Owner,
    /// Permission bits.
    Mode,
}

impl Tool {
    /// What is set behind the content, each with a request of its own. Traced from Linux' NFSv3 client.
    #[must_use]
    pub fn settings(self) -> &'static [Setting] {
        match self {
            Self::TarAsRoot | Self::CpArchiveAsRoot => &[Setting::Times, Setting::Owner, Setting::Mode],
            Self::TarAsUser => &[Setting::Times],
            Self::CpArchive => &[Setting::Times, Setting::Mode],
            Self::CpRecursive => &[],
        }
    }
}

/// In whose name a benchmark works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum As {
    /// The superuser: the server may not squash him.
    #[default]
    Root,
    /// A user who may do no more than others.
    User,
}

impl fmt::Display for As {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Root => "root",
            Self::User => "user",
        })
    }
}

/// User and group of an ordinary user, and of what tar unpacks.
pub const USER: (u32, u32) = (1000, 1000);
/// The time that is set: some Tuesday in 2023.
const TIME_SECONDS: u32 = 1_700_000_000;

/// Somebody has asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// The content of a long file, piece by piece. Every block of 4 KiB begins with its number in the file, and the rest is
/// noise, so that neither compression nor deduplication finds anything, and a piece can be checked when it comes back.
pub struct Pieces<'a> {
    /// How many there are.
    pub count: u64,
    buffer: Vec<u8>,
    seen: Vec<bool>,
    done: &'a mut dyn FnMut() -> Result<()>,
}

const BLOCK_BYTES: usize = 4096;

impl<'a> Pieces<'a> {
    /// Pieces of this length, which is a multiple of 4 KiB, and what is to be called behind each; an error stops.
    pub fn new(count: u64, bytes: usize, seed: u64, done: &'a mut dyn FnMut() -> Result<()>) -> Self {
        assert!(bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES), "pieces are made of blocks");
        let buffer = crate::random::Random::new(seed, 0).bytes(bytes);
        Self { count, buffer, seen: vec![false; usize::try_from(count).unwrap_or(0)], done }
    }

    /// Bytes of each piece.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The content of a piece.
    pub fn piece(&mut self, index: u64) -> &[u8] {
        let first = index * (self.buffer.len() / BLOCK_BYTES) as u64;
        for (number, block) in self.buffer.chunks_mut(BLOCK_BYTES).enumerate() {
            block[..8].copy_from_slice(&(first + number as u64).to_le_bytes());
        }
        &self.buffer
    }

    /// Says that one is done.
    pub fn done(&mut self) -> Result<()> {
        (self.done)()
    }

    /// Takes a piece that was read, in any order: each must come once, and be what was written.
    pub fn check(&mut self, data: &[u8]) -> Result<()> {
        anyhow::ensure!(data.len() == self.buffer.len(), "{} bytes came of {}", data.len(), self.buffer.len());
        let first = u64::from_le_bytes(data[..8].try_into()?);
        let index = first / (self.buffer.len() / BLOCK_BYTES) as u64;
        let seen = usize::try_from(index).ok().and_then(|index| self.seen.get_mut(index));
        let fresh = seen.is_some_and(|seen| !std::mem::replace(seen, true));
        anyhow::ensure!(fresh && self.piece(index) == data, "what was read is not what was written");
        self.done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_back_in_any_order_and_only_once() {
        let mut calls = 0;
        let mut done = || {
            calls += 1;
            Ok(())
        };
        let mut pieces = Pieces::new(3, 8192, 7, &mut done);
        let all: Vec<Vec<u8>> = (0..3).map(|index| pieces.piece(index).to_vec()).collect();
        assert!(all[0] != all[1] && all[0][..4096] != all[0][4096..]);
        for index in [2, 0, 1] {
            pieces.check(&all[index]).unwrap();
        }
        assert!(pieces.check(&all[1]).is_err(), "a piece that comes twice");
        assert!(pieces.check(&all[1][..100]).is_err(), "a piece cut short");
        let mut wrong = all[0].clone();
        wrong[5000] ^= 1;
        assert!(Pieces::new(3, 8192, 7, &mut || Ok(())).check(&wrong).is_err(), "a piece that was changed");
        assert!(Pieces::new(1, 8192, 7, &mut || Ok(())).check(&all[2]).is_err(), "a piece from beyond the end");
        assert_eq!(calls, 3);
    }
}
