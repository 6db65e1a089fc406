//! Room in the pool for what commands bring, which is asked for before they begin, as for operations (rules F19).

use tally_store::pool::SpaceClass;
use tally_store::properties::PropertySet;
use tally_store::txg::{Admission, NotAdmitted};

use super::Filer;
use super::datasets::DatasetError;
use crate::admission::{OPERATION_DIRTY_BYTES, REMOVAL_FOLD_BYTES};
use crate::filesystem::Filesystem;

/// With no more than this a dataset may always have its properties: all that have values of a fixed size, and who may mount it. With
/// them somebody makes a full pool writable again, or takes a quota away.
const ALWAYS_BYTES: usize = 256;

/// So many groups are waited for that may bring room for a command, in the pool or in memory.
const GROUPS_MAX: u32 = 32;

impl Filer {
    /// Room for the group that makes a dataset's properties longer, until this is dropped; what makes them shorter needs none. Many
    /// datasets with long ones would take what is kept to remove things, and that group could not be written.
    pub(super) fn room_for(
        &self,
        filesystem: &Filesystem,
        after: &PropertySet,
    ) -> Result<Option<Admission>, DatasetError> {
        self.pool.check_administrable()?;
        let (before, after) = (filesystem.dataset.line().local.encoded_bytes(), after.encoded_bytes());
        if after <= before.max(ALWAYS_BYTES) {
            return Ok(None);
        }
        // The entry's leaf is in two places.
        let fold_bytes = REMOVAL_FOLD_BYTES + 2 * after as u64;
        let mut refused = NotAdmitted::Space;
        for _ in 0..GROUPS_MAX {
            refused = match self.pool.admit(SpaceClass::Rename, OPERATION_DIRTY_BYTES + after as u64, fold_bytes) {
                Ok(room) => return Ok(Some(room)),
                Err(why) => why,
            };
            if refused == NotAdmitted::Space
                && !self.has_orphans()
                && self.pool.space_coming(SpaceClass::Rename).is_none()
            {
                break;
            }
            self.pool.sync()?;
        }
        Err(match refused {
            NotAdmitted::Space => DatasetError::NoRoom(filesystem.name()),
            NotAdmitted::Dirty => DatasetError::Busy { name: filesystem.name(), groups: GROUPS_MAX },
        })
    }
}
