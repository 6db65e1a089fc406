//! Copying a leg: the whole data area from a leg that has everything to one that is joining.
//!
//! A joining leg gets every new write already (`Resilvering`), so one pass over the area is enough. Each
//! step reads and writes with writers kept out of the vdev, so that the copy of a moment ago cannot overwrite a
//! write of now. Blocks cannot be verified here, as only pointers know their checksums: rot on the source is copied
//! and is found, like all rot, by whoever reads it. The ring of an intent log is left out: the roster fills it with
//! zeroes before the leg joins, and then the lane brings its own frames there.

use std::sync::Arc;

use tally_base::VdevGuid;
use tally_disk::AlignedBuf;

use super::{LegState, Vdev, VdevError, VdevLeg};
use crate::blockdev::{BlockDev, BlockDevError};

/// Copied in one step, with writers kept out: long enough to stream, short enough not to be felt.
const STEP_BYTES: u64 = 1 << 20;

/// What a copy came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResilverReport {
    /// Bytes written to the joining leg.
    pub copied_bytes: u64,
    /// Bytes that no leg could read: what was there is as lost as it was before.
    pub unreadable_bytes: u64,
}

impl Vdev {
    /// Copies the data area to a leg in state `Resilvering`, and flushes it. The leg stays in that state: the roster puts
    /// it online once the labels say so. `progress` hears of bytes done, and ends the copy by answering `false`.
    pub fn resilver(
        &self,
        leg: VdevGuid,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<ResilverReport, BlockDevError> {
        let no_such_leg = |wanted| BlockDevError::from(VdevError::NoSuchLeg { vdev: self.guid, leg, wanted });
        let target = self.leg(leg).ok_or_else(|| no_such_leg("belongs to it"))?;
        let mut report = ResilverReport::default();
        let data_bytes = self.data_bytes();
        let ring = self.ring.map_or(data_bytes..data_bytes, |ring| ring.start..ring.start.saturating_add(ring.length));
        let mut done = 0;
        while done < data_bytes {
            if ring.contains(&done) {
                done = ring.end;
                continue;
            }
            let border = if done < ring.start { ring.start } else { data_bytes };
            let length = STEP_BYTES.min(border - done);
            if target.state() != LegState::Resilvering {
                return Err(no_such_leg("is being copied"));
            }
            self.copy_step(&target, done, length, &mut report)?;
            done += length;
            if !progress(done) {
                return Err(no_such_leg("is still wanted: the copy was stopped"));
            }
        }
        let flushed = target.flush();
        if let Err(error) = flushed {
            self.strike_off(&target, &error)?;
            return Err(error.into());
        }
        Ok(report)
    }

    fn copy_step(
        &self,
        target: &Arc<VdevLeg>,
        offset: u64,
        length: u64,
        report: &mut ResilverReport,
    ) -> Result<(), BlockDevError> {
        let length = usize::try_from(length).expect("one step");
        let mut buf = AlignedBuf::zeroed(length);
        let written = {
            let _alone = self.repair.write();
            let sources = self.readable(offset);
            if sources.is_empty() {
                return Err(VdevError::NoLeg { vdev: self.guid, last: None }.into());
            }
            if !sources.iter().any(|source| source.read_data(offset, &mut buf).is_ok()) {
                report.unreadable_bytes += length as u64;
                return Ok(());
            }
            target.write_data(offset, &buf)
        };
        if let Err(error) = written {
            self.strike_off(target, &error)?;
            return Err(error.into());
        }
        report.copied_bytes += length as u64;
        Ok(())
    }
}
