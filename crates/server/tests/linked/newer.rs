//! Disks that say, under right checksums, what this program does not read: a section of a label that cannot be there, and what a newer
//! program keeps in the catalog. What happened, to what, and what to do next is told by each door.

use tally_base::{block_checksum, log_checksum};
use tally_members::label::FORMAT_VERSION;
use tally_store::bp::{BLOCK_PTR_BYTES, BlockPtr, Coding};

use super::*;

const DISK_BYTES: u64 = 32 << 20;

/// Slots of a label's configuration, and of uberblocks; the drawing is in docs/on-disk.md.
const CONFIG_SLOTS: [usize; 2] = [0, 64 << 10];
const UBERBLOCKS: usize = 128 << 10;
const SECTOR: usize = 4096;

/// A pool that was exported, on a disk `a`, which `forge` has changed since.
fn forged(data_dir: &Path, opener: &Arc<MemOpener>, forge: impl FnOnce(&mut [u8])) {
    let disk = Arc::new(MemDisk::new(DISK_BYTES));
    opener.put(data_dir.join("a"), Arc::clone(&disk) as Arc<dyn Disk>);
    story(
        data_dir,
        &[
            (&["pool", "create", "dozer", "a"], true, &[]),
            (&["dataset", "create", "dozer/x"], true, &[]),
            (&["pool", "export", "dozer"], true, &[]),
        ],
    );
    let mut bytes = disk.content();
    forge(&mut bytes);
    disk.write(0, &bytes, Durability::Cached).unwrap();
    // `tally inspect` opens devices by itself.
    std::fs::write(data_dir.join("image"), &bytes).unwrap();
}

fn labels() -> [usize; 2] {
    [0, (DISK_BYTES - LABEL_BYTES) as usize]
}

/// Changes each slot that was written.
fn in_each_slot(disk: &mut [u8], change: impl Fn(&mut [u8])) {
    let starts = labels().into_iter().flat_map(|label| CONFIG_SLOTS.map(|slot| label + slot));
    for at in starts {
        let slot = &mut disk[at..at + CONFIG_SLOTS[1]];
        if slot.starts_with(b"TALLYLBL") {
            change(slot);
        }
    }
}

fn seal_header(slot: &mut [u8]) {
    let sum = log_checksum(&slot[..88]);
    slot[88..96].copy_from_slice(&sum.to_le_bytes());
}

/// The first section of each slot says that it is two gibibytes long.
fn lengthen_sections(disk: &mut [u8]) {
    in_each_slot(disk, |slot| {
        slot[96 + 4..96 + 8].copy_from_slice(&(1_u32 << 31).to_le_bytes());
        let length = u32::from_le_bytes(slot[12..16].try_into().unwrap()) as usize;
        let sum = block_checksum(&slot[96..96 + length]);
        slot[72..88].copy_from_slice(&sum.to_le_bytes());
        seal_header(slot);
    });
}

/// Labels of the format behind this one.
fn renumber_format(disk: &mut [u8]) {
    in_each_slot(disk, |slot| {
        slot[8..12].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
        seal_header(slot);
    });
}

/// Labels with a feature that no program of today has a name for.
fn set_a_feature(disk: &mut [u8]) {
    in_each_slot(disk, |slot| {
        slot[48 + 7] = 0x80;
        seal_header(slot);
    });
}

/// Labels that rot.
fn rot_labels(disk: &mut [u8]) {
    in_each_slot(disk, |slot| slot[100] ^= 0x40);
}

type Forger = fn(&mut [u8]);

/// An import without a name listed the pools, and said nothing of a disk whose labels it refused: as if it were empty.
#[test]
fn an_import_lists_disks_of_which_no_pool_is_made() {
    let cases: [(Forger, &str, &str); 4] = [
        (lengthen_sections, "a section that is longer than what is left of the label", "give the pool's other disks"),
        (renumber_format, "format version 3", "use a newer program"),
        (set_a_feature, "does not know", "use "),
        (rot_labels, "its labels are damaged", "imported from its other disks"),
    ];
    for (forge, why, next) in cases {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path();
        let opener = Arc::new(MemOpener::default());
        let daemon = Running::start(data_dir, &opener);
        let here = data_dir.display().to_string();
        let (find, find_json) = (["pool", "import", "-d", &here], ["--json", "pool", "import", "-d", &here]);
        let refused = data_dir.join("a").display().to_string();
        forged(data_dir, &opener, forge);
        for name in ["b", "blank"] {
            opener.create(&data_dir.join(name), DISK_BYTES, false, &mut |_| true).unwrap();
        }
        let disk = format!("   disk: {refused}\n status: ");
        story(data_dir, &[(&find, true, &["no such pools were found", &disk, why, next])]);
        story(
            data_dir,
            &[
                (&["pool", "create", "other", "b"], true, &[]),
                (&["pool", "export", "other"], true, &[]),
                (&find, true, &["pool: other", &disk, why, next]),
                (&["pool", "import", "-d", &here, "dozer"], false, &[&refused, why, next]),
            ],
        );
        let (_, json) = tally(data_dir, &find_json);
        let found: serde_json::Value = serde_json::from_str(&json).unwrap();
        let one = |value: &serde_json::Value| value.as_array().map(Vec::len) == Some(1);
        assert!(one(&found["pools"]) && one(&found["refused"]), "a disk without a label is none of ours: {json}");
        assert_eq!(
            (&found["pools"][0]["name"], &found["refused"][0]["path"]),
            (&"other".into(), &refused.as_str().into())
        );
        let reason = found["refused"][0]["reason"].as_str().unwrap();
        assert!(reason.contains(why) && reason.contains(next), "{reason}");
        daemon.stop();
    }
}

/// No memory is asked for by a length that a disk tells. The disk was passed over as if there were nothing on it: `import` found no
/// such pool, and `create` took it without asking.
#[test]
fn a_section_of_two_gibibytes_is_damage_of_a_label() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let daemon = Running::start(data_dir, &opener);
    forged(data_dir, &opener, lengthen_sections);
    let here = data_dir.display().to_string();
    let (disk, image) = (data_dir.join("a").display().to_string(), data_dir.join("image").display().to_string());
    let why = "a section that is longer than what is left of the label";
    story(
        data_dir,
        &[
            (&["pool", "import", "-d", &here], true, &["no such pools were found"]),
            (&["pool", "import", "-d", &here, "dozer"], false, &["dozer", &disk, why]),
            (&["pool", "import", "--readonly", "-d", &here, "dozer"], false, &["dozer", &disk, why]),
            (&["pool", "create", "other", "a"], false, &[&disk, why]),
            (&["inspect", &image], false, &["label", why]),
        ],
    );
    daemon.stop();
}

/// The group of the newest uberblock of a label, and where that stands in the label.
fn newest_uberblock(disk: &[u8], label: usize) -> (u64, usize) {
    let slots = (0..16).map(|slot| UBERBLOCKS + slot * SECTOR);
    let slots = slots.filter(|at| disk[label + at..].starts_with(b"TALLYUBR"));
    let txg = |at: usize| u64::from_le_bytes(disk[label + at + 32..][..8].try_into().unwrap());
    slots.map(|at| (txg(at), at)).max().unwrap()
}

/// A disk on which a leaf is changed, and all above it is sealed again.
struct Forge<'a> {
    disk: &'a mut [u8],
    /// Changes the bytes of a leaf, or says that this is not the one.
    change: fn(&mut [u8]) -> bool,
    /// The class of what is changed, if that is another one then: the node above names it, too.
    class: Option<u8>,
}

impl Forge<'_> {
    /// Changes what hangs from the newest uberblock.
    fn below_the_newest_uberblock(mut self) {
        let (_, newest) = newest_uberblock(self.disk, 0);
        let root = BlockPtr::decode(self.disk[newest + 80..][..BLOCK_PTR_BYTES].try_into().unwrap()).unwrap();
        let changed = self.block(&root).expect("there is such a leaf");
        for at in labels().map(|label| label + newest) {
            let slot = &mut self.disk[at..at + SECTOR];
            slot[80..80 + BLOCK_PTR_BYTES].copy_from_slice(&changed.encode());
            let sum = log_checksum(&slot[..4088]);
            slot[4088..].copy_from_slice(&sum.to_le_bytes());
        }
    }

    /// Changes the first such leaf that is this block or below it: what the pointer to it is then.
    fn block(&mut self, bp: &BlockPtr) -> Option<BlockPtr> {
        let mut content = self.content(bp)?;
        if content.starts_with(b"TLF2") && (self.change)(&mut content) {
            return Some(self.put(bp, &content));
        }
        for at in 0..content.len().saturating_sub(BLOCK_PTR_BYTES - 1) {
            let Ok(below) = BlockPtr::decode(content[at..at + BLOCK_PTR_BYTES].try_into().unwrap()) else { continue };
            let Some(changed) = self.block(&below) else { continue };
            content[at..at + BLOCK_PTR_BYTES].copy_from_slice(&changed.encode());
            if let Some(class) = self.class.filter(|_| content.starts_with(b"TND2")) {
                // Keys stand before all pointers.
                let keys = usize::from(u16::from_le_bytes([content[6], content[7]]));
                content[16 + (at - 16 - keys * 25) / BLOCK_PTR_BYTES * 25] = class;
            }
            return Some(self.put(bp, &content));
        }
        None
    }

    fn content(&self, bp: &BlockPtr) -> Option<Vec<u8>> {
        let start = (LABEL_BYTES + bp.dva.offset) as usize;
        let stored = self.disk.get(start..start + bp.psize as usize)?;
        if block_checksum(stored) != bp.checksum {
            return None;
        }
        match bp.coding {
            Coding::Raw => Some(stored.to_vec()),
            Coding::Lz4 => lz4_flex::block::decompress(stored, bp.lsize as usize).ok(),
            Coding::Zstd => None,
        }
    }

    /// Writes the content into the places of the block.
    fn put(&mut self, bp: &BlockPtr, content: &[u8]) -> BlockPtr {
        let stored = match bp.coding {
            Coding::Lz4 => lz4_flex::block::compress(content),
            _ => content.to_vec(),
        };
        assert_eq!(stored.len().div_ceil(SECTOR), bp.dva.sectors as usize, "it fits into its place");
        for dva in std::iter::once(bp.dva).chain(bp.copy) {
            let start = (LABEL_BYTES + dva.offset) as usize;
            let place = &mut self.disk[start..start + bp.dva.sectors as usize * SECTOR];
            place.fill(0);
            place[..stored.len()].copy_from_slice(&stored);
        }
        BlockPtr { psize: stored.len() as u32, checksum: block_checksum(&stored), ..*bp }
    }
}

/// In the catalog events stand under a class that is kept for replies: between theirs and that of commands, so that their leaf is in its
/// order all the same.
fn keep_replies(disk: &mut [u8]) {
    const EVENTS: u8 = 52;
    const KEPT: u8 = 50;
    let change = |leaf: &mut [u8]| {
        let is_it = leaf[4] == EVENTS;
        if is_it {
            leaf[4] = KEPT;
        }
        is_it
    };
    Forge { disk, change, class: Some(KEPT) }.below_the_newest_uberblock();
}

#[test]
fn what_a_newer_program_keeps_in_the_catalog_is_refused_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let daemon = Running::start(data_dir, &opener);
    forged(data_dir, &opener, keep_replies);
    let here = data_dir.display().to_string();
    let image = data_dir.join("image").display().to_string();
    let what = "replies in its catalog";
    let next = "no feature in its labels says which version";
    story(
        data_dir,
        &[
            (&["pool", "import", "-d", &here], true, &["dozer"]),
            (&["pool", "import", "-d", &here, "dozer"], false, &[what, next]),
            (&["pool", "import", "--readonly", "-d", &here, "dozer"], false, &[what, next]),
            (&["inspect", &image], true, &[what, "which only a newer program knows"]),
        ],
    );
    daemon.stop();
}

/// Each file's inode says that it has an access control list.
fn give_lists_to_files(disk: &mut [u8]) {
    const INODES: u8 = 0;
    const FILE: [u8; 2] = [2, 1];
    const LIST: usize = 116;
    let change = |leaf: &mut [u8]| {
        if leaf[4] != INODES {
            return false;
        }
        let count = usize::from(u16::from_le_bytes([leaf[6], leaf[7]]));
        let end = |at: usize| u32::from_le_bytes(leaf[16 + 24 * count + 4 * at..][..4].try_into().unwrap()) as usize;
        let starts: Vec<_> = (0..count).map(|at| if at == 0 { 0 } else { end(at - 1) }).collect();
        let values = 16 + 28 * count;
        let mut files = 0;
        for start in starts {
            let value = &mut leaf[values + start..];
            if value.starts_with(&FILE) {
                value[LIST] = 1;
                files += 1;
            }
        }
        files > 0
    };
    Forge { disk, change, class: None }.below_the_newest_uberblock();
}

/// A client's WRITE is in the log alone, as the power goes, and below it lies a file of a newer program. The record said all of the
/// inode, and went over what only that program knows; the file itself was listed as damage.
#[test]
fn a_record_above_a_file_of_a_newer_program_is_not_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let (daemon, disk, target) = serving(data_dir, &opener, &[]);
    let root = Connection::mount(&target).unwrap();
    let mut client = Connection::open(target.nfs).unwrap();
    let file = client.create(&root, "file").unwrap();
    client.write(&file, 0, b"as the newer program has it", Stable::FileSync).unwrap();
    // Its group brings the file to the pool.
    story(data_dir, &[(&["dataset", "create", "dozer/x"], true, &[])]);
    let group = |bytes: &[u8]| labels().map(|label| newest_uberblock(bytes, label).0);
    let mut bytes = loop {
        let before = group(&disk.content());
        client.write(&file, 0, b"what an older one has done since", Stable::FileSync).unwrap();
        let bytes = disk.content();
        // No group was on its way, which would have the WRITE, or be whole in one label alone.
        if before[0] == before[1] && group(&bytes) == before {
            break bytes;
        }
    };
    story(data_dir, &[(&["pool", "export", "dozer"], true, &[])]);
    give_lists_to_files(&mut bytes);
    disk.restore(&bytes);

    let here = data_dir.display().to_string();
    let (what, next) =
        ("which is an inode with an access control list, written by a newer version", "with that version");
    story(
        data_dir,
        &[
            (&["pool", "import", "-d", &here, "dozer"], false, &["dataset dozer: record", what, next, "--readonly"]),
            (&["pool", "import", "--accept-loss", "-d", &here, "dozer"], true, &[what]),
            (&["pool", "scrub", "-w", "dozer"], true, &[]),
            (&["pool", "status", "-v", "dozer"], true, &["state: ONLINE", "errors: No known data errors"]),
        ],
    );
    assert!(client.read(&file, 0, 100).is_err(), "nobody reads what he does not understand");
    story(data_dir, &[(&["pool", "status", "-v", "dozer"], true, &["errors: No known data errors"])]);
    daemon.stop();
}
