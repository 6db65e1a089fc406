//! Ranges that are punched into files: what they show behind folds, crashes and reapers, in which order beside what is in no log, and how much
//! of it one group frees.

mod world;

use std::sync::Arc;

use tally_base::SECTOR;
use tally_disk::Disk;
use tally_fs::Filer;
use tally_fs::filer::{CreateOptions, ImportOptions};
use tally_members::label::LABEL_BYTES;
use tally_store::bp::BlockPtr;
use tally_store::key::{Class, Key};
use tally_store::properties::{Property, parse};
use tally_store::tree::Visit;
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, FsError, ObjectRef, SetAttr, Sought, Stability, Vfs};
use world::{Dice, World, content, ctx, done, mode, noise, vfs};

const RECORD: u64 = 4 << 10;
/// Extents that a group may look at.
const REAPED: usize = 16;

/// A file in a pool where nothing happens by itself.
struct Punching {
    world: World,
    filer: Arc<Filer>,
    fs: Arc<dyn Vfs>,
    cred: Cred,
    file: ObjectRef,
    tuning: Tuning,
}

impl Punching {
    fn new() -> Self {
        Self::reaping(REAPED)
    }

    fn reaping(reap_extents_max: usize) -> Self {
        let world = World::new(64 << 20, 16 << 20);
        let properties = [(Property::RecordSize, "4K"), (Property::Compression, "off")];
        let properties = properties.map(|(property, value)| parse(property, value).unwrap()).into_iter().collect();
        let filer = world.create_without_threads(&CreateOptions { properties, ..CreateOptions::default() });
        let (cred, fs) = (Cred::root(), vfs(&filer));
        let made = done(fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o644))));
        let file = made.expect("an empty pool").object;
        filer.export().expect("nothing is in the way");
        let tuning = Tuning { reap_extents_max, ..Tuning::default() };
        let filer = imported(&world, &tuning);
        Self { fs: vfs(&filer), world, filer, cred, file, tuning }
    }

    fn write(&self, offset: u64, data: &[u8], how: Stability) {
        let data = bytes::Bytes::copy_from_slice(data);
        done(self.fs.write(ctx(&self.cred), self.file, offset, data, how)).expect("there is room");
    }

    /// Blocks full of noise, synced.
    fn blocks(&self, from: u64, count: u64, seed: u64) {
        self.write(from * RECORD, &noise((count * RECORD) as usize, seed), Stability::Unstable);
        self.sync();
    }

    fn punch(&self, offset: u64, length: u64) -> Result<(), FsError> {
        done(self.fs.deallocate(ctx(&self.cred), self.file, offset, length))
    }

    /// Whether it was let in.
    fn try_to_punch(&self, offset: u64, length: u64) -> bool {
        let outcome = self.fs.deallocate(ctx(&self.cred), self.file, offset, length);
        if outcome.result == Err(FsError::Throttled) {
            return false;
        }
        done(outcome).expect("it is let in");
        true
    }

    fn resize(&self, bytes: u64) {
        let set = SetAttr { size: Some(bytes), ..SetAttr::default() };
        done(self.fs.setattr(ctx(&self.cred), self.file, &set, None)).expect("a size");
    }

    fn sync(&self) {
        self.filer.sync().expect("there is room");
    }

    fn cut_power(&mut self) {
        self.world = self.world.cut();
        self.filer = imported(&self.world, &self.tuning);
        self.fs = vfs(&self.filer);
    }

    fn reap(&self) {
        for _ in 0..10_000 {
            if !self.is_waiting() {
                return;
            }
            self.sync();
        }
        panic!("{} extents are left", self.extents());
    }

    fn is_waiting(&self) -> bool {
        self.filer.pool().datasets()[0].root().orphan_count > 0
    }

    fn used_blocks(&self) -> u64 {
        self.filer.pool().datasets()[0].root().used_bytes / RECORD
    }

    fn extents(&self) -> u64 {
        let root = self.filer.pool().datasets()[0].root();
        let key = |offset| Key::new(Class::Extent, self.file.id.0, offset, 0);
        root.tree.range(&self.filer.pool().io, &key(0), &key(u64::MAX)).count() as u64
    }

    fn seek(&self, offset: u64, what: Sought) -> u64 {
        self.fs.seek(ctx(&self.cred), self.file, offset, what).expect("within the file").offset
    }

    fn shown(&self) -> Vec<u8> {
        content(&*self.fs, self.file)
    }
}

fn imported(world: &World, tuning: &Tuning) -> Arc<Filer> {
    world.try_import_without_threads(tuning, &ImportOptions::default()).expect("it was a pool").0
}

/// Where the leaves of extents lie.
fn leaves(filer: &Filer) -> Vec<BlockPtr> {
    let pool = filer.pool();
    let (mut leaves, mut last) = (Vec::new(), None);
    pool.datasets()[0].root().tree.check(&pool.io, &mut |visit| match visit {
        Visit::Block { bp, .. } => last = Some(*bp),
        Visit::Entry { key, .. } if key.class == Class::Extent => leaves.extend(last.take()),
        _ => {}
    });
    leaves
}

fn first_leaf(filer: &Filer) -> BlockPtr {
    *leaves(filer).first().expect("there is one")
}

fn last_leaf(filer: &Filer) -> BlockPtr {
    *leaves(filer).last().expect("there is one")
}

/// Damages a block in all its places, or mends it again.
fn flip(world: &World, block: &BlockPtr) {
    for dva in block.dvas() {
        let (at, mut sector) = (LABEL_BYTES + dva.offset, [0; SECTOR]);
        world.at("/disks/data").read(at, &mut sector).unwrap();
        world.poke("/disks/data", at, &[!sector[0]]);
    }
}

fn stored_blocks(content: &[u8]) -> u64 {
    content.chunks(RECORD as usize).filter(|block| block.iter().any(|byte| *byte != 0)).count() as u64
}

#[test]
fn whole_blocks_become_holes_and_borders_are_written_anew() {
    let mut punching = Punching::reaping(1000);
    punching.blocks(0, 20, 1);
    let mut expected = noise(20 * RECORD as usize, 1).to_vec();
    let (from, to) = (3 * RECORD + 100, 12 * RECORD + 50);
    punching.punch(from, to - from).unwrap();
    expected[from as usize..to as usize].fill(0);
    for _ in 0..2 {
        assert!(punching.shown() == expected);
        assert_eq!(punching.seek(5 * RECORD, Sought::Data) / RECORD, 12);
        assert_eq!(punching.seek(0, Sought::Hole).div_ceil(RECORD), 4);
        punching.sync();
    }
    assert_eq!((punching.extents(), punching.used_blocks()), (12, 12), "4 to 11 are free");
    assert_eq!(punching.fs.getattr(punching.file).unwrap().used, 12 * RECORD);
    punching.cut_power();
    assert!(punching.shown() == expected);
    // All in one block, and the same once more.
    for _ in 0..2 {
        punching.punch(RECORD / 2, 10).unwrap();
        expected[RECORD as usize / 2..][..10].fill(0);
        punching.sync();
        assert!(punching.shown() == expected);
    }
    punching.punch(0, 1 << 62).unwrap();
    punching.sync();
    assert_eq!((punching.extents(), punching.used_blocks()), (0, 0));
    assert_eq!(punching.shown(), vec![0; 20 * RECORD as usize]);
}

/// Files under one key, also while they outgrow it.
#[test]
fn small_files_are_punched_too() {
    let punching = Punching::new();
    punching.write(0, &[7; 3000], Stability::FileSync);
    punching.sync();
    punching.punch(1000, 500).unwrap();
    let mut expected = [&[7; 1000][..], &[0; 500], &[7; 1500]].concat();
    assert_eq!(punching.shown(), expected);
    punching.sync();
    assert_eq!(punching.shown(), expected);
    punching.punch(2000, 2000).unwrap();
    punching.write(9000, b"and more", Stability::Unstable);
    expected[2000..].fill(0);
    expected.resize(9000, 0);
    expected.extend(b"and more");
    punching.sync();
    assert!(punching.shown() == expected);
    punching.punch(0, 9000).unwrap();
    punching.sync();
    assert_eq!(punching.extents(), 1);
}

/// A WRITE that was in no log was punched and came back when its group had been synced before the crash, or with the COMMIT of what stood
/// beside it; or what was written behind a punch was gone.
#[test]
fn a_punch_stands_where_it_came_beside_what_is_in_no_log() {
    let mut punching = Punching::new();
    punching.resize(16 * RECORD);
    punching.sync();
    let (one, two) = (noise(8 * RECORD as usize, 1), noise(8 * RECORD as usize, 2));
    let commit = |punching: &Punching| {
        done(punching.fs.commit(ctx(&punching.cred), punching.file, 0, 0)).expect("the log takes it");
    };
    // Punched behind an unstable WRITE, of which the rest is committed.
    punching.write(0, &one, Stability::Unstable);
    punching.punch(RECORD / 2, 4 * RECORD).unwrap();
    commit(&punching);
    let mut expected = vec![0; 16 * RECORD as usize];
    expected[..one.len()].copy_from_slice(&one);
    expected[RECORD as usize / 2..][..4 * RECORD as usize].fill(0);
    punching.cut_power();
    assert!(punching.shown() == expected, "a replay brings back what was punched");
    // Punched before one, which then is committed.
    punching.punch(0, 8 * RECORD).unwrap();
    punching.write(0, &two, Stability::Unstable);
    commit(&punching);
    expected[..two.len()].copy_from_slice(&two);
    punching.cut_power();
    assert!(punching.shown() == expected, "a replay punches what came later");
    // The WRITE's group is synced, the punch is in the log alone.
    punching.write(8 * RECORD, &one, Stability::Unstable);
    punching.sync();
    punching.punch(9 * RECORD, 7 * RECORD).unwrap();
    expected[8 * RECORD as usize..9 * RECORD as usize].copy_from_slice(&one[..RECORD as usize]);
    for _ in 0..2 {
        punching.cut_power();
        assert!(punching.shown() == expected);
    }
    punching.sync();
    punching.cut_power();
    assert!(punching.shown() == expected);
}

/// What a byte may be: what was last promised, and what was written since and not promised.
struct MayBe(Vec<Vec<u8>>);

impl MayBe {
    fn promised(&mut self, from: u64, bytes: &[u8]) {
        for (may_be, byte) in self.0[from as usize..].iter_mut().zip(bytes) {
            *may_be = vec![*byte];
        }
    }

    fn written(&mut self, from: u64, bytes: &[u8]) {
        for (may_be, byte) in self.0[from as usize..].iter_mut().zip(bytes) {
            may_be.push(*byte);
        }
    }

    fn is_now(&self) -> Vec<u8> {
        self.0.iter().map(|may_be| *may_be.last().unwrap()).collect()
    }
}

/// All that is promised is there behind each cut, however writes, punches, truncations, groups, commits and the reaper come.
#[test]
fn what_was_punched_stays_so_behind_every_crash() {
    const BLOCKS: u64 = 96;
    const SIZE: u64 = BLOCKS * RECORD;
    let first = std::env::var("TALLY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + 12 {
        println!("TALLY_SEED={seed}");
        let mut dice = Dice(seed);
        let mut punching = Punching::reaping([1, 5, 16, 1000][dice.below(4) as usize]);
        punching.resize(SIZE);
        let mut may_be = MayBe(vec![vec![0]; SIZE as usize]);
        for round in 0..150 {
            let from = dice.below(SIZE);
            let length_max = if dice.below(3) == 0 { SIZE / 2 } else { 3 * RECORD };
            let length = (1 + dice.below(length_max)).min(SIZE - from);
            match dice.below(20) {
                0..=4 => {
                    let data = noise(length as usize, seed * 1000 + round);
                    punching.write(from, &data, Stability::Unstable);
                    may_be.written(from, &data);
                }
                5..=7 => {
                    let data = noise(length as usize, seed * 1000 + round);
                    punching.write(from, &data, Stability::FileSync);
                    may_be.promised(from, &data);
                }
                8..=12 => {
                    let length = if dice.below(4) == 0 { 1 << 62 } else { length };
                    if punching.try_to_punch(from, length) {
                        may_be.promised(from, &vec![0; length.min(SIZE - from) as usize]);
                    } else {
                        punching.sync();
                        may_be.promised(0, &may_be.is_now());
                    }
                }
                13 => {
                    punching.resize(from);
                    punching.resize(SIZE);
                    may_be.promised(from, &vec![0; (SIZE - from) as usize]);
                }
                14 => {
                    done(punching.fs.commit(ctx(&punching.cred), punching.file, 0, 0)).expect("the log takes it");
                    may_be.promised(0, &may_be.is_now());
                }
                15..=17 => {
                    punching.sync();
                    may_be.promised(0, &may_be.is_now());
                }
                _ => {
                    // At rest, or somewhere in a group.
                    if dice.below(2) == 0 {
                        punching.world.lose_power_after(dice.below(30));
                        let _ = punching.filer.sync();
                    }
                    punching.cut_power();
                    let shown = punching.shown();
                    let wrong = shown.iter().zip(&may_be.0).position(|(byte, may_be)| !may_be.contains(byte));
                    assert_eq!(wrong, None, "round {round}: neither promised nor written");
                    may_be.promised(0, &shown);
                }
            }
            let is_now = may_be.is_now();
            let wrong = punching.shown().iter().zip(&is_now).position(|(found, expected)| found != expected);
            assert_eq!(wrong, None, "round {round}");
        }
        punching.sync();
        punching.reap();
        let shown = punching.shown();
        assert_eq!(punching.extents(), stored_blocks(&shown), "what is left is what is shown");
        assert_eq!(punching.used_blocks(), stored_blocks(&shown), "and what is charged");
        punching.punch(0, SIZE).unwrap();
        punching.sync();
        punching.reap();
        assert_eq!((punching.extents(), punching.used_blocks()), (0, 0));
    }
}

#[test]
fn a_long_punch_is_freed_in_bounded_groups() {
    let mut punching = Punching::new();
    punching.blocks(0, 200, 1);
    let mut expected = noise(200 * RECORD as usize, 1).to_vec();
    punching.punch(10 * RECORD + 1, 150 * RECORD).unwrap();
    expected[10 * RECORD as usize + 1..][..150 * RECORD as usize].fill(0);
    let (mut before, mut groups) = (200, 0);
    loop {
        punching.sync();
        assert!(punching.shown() == expected);
        let content = if groups >= 3 { 100 } else { 160 };
        assert_eq!(punching.seek(11 * RECORD, Sought::Data), content * RECORD);
        let now = punching.extents();
        assert!(before - now <= REAPED as u64, "{before}, then {now}");
        groups += 1;
        if !punching.is_waiting() {
            break;
        }
        // What is written there meanwhile is there, and in part above nothing.
        if groups == 3 {
            let at = 100 * RECORD + 500;
            punching.write(at, b"since then", Stability::FileSync);
            expected[at as usize..][..10].copy_from_slice(b"since then");
        }
        // The import ends with a group, too.
        punching.cut_power();
        before = punching.extents();
    }
    assert!(groups >= 5, "{groups}");
    assert_eq!((punching.extents(), punching.used_blocks()), (52, 52));
}

/// Who punches many long stretches waits for the reaper: what one group would have to free at once has a bound.
#[test]
fn many_long_punches_wait_for_each_other() {
    let mut punching = Punching::new();
    let (stretch, count) = (20, 100);
    for at in 0..8 {
        punching.blocks(at * 250, 250, at);
    }
    let (mut at, mut refused, mut before) = (0, 0, punching.extents());
    assert_eq!(before, stretch * count);
    let mut expected = punching.shown();
    while at < count {
        if punching.try_to_punch(at * stretch * RECORD, (stretch - 1) * RECORD) {
            expected[(at * stretch * RECORD) as usize..][..((stretch - 1) * RECORD) as usize].fill(0);
            at += 1;
            continue;
        }
        refused += 1;
        punching.sync();
        let now = punching.extents();
        assert!(before - now <= REAPED as u64, "{before}, then {now}");
        before = now;
        if refused % 20 == 0 {
            punching.cut_power();
            assert!(punching.shown() == expected);
            before = punching.extents();
        }
    }
    assert!(refused > 0);
    punching.sync();
    punching.reap();
    assert!(punching.shown() == expected);
    assert_eq!((punching.extents(), punching.used_blocks()), (count, count));
}

/// What two punches cover, or a cut and a punch of a file that grew again, was freed twice where the reaper came by both in one group.
#[test]
fn what_several_punches_cover_is_freed_once() {
    let punching = Punching::new();
    punching.blocks(0, 200, 1);
    let mut expected = noise(200 * RECORD as usize, 1).to_vec();
    let punch = |expected: &mut [u8], from: u64, to: u64| {
        punching.punch(from * RECORD, (to - from) * RECORD).unwrap();
        expected[(from * RECORD) as usize..(to * RECORD) as usize].fill(0);
        punching.sync();
    };
    punch(&mut expected, 40, 100);
    punch(&mut expected, 80, 150);
    punching.resize(145 * RECORD);
    punching.resize(200 * RECORD);
    expected[145 * RECORD as usize..].fill(0);
    punching.sync();
    punch(&mut expected, 120, 190);
    while punching.is_waiting() {
        assert!(punching.shown() == expected);
        punching.sync();
    }
    assert!(punching.shown() == expected);
    assert_eq!((punching.extents(), punching.used_blocks()), (40, 40));
}

/// Whoever punches all bytes that there can be writes as much to the log as who punches two.
#[test]
fn a_punch_of_all_bytes_there_can_be_is_one_short_record() {
    let punching = Punching::new();
    punching.resize(tally_vfs::FILE_SIZE_MAX);
    punching.write(1 << 40, b"far", Stability::FileSync);
    punching.sync();
    let logged = |punch: &dyn Fn()| {
        punching.world.start_journal();
        punch();
        let is_logged = |event: &world::Event| match event {
            world::Event::Write { disk, bytes, .. } if disk.contains("slog") => Some(bytes.len()),
            _ => None,
        };
        punching.world.end_journal().iter().filter_map(is_logged).sum::<usize>()
    };
    let short = logged(&|| punching.punch(0, 2).unwrap());
    let long = logged(&|| punching.punch(0, tally_vfs::FILE_SIZE_MAX).unwrap());
    assert_eq!(short, long);
    assert!(short > 0);
    for _ in 0..2 {
        assert_eq!(punching.seek(0, Sought::Data), tally_vfs::FILE_SIZE_MAX);
        punching.sync();
    }
    assert_eq!((punching.extents(), punching.is_waiting()), (0, false));
}

/// Under a quota what was punched counts until it is free, and for nobody twice: who writes there waits, or is refused.
#[test]
fn what_was_punched_gives_room_back_once() {
    let punching = Punching::new();
    punching.blocks(0, 200, 1);
    let quota_bytes = punching.filer.datasets()[0].used_bytes + 10 * RECORD;
    punching.filer.set_property("tank", parse(Property::RefQuota, &quota_bytes.to_string()).unwrap()).expect("a quota");
    punching.punch(0, 200 * RECORD).unwrap();
    let (mut at, mut waits) = (0, 0);
    let refused = loop {
        let data = noise(8 * RECORD as usize, at);
        match punching.fs.write(ctx(&punching.cred), punching.file, at * RECORD, data, Stability::Unstable).result {
            Ok(_) => at += 8,
            Err(FsError::Throttled) => waits += 1,
            Err(error) => break error,
        }
        assert!(waits < 1000, "it neither grows nor is refused");
        if waits % 2 == 1 {
            punching.sync();
        }
    };
    assert_eq!(refused, FsError::Quota);
    punching.sync();
    punching.reap();
    let used_bytes = punching.filer.datasets()[0].used_bytes;
    assert!(used_bytes <= quota_bytes, "{used_bytes} of {quota_bytes}");
    assert!(at > 200, "what was punched is there for it: {at}");
}

/// A file was punched, and written again in the next group before that one was folded. Its blocks counted for what it has already, and
/// when the punch had given them back another file got them, too: half as much again as the quota allowed.
#[test]
fn what_is_written_again_above_a_punch_counts() {
    const BYTES: u64 = 200 * RECORD;
    let punching = Punching::reaping(1000);
    let (fs, cred) = (&punching.fs, &punching.cred);
    let made = done(fs.create(ctx(cred), fs.root(), b"other", &CreateHow::Guarded(mode(0o644))));
    let other = made.expect("there is room").object;
    punching.blocks(0, 200, 1);
    let quota_bytes = punching.filer.datasets()[0].used_bytes + 10 * RECORD;
    punching.filer.set_property("tank", parse(Property::RefQuota, &quota_bytes.to_string()).unwrap()).expect("a quota");
    let write =
        |file, seed| fs.write(ctx(cred), file, 0, noise(BYTES as usize, seed), Stability::Unstable).result.map(|_| ());
    punching.punch(0, BYTES).unwrap();
    let txgs = &punching.filer.pool().txgs;
    let held = txgs.hold(None);
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| punching.sync());
        while txgs.open() == held.txg() {
            std::thread::yield_now();
        }
        let again = write(punching.file, 2);
        drop(held);
        syncing.join().expect("it was synced");
        assert_eq!(again, Err(FsError::Throttled), "it waits for what the punch gives back");
    });
    write(punching.file, 2).expect("that is free by now");
    let refused = loop {
        match write(other, 3) {
            Err(FsError::Throttled) => punching.sync(),
            told => break told,
        }
    };
    assert_eq!(refused, Err(FsError::Quota));
    punching.sync();
    let used_bytes = punching.filer.datasets()[0].used_bytes;
    assert!(used_bytes <= quota_bytes, "{used_bytes} of {quota_bytes}");
}

/// A leaf of extents cannot be read when a punch goes over it, in its group or by the reaper. When it can be read again, what it had of the
/// punch does not come back.
#[test]
fn what_was_punched_does_not_come_back_with_its_leaf() {
    for reaped in [REAPED, 1000] {
        let mut punching = Punching::reaping(reaped);
        punching.blocks(0, 200, 1);
        let mut expected = noise(200 * RECORD as usize, 1).to_vec();
        let leaf = first_leaf(&punching.filer);
        flip(&punching.world, &leaf);
        punching.cut_power();
        punching.punch(2 * RECORD, 190 * RECORD).unwrap();
        expected[2 * RECORD as usize..192 * RECORD as usize].fill(0);
        for _ in 0..30 {
            punching.filer.sync().expect("damage ends no group");
        }
        assert!(!punching.is_waiting(), "or one group would follow the other for ever");
        let mended = punching.world.cut();
        flip(&mended, &leaf);
        punching.world = mended;
        punching.cut_power();
        let (mut whole, mut lost) = (0, 0);
        for (at, expected) in expected.chunks(RECORD as usize).enumerate() {
            match punching.fs.read(&punching.cred, punching.file, at as u64 * RECORD, RECORD as u32) {
                Ok(read) => {
                    assert!(read.data.concat() == expected, "block {at} is what it was");
                    whole += 1;
                }
                Err(error) => {
                    assert_eq!(error, FsError::Io);
                    lost += 1;
                }
            }
        }
        assert!(whole > 0 && lost > 0, "{whole} whole, {lost} lost");
        // All is written anew, and all of it is there.
        punching.blocks(0, 200, 2);
        assert!(punching.shown() == noise(200 * RECORD as usize, 2)[..]);
    }
}

/// A WRITE made the file longer, all that it wrote was punched, and a COMMIT found nothing to log and said that all is stable. Behind a crash the
/// file was as short as before.
#[test]
fn what_was_committed_is_as_long_as_it_was_although_it_was_punched() {
    for is_short in [true, false] {
        let mut punching = Punching::new();
        let bytes = if is_short { 1000 } else { 3 * RECORD };
        punching.write(0, &noise(bytes as usize, 1), Stability::Unstable);
        punching.punch(bytes / 2, 1 << 40).unwrap();
        punching.punch(0, bytes).unwrap();
        done(punching.fs.commit(ctx(&punching.cred), punching.file, 0, 0)).expect("the log takes it");
        for _ in 0..2 {
            punching.cut_power();
            assert!(punching.shown() == vec![0; bytes as usize]);
        }
        punching.sync();
        punching.cut_power();
        assert!(punching.shown() == vec![0; bytes as usize]);
    }
}

/// The reaper passed over a leaf of what was cut, and the cut stayed noted. It was forgotten with the next long punch that was freed, and what the
/// leaf had came back with it.
#[test]
fn a_cut_that_was_passed_over_stays_behind_a_punch() {
    let mut punching = Punching::new();
    punching.blocks(0, 600, 1);
    let leaf = last_leaf(&punching.filer);
    flip(&punching.world, &leaf);
    punching.cut_power();
    punching.resize(300 * RECORD);
    for _ in 0..60 {
        punching.filer.sync().expect("damage ends no group");
    }
    assert!(!punching.is_waiting(), "or one group would follow the other for ever");
    punching.punch(0, 100 * RECORD).unwrap();
    punching.sync();
    assert!(punching.is_waiting(), "it is a long one");
    punching.reap();
    let mended = punching.world.cut();
    flip(&mended, &leaf);
    punching.world = mended;
    punching.cut_power();
    assert!(punching.extents() > 200, "what was passed over is there");
    punching.resize(600 * RECORD);
    punching.sync();
    let mut expected = noise(600 * RECORD as usize, 1).to_vec();
    expected[..100 * RECORD as usize].fill(0);
    expected[300 * RECORD as usize..].fill(0);
    assert!(punching.shown() == expected, "nothing comes back");
}

/// What a file's length and bytes may be behind a crash: what was last promised of both, and what they were since.
struct Lengths {
    may_be: MayBe,
    promised: u64,
    now: u64,
}

impl Lengths {
    fn new(most: u64) -> Self {
        Self { may_be: MayBe(vec![vec![0]; most as usize]), promised: 0, now: 0 }
    }

    /// All that is there was promised, and behind it there is nothing.
    fn all_promised(&mut self) {
        let now = self.may_be.is_now();
        self.may_be.promised(0, &now);
        self.promised = self.now;
    }

    fn resized(&mut self, bytes: u64) {
        let kept = bytes.min(self.now);
        let behind = vec![0; self.may_be.0.len() - kept as usize];
        self.may_be.promised(kept, &behind);
        (self.promised, self.now) = (bytes, bytes);
    }

    fn is_now(&self) -> Vec<u8> {
        self.may_be.is_now()[..self.now as usize].to_vec()
    }

    /// Behind a crash.
    fn was_found(&mut self, shown: &[u8]) {
        let bytes = shown.len() as u64;
        assert!((self.promised..=self.now).contains(&bytes), "{bytes} of {} to {}", self.promised, self.now);
        let wrong = shown.iter().zip(&self.may_be.0).position(|(byte, may_be)| !may_be.contains(byte));
        assert_eq!(wrong, None, "neither promised nor written");
        let behind = vec![0; self.may_be.0.len() - shown.len()];
        self.may_be.promised(0, &[shown, &behind].concat());
        (self.promised, self.now) = (bytes, bytes);
    }
}

/// The same of files whose length changes, from one key to blocks: no old byte shines through behind an end that went away and came back, and
/// what was committed is as long as it was.
#[test]
fn a_file_that_grows_and_is_punched_is_what_was_promised() {
    const MOST: u64 = 24 * RECORD;
    let first = std::env::var("TALLY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + 16 {
        println!("TALLY_SEED={seed}");
        let mut dice = Dice(seed);
        let mut punching = Punching::reaping([1, 3, 1000][dice.below(3) as usize]);
        let mut lengths = Lengths::new(MOST);
        let reach = [RECORD, 3 * RECORD, MOST][dice.below(3) as usize];
        for round in 0..120 {
            let from = dice.below(reach);
            let length_max = [100, RECORD, 6 * RECORD][dice.below(3) as usize];
            let length = (1 + dice.below(length_max)).min(MOST - from);
            let data = noise(length as usize, seed * 1000 + round);
            match dice.below(16) {
                0..=3 => {
                    punching.write(from, &data, Stability::Unstable);
                    lengths.may_be.written(from, &data);
                    lengths.now = lengths.now.max(from + length);
                }
                4 => {
                    punching.write(from, &data, Stability::FileSync);
                    lengths.may_be.promised(from, &data);
                    lengths.now = lengths.now.max(from + length);
                    lengths.promised = lengths.promised.max(from + length);
                }
                5..=8 => {
                    let length = if dice.below(3) == 0 { 1 << 62 } else { length };
                    if punching.try_to_punch(from, length) {
                        let end = (from + length).min(lengths.now).max(from);
                        lengths.may_be.promised(from, &vec![0; (end - from) as usize]);
                    } else {
                        punching.sync();
                        lengths.all_promised();
                    }
                }
                9..=10 => {
                    punching.resize(from);
                    lengths.resized(from);
                }
                11 => {
                    done(punching.fs.commit(ctx(&punching.cred), punching.file, 0, 0)).expect("the log takes it");
                    lengths.all_promised();
                }
                12..=13 => {
                    punching.sync();
                    lengths.all_promised();
                }
                _ => {
                    if dice.below(2) == 0 {
                        punching.world.lose_power_after(dice.below(30));
                        let _ = punching.filer.sync();
                    }
                    punching.cut_power();
                    lengths.was_found(&punching.shown());
                }
            }
            assert!(punching.shown() == lengths.is_now(), "round {round}");
        }
        punching.sync();
        punching.reap();
        punching.resize(MOST);
        punching.punch(0, MOST).unwrap();
        punching.sync();
        punching.reap();
        assert_eq!((punching.extents(), punching.used_blocks()), (0, 0));
    }
}
