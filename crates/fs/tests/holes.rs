//! SEEK over dirty content, folded content, and both: where content is, beside an array.

mod world;

use bytes::Bytes;
use tally_fs::filer::{CreateOptions, Filer};
use tally_members::grammar::parse_vdev_args;
use tally_store::properties::{Property, PropertySet, parse};
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, FsError, ObjectRef, OpCtx, Outcome, SetAttr, Sought, Stability, Vfs};
use world::{Dice, World, ctx, done, mode, vfs};

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 16 << 10;

fn patient<T>(mut attempt: impl FnMut() -> Outcome<T>) -> T {
    loop {
        match done(attempt()) {
            Err(FsError::Throttled) => {}
            result => return result.unwrap(),
        }
    }
}

fn resize(fs: &dyn Vfs, file: ObjectRef, size: u64) {
    let set = SetAttr { size: Some(size), ..SetAttr::default() };
    patient(|| fs.setattr(ctx(&Cred::root()), file, &set, None));
}

fn write(fs: &dyn Vfs, file: ObjectRef, offset: u64, data: &[u8], how: Stability) {
    let data = Bytes::copy_from_slice(data);
    patient(|| fs.write(ctx(&Cred::root()), file, offset, data.clone(), how));
}

fn seek(fs: &dyn Vfs, file: ObjectRef, offset: u64, what: Sought) -> u64 {
    fs.seek(OpCtx::of(&Cred::root()), file, offset, what).unwrap().offset
}

/// From content to hole to content: where each stretch of content begins and ends.
fn stretches(fs: &dyn Vfs, file: ObjectRef, size: u64) -> Vec<(u64, u64)> {
    let (mut at, mut found) = (0, Vec::new());
    while at < size {
        let start = seek(fs, file, at, Sought::Data);
        if start == size {
            break;
        }
        at = seek(fs, file, start, Sought::Hole);
        found.push((start, at));
    }
    found
}

fn with_blocks() -> CreateOptions {
    let properties = PropertySet::from_iter([parse(Property::RecordSize, "16K").unwrap()]);
    CreateOptions { properties, ..CreateOptions::default() }
}

#[test]
fn content_is_what_is_dirty_and_what_has_blocks() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create_with(&with_blocks());
    let (fs, cred) = (vfs(&filer), Cred::root());
    let file = patient(|| fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).object;
    let size = 40 * BLOCK;
    resize(&*fs, file, size);
    write(&*fs, file, 3 * BLOCK + 100, b"in the fourth block", Stability::FileSync);
    write(&*fs, file, 8 * BLOCK, &vec![0; 2 * BLOCK as usize], Stability::FileSync);
    write(&*fs, file, 20 * BLOCK, &vec![5; 2 * BLOCK as usize], Stability::Unstable);
    let dirty = [(3 * BLOCK + 100, 3 * BLOCK + 119), (8 * BLOCK, 10 * BLOCK), (20 * BLOCK, 22 * BLOCK)];
    assert_eq!(stretches(&*fs, file, size), dirty);
    filer.sync().unwrap();
    // What holds no content has no block, and what has one is content as a whole.
    let folded = [(3 * BLOCK, 4 * BLOCK), (20 * BLOCK, 22 * BLOCK)];
    assert_eq!(stretches(&*fs, file, size), folded);
    write(&*fs, file, 30 * BLOCK, b"x", Stability::FileSync);
    resize(&*fs, file, 21 * BLOCK);
    resize(&*fs, file, size);
    let both = [(3 * BLOCK, 4 * BLOCK), (20 * BLOCK, 21 * BLOCK)];
    assert_eq!(stretches(&*fs, file, size), both, "a cut that is not folded makes a hole");
    filer.sync().unwrap();
    assert_eq!(stretches(&*fs, file, size), both);
    let (after, _) = world.cut().import();
    assert_eq!(stretches(&*vfs(&after), file, size), both);
    // Under one key.
    let small = patient(|| fs.create(ctx(&cred), fs.root(), b"small", &CreateHow::Guarded(mode(0o600)))).object;
    write(&*fs, small, 0, b"some bytes", Stability::FileSync);
    resize(&*fs, small, 3000);
    filer.sync().unwrap();
    assert_eq!(stretches(&*fs, small, 3000), [(0, 10)]);
    assert_eq!(seek(&*fs, small, 10, Sought::Data), 3000);
}

#[test]
fn a_file_of_all_bytes_there_can_be_is_looked_through() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create_with(&with_blocks());
    let (fs, cred) = (vfs(&filer), Cred::root());
    let file = patient(|| fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).object;
    resize(&*fs, file, tally_vfs::FILE_SIZE_MAX);
    let far = tally_vfs::FILE_SIZE_MAX - 5 * BLOCK;
    write(&*fs, file, far, b"far", Stability::FileSync);
    for _ in 0..2 {
        let at = seek(&*fs, file, 0, Sought::Data);
        assert!(at <= far && at + BLOCK > far, "{at}");
        assert_eq!(seek(&*fs, file, far + 2 * BLOCK, Sought::Data), tally_vfs::FILE_SIZE_MAX);
        filer.sync().unwrap();
    }
}

/// What is passed over is zeroes, whatever is dirty, folded, cut or being reaped.
#[test]
fn what_is_passed_over_is_zeroes() {
    const SIZE: u64 = 2 * MIB;
    let first = std::env::var("TALLY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + 3 {
        println!("TALLY_SEED={seed}");
        let mut dice = Dice(seed);
        let world = World::new(64 * MIB, 16 * MIB);
        let filer = world.create_with(&with_blocks());
        let (fs, cred) = (vfs(&filer), Cred::root());
        let file = patient(|| fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).object;
        resize(&*fs, file, SIZE);
        let mut expected = vec![0_u8; SIZE as usize];
        for round in 0..120 {
            let start = dice.below(SIZE);
            match dice.below(6) {
                0 => _ = filer.sync().unwrap(),
                1 => {
                    resize(&*fs, file, start);
                    resize(&*fs, file, SIZE);
                    expected[start as usize..].fill(0);
                }
                kind => {
                    let end = (start + 1 + dice.below(60_000)).min(SIZE);
                    let byte = if kind == 2 { 0 } else { 1 + dice.below(255) as u8 };
                    let how = if dice.below(2) == 0 { Stability::Unstable } else { Stability::FileSync };
                    write(&*fs, file, start, &vec![byte; (end - start) as usize], how);
                    expected[start as usize..end as usize].fill(byte);
                }
            }
            let mut at = 0;
            for (start, end) in stretches(&*fs, file, SIZE).into_iter().chain([(SIZE, SIZE)]) {
                let passed = &expected[at as usize..start as usize];
                assert!(passed.iter().all(|byte| *byte == 0), "round {round}: from {at} to {start}");
                at = end;
            }
        }
    }
}

/// Whoever writes byte by byte has as many pieces in memory as bytes: all of them were listed at once, under the file's lock. A look goes over so many, and what is behind is content.
#[test]
fn a_look_over_much_that_is_dirty_ends() {
    const BYTES: u64 = 17_000;
    // There is room for all of it, and no group ends meanwhile.
    let world = World::without_log(2048 * MIB);
    let (tuning, specs) = (Tuning { dirty_bytes_max: 8 << 30, ..Tuning::default() }, ["/disks/data".to_owned()]);
    let specs = parse_vdev_args(&specs).unwrap();
    let filer = Filer::create(&world.platform(), &tuning, "tank", &specs, &with_blocks()).unwrap();
    let (fs, cred) = (vfs(&filer), Cred::root());
    let file = done(fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).unwrap().object;
    done(fs.setattr(ctx(&cred), file, &SetAttr { size: Some(1 << 40), ..SetAttr::default() }, None)).unwrap();
    for at in 0..BYTES {
        let written = fs.write(ctx(&cred), file, at, Bytes::from_static(b"x"), Stability::Unstable);
        written.result.unwrap();
    }
    assert_eq!(seek(&*fs, file, 0, Sought::Data), 0);
    assert_eq!(seek(&*fs, file, BYTES - 10_000, Sought::Hole), BYTES, "it is not far");
    assert_eq!(seek(&*fs, file, 0, Sought::Hole), 1 << 40, "it is passed over");
    assert_eq!(seek(&*fs, file, BYTES, Sought::Data), 1 << 40);
    // Many that are far behind much that is not there.
    let far = 1 << 39;
    for at in 0..3000 {
        fs.write(ctx(&cred), file, far + 2 * at, Bytes::from_static(b"x"), Stability::Unstable).result.unwrap();
    }
    assert_eq!(seek(&*fs, file, BYTES, Sought::Data), far);
    assert_eq!(seek(&*fs, file, far, Sought::Hole), far + 1);
}
