//! The golden image of format version 2 as parts that can be changed and sealed again.
//!
//! Everything in a pool hangs from its uberblocks by checksums, so a changed byte in a leaf is seen at once and never
//! understood. Here a change goes up: the leaf is packed again, its pointer in the node above is set right, then that node's,
//! up to the uberblock. Who points to whom is found without knowing any format: 64 bytes that are a block pointer whose
//! checksum fits what lies there are one.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use tally_base::{SECTOR, VdevIndex, block_checksum};
use tally_members::label::LABEL_BYTES;
use tally_store::bp::{BLOCK_PTR_BYTES, BlockPtr, Coding};

use crate::{blocks, frame, label, uberblock};

/// The devices: where the pool was made, their size, and what they hold.
const DEVICES: [(&str, usize, &[u8]); 2] = [
    ("/disks/data", 16 << 20, include_bytes!("../../fs/tests/golden/v2-data.zst")),
    ("/disks/slog", 2 << 20, include_bytes!("../../fs/tests/golden/v2-slog.zst")),
];
/// Slots of a label: of the configuration and of uberblocks; the drawing is in `tally_members::label`.
const CONFIG_SLOTS: [usize; 2] = [0, 64 << 10];
const UBERBLOCKS_AT: usize = 128 << 10;
const UBERBLOCK_COUNT: usize = 16;
/// Where an uberblock's root pointer stands.
const ROOT_AT: usize = 80;
/// Before the payload of a label's slot, and where its length stands.
const LABEL_HEAD_BYTES: usize = 96;
const LABEL_PAYLOAD_BYTES_AT: usize = 12;

static GOLDEN: LazyLock<Golden> = LazyLock::new(Golden::read);

/// The image, and its parts: those that name come behind those that are named.
pub(crate) struct Golden {
    pub(crate) disks: Vec<Arc<Vec<u8>>>,
    pub(crate) parts: Vec<Part>,
}

/// Something that is sealed as a whole.
pub(crate) struct Part {
    pub(crate) kind: PartKind,
    pub(crate) disk: usize,
    pub(crate) offset: u64,
    /// Expanded, if it is packed on disk.
    pub(crate) content: Vec<u8>,
    /// Parts that name this one, and where in their content.
    holders: Vec<(usize, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartKind {
    Label,
    Uberblock,
    Frame,
    Block(BlockPtr),
}

/// Changed bytes by disk and offset.
pub(crate) type Writes = Vec<(usize, u64, Vec<u8>)>;

impl Golden {
    pub(crate) fn open() -> &'static Self {
        &GOLDEN
    }

    pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
        DEVICES.iter().map(|(path, ..)| *path)
    }

    fn read() -> Self {
        let disks: Vec<_> = DEVICES
            .iter()
            .map(|(_, bytes, packed)| Arc::new(zstd::bulk::decompress(packed, *bytes).expect("the fixture is whole")))
            .collect();
        let mut finder = Finder { disks: &disks, parts: Vec::new(), blocks: BTreeMap::new() };
        finder.find_blocks();
        finder.find_labels();
        finder.find_frames();
        let Finder { parts, .. } = finder;
        Self { disks, parts }
    }

    /// Seals changed parts and everything above them. `changed` holds contents by the number of their part.
    pub(crate) fn seal(&self, mut changed: BTreeMap<usize, Vec<u8>>) -> Writes {
        let mut writes = Vec::new();
        for (number, part) in self.parts.iter().enumerate() {
            let Some(mut content) = changed.remove(&number) else { continue };
            match part.kind {
                PartKind::Label => label::seal(&mut content, false),
                PartKind::Uberblock => {
                    content.truncate(SECTOR - 8);
                    uberblock::seal(&mut content);
                }
                PartKind::Frame => {
                    let before = frame::number(&part.content, frame::FIELD_BYTES);
                    let after = frame::seal(&mut content);
                    self.rechain(number, (before, after), &mut changed);
                }
                PartKind::Block(pointer) => {
                    // What no longer fits into its place stays as it was.
                    let Some(stored) = packed(&pointer, &content) else { continue };
                    let (psize, checksum) = (stored.len() as u32, block_checksum(&stored));
                    for (holder, at) in &part.holders {
                        let above = changed.entry(*holder).or_insert_with(|| self.parts[*holder].content.clone());
                        put(above, at + blocks::at::PSIZE, &psize.to_le_bytes());
                        put(above, at + blocks::at::CHECKSUM, &checksum.to_le_bytes());
                    }
                    content = stored;
                }
            }
            content.resize(content.len().next_multiple_of(SECTOR), 0);
            if let PartKind::Block(BlockPtr { copy: Some(copy), .. }) = part.kind {
                writes.push((part.disk, LABEL_BYTES + copy.offset, content.clone()));
            }
            writes.push((part.disk, part.offset, content));
        }
        writes
    }

    /// The frame behind a changed one must name it anew.
    fn rechain(&self, number: usize, (before, after): (u64, u64), changed: &mut BTreeMap<usize, Vec<u8>>) {
        let Some(next) = self.parts.get(number + 1).filter(|part| part.kind == PartKind::Frame) else { return };
        let content = changed.entry(number + 1).or_insert_with(|| next.content.clone());
        if frame::number(content, frame::at::PREV) == before {
            frame::put(content, frame::at::PREV, &after.to_le_bytes());
        }
    }

    /// The log's last frame.
    pub(crate) fn last_frame(&self) -> &Part {
        self.parts.iter().rfind(|part| part.kind == PartKind::Frame).expect("the image has a log")
    }
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + field.len()) {
        place.copy_from_slice(field);
    }
}

/// The bytes of a block as they stand on disk; `None` if they have become too long.
fn packed(pointer: &BlockPtr, content: &[u8]) -> Option<Vec<u8>> {
    let stored = match pointer.coding {
        Coding::Raw => content.to_vec(),
        Coding::Lz4 => lz4_flex::block::compress(content),
        Coding::Zstd => zstd::bulk::compress(content, 3).ok()?,
    };
    // A pointer names as many sectors as its block takes, and those of the old one are all that there is.
    let sectors = |bytes: usize| bytes.div_ceil(SECTOR);
    (sectors(stored.len()) == pointer.dva.sectors as usize && stored.len() <= content.len()).then_some(stored)
}

struct Finder<'a> {
    disks: &'a [Arc<Vec<u8>>],
    parts: Vec<Part>,
    /// Parts that are blocks, by offset.
    blocks: BTreeMap<u64, usize>,
}

impl Finder<'_> {
    fn uberblocks(&self) -> Vec<(usize, usize)> {
        let mut places = Vec::new();
        for (disk, bytes) in self.disks.iter().enumerate() {
            for label in [0, bytes.len() - LABEL_BYTES as usize] {
                let all = (0..UBERBLOCK_COUNT).map(|slot| (disk, label + UBERBLOCKS_AT + slot * SECTOR));
                places.extend(all.filter(|(_, at)| bytes[*at] != 0));
            }
        }
        places
    }

    /// Blocks first, the deepest of them first; then the uberblocks above them.
    fn find_blocks(&mut self) {
        let mut roots = Vec::new();
        for (disk, at) in self.uberblocks() {
            let content = self.disks[disk][at..at + SECTOR].to_vec();
            let root = BlockPtr::decode(content[ROOT_AT..].first_chunk().expect("64 bytes")).ok();
            roots.push((disk, at, root.and_then(|root| self.block(&root)), content));
        }
        for (disk, at, root, content) in roots {
            let number = self.parts.len();
            if let Some(root) = root {
                self.parts[root].holders.push((number, ROOT_AT));
            }
            self.add(PartKind::Uberblock, disk, at, content);
        }
    }

    fn add(&mut self, kind: PartKind, disk: usize, offset: usize, content: Vec<u8>) -> usize {
        self.parts.push(Part { kind, disk, offset: offset as u64, content, holders: Vec::new() });
        self.parts.len() - 1
    }

    /// The part of a block, found now or before; `None` if the pointer is none, or what it names was overwritten.
    fn block(&mut self, pointer: &BlockPtr) -> Option<usize> {
        if let Some(number) = self.blocks.get(&pointer.dva.offset) {
            // Where a block was overwritten by a younger one, older pointers lead to nothing.
            let is_same =
                matches!(self.parts[*number].kind, PartKind::Block(found) if found.checksum == pointer.checksum);
            return is_same.then_some(*number);
        }
        let start = usize::try_from(LABEL_BYTES.checked_add(pointer.dva.offset)?).ok()?;
        let stored = self.disks.first()?.get(start..start.checked_add(pointer.psize as usize)?)?;
        if pointer.dva.vdev != VdevIndex(0) || pointer.in_pieces || block_checksum(stored) != pointer.checksum {
            return None;
        }
        let lsize = pointer.lsize as usize;
        let content = match pointer.coding {
            Coding::Raw => stored.to_vec(),
            Coding::Lz4 => lz4_flex::block::decompress(stored, lsize).ok()?,
            Coding::Zstd => zstd::bulk::decompress(stored, lsize).ok()?,
        };
        let named: Vec<(usize, usize)> = (0..content.len().saturating_sub(BLOCK_PTR_BYTES - 1))
            .filter_map(|at| {
                let pointer = BlockPtr::decode(content.get(at..)?.first_chunk()?).ok()?;
                Some((at, self.block(&pointer)?))
            })
            .collect();
        let number = self.add(PartKind::Block(*pointer), 0, start, content);
        for (at, below) in named {
            self.parts[below].holders.push((number, at));
        }
        self.blocks.insert(pointer.dva.offset, number);
        Some(number)
    }

    fn find_labels(&mut self) {
        let disks = self.disks;
        for (disk, bytes) in disks.iter().enumerate() {
            for label in [0, bytes.len() - LABEL_BYTES as usize] {
                for slot in CONFIG_SLOTS.map(|slot| label + slot).into_iter().filter(|at| bytes[*at] != 0) {
                    let length = bytes[slot + LABEL_PAYLOAD_BYTES_AT..].first_chunk().expect("four bytes");
                    let length = LABEL_HEAD_BYTES + u32::from_le_bytes(*length) as usize;
                    let content = bytes[slot..slot + length].to_vec();
                    self.parts.push(Part {
                        kind: PartKind::Label,
                        disk,
                        offset: slot as u64,
                        content,
                        holders: vec![],
                    });
                }
            }
        }
    }

    /// The frames of the ring, in the order of the chain.
    fn find_frames(&mut self) {
        let disk = self.disks.len() - 1;
        let bytes = Arc::clone(&self.disks[disk]);
        let starts = (LABEL_BYTES as usize..bytes.len() - LABEL_BYTES as usize).step_by(SECTOR);
        for start in starts.filter(|start| bytes[*start..].starts_with(b"tallyfrm")) {
            let length = bytes[start + frame::at::PAYLOAD_BYTES..].first_chunk().expect("four bytes");
            let length = frame::HEADER_BYTES + u32::from_le_bytes(*length) as usize;
            self.add(PartKind::Frame, disk, start, bytes[start..start + length].to_vec());
        }
    }
}
