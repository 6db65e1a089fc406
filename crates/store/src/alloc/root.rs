use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{SECTOR, Txg, VdevIndex};

use super::bitmap::REGION_SECTORS;
use super::deferred::DeferredHead;
use crate::bp::{BLOCK_PTR_BYTES, BlockPtr};

const WHAT: &str = "allocator root";

/// Bytes before the vdevs.
const HEAD_BYTES: usize = 16;
/// Bytes of one vdev, and of one deferred list.
const LINE_BYTES: usize = 24 + BLOCK_PTR_BYTES;

const ZEROES: [u8; 6] = [0; 6];

/// State of a list: its ranges are in use in the maps, and may not be used again yet.
const WAITING: u16 = 0;
/// They may, and are free in the maps of those regions in whose line a group as high as the list's is applied.
const RIPE: u16 = 1;

/// From where an [`Allocator`](super::Allocator) is loaded. Stands in the pool's root.
///
/// ```text
///   0        4               8       12      16
///   +--------+---------------+-------+-------+-- per vdev: index u16, zero 6, sectors u64, excluded sectors u64, top 64
///   | zero   | region sectors| vdevs | lists |-- per list: state u16, zero 6, txg u64, ranges u64, head of the chain 64
///   +--------+---------------+-------+-------+
/// ```
///
/// Pointers at the end of each. Vdevs stand by index, the one in the pool's configuration. The state of a list is 0 if it waits:
/// its ranges are in use in the maps. It is 1 if it is ripe: they may be used, and are free in the maps of regions in whose line
/// a group as high as the list's is applied. Lists stand by group, and ripe ones before those that wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocRoot {
    pub(super) vdevs: Vec<VdevRoot>,
    pub(super) deferred: Vec<DeferredHead>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VdevRoot {
    pub(super) index: VdevIndex,
    pub(super) sectors: u64,
    pub(super) excluded: u64,
    pub(super) top: Option<BlockPtr>,
}

impl AllocRoot {
    /// Of a pool without vdevs.
    pub(crate) fn empty() -> Self {
        Self { vdevs: Vec::new(), deferred: Vec::new() }
    }

    /// Encoded size for so many vdevs and deferred lists.
    pub(super) fn bytes(vdev_count: usize, list_count: usize) -> usize {
        HEAD_BYTES + (vdev_count + list_count) * LINE_BYTES
    }

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let count = |length: usize| u32::try_from(length).expect("vdevs and waiting txgs are few");
        out.put_u32(0);
        out.put_u32(REGION_SECTORS);
        out.put_u32(count(self.vdevs.len()));
        out.put_u32(count(self.deferred.len()));
        for vdev in &self.vdevs {
            out.put_u16(vdev.index.0);
            out.put(&ZEROES);
            out.put_u64(vdev.sectors);
            out.put_u64(vdev.excluded);
            out.put(&BlockPtr::encode_option(vdev.top.as_ref()));
        }
        for list in &self.deferred {
            out.put_u16(if list.is_ripe { RIPE } else { WAITING });
            out.put(&ZEROES);
            out.put_u64(list.txg.0);
            out.put_u64(list.ranges);
            out.put(&list.head.encode());
        }
    }

    /// Reads the encoding from the front of `reader`.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (zero, region) = (reader.u32()?, reader.u32()?);
        let (vdev_count, list_count) = (reader.u32()? as usize, reader.u32()? as usize);
        let bytes = vdev_count.saturating_add(list_count).saturating_mul(LINE_BYTES);
        if zero != 0 || region != REGION_SECTORS || bytes > reader.rest().len() {
            return Err(Malformed(WHAT));
        }
        let vdev = |_| {
            let (index, zeroes) = (VdevIndex(reader.u16()?), reader.array()?);
            let (sectors, excluded) = (reader.u64()?, reader.u64()?);
            let top = BlockPtr::decode_option(&reader.array()?)?;
            let sensible = zeroes == ZEROES && excluded <= sectors && sectors <= u64::MAX / SECTOR as u64;
            if sensible { Ok(VdevRoot { index, sectors, excluded, top }) } else { Err(Malformed(WHAT)) }
        };
        let vdevs = (0..vdev_count).map(vdev).collect::<Result<Vec<_>, _>>()?;
        if !vdevs.is_sorted_by(|one, next| one.index < next.index) {
            return Err(Malformed(WHAT));
        }
        let list = |_| {
            let (state, zeroes) = (reader.u16()?, reader.array()?);
            if state > RIPE || zeroes != ZEROES {
                return Err(Malformed(WHAT));
            }
            let (txg, ranges) = (Txg(reader.u64()?), reader.u64()?);
            Ok(DeferredHead { is_ripe: state == RIPE, txg, ranges, head: BlockPtr::decode(&reader.array()?)? })
        };
        let deferred = (0..list_count).map(list).collect::<Result<Vec<_>, Malformed>>()?;
        if !deferred.is_sorted_by_key(|list| !list.is_ripe) {
            return Err(Malformed(WHAT));
        }
        Ok(Self { vdevs, deferred })
    }
}
