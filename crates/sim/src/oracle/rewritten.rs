//! Blocks of files that a client has written anew as a whole: whatever was there before, readable or not, is no part of
//! them any more. So what rots below cannot be why they cannot be read.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use tally_base::ObjectId;
use tally_vfs::Attributes;
use tally_vfs::model::Model;

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

    /// Whether what stands at an offset of a file is in such a block.
    #[must_use]
    pub fn contains(&self, file: ObjectId, offset: u64) -> bool {
        self.0.get(&file).is_some_and(|(record_size, starts)| starts.contains(&(offset / record_size * record_size)))
    }
}
