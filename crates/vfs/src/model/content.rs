//! Content of files: sparse blocks, reads and writes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use tally_base::Time;

use super::state::{Body, SPACE_BYTES, State};
use crate::permission::{self, EXECUTE, READ, WRITE};
use crate::{
    Access, Attr, Cred, FILE_SIZE_MAX, FoundAt, FsError, ObjectRef, OpCtx, ReadOut, Right, Sought, Stability, Written,
};

const BLOCK: u64 = 4096;

/// Blocks that were written; the others are zeroes. Forks of a model share them until one is written to.
#[derive(Clone, Default)]
pub(super) struct Content {
    blocks: BTreeMap<u64, Arc<[u8; BLOCK as usize]>>,
    /// Numbers of those of which each may be written whatever else is: ascending, and no two overlap.
    reserved: Vec<Range<u64>>,
}

impl Content {
    fn read(&self, offset: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        for (number, within, part) in parts(offset, count) {
            if let Some(block) = self.blocks.get(&number) {
                let length = part.len();
                bytes[part].copy_from_slice(&block[within..within + length]);
            }
        }
        bytes
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        for (number, within, part) in parts(offset, data.len()) {
            let block = self.blocks.entry(number).or_insert_with(|| Arc::new([0; BLOCK as usize]));
            Arc::make_mut(block)[within..within + part.len()].copy_from_slice(&data[part]);
        }
    }

    /// Forgets everything from `size` on, so that a later extension shows zeroes.
    pub(super) fn truncate(&mut self, size: u64) {
        self.blocks.split_off(&size.div_ceil(BLOCK));
        self.unreserve(size.div_ceil(BLOCK)..u64::MAX);
        if let Some(block) = self.blocks.get_mut(&(size / BLOCK)) {
            Arc::make_mut(block)[(size % BLOCK) as usize..].fill(0);
        }
    }

    /// Makes zeroes of `range`; a block of which all is in it is one that was never written.
    fn punch(&mut self, range: Range<u64>) {
        let (first, end) = (range.start.div_ceil(BLOCK), range.end / BLOCK);
        self.blocks.retain(|number, _| !(first..end).contains(number));
        self.unreserve(first..end);
        for (number, block) in self.blocks.range_mut(range.start / BLOCK..range.end.div_ceil(BLOCK)) {
            let start = number * BLOCK;
            let [from, to] = [range.start, range.end].map(|at| (at.max(start) - start).min(BLOCK) as usize);
            Arc::make_mut(block)[from..to].fill(0);
        }
    }

    /// Where a block that was written, or one that was not, has its first byte from `offset` on.
    fn seek(&self, offset: u64, what: Sought) -> Option<u64> {
        let number = match what {
            Sought::Data => self.blocks.range(offset / BLOCK..).next().map(|(number, _)| *number),
            Sought::Hole => (offset / BLOCK..).find(|number| !self.blocks.contains_key(number)),
        };
        number.map(|number| (number * BLOCK).max(offset))
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.blocks.len() as u64 * BLOCK
    }

    /// Bytes of the blocks that are reserved and were not written.
    pub(super) fn reserved_bytes(&self) -> u64 {
        let holes = |range: &Range<u64>| (range.end - range.start) - self.blocks.range(range.clone()).count() as u64;
        self.reserved.iter().map(holes).fold(0, u64::saturating_add).saturating_mul(BLOCK)
    }

    fn unreserve(&mut self, gone: Range<u64>) {
        let left = |range: Range<u64>| [range.start..range.end.min(gone.start), range.start.max(gone.end)..range.end];
        let parts = std::mem::take(&mut self.reserved).into_iter().flat_map(left);
        self.reserved = parts.filter(|part| !part.is_empty()).collect();
    }

    fn reserve(&mut self, range: Range<u64>) {
        self.unreserve(range.clone());
        self.reserved.push(range);
        self.reserved.sort_by_key(|range| range.start);
    }

    /// Bytes that a write would newly take.
    fn growth_bytes(&self, offset: u64, count: u64) -> u64 {
        if count == 0 {
            return 0;
        }
        let is_reserved = |block: &u64| self.reserved.iter().any(|range| range.contains(block));
        let touched = offset / BLOCK..=(offset + count - 1) / BLOCK;
        touched.filter(|block| !self.blocks.contains_key(block) && !is_reserved(block)).count() as u64 * BLOCK
    }
}

/// Cuts `count` bytes from `offset` on at block borders: number of the block, offset in it, range of the bytes.
fn parts(offset: u64, count: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let position = offset + done as u64;
        let within = (position % BLOCK) as usize;
        let part = done..count.min(done + BLOCK as usize - within);
        done = part.end;
        (!part.is_empty()).then_some((position / BLOCK, within, part))
    })
}

impl State {
    pub(super) fn read(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, count: u32) -> Result<ReadOut, FsError> {
        let (attr, content) = self.readable(ctx, object)?;
        let count = u64::from(count).min(attr.size.saturating_sub(offset));
        let bytes = content.read(offset, usize::try_from(count).expect("at most 4 GiB"));
        let mut data = SmallVec::new();
        if !bytes.is_empty() {
            data.push(Bytes::from(bytes));
        }
        Ok(ReadOut { data, eof: offset.saturating_add(count) >= attr.size, attr: attr.clone() })
    }

    /// What is in a file, for who may read it.
    fn readable(&self, ctx: OpCtx<'_>, object: ObjectRef) -> Result<(&Attr, &Content), FsError> {
        let OpCtx { right, cred, .. } = ctx;
        let inode = self.inode(object)?;
        let content = match &inode.body {
            Body::Content(content) => content,
            Body::Directory(_) => return Err(FsError::IsDirectory),
            _ => return Err(FsError::BadType),
        };
        let attr = &inode.attr;
        // The owner reads whatever the mode says (it was open when the mode changed), and a program that may
        // be executed must be read for that: the server cannot tell one READ from the other.
        let may = permission::owns(attr, cred) || permission::granted(attr, cred) & (READ | EXECUTE) != 0;
        self.check_right(object, right, Access::READ, may)?;
        self.gate(object, ctx.actor(), false)?;
        Ok((attr, content))
    }

    pub(super) fn seek(
        &self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        offset: u64,
        what: Sought,
    ) -> Result<FoundAt, FsError> {
        let (attr, content) = self.readable(ctx, object)?;
        if offset >= attr.size {
            return Err(FsError::BehindEnd);
        }
        let offset = content.seek(offset, what).unwrap_or(attr.size).min(attr.size);
        Ok(FoundAt { offset, is_end: offset == attr.size })
    }

    pub(super) fn write(
        &mut self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Result<Written, FsError> {
        let OpCtx { cred, right, .. } = ctx;
        let inode = self.inode(object)?;
        let content = match &inode.body {
            Body::Content(content) => content,
            Body::Directory(_) => return Err(FsError::IsDirectory),
            _ => return Err(FsError::BadType),
        };
        let may = permission::owns(&inode.attr, cred) || permission::may(&inode.attr, cred, WRITE);
        self.check_right(object, right, Access::WRITE, may)?;
        self.gate(object, ctx.actor(), true)?;
        let count = data.len() as u64;
        let end = offset.checked_add(count).filter(|end| *end <= FILE_SIZE_MAX).ok_or(FsError::TooBig)?;
        let growth = content.growth_bytes(offset, count);
        if self.quota_bytes.is_some_and(|quota| self.charged_bytes() + growth > quota) {
            return Err(FsError::Quota);
        }
        if count > 0 {
            let now = self.issue_time();
            self.apply_write(cred, object, offset, data, end, now);
        }
        Ok(Written { count: u32::try_from(count).unwrap_or(u32::MAX), stability, verifier: self.verifier })
    }

    fn apply_write(&mut self, cred: &Cred, object: ObjectRef, offset: u64, data: &[u8], end: u64, now: Time) {
        let inode = self.named(object.id);
        if let Body::Content(content) = &mut inode.body {
            content.write(offset, data);
            inode.attr.used = content.used_bytes();
        }
        inode.attr.size = inode.attr.size.max(end);
        drop_set_ids_on_write(&mut inode.attr, cred);
        self.touch_content(object.id, now);
    }

    pub(super) fn deallocate(
        &mut self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        offset: u64,
        length: u64,
    ) -> Result<(), FsError> {
        let OpCtx { cred, right, .. } = ctx;
        let end = offset.checked_add(length).filter(|end| *end > offset).ok_or(FsError::Invalid)?;
        let inode = self.inode(object)?;
        match &inode.body {
            Body::Content(_) => {}
            Body::Directory(_) => return Err(FsError::IsDirectory),
            _ => return Err(FsError::BadType),
        }
        let may = permission::owns(&inode.attr, cred) || permission::may(&inode.attr, cred, WRITE);
        self.check_right(object, right, Access::WRITE, may)?;
        self.gate(object, ctx.actor(), true)?;
        let range = offset..end.min(inode.attr.size);
        if range.is_empty() {
            return Ok(());
        }
        let now = self.issue_time();
        let inode = self.named(object.id);
        if let Body::Content(content) = &mut inode.body {
            // Of the last block nothing else is in the file.
            let end = if range.end == inode.attr.size { range.end.next_multiple_of(BLOCK) } else { range.end };
            content.punch(range.start..end);
            inode.attr.used = content.used_bytes();
        }
        drop_set_ids_on_write(&mut inode.attr, cred);
        self.touch_content(object.id, now);
        Ok(())
    }

    pub(super) fn allocate(
        &mut self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        offset: u64,
        length: u64,
    ) -> Result<(), FsError> {
        let OpCtx { cred, right, .. } = ctx;
        let end = offset.checked_add(length).filter(|end| *end > offset).ok_or(FsError::Invalid)?;
        let inode = self.inode(object)?;
        let content = match &inode.body {
            Body::Content(content) => content,
            Body::Directory(_) => return Err(FsError::IsDirectory),
            _ => return Err(FsError::BadType),
        };
        let may = permission::owns(&inode.attr, cred) || permission::may(&inode.attr, cred, WRITE);
        self.check_right(object, right, Access::WRITE, may)?;
        self.gate(object, ctx.actor(), true)?;
        if end > FILE_SIZE_MAX {
            return Err(FsError::TooBig);
        }
        let mut after = content.clone();
        after.reserve(offset / BLOCK..end.div_ceil(BLOCK));
        let charged = self.charged_bytes().saturating_add(after.reserved_bytes() - content.reserved_bytes());
        match self.quota_bytes {
            Some(quota) if charged > quota => return Err(FsError::Quota),
            None if charged > SPACE_BYTES => return Err(FsError::NoSpace),
            _ => {}
        }
        let now = self.issue_time();
        let inode = self.named(object.id);
        inode.body = Body::Content(after);
        inode.attr.size = inode.attr.size.max(end);
        drop_set_ids_on_write(&mut inode.attr, cred);
        self.touch_content(object.id, now);
        Ok(())
    }

    pub(super) fn commit(&mut self, ctx: OpCtx<'_>, object: ObjectRef) -> Result<u64, FsError> {
        let (inode, cred) = (self.inode(object)?, ctx.cred);
        let may = ctx.right != Right::Mode
            || permission::owns(&inode.attr, cred)
            || permission::may(&inode.attr, cred, WRITE);
        match &inode.body {
            Body::Content(_) if !may => Err(FsError::Access),
            Body::Content(_) => Ok(self.verifier),
            Body::Directory(_) => Err(FsError::IsDirectory),
            _ => Err(FsError::BadType),
        }
    }

    pub(super) fn readlink(&self, object: ObjectRef) -> Result<(Bytes, Attr), FsError> {
        let inode = self.inode(object)?;
        match &inode.body {
            Body::Target(target) => Ok((target.clone(), inode.attr.clone())),
            _ => Err(FsError::BadType),
        }
    }
}

/// Who is not the superuser and changes a program takes its set-id bits away.
pub(super) fn drop_set_ids_on_write(attr: &mut Attr, cred: &Cred) {
    if cred.uid != 0 {
        attr.mode = permission::without_set_ids(attr.mode);
    }
}
