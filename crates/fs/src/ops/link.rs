//! LINK: another name for a file.

use smallvec::smallvec;
use tally_claims::Act;
use tally_store::pool::SpaceClass;
use tally_vfs::{Attr, FileKind, FsError, LINK_MAX, ObjectRef, OpCtx, Outcome, entry_charge};

use super::{after, change, check_name, failed, is_dots, remember};
use crate::admission::Ask;
use crate::filesystem::Filesystem;
use crate::record::{Record, RecordKind, SizeRule};

impl Filesystem {
    pub(crate) fn link(&self, ctx: OpCtx<'_>, object: ObjectRef, dir: ObjectRef, name: &[u8]) -> Outcome<Attr> {
        if let Err(error) = check_name(name) {
            return failed(error);
        }
        let admitted = match self.admit(&Ask::metadata(SpaceClass::Write).growing(entry_charge(name))) {
            Ok(admitted) => admitted,
            Err(refusal) => return refusal.outcome(),
        };
        let mut locked = match self.lock(&[object.id, dir.id]) {
            Ok(locked) => locked,
            Err(error) => return failed(error),
        };
        let parent = match self.writable_directory(&locked, dir, ctx.cred) {
            Ok(parent) => parent,
            Err((error, parent)) => return self.refused_in(&locked, dir, parent.as_ref(), error),
        };
        let before = match self.sight(object.id, locked.state(object.id)).live(object) {
            Ok(inode) => inode,
            Err(error) => return self.refused_in(&locked, dir, Some(&parent), error),
        };
        let refusal = match self.sight(dir.id, locked.state(dir.id)).find(name) {
            Err(error) => Some(error),
            Ok(Some(_)) => Some(FsError::Exists),
            Ok(None) if is_dots(name) => Some(FsError::Exists),
            Ok(None) if before.kind == FileKind::Directory => Some(FsError::IsDirectory),
            // It has none any more, and gets none.
            Ok(None) if before.is_held() => Some(FsError::NotFound),
            Ok(None) if before.nlink >= LINK_MAX => Some(FsError::TooManyLinks),
            Ok(None) => None,
        };
        if let Err(error) = refusal.map_or_else(|| self.gate(object, ctx.actor(), Act::Changes), Err) {
            return self.refused_in(&locked, dir, Some(&parent), error);
        }
        let now = self.now();
        let mut parent_after = parent.clone();
        parent_after.modify(now);
        parent_after.gain_entry(name, false);
        let mut inode = before;
        let entry = self.draw_id();
        inode.nlink += 1;
        inode.gain_name(dir.id, entry);
        inode.touch(now);
        let rule = if inode.kind == FileKind::File { SizeRule::Keep } else { SizeRule::Exact };
        let mut record = Record::default();
        self.put_entry(&mut record, dir.id, entry, name, object.id, inode.kind);
        record.inodes = smallvec![after(dir.id, &parent_after, SizeRule::Exact), after(object.id, &inode, rule)];
        remember(&mut record, ctx, Some(object));
        let wait = self.carry_out(admitted, &mut locked, RecordKind::Link, record);
        Outcome { result: Ok(inode.attr(object.id)), changes: smallvec![change(dir.id, &parent, &parent_after)], wait }
    }
}
