//! Of which files a delegation was recalled a moment ago: they are used by several, and another one would be recalled as soon (table D9, row i).

use std::collections::VecDeque;
use std::time::Duration;

use foldhash::HashMap;

use crate::v4::state::FileId;
use crate::v4::state::bounds::RECALLED_FILES_MAX;

/// For so long none is given again.
const LATELY: Duration = Duration::from_secs(30);

/// Bounded: where there are too many the oldest are forgotten.
#[derive(Debug, Default)]
pub(super) struct Lately {
    until: HashMap<FileId, Duration>,
    /// In the order in which they were noted; one that was noted again since stands here for nothing.
    order: VecDeque<(FileId, Duration)>,
}

impl Lately {
    /// Whether one of this file was, and of how many there was.
    pub(super) fn look(&mut self, file: &FileId, now: Duration) -> (bool, usize) {
        self.forget_old(now);
        (self.until.contains_key(file), self.until.len())
    }

    /// One was recalled. A file is noted anew no more than once in a second, so that nobody fills this by asking.
    /// Gives how many there are.
    pub(super) fn note(&mut self, file: FileId, now: Duration) -> usize {
        let until = now + LATELY;
        if self.until.get(&file).is_some_and(|known| *known + Duration::from_secs(1) > until) {
            return self.until.len();
        }
        self.until.insert(file, until);
        self.order.push_back((file, until));
        self.forget_old(now);
        self.until.len()
    }

    fn forget_old(&mut self, now: Duration) {
        while self.order.front().is_some_and(|(_, until)| *until <= now) || self.order.len() > RECALLED_FILES_MAX {
            let Some((file, until)) = self.order.pop_front() else { break };
            if self.until.get(&file) == Some(&until) {
                self.until.remove(&file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tally_base::{DatasetId, Generation, ObjectId, PoolGuid};
    use tally_vfs::{MountNumber, ObjectRef};

    use super::*;
    use crate::v4::state::Mounted;

    fn file(number: u64) -> FileId {
        let of = Mounted { pool: PoolGuid(1), dataset: DatasetId(1), mount: MountNumber(1) };
        FileId { of, object: ObjectRef { id: ObjectId(number), generation: Generation(1) } }
    }

    #[test]
    fn it_is_remembered_for_half_a_minute_and_within_bounds() {
        let mut lately = Lately::default();
        let at = Duration::from_secs;
        lately.note(file(1), at(0));
        lately.note(file(2), at(10));
        lately.note(file(1), at(20));
        assert_eq!(lately.look(&file(3), at(20)), (false, 2));
        assert_eq!(lately.look(&file(2), at(39)), (true, 2));
        assert_eq!(lately.look(&file(2), at(40)), (false, 1));
        lately.note(file(3), at(45));
        assert!(lately.look(&file(1), at(49)).0 && !lately.look(&file(1), at(50)).0);
        lately.note(file(1), at(50));
        assert_eq!((lately.until.len(), lately.order.len()), (2, 2), "of what is over nothing is kept");
        for nth in 0..2 * RECALLED_FILES_MAX as u64 {
            lately.note(file(nth), at(45));
            lately.note(file(nth), at(45));
        }
        assert_eq!((lately.until.len(), lately.order.len()), (RECALLED_FILES_MAX, RECALLED_FILES_MAX));
    }
}
