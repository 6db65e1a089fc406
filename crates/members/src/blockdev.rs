//! What the store asks of a top-level vdev: a row of bytes in which verified reads, writes and a flush are
//! possible. How many legs stand behind it, and how a bad one is repaired, is the vdev's business; that is why
//! a read takes the check along with it: only who knows the checksum can tell which leg is right.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc;

use tally_base::{SECTOR, Txg, VdevIndex};
use tally_disk::{AlignedBuf, Fanout, Work};

/// A vdev could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum BlockDevError {
    /// The device said no.
    #[error("the device failed: {0}")]
    Io(#[from] io::Error),
    /// Every copy was read, and none of them was what had been written.
    #[error("no copy has the checksum that was recorded")]
    NoGoodCopy,
    /// The range is not a range of this device.
    #[error("the range is outside the device of {data_bytes} bytes")]
    OutOfRange {
        /// Size of the device's data area.
        data_bytes: u64,
    },
    /// Something that only the vdev can explain.
    #[error("{0}")]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

/// One top-level vdev's data area. Offsets count from its start; offsets and lengths are whole sectors.
pub trait BlockDev: Send + Sync {
    /// Size of the data area.
    fn data_bytes(&self) -> u64;

    /// Reads `length` bytes for which `verify` is true, from whichever copy has them; repairs copies that do not.
    fn read(&self, offset: u64, length: usize, verify: &dyn Fn(&[u8]) -> bool) -> Result<AlignedBuf, BlockDevError>;

    /// The same of a block that was written in this group: a copy that loses what it was given by the repair lacks that group, and else nobody knows which.
    fn read_written(
        &self,
        offset: u64,
        length: usize,
        verify: &dyn Fn(&[u8]) -> bool,
        _written: Txg,
    ) -> Result<AlignedBuf, BlockDevError> {
        self.read(offset, length, verify)
    }

    /// Writes to every copy. Durable after the next flush.
    fn write(&self, offset: u64, buf: &[u8]) -> Result<(), BlockDevError>;

    /// Makes every completed write durable.
    fn flush(&self) -> Result<(), BlockDevError>;

    /// Says that a range is no longer needed.
    fn discard(&self, offset: u64, length: u64) -> Result<(), BlockDevError>;

    /// Fills `parts` from one copy with what lies from `offset` on, for nobody yet: it may be wrong, and if it cannot
    /// be had that is nobody's trouble. Nothing is counted as an error, and nothing repaired. Gives whether it came.
    fn read_ahead(&self, offset: u64, parts: &mut [AlignedBuf]) -> bool {
        let length = parts.iter().map(|part| part.len()).sum();
        self.read(offset, length, &|_| true).is_ok_and(|whole| {
            whole.part_into(parts);
            true
        })
    }

    /// Whether more stable storage is waited for than the disks can have begun with: no time to fetch what nobody waits for.
    fn is_behind(&self) -> bool {
        false
    }

    /// Whether each copy can be read anywhere at all. One that cannot may have what the others have not.
    fn answers(&self) -> bool {
        probes(self.data_bytes()).any(|offset| self.read(offset, SECTOR, &|_| true).is_ok())
    }
}

/// The data vdevs of a pool that are there. Block pointers name one by its index in the configuration and not by its place
/// among them, which another one's removal would change.
pub type BlockDevs = BTreeMap<VdevIndex, Arc<dyn BlockDev>>;

/// Devices as a pool that has no others would name them.
pub fn numbered(devs: impl IntoIterator<Item = Arc<dyn BlockDev>>) -> BlockDevs {
    (0..).map(VdevIndex).zip(devs).collect()
}

/// Makes everything written durable, on every device, all at once. Fails with one that could not, and why.
pub fn flush_all(devs: &BlockDevs, fanout: &dyn Fanout) -> Result<(), (VdevIndex, BlockDevError)> {
    let (sender, failures) = mpsc::channel();
    let flush = |(index, dev): (&VdevIndex, &Arc<dyn BlockDev>)| -> Work {
        let (index, dev, sender) = (*index, Arc::clone(dev), sender.clone());
        Work::new(move || {
            dev.flush().map_err(|error| {
                let _heard = sender.send((index, error));
                io::Error::other("the flush failed")
            })
        })
    };
    let outcomes = fanout.each(devs.iter().map(flush).collect());
    drop(sender);
    if let Some(failure) = failures.into_iter().next() {
        return Err(failure);
    }
    // A helper that died has said nothing.
    let died = devs.keys().zip(outcomes).find_map(|(index, outcome)| Some((*index, outcome.err()?.into())));
    died.map_or(Ok(()), Err)
}

/// Where to look whether a device gives anything: its first sector, one in the middle, its last one.
pub(crate) fn probes(data_bytes: u64) -> impl Iterator<Item = u64> {
    let sectors = data_bytes / SECTOR as u64;
    [0, sectors / 2, sectors.saturating_sub(1)].into_iter().map(|sector| sector * SECTOR as u64)
}
