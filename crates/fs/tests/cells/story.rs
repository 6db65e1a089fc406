//! A pool whose log holds two records, a bystander's and the one under test, cut; and what must be there afterwards.
//!
//! The pool was imported before the two, so their frames are the first of a ring's life: the bystander's at its start,
//! the other one behind it. Behind them the frames of the life before still stand.

use std::collections::BTreeMap;
use std::sync::Arc;

use tally_fs::filer::{CreateOptions, Filer, ImportOptions, ImportReport};
use tally_fs::inspect::FsWords;
use tally_fs::record::RecordKind;
use tally_intent::FrameHeader;
use tally_members::discover::ImportSource;
use tally_store::inspect::{Plan, Value, inspect};
use tally_store::tuning::Tuning;
use tally_vfs::model::{Model, ModelOptions};
use tally_vfs::{Attr, Cred, FileKind, ObjectRef, OpCtx, RememberedReply, ReplyKey, Vfs};

use crate::same::same;
use crate::shapes::{Late, Shape, furnish};
use crate::sound::sound;
use crate::world::{World, ctx, done, mode, vfs};

const MIB: u64 = 1 << 20;
pub(crate) const SECTOR: usize = 4096;
/// Under which the operation's answer is remembered.
const KEY: ReplyKey = ReplyKey([9; 40]);
const READ_ONLY: ImportOptions = ImportOptions { force: false, read_only: true, accept_loss: false, destroyed: false };

/// The disks that a story is told on.
#[derive(Clone, Copy)]
pub(crate) enum Log {
    OneLeg,
    TwoLegs,
}

impl Log {
    pub(crate) fn legs(self) -> &'static [&'static str] {
        match self {
            Self::OneLeg => &["/disks/slog"],
            Self::TwoLegs => &["/disks/l1", "/disks/l2"],
        }
    }

    fn world(self) -> World {
        let disk = |path| (path, 2 * MIB);
        let disks: Vec<_> =
            std::iter::once(("/disks/data", 16 * MIB)).chain(self.legs().iter().copied().map(disk)).collect();
        let kind = if self.legs().len() > 1 { "mirror " } else { "" };
        // Nothing happens beside the caller, so that one run is like the other.
        World::of(&disks, &format!("/disks/data log {kind}{}", self.legs().join(" "))).without_helpers()
    }
}

/// What is expected of a pool.
pub(crate) struct Expected {
    pub(crate) model: Model,
    /// What the real file system showed before the cut, where nothing of that is lost.
    picture: Option<Picture>,
    reply: Option<RememberedReply>,
}

/// What only the real file system has: ids, generations, times and cookies, by path.
type Picture = BTreeMap<Vec<u8>, (Option<Attr>, u64)>;

pub(crate) struct Story {
    /// Before the operation; the bystander's record is acknowledged.
    pub(crate) before: World,
    /// After it was acknowledged, too.
    pub(crate) after: World,
    /// The pool of `after`, which goes on, and its disks.
    pub(crate) live: (World, Arc<Filer>),
    /// Without what is in the log.
    pub(crate) synced: Expected,
    /// What `before` must come to.
    pub(crate) without: Expected,
    /// What `after` must come to.
    pub(crate) with: Expected,
    /// What the pool of `after` comes to if it goes on: unstable data is not lost there.
    pub(crate) going_on: Expected,
}

impl Story {
    pub(crate) fn tell(kind: RecordKind, shape: &Shape, log: Log) -> Self {
        let world = furnished(log);
        let filer = import(&world).unwrap().0;
        let fs = vfs(&filer);
        let model = Model::new(&ModelOptions::default());
        furnish(&model);
        let synced = Expected::of(model.fork(), &*fs);
        if let Some(write) = shape.late.write() {
            write(&*fs);
        }
        bystander(&*fs);
        bystander(&model);
        let before = world.cut();
        let without = Expected { picture: None, ..Expected::of(model.fork(), &*fs) };
        let cred = Cred::root();
        let asked = OpCtx { reply: Some(KEY), ..OpCtx::of(&cred) };
        (shape.op)(&*fs, asked);
        let after = world.cut();
        let kept = model.fork();
        if let Some(write) = shape.late.write() {
            write(&kept);
        }
        (shape.op)(&kept, asked);
        (shape.op)(&model, asked);
        let going_on = Expected::of(kept, &*fs);
        let with = match shape.late {
            Late::Lost(_) => Expected { picture: None, ..Expected::of(model, &*fs) },
            Late::None | Late::Saved(_) => Expected::of(going_on.model.fork(), &*fs),
        };
        let remembers = !matches!(kind, RecordKind::Write | RecordKind::CommitData);
        assert_eq!(with.reply.is_some(), remembers, "a remembered answer");
        assert_eq!(to_replay(&after), ["Mkdir".to_owned(), format!("{kind:?}")], "the records that are to be replayed");
        Self { before, after, live: (world, filer), synced, without, with, going_on }
    }

    /// The operation's frame on a leg of the log: where on the disk, and its bytes.
    pub(crate) fn frame(&self, leg: &str) -> (u64, Vec<u8>) {
        let (before, after) = (self.before.content_of(leg), self.after.content_of(leg));
        let sectors = before.chunks(SECTOR).zip(after.chunks(SECTOR)).enumerate();
        let start = sectors.into_iter().find(|(_, (before, after))| before != after).unwrap().0 * SECTOR;
        let (header, _) = FrameHeader::decode(&after[start..]).expect("what has changed begins with a frame");
        let end = start + header.frame_bytes() as usize;
        assert!(before[end..] == after[end..], "nothing but the frame was written");
        assert_eq!(header.record_count, 1);
        (start as u64, after[start..end].to_vec())
    }
}

/// A pool with the furniture in it and nothing in its log.
fn furnished(log: Log) -> World {
    let world = log.world();
    let filer = world.create_without_threads(&CreateOptions::default());
    furnish(&*vfs(&filer));
    filer.sync().unwrap();
    world.cut()
}

/// The record that is acknowledged before the one under test.
fn bystander(fs: &dyn Vfs) {
    done(fs.mkdir(ctx(&Cred::root()), fs.root(), b"bystander", &mode(0o711))).unwrap();
}

impl Expected {
    fn of(model: Model, real: &dyn Vfs) -> Self {
        Self { model, picture: Some(picture(real)), reply: real.remembered(&KEY) }
    }

    /// Further operations, which the pool has seen as well.
    pub(crate) fn and(&self, more: impl FnOnce(&dyn Vfs)) -> Self {
        let model = self.model.fork();
        more(&model);
        Self { model, picture: None, reply: self.reply }
    }

    /// Whether the pool is as expected, and sound.
    pub(crate) fn check(&self, filer: &Filer) -> Result<(), String> {
        self.check_seen(filer)?;
        sound(filer)
    }

    /// Whether what is seen is as expected.
    pub(crate) fn check_seen(&self, filer: &Filer) -> Result<(), String> {
        let fs = vfs(filer);
        if let Some(expected) = &self.picture {
            let found = picture(&*fs);
            // What a life shows as the newest change of all that is older.
            let floor = filer.pool().life().change_floor;
            let mut expected = expected.clone();
            let attrs = expected.values_mut().filter_map(|(attr, _)| attr.as_mut());
            attrs.for_each(|attr| attr.change = attr.change.max(floor));
            if let Some((path, expected)) = expected.iter().find(|(path, entry)| found.get(*path) != Some(*entry)) {
                let path = String::from_utf8_lossy(path);
                return Err(format!("{path} is {:?} instead of {expected:?}", found.get(path.as_bytes())));
            }
        }
        if fs.remembered(&KEY) != self.reply {
            return Err(format!("the answer {:?} is remembered, not {:?}", fs.remembered(&KEY), self.reply));
        }
        same(&*fs, &self.model)
    }
}

fn picture(fs: &dyn Vfs) -> Picture {
    let mut picture = Picture::new();
    picture_below(fs, fs.root(), b"", &mut picture);
    picture.insert(Vec::new(), (fs.getattr(fs.root()).ok().map(as_stored), 0));
    picture
}

fn picture_below(fs: &dyn Vfs, dir: ObjectRef, path: &[u8], picture: &mut Picture) {
    let page = fs.readdir(&Cred::root(), dir, 2, 1000, true).unwrap();
    for entry in page.entries {
        let path = [path, b"/", &entry.name[..]].concat();
        if let Some(attr) = entry.attr.as_ref().filter(|attr| attr.kind == FileKind::Directory) {
            picture_below(fs, attr.object, &path, picture);
        }
        picture.insert(path, (entry.attr.map(as_stored), entry.cookie));
    }
}

/// Bytes on disk are known only when they are there.
fn as_stored(mut attr: Attr) -> Attr {
    attr.used = 0;
    attr
}

/// An import after which nothing happens by itself. A loss is a failure.
pub(crate) fn import(world: &World) -> Result<(Arc<Filer>, ImportReport), String> {
    import_as(world, &Tuning::default())
}

pub(crate) fn import_as(world: &World, tuning: &Tuning) -> Result<(Arc<Filer>, ImportReport), String> {
    let imported = world.try_import_without_threads(tuning, &ImportOptions::default());
    let (filer, report) = imported.map_err(|error| format!("the import fails: {error}"))?;
    if report.losses.is_empty() { Ok((filer, report)) } else { Err(format!("{:?}", report.losses)) }
}

/// An import that writes nothing.
pub(crate) fn look(world: &World) -> Result<(Arc<Filer>, ImportReport), String> {
    let looked = world.try_import_without_threads(&Tuning::default(), &READ_ONLY);
    looked.map_err(|error| format!("the import for reading fails: {error}"))
}

/// The types of the records that an import would replay, in the words of `tally inspect`.
pub(crate) fn to_replay(world: &World) -> Vec<String> {
    let mut kinds = Vec::new();
    let source =
        ImportSource { paths: vec!["/disks/data".into(), "/disks/slog".into(), "/disks/l1".into()], dirs: vec![] };
    let plan = Plan { log: true, ..Plan::default() };
    inspect(&*world.platform().opener, &source, &plan, &FsWords, &mut |fact| {
        let field = |name| fact.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.clone());
        if let ("record", Some(Value::Flag(true)), Some(Value::Text(kind))) =
            (fact.what, field("replay"), field("kind"))
        {
            kinds.push(kind);
        }
    })
    .unwrap();
    kinds
}
