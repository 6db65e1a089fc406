//! What clients ask: drawn by chance, as a call in bytes for the server, and as a call of the model.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use nfs3_types::nfs3::*;
use nfs3_types::xdr_codec::Opaque;
use smallvec::SmallVec;
use tally_base::FileTime;
use tally_nfs::handle::Handle;
use tally_vfs::model::Model;
use tally_vfs::{
    Attr, Attributes, Change, Content, CreateHow, Cred, FileKind, FsError, Names, NodeKind, ObjectRef, OpCtx, Outcome,
    SetAttr, SetTime, Stability,
};

use crate::chance::Chance;
use crate::client::{Call, Told, handle, name_in, told, told_newer};
pub use crate::same::NAMES;
use crate::words;

/// An object that a client has a handle of.
pub struct Known {
    /// The handle, as the server gave it.
    pub handle: Vec<u8>,
    /// The same object in the model.
    pub model: ObjectRef,
    /// Its kind.
    pub kind: FileKind,
    /// Which dataset of the history it is in.
    pub dataset: usize,
    /// Bytes of its blocks.
    pub record_size: u64,
}

impl Known {
    /// The same object as the server knows it, which has this handle key.
    pub fn real(&self, key: &[u8; 32]) -> Result<ObjectRef, String> {
        let handle = Handle::parse(&self.handle).and_then(|handle| handle.verify(key));
        handle.map(|handle| handle.object).ok_or_else(|| format!("not a handle: {self:?}"))
    }
}

/// A shared [`Known`].
pub type Object = Arc<Known>;

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.dataset, self.model.id)
    }
}

/// A modifying request.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Op {
    Create { dir: Object, name: &'static str, how: CreateHow },
    Mkdir { dir: Object, name: &'static str },
    Symlink { dir: Object, name: &'static str, length: usize },
    Mknod { dir: Object, name: &'static str, node: NodeKind },
    Remove { dir: Object, name: &'static str },
    Rmdir { dir: Object, name: &'static str },
    Rename { from_dir: Object, from: &'static str, to_dir: Object, to: &'static str },
    Link { object: Object, dir: Object, name: &'static str },
    SetAttr { object: Object, set: SetAttr },
    Write { object: Object, offset: u64, length: u64, fill: u64, stability: Stability },
    Commit { object: Object, offset: u64, count: u32 },
    Allocate { object: Object, offset: u64, length: u64 },
    Deallocate { object: Object, offset: u64, length: u64 },
}

/// What the model answers, as far as a reply must agree.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Nothing but that it is done.
    Done,
    /// An object was made or linked.
    Made(Attr),
    /// So many bytes were taken.
    Written(u32),
}

/// The model's answer, and the attributes of what an operation is about, behind it.
#[derive(Clone, Debug)]
pub struct Expected {
    /// What must be answered.
    pub result: Result<Answer, FsError>,
    /// What its attributes must say, where the reply has them.
    pub attr: Option<Attr>,
}

impl Op {
    /// The dataset that it is sent to.
    #[must_use]
    pub fn dataset(&self) -> usize {
        self.objects()[0].dataset
    }

    /// The objects whose handles it carries.
    #[must_use]
    pub fn objects(&self) -> SmallVec<[&Object; 2]> {
        match self {
            Self::Create { dir, .. }
            | Self::Mkdir { dir, .. }
            | Self::Symlink { dir, .. }
            | Self::Mknod { dir, .. }
            | Self::Remove { dir, .. }
            | Self::Rmdir { dir, .. } => SmallVec::from_iter([dir]),
            Self::Rename { from_dir, to_dir, .. } => SmallVec::from_iter([from_dir, to_dir]),
            Self::Link { object, dir, .. } => SmallVec::from_iter([object, dir]),
            Self::SetAttr { object, .. }
            | Self::Write { object, .. }
            | Self::Commit { object, .. }
            | Self::Allocate { object, .. }
            | Self::Deallocate { object, .. } => SmallVec::from_iter([object]),
        }
    }

    /// The names it goes by, and where.
    #[must_use]
    pub fn names(&self) -> SmallVec<[(&Object, &'static str); 2]> {
        match self {
            Self::Create { dir, name, .. }
            | Self::Mkdir { dir, name }
            | Self::Symlink { dir, name, .. }
            | Self::Mknod { dir, name, .. }
            | Self::Remove { dir, name }
            | Self::Rmdir { dir, name }
            | Self::Link { dir, name, .. } => SmallVec::from_iter([(dir, *name)]),
            Self::Rename { from_dir, from, to_dir, to } => SmallVec::from_iter([(from_dir, *from), (to_dir, *to)]),
            Self::SetAttr { .. }
            | Self::Write { .. }
            | Self::Commit { .. }
            | Self::Allocate { .. }
            | Self::Deallocate { .. } => SmallVec::new(),
        }
    }

    /// Whether it names two datasets: EXDEV, whatever else is wrong with it.
    #[must_use]
    pub fn is_across(&self) -> bool {
        self.objects().iter().any(|object| object.dataset != self.dataset())
    }

    /// Whether it makes an object.
    #[must_use]
    pub fn makes(&self) -> bool {
        matches!(self, Self::Create { .. } | Self::Mkdir { .. } | Self::Symlink { .. } | Self::Mknod { .. })
    }

    /// Whether version 3 has no word for it.
    #[must_use]
    pub fn is_newer(&self) -> bool {
        matches!(self, Self::Allocate { .. } | Self::Deallocate { .. })
    }

    /// What asks for it behind SEQUENCE, if it is one that version 3 has no word for.
    #[must_use]
    pub fn newer(&self) -> Option<[Vec<u8>; 2]> {
        let by = words::nobodys();
        match self {
            Self::Allocate { object, offset, length } => {
                Some([words::put(&object.handle), words::allocate(&by, *offset, *length)])
            }
            Self::Deallocate { object, offset, length } => {
                Some([words::put(&object.handle), words::deallocate(&by, *offset, *length)])
            }
            _ => None,
        }
    }

    /// What a reply to it tells.
    pub fn told(&self, reply: &[u8]) -> Result<Told, String> {
        if self.is_newer() { told_newer(reply) } else { told(self.call().procedure, reply) }
    }

    /// The call of version 3 that asks for it.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn call(&self) -> Call {
        use NFS_PROGRAM as P;
        match self {
            Self::Create { dir, name, how } => {
                let how = match how {
                    CreateHow::Unchecked(set) => createhow3::UNCHECKED(attributes_of(set)),
                    CreateHow::Guarded(set) => createhow3::GUARDED(attributes_of(set)),
                    // Version 3 has nothing beside the verifier.
                    CreateHow::Exclusive(verifier) | CreateHow::ExclusiveWith(verifier, _) => {
                        createhow3::EXCLUSIVE(createverf3(verifier.to_be_bytes()))
                    }
                };
                Call::new(P::NFSPROC3_CREATE, &CREATE3args { where_: name_in(&dir.handle, name), how })
            }
            Self::Mkdir { dir, name } => {
                let attributes = attributes_of(&mode(0o755));
                Call::new(P::NFSPROC3_MKDIR, &MKDIR3args { where_: name_in(&dir.handle, name), attributes })
            }
            Self::Symlink { dir, name, length } => {
                let symlink = symlinkdata3 {
                    symlink_attributes: attributes_of(&mode(0o777)),
                    symlink_data: vec![b'x'; *length].into(),
                };
                Call::new(P::NFSPROC3_SYMLINK, &SYMLINK3args { where_: name_in(&dir.handle, name), symlink })
            }
            Self::Mknod { dir, name, node } => {
                let set = attributes_of(&mode(0o600));
                let device = |major, minor, set| devicedata3 {
                    dev_attributes: set,
                    spec: specdata3 { specdata1: major, specdata2: minor },
                };
                let what = match node {
                    NodeKind::Fifo => mknoddata3::NF3FIFO(set),
                    NodeKind::Socket => mknoddata3::NF3SOCK(set),
                    NodeKind::BlockDevice(major, minor) => mknoddata3::NF3BLK(device(*major, *minor, set)),
                    NodeKind::CharDevice(major, minor) => mknoddata3::NF3CHR(device(*major, *minor, set)),
                };
                Call::new(P::NFSPROC3_MKNOD, &MKNOD3args { where_: name_in(&dir.handle, name), what })
            }
            Self::Remove { dir, name } => {
                Call::new(P::NFSPROC3_REMOVE, &REMOVE3args { object: name_in(&dir.handle, name) })
            }
            Self::Rmdir { dir, name } => {
                Call::new(P::NFSPROC3_RMDIR, &RMDIR3args { object: name_in(&dir.handle, name) })
            }
            Self::Rename { from_dir, from, to_dir, to } => {
                let (from, to) = (name_in(&from_dir.handle, from), name_in(&to_dir.handle, to));
                Call::new(P::NFSPROC3_RENAME, &RENAME3args { from, to })
            }
            Self::Link { object, dir, name } => {
                let link = name_in(&dir.handle, name);
                Call::new(P::NFSPROC3_LINK, &LINK3args { file: handle(&object.handle), link })
            }
            Self::SetAttr { object, set } => {
                let (object, new_attributes) = (handle(&object.handle), attributes_of(set));
                Call::new(P::NFSPROC3_SETATTR, &SETATTR3args { object, new_attributes, guard: Nfs3Option::None })
            }
            Self::Write { object, offset, length, stability, .. } => {
                let stable = match stability {
                    Stability::Unstable => stable_how::UNSTABLE,
                    Stability::DataSync => stable_how::DATA_SYNC,
                    Stability::FileSync => stable_how::FILE_SYNC,
                };
                let data = Opaque::owned(self.data().to_vec());
                let file = handle(&object.handle);
                Call::new(P::NFSPROC3_WRITE, &WRITE3args { file, offset: *offset, count: *length as u32, stable, data })
            }
            Self::Commit { object, offset, count } => {
                let file = handle(&object.handle);
                Call::new(P::NFSPROC3_COMMIT, &COMMIT3args { file, offset: *offset, count: *count })
            }
            Self::Allocate { .. } | Self::Deallocate { .. } => panic!("{self:?} is of version 4.2"),
        }
    }

    /// What a WRITE writes: zeroes, one byte over and over, or noise.
    #[must_use]
    pub fn data(&self) -> Bytes {
        let Self::Write { length, fill, .. } = self else { return Bytes::new() };
        match fill % 6 {
            0 => vec![0; *length as usize].into(),
            1 | 2 => vec![(fill >> 8) as u8 | 1; *length as usize].into(),
            _ => {
                let mut chance = Chance::new(*fill, 1);
                let mut bytes = Vec::with_capacity(*length as usize + 8);
                while bytes.len() < *length as usize {
                    bytes.extend_from_slice(&chance.next().to_le_bytes());
                }
                bytes.truncate(*length as usize);
                bytes.into()
            }
        }
    }

    /// Carries it out on a model, for this user.
    #[must_use]
    pub fn run_on(&self, model: &Model, cred: &Cred) -> Expected {
        let ctx = OpCtx::of(cred);
        let name = |name: &'static str| name.as_bytes();
        match self {
            Self::Create { dir, name: of, how } => made(model.create(ctx, dir.model, name(of), how)),
            Self::Mkdir { dir, name: of } => made(model.mkdir(ctx, dir.model, name(of), &mode(0o755))),
            Self::Symlink { dir, name: of, length } => {
                made(model.symlink(ctx, dir.model, name(of), &vec![b'x'; *length], &mode(0o777)))
            }
            Self::Mknod { dir, name: of, node } => made(model.mknod(ctx, dir.model, name(of), *node, &mode(0o600))),
            Self::Link { object, dir, name: of } => made(model.link(ctx, object.model, dir.model, name(of))),
            Self::Remove { dir, name: of } => nothing(model.remove(ctx, dir.model, name(of)), |()| Answer::Done),
            Self::Rmdir { dir, name: of } => nothing(model.rmdir(ctx, dir.model, name(of)), |()| Answer::Done),
            Self::Rename { from_dir, from, to_dir, to } => {
                nothing(model.rename(ctx, from_dir.model, name(from), to_dir.model, name(to)), |()| Answer::Done)
            }
            Self::SetAttr { object, set } => about(model.setattr(ctx, object.model, set, None), |()| Answer::Done),
            Self::Write { object, offset, stability, .. } => {
                let outcome = model.write(ctx, object.model, *offset, self.data(), *stability);
                about(outcome, |written| Answer::Written(written.count))
            }
            Self::Commit { object, offset, count } => {
                about(model.commit(ctx, object.model, *offset, *count), |_| Answer::Done)
            }
            Self::Allocate { object, offset, length } => {
                about(model.allocate(ctx, object.model, *offset, *length), |()| Answer::Done)
            }
            Self::Deallocate { object, offset, length } => {
                about(model.deallocate(ctx, object.model, *offset, *length), |()| Answer::Done)
            }
        }
    }
}

fn made(outcome: Outcome<Attr>) -> Expected {
    let attr = outcome.result.as_ref().ok().cloned();
    Expected { result: outcome.result.map(Answer::Made), attr }
}

fn nothing<T>(outcome: Outcome<T>, to: impl FnOnce(T) -> Answer) -> Expected {
    Expected { result: outcome.result.map(to), attr: None }
}

fn about<T>(outcome: Outcome<T>, to: impl FnOnce(T) -> Answer) -> Expected {
    let after = |change: &Change| change.after.clone();
    Expected { attr: outcome.changes.first().and_then(after), result: outcome.result.map(to) }
}

fn mode(mode: u32) -> SetAttr {
    SetAttr { mode: Some(mode), ..SetAttr::default() }
}

fn attributes_of(set: &SetAttr) -> sattr3 {
    let option = |value: Option<u32>| value.map_or(Nfs3Option::None, Nfs3Option::Some);
    let time = |time: FileTime| nfstime3 { seconds: time.seconds() as u32, nseconds: time.subsec_nanos() };
    sattr3 {
        mode: option(set.mode),
        uid: option(set.uid),
        gid: option(set.gid),
        size: set.size.map_or(Nfs3Option::None, Nfs3Option::Some),
        atime: match set.atime {
            None => set_atime::DONT_CHANGE,
            Some(SetTime::Server) => set_atime::SET_TO_SERVER_TIME,
            Some(SetTime::Client(at) | SetTime::Kept(at)) => set_atime::SET_TO_CLIENT_TIME(time(at)),
        },
        mtime: match set.mtime {
            None => set_mtime::DONT_CHANGE,
            Some(SetTime::Server) => set_mtime::SET_TO_SERVER_TIME,
            Some(SetTime::Client(at) | SetTime::Kept(at)) => set_mtime::SET_TO_CLIENT_TIME(time(at)),
        },
    }
}
