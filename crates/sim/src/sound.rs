//! A walk over everything: every block is reachable once, every checksum right, what is allocated is what is referenced,
//! and counts, sizes, names and links agree.

use std::collections::BTreeMap;

use tally_base::Txg;
use tally_base::codec::Reader;
use tally_fs::filer::Filer;
use tally_fs::inode::{Inode, Layout};
use tally_store::bp::{BLOCK_PTR_BYTES, BlockPtr};
use tally_store::dataset::OBJECT_CHARGE;
use tally_store::key::Class;
use tally_store::tree::Visit;
use tally_vfs::{FileKind, entry_charge};

/// What a walk over a dataset's tree has found.
#[derive(Default)]
struct Walked {
    inodes: BTreeMap<u64, Inode>,
    /// (directory, entry id) → object, kind, name.
    entries: BTreeMap<(u64, u64), (u64, u8, Vec<u8>)>,
    hashes: BTreeMap<(u64, u64, u64), u64>,
    extents: BTreeMap<(u64, u64), BlockPtr>,
    small: BTreeMap<u64, usize>,
    /// (object, hash of the name) → its parts, by number.
    xattrs: BTreeMap<(u64, u64), BTreeMap<u64, Vec<u8>>>,
    orphans: Vec<u64>,
    cut: Vec<u64>,
    block_bytes: u64,
    faults: Vec<String>,
}

/// What an extent takes in its leaf.
const EXTENT_BYTES: u64 = 128;

/// How often a pool is looked at anew, as a group came in between.
const LOOKS_MAX: usize = 1000;

/// Checks the whole pool as the newest durable group has it; nothing may be dirty.
///
/// What is reachable and what is allocated must be of one group: it is not enough that nothing is dirty, as a group that
/// somebody has asked for replaces the pool's own blocks all the same. (A scrub asks for one, to write down that it is over. Once,
/// under load, four sectors fewer were allocated than reachable; a group in between is how that can be, and was not seen.)
pub fn sound(filer: &Filer) -> Result<(), String> {
    let mut looks_left = LOOKS_MAX;
    loop {
        let before = resting_at(filer);
        let found = sound_if_resting(filer);
        looks_left -= 1;
        let is_of_one_group = before.is_some() && resting_at(filer) == before;
        if found.is_ok() || is_of_one_group || filer.pool().fault().is_some() || looks_left == 0 {
            return found;
        }
        std::thread::yield_now();
    }
}

/// The newest durable group, if no other one is on its way.
fn resting_at(filer: &Filer) -> Option<Txg> {
    let txgs = &filer.pool().txgs;
    let synced = txgs.last_synced();
    (txgs.open() == synced.next()).then_some(synced)
}

fn sound_if_resting(filer: &Filer) -> Result<(), String> {
    let pool = filer.pool();
    let mut faults = Vec::new();
    faults.extend(pool.check_catalog().err());
    let mut reachable = pool.top_bytes() + pool.io.allocator().own_bytes();
    for dataset in pool.datasets() {
        let root = dataset.root();
        let mut walked = Walked::default();
        let summary = root.tree.check(&pool.io, &mut |visit| walked.take(&visit));
        if summary.damage_count > 0 {
            faults.push(format!("{} damaged blocks", summary.damage_count));
        }
        if summary.entry_count != root.tree.entry_count() {
            faults.push(format!("{} entries, the root says {}", summary.entry_count, root.tree.entry_count()));
        }
        reachable += walked.block_bytes + walked.extents.values().map(BlockPtr::asize).sum::<u64>();
        for ((object, offset), block) in &walked.extents {
            if let Err(error) = pool.io.read(block) {
                faults.push(format!("extent {offset} of {object}: {error}"));
            }
            for dva in block.dvas() {
                if !pool.io.allocator().is_busy(&dva) {
                    faults.push(format!("extent {offset} of {object} lies at {dva}, which is free"));
                }
            }
        }
        walked.check_blocks_apart();
        walked.check_names(dataset.birth.name_key);
        walked.check_files();
        walked.check_xattrs(dataset.birth.name_key);
        let live = walked.inodes.values().filter(|inode| inode.nlink > 0 || !walked.orphans.is_empty()).count() as u64;
        if root.object_count != live {
            faults.push(format!("{live} objects, the root says {}", root.object_count));
        }
        let used: u64 = walked.inodes.values().map(|inode| inode.charged() + OBJECT_CHARGE).sum();
        if root.used_bytes != used {
            faults.push(format!("{used} bytes used, the root says {}", root.used_bytes));
        }
        let reserved: u64 = walked.inodes.values().map(Inode::reserved_bytes).sum();
        if root.reserved_bytes != reserved {
            faults.push(format!("{reserved} bytes reserved, the root says {}", root.reserved_bytes));
        }
        walked.check_reserved();
        let orphans = walked.orphans.len() + walked.cut.len();
        if root.orphan_count != orphans as u64 {
            faults.push(format!("{orphans} orphans, the root says {}", root.orphan_count));
        }
        if let Some(beyond) = walked.inodes.keys().max().filter(|id| **id >= root.next_object.0) {
            faults.push(format!("object {beyond} exists, and {} comes next", root.next_object));
        }
        faults.append(&mut walked.faults);
    }
    let space = pool.io.allocator().space();
    let promised: u64 = pool.datasets().iter().map(|dataset| dataset.root().reserved_bytes).sum();
    if promised > space.free + space.deferred || promised != pool.txgs.promised().promised_bytes {
        faults.push(format!("{promised} bytes are promised, {:?} by the pool; {space:?}", pool.txgs.promised()));
    }
    if space.allocated != reachable {
        faults.push(format!(
            "{} bytes are allocated and {reachable} reachable ({} sectors {}); {space:?}",
            space.allocated,
            space.allocated.abs_diff(reachable) / 4096,
            if space.allocated > reachable { "leaked" } else { "too few" },
        ));
    }
    if pool.io.allocator().bad_free_count() > 0 {
        faults.push(format!("{} bad frees", pool.io.allocator().bad_free_count()));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

/// The same of a pool in which something has rotted: what is behind it is not seen, and no count is right. What is named
/// is allocated, once, and nothing was freed that was free.
pub fn sound_above_rot(filer: &Filer) -> Result<(), String> {
    let pool = filer.pool();
    let (mut faults, mut blocks) = (Vec::new(), Vec::new());
    for dataset in pool.datasets() {
        let root = dataset.root();
        root.tree.check(&pool.io, &mut |visit| match visit {
            Visit::Block { bp, .. } | Visit::Damage { bp, .. } => blocks.push(*bp),
            Visit::Entry { key, value } if key.class == Class::Extent => {
                blocks.extend(<&[u8; BLOCK_PTR_BYTES]>::try_from(value).ok().and_then(|it| BlockPtr::decode(it).ok()));
            }
            Visit::Entry { .. } => {}
        });
    }
    let mut places: Vec<_> = blocks.iter().flat_map(BlockPtr::dvas).collect();
    places.sort_unstable();
    for dva in places.iter().filter(|dva| !pool.io.allocator().is_busy(dva)) {
        faults.push(format!("{dva} is named, and free"));
    }
    for pair in places.windows(2) {
        if pair[0].vdev == pair[1].vdev && pair[0].end() > pair[1].offset {
            faults.push(format!("blocks {} and {} overlap", pair[0], pair[1]));
        }
    }
    let reachable =
        pool.top_bytes() + pool.io.allocator().own_bytes() + blocks.iter().map(BlockPtr::asize).sum::<u64>();
    let allocated = pool.io.allocator().space().allocated;
    if allocated < reachable {
        faults.push(format!("{allocated} bytes are allocated and {reachable} reachable"));
    }
    if pool.io.allocator().bad_free_count() > 0 {
        faults.push(format!("{} bad frees", pool.io.allocator().bad_free_count()));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

impl Walked {
    fn take(&mut self, visit: &Visit<'_>) {
        match visit {
            Visit::Block { bp, .. } => self.block_bytes += bp.asize(),
            Visit::Damage { error, .. } => self.faults.push(error.to_string()),
            Visit::Entry { key, value } => match key.class {
                Class::Inode => match Inode::decode(&mut Reader::new(value, "inode")) {
                    Ok(inode) => {
                        self.inodes.insert(key.object, inode);
                    }
                    Err(error) => self.faults.push(format!("inode {}: {error}", key.object)),
                },
                Class::DirEntry => {
                    let object = u64::from_le_bytes(value[..8].try_into().unwrap());
                    self.entries.insert((key.object, key.a), (object, value[8], value[9..].to_vec()));
                }
                Class::DirHash => {
                    let object = u64::from_le_bytes((*value).try_into().unwrap());
                    self.hashes.insert((key.object, key.a, key.b), object);
                }
                Class::Extent => {
                    let bytes: &[u8; BLOCK_PTR_BYTES] = (*value).try_into().unwrap();
                    self.extents.insert((key.object, key.a), BlockPtr::decode(bytes).unwrap());
                }
                Class::Small => {
                    self.small.insert(key.object, value.len());
                }
                // Of a file that stays only some is for the reaper.
                Class::Orphan if key.a == 0 => self.orphans.push(key.object),
                Class::Orphan => self.cut.push(key.object),
                Class::Xattr => {
                    self.xattrs.entry((key.object, key.a)).or_default().insert(key.b, value.to_vec());
                }
                Class::Dataset | Class::Job | Class::Damage | Class::History | Class::Mark | Class::Event => {
                    self.faults.push(format!("{key:?}"));
                }
            },
        }
    }

    /// What is reserved of a file is no less than its blocks may still take, and no more than all of them could. A block takes its place until it is freed.
    fn check_reserved(&mut self) {
        for (id, inode) in self.inodes.iter().filter(|(_, inode)| inode.reserved.is_some()) {
            let blocks = self.extents.range((*id, 0)..=(*id, u64::MAX));
            let there = blocks.filter(|((_, at), _)| inode.is_reserved(*at));
            let taken_bytes = match inode.layout {
                Layout::Small => inode.used + EXTENT_BYTES,
                Layout::Extents => there.map(|(_, block)| block.asize() + EXTENT_BYTES).sum(),
            };
            let (has, needs) = (inode.reserved_bytes(), inode.reserved_beside(taken_bytes));
            if has < needs || has > inode.reserved_beside(0) {
                let most = inode.reserved_beside(0);
                self.faults
                    .push(format!("{has} bytes are reserved of file {id}, which may still take {needs} of {most}"));
            }
        }
    }

    /// Each is whole, under the hash of its name, and what its object says that it has.
    fn check_xattrs(&mut self, name_key: u64) {
        let mut found: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
        for ((object, hash), parts) in &self.xattrs {
            let whole = parts.values().flatten().copied().collect::<Vec<u8>>();
            let are_in_order = parts.keys().copied().eq(0..parts.len() as u64);
            let lengths = whole.split_first_chunk::<5>().filter(|_| are_in_order);
            let Some(([name_bytes, value_bytes @ ..], rest)) = lengths else {
                self.faults.push(format!("parts {:?} of an extended attribute of {object}", parts.keys()));
                continue;
            };
            let (name, value) = rest.split_at(usize::from(*name_bytes).min(rest.len()));
            if value.len() != u32::from_le_bytes(*value_bytes) as usize
                || tally_base::name_hash(name_key, name) != *hash
            {
                self.faults.push(format!("{} of {object} is not whole", String::from_utf8_lossy(name)));
            }
            let (count, bytes) = found.entry(*object).or_default();
            (*count, *bytes) = (*count + 1, *bytes + tally_vfs::xattr_charge(name, value.len()));
            if !self.inodes.contains_key(object) {
                self.faults.push(format!("{} of {object}, which is not there", String::from_utf8_lossy(name)));
            }
        }
        for (id, inode) in self.inodes.iter().filter(|(id, _)| !self.orphans.contains(id)) {
            let (found, told) = (found.get(id).copied().unwrap_or_default(), (inode.xattrs.count, inode.xattrs.bytes));
            if found != told {
                self.faults.push(format!("object {id} has {found:?} of extended attributes and says {told:?}"));
            }
        }
    }

    fn check_blocks_apart(&mut self) {
        let mut places: Vec<_> = self.extents.values().flat_map(BlockPtr::dvas).collect();
        places.sort_unstable();
        for pair in places.windows(2) {
            if pair[0].vdev == pair[1].vdev && pair[0].end() > pair[1].offset {
                self.faults.push(format!("blocks {} and {} overlap", pair[0], pair[1]));
            }
        }
    }

    fn check_names(&mut self, name_key: u64) {
        let mut links: BTreeMap<u64, u32> = BTreeMap::new();
        let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
        let mut subdirectories: BTreeMap<u64, u32> = BTreeMap::new();
        let mut faults = Vec::new();
        for ((dir, entry), (object, kind, name)) in &self.entries {
            let shown = String::from_utf8_lossy(name);
            *links.entry(*object).or_default() += 1;
            *sizes.entry(*dir).or_default() += 1;
            if self.inodes.get(dir).is_none_or(|inode| inode.kind != FileKind::Directory) {
                faults.push(format!("entry {shown} is in {dir}, which is no directory"));
            }
            let hash = tally_base::name_hash(name_key, name);
            if self.hashes.get(&(*dir, hash, *entry)) != Some(object) {
                faults.push(format!("entry {shown} of {dir} is not found by its hash"));
            }
            let Some(inode) = self.inodes.get(object) else {
                faults.push(format!("entry {shown} of {dir} names {object}, which is not there"));
                continue;
            };
            if inode.kind as u8 != *kind {
                faults.push(format!("entry {shown} of {dir} says kind {kind}, its object {:?}", inode.kind));
            }
            if inode.kind == FileKind::Directory {
                *subdirectories.entry(*dir).or_default() += 1;
                if inode.parent.0 != *dir {
                    faults.push(format!("{shown} is in {dir} and says {}", inode.parent));
                }
            }
        }
        for (id, inode) in self.inodes.iter().filter(|(_, inode)| inode.entry.0 != 0) {
            let named = self.entries.get(&(inode.parent.0, inode.entry.0)).map(|(object, ..)| object);
            if named != Some(id) {
                faults.push(format!(
                    "{id} says that it is entry {} of {}, which is {named:?}",
                    inode.entry, inode.parent
                ));
            }
        }
        if self.hashes.len() != self.entries.len() {
            faults.push(format!("{} hashes for {} entries", self.hashes.len(), self.entries.len()));
        }
        for (id, inode) in self.inodes.iter().filter(|(id, _)| !self.orphans.contains(id)) {
            let named = links.get(id).copied().unwrap_or(0);
            let is_root = inode.kind == FileKind::Directory && inode.parent.0 == *id;
            let expected = match inode.kind {
                FileKind::Directory => 2 + subdirectories.get(id).copied().unwrap_or(0),
                _ => named,
            };
            if inode.nlink != expected || (named == 0 && !is_root) {
                faults.push(format!("object {id} has {named} names and says {} links, not {expected}", inode.nlink));
            }
            let size = 2 + sizes.get(id).copied().unwrap_or(0);
            if inode.kind == FileKind::Directory && inode.size != size {
                faults.push(format!("directory {id} says size {}, not {size}", inode.size));
            }
        }
        self.faults.append(&mut faults);
    }

    fn check_files(&mut self) {
        let mut used: BTreeMap<u64, u64> = BTreeMap::new();
        for ((dir, _), (_, _, name)) in &self.entries {
            *used.entry(*dir).or_default() += entry_charge(name);
        }
        let mut faults = Vec::new();
        for ((object, offset), block) in &self.extents {
            *used.entry(*object).or_default() += block.asize();
            match self.inodes.get(object) {
                None => faults.push(format!("an extent of {object}, which is not there")),
                Some(inode) if *offset >= inode.size && inode.nlink > 0 && !inode.has_cut(*offset, block.birth) => {
                    faults.push(format!("an extent at {offset} of {object}, which ends at {}", inode.size));
                }
                Some(inode) if offset % inode.record_size() != 0 => {
                    faults.push(format!("an extent at {offset} of {object}, inside a block"));
                }
                Some(_) => {}
            }
        }
        for (object, length) in &self.small {
            *used.entry(*object).or_default() += *length as u64;
            match self.inodes.get(object) {
                None => faults.push(format!("content of {object}, which is not there")),
                Some(inode) if *length as u64 > inode.size => {
                    faults.push(format!("{length} bytes of {object}, which has {}", inode.size));
                }
                Some(_) => {}
            }
        }
        let with_cuts: Vec<u64> =
            self.inodes.iter().filter(|(_, inode)| inode.cuts.is_some()).map(|(id, _)| *id).collect();
        if self.cut != with_cuts {
            faults.push(format!("objects {with_cuts:?} have cuts, and the reaper's list is {:?}", self.cut));
        }
        for (id, inode) in &self.inodes {
            // A long target stands in a key of its own, and is counted there.
            let found = used.get(id).copied().unwrap_or(0) + inode.target.len() as u64;
            if inode.used != found {
                faults.push(format!("object {id} uses {found} bytes and says {}", inode.used));
            }
        }
        self.faults.append(&mut faults);
    }
}
