//! MOUNT version 3 (RFC 1813, appendix I), on the same port as NFS: a path becomes a handle.
//!
//! The table of mounts that DUMP shows is a courtesy in memory. Nothing depends on it: clients come and go
//! without saying so, and after a restart it is empty.

mod table;

use std::sync::Arc;

use tally_base::{DatasetId, PoolGuid};
use tally_fs::vfs::{Cred, FileKind, FsError, Vfs};

use crate::cred::{TooWeak, known_user};
use crate::exports::Exports;
use crate::handle::{Handle, HandleBytes};
use crate::rpc::AcceptError;
use crate::service::Link;
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
    link: &Link,
    exports: &dyn Exports,
    table: &MountTable,
) -> Result<Encoder, Refused> {
    let (mut out, peer) = (Encoder::new(), link.peer());
    match procedure {
        0 => {}
        1 => {
            let path = path(words)?;
            match mount(&path, link, exports)? {
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
        3 => table.remove(peer.ip(), &path(words)?),
        4 => table.remove_all(peer.ip()),
        5 => export(exports, &mut out),
        _ => return Err(AcceptError::ProcedureUnavailable.into()),
    }
    Ok(out)
}

fn path(words: &mut Decoder<'_>) -> Result<String, AcceptError> {
    let bytes = words.opaque(PATH_BYTES_MAX).map_err(|Garbage| AcceptError::GarbageArguments)?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// A handle or the status that says why there is none, if the rule lets this connection in at all.
fn mount(path: &str, link: &Link, exports: &dyn Exports) -> Result<Result<HandleBytes, MountStatus>, Refused> {
    let Some((vfs, below)) = exports.resolve(path) else { return Ok(Err(MountStatus::NoEnt)) };
    let rule = exports.rule(vfs.pool(), vfs.dataset(), link.peer().ip());
    let Some(rule) = rule else { return Ok(Err(MountStatus::Acces)) };
    known_user(link, &rule).map_err(|TooWeak| Refused::TooWeak(vfs.pool(), vfs.dataset()))?;
    Ok(handle(&vfs, &below, exports))
}

fn handle(vfs: &Arc<dyn Vfs>, below: &str, exports: &dyn Exports) -> Result<HandleBytes, MountStatus> {
    let key = exports.handle_key(vfs.pool()).ok_or(MountStatus::ServerFault)?;
    let object = walk(vfs, below)?;
    Ok(Handle { pool: vfs.pool(), dataset: vfs.dataset(), object }.seal(&key))
}

/// Follows what is left of a path below a dataset's root, as the superuser: who may mount may mount any
/// directory, and what they may do there is checked at each request. Symbolic links are not followed.
fn walk(vfs: &Arc<dyn Vfs>, below: &str) -> Result<tally_fs::vfs::ObjectRef, MountStatus> {
    let mut object = vfs.root();
    for name in below.split('/').filter(|name| !name.is_empty() && *name != ".") {
        if name == ".." {
            return Err(MountStatus::NoEnt);
        }
        let (attr, _) = vfs.lookup(&Cred::root(), object, name.as_bytes()).map_err(mount_status)?;
        if attr.kind != FileKind::Directory {
            return Err(MountStatus::NotDir);
        }
        object = attr.object;
    }
    Ok(object)
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
        out.bool(true).opaque(client.to_string().as_bytes()).opaque(path.as_bytes());
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
