//! Records that do not fit what is in the pool: something that should be there is not. Replay must name the loss, and
//! never make up what it does not find.

mod world;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use tally_base::codec::Reader;
use tally_base::{Dseq, Generation, ObjectId, Wait};
use tally_fs::Filer;
use tally_fs::filer::{CreateOptions, FilerError, ImportOptions, ReplayLoss};
use tally_fs::inode::Inode;
use tally_fs::record::{Data, InodeAfter, Record, RecordKind, SizeRule};
use tally_store::key::{Class, Key};
use tally_store::properties::PropertySet;
use tally_store::tuning::Tuning;
use tally_vfs::{Content, CreateHow, Cred, FileKind, FsError, Identity, Names, SetAttr, Stability};
use world::{World, ctx, done, mode, vfs};

const MIB: u64 = 1 << 20;
const ACCEPT: ImportOptions = ImportOptions { force: false, read_only: false, accept_loss: true, destroyed: false };
/// An id that nobody has drawn.
const NOBODY: ObjectId = ObjectId(1000);

/// The true inodes that forged records start from.
struct Truth {
    root: (ObjectId, Inode),
    dir: (ObjectId, Inode),
    file: (ObjectId, Inode),
    symlink: (ObjectId, Inode),
}

/// A pool with four records in its log, all synced, and the inodes as they are.
fn prepared() -> (World, Arc<Filer>, Truth) {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let dir = done(fs.mkdir(ctx(&cred), fs.root(), b"dir", &mode(0o755))).unwrap().object;
    let file = done(fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o644)))).unwrap().object;
    done(fs.write(ctx(&cred), file, 0, vec![7; 100].into(), Stability::FileSync)).unwrap();
    let symlink = done(fs.symlink(ctx(&cred), fs.root(), b"link", b"file", &SetAttr::default())).unwrap().object;
    filer.sync().unwrap();
    let pool = filer.pool();
    let tree = pool.dataset(fs.dataset()).unwrap().root().tree.clone();
    let inode = |id: ObjectId| {
        let value = tree.get(&pool.io, &Key::new(Class::Inode, id.0, 0, 0)).unwrap().unwrap();
        (id, Inode::decode(&mut Reader::new(&value, "inode")).unwrap())
    };
    let truth =
        Truth { root: inode(fs.root().id), dir: inode(dir.id), file: inode(file.id), symlink: inode(symlink.id) };
    (world, filer, truth)
}

/// Puts `record` into the log behind the four that are there.
fn append(filer: &Filer, record: &Record) {
    let mut bytes = record.encode_head();
    record.data_parts().for_each(|part| bytes.extend_from_slice(part));
    append_bytes(filer, 5, &bytes);
}

/// The same, as whichever of the dataset's records, and whatever the bytes say.
fn append_bytes(filer: &Filer, dseq: u64, bytes: &[u8]) {
    append_kind(filer, dseq, RecordKind::SetAttr as u16, bytes);
}

fn append_kind(filer: &Filer, dseq: u64, kind: u16, bytes: &[u8]) {
    let pool = filer.pool();
    let fs = vfs(filer);
    let lane = pool.lane(pool.dataset(fs.dataset()).unwrap().birth.lane).unwrap();
    let ring = lane.reserve(bytes.len()).unwrap();
    let next = AtomicU64::new(dseq);
    let appended = lane.append(ring, fs.dataset(), &next, pool.txgs.open(), kind, &[bytes]).unwrap();
    match lane.promise(appended.lsn, appended.body_bytes) {
        Wait::Ready => {}
        wait => drop(wait.block().unwrap()),
    }
}

/// What a newer program has acknowledged is neither damaged nor lost: nobody gets by it, and nobody makes something of it.
#[test]
fn a_record_of_a_newer_program_is_refused_by_its_name() {
    let cases: [(u16, &[u8], &str); 3] = [(13, &[0, 0, 0], "kind 13"), (0, &[], "kind 0"), (15, &[0xff], "kind 15")];
    for (kind, body, words) in cases {
        let (world, filer, truth) = prepared();
        append_kind(&filer, 5, kind, body);
        append_bytes(&filer, 6, &record(vec![exact(truth.dir.0, &truth.dir.1)], vec![]).encode_head());
        for options in [ImportOptions::default(), ACCEPT] {
            let refusal = world.cut().try_import(&options).err().expect("it is refused");
            assert!(matches!(refusal, FilerError::NewerRecord { dseq: Dseq(5), .. }), "{words}: {refusal:?}");
            assert!(refusal.to_string().contains(words), "{refusal}");
        }
        let read_only = ImportOptions { read_only: true, ..ImportOptions::default() };
        let (looked_at, report) = world.cut().try_import(&read_only).unwrap();
        assert!(report.losses.iter().any(|loss| loss.contains("newer version")), "{:?}", report.losses);
        assert!(vfs(&looked_at).lookup(&Cred::root(), vfs(&looked_at).root(), b"file").is_ok());
        // Synced by the program that knows it, it is nobody's business.
        filer.sync().unwrap();
        assert!(world.cut().try_import(&ImportOptions::default()).is_ok(), "{words}");
    }
}

fn exact(object: ObjectId, inode: &Inode) -> InodeAfter {
    InodeAfter { object, inode: Some(inode.clone()), size: SizeRule::Exact }
}

fn entry(dir: ObjectId, object: ObjectId, kind: FileKind) -> (Key, Option<Bytes>) {
    let mut value = object.0.to_le_bytes().to_vec();
    value.push(kind as u8);
    value.extend_from_slice(b"name");
    (Key::new(Class::DirEntry, dir.0, 999, 0), Some(value.into()))
}

fn record(inodes: Vec<InodeAfter>, keys: Vec<(Key, Option<Bytes>)>) -> Record {
    Record { inodes: inodes.into(), keys: keys.into(), ..Record::default() }
}

type Forge = fn(&Truth) -> Record;

#[test]
fn what_should_be_there_and_is_not_is_a_named_loss() {
    let cases: [(&str, Forge); 12] = [
        ("a directory's attributes", |truth| record(vec![exact(NOBODY, &truth.dir.1)], vec![])),
        ("a symbolic link's attributes", |truth| record(vec![exact(NOBODY, &truth.symlink.1)], vec![])),
        ("a cut of a file", |truth| Record {
            truncate: Some((NOBODY, 10)),
            ..record(vec![exact(NOBODY, &truth.file.1)], vec![])
        }),
        ("a removal", |truth| {
            let gone = InodeAfter { object: NOBODY, inode: None, size: SizeRule::Exact };
            record(vec![exact(truth.root.0, &truth.root.1), gone], vec![])
        }),
        ("a creation in a directory that is not there", |truth| {
            let made = ObjectId(1001);
            let keys = vec![entry(NOBODY, made, FileKind::File)];
            record(vec![exact(NOBODY, &truth.dir.1), exact(made, &truth.file.1)], keys)
        }),
        ("a name in a directory that the record says nothing of", |truth| {
            record(vec![exact(NOBODY, &truth.file.1)], vec![entry(truth.root.0, NOBODY, FileKind::File)])
        }),
        ("a name of a directory that goes elsewhere", |truth| {
            let gone = (Key::new(Class::DirEntry, truth.root.0.0, 998, 0), None);
            let keys = vec![gone, entry(truth.root.0, NOBODY, FileKind::Directory)];
            record(vec![exact(truth.root.0, &truth.root.1), exact(NOBODY, &truth.dir.1)], keys)
        }),
        ("another name of a symbolic link", |truth| {
            let mut linked = truth.symlink.1.clone();
            linked.nlink = 2;
            let keys = vec![entry(truth.root.0, NOBODY, FileKind::Symlink)];
            record(vec![exact(truth.root.0, &truth.root.1), exact(NOBODY, &linked)], keys)
        }),
        ("another generation", |truth| {
            let mut other = truth.dir.1.clone();
            other.generation = Generation(other.generation.0 ^ 1);
            record(vec![exact(truth.dir.0, &other)], vec![])
        }),
        ("another kind", |truth| {
            let mut other = truth.dir.1.clone();
            other.kind = FileKind::Fifo;
            record(vec![exact(truth.dir.0, &other)], vec![])
        }),
        ("content of a directory", |truth| Record {
            data: Some(Data { object: truth.dir.0, pieces: vec![(0, Bytes::from_static(b"x"))].into() }),
            ..record(vec![exact(truth.dir.0, &truth.dir.1)], vec![])
        }),
        ("content of something that the record says nothing of", |truth| Record {
            data: Some(Data { object: NOBODY, pieces: vec![(0, Bytes::from_static(b"x"))].into() }),
            ..record(vec![exact(truth.dir.0, &truth.dir.1)], vec![])
        }),
    ];
    for (what, forge) in cases {
        let (world, filer, truth) = prepared();
        append(&filer, &forge(&truth));
        let cut = world.cut();
        match cut.try_import(&ImportOptions::default()) {
            Err(FilerError::Replay(ReplayLoss { dataset, withheld, source, .. })) => {
                assert_eq!((&dataset[..], withheld), ("tank", 1), "{what}: {source}");
            }
            Err(other) => panic!("{what}: {other}"),
            Ok((_, report)) => panic!("{what}: replayed in silence: {report:?}"),
        }
        let (given_up, report) = cut.try_import(&ACCEPT).unwrap();
        assert_eq!(report.losses.len(), 1, "{what}: {report:?}");
        let fs = vfs(&given_up);
        assert!(fs.lookup(&Cred::root(), fs.root(), b"file").is_ok(), "{what}: the rest is there");
        assert_eq!(fs.lookup(&Cred::root(), fs.root(), b"name").unwrap_err(), FsError::NotFound, "{what}");
        given_up.sync().unwrap();
    }
}

#[test]
fn a_record_that_makes_something_is_replayed() {
    let (world, filer, truth) = prepared();
    let mut root = truth.root.1.clone();
    root.size += 1;
    let made = record(
        vec![exact(truth.root.0, &root), exact(NOBODY, &truth.symlink.1)],
        vec![entry(truth.root.0, NOBODY, FileKind::Symlink)],
    );
    append(&filer, &made);
    let (after, report) = world.cut().import();
    assert_eq!((report.records_replayed, report.losses), (1, Vec::new()));
    let fs = vfs(&after);
    let page = fs.readdir(&Cred::root(), fs.root(), 0, 100, false).unwrap();
    assert!(page.entries.iter().any(|entry| entry.object == NOBODY), "{page:?}");
}

/// Under a sound checksum stands something that is no record. The import says so, and what it would cost to go on; with
/// the loss accepted everything else is there, and what was dropped is on record.
#[test]
fn bytes_that_are_no_record_refuse_the_import_until_they_are_given_up() {
    let (world, filer, truth) = prepared();
    append_bytes(&filer, 5, &[0xff; 100]);
    let mut root = truth.root.1.clone();
    root.size += 1;
    let behind = record(
        vec![exact(truth.root.0, &root), exact(NOBODY, &truth.symlink.1)],
        vec![entry(truth.root.0, NOBODY, FileKind::Symlink)],
    );
    append_bytes(&filer, 6, &behind.encode_head());
    let cred = Cred::root();
    let cut = world.cut();
    let refusal = cut.try_import(&ImportOptions::default()).err().expect("it is refused").to_string();
    for words in ["dataset tank", "record 5 is malformed", "2 changes", "\"name\"", "--accept-loss", "--readonly"] {
        assert!(refusal.contains(words), "{words:?} is not said: {refusal}");
    }
    let (filer, report) = cut.try_import(&ACCEPT).unwrap();
    assert_eq!(report.losses.len(), 1, "{report:?}");
    assert!(!report.losses[0].contains("--accept-loss"), "that was done: {report:?}");
    let fs = vfs(&filer);
    assert_eq!(fs.lookup(&cred, fs.root(), b"file").unwrap().0.object.id, truth.file.0);
    assert_eq!(fs.lookup(&cred, fs.root(), b"name").unwrap_err(), FsError::NotFound);
    done(fs.mkdir(ctx(&cred), fs.root(), b"later", &mode(0o755))).unwrap();
    let (filer, report) = cut.cut().import();
    assert_eq!(report.losses, [""; 0]);
    assert!(vfs(&filer).lookup(&cred, vfs(&filer).root(), b"later").is_ok());
    assert_eq!(filer.pool().roster.config().supplement.losses.len(), 1);
}

/// The power goes while a loss is given up, and others' records are still being replayed: their groups said that the lost
/// ones were taken in. The next import went by them without a word, and none was on record.
#[test]
fn a_loss_that_is_given_up_is_told_wherever_the_power_goes() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create_without_threads(&CreateOptions::default());
    filer.create_dataset("tank/long", PropertySet::new(), (0, 0)).unwrap();
    let (fs, long) = (vfs(&filer), filer.by_name("tank/long").unwrap());
    let cred = Cred::root();
    for name in [b"1", b"2", b"3"] {
        done(fs.mkdir(ctx(&cred), fs.root(), name, &mode(0o755))).unwrap();
    }
    append_bytes(&filer, 5, &[0xff; 100]);
    for number in 0..400 {
        let how = CreateHow::Guarded(mode(0o600));
        let file = done(long.create(ctx(&cred), long.root(), format!("f{number}").as_bytes(), &how)).unwrap().object;
        done(long.write(ctx(&cred), file, 0, vec![1; 4096].into(), Stability::FileSync)).unwrap();
    }
    let tuning = Tuning { dirty_bytes_max: 1 << 20, ..Tuning::default() };
    let mut refused_count = 0;
    for writes in (0..80).step_by(5) {
        let cut = world.cut();
        cut.lose_power_after(writes);
        drop(cut.try_import_with(&tuning, &ACCEPT));
        match cut.cut().try_import(&ImportOptions::default()) {
            Err(FilerError::Replay(_)) => refused_count += 1,
            Err(other) => panic!("after {writes} writes: {other}"),
            Ok((filer, _)) => {
                let told = filer.pool().roster.config().supplement.losses;
                assert_eq!(told.len(), 1, "after {writes} writes the loss is gone without a word");
            }
        }
    }
    assert!(refused_count > 3, "the power went before the loss was given up, too");
}
