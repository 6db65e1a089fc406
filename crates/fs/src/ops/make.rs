//! CREATE, MKDIR, SYMLINK, MKNOD: a new name for a new object.

use bytes::Bytes;
use smallvec::smallvec;
use tally_base::{ObjectId, Time};
use tally_claims::Act;
use tally_store::dataset::OBJECT_CHARGE;
use tally_store::pool::SpaceClass;
use tally_vfs::permission::{self, EXECUTE, WRITE};
use tally_vfs::{
    Attr, CreateHow, FileKind, FsError, LINK_MAX, NodeKind, ObjectRef, OpCtx, Opened, Opening, Outcome, SYMLINK_MAX,
    SetAttr, entry_charge,
};

use super::open::check_may_open;
use super::setattr::{apply_times, resize, strip_privileges};
use super::{after, change, check_name, failed, is_dots, remember, unchanged};
use crate::admission::Ask;
use crate::cost::FoldCost;
use crate::filesystem::Filesystem;
use crate::inode::{DOT_ENTRIES, Inode, Layout};
use crate::object::Locked;
use crate::record::{Record, RecordKind, SizeRule};

/// The largest block that a file may have.
const BLOCK_BYTES_MAX: u64 = 1 << 20;

/// What is to be made.
struct Plan<'a> {
    record_kind: RecordKind,
    kind: FileKind,
    set: &'a SetAttr,
    target: &'a [u8],
    rdev: (u32, u32),
    verifier: Option<u64>,
    /// Mode where the client gives none: nobody's, but for links, which have no use for one.
    mode: u32,
    /// Whether a dataset will be mounted on it: from the moment it is there nobody else takes it away.
    covered: bool,
    /// Who has it open when it is there.
    opening: Option<Opening<'a>>,
}

impl<'a> Plan<'a> {
    fn new(record_kind: RecordKind, kind: FileKind, set: &'a SetAttr) -> Self {
        Self {
            record_kind,
            kind,
            set,
            target: &[],
            rdev: (0, 0),
            verifier: None,
            mode: 0,
            covered: false,
            opening: None,
        }
    }
}

impl Filesystem {
    pub(crate) fn create(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], how: &CreateHow) -> Outcome<Attr> {
        self.make_file(ctx, dir, name, how, None).map(|made| made.attr)
    }

    /// A file that is made, or there already, and opened.
    pub(super) fn make_open(
        &self,
        ctx: OpCtx<'_>,
        dir: ObjectRef,
        name: &[u8],
        how: &CreateHow,
        opening: Opening<'_>,
    ) -> Outcome<Opened> {
        self.make_file(ctx, dir, name, how, Some(opening))
    }

    fn make_file(
        &self,
        ctx: OpCtx<'_>,
        dir: ObjectRef,
        name: &[u8],
        how: &CreateHow,
        opening: Option<Opening<'_>>,
    ) -> Outcome<Opened> {
        let none = SetAttr::default();
        let (set, verifier) = match how {
            CreateHow::Unchecked(set) | CreateHow::Guarded(set) => (set, None),
            CreateHow::Exclusive(verifier) => (&none, Some(*verifier)),
            CreateHow::ExclusiveWith(verifier, set) => (set, Some(*verifier)),
        };
        let plan = Plan { verifier, opening, ..Plan::new(RecordKind::Create, FileKind::File, set) };
        self.make_or_find(ctx, dir, name, &plan, Some(how))
    }

    fn make(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], plan: &Plan<'_>) -> Outcome<Attr> {
        self.make_or_find(ctx, dir, name, plan, None).map(|made| made.attr)
    }

    pub(crate) fn mkdir(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], set: &SetAttr) -> Outcome<Attr> {
        let plan = Plan::new(RecordKind::Mkdir, FileKind::Directory, set);
        self.make(ctx, dir, name, &plan)
    }

    /// Makes a directory in the root for a dataset to be mounted on.
    pub(crate) fn make_covered_directory(&self, ctx: OpCtx<'_>, name: &[u8]) -> Outcome<Attr> {
        let set = SetAttr { mode: Some(0o755), ..SetAttr::default() };
        let plan = Plan { covered: true, ..Plan::new(RecordKind::Mkdir, FileKind::Directory, &set) };
        self.make(ctx, self.root(), name, &plan)
    }

    pub(crate) fn symlink(
        &self,
        ctx: OpCtx<'_>,
        dir: ObjectRef,
        name: &[u8],
        target: &[u8],
        set: &SetAttr,
    ) -> Outcome<Attr> {
        if target.len() > SYMLINK_MAX {
            return failed(FsError::NameTooLong);
        }
        if target.is_empty() || target.contains(&0) {
            return failed(FsError::Invalid);
        }
        let plan = Plan { target, mode: 0o777, ..Plan::new(RecordKind::Symlink, FileKind::Symlink, set) };
        self.make(ctx, dir, name, &plan)
    }

    pub(crate) fn mknod(
        &self,
        ctx: OpCtx<'_>,
        dir: ObjectRef,
        name: &[u8],
        node: NodeKind,
        set: &SetAttr,
    ) -> Outcome<Attr> {
        let (kind, rdev) = match node {
            NodeKind::Fifo => (FileKind::Fifo, (0, 0)),
            NodeKind::Socket => (FileKind::Socket, (0, 0)),
            NodeKind::BlockDevice(major, minor) => (FileKind::BlockDevice, (major, minor)),
            NodeKind::CharDevice(major, minor) => (FileKind::CharDevice, (major, minor)),
        };
        if matches!(kind, FileKind::BlockDevice | FileKind::CharDevice) && !permission::passes(ctx.cred) {
            return failed(FsError::NotOwner);
        }
        let plan = Plan { rdev, ..Plan::new(RecordKind::Mknod, kind, set) };
        self.make(ctx, dir, name, &plan)
    }

    fn make_or_find(
        &self,
        ctx: OpCtx<'_>,
        dir: ObjectRef,
        name: &[u8],
        plan: &Plan<'_>,
        how: Option<&CreateHow>,
    ) -> Outcome<Opened> {
        if let Err(error) = check_name(name) {
            return failed(error);
        }
        // A file that is there already may be cut within a block, which the fold writes anew.
        let cut = if plan.set.size.is_some_and(|size| size > 0) { BLOCK_BYTES_MAX } else { 0 };
        let cut = FoldCost { bytes: cut, known_bytes: 0, patch_bytes: cut as i64 };
        loop {
            // Before anything is looked for: where the pool takes no changes, that is what is told.
            if let Err(refusal) = self.check_takes_changes() {
                return refusal.outcome();
            }
            let growth_bytes = match self.growth_of_make(dir, name, plan) {
                Ok(growth_bytes) => growth_bytes,
                Err(error) => return self.failed_after_look(&[dir.id], error),
            };
            let admitted = match self.admit(&Ask::metadata(SpaceClass::Write).folding(cut).growing(growth_bytes)) {
                Ok(admitted) => admitted,
                Err(refusal) => return refusal.outcome(),
            };
            let seen = match if is_dots(name) { Ok(None) } else { self.peek(dir, name) } {
                Ok(seen) => seen,
                Err(error) => return self.failed_after_look(&[dir.id], error),
            };
            let existing = seen.map(|found| found.object);
            let mut locked = match self.lock(&[dir.id, existing.unwrap_or(dir.id)]) {
                Ok(locked) => locked,
                Err(error) => return failed(error),
            };
            let parent = match self.sight(dir.id, locked.state(dir.id)).live_directory(dir) {
                Ok(parent) => parent,
                Err(error) => return self.refused_in(&locked, dir, None, error),
            };
            let granted = permission::granted(&parent.attr(dir.id), ctx.cred);
            if granted & EXECUTE == 0 {
                return self.refused_in(&locked, dir, Some(&parent), FsError::Access);
            }
            if is_dots(name) {
                return self.refused_in(&locked, dir, Some(&parent), FsError::Exists);
            }
            match self.sight(dir.id, locked.state(dir.id)).find(name) {
                Ok(found) if found == seen => {}
                Ok(_) => continue,
                Err(error) => return self.refused_in(&locked, dir, Some(&parent), error),
            }
            if let Some(existing) = existing {
                return self.make_over(ctx, admitted, locked, (dir, &parent), existing, (how, plan.opening));
            }
            if growth_bytes == 0 {
                // The name went behind the look, so something would be made that no quota has been asked for.
                continue;
            }
            if granted & WRITE == 0 {
                return self.refused_in(&locked, dir, Some(&parent), FsError::Access);
            }
            if plan.kind == FileKind::Directory && parent.nlink >= LINK_MAX {
                return self.refused_in(&locked, dir, Some(&parent), FsError::TooManyLinks);
            }
            let now = self.now();
            let mut inode = match self.new_inode(ctx, dir, &parent, plan, now) {
                Ok(inode) => inode,
                Err(error) => return self.refused_in(&locked, dir, Some(&parent), error),
            };
            let (id, entry) = (self.draw_id(), self.draw_id());
            // Nobody knows of it yet, so only a bound can be in the way.
            let object = ObjectRef { id, generation: inode.generation };
            let holder = match plan.opening.map(|opening| self.claim(object, opening)).transpose() {
                Ok(holder) => holder,
                Err(error) => return self.refused_in(&locked, dir, Some(&parent), error),
            };
            inode.gain_name(dir.id, entry);
            if plan.covered {
                self.mountpoints.write().insert(id);
            }
            locked.add_new(&self.objects, id);
            let mut record = Record::default();
            self.put_entry(&mut record, dir.id, entry, name, id, plan.kind);
            let mut parent_after = parent.clone();
            parent_after.modify(now);
            parent_after.gain_entry(name, plan.kind == FileKind::Directory);
            let attr = inode.attr(id);
            record.inodes =
                smallvec![after(dir.id, &parent_after, SizeRule::Exact), after(id, &inode, SizeRule::Exact)];
            remember(&mut record, ctx, Some(attr.object));
            let wait = self.carry_out(admitted, &mut locked, plan.record_kind, record);
            let delegated = self.delegate(&locked, (&attr, ctx.cred), holder, plan.opening);
            let made = Opened { attr, is_new: true, delegated };
            return Outcome { result: Ok(made), changes: smallvec![change(dir.id, &parent, &parent_after)], wait };
        }
    }

    /// By how much it may make the dataset grow: not at all where the name is taken, since then nothing is made. Where that
    /// cannot be seen, no quota is to blame.
    fn growth_of_make(&self, dir: ObjectRef, name: &[u8], plan: &Plan<'_>) -> Result<u64, FsError> {
        // Nobody asks without a quota.
        if self.has_quota() && !is_dots(name) && self.peek(dir, name)?.is_some() {
            return Ok(0);
        }
        Ok(OBJECT_CHARGE + entry_charge(name) + plan.target.len() as u64)
    }

    /// The name is taken: what that means depends on how the client asked.
    fn make_over(
        &self,
        ctx: OpCtx<'_>,
        admitted: crate::admission::Admitted,
        mut locked: Locked,
        (dir, parent): (ObjectRef, &Inode),
        existing: ObjectId,
        (how, opening): (Option<&CreateHow>, Option<Opening<'_>>),
    ) -> Outcome<Opened> {
        let Some(inode) = locked.state(existing).inode.clone() else {
            return self.refused_in(&locked, dir, Some(parent), FsError::Io);
        };
        let accepted = match how {
            // What else may be there that cannot be opened is told apart.
            Some(CreateHow::Unchecked(_)) => inode.kind == FileKind::File || opening.is_some(),
            Some(CreateHow::Exclusive(verifier) | CreateHow::ExclusiveWith(verifier, _)) => {
                inode.create_verifier == Some(*verifier)
            }
            _ => false,
        };
        if !accepted {
            return self.refused_in(&locked, dir, Some(parent), FsError::Exists);
        }
        let attr = inode.attr(existing);
        // Who made it exclusively had it open whatever its mode said, and is told so again. A verifier is a number that others may guess.
        let is_his = !matches!(how, Some(CreateHow::Unchecked(_))) && permission::owns(&attr, ctx.cred);
        if let Some(opening) = opening.filter(|_| !is_his)
            && let Err(error) = check_may_open(&attr, ctx.cred, opening.share.access)
        {
            return self.refused_in(&locked, dir, Some(parent), error);
        }
        let new_size = match how {
            Some(CreateHow::Unchecked(set)) if opening.is_some() => {
                set.size.filter(|size| *size == 0 && inode.size > 0)
            }
            Some(CreateHow::Unchecked(set)) => set.size.filter(|size| *size != inode.size),
            _ => None,
        };
        let Some(size) = new_size else {
            // It is as long as it is to be, unless who has it for writing knows better.
            if opening.is_none()
                && matches!(how, Some(CreateHow::Unchecked(set)) if set.size.is_some())
                && let Err(error) = self.gate(attr.object, ctx.actor(), Act::Reads)
            {
                return self.refused_in(&locked, dir, Some(parent), error);
            }
            let holder = match opening.map(|opening| self.claim(attr.object, opening)).transpose() {
                Ok(holder) => holder,
                Err(error) => return self.refused_in(&locked, dir, Some(parent), error),
            };
            let delegated = self.delegate(&locked, (&attr, ctx.cred), holder, opening);
            let wait = self.wait_for_seen(&locked);
            let found = Opened { attr, is_new: false, delegated };
            return Outcome { result: Ok(found), changes: smallvec![unchanged(dir.id, parent)], wait };
        };
        let (mut resized, now) = (inode, self.now());
        let may = permission::may(&attr, ctx.cred, WRITE).then_some(()).ok_or(FsError::Access);
        let planned = resize(&mut resized, size, may, now).and_then(|()| match opening {
            Some(opening) => self.claim_to_cut(attr.object, opening).map(Some),
            None => self.gate(attr.object, ctx.actor(), Act::Changes).map(|()| None),
        });
        let holder = match planned {
            Ok(holder) => holder,
            Err(error) => return self.refused_in(&locked, dir, Some(parent), error),
        };
        strip_privileges(&mut resized, ctx.cred);
        resized.touch(now);
        // It is a SETATTR by another name, and ends what an EXCLUSIVE create may still be asked again (rules F23).
        resized.create_verifier = None;
        let mut record = Record { truncate: Some((existing, size)), ..Record::default() };
        record.inodes.push(after(existing, &resized, SizeRule::Exact));
        remember(&mut record, ctx, Some(attr.object));
        let wait = self.carry_out(admitted, &mut locked, RecordKind::Truncate, record);
        let delegated = self.delegate(&locked, (&attr, ctx.cred), holder, opening);
        let cut = Opened { attr: resized.attr(existing), is_new: false, delegated };
        Outcome { result: Ok(cut), changes: smallvec![unchanged(dir.id, parent)], wait }
    }

    fn new_inode(
        &self,
        ctx: OpCtx<'_>,
        dir: ObjectRef,
        parent: &Inode,
        plan: &Plan<'_>,
        now: Time,
    ) -> Result<Inode, FsError> {
        let directory = plan.kind == FileKind::Directory;
        let asked = plan.set.mode.filter(|_| plan.kind != FileKind::Symlink);
        let mode = asked.unwrap_or(plan.mode);
        let (gid, mode) = permission::inherit(&parent.attr(dir.id), ctx.cred, plan.kind, mode);
        let mut inode = Inode {
            kind: plan.kind,
            mode,
            nlink: if directory { 2 } else { 1 },
            uid: ctx.cred.uid,
            gid,
            size: if directory { DOT_ENTRIES } else { plan.target.len() as u64 },
            used: plan.target.len() as u64,
            rdev: plan.rdev,
            atime: now.into(),
            mtime: now.into(),
            ctime: now,
            change: now,
            generation: self.draw_generation(),
            parent: ObjectId(0),
            entry: ObjectId(0),
            birth: now,
            layout: Layout::Small,
            record_shift: self.dataset.effective().recordsize.ilog2() as u8,
            create_verifier: plan.verifier,
            target: Bytes::copy_from_slice(plan.target),
            cuts: None,
            reserved: None,
            xattrs: Default::default(),
            sections: Bytes::new(),
        };
        (inode.uid, inode.gid) = permission::owners_given(ctx.cred, (inode.uid, inode.gid), plan.set);
        apply_times(&mut inode, plan.set, now);
        if let Some(size) = plan.set.size.filter(|_| plan.kind == FileKind::File) {
            if size > tally_vfs::FILE_SIZE_MAX {
                return Err(FsError::TooBig);
            }
            inode.size = size;
        }
        Ok(inode)
    }
}
