//! Access times: when they move, and what they cost.

mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tally_base::{Clock, FileTime, Time};
use tally_fs::filer::CreateOptions;
use tally_store::properties::{Property, PropertySet, parse};
use tally_vfs::{CreateHow, Cred, ObjectRef, SetAttr, SetTime, Stability, Vfs};
use world::{World, ctx, done, mode, vfs};

const MIB: u64 = 1 << 20;
const DAY: u64 = 24 * 60 * 60;

/// A clock that stands still until it is told the time.
struct ToldTime(AtomicU64);

impl Clock for ToldTime {
    fn now(&self) -> Time {
        Time::new(self.0.load(Ordering::SeqCst), 0)
    }

    fn monotonic(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

fn setup(atime: &str) -> (World, Arc<ToldTime>, Arc<tally_fs::Filer>) {
    let clock = Arc::new(ToldTime(1_000_000.into()));
    let world = World::new(64 * MIB, 16 * MIB).with_clock(Arc::clone(&clock) as _);
    let properties = PropertySet::from_iter([parse(Property::Atime, atime).unwrap()]);
    let filer = world.create_with(&CreateOptions { properties, ..CreateOptions::default() });
    (world, clock, filer)
}

fn atime(fs: &dyn Vfs, object: ObjectRef) -> u64 {
    fs.getattr(object).unwrap().atime.seconds().cast_unsigned()
}

#[test]
fn it_moves_with_the_first_access_after_a_change_and_then_once_a_day() {
    let (world, clock, filer) = setup("on");
    let tell = |seconds| clock.0.store(seconds, Ordering::SeqCst);
    let fs = vfs(&filer);
    let cred = Cred::root();
    let file = done(fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o644)))).unwrap().object;
    let read = || fs.read(&cred, file, 0, 10).unwrap();
    tell(1_000_100);
    let change = fs.getattr(file).unwrap().change;
    read();
    assert_eq!(atime(&*fs, file), 1_000_100, "the first one");
    assert_eq!(fs.getattr(file).unwrap().change, change, "reading is no change");
    tell(1_000_200);
    read();
    assert_eq!(atime(&*fs, file), 1_000_100, "nothing has changed since");
    done(fs.write(ctx(&cred), file, 0, vec![1; 10].into(), Stability::FileSync)).unwrap();
    tell(1_000_300);
    read();
    assert_eq!(atime(&*fs, file), 1_000_300, "it was written since");
    tell(1_000_300 + DAY);
    read();
    assert_eq!(atime(&*fs, file), 1_000_300 + DAY, "a day is over");
    let set = SetAttr { atime: Some(SetTime::Client(FileTime::new(5, 0))), ..SetAttr::default() };
    done(fs.setattr(ctx(&cred), file, &set, None)).unwrap();
    assert_eq!(atime(&*fs, file), 5, "a client may set it");
    read();
    assert_eq!(atime(&*fs, file), 1_000_300 + DAY);
    let dir = done(fs.mkdir(ctx(&cred), fs.root(), b"dir", &mode(0o755))).unwrap().object;
    tell(1_000_900 + DAY);
    fs.readdir(&cred, dir, 0, 10, false).unwrap();
    assert_eq!(atime(&*fs, dir), 1_000_900 + DAY, "a listing is an access");
    filer.sync().unwrap();
    let (again, _) = world.cut().import();
    let fs = vfs(&again);
    assert_eq!((atime(&*fs, file), atime(&*fs, dir)), (1_000_300 + DAY, 1_000_900 + DAY), "it came with the group");
}

#[test]
fn an_access_is_not_logged_and_survives_no_crash_before_its_group() {
    let (world, clock, filer) = setup("on");
    let fs = vfs(&filer);
    let cred = Cred::root();
    let file = done(fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o644)))).unwrap().object;
    filer.sync().unwrap();
    let log_used = || filer.pool().lanes()[0].fill().used;
    let before = log_used();
    clock.0.store(1_000_100, Ordering::SeqCst);
    fs.read(&cred, file, 0, 10).unwrap();
    assert_eq!((atime(&*fs, file), log_used()), (1_000_100, before));
    let (after, report) = world.cut().import();
    assert_eq!(report.losses, Vec::<String>::new());
    // The timer's group may have come between.
    assert!([1_000_000, 1_000_100].contains(&atime(&*vfs(&after), file)));
    // What is logged above an access that was not is replayed all the same.
    done(fs.setattr(ctx(&cred), file, &mode(0o600), None)).unwrap();
    let (after, report) = world.cut().import();
    assert_eq!(report.losses, Vec::<String>::new());
    assert_eq!(vfs(&after).getattr(file).unwrap().mode, 0o600);
}

#[test]
fn without_the_property_and_where_nothing_may_change_it_stays() {
    let (_world, clock, filer) = setup("off");
    let fs = vfs(&filer);
    let cred = Cred::root();
    let file = done(fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o644)))).unwrap().object;
    clock.0.store(1_000_100, Ordering::SeqCst);
    fs.read(&cred, file, 0, 10).unwrap();
    assert_eq!(atime(&*fs, file), 1_000_000, "off");
    filer.set_property("tank", parse(Property::Atime, "on").unwrap()).unwrap();
    filer.set_property("tank", parse(Property::ReadOnly, "on").unwrap()).unwrap();
    fs.read(&cred, file, 0, 10).unwrap();
    assert_eq!(atime(&*fs, file), 1_000_000, "read-only");
    filer.set_property("tank", parse(Property::ReadOnly, "off").unwrap()).unwrap();
    fs.read(&cred, file, 0, 10).unwrap();
    assert_eq!(atime(&*fs, file), 1_000_100);
}
