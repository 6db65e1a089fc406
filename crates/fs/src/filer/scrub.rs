//! A scrub: every block of the pool is looked at on every disk, and what is damaged gets the names of files.

use std::collections::BTreeSet;

use tally_base::ObjectId;
use tally_store::pool::{LostBlock, SecureError, SecureReport};

use super::Filer;
use crate::damage::Part;

impl Filer {
    /// Looks at every block of the pool on every disk that counts, and gives those that lack it what another has right
    /// ([`Pool::scrub`](tally_store::pool::Pool::scrub)). What no disk has right each dataset knows afterwards, by file; what
    /// was met before, and is right by now, it has forgotten. `progress` hears of bytes done, and ends it by answering
    /// `false`.
    pub fn scrub(&self, progress: &mut dyn FnMut(u64) -> bool) -> Result<SecureReport, SecureError> {
        // What is met from here on is noted with this group or a later one.
        let began = self.pool.sync()?;
        let mut hiding = BTreeSet::new();
        let report = self.pool.scrub(progress, &mut |lost| {
            let LostBlock { dataset: Some(dataset), content, block } = lost else { return };
            let Some(filesystem) = self.filesystem(*dataset) else { return };
            match content {
                Some((object, offset)) => {
                    let _ = filesystem.damaged(ObjectId(*object), Part::Content(*offset), block);
                }
                None => {
                    hiding.insert(*dataset);
                }
            }
        })?;
        // Below a node that cannot be read nothing was looked at.
        let names = self.names();
        let seen = names.iter().filter(|named| !hiding.contains(&named.filesystem.dataset.birth.id));
        seen.for_each(|named| named.filesystem.forget_content_met_before(began));
        Ok(report)
    }
}
