//! Which operation comes next, and how it is sent.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Result, anyhow};
use nfs3_client::{MountClient, Nfs3Client, RpcError};
use nfs3_types::mount::dirpath;
use nfs3_types::nfs3::{
    COMMIT3args, CREATE3args, GETATTR3args, LINK3args, LOOKUP3args, MKDIR3args, NFS_PROGRAM, Nfs3Option, Nfs3Result,
    READ3args, READDIR3args, READLINK3args, REMOVE3args, RENAME3args, RMDIR3args, SETATTR3args, SYMLINK3args,
    WRITE3args, cookieverf3, createhow3, createverf3, diropargs3, fattr3, filename3, nfs_fh3, nfspath3, nfsstat3,
    nfstime3, sattr3, set_mtime, stable_how, symlinkdata3,
};
use nfs3_types::rpc::{auth_unix, opaque_auth};
use nfs3_types::xdr_codec::Opaque;

use crate::model::{HOME, Id, Kind, Model, Operation, SHARED};
use crate::random::Random;
use crate::wire::{ANSWER_TIMEOUT, Answer, Exchange, Record, Wire};

/// Objects of one client; beyond, it removes more than it makes.
const OBJECTS_MAX: usize = 40;
/// Bytes of one WRITE, mostly less.
const WRITE_BYTES_MAX: u64 = 16 << 10;
/// Size of a file of the load.
const FILE_BYTES_MAX: u64 = 96 << 10;
/// How much one READ asks for: more than any file holds.
const READ_BYTES: u32 = 256 << 10;

/// Why a request brought no result.
#[derive(Debug)]
pub enum Trouble {
    /// The connection broke: what became of the request is unknown.
    Broken,
    /// The server did or said what it must not.
    Violation(String),
}

impl From<RpcError> for Trouble {
    fn from(error: RpcError) -> Self {
        match error {
            RpcError::Io(_) => Self::Broken,
            other => Self::Violation(format!("the reply is no NFSv3 reply: {other}")),
        }
    }
}

/// What an operation brought.
#[derive(Debug, Default)]
pub struct Done {
    /// The status and handle in the reply.
    pub status: u32,
    /// The handle of what was made.
    pub handle: Option<Vec<u8>>,
    /// Of WRITE and COMMIT.
    pub verifier: [u8; 8],
    /// Of WRITE: whether the reply promises the data.
    pub stable: bool,
    /// Of READ.
    pub content: Vec<u8>,
}

/// A client's connection.
pub struct Session {
    nfs: Nfs3Client<Wire>,
    record: Record,
}

impl Session {
    /// Connects.
    pub async fn open(from: IpAddr, to: SocketAddr) -> Result<Self> {
        let record = Record::default();
        let wire = Wire::connect(from, to, record.clone()).await?;
        Ok(Self { nfs: Nfs3Client::new_with_auth(wire, credential(), opaque_auth::default()), record })
    }

    /// Mounts the export and gives the handle of its root.
    pub async fn mount(from: IpAddr, to: SocketAddr, export: &str) -> Result<Vec<u8>> {
        let wire = Wire::connect(from, to, Record::default()).await?;
        let mut client = MountClient::new_with_auth(wire, credential(), opaque_auth::default());
        let path = dirpath(Opaque::owned(export.as_bytes().to_vec()));
        let mounted = client.mnt(path).await.map_err(|error| anyhow!("MNT {export}: {error}"))?;
        Ok(mounted.fhandle.0.to_vec())
    }

    /// The last request and its reply.
    #[must_use]
    pub fn last(&self) -> Exchange {
        self.record.last()
    }

    /// Sends an operation and waits for its reply.
    pub async fn perform(&mut self, model: &Model, operation: &Operation) -> Result<Done, Trouble> {
        let sent = tokio::time::timeout(ANSWER_TIMEOUT, self.send(model, operation)).await;
        let mut done =
            sent.map_err(|_| Trouble::Violation(format!("no answer in {ANSWER_TIMEOUT:?} to {operation:?}")))??;
        let answer = Answer::parse(procedure(operation), &self.record.last().reply);
        let answer = answer.map_err(|error| Trouble::Violation(format!("{operation:?}: {error}")))?;
        done.status = answer.status;
        done.handle = answer.handle;
        Ok(done)
    }

    async fn send(&mut self, model: &Model, operation: &Operation) -> Result<Done, Trouble> {
        let mut done = Done::default();
        let nfs = &mut self.nfs;
        match operation {
            Operation::Create { dir, name, id, exclusive } => {
                let how = if *exclusive {
                    createhow3::EXCLUSIVE(createverf3((0x7a11_0000_0000_0000 | id).to_be_bytes()))
                } else {
                    createhow3::GUARDED(with_mode(0o644))
                };
                let _ = nfs.create(&CREATE3args { where_: at(model, *dir, name), how }).await?;
            }
            Operation::Claim { name } => {
                let how = createhow3::GUARDED(with_mode(0o600));
                let _ = nfs.create(&CREATE3args { where_: at(model, SHARED, name), how }).await?;
            }
            Operation::MakeDirectory { dir, name, .. } => {
                let attributes = with_mode(0o755);
                let _ = nfs.mkdir(&MKDIR3args { where_: at(model, *dir, name), attributes }).await?;
            }
            Operation::Symlink { dir, name, target, .. } => {
                let symlink = symlinkdata3 {
                    symlink_attributes: sattr3::default(),
                    symlink_data: nfspath3(Opaque::owned(target.as_bytes().to_vec())),
                };
                let _ = nfs.symlink(&SYMLINK3args { where_: at(model, *dir, name), symlink }).await?;
            }
            Operation::Link { node, dir, name } => {
                let _ = nfs.link(&LINK3args { file: of(model, *node), link: at(model, *dir, name) }).await?;
            }
            Operation::Remove { dir, name } => {
                let _ = nfs.remove(&REMOVE3args { object: at(model, *dir, name) }).await?;
            }
            Operation::RemoveDirectory { dir, name } => {
                let _ = nfs.rmdir(&RMDIR3args { object: at(model, *dir, name) }).await?;
            }
            Operation::Rename { dir, name, to_dir, to_name } => {
                let (from, to) = (at(model, *dir, name), at(model, *to_dir, to_name));
                let _ = nfs.rename(&RENAME3args { from, to }).await?;
            }
            Operation::Mode { node, mode } => {
                let _ = nfs.setattr(&set(model, *node, with_mode(*mode))).await?;
            }
            Operation::Truncate { node, size } => {
                let size = sattr3 { size: Nfs3Option::Some(*size), ..sattr3::default() };
                let _ = nfs.setattr(&set(model, *node, size)).await?;
            }
            Operation::ModificationTime { node, time } => {
                let time = nfstime3 { seconds: time.0, nseconds: time.1 };
                let mtime = sattr3 { mtime: set_mtime::SET_TO_CLIENT_TIME(time), ..sattr3::default() };
                let _ = nfs.setattr(&set(model, *node, mtime)).await?;
            }
            Operation::Write { node, offset, data, stable } => {
                let wanted = if *stable { stable_how::FILE_SYNC } else { stable_how::UNSTABLE };
                let (file, count) = (of(model, *node), data.len() as u32);
                let data = Opaque::borrowed(data);
                let args = WRITE3args { file, offset: *offset, count, stable: wanted, data };
                if let Nfs3Result::Ok(written) = nfs.write(&args).await? {
                    if written.count != count || (written.committed as u32) < wanted as u32 {
                        let got = format!("{} bytes, {}", written.count, written.committed);
                        return Err(Trouble::Violation(format!(
                            "WRITE of {count} bytes, {wanted}, is answered: {got}"
                        )));
                    }
                    done.verifier = written.verf.0;
                    done.stable = written.committed != stable_how::UNSTABLE;
                }
            }
            Operation::Commit { node } => {
                let args = COMMIT3args { file: of(model, *node), offset: 0, count: 0 };
                if let Nfs3Result::Ok(committed) = nfs.commit(&args).await? {
                    done.verifier = committed.verf.0;
                }
            }
            Operation::Read { node } => {
                let args = READ3args { file: of(model, *node), offset: 0, count: READ_BYTES };
                if let Nfs3Result::Ok(read) = nfs.read(&args).await? {
                    done.content = read.data.to_vec();
                }
            }
        }
        Ok(done)
    }

    /// LOOKUP: handle and attributes, or the status.
    pub async fn lookup(&mut self, dir: &[u8], name: &str) -> Result<Result<(Vec<u8>, fattr3), nfsstat3>, Trouble> {
        let what = diropargs3 { dir: handle(dir), name: filename3(Opaque::owned(name.as_bytes().to_vec())) };
        let found = match self.nfs.lookup(&LOOKUP3args { what }).await? {
            Nfs3Result::Ok(found) => found,
            Nfs3Result::Err((status, _)) => return Ok(Err(status)),
        };
        let found_handle = found.object.data.to_vec();
        match found.obj_attributes {
            Nfs3Option::Some(attributes) => Ok(Ok((found_handle, attributes))),
            Nfs3Option::None => Ok(self.attributes(&found_handle).await?.map(|attributes| (found_handle, attributes))),
        }
    }

    /// GETATTR.
    pub async fn attributes(&mut self, object: &[u8]) -> Result<Result<fattr3, nfsstat3>, Trouble> {
        Ok(match self.nfs.getattr(&GETATTR3args { object: handle(object) }).await? {
            Nfs3Result::Ok(found) => Ok(found.obj_attributes),
            Nfs3Result::Err((status, _)) => Err(status),
        })
    }

    /// READLINK.
    pub async fn link_target(&mut self, object: &[u8]) -> Result<Vec<u8>, Trouble> {
        match self.nfs.readlink(&READLINK3args { symlink: handle(object) }).await? {
            Nfs3Result::Ok(found) => Ok(found.data.0.to_vec()),
            Nfs3Result::Err((status, _)) => Err(Trouble::Violation(format!("READLINK is answered with {status}"))),
        }
    }

    /// READDIR to the end, without `.` and `..`.
    pub async fn list(&mut self, dir: &[u8]) -> Result<Vec<String>, Trouble> {
        let (mut names, mut cookie, mut cookieverf) = (Vec::new(), 0, cookieverf3::default());
        loop {
            let args = READDIR3args { dir: handle(dir), cookie, cookieverf, count: 8192 };
            let page = match self.nfs.readdir(&args).await? {
                Nfs3Result::Ok(page) => page,
                Nfs3Result::Err((status, _)) => {
                    return Err(Trouble::Violation(format!("READDIR is answered with {status}")));
                }
            };
            cookieverf = page.cookieverf;
            let entries = page.reply.entries.into_inner();
            if entries.is_empty() && !page.reply.eof {
                return Err(Trouble::Violation("READDIR gives nothing and is not at the end".into()));
            }
            for entry in entries {
                cookie = entry.cookie;
                let name = String::from_utf8_lossy(entry.name.as_ref()).into_owned();
                if name != "." && name != ".." {
                    names.push(name);
                }
            }
            if page.reply.eof {
                return Ok(names);
            }
        }
    }
}

/// The procedure by which an operation is asked for.
#[must_use]
pub fn procedure(operation: &Operation) -> NFS_PROGRAM {
    match operation {
        Operation::Create { .. } | Operation::Claim { .. } => NFS_PROGRAM::NFSPROC3_CREATE,
        Operation::MakeDirectory { .. } => NFS_PROGRAM::NFSPROC3_MKDIR,
        Operation::Symlink { .. } => NFS_PROGRAM::NFSPROC3_SYMLINK,
        Operation::Link { .. } => NFS_PROGRAM::NFSPROC3_LINK,
        Operation::Remove { .. } => NFS_PROGRAM::NFSPROC3_REMOVE,
        Operation::RemoveDirectory { .. } => NFS_PROGRAM::NFSPROC3_RMDIR,
        Operation::Rename { .. } => NFS_PROGRAM::NFSPROC3_RENAME,
        Operation::Write { .. } => NFS_PROGRAM::NFSPROC3_WRITE,
        Operation::Commit { .. } => NFS_PROGRAM::NFSPROC3_COMMIT,
        Operation::Mode { .. } | Operation::ModificationTime { .. } | Operation::Truncate { .. } => {
            NFS_PROGRAM::NFSPROC3_SETATTR
        }
        Operation::Read { .. } => NFS_PROGRAM::NFSPROC3_READ,
    }
}

/// Whether a repetition would do harm or find another state.
#[must_use]
pub fn is_idempotent(operation: &Operation) -> bool {
    matches!(operation, Operation::Write { .. } | Operation::Commit { .. } | Operation::Read { .. })
}

/// Draws what to do next. `prefix` keeps the client's names in the shared directory its own.
pub fn choose(random: &mut Random, model: &mut Model, prefix: &str, claims: &[String]) -> Operation {
    let full = model.nodes.len() > OBJECTS_MAX;
    for _attempt in 0..50 {
        let found = match random.below(100) {
            0..=19 if !full => Some(make(random, model, prefix)),
            20..=31 => remove(random, model),
            32..=39 => rename(random, model, prefix),
            40..=43 => link(random, model, prefix),
            44..=69 => write(random, model),
            70..=77 => commit(random, model),
            78..=89 => set_something(random, model),
            90..=92 => random.pick(claims).map(|name| Operation::Claim { name: name.clone() }),
            _ => random.pick(&model.files()).map(|node| Operation::Read { node: *node }),
        };
        if let Some(operation) = found {
            return operation;
        }
    }
    make(random, model, prefix)
}

fn make(random: &mut Random, model: &mut Model, prefix: &str) -> Operation {
    let id = model.next_id();
    let (dir, name) = place(random, model, prefix, id);
    match random.below(10) {
        0 => Operation::Symlink { dir, name, id, target: format!("somewhere/{id}") },
        1 | 2 => Operation::MakeDirectory { dir, name, id },
        _ => Operation::Create { dir, name, id, exclusive: random.chance(40) },
    }
}

fn place(random: &mut Random, model: &Model, prefix: &str, id: Id) -> (Id, String) {
    let is_open = |(dir, node): (&Id, &crate::model::Node)| {
        (node.kind == Kind::Directory && node.handle.is_some()).then_some(*dir)
    };
    let dirs: Vec<_> = model.nodes.iter().filter_map(is_open).collect();
    (random.pick(&dirs).copied().unwrap_or(HOME), format!("{prefix}{id}"))
}

fn any_name(random: &mut Random, model: &Model) -> Option<(Id, String, Id)> {
    let names: Vec<_> = model.names.iter().map(|((dir, name), id)| (*dir, name.clone(), *id)).collect();
    random.pick(&names).cloned()
}

fn remove(random: &mut Random, model: &Model) -> Option<Operation> {
    let (dir, name, id) = any_name(random, model)?;
    let node = model.nodes.get(&id)?;
    if node.kind != Kind::Directory {
        return Some(Operation::Remove { dir, name });
    }
    model.entries(id).is_empty().then_some(Operation::RemoveDirectory { dir, name })
}

fn rename(random: &mut Random, model: &mut Model, prefix: &str) -> Option<Operation> {
    let (dir, name, id) = any_name(random, model)?;
    let is_directory = model.nodes.get(&id)?.kind == Kind::Directory;
    // A third of the renames replace something that is there.
    if random.chance(33) {
        let (to_dir, to_name, victim) = any_name(random, model)?;
        let fits = victim != id && model.nodes.get(&victim)?.kind != Kind::Directory && !is_directory;
        return fits.then_some(Operation::Rename { dir, name, to_dir, to_name });
    }
    let fresh = model.next_id();
    let (to_dir, to_name) = place(random, model, prefix, fresh);
    (!is_directory || !model.is_below(to_dir, id)).then_some(Operation::Rename { dir, name, to_dir, to_name })
}

fn link(random: &mut Random, model: &mut Model, prefix: &str) -> Option<Operation> {
    let node = *random.pick(&model.files())?;
    model.handle(node)?;
    let fresh = model.next_id();
    let (dir, name) = place(random, model, prefix, fresh);
    Some(Operation::Link { node, dir, name })
}

fn write(random: &mut Random, model: &Model) -> Option<Operation> {
    let id = *random.pick(&model.files())?;
    let node = model.nodes.get(&id)?;
    let length = if random.chance(60) { 4096 } else { 1 + random.below(WRITE_BYTES_MAX) };
    let size = node.current().len() as u64;
    // Mostly within or at the end of the file, sometimes leaving a hole.
    let hole = if random.chance(20) { 8192 } else { 0 };
    let offset = random.below(size + 1 + hole).min(FILE_BYTES_MAX - length);
    let data = random.bytes(length as usize);
    // A file with open writes takes only more of them, until a COMMIT.
    let stable = node.open.is_empty() && random.chance(55);
    Some(Operation::Write { node: id, offset, data, stable })
}

fn commit(random: &mut Random, model: &Model) -> Option<Operation> {
    let mut open = model.files();
    open.retain(|id| model.nodes.get(id).is_some_and(|node| !node.open.is_empty()));
    random.pick(&open).map(|node| Operation::Commit { node: *node })
}

fn set_something(random: &mut Random, model: &Model) -> Option<Operation> {
    let node = *random.pick(&model.files())?;
    match random.below(3) {
        0 => Some(Operation::Mode { node, mode: 0o600 + random.below(0o200) as u32 }),
        1 => {
            let time = (1_000_000_000 + random.below(1 << 30) as u32, random.below(1_000_000_000) as u32);
            Some(Operation::ModificationTime { node, time })
        }
        _ => {
            let closed = model.nodes.get(&node)?.open.is_empty();
            closed.then(|| Operation::Truncate { node, size: random.below(FILE_BYTES_MAX / 2) })
        }
    }
}

fn credential() -> opaque_auth<'static> {
    opaque_auth::auth_unix(&auth_unix { machinename: Opaque::borrowed(b"ledger"), ..auth_unix::default() })
}

fn handle(bytes: &[u8]) -> nfs_fh3 {
    nfs_fh3 { data: Opaque::owned(bytes.to_vec()) }
}

fn of(model: &Model, id: Id) -> nfs_fh3 {
    handle(model.handle(id).expect("operations are drawn from objects whose handle is known"))
}

fn at(model: &Model, dir: Id, name: &str) -> diropargs3<'static> {
    diropargs3 { dir: of(model, dir), name: filename3(Opaque::owned(name.as_bytes().to_vec())) }
}

fn with_mode(mode: u32) -> sattr3 {
    sattr3 { mode: Nfs3Option::Some(mode), ..sattr3::default() }
}

fn set(model: &Model, node: Id, new_attributes: sattr3) -> SETATTR3args {
    SETATTR3args { object: of(model, node), new_attributes, guard: Nfs3Option::None }
}
