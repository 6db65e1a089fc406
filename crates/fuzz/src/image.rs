//! A whole pool: the golden image with changes in any of its parts, sealed again ([`crate::golden`]), imported and
//! inspected.
//!
//! ```text
//!   0         per change:
//!   +-------+ +--------+----------+-----------+-------+
//!   | flags | | part 2 | offset 2 | length 1  | bytes |      part 0xffff: the bytes are the body of one more log record
//!   +-------+ +--------+----------+-----------+-------+
//! ```

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tally_base::{FileTime, SECTOR};
use tally_disk::{Disk, Durability, Geometry, Helpers, Host, Platform, SerialFanout};
use tally_fakes::MemOpener;
use tally_fs::Filer;
use tally_fs::filer::{FilerError, ImportOptions};
use tally_fs::inspect::FsWords;
use tally_members::assemble::PoolSelect;
use tally_members::discover::ImportSource;
use tally_store::inspect::{Plan, inspect as inspect_pools};
use tally_store::tuning::Tuning;
use tally_vfs::{
    Attributes, CreateHow, Cred, FileKind, FsError, Identity, ObjectRef, OpCtx, SetAttr, SetTime, SetXattr, Stability,
    Vfs,
};

use crate::frame;
use crate::golden::{Golden, Writes};
use crate::heap;
use crate::input::Input;
use crate::world::{Counted, Ticks};

/// Bits of the flags.
const ACCEPT_LOSS: u8 = 1;
const FORCE: u8 = 2;
const DESTROYED: u8 = 4;
/// The changes are not sealed: rot.
const ROT: u8 = 8;
/// It is imported for reading, and not for writing.
const READ_ONLY: u8 = 16;

/// The part number that stands for one more record.
pub(crate) const RECORD: u16 = 0xffff;
/// Changes of one input.
const CHANGES_MAX: usize = 32;
/// The longest record: what fits into a frame of the image's log with room to spare.
const RECORD_BYTES_MAX: usize = 32 << 10;
/// Objects that are looked at in each dataset.
const OBJECTS_MAX: usize = 64;
const READ_BYTES: u32 = 64 << 10;
/// Times are looked for behind a file's content, too.
const MIB: u64 = 1 << 20;

/// The bounds of a pool's memory as it is imported here, and what scans and merges hold beside them: two chunks of each
/// ring, and a block of 16 MiB, packed, expanded and cached.
const HEAP_BYTES: usize = 128 << 20;

/// Imports it, for reading only or to use it, sync it, and import what was synced.
pub(crate) fn import(data: &[u8]) -> bool {
    Golden::open();
    heap::at_most(HEAP_BYTES, || {
        let (flags, writes) = changes(data);
        let disks = Disks::of(&writes);
        let options = ImportOptions {
            force: flags & FORCE != 0,
            read_only: flags & READ_ONLY != 0,
            accept_loss: flags & ACCEPT_LOSS != 0,
            destroyed: flags & DESTROYED != 0,
        };
        let Ok(filer) = disks.import(&options) else { return false };
        look_around(&filer);
        if options.read_only {
            return true;
        }
        for dataset in filer.datasets() {
            if let Some(fs) = filer.by_name(&dataset.name) {
                work(&*fs);
            }
        }
        let is_synced = filer.sync().is_ok() && filer.sync().is_ok();
        let is_put_away = is_synced && filer.export().is_ok();
        drop(filer);
        if is_put_away {
            let again = disks.import(&ImportOptions::default()).map(|filer| look_around(&filer));
            again.unwrap_or_else(|error| panic!("a pool that was put away cannot be imported: {error}"));
        }
        is_put_away
    })
}

/// Looks at everything, in every word that there is.
pub(crate) fn inspect(data: &[u8]) -> bool {
    Golden::open();
    heap::at_most(HEAP_BYTES, || {
        let (_, writes) = changes(data);
        let disks = Disks::of(&writes);
        let trees = ["tank", "tank/home"].map(str::to_owned).to_vec();
        let plan = Plan { labels: true, uberblocks: true, log: true, trees, space: true, data: true, verbose: true };
        let mut damage_count = 0;
        let mut say = |fact: &tally_store::inspect::Fact| {
            damage_count += u64::from(fact.is_damage());
            drop(fact.to_string());
        };
        let opener = disks.opener();
        let outcome = inspect_pools(&opener, &Disks::source(), &plan, &FsWords, &mut say).expect("paths can be listed");
        assert_eq!(outcome.damage_count, damage_count, "all damage is said");
        outcome.pool_count > 0 && damage_count == 0
    })
}

/// Flags, and what an input changes.
fn changes(data: &[u8]) -> (u8, Writes) {
    let golden = Golden::open();
    let mut input = Input::new(data);
    let flags = input.u8();
    let mut changed: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    let mut records = Vec::new();
    for _ in 0..CHANGES_MAX {
        if input.is_empty() {
            break;
        }
        let (part, offset, length) = (input.u16(), input.u16(), input.u8());
        if part == RECORD {
            records.push((offset, input.blob().to_vec()));
            continue;
        }
        let number = usize::from(part) % golden.parts.len();
        let content = changed.entry(number).or_insert_with(|| golden.parts[number].content.clone());
        let start = usize::from(offset) % content.len();
        let bytes = input.bytes(usize::from(length));
        let count = bytes.len().min(content.len() - start);
        content[start..start + count].copy_from_slice(&bytes[..count]);
    }
    let mut writes = if flags & ROT == 0 { golden.seal(changed) } else { rot(golden, changed) };
    append(golden, &records, &mut writes);
    (flags, writes)
}

/// Changed parts as they are, without a checksum that fits. What is packed on disk is not changed.
fn rot(golden: &Golden, changed: BTreeMap<usize, Vec<u8>>) -> Writes {
    changed
        .into_iter()
        .map(|(number, mut content)| {
            content.resize(content.len().next_multiple_of(SECTOR), 0);
            let part = &golden.parts[number];
            (part.disk, part.offset, content)
        })
        .collect()
}

/// Records behind the last one of the log, each in a frame of its own. The first number is kind and dataset.
fn append(golden: &Golden, records: &[(u16, Vec<u8>)], writes: &mut Writes) {
    let last = golden.last_frame();
    let mut offset = last.offset;
    // The last frame may have been changed, and is what the next one must name.
    let changed = writes.iter().find(|(disk, at, _)| (*disk, *at) == (last.disk, last.offset));
    let mut before = changed.map_or_else(|| last.content.clone(), |(.., bytes)| bytes[..last.content.len()].to_vec());
    let mut dseq = frame::number(&last.content, frame::HEADER_BYTES + 16);
    for (head, body) in records {
        let body = &body[..body.len().min(RECORD_BYTES_MAX)];
        dseq += 1;
        let mut next = before[..frame::HEADER_BYTES].to_vec();
        let length = before.len().next_multiple_of(SECTOR) as u64;
        let count = u32::from_le_bytes(before[frame::at::RECORD_COUNT..][..4].try_into().expect("four bytes"));
        let [kind, dataset] = head.to_le_bytes();
        for (at, number) in [
            (frame::at::POS, frame::number(&before, frame::at::POS).wrapping_add(length)),
            (frame::at::SEQ, frame::number(&before, frame::at::SEQ).wrapping_add(1)),
            (frame::at::PREV, frame::number(&before, frame::FIELD_BYTES)),
            (frame::at::FIRST_LSN, frame::number(&before, frame::at::FIRST_LSN).wrapping_add(u64::from(count))),
        ] {
            frame::put(&mut next, at, &number.to_le_bytes());
        }
        frame::put(&mut next, frame::at::RECORD_COUNT, &1_u32.to_le_bytes());
        next.extend((body.len() as u32).to_le_bytes());
        next.extend([kind, 0, 0, 0]);
        for number in [u64::from(dataset % 3 + 1), dseq, frame::number(&before, frame::at::TXG_MAX)] {
            next.extend(number.to_le_bytes());
        }
        next.extend_from_slice(body);
        next.resize(next.len().next_multiple_of(8), 0);
        frame::seal(&mut next);
        offset += length;
        before.clone_from(&next);
        next.resize(next.len().next_multiple_of(SECTOR), 0);
        writes.push((last.disk, offset, next));
    }
}

/// The image's devices, changed.
struct Disks(Vec<(&'static str, Arc<Overlay>)>);

impl Disks {
    fn of(writes: &Writes) -> Self {
        let golden = Golden::open();
        let disks: Vec<_> =
            Golden::paths().zip(&golden.disks).map(|(path, base)| (path, Arc::new(Overlay::new(base)))).collect();
        for (disk, offset, bytes) in writes {
            disks[*disk].1.put(*offset, bytes);
        }
        Self(disks)
    }

    fn opener(&self) -> MemOpener {
        let opener = MemOpener::default();
        for (path, disk) in &self.0 {
            opener.put(*path, Arc::clone(disk) as Arc<dyn Disk>);
        }
        opener
    }

    fn source() -> ImportSource {
        ImportSource { paths: vec![], dirs: vec!["/disks".into()] }
    }

    fn import(&self, options: &ImportOptions) -> Result<Arc<Filer>, FilerError> {
        let platform = Platform {
            clock: Arc::new(Ticks::new()),
            rng: Arc::new(Counted::new()),
            opener: Arc::new(self.opener()),
            fanout: Arc::new(SerialFanout),
            helpers: Helpers::Serial,
            host: Host { id: 1, name: "fuzz".into() },
        };
        let tuning = Tuning { cache_bytes: 4 << 20, dirty_bytes_max: 16 << 20, ..Tuning::default() };
        let select = PoolSelect::Name("tank".into());
        let imported = Filer::import(&platform, &tuning, &Self::source(), &select, options, &mut |_| {});
        imported.map(|(filer, _)| filer)
    }
}

/// Sectors of an image, and those that were written since.
struct Overlay {
    base: Arc<Vec<u8>>,
    written: Mutex<BTreeMap<u64, Box<[u8]>>>,
}

impl Overlay {
    fn new(base: &Arc<Vec<u8>>) -> Self {
        Self { base: Arc::clone(base), written: Mutex::default() }
    }

    fn put(&self, offset: u64, bytes: &[u8]) {
        let mut written = self.written.lock();
        for (at, sector) in (offset / SECTOR as u64..).zip(bytes.chunks(SECTOR)) {
            written.insert(at, sector.into());
        }
    }

    fn range(&self, offset: u64, length: usize) -> io::Result<std::ops::Range<usize>> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let end = start.checked_add(length).filter(|end| *end <= self.base.len());
        end.map(|end| start..end).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }
}

impl Disk for Overlay {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        buf.copy_from_slice(&self.base[self.range(offset, buf.len())?]);
        let first = offset / SECTOR as u64;
        for (at, sector) in self.written.lock().range(first..first + (buf.len() / SECTOR) as u64) {
            let start = (at - first) as usize * SECTOR;
            buf[start..start + SECTOR].copy_from_slice(sector);
        }
        Ok(())
    }

    fn write(&self, offset: u64, buf: &[u8], _: Durability) -> io::Result<()> {
        self.range(offset, buf.len())?;
        self.put(offset, buf);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn geometry(&self) -> Geometry {
        Geometry { size: self.base.len() as u64, rotational: false, write_through: true }
    }
}

/// Reads what a client could read.
fn look_around(filer: &Filer) {
    for dataset in filer.datasets() {
        let Some(fs) = filer.by_name(&dataset.name) else { continue };
        let _ = fs.statfs();
        let mut found = vec![fs.root()];
        let mut at = 0;
        while let Some(object) = found.get(at).copied().filter(|_| at < OBJECTS_MAX) {
            at += 1;
            look_at(&*fs, object, &mut found);
        }
    }
}

fn look_at(fs: &dyn Vfs, object: ObjectRef, found: &mut Vec<ObjectRef>) {
    let cred = Cred::root();
    let Ok(attr) = fs.getattr(object) else { return };
    for name in fs.list_xattrs(&cred, object, 0).unwrap_or_default() {
        let _ = fs.xattr(&cred, object, &name.name);
    }
    match attr.kind {
        FileKind::Directory => {
            let Ok(page) = fs.readdir(&cred, object, 0, OBJECTS_MAX, true) else { return };
            for entry in &page.entries {
                let looked_up = fs.lookup(&cred, object, &entry.name);
                found.extend(looked_up.ok().map(|(attr, _)| attr.object).filter(|object| !found.contains(object)));
            }
        }
        FileKind::Symlink => drop(fs.readlink(object)),
        FileKind::File => {
            for offset in [0, attr.size / 2, attr.size.saturating_sub(1), attr.size.saturating_add(MIB)] {
                let Ok(read) = fs.read(&cred, object, offset, READ_BYTES) else { continue };
                let bytes: usize = read.data.iter().map(Bytes::len).sum();
                assert!(bytes <= READ_BYTES as usize, "{bytes} bytes were read");
            }
        }
        _ => {}
    }
}

/// Changes what is there, and makes something new. Nobody waits: the sync behind it does.
fn work(fs: &dyn Vfs) {
    let cred = Cred::root();
    let ctx = OpCtx::of(&cred);
    let set = SetAttr { mode: Some(0o755), mtime: Some(SetTime::Client(FileTime::new(1, 2))), ..SetAttr::default() };
    let root = fs.root();
    let Ok(page) = fs.readdir(&cred, root, 0, OBJECTS_MAX, true) else { return };
    for (entry, turn) in page.entries.iter().skip(2).zip(0_u64..) {
        let Ok((attr, _)) = fs.lookup(&cred, root, &entry.name) else { continue };
        match turn % 4 {
            0 => drop(fs.rename(ctx, root, &entry.name, root, b"renamed").result),
            1 => drop(fs.remove(ctx, root, &entry.name).result),
            2 => drop(fs.link(ctx, attr.object, root, b"linked").result),
            _ => drop(fs.rmdir(ctx, root, &entry.name).result),
        }
        let size = SetAttr { size: Some(attr.size / 2 + turn), ..set.clone() };
        let _ = fs.setattr(ctx, attr.object, &size, None).result;
        let _ = fs.write(ctx, attr.object, attr.size, Bytes::from_static(b"more"), Stability::Unstable).result;
        let _ = fs.commit(ctx, attr.object, 0, 0).result;
        let _ = fs.set_xattr(ctx, attr.object, b"user.note", &[7; 40_000], SetXattr::Either).result;
        let _ = fs.remove_xattr(ctx, attr.object, b"user.other").result;
    }
    let Ok(dir) = fs.mkdir(ctx, root, b"made by the fuzzer", &set).result else { return };
    let file: Result<_, FsError> = fs.create(ctx, dir.object, b"file", &CreateHow::Guarded(set.clone())).result;
    if let Ok(file) = file {
        let content = Bytes::from(vec![7; 200_000]);
        let _ = fs.write(ctx, file.object, 3, content, Stability::FileSync).result;
    }
}
