//! A single disk, one sector of it rotten: each in turn. Most of what stands at the top of a pool is not worth a pool.
//!
//! The answers that are remembered for clients who ask twice take up to 64 blocks right below the root, and each of them
//! used to be able to keep the pool from everybody. So did the space maps, also from those who only wanted to read. What
//! is left is what the format keeps once and cannot do without: the root block for every import, the space maps for one
//! that writes.

mod world;

use std::collections::BTreeSet;

use bytes::Bytes;
use tally_base::SECTOR;
use tally_fs::filer::{Filer, FilerError, ImportOptions, ImportReport};
use tally_members::uberblock;
use tally_store::bp::BlockPtr;
use tally_store::pool::OpenError;
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, FsError, OpCtx, ReplyKey, Stability, Vfs};
use world::{World, ctx, mode, vfs};

const MIB: u64 = 1 << 20;
const DISK: &str = "/disks/data";
const CLIENTS: u8 = 40;
const READ_ONLY: ImportOptions = ImportOptions { force: false, read_only: true, accept_loss: false, destroyed: false };

fn key(client: u8) -> ReplyKey {
    let mut key = [0; 40];
    (key[0], key[20]) = (client, 1);
    ReplyKey(key)
}

fn name(client: u8) -> String {
    format!("of-{client}")
}

/// Forty clients have made a file each, and may ask again; all of it is in the pool, and some space was freed.
fn furnished() -> World {
    let world = World::without_log(16 * MIB);
    let filer = world.create_without_threads(&Default::default());
    let (fs, cred) = (vfs(&filer), Cred::root());
    let how = CreateHow::Guarded(mode(0o600));
    // Nobody syncs or writes frames by itself here: an unstable write waits for nothing.
    for client in 0..CLIENTS {
        let context = OpCtx { cred: &cred, reply: Some(key(client)) };
        let file = fs.create(context, fs.root(), name(client).as_bytes(), &how).result.unwrap().object;
        let data = Bytes::from(vec![client; 5000]);
        fs.write(ctx(&cred), file, 0, data, Stability::Unstable).result.unwrap();
    }
    filer.sync().unwrap();
    fs.remove(ctx(&cred), fs.root(), name(0).as_bytes()).result.unwrap();
    filer.sync().unwrap();
    world.cut()
}

/// Where the newest root block lies on the disk.
fn root_sectors(world: &World) -> BTreeSet<u64> {
    let platform = world.platform();
    let disk = platform.opener.open(DISK.as_ref(), tally_disk::Access::ReadOnly).unwrap();
    let found = uberblock::read_all(&*disk).into_iter().filter_map(|slot| slot.content.ok().flatten());
    let newest = found.max_by_key(|found| found.rank()).unwrap();
    let root = BlockPtr::decode(newest.root[..].try_into().unwrap()).unwrap();
    let start = (256 << 10) + root.dva.offset;
    (start..start + root.dva.bytes()).step_by(SECTOR).collect()
}

type Imported = Result<(std::sync::Arc<Filer>, ImportReport), FilerError>;

fn import(world: &World, at: u64, options: &ImportOptions) -> (World, Imported) {
    let rotten = world.cut();
    let sector = &world.content_of(DISK)[at as usize..][..SECTOR];
    let byte = sector.iter().position(|byte| *byte != 0).unwrap();
    rotten.poke(DISK, at + byte as u64, &[sector[byte] ^ 0x10]);
    let imported = rotten.try_import_without_threads(&Tuning::default(), options);
    (rotten, imported)
}

/// Files that can be read. The others must say that they cannot.
fn readable(filer: &Filer) -> usize {
    let (fs, cred) = (vfs(filer), Cred::root());
    let read = |client: u8| -> Result<Vec<u8>, FsError> {
        let found = fs.lookup(&cred, fs.root(), name(client).as_bytes())?;
        Ok(fs.read(&cred, found.0.object, 0, 10_000)?.data.concat())
    };
    let right = |client: &u8| match read(*client) {
        Ok(data) => {
            assert_eq!(data, vec![*client; 5000]);
            true
        }
        Err(error) => {
            assert_eq!(error, FsError::Io, "client {client}'s file is not gone");
            false
        }
    };
    (1..CLIENTS).filter(right).count()
}

fn remembered(filer: &Filer) -> usize {
    let fs = filer.by_name("tank").unwrap();
    (0..CLIENTS).filter(|client| fs.remembered(&key(*client)).is_some()).count()
}

#[test]
fn one_rotten_sector_costs_what_stood_in_it() {
    let world = furnished();
    let root = root_sectors(&world);
    let content = world.content_of(DISK);
    let written = content.chunks(SECTOR).zip(0..).filter(|(sector, _)| sector.iter().any(|byte| *byte != 0));
    let written: Vec<u64> = written.map(|(_, number)| number * SECTOR as u64).collect();
    let (mut whole, mut maps, mut buckets, mut lists) = (0, 0, 0, 0);
    for at in &written {
        let (rotten, seen) = import(&world, *at, &READ_ONLY);
        if root.contains(at) {
            let refusal = seen.err().expect("nothing is found without a root").to_string();
            assert!(refusal.contains("--readonly neither"), "{refusal}");
            assert!(import(&world, *at, &ImportOptions::default()).1.is_err());
            continue;
        }
        let (filer, report) = seen.unwrap_or_else(|error| panic!("{at:#x}, only to be read: {error}"));
        assert!(rotten.is_same(&import(&world, *at, &READ_ONLY).0), "looking changes nothing");
        whole += usize::from(readable(&filer) == usize::from(CLIENTS) - 1);
        let said = report.remarks.join("; ");
        let mut lost_answers = 0;
        if said.contains("reply cache") {
            lost_answers = usize::from(CLIENTS) - remembered(&filer);
            assert!((1..10).contains(&lost_answers), "{at:#x}: {lost_answers} answers lost");
            buckets += 1;
        } else {
            assert_eq!(remembered(&filer), usize::from(CLIENTS), "{at:#x}: {said}");
        }
        let (rotten, written) = import(&world, *at, &ImportOptions::default());
        let (filer, _) = match written {
            Ok(imported) => imported,
            Err(FilerError::Open(OpenError::Space(why))) => {
                assert!(why.to_string().contains("--readonly imports the pool"), "{why}");
                assert!(said.contains("counts as in use"), "{at:#x}: {said}");
                maps += 1;
                continue;
            }
            Err(error) => panic!("{at:#x}: {error}"),
        };
        lists += usize::from(said.contains("stays in use"));
        assert_eq!(remembered(&filer), usize::from(CLIENTS) - lost_answers);
        for _ in 0..3 {
            filer.sync().unwrap_or_else(|error| panic!("{at:#x}: {error}"));
        }
        // What was told once is mended: the damage is not named by anything any more.
        let (_, report) = rotten.cut().try_import_without_threads(&Tuning::default(), &READ_ONLY).unwrap();
        let still = report.remarks.join("; ");
        assert!(!still.contains("reply cache") && !still.contains("stays in use"), "{at:#x}: {still}");
    }
    assert!(whole > written.len() / 3, "{whole} of {} rotten sectors cost no file", written.len());
    assert_eq!(maps, 1, "a disk of 16 MiB has one space map");
    assert!(lists > 0 && buckets > 10, "{lists} lists and {buckets} buckets were met of {} sectors", written.len());
}
