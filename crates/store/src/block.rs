//! One block between memory and disk: compressed and hashed on the way out, verified and expanded on the way
//! in. Below the allocator and the cache, so that the allocator can read and write its own blocks without
//! standing on what stands on it.
//!
//! Compression is kept only where it saves a whole sector, since nothing smaller is ever saved.

pub(crate) mod parts;
pub(crate) mod scatter;

use bytes::Bytes;
use tally_base::{SECTOR, VdevIndex, block_checksum, blocking, round_to_sector};
use tally_disk::AlignedBuf;
use tally_members::blockdev::{BlockDevError, BlockDevs};

use crate::bp::{BlockPtr, Coding, Compression, Dva};

/// Why a block could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum BlockError {
    /// The pointer names what this pool does not have.
    #[error("block pointer [{bp}] is damaged: {what}; run `tally inspect` to see what refers to it")]
    Pointer {
        bp: BlockPtr,
        /// What is wrong with it.
        what: &'static str,
    },
    /// No copy could be read and verified.
    #[error("block [{bp}] could not be read: {source}; restore its content from a backup or another leg")]
    Unreadable {
        bp: BlockPtr,
        /// The last copy's error, or that of the first one if a device refused that.
        source: BlockDevError,
    },
    /// The checksum is right, and yet the bytes are not what the pointer's kind says.
    #[error(
        "block [{bp}] holds no valid {what}, although its checksum is right: it was written so, by a bug or by a newer program"
    )]
    Malformed {
        bp: BlockPtr,
        /// What it should have held.
        what: &'static str,
    },
    /// Part of what it stood for could not be read when the rest of it changed.
    #[error("block [{bp}] was given up: it changed, and what it was before could not be read; write its content anew")]
    GivenUp { bp: BlockPtr },
    /// A device refused a write.
    #[error("writing {bytes} bytes at {offset:#x} of vdev {vdev} failed: {source}; see `tally pool status`")]
    Write {
        /// Index of the vdev.
        vdev: VdevIndex,
        /// Byte offset in the data area of the vdev.
        offset: u64,
        /// Bytes that were to be written, whole sectors.
        bytes: usize,
        source: BlockDevError,
    },
    /// A device could not make its writes durable.
    #[error("flushing vdev {vdev} failed: {source}; what was written since the last flush may be lost")]
    Flush {
        /// Index of the vdev.
        vdev: VdevIndex,
        source: BlockDevError,
    },
    /// The pool is full.
    #[error(transparent)]
    NoSpace(#[from] NoSpace),
}

impl BlockError {
    /// The block that could not be read; none for an error of another sort.
    #[must_use]
    pub fn unreadable(&self) -> Option<&BlockPtr> {
        match self {
            Self::Pointer { bp, .. }
            | Self::Unreadable { bp, .. }
            | Self::Malformed { bp, .. }
            | Self::GivenUp { bp } => Some(bp),
            Self::Write { .. } | Self::Flush { .. } | Self::NoSpace(_) => None,
        }
    }

    /// Whether a device refused to read it, which it may do again some day; else what was read is wrong.
    pub(crate) fn is_of_device(&self) -> bool {
        matches!(self, Self::Unreadable { source: BlockDevError::Io(_) | BlockDevError::Other(_), .. })
    }
}

/// There are not so many free bytes in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", no_space_words(self))]
pub struct NoSpace {
    /// What was asked for.
    pub bytes: u64,
    /// What is free in all.
    pub free: u64,
    /// Regions of which nothing can be had, since their space maps are wrong.
    pub fenced: usize,
    /// Regions of which nothing could be had, since a device has refused their space maps, also when it was asked again. Then it
    /// is the device that failed, and nobody knows whether the pool is full.
    pub refused: usize,
}

fn no_space_words(NoSpace { bytes, free, fenced, refused }: &NoSpace) -> String {
    if *refused > 0 {
        return format!(
            "a device refuses the space maps of {refused} regions, without which nothing can be written there, and there are \
             no {bytes} bytes in one piece elsewhere ({free} bytes are free there); see `tally pool status`"
        );
    }
    let beyond = match fenced {
        0 => String::new(),
        count => format!(
            ", beside what {count} regions have whose space maps cannot be used; `tally inspect --space` names them"
        ),
    };
    format!(
        "no {bytes} bytes in one piece are free in the pool ({free} bytes are free in all{beyond}); remove files or add devices"
    )
}

/// A block's bytes as they will stand on disk.
pub(crate) enum Sealed<'a> {
    /// Compression saved nothing.
    Raw(&'a [u8]),
    /// The compressed bytes, in the buffer that the caller lent.
    Packed(Coding, &'a [u8]),
}

impl Sealed<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Raw(bytes) | Self::Packed(_, bytes) => bytes,
        }
    }

    pub(crate) fn coding(&self) -> Coding {
        match self {
            Self::Raw(_) => Coding::Raw,
            Self::Packed(coding, _) => *coding,
        }
    }

    /// Sectors that the bytes need.
    pub(crate) fn sectors(&self) -> u32 {
        sectors_of(self.bytes().len())
    }
}

/// Sectors that `bytes` need.
pub(crate) fn sectors_of(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(SECTOR)).expect("a block is at most 16 MiB")
}

/// Compresses `data` as asked, into `scratch`, if that saves a sector.
pub(crate) fn seal<'a>(data: &'a [u8], compression: Compression, scratch: &'a mut Vec<u8>) -> Sealed<'a> {
    if data.len() <= SECTOR {
        return Sealed::Raw(data);
    }
    let (coding, length) = match compression {
        Compression::Off => return Sealed::Raw(data),
        Compression::Lz4 => {
            scratch.resize(lz4_flex::block::get_maximum_output_size(data.len()), 0);
            (Coding::Lz4, lz4_flex::block::compress_into(data, scratch).ok())
        }
        Compression::Zstd(level) => {
            scratch.resize(zstd::zstd_safe::compress_bound(data.len()), 0);
            (Coding::Zstd, zstd::bulk::compress_to_buffer(data, scratch.as_mut_slice(), i32::from(level)).ok())
        }
    };
    // A compressor that fails costs space, not data.
    match length.and_then(|length| scratch.get(..length)) {
        Some(packed) if sectors_of(packed.len()) < sectors_of(data.len()) => Sealed::Packed(coding, packed),
        _ => Sealed::Raw(data),
    }
}

/// Reads, verifies and expands the block behind `bp`, from the first copy that is good.
pub(crate) fn open(devs: &BlockDevs, bp: &BlockPtr) -> Result<Bytes, BlockError> {
    if !bp.is_sensible() {
        return Err(BlockError::Pointer { bp: *bp, what: "its sizes contradict each other" });
    }
    if bp.is_given_up() {
        return Err(BlockError::GivenUp { bp: *bp });
    }
    if bp.in_pieces {
        let stored = scatter::open(devs, bp)?;
        let gathered_bytes = stored.len();
        return expand(bp, stored, gathered_bytes);
    }
    let first = match open_copy(devs, bp, bp.dva) {
        Ok(bytes) => return Ok(bytes),
        Err(error) => error,
    };
    let Some(copy) = bp.copy else { return Err(first) };
    // Where a device refuses either of them the block is not lost yet (rules S4).
    open_copy(devs, bp, copy).map_err(|second| if first.is_of_device() { first } else { second })
}

/// The place of a block that is there twice, if it is wrong in one alone: where it is right nowhere, whoever reads it says so.
pub(crate) fn damaged_copy(devs: &BlockDevs, bp: &BlockPtr) -> Option<(Dva, BlockError)> {
    let copy = bp.copy?;
    match (open_copy(devs, bp, bp.dva), open_copy(devs, bp, copy)) {
        (Err(why), Ok(_)) => Some((bp.dva, why)),
        (Ok(_), Err(why)) => Some((copy, why)),
        _ => None,
    }
}

fn open_copy(devs: &BlockDevs, bp: &BlockPtr, dva: Dva) -> Result<Bytes, BlockError> {
    let dev = devs.get(&dva.vdev).ok_or(BlockError::Pointer { bp: *bp, what: "the pool has no such vdev" })?;
    if dva.end() > dev.data_bytes() {
        return Err(BlockError::Pointer { bp: *bp, what: "it points beyond the end of its vdev" });
    }
    // `is_sensible` has bounded both: psize <= lsize <= 16 MiB, and asize is psize rounded up.
    let psize = bp.psize as usize;
    let asize = round_to_sector(u64::from(bp.psize)) as usize;
    let verify = |bytes: &[u8]| bytes.get(..psize).is_some_and(|bytes| block_checksum(bytes) == bp.checksum);
    let read = blocking(|| dev.read_written(dva.offset, asize, &verify, bp.written));
    let buf = read.map_err(|source| BlockError::Unreadable { bp: *bp, source })?;
    if buf.len() < psize {
        return Err(BlockError::Unreadable { bp: *bp, source: BlockDevError::NoGoodCopy });
    }
    let read_bytes = buf.len();
    expand(bp, Bytes::from_owner(buf).slice(..psize), read_bytes)
}

/// Reads blocks that follow each other on one vdev at once. `None` if there is anything the matter with any of them.
pub(crate) fn open_stretch(devs: &BlockDevs, stretch: &[&BlockPtr]) -> Option<Vec<Bytes>> {
    let first = stretch.first()?.dva;
    let length = stretch.last()?.dva.end().checked_sub(first.offset)?;
    let dev = devs.get(&first.vdev)?;
    let sound = |bp: &&&BlockPtr| is_in_one_piece(bp);
    if stretch.iter().filter(sound).count() < stretch.len() || first.offset.checked_add(length)? > dev.data_bytes() {
        return None;
    }
    let part = |bp: &BlockPtr| {
        let start = (bp.dva.offset - first.offset) as usize;
        start..start + bp.psize as usize
    };
    let verify = |bytes: &[u8]| {
        stretch.iter().all(|bp| bytes.get(part(bp)).is_some_and(|bytes| block_checksum(bytes) == bp.checksum))
    };
    let length = usize::try_from(length).ok()?;
    let buf = Bytes::from_owner(blocking(|| dev.read(first.offset, length, &verify)).ok()?);
    stretch.iter().map(|bp| expand(bp, buf.slice(part(bp)), length).ok()).collect()
}

/// Whether a block lies in one piece where its pointer says, as far as the pointer itself tells.
pub(crate) fn is_in_one_piece(bp: &BlockPtr) -> bool {
    bp.is_sensible() && !bp.is_given_up() && !bp.in_pieces
}

/// Whether a block is as its pointer says in bytes that begin at `start` of its vdev.
pub(crate) fn is_at(bytes: &[u8], start: u64, bp: &BlockPtr) -> bool {
    let from = bp.dva.offset.checked_sub(start).and_then(|from| usize::try_from(from).ok());
    let stored = from.and_then(|from| bytes.get(from..)?.get(..bp.psize as usize));
    stored.is_some_and(|stored| block_checksum(stored) == bp.checksum)
}

/// Reads blocks that follow each other on one vdev ([`is_in_one_piece`] each), for nobody yet: gives those that are as their
/// pointers say, by their number in the stretch, and says nothing about the others.
pub(crate) fn open_quietly<'a>(
    devs: &BlockDevs,
    stretch: &'a [BlockPtr],
) -> impl Iterator<Item = (usize, Bytes)> + use<'a> {
    let stored = read_quietly(devs, stretch).unwrap_or_default();
    stretch.iter().zip(stored).enumerate().filter_map(|(number, (bp, stored))| {
        let buffer_bytes = stored.len();
        let stored = Bytes::from_owner(stored).slice(..bp.psize as usize);
        if block_checksum(&stored) != bp.checksum {
            return None;
        }
        Some((number, expand(bp, stored, buffer_bytes).ok()?))
    })
}

/// Each in a buffer of its own, so that none is copied out of what all of them were read into.
fn read_quietly(devs: &BlockDevs, stretch: &[BlockPtr]) -> Option<Vec<AlignedBuf>> {
    let first = stretch.first()?.dva;
    let dev = devs.get(&first.vdev)?;
    let mut parts = Vec::new();
    for bp in stretch {
        parts.push(AlignedBuf::zeroed(usize::try_from(bp.dva.bytes()).ok()?));
    }
    blocking(|| dev.read_ahead(first.offset, &mut parts)).then_some(parts)
}

/// The content of what is `stored` in a buffer of so many bytes. It does not keep more than itself alive.
fn expand(bp: &BlockPtr, stored: Bytes, buffer_bytes: usize) -> Result<Bytes, BlockError> {
    let lsize = bp.lsize as usize;
    let expanded = match bp.coding {
        Coding::Raw => return Ok(alone(stored, buffer_bytes)),
        Coding::Lz4 => {
            let mut expanded = vec![0; lsize];
            let length = lz4_flex::block::decompress_into(&stored, &mut expanded);
            length.is_ok_and(|length| length == lsize).then_some(expanded)
        }
        Coding::Zstd => zstd::bulk::decompress(&stored, lsize).ok().filter(|expanded| expanded.len() == lsize),
    };
    expanded.map(Bytes::from).ok_or(BlockError::Malformed { bp: *bp, what: "compressed data" })
}

/// Writes whole sectors to their places, neighbours together: for a disk that turns each write is a turn. A write is at most
/// `write_bytes_max` long, for a log on the same disk (rules P3), but where one part is longer by itself.
pub(crate) fn write_together(
    devs: &BlockDevs,
    mut parts: Vec<(Dva, &[u8])>,
    write_bytes_max: usize,
) -> Result<(), BlockError> {
    parts.sort_unstable_by_key(|(dva, _)| *dva);
    let mut buf = AlignedBuf::with_capacity(0);
    let mut start: Option<Dva> = None;
    for (dva, bytes) in parts {
        let end = start.map(|start| (start.vdev, start.offset + buf.len() as u64));
        let is_apart = end != Some((dva.vdev, dva.offset)) || buf.len() + bytes.len() > write_bytes_max;
        if let Some(start) = start.filter(|_| is_apart) {
            write_sectors(devs, start.vdev, start.offset, &buf)?;
            buf.clear();
        }
        if buf.is_empty() {
            start = Some(dva);
        }
        buf.extend_from_slice(bytes);
    }
    match start {
        Some(start) if !buf.is_empty() => write_sectors(devs, start.vdev, start.offset, &buf),
        _ => Ok(()),
    }
}

/// Writes whole sectors to a vdev.
pub(crate) fn write_sectors(devs: &BlockDevs, vdev: VdevIndex, offset: u64, buf: &[u8]) -> Result<(), BlockError> {
    let dev = devs.get(&vdev).expect("the allocator hands out places on vdevs that exist");
    blocking(|| dev.write(offset, buf)).map_err(|source| BlockError::Write { vdev, offset, bytes: buf.len(), source })
}

/// The part of a buffer that is worth keeping: as it is where it is most of the buffer, else as a copy (rules P5).
pub(crate) fn alone(part: Bytes, buffer_bytes: usize) -> Bytes {
    if buffer_bytes * 4 > part.len() * 5 { Bytes::copy_from_slice(&part) } else { part }
}

#[cfg(test)]
mod tests;
