//! One file under random writes, cuts, commits, groups and power cuts, beside an array that says what it must contain.

mod world;

use bytes::Bytes;
use tally_fs::filer::CreateOptions;
use tally_store::properties::{Property, PropertySet, parse};
use tally_vfs::{CreateHow, Cred, FsError, Outcome, SetAttr, Stability};
use world::{Dice, World, content, ctx, done, mode, vfs};

const MIB: u64 = 1 << 20;
const SIZE_MAX: u64 = 300_000;

fn patient<T>(mut attempt: impl FnMut() -> Outcome<T>) -> T {
    loop {
        match done(attempt()) {
            Err(FsError::Throttled) => {}
            result => return result.unwrap(),
        }
    }
}

#[test]
fn what_was_streamed_is_read_from_the_cache() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let file = patient(|| fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).object;
    let data: Bytes = (0..8 * MIB as u32).map(|at| (at >> 7) as u8).collect::<Vec<u8>>().into();
    for at in (0..data.len()).step_by(1 << 20) {
        patient(|| fs.write(ctx(&cred), file, at as u64, data.slice(at..at + (1 << 20)), Stability::Unstable));
    }
    let misses = || filer.pool().io.stats().misses;
    let before = misses();
    assert_eq!(content(&*fs, file), data, "before the sync");
    filer.sync().unwrap();
    assert_eq!(content(&*fs, file), data, "after it");
    assert_eq!(misses(), before, "blocks that were read from the device although they had just been written");
}

#[test]
fn with_a_bias_to_throughput_large_data_goes_around_the_log() {
    for (bias, is_logged) in [("latency", true), ("throughput", false)] {
        let world = World::new(64 * MIB, 32 * MIB);
        let properties = PropertySet::from_iter([parse(Property::LogBias, bias).unwrap()]);
        let filer = world.create_with(&CreateOptions { properties, ..CreateOptions::default() });
        let fs = vfs(&filer);
        let cred = Cred::root();
        let file = patient(|| fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).object;
        let data: Bytes = (0..MIB as u32).map(|at| (at >> 3) as u8).collect::<Vec<u8>>().into();
        let appended = || filer.pool().lanes()[0].stats().body_bytes;
        let before = appended();
        patient(|| fs.write(ctx(&cred), file, 0, data.clone(), Stability::FileSync));
        let large = appended() - before;
        assert_eq!(large >= MIB, is_logged, "{bias}: {large} bytes in the log");
        patient(|| fs.write(ctx(&cred), file, MIB, data.slice(..4096), Stability::FileSync));
        let small = appended() - before - large;
        assert!((4096..20_000).contains(&small), "{bias}: {small} bytes in the log for 4 KiB");
        let (after, _) = world.cut().import();
        assert_eq!(content(&*vfs(&after), file), [&data[..], &data[..4096]].concat(), "{bias}: it was promised");
    }
}

#[test]
fn a_file_contains_what_an_array_would() {
    let first = std::env::var("TALLY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + 3 {
        println!("TALLY_SEED={seed}");
        run(seed);
    }
}

fn run(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut world = World::new(24 * MIB, 2 * MIB);
    let mut properties = PropertySet::new();
    properties.set(parse(Property::RecordSize, ["4K", "16K", "128K"][dice.below(3) as usize]).unwrap());
    let mut filer = world.create_with(&CreateOptions { properties, ..CreateOptions::default() });
    let cred = Cred::root();
    for _ in 0..4 {
        filer.sync().unwrap();
    }
    let before = filer.pool().io.allocator().space().allocated;
    let mut fs = vfs(&filer);
    let file = patient(|| fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).object;
    let mut expected: Vec<u8> = Vec::new();
    // What a power cut would leave at least cannot be told for unstable data, so a cut comes after a commit.
    for step in 0..150 {
        match dice.below(12) {
            0..6 => {
                let stability = [Stability::Unstable, Stability::Unstable, Stability::FileSync][dice.below(3) as usize];
                let length = [100, 5000, 20_000, 150_000][dice.below(4) as usize];
                let length = 1 + dice.below(length) as usize;
                let mut offset = dice.below(SIZE_MAX - length as u64);
                if dice.below(2) == 0 {
                    offset = offset / 4096 * 4096;
                }
                let zeroes = dice.below(8) == 0;
                let data: Vec<u8> = (0..length).map(|_| if zeroes { 0 } else { dice.below(256) as u8 }).collect();
                patient(|| fs.write(ctx(&cred), file, offset, Bytes::from(data.clone()), stability));
                let end = offset as usize + length;
                expected.resize(expected.len().max(end), 0);
                expected[offset as usize..end].copy_from_slice(&data);
            }
            6..8 => {
                let size = [0, expected.len() as u64, SIZE_MAX / 8, SIZE_MAX][dice.below(4) as usize];
                let size = dice.below(size + 1);
                let set = SetAttr { size: Some(size), ..SetAttr::default() };
                patient(|| fs.setattr(ctx(&cred), file, &set, None));
                expected.resize(size as usize, 0);
            }
            8 => {
                let (offset, count) = (dice.below(SIZE_MAX), dice.below(100_000) as u32);
                patient(|| fs.commit(ctx(&cred), file, offset, count));
            }
            9 | 10 => {
                filer.sync().unwrap();
            }
            _ => {
                patient(|| fs.commit(ctx(&cred), file, 0, 0));
                assert_eq!(filer.pool().io.allocator().bad_free_count(), 0, "step {step}");
                world = world.cut();
                let report;
                (filer, report) = world.import();
                assert_eq!(report.losses, Vec::<String>::new(), "step {step}");
                fs = vfs(&filer);
            }
        }
        assert_eq!(fs.getattr(file).unwrap().size, expected.len() as u64, "step {step}");
        let found = content(&*fs, file);
        let at = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert!(at.is_none() && found.len() == expected.len(), "step {step}: differs at {at:?} of {}", found.len());
    }
    patient(|| fs.remove(ctx(&cred), fs.root(), b"file"));
    for _ in 0..5 {
        filer.sync().unwrap();
    }
    let allocator = filer.pool().io.allocator();
    assert_eq!(allocator.bad_free_count(), 0);
    let after = allocator.space().allocated;
    assert!(after < before + (64 << 10), "{before} bytes were allocated before the file, and {after} after it");
}
