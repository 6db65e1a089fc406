//! The model's inodes, and the checks that every operation begins with.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tally_base::{Clock, Generation, ObjectId, Rng, Time};

use super::ModelOptions;
use super::content::Content;
use super::delegations::Given;
use super::locks::Held;
use super::opens::Open;
use super::xattrs::Xattrs;
use crate::names::{FIRST_ID, entry_charge};
use crate::permission::{self, EXECUTE, WRITE};
use crate::{Attr, Cred, FileKind, FsError, FsStat, Gives, NAME_MAX, ObjectRef};

/// What an unlimited model claims to have.
pub(super) const SPACE_BYTES: u64 = 1 << 40;
const OBJECTS_MAX: u64 = 1 << 32;

#[derive(Clone)]
pub(super) struct State {
    pub(super) read_only: bool,
    /// Whether clients may be given files to keep.
    pub(super) gives: Gives,
    pub(super) verifier: u64,
    pub(super) quota_bytes: Option<u64>,
    pub(super) inodes: BTreeMap<ObjectId, Inode>,
    pub(super) opens: Vec<Open>,
    pub(super) locked: Vec<Held>,
    pub(super) given: Vec<Given>,
    next_id: u64,
    last_time: Time,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
}

#[derive(Clone)]
pub(super) struct Inode {
    pub(super) attr: Attr,
    pub(super) body: Body,
    /// Verifier of an exclusive create, until the first SETATTR.
    pub(super) create_verifier: Option<u64>,
    pub(super) xattrs: Xattrs,
}

#[derive(Clone)]
pub(super) enum Body {
    Content(Content),
    Directory(Directory),
    Target(Bytes),
    Node,
}

#[derive(Clone)]
pub(super) struct Directory {
    pub(super) parent: ObjectId,
    pub(super) by_name: BTreeMap<Vec<u8>, u64>,
    pub(super) entries: BTreeMap<u64, (Vec<u8>, ObjectId)>,
}

impl Directory {
    pub(super) fn new(parent: ObjectId) -> Self {
        Self { parent, by_name: BTreeMap::new(), entries: BTreeMap::new() }
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<ObjectId> {
        self.entries.get(self.by_name.get(name)?).map(|(_, object)| *object)
    }

    pub(super) fn insert(&mut self, entry: u64, name: &[u8], object: ObjectId) {
        self.by_name.insert(name.to_vec(), entry);
        self.entries.insert(entry, (name.to_vec(), object));
    }

    pub(super) fn take(&mut self, name: &[u8]) {
        if let Some(entry) = self.by_name.remove(name) {
            self.entries.remove(&entry);
        }
    }
}

impl State {
    pub(super) fn new(options: &ModelOptions) -> (Self, ObjectRef) {
        let mut state = Self {
            read_only: options.read_only,
            gives: Gives::Yes,
            verifier: options.rng.next_u64(),
            quota_bytes: options.quota_bytes,
            inodes: BTreeMap::new(),
            opens: Vec::new(),
            locked: Vec::new(),
            given: Vec::new(),
            next_id: FIRST_ID,
            last_time: Time(0),
            clock: options.clock.clone(),
            rng: options.rng.clone(),
        };
        let id = ObjectId(state.draw_id());
        let (uid, gid) = options.root_owner;
        let body = Body::Directory(Directory::new(id));
        let root = state.insert(id, FileKind::Directory, options.root_mode, (uid, gid), (0, 0), body).object;
        (state, root)
    }

    /// The next object or entry id; never given twice.
    pub(super) fn draw_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Server time: never the same twice, never back.
    pub(super) fn issue_time(&mut self) -> Time {
        self.last_time = self.clock.now().max(Time(self.last_time.0 + 1));
        self.last_time
    }

    pub(super) fn insert(
        &mut self,
        id: ObjectId,
        kind: FileKind,
        mode: u32,
        (uid, gid): (u32, u32),
        rdev: (u32, u32),
        body: Body,
    ) -> Attr {
        let now = self.issue_time();
        let object = ObjectRef { id, generation: Generation(self.rng.next_u64()) };
        let size = match &body {
            Body::Target(target) => target.len() as u64,
            _ => 0,
        };
        let nlink = if kind == FileKind::Directory { 2 } else { 1 };
        let attr = Attr {
            object,
            kind,
            mode: mode & 0o7777,
            nlink,
            uid,
            gid,
            size,
            used: size,
            rdev,
            atime: now.into(),
            mtime: now.into(),
            ctime: now,
            change: now,
        };
        self.inodes.insert(id, Inode { attr: attr.clone(), body, create_verifier: None, xattrs: Xattrs::default() });
        attr
    }

    pub(super) fn inode(&self, object: ObjectRef) -> Result<&Inode, FsError> {
        self.inodes.get(&object.id).filter(|inode| inode.attr.object == object).ok_or(FsError::Stale)
    }

    /// An object that an entry names: there, as long as the model is consistent.
    pub(super) fn named(&mut self, id: ObjectId) -> &mut Inode {
        self.inodes.get_mut(&id).expect("an entry names an inode")
    }

    pub(super) fn numbered(&self, id: ObjectId) -> Result<ObjectRef, FsError> {
        self.inodes.get(&id).map(|inode| inode.attr.object).ok_or(FsError::Stale)
    }

    pub(super) fn attr(&self, object: ObjectRef) -> Result<Attr, FsError> {
        self.inode(object).map(|inode| inode.attr.clone())
    }

    pub(super) fn directory(&self, dir: ObjectRef) -> Result<(&Attr, &Directory), FsError> {
        let inode = self.inode(dir)?;
        match &inode.body {
            Body::Directory(directory) => Ok((&inode.attr, directory)),
            _ => Err(FsError::NotDirectory),
        }
    }

    pub(super) fn directory_mut(&mut self, id: ObjectId) -> &mut Directory {
        match &mut self.named(id).body {
            Body::Directory(directory) => directory,
            _ => unreachable!("checked to be a directory before"),
        }
    }

    /// Puts an entry into a directory, which is charged for it.
    pub(super) fn enter(&mut self, dir: ObjectId, entry: u64, name: &[u8], object: ObjectId) {
        self.directory_mut(dir).insert(entry, name, object);
        self.named(dir).attr.used += entry_charge(name);
    }

    /// Takes an entry out of a directory.
    pub(super) fn leave(&mut self, dir: ObjectId, name: &[u8]) {
        self.directory_mut(dir).take(name);
        self.named(dir).attr.used -= entry_charge(name);
    }

    /// Checks that `cred` may add or remove names in `dir`.
    pub(super) fn may_change_dir(&self, cred: &Cred, dir: ObjectRef) -> Result<Attr, FsError> {
        let (attr, _) = self.directory(dir)?;
        if permission::may(attr, cred, WRITE | EXECUTE) { Ok(attr.clone()) } else { Err(FsError::Access) }
    }

    /// Marks an object's content as changed now.
    pub(super) fn touch_content(&mut self, id: ObjectId, now: Time) {
        let attr = &mut self.named(id).attr;
        attr.mtime = now.into();
        attr.ctime = now;
        attr.change = now;
    }

    /// Marks an object's attributes as changed now.
    pub(super) fn touch(&mut self, id: ObjectId, now: Time) {
        let attr = &mut self.named(id).attr;
        attr.ctime = now;
        attr.change = now;
    }

    pub(super) fn used_bytes(&self) -> u64 {
        let files = self.inodes.values().filter(|inode| inode.attr.kind == FileKind::File);
        files.map(|inode| inode.attr.used).sum()
    }

    /// The same with what is reserved of files beside.
    pub(super) fn charged_bytes(&self) -> u64 {
        let reserved = self.inodes.values().filter_map(|inode| match &inode.body {
            Body::Content(content) => Some(content.reserved_bytes()),
            _ => None,
        });
        reserved.fold(self.used_bytes(), u64::saturating_add)
    }

    pub(super) fn statfs(&self) -> FsStat {
        let total_bytes = self.quota_bytes.unwrap_or(SPACE_BYTES);
        let free_bytes = total_bytes.saturating_sub(self.charged_bytes());
        let free_files = OBJECTS_MAX.saturating_sub(self.inodes.len() as u64);
        FsStat { total_bytes, free_bytes, available_bytes: free_bytes, total_files: OBJECTS_MAX, free_files }
    }
}

/// Checks a name that is to be made, removed or renamed.
pub(super) fn check_name(name: &[u8], dots: FsError) -> Result<(), FsError> {
    check_bytes(name)?;
    if name == b"." || name == b".." { Err(dots) } else { Ok(()) }
}

/// Checks the bytes of a name.
pub(super) fn check_bytes(name: &[u8]) -> Result<(), FsError> {
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return Err(FsError::Access);
    }
    if name.len() > NAME_MAX { Err(FsError::NameTooLong) } else { Ok(()) }
}
