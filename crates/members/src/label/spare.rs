//! Hot spares: disks that wait for the place of one that goes away.
//!
//! The problem: a spare is no copy of anything while it waits, and one leg more of a mirror while it stands in. Both must be
//! told by the labels after any power cut, and a spare must never be taken for a disk that has something.
//!
//! The idea: a line for each in a section of its own, which stays as long as the disk is the pool's spare. A spare is *in use*
//! while a leg of its guid is among the vdevs, and *available* else: so it is taken, and given back, by the one change of the
//! configuration with which a leg comes or goes, and no cut leaves it in between. For whom it stands is written before, and
//! says nothing while it is available.
//!
//! Its own label, as long as it waits, is a configuration that has it among the spares and not among the legs. Such a label
//! votes for nothing: whoever looks for pools keeps it apart.

use std::path::PathBuf;

use tally_base::VdevGuid;
use tally_base::codec::{Put, Reader};

use super::encoding::{path_of, put_path};
use super::{Bad, LabelError};

/// Spares of a pool.
pub const SPARES_MAX: usize = 32;

/// One spare. See the head of this module.
///
/// ```text
///  0  guid 8 · stands for 8, 0: for nobody · size 8 · path
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spare {
    /// Its name for ever, and that of the leg which it is while it stands in for one.
    pub guid: VdevGuid,
    /// The leg in whose place it is, or was last.
    pub stands_for: Option<VdevGuid>,
    /// Size of the device when it became a spare.
    pub size: u64,
    /// Where it was last seen.
    pub path: PathBuf,
}

impl Spare {
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<(), LabelError> {
        out.put_u64(self.guid.0);
        out.put_u64(self.stands_for.map_or(0, |leg| leg.0));
        out.put_u64(self.size);
        put_path(out, &self.path)
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Bad> {
        let (guid, stands_for) = (VdevGuid(reader.u64()?), VdevGuid(reader.u64()?));
        let (size, path) = (reader.u64()?, path_of(reader)?);
        Ok(Self { guid, stands_for: Some(stands_for).filter(|leg| leg.0 != 0), size, path })
    }
}
