//! A pool of each format version can be imported, has its content, and is described as it always was.

use tally_store::dataset::OBJECT_CHARGE;
use tally_store::inspect::{Fact, Plan};
use tally_vfs::{
    Content, Cred, FileKind, FsError, Identity, Names, ObjectRef, OpCtx, Outcome, Replies, ReplyKey, Vfs, entry_charge,
};

use crate::image::{Image, golden_file, large_content};

pub(crate) fn content(fs: &dyn Vfs, object: ObjectRef) -> Vec<u8> {
    let size = fs.getattr(object).unwrap().size;
    let read = fs.read(&Cred::root(), object, 0, u32::try_from(size).unwrap()).unwrap();
    read.data.iter().flat_map(|piece| piece.to_vec()).collect()
}

/// There is no converter: no program of a release has written one.
#[test]
fn version_1_is_refused_by_name() {
    let image = Image::of_version(1);
    let refused = image.try_import().map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("format 1"), "{refused}");
}

#[test]
fn version_2_is_imported_with_all_that_was_acknowledged() {
    let (filer, report) = Image::golden().import();
    assert_eq!(report.losses, Vec::<String>::new());
    assert_eq!(report.records_replayed, 8);
    let (tank, home) = (filer.by_name("tank").unwrap(), filer.by_name("tank/home").unwrap());
    let cred = Cred::root();
    let find = |dir: ObjectRef, name: &[u8]| tank.lookup(&cred, dir, name).map(|(attr, _)| attr);
    let dir = find(tank.root(), b"dir").unwrap();
    let small = find(dir.object, b"small").unwrap();
    assert_eq!((small.mode, small.nlink), (0o640, 2));
    assert_eq!(content(&*tank, small.object), b"a tally, split\n");
    assert_eq!(find(dir.object, b"moved").unwrap().object, small.object);
    assert_eq!(find(tank.root(), b"second").unwrap_err(), FsError::NotFound);
    assert_eq!(find(dir.object, b"doomed").unwrap_err(), FsError::NotFound);
    assert_eq!(find(dir.object, b"pipe").unwrap().kind, FileKind::Fifo);
    assert_eq!(find(dir.object, b"empty").unwrap().mode, 0o700);
    assert!(find(tank.root(), b"name with \xff and \n").is_ok());
    let link = find(tank.root(), b"link").unwrap();
    assert_eq!(&tank.readlink(link.object).unwrap().0[..], b"dir/small");
    let late = find(dir.object, b"late").unwrap();
    assert_eq!((late.mode, late.size), (0o444, 16));
    assert_eq!(content(&*tank, late.object), b"only in the log\n");
    assert_eq!(tank.remembered(&ReplyKey([7; 40])).unwrap().object, Some(late.object));
    assert_eq!(tank.remembered(&ReplyKey([6; 40])).unwrap().object, Some(small.object));
    let mut large = large_content()[..199_000].to_vec();
    large.extend([b'x'; 3000]);
    assert!(content(&*tank, find(tank.root(), b"large").unwrap().object) == large);
    let (note, _) = home.lookup(&cred, home.root(), b"note").unwrap();
    assert_eq!(content(&*home, note.object), b"of a child\n");
}

/// An account that gave back more than it took would end below zero, or let a full quota grow.
#[test]
fn version_2_keeps_a_sound_account_of_names() {
    let (filer, _) = Image::golden().import();
    let tank = filer.by_name("tank").unwrap();
    let cred = Cred::root();
    let ctx = OpCtx::of(&cred);
    let done = |outcome: Outcome<()>| {
        outcome.wait.block().unwrap();
        outcome.result.unwrap();
    };
    let used = || {
        filer.sync().unwrap();
        tank.info().used_bytes
    };
    let find = |name: &[u8]| tank.lookup(&cred, tank.root(), name).unwrap().0.object;
    let empty = |dir: ObjectRef| {
        for entry in tank.readdir(&cred, dir, 2, 1000, true).unwrap().entries {
            let attr = entry.attr.unwrap();
            match attr.kind {
                FileKind::Directory if &entry.name[..] == b"home" || &entry.name[..] == b"dir" => {}
                FileKind::Directory => done(tank.rmdir(ctx, dir, &entry.name)),
                _ => done(tank.remove(ctx, dir, &entry.name)),
            }
        }
    };
    let dir = find(b"dir");
    empty(dir);
    empty(tank.root());
    let of_names = |names: &[&[u8]]| names.iter().map(|name| entry_charge(name)).sum::<u64>();
    assert_eq!(
        used(),
        3 * OBJECT_CHARGE + of_names(&[b"dir", b"home"]),
        "the root directory, `dir`, and a mount point"
    );
    done(tank.rename(ctx, tank.root(), b"dir", tank.root(), b"renamed"));
    assert_eq!(used(), 3 * OBJECT_CHARGE + of_names(&[b"renamed", b"home"]));
    done(tank.rmdir(ctx, tank.root(), b"renamed"));
    assert_eq!(used(), 2 * OBJECT_CHARGE + of_names(&[b"home"]));
}

/// Compares with the file, or writes it if that is asked for.
fn is_as_expected(facts: &[Fact], name: &str) {
    let text: String = facts.iter().map(|fact| format!("{fact}\n")).collect();
    let file = golden_file(name);
    if std::env::var_os("TALLY_REWRITE_EXPECTED").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap();
    for (number, (line, expected)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(line, expected, "line {} of {name}", number + 1);
    }
    assert_eq!(text.lines().count(), expected.lines().count(), "lines of {name}");
}

#[test]
fn version_2_is_described_in_a_summary() {
    let (facts, outcome) = Image::golden().inspect(&Plan::default());
    assert_eq!((outcome.pool_count, outcome.damage_count), (1, 0));
    is_as_expected(&facts, "v2-summary.txt");
}

#[test]
fn version_2_is_described_to_the_last_entry() {
    let (facts, outcome) = Image::golden().inspect(&everything());
    assert_eq!((outcome.damage_count, outcome.absent), (0, vec!["tank/gone".to_owned()]));
    is_as_expected(&facts, "v2-full.txt");
}

pub(crate) fn everything() -> Plan {
    Plan {
        labels: true,
        uberblocks: true,
        log: true,
        trees: ["tank", "tank/home", "tank/gone"].map(str::to_owned).to_vec(),
        space: true,
        data: true,
        verbose: true,
    }
}

/// A pool on a partition that ends where its disk ends, as `-d /dev` shows it: the end labels are the disk's, too, and nothing
/// else is where it would be on a leg.
#[test]
fn a_disk_around_a_leg_is_neither_imported_nor_read_for_it() {
    for whole in ["/disks/a-disk", "/disks/z-disk"] {
        let mut image = Image::golden();
        let (_, leg) = image.disks[0].clone();
        image.disks.push((whole.into(), [vec![0xee; 1 << 20], leg].concat()));
        let (facts, outcome) = image.inspect(&everything());
        assert_eq!(outcome.damage_count, 0, "{:#?}", facts.iter().filter(|fact| fact.is_damage()).collect::<Vec<_>>());
        let leaf = facts.iter().find(|fact| fact.what == "leaf").and_then(|fact| fact.source.clone()).unwrap();
        assert_eq!(leaf.device.to_str(), Some("/disks/data"));
        let said: Vec<_> = facts.iter().map(Fact::to_string).filter(|line| line.starts_with(whole)).collect();
        assert!(said.len() == 1 && said[0].contains("a partition that begins at byte 1048576"), "{said:#?}");
        let (_, report) = image.import();
        assert_eq!(report.records_replayed, 8);
    }
}
