//! MOUNT version 3 (RFC 1813, appendix I), on the same port as NFS: a path becomes a handle.
//!
//! The table of mounts that DUMP shows is a courtesy in memory. Nothing depends on it: clients come and go
//! without saying so, and after a restart it is empty.

mod table;

use tally_base::{DatasetId, PoolGuid};
use tally_vfs::{FileKind, FsError};

use crate::entry::{Entry, Target};
use crate::exports::{Exports, Resolved};
use crate::handle::HandleBytes;
use crate::link::Link;
use crate::rpc::{AcceptError, Identity};
use crate::xdr::{Decoder, Encoder, Garbage};
pub use table::MountTable;

/// RPC program number.
pub const PROGRAM: u32 = 100_005;
/// The only version we have.
pub const VERSION: u32 = 3;

/// Longest path that a client may send.
const PATH_BYTES_MAX: usize = 1024;
/// The credentials that we accept, best first: AUTH_SYS, AUTH_NONE.
const FLAVORS: [u32; 2] = [1, 0];

/// `mountstat3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum MountStatus {
    NoEnt = 2,
    Io = 5,
    Acces = 13,
    NotDir = 20,
    NameTooLong = 63,
    ServerFault = 10006,
}

/// Why a call has no results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is not carried out.
    Error(AcceptError),
    /// The rule of this dataset asks for more than the connection can show.
    TooWeak(PoolGuid, DatasetId),
}

impl From<AcceptError> for Refused {
    fn from(error: AcceptError) -> Self {
        Self::Error(error)
    }
}

/// Carries out a procedure of MOUNT.
pub fn run(
    procedure: u32,
    words: &mut Decoder<'_>,
    (identity, link): (&Identity, &Link),
    exports: &dyn Exports,
    table: &MountTable,
) -> Result<Encoder, Refused> {
    let (mut out, peer) = (Encoder::new(), link.peer());
    match procedure {
        0 => {}
        1 => {
            let path = path(words)?;
            match mount(path, (identity, link), exports)? {
                Ok(handle) => {
                    table.add(peer.ip(), path);
                    out.u32(0).opaque(&handle).u32(2);
                    FLAVORS.iter().for_each(|flavor| {
                        out.u32(*flavor);
                    });
                }
                Err(status) => {
                    out.u32(status as u32);
                }
            }
        }
        2 => dump(table, &mut out),
        3 => table.remove(peer.ip(), path(words)?),
        4 => table.remove_all(peer.ip()),
        5 => export(exports, &mut out),
        _ => return Err(AcceptError::ProcedureUnavailable.into()),
    }
    Ok(out)
}

/// A path is bytes, as names are.
fn path<'a>(words: &mut Decoder<'a>) -> Result<&'a [u8], AcceptError> {
    words.opaque(PATH_BYTES_MAX).map_err(|Garbage| AcceptError::GarbageArguments)
}

/// A handle or the status that says why there is none, if the rule lets this connection in at all.
fn mount(
    path: &[u8],
    (identity, link): (&Identity, &Link),
    exports: &dyn Exports,
) -> Result<Result<HandleBytes, MountStatus>, Refused> {
    let names = names(path);
    // As knfsd has it: what is not exported is not told from what is not there, and clients have a better sentence for that.
    let Some((resolved, count)) = resolve(&names, exports) else { return Ok(Err(MountStatus::Acces)) };
    let entry = Entry::new(exports, link, identity);
    match (entry.root(resolved), entry.too_weak()) {
        (Ok(root), _) => Ok(walk(root, &names[count..]).map(|target| target.seal(target.object))),
        (Err(_), Some((pool, dataset))) => Err(Refused::TooWeak(pool, dataset)),
        (Err(_), None) => Ok(Err(MountStatus::Acces)),
    }
}

/// The names in a path. What stands for nothing goes before anything is compared: `/tank/./home` is the dataset.
fn names(path: &[u8]) -> Vec<&[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".").collect()
}

/// The dataset with the longest prefix of these names, and how many are of it. Dataset names are text, and
/// nothing leads up.
fn resolve(names: &[&[u8]], exports: &dyn Exports) -> Option<(Resolved, usize)> {
    if names.contains(&b"..".as_slice()) {
        return None;
    }
    let text: Vec<&str> = names.iter().map_while(|name| std::str::from_utf8(name).ok()).collect();
    let resolved = exports.resolve(&format!("/{}", text.join("/")))?;
    let left = resolved.below.split('/').filter(|name| !name.is_empty()).count() + (names.len() - text.len());
    Some((resolved, names.len() - left))
}

/// Follows what is left of a path below a dataset's root, as the caller, so that nobody gets what they could not have looked
/// up, and no status tells of it. What a dataset is mounted on is that dataset. Symbolic links are not followed.
fn walk(mut at: Target, below: &[&[u8]]) -> Result<Target, MountStatus> {
    for name in below {
        let (attr, _) = at.vfs.lookup(&at.cred, at.object, name).map_err(mount_status)?;
        if attr.kind != FileKind::Directory {
            return Err(MountStatus::NotDir);
        }
        // A dataset is found by its own path. One that comes or goes is neither there nor is what it covers.
        if at.child(name).is_some() {
            return Err(MountStatus::NoEnt);
        }
        at.object = attr.object;
    }
    Ok(at)
}

fn mount_status(error: FsError) -> MountStatus {
    match error {
        FsError::NotFound | FsError::Stale => MountStatus::NoEnt,
        FsError::Access | FsError::NotOwner => MountStatus::Acces,
        FsError::NotDirectory => MountStatus::NotDir,
        FsError::NameTooLong => MountStatus::NameTooLong,
        FsError::Io => MountStatus::Io,
        _ => MountStatus::ServerFault,
    }
}

fn dump(table: &MountTable, out: &mut Encoder) {
    for (client, path) in table.list() {
        out.bool(true).opaque(client.to_string().as_bytes()).opaque(&path);
    }
    out.bool(false);
}

fn export(exports: &dyn Exports, out: &mut Encoder) {
    for (path, clients) in exports.list() {
        out.bool(true).opaque(path.as_bytes());
        for client in clients {
            out.bool(true).opaque(client.as_bytes());
        }
        out.bool(false);
    }
    out.bool(false);
}
