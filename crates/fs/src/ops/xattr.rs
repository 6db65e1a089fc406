//! SETXATTR, REMOVEXATTR: an attribute is set, and goes, as a whole, with the inode above it, in one record. What they are is [`crate::xattr`].

use smallvec::{SmallVec, smallvec};
use tally_base::ObjectId;
use tally_claims::Act;
use tally_store::key::Key;
use tally_store::pool::SpaceClass;
use tally_vfs::permission::{self, WRITE};
use tally_vfs::{
    FileKind, FsError, ObjectRef, OpCtx, Outcome, SetXattr, XATTR_VALUE_MAX, check_xattr_name, xattr_charge,
};

use super::{after, change, failed, remember, unchanged};
use crate::admission::Ask;
use crate::cost::FoldCost;
use crate::filesystem::Filesystem;
use crate::inode::Inode;
use crate::object::Locked;
use crate::record::{RECORD_OVERHEAD_MAX, Record, RecordKind, SizeRule};
use crate::xattr;

/// Leaves around a part that the fold may write anew. One that holds a long part may hold a second one.
const AROUND_PART_BYTES: u64 = 2 * (16 << 10);

impl Filesystem {
    pub(crate) fn set_xattr(
        &self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Outcome<()> {
        // Whoever may not is told so under the lock, and has asked for no more than who may.
        let value_bytes = value.len().min(XATTR_VALUE_MAX);
        let data_bytes = value_bytes as u64;
        let fold_bytes = xattr::parts_of(value_bytes) * AROUND_PART_BYTES + 2 * data_bytes;
        let fold = FoldCost { bytes: fold_bytes, ..FoldCost::default() };
        let growth_bytes = self.xattr_growth(object, name, value_bytes);
        let ask = Ask { data_bytes, ..Ask::metadata(SpaceClass::Write).folding(fold).growing(growth_bytes) };
        let plan = |locked: &Locked, before: &Inode| self.with_xattr(locked, before, object.id, (name, value), how);
        self.change_xattr(ctx, object, (name, WRITE), (RecordKind::SetXattr, ask), plan)
    }

    pub(crate) fn remove_xattr(&self, ctx: OpCtx<'_>, object: ObjectRef, name: &[u8]) -> Outcome<()> {
        let ask = Ask::metadata(SpaceClass::Remove);
        let plan = |locked: &Locked, before: &Inode| self.without_xattr(locked, before, object.id, name);
        self.change_xattr(ctx, object, (name, WRITE), (RecordKind::RemoveXattr, ask), plan)
    }

    /// What both have in common: `plan` gives the account and the keys as they are to be.
    fn change_xattr(
        &self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        (name, wanted): (&[u8], u32),
        (kind, mut ask): (RecordKind, Ask),
        plan: impl FnOnce(&Locked, &Inode) -> Result<Planned, FsError>,
    ) -> Outcome<()> {
        // A ring has a mebibyte at least, and its frames an eighth of that: the longest is shorter.
        ask.records = smallvec![RECORD_OVERHEAD_MAX + ask.data_bytes as usize];
        let admitted = match self.admit(&ask) {
            Ok(admitted) => admitted,
            Err(refusal) => return refusal.outcome(),
        };
        let mut locked = match self.lock(&[object.id]) {
            Ok(locked) => locked,
            Err(error) => return failed(error),
        };
        let before = match self.sight(object.id, locked.state(object.id)).live(object) {
            Ok(inode) => inode,
            Err(error) => return self.refused(&locked, smallvec![], error),
        };
        let planned = permission::may_xattr(&before.attr(object.id), ctx.cred, wanted)
            .and_then(|()| check_xattr_name(name))
            .and_then(|()| plan(&locked, &before))
            .and_then(|planned| self.gate(object, ctx.actor(), Act::Changes).map(|()| planned));
        let Planned { account, keys } = match planned {
            Ok(planned) => planned,
            Err(error) => return self.refused(&locked, smallvec![unchanged(object.id, &before)], error),
        };
        let mut inode = before.clone();
        inode.xattrs = account;
        inode.touch(self.now());
        let rule = if inode.kind == FileKind::File { SizeRule::Keep } else { SizeRule::Exact };
        let mut record = Record { inodes: smallvec![after(object.id, &inode, rule)], keys, ..Record::default() };
        remember(&mut record, ctx, Some(object));
        let wait = self.carry_out(admitted, &mut locked, kind, record);
        Outcome { result: Ok(()), changes: smallvec![change(object.id, &before, &inode)], wait }
    }

    /// By how much the dataset may grow. Nobody asks without a quota.
    fn xattr_growth(&self, object: ObjectRef, name: &[u8], value_bytes: usize) -> u64 {
        if !self.has_quota() {
            return 0;
        }
        let had = self.see(object.id, |sight| {
            let found = sight.xattr(&sight.live(object)?, name)?;
            Ok::<_, FsError>(found.map_or(0, |found| found.first.charge()))
        });
        xattr_charge(name, value_bytes).saturating_sub(had.unwrap_or_default()).into()
    }

    fn with_xattr(
        &self,
        locked: &Locked,
        before: &Inode,
        id: ObjectId,
        (name, value): (&[u8], &[u8]),
        how: SetXattr,
    ) -> Result<Planned, FsError> {
        if value.len() > XATTR_VALUE_MAX {
            return Err(FsError::XattrTooBig);
        }
        let found = self.sight(id, locked.state(id)).xattr(before, name)?;
        let is_there = found.as_ref().is_some_and(|found| found.first.name == name);
        how.check(is_there)?;
        let account = found.as_ref().map_or(before.xattrs, |found| before.xattrs.without(found.first.charge()));
        let account = account.and(xattr_charge(name, value.len()));
        // Another name has its hash, or there are too many.
        if found.is_some() && !is_there || !account.is_possible() {
            return Err(FsError::NoSpace);
        }
        let parts = xattr::parts(name, value);
        let (count, had) = (parts.len() as u64, found.map_or(0, |found| found.first.parts()));
        let key = |part| xattr::key(self.dataset.birth.name_key, id, name, part);
        let set = parts.into_iter().zip(0..).map(|(value, part)| (key(part), Some(value)));
        let keys = set.chain((count..had).map(|part| (key(part), None))).collect();
        Ok(Planned { account, keys })
    }

    fn without_xattr(&self, locked: &Locked, before: &Inode, id: ObjectId, name: &[u8]) -> Result<Planned, FsError> {
        let found = self.sight(id, locked.state(id)).xattr(before, name)?;
        let found = found.filter(|found| found.first.name == name).ok_or(FsError::NoXattr)?;
        let key = |part| xattr::key(self.dataset.birth.name_key, id, name, part);
        let keys = (0..found.first.parts()).map(|part| (key(part), None)).collect();
        Ok(Planned { account: before.xattrs.without(found.first.charge()), keys })
    }
}

/// What an object has afterwards, and which keys change for that.
struct Planned {
    account: xattr::XattrAccount,
    keys: SmallVec<[(Key, Option<bytes::Bytes>); 2]>,
}
