//! The golden image as disks in memory, and how it was made.
//!
//! `tests/golden/v2-*.zst` are the devices of one pool as a power cut left it, written by a program that has format
//! version 2. From the first release that writes that version on **they are never written again**: a program that cannot
//! read them has broken every pool of it. Until then version 2 may change, and they with it: take the files away and run
//! `cargo test -p tally-fs --test inspect -- --ignored make_the_golden_image`. A format version 3 gets files of its own: raise
//! [`VERSION`], and keep the old files and their tests. The maker refuses to overwrite a file. Those of version 1 are there
//! to be refused: no release has written it.
//!
//! `v2-summary.txt` and `v2-full.txt` are what inspect says of the image. They may change when the *words* do:
//! `TALLY_REWRITE_EXPECTED=1 cargo test -p tally-fs --test inspect` writes them; look at the difference before
//! it is committed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tally_base::{Clock, FileTime, SystemRng, Time};
use tally_disk::{Helpers, Host, Platform, SerialFanout};
use tally_fakes::{MemDisk, MemOpener};
use tally_fs::Filer;
use tally_fs::filer::{CreateOptions, FilerError, ImportOptions, ImportReport};
use tally_fs::inspect::FsWords;
use tally_members::assemble::PoolSelect;
use tally_members::discover::ImportSource;
use tally_members::grammar::{VdevSpec, parse_vdev_args};
use tally_store::inspect::{Fact, Plan, inspect};
use tally_store::properties::{Property, PropertySet, parse};
use tally_store::tuning::Tuning;
use tally_vfs::{
    Content, CreateHow, Cred, FsError, Identity, Names, NodeKind, OpCtx, Outcome, ReplyKey, SetAttr, SetTime,
    Stability, Vfs,
};

/// The format version of the image.
const VERSION: u32 = 2;
const MIB: u64 = 1 << 20;
/// The devices: where the pool was made, and the file of the fixture.
const DEVICES: [(&str, &str, u64); 2] = [("/disks/data", "data", 16 * MIB), ("/disks/slog", "slog", 2 * MIB)];

/// Devices by path; what is said of them names these paths.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) disks: Vec<(String, Vec<u8>)>,
}

pub(crate) fn golden_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

impl Image {
    pub(crate) fn golden() -> Self {
        Self::of_version(VERSION)
    }

    pub(crate) fn of_version(version: u32) -> Self {
        let load = |name: &str, size: u64| {
            let packed = std::fs::read(golden_file(&format!("v{version}-{name}.zst"))).unwrap();
            let bytes = zstd::bulk::decompress(&packed, size as usize).unwrap();
            assert_eq!(bytes.len() as u64, size);
            bytes
        };
        let disks = DEVICES.map(|(path, name, size)| (path.to_owned(), load(name, size)));
        Self { disks: disks.to_vec() }
    }

    /// Flips bits of `count` bytes.
    pub(crate) fn rot(&mut self, path: &str, offset: u64, count: usize) {
        let (_, bytes) = self.disks.iter_mut().find(|(other, _)| other == path).unwrap();
        for byte in &mut bytes[offset as usize..offset as usize + count] {
            *byte ^= 0x5a;
        }
    }

    pub(crate) fn opener(&self) -> MemOpener {
        let opener = MemOpener::default();
        for (path, bytes) in &self.disks {
            opener.put(path, Arc::new(MemDisk::from_bytes(bytes)) as _);
        }
        opener
    }

    /// Everything that inspect says, and what it has come to.
    pub(crate) fn inspect(&self, plan: &Plan) -> (Vec<Fact>, tally_store::inspect::Outcome) {
        let source = ImportSource { paths: vec![], dirs: vec!["/disks".into()] };
        let mut facts = Vec::new();
        let outcome = inspect(&self.opener(), &source, plan, &FsWords, &mut |fact| facts.push(fact.clone())).unwrap();
        assert_eq!(facts.iter().filter(|fact| fact.is_damage()).count() as u64, outcome.damage_count);
        (facts, outcome)
    }

    pub(crate) fn import(&self) -> (Arc<Filer>, ImportReport) {
        let (filer, report) = self.try_import().unwrap();
        drive(&filer);
        (filer, report)
    }

    pub(crate) fn try_import(&self) -> Result<(Arc<Filer>, ImportReport), FilerError> {
        let source = ImportSource { paths: vec![], dirs: vec!["/disks".into()] };
        let select = PoolSelect::Name("tank".into());
        let platform = platform(Arc::new(self.opener()));
        Filer::import(&platform, &Tuning::default(), &source, &select, &ImportOptions::default(), &mut |_| {})
    }
}

fn platform(opener: Arc<MemOpener>) -> Platform {
    Platform {
        clock: Arc::new(ImageClock::default()),
        rng: Arc::new(SystemRng),
        opener,
        fanout: Arc::new(SerialFanout),
        helpers: Helpers::Threads,
        host: Host { id: 1, name: "test".into() },
    }
}

/// A clock that begins when the image was made, so that what it remembers for minutes is still remembered.
#[derive(Default)]
struct ImageClock(AtomicU64);

impl Clock for ImageClock {
    fn now(&self) -> Time {
        Time(Time::new(1_795_000_000, 0).0 + self.monotonic().as_nanos() as u64)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Starts the filer's threads; they end with the test.
fn drive(filer: &Arc<Filer>) {
    for (_, body) in filer.background() {
        std::thread::spawn(body);
    }
}

/// What an acknowledged operation returns.
fn done<T>(outcome: Outcome<T>) -> Result<T, FsError> {
    outcome.wait.block().expect("the log works");
    outcome.result
}

fn mode(mode: u32) -> SetAttr {
    SetAttr { mode: Some(mode), ..SetAttr::default() }
}

/// The content of the image's large file: compressible, and different everywhere.
pub(crate) fn large_content() -> Bytes {
    (0..300_000u32).flat_map(|i| (i / 16).to_le_bytes()).take(300_000).collect::<Vec<u8>>().into()
}

/// What is synced in the image: files of both layouts, a directory, links, special files, a child dataset.
fn make_synced(fs: &dyn Vfs) {
    let cred = Cred::root();
    let ctx = OpCtx::of(&cred);
    let guarded = |bits| CreateHow::Guarded(mode(bits));
    let dir = done(fs.mkdir(ctx, fs.root(), b"dir", &mode(0o755))).unwrap();
    let asked = OpCtx { reply: Some(ReplyKey([6; 40])), ..OpCtx::of(&cred) };
    let small = done(fs.create(asked, dir.object, b"small", &guarded(0o640))).unwrap();
    done(fs.write(ctx, small.object, 0, Bytes::from_static(b"a tally, split\n"), Stability::FileSync)).unwrap();
    let large = done(fs.create(ctx, fs.root(), b"large", &guarded(0o600))).unwrap();
    done(fs.write(ctx, large.object, 0, large_content(), Stability::FileSync)).unwrap();
    done(fs.symlink(ctx, fs.root(), b"link", b"dir/small", &SetAttr::default())).unwrap();
    done(fs.link(ctx, small.object, fs.root(), b"second")).unwrap();
    done(fs.mknod(ctx, dir.object, b"pipe", NodeKind::Fifo, &mode(0o600))).unwrap();
    done(fs.create(ctx, fs.root(), b"name with \xff and \n", &guarded(0o600))).unwrap();
    done(fs.create(ctx, dir.object, b"doomed", &guarded(0o600))).unwrap();
}

/// What only the log has: one record of most kinds.
fn make_logged(fs: &dyn Vfs) {
    let cred = Cred::root();
    let ctx = OpCtx::of(&cred);
    let (dir, _) = fs.lookup(&cred, fs.root(), b"dir").unwrap();
    let asked = OpCtx { reply: Some(ReplyKey([7; 40])), ..OpCtx::of(&cred) };
    let late = done(fs.create(asked, dir.object, b"late", &CreateHow::Exclusive(0x1122))).unwrap();
    let times = SetAttr { mtime: Some(SetTime::Client(FileTime::new(1_000_000_000, 5))), ..mode(0o444) };
    done(fs.setattr(ctx, late.object, &times, None)).unwrap();
    done(fs.write(ctx, late.object, 0, Bytes::from_static(b"only in the log\n"), Stability::FileSync)).unwrap();
    done(fs.rename(ctx, fs.root(), b"second", dir.object, b"moved")).unwrap();
    done(fs.remove(ctx, dir.object, b"doomed")).unwrap();
    done(fs.mkdir(ctx, dir.object, b"empty", &mode(0o700))).unwrap();
    let (large, _) = fs.lookup(&cred, fs.root(), b"large").unwrap();
    let size = SetAttr { size: Some(200_000), ..SetAttr::default() };
    done(fs.setattr(ctx, large.object, &size, None)).unwrap();
    done(fs.write(ctx, large.object, 199_000, Bytes::from(vec![b'x'; 3000]), Stability::Unstable)).unwrap();
    done(fs.commit(ctx, large.object, 0, 0)).unwrap();
}

/// A pool of these vdevs with the image's content, as a power cut leaves it.
pub(crate) fn make(vdevs: &[&str], disks: &[(&str, u64)]) -> Image {
    make_of(&parse_vdev_args(&vdevs.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).unwrap(), disks)
}

pub(crate) fn make_of(specs: &[VdevSpec], disks: &[(&str, u64)]) -> Image {
    let opener = Arc::new(MemOpener::default());
    let disks: Vec<_> = disks.iter().map(|(path, size)| ((*path).to_owned(), Arc::new(MemDisk::new(*size)))).collect();
    for (path, disk) in &disks {
        opener.put(path, Arc::clone(disk) as _);
    }
    let filer = Filer::create(&platform(opener), &Tuning::default(), "tank", specs, &CreateOptions::default()).unwrap();
    drive(&filer);
    let mut properties = PropertySet::new();
    properties.set(parse(Property::Compression, "zstd").unwrap());
    filer.create_dataset("tank/home", properties, (1000, 1000)).unwrap();
    filer.set_property("tank", parse(Property::ShareNfs, "127.0.0.1(rw)").unwrap()).unwrap();
    let (tank, home) = (filer.by_name("tank").unwrap(), filer.by_name("tank/home").unwrap());
    make_synced(&*tank);
    let cred = Cred::root();
    let ctx = OpCtx::of(&cred);
    let note = done(home.create(ctx, home.root(), b"note", &CreateHow::Guarded(mode(0o644)))).unwrap();
    done(home.write(ctx, note.object, 0, Bytes::from_static(b"of a child\n"), Stability::FileSync)).unwrap();
    filer.sync().unwrap();
    make_logged(&*tank);
    Image { disks: disks.into_iter().map(|(path, disk)| (path, disk.content())).collect() }
}

#[test]
#[ignore = "writes the fixture of a format version, once for ever; see the head of this file"]
fn make_the_golden_image() {
    let disks = DEVICES.map(|(path, _, size)| (path, size));
    let image = make(&["/disks/data", "log", "/disks/slog"], &disks);
    for ((_, bytes), (_, name, _)) in image.disks.iter().zip(DEVICES) {
        let file = golden_file(&format!("v{VERSION}-{name}.zst"));
        assert!(!file.exists(), "{} is there, and stays as it is", file.display());
        let packed = zstd::bulk::compress(bytes, 19).unwrap();
        assert!(packed.len() < 100 << 10, "{name} takes {} bytes", packed.len());
        std::fs::write(file, packed).unwrap();
    }
}
