//! Blocks of files that a client has written anew as a whole: whatever was there before, readable or not, is no part of
//! them any more. So what rots below cannot be why they cannot be read.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use tally_base::ObjectId;
use tally_vfs::model::Model;
use tally_vfs::{Attributes, Content, Cred, ObjectRef};

use crate::op::Op;

/// Where such blocks begin, and the size of a file's blocks.
#[derive(Clone, Debug, Default)]
pub struct Rewritten(Arc<HashMap<ObjectId, (u64, HashSet<u64>)>>);

impl Rewritten {
    /// `part` of the file that `op` is about has the content of `live`, behind `op`, at once and as a whole.
    pub(super) fn take(&mut self, live: &Model, op: &Op, part: Range<u64>) {
        let (Op::Write { object, .. } | Op::Commit { object, .. }) = op else { return };
        let (record_size, Ok(attr)) = (object.record_size, live.getattr(object.model)) else { return };
        if record_size == 0 {
            return;
        }
        let (_, starts) =
            Arc::make_mut(&mut self.0).entry(object.model.id).or_insert_with(|| (record_size, HashSet::new()));
        let mut start = part.start.next_multiple_of(record_size);
        while start < part.end && (start + record_size).min(attr.size) <= part.end {
            starts.insert(start);
            start += record_size;
        }
    }

    pub(super) fn forget(&mut self, file: ObjectId) {
        if self.0.contains_key(&file) {
            Arc::make_mut(&mut self.0).remove(&file);
        }
    }

    /// Of a file those blocks are forgotten of which `model` has zeroes alone. Such a block may have no place of its own: that it is not there
    /// its leaf says, and what rots there hides it.
    pub(super) fn forget_holes(&mut self, file: ObjectRef, model: &Model) {
        let Some((record_size, _)) = self.0.get(&file.id) else { return };
        let length = u32::try_from(*record_size).expect("blocks are short");
        let is_hole = |start: &u64| {
            let read = model.read(&Cred::root(), file, *start, length);
            read.is_ok_and(|read| read.data.iter().all(|piece| piece.iter().all(|byte| *byte == 0)))
        };
        if let Some((_, starts)) = Arc::make_mut(&mut self.0).get_mut(&file.id) {
            starts.retain(|start| !is_hole(start));
        }
    }

    /// Whether what stands at an offset of a file is in such a block.
    #[must_use]
    pub fn contains(&self, file: ObjectId, offset: u64) -> bool {
        self.0.get(&file).is_some_and(|(record_size, starts)| starts.contains(&(offset / record_size * record_size)))
    }
}
