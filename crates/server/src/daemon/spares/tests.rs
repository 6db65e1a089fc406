//! A pool with spares, a clock that jumps, and disks that come and go.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use tally_base::{Clock, SystemClock, SystemRng, Time, VdevGuid};
use tally_disk::{Access, Disk, Helpers, Host, Opener, Platform, ThreadFanout};
use tally_fakes::{FaultyDisk, Journal, MemDisk, MemOpener};
use tally_fs::filer::CreateOptions;
use tally_members::label;
use tally_store::pool::spares::AWAY_MIN;
use tally_store::tuning::Tuning;
use tally_vfs::{Cred, Identity, Names, OpCtx, SetAttr};

use super::*;
use crate::control::message::{OnProgress, Request};
use crate::daemon::by_name::find_spare;
use crate::daemon::importing::ImportOrder;
use crate::daemon::pool_report::report;
use crate::daemon::state::State;

const MIB: u64 = 1 << 20;

/// The machine's clock, and seconds that a test has put on top.
#[derive(Default)]
struct Jumping {
    clock: SystemClock,
    seconds: AtomicU64,
}

impl Clock for Jumping {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic() + Duration::from_secs(self.seconds.load(Ordering::SeqCst))
    }
}

struct Place {
    _dir: tempfile::TempDir,
    clock: Arc<Jumping>,
    opener: Arc<MemOpener>,
    disks: Vec<(&'static str, Arc<MemDisk>)>,
    pools: Arc<Pools>,
}

impl Place {
    fn new(disks: &[(&'static str, u64)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (clock, opener) = (Arc::<Jumping>::default(), Arc::new(MemOpener::default()));
        let disks: Vec<_> = disks.iter().map(|(path, mib)| (*path, Arc::new(MemDisk::new(mib * MIB)))).collect();
        for (path, disk) in &disks {
            opener.put(path, Arc::clone(disk) as Arc<dyn Disk>);
        }
        let platform = Platform {
            clock: Arc::clone(&clock) as _,
            rng: Arc::new(SystemRng),
            opener: Arc::clone(&opener) as _,
            fanout: Arc::new(ThreadFanout::default()),
            helpers: Helpers::Threads,
            host: Host { id: 1, name: "here".into() },
        };
        let tuning = Tuning { txg_interval: Duration::from_millis(100), ..Tuning::default() };
        let pools = Arc::new(Pools::begin(platform, tuning, State::load(dir.path()).expect("a directory"), Vec::new()));
        Self { _dir: dir, clock, opener, disks, pools }
    }

    fn create(&self, words: &[&str]) -> Arc<ServedPool> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        self.pools.create("tank", &words, &CreateOptions::default(), Vec::new()).expect("a pool")
    }

    fn add(&self, words: &[&str]) -> Result<String, String> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        self.pools.add("tank", &words, false).map_err(|error| error.to_string())
    }

    fn tank(&self) -> Arc<ServedPool> {
        self.pools.pool("tank").expect("it is imported")
    }

    /// Later, and what the look has done then.
    fn look(&self, seconds: u64) -> Vec<SpareErrand> {
        self.clock.seconds.fetch_add(seconds, Ordering::SeqCst);
        let served = self.tank();
        let errands = due(&served);
        errands.iter().for_each(|errand| carry_out(&self.pools, &served, *errand));
        errands
    }

    /// Exports the pool, and imports it again.
    fn again(&self) {
        self.pools.export("tank", None).expect("it is let go");
        self.import();
    }

    fn import(&self) {
        let paths = self.disks.iter().map(|(path, _)| PathBuf::from(path)).collect();
        let order = ImportOrder { pool: "tank".into(), paths, ..ImportOrder::default() };
        self.pools.import(&order, &mut |_| {}).expect("it is there");
    }

    fn guid(&self, path: &str) -> VdevGuid {
        let config = self.tank().filer.pool().roster.config();
        let legs = config.vdevs_present().flat_map(|vdev| &vdev.legs);
        let leg = legs.filter(|leg| leg.path == Path::new(path)).map(|leg| leg.guid).next();
        leg.or_else(|| find_spare(&config, path).map(|spare| spare.guid)).unwrap_or_else(|| panic!("no {path}"))
    }

    /// It is struck off, and has refused nothing.
    fn strike_off(&self, path: &str) {
        self.tank().filer.pool().roster.drop_leg(self.guid(path), &io::Error::other("its cable")).expect("it goes");
    }

    fn disk(&self, path: &str) -> &Arc<MemDisk> {
        &self.disks.iter().find(|(name, _)| *name == path).expect("a disk").1
    }

    /// Whether the disk's own label calls it a spare; none: it has no label.
    fn says_spare(&self, path: &str) -> Option<bool> {
        label::read(self.disk(path).as_ref()).ok().map(|label| label.is_spare())
    }

    /// Path, state and for whom, of each spare.
    fn spares(&self) -> Vec<(String, String, Option<String>)> {
        let served = self.tank();
        let reports = served.spare_reports(&served.filer.pool().roster.config());
        reports.into_iter().map(|spare| (spare.name, spare.state, spare.stands_for)).collect()
    }

    fn states(&self) -> Vec<(String, &'static str)> {
        let served = self.tank();
        let legs = served.filer.pool().roster.data_legs();
        legs.map(|leg| (leg.path().display().to_string(), leg.state().word())).collect()
    }

    fn make(&self, name: &str) {
        let fs = self.tank().filer.by_name("tank").expect("its first dataset");
        let root = Cred::root();
        let made = fs.mkdir(OpCtx::of(&root), fs.root(), name.as_bytes(), &SetAttr::default());
        assert!(made.result.is_ok());
        self.tank().filer.sync().expect("it is synced");
    }

    fn has_all(&self, names: &[&str]) {
        let fs = self.tank().filer.by_name("tank").expect("its first dataset");
        for name in names {
            fs.lookup(&Cred::root(), fs.root(), name.as_bytes()).expect("it was synced");
        }
    }
}

fn avail(path: &str) -> (String, String, Option<String>) {
    (path.into(), "AVAIL".into(), None)
}

fn in_use(path: &str, leg: &str) -> (String, String, Option<String>) {
    (path.into(), "INUSE".into(), Some(leg.into()))
}

const AWAY_SECONDS: u64 = AWAY_MIN.as_secs();

/// The disk of a mirror goes, and nobody is there. A spare stands in for it, also over a restart, and alone if need be; the disk
/// comes back, gets what it has missed, and the spare waits again.
#[test]
fn a_spare_stands_in_for_a_disk_that_is_away_and_waits_again_when_that_is_back() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/s", 40)]);
    place.create(&["mirror", "/a", "/b"]);
    place.add(&["spare", "/s"]).expect("a spare");
    assert_eq!((place.spares(), place.says_spare("/s")), (vec![avail("/s")], Some(true)));
    place.make("before");
    place.strike_off("/b");
    place.make("meanwhile");
    assert_eq!(place.look(0), [], "it was there a moment ago");
    assert_eq!(place.look(AWAY_SECONDS - 10), [], "somebody may be at it");
    let take = SpareErrand::Take { spare: place.guid("/s"), away: place.guid("/b") };
    assert_eq!(place.look(20), [take]);
    assert_eq!((place.spares(), place.says_spare("/s")), (vec![in_use("/s", "/b")], Some(false)));
    assert_eq!(place.states(), [("/a".into(), "ONLINE"), ("/b".into(), "FAULTED"), ("/s".into(), "ONLINE")]);
    assert_eq!(place.look(AWAY_SECONDS), [], "one is enough");

    place.again();
    assert_eq!(place.spares(), [in_use("/s", "/b")]);
    assert_eq!(place.states()[1], ("/b".into(), "STALE"));
    assert_eq!(place.look(2 * AWAY_SECONDS), []);
    place.make("behind the restart");
    // It has everything by itself.
    place.pools.export("tank", None).expect("it is let go");
    let a = place.opener.remove(Path::new("/a")).expect("it was there");
    place.import();
    place.has_all(&["before", "meanwhile", "behind the restart"]);
    place.pools.export("tank", None).expect("it is let go");
    place.opener.put("/a", a);
    place.import();

    place.pools.online("tank", "/a", &mut |_| {}).expect("it was away as well");
    place.pools.online("tank", "/b", &mut |_| {}).expect("it is back");
    let give_back = SpareErrand::GiveBack { spare: place.guid("/s") };
    assert_eq!(place.look(0), [give_back]);
    assert_eq!((place.spares(), place.says_spare("/s")), (vec![avail("/s")], Some(true)));
    assert_eq!(place.states(), [("/a".into(), "ONLINE"), ("/b".into(), "ONLINE")]);
    assert_eq!(place.look(2 * AWAY_SECONDS), []);
    place.again();
    assert_eq!(place.spares(), [avail("/s")]);
    place.has_all(&["before", "meanwhile", "behind the restart"]);
}

/// The disk will not come back, and is detached: its spare is a disk of the mirror like any other.
#[test]
fn a_spare_stays_for_good_when_the_disk_for_which_it_stands_is_detached() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/s", 32), ("/t", 32)]);
    place.create(&["mirror", "/a", "/b"]);
    place.add(&["spare", "/s", "/t"]).expect("two spares");
    place.strike_off("/b");
    place.look(0);
    assert_eq!(place.look(AWAY_SECONDS).len(), 1, "one of two");
    let standing = if place.spares()[0].1 == "INUSE" { "/s" } else { "/t" };
    let remarks = place.pools.detach("tank", "/b", false, &mut |_| {}).expect("it is of no use");
    assert!(remarks.iter().any(|remark| remark.contains("for good now")), "{remarks:?}");
    assert_eq!(place.spares(), [avail(if standing == "/s" { "/t" } else { "/s" })]);
    assert_eq!((place.states().len(), place.says_spare(standing)), (2, Some(false)));
    assert_eq!(place.look(2 * AWAY_SECONDS), []);
    // It is one of whose absence a spare is taken.
    place.strike_off(standing);
    place.look(0);
    assert_eq!(place.look(AWAY_SECONDS).len(), 1);
    assert_eq!(place.spares()[0].2.as_deref(), Some(standing));
}

/// The disk is replaced by a new one while its spare stands in: then nobody is away any more.
#[test]
fn a_spare_is_given_back_when_the_disk_for_which_it_stands_is_replaced() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/s", 32), ("/new", 32)]);
    place.create(&["mirror", "/a", "/b"]);
    place.add(&["spare", "/s"]).expect("a spare");
    for (round, new) in [Some("/new"), None].into_iter().enumerate() {
        let old = ["/b", "/new"][round];
        place.strike_off(old);
        place.look(0);
        assert_eq!(place.look(AWAY_SECONDS).len(), 1);
        place.pools.replace("tank", old, new.map(Path::new), false, &mut |_| {}).expect("it is replaced");
        assert_eq!(place.look(0), [SpareErrand::GiveBack { spare: place.guid("/s") }]);
        assert_eq!(place.spares(), [avail("/s")]);
        assert_eq!(place.states(), [("/a".into(), "ONLINE"), ("/new".into(), "ONLINE")]);
    }
}

/// Somebody knows better: takes a spare at once, and gives it back. It is not taken again for a disk that has not been there.
#[test]
fn a_spare_is_taken_and_given_back_by_hand() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/s", 32)]);
    place.create(&["mirror", "/a", "/b"]);
    place.add(&["spare", "/s"]).expect("a spare");
    let s = Some(Path::new("/s"));
    let refused = place.pools.replace("tank", "/b", s, false, &mut |_| {}).expect_err("it is well").to_string();
    assert!(refused.contains("/b is there and has everything"), "{refused}");
    let refused =
        place.pools.attach("tank", "/b", Path::new("/s"), false, &mut |_| {}).expect_err("it waits").to_string();
    assert!(refused.contains("`tally pool remove` takes it out first"), "{refused}");
    place.strike_off("/b");
    place.look(0);
    // Somebody has the spare's disk open: it is neither taken nor taken out, and `-n` knows.
    let held = place.opener.open(Path::new("/s"), Access::Exclusive).expect("it waits");
    let replace = Request::PoolReplace {
        name: "tank".into(),
        device: "/b".into(),
        new_device: s.map(Path::to_owned),
        force: false,
    };
    let foreseen = place.pools.would(&replace).expect_err("it is held").to_string();
    let refused = place.pools.replace("tank", "/b", s, false, &mut |_| {}).expect_err("it is held").to_string();
    assert!(refused.contains("another process has it in use") && refused == foreseen, "{refused}; {foreseen}");
    let refused = place.pools.remove("tank", "/s").expect_err("it is held").to_string();
    assert!(refused.contains("try again when that is over"), "{refused}");
    assert_eq!(place.spares(), [avail("/s")]);
    drop(held);
    place.pools.would(&replace).expect("it could be taken");
    place.pools.replace("tank", "/b", Some(Path::new("/s")), false, &mut |_| {}).expect("the spare is taken");
    assert_eq!((place.spares(), place.states().len()), (vec![in_use("/s", "/b")], 3));
    let error = place.pools.remove("tank", "/s").expect_err("it is needed").to_string();
    assert!(error.contains("in the place of another disk"), "{error}");
    let error = place.pools.replace("tank", "/s", None, true, &mut |_| {}).expect_err("it stands in").to_string();
    assert!(error.contains("replace that one"), "{error}");
    place.pools.detach("tank", "/s", false, &mut |_| {}).expect("it is given back");
    assert_eq!((place.spares(), place.says_spare("/s")), (vec![avail("/s")], Some(true)));
    assert_eq!(place.look(2 * AWAY_SECONDS), [], "somebody has said no");
    place.pools.online("tank", "/b", &mut |_| {}).expect("it is back");
    place.look(0);
    place.strike_off("/b");
    place.look(0);
    assert_eq!(place.look(AWAY_SECONDS).len(), 1, "it has been there meanwhile");
    place.pools.online("tank", "/b", &mut |_| {}).expect("it is back");
    place.look(0);
    assert_eq!(place.pools.remove("tank", "/s").expect("it waits"), Vec::<String>::new());
    assert_eq!((place.spares(), place.says_spare("/s")), (Vec::new(), None));
}

/// The power goes when a copy to a spare is at its end but for the label, and when a spare that is given back has not got its
/// label yet.
#[test]
fn a_spare_that_was_cut_off_goes_on_and_one_that_was_half_given_back_waits() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/s", 32)]);
    place.create(&["mirror", "/a", "/b"]);
    place.add(&["spare", "/s"]).expect("a spare");
    place.make("before");
    let as_spare = place.disk("/s").content();
    place.strike_off("/b");
    let (roster, pool) = (Arc::clone(&place.tank().filer.pool().roster), Arc::clone(place.tank().filer.pool()));
    // As `take_spare` begins, and then the daemon is gone.
    let (spare, b) = (place.guid("/s"), place.guid("/b"));
    let leg = roster.take_spare(&place.pools.platform, spare, b).expect("its disk");
    roster.add_leg(&pool.member(b).expect("a disk").vdev, leg).expect("it joins");
    drop((roster, pool));
    place.again();
    assert_eq!(place.states()[2], ("/s".into(), "STALE"));
    assert_eq!(place.look(0), [SpareErrand::Return { spare }]);
    assert_eq!(place.states()[2], ("/s".into(), "ONLINE"));
    place.make("meanwhile");

    let as_leg = place.disk("/s").content();
    place.pools.detach("tank", "/s", false, &mut |_| {}).expect("it is given back");
    assert_ne!(as_leg, as_spare);
    place.disk("/s").write(0, &as_leg, tally_disk::Durability::Durable).expect("the label comes back");
    assert_eq!(place.says_spare("/s"), Some(false));
    place.again();
    assert_eq!(place.spares(), [avail("/s")]);
    let pool = Arc::clone(place.tank().filer.pool());
    pool.roster.look_at_spare(&pool.platform, spare).expect("it is there");
    assert_eq!(place.says_spare("/s"), Some(true));
    place.has_all(&["before", "meanwhile"]);
}

/// What is refused, in words that say what to do; and what is told of a spare that is not there.
#[test]
fn a_disk_that_is_no_spare_is_refused() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/small", 17), ("/s", 32), ("/other", 32)]);
    place.create(&["mirror", "/a", "/b"]);
    place.pools.create("other", &["/other".into()], &CreateOptions::default(), Vec::new()).expect("another pool");
    place.pools.export("other", None).expect("it is put away");
    let cases: &[(&[&str], &str)] = &[
        (&["/s"], "`tally pool add POOL spare DEVICE...`"),
        (&["mirror", "/s", "/other"], "other vdevs only come with `tally pool create`"),
        (&["spare"], "spare needs at least one device"),
        (&["spare", "spare", "/s"], "spare needs at least one device"),
        (&["spare", "/s", "mirror", "/b"], "other vdevs only come with"),
        (&["spare", "/s", "/s"], "/s is named twice"),
        (&["spare", "/a"], "/a is part of the pool already; `tally pool status` shows as what"),
        (&["spare", "/small"], "needs at least"),
        (&["spare", "/nothing"], "there is nothing at /nothing"),
        (&["spare", "/s", "/other"], "/other belongs to pool other (exported); force it"),
    ];
    for (words, expected) in cases {
        let error = place.add(words).expect_err("it is refused");
        assert!(error.contains(expected), "{words:?}: {error}");
        assert_eq!((place.spares(), place.says_spare("/s")), (Vec::new(), None), "nothing was done");
    }
    place.add(&["spare", "/s"]).expect("a spare");
    assert!(place.add(&["spare", "/s"]).expect_err("twice").contains("is part of the pool already"));
    for (device, expected) in [("/a", "is no spare; `tally pool detach`"), ("/x", "has no disk '/x'")] {
        let error = place.pools.remove("tank", device).expect_err("it is refused").to_string();
        assert!(error.contains(expected), "{device}: {error}");
    }
    // Nobody makes a pool of it, nor erases its label.
    let error = place.pools.create("third", &["/s".into()], &CreateOptions::default(), Vec::new()).err();
    assert!(error.is_some_and(|error| error.to_string().contains("/s belongs to pool tank")));
    assert!(place.pools.clear_label(Path::new("/s"), true, false).is_err(), "its pool is imported");
    // It is gone, and no disk is copied to what is not there.
    place.opener.remove(Path::new("/s"));
    let tank = place.tank();
    look_at_disks(&tank);
    while tank.spares.looking.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(place.spares()[0].1, "UNAVAIL");
    place.strike_off("/b");
    place.look(0);
    assert_eq!(place.look(2 * AWAY_SECONDS), []);
    let remarks = place.pools.remove("tank", "/s").expect("it can go");
    assert!(remarks[0].contains("label is not erased: there is nothing at /s"), "{remarks:?}");
}

/// The spare is gone when it is needed, and nobody has seen it yet: it is not tried over and over.
#[test]
fn what_did_not_go_well_is_tried_again_later_and_later() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/s", 32)]);
    place.create(&["mirror", "/a", "/b"]);
    place.add(&["spare", "/s"]).expect("a spare");
    place.strike_off("/b");
    place.look(0);
    let s = place.opener.remove(Path::new("/s")).expect("it was there");
    let tries = [AWAY_SECONDS, 50, 20, 60, 70, 200].map(|seconds| place.look(seconds).len());
    assert_eq!(tries, [1, 0, 1, 0, 1, 0], "after a minute, after two, and not after four yet");
    place.opener.put("/s", s);
    assert_eq!((place.look(60).len(), place.spares()), (1, vec![in_use("/s", "/b")]));
}

/// The smallest spare cannot be had: it was tried over and over, and the other one waited.
#[test]
fn another_spare_is_tried_first_where_one_could_not_be_taken() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/s", 32), ("/t", 40)]);
    place.create(&["mirror", "/a", "/b"]);
    place.add(&["spare", "/s", "/t"]).expect("two spares");
    let _held = place.opener.open(Path::new("/s"), Access::Exclusive).expect("it waits");
    place.strike_off("/b");
    place.look(0);
    let take = |path| SpareErrand::Take { spare: place.guid(path), away: place.guid("/b") };
    assert_eq!(place.look(AWAY_SECONDS), [take("/s")]);
    assert_eq!(place.spares(), [avail("/s"), avail("/t")]);
    assert_eq!(place.look(60), [take("/t")]);
    assert_eq!(place.spares(), [avail("/s"), in_use("/t", "/b")]);
}

/// It was given back unread while it was not there, though a block might have been right on it alone.
#[test]
fn a_spare_in_use_that_is_not_there_is_brought_back_before_it_is_given_back() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/s", 32)]);
    place.create(&["mirror", "/a", "/b"]);
    place.add(&["spare", "/s"]).expect("a spare");
    place.strike_off("/b");
    place.look(0);
    assert_eq!(place.look(AWAY_SECONDS).len(), 1);
    place.pools.export("tank", None).expect("it is let go");
    let s = place.opener.remove(Path::new("/s")).expect("it was there");
    place.import();
    place.pools.online("tank", "/b", &mut |_| {}).expect("it is back");
    let spare = place.guid("/s");
    assert_eq!(place.look(0), [SpareErrand::Return { spare }]);
    assert_eq!(place.spares(), [in_use("/s", "/b")]);
    place.opener.put("/s", s);
    assert_eq!(place.look(60), [SpareErrand::Return { spare }]);
    assert_eq!(place.look(0), [SpareErrand::GiveBack { spare }]);
    assert_eq!((place.spares(), place.says_spare("/s")), (vec![avail("/s")], Some(true)));
}

/// A spare that is the last partition of its disk, whose table the kernel has not read: the disk ends with its label, and the
/// copy would have gone over the other partitions.
#[test]
fn a_disk_that_ends_with_a_spare_is_not_taken_for_it() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/s", 32)]);
    place.create(&["mirror", "/a", "/b"]);
    place.add(&["spare", "/s"]).expect("a spare");
    let around = Arc::new(MemDisk::new(48 * MIB));
    around.write(16 * MIB, &place.disk("/s").content(), tally_disk::Durability::Durable).expect("a partition");
    let before = around.content();
    place.pools.export("tank", None).expect("it is let go");
    place.opener.put("/s", Arc::clone(&around) as Arc<dyn Disk>);
    place.import();
    place.strike_off("/b");
    place.look(0);
    place.look(AWAY_SECONDS);
    assert_eq!(place.spares(), [avail("/s")], "until the next look at it");
    let pool = Arc::clone(place.tank().filer.pool());
    let found = pool.roster.look_at_spare(&pool.platform, place.guid("/s")).expect_err("it is not the spare");
    assert!(found.contains("ends with one"), "{found}");
    assert!(around.content() == before, "nothing was written");
}

/// Where a spare was found stood in labels under the number of the change before: with one label a change behind, and an
/// import that went no further, two labels of one number said different things, and no import took the pool any more.
#[test]
fn a_spare_that_has_moved_is_written_down_by_a_change_of_its_own() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/s", 32), ("/moved", 32)]);
    place.create(&["mirror", "/a", "/b"]);
    place.add(&["spare", "/s"]).expect("a spare");
    place.pools.export("tank", None).expect("it is let go");
    let s = place.opener.remove(Path::new("/s")).expect("it was there");
    place.opener.put("/moved", s);
    let paths: Vec<PathBuf> = ["/a", "/b", "/moved"].map(PathBuf::from).into();
    let source = tally_members::discover::ImportSource { paths: paths.clone(), ..Default::default() };
    let select = tally_members::assemble::PoolSelect::Name("tank".into());
    let assembled = tally_members::assemble::import(&place.pools.platform, &source, &select, &Default::default());
    let (assembled, _) = assembled.expect("it is there");
    let written = label::read(place.disk("/a").as_ref()).expect("a label").config;
    assert_eq!(
        (assembled.roster.config().sequence, &assembled.roster.config().spares),
        (written.sequence, &written.spares)
    );
    drop(assembled);
    let order = ImportOrder { pool: "tank".into(), paths, ..ImportOrder::default() };
    place.pools.import(&order, &mut |_| {}).expect("it is there");
    assert_eq!(place.spares(), [avail("/moved")]);
}

/// A disk of one mirror was detached, and the spares of all mirrors whose disks are gone were kept for good with it: also in one where
/// a command was under way that handed the spare on.
#[test]
fn a_disk_that_is_detached_keeps_the_spares_of_its_own_mirror_alone() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/c", 32), ("/d", 32), ("/s", 32), ("/t", 32)]);
    place.create(&["mirror", "/a", "/b", "mirror", "/c", "/d"]);
    place.add(&["spare", "/s"]).expect("a spare");
    place.strike_off("/b");
    place.look(0);
    assert_eq!(place.look(AWAY_SECONDS).len(), 1);
    place.add(&["spare", "/t"]).expect("another one");
    place.strike_off("/d");
    place.look(0);
    assert_eq!(place.look(AWAY_SECONDS).len(), 1);
    // Its disk has left, and the line does not say so yet.
    let pool = Arc::clone(place.tank().filer.pool());
    pool.roster.hand_spares_on(&[place.guid("/t")], VdevGuid(999)).expect("labels can be written");
    place.pools.detach("tank", "/b", false, &mut |_| {}).expect("it is of no use");
    let names =
        |spares: Vec<(String, String, Option<String>)>| spares.into_iter().map(|spare| spare.0).collect::<Vec<_>>();
    assert_eq!(names(place.spares()), ["/t"]);
    let vdev = pool.member(place.guid("/c")).expect("a disk").vdev.guid();
    assert_eq!(place.look(0), [SpareErrand::Keep { vdev }]);
    assert_eq!(names(place.spares()), Vec::<String>::new());
}

/// The pool is suspended while a spare is copied to: nothing that comes of the copy could be written down, and it went on for hours.
#[test]
fn a_copy_to_a_spare_ends_with_a_fault() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/s", 32)]);
    let served = place.create(&["mirror", "/a", "/b"]);
    place.add(&["spare", "/s"]).expect("a spare");
    place.strike_off("/b");
    let (spare, away, mut steps) = (place.guid("/s"), place.guid("/b"), 0);
    let taken = place.pools.take_spare(&served, (spare, away), &mut |_| {
        steps += 1;
        served.filer.pool().suspend("its cable");
    });
    assert!(taken.is_err());
    assert_eq!(steps, 1, "it goes on");
}

impl Place {
    /// Replaces a disk, and exports the pool in the middle of the copy.
    fn replace_and_export(&self, old: &str, new: &str) -> (Result<Vec<String>, PoolsError>, Result<(), PoolsError>) {
        self.export_in(|progress| self.pools.replace("tank", old, Some(Path::new(new)), false, progress))
    }

    /// Exports the pool in the middle of a command.
    fn export_in(
        &self,
        command: impl FnOnce(OnProgress<'_>) -> Result<Vec<String>, PoolsError>,
    ) -> (Result<Vec<String>, PoolsError>, Result<(), PoolsError>) {
        let copies = Arc::clone(&self.tank().copies);
        thread::scope(|scope| {
            let mut export = None;
            let ended = command(&mut |_| {
                let export = export.get_or_insert_with(|| scope.spawn(|| self.pools.export("tank", None).map(drop)));
                let is_stopping = || copies.running().iter().any(|copy| copy.phase == "stopping");
                while !is_stopping() && !export.is_finished() {
                    thread::sleep(Duration::from_millis(1));
                }
            });
            (ended, export.expect("it was copied").join().expect("no panic"))
        })
    }

    fn events(&self) -> String {
        self.pools.events.since(0).into_iter().map(|event| format!("{}: {}\n", event.class, event.text)).collect()
    }

    fn messages(&self) -> String {
        report(&self.tank()).messages.join("\n")
    }
}

/// `export` was refused for the hours of a copy, though it goes on behind an import as it does behind a power cut.
#[test]
fn an_export_interrupts_a_copy_and_the_import_goes_on_with_it() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/new", 32)]);
    place.create(&["mirror", "/a", "/b"]);
    place.make("before");
    let (replaced, exported) = place.replace_and_export("/b", "/new");
    exported.expect("it does not wait for the copy");
    assert!(replaced.expect_err("it is not over").to_string().contains("was interrupted; it goes on by itself"));
    place.import();
    assert!(place.messages().contains("/new is joining, and was cut off in its copy"), "{}", place.messages());
    place.make("meanwhile");
    assert_eq!(place.look(0), [SpareErrand::GoOn { leg: place.guid("/new") }]);
    assert_eq!(place.states(), [("/a".into(), "ONLINE"), ("/new".into(), "ONLINE")]);
    assert_eq!((place.look(0), place.messages()), (vec![], String::new()));
    place.has_all(&["before", "meanwhile"]);
}

/// The same of a disk that was away: it was away again behind each restart, and `online` had to be said once more. A spare that waits is
/// taken for none that is on its way.
#[test]
fn an_export_interrupts_a_return_and_the_import_goes_on_with_it() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/s", 32)]);
    place.create(&["mirror", "/a", "/b"]);
    place.add(&["spare", "/s"]).expect("it waits");
    place.pools.offline("tank", "/b", true, &mut |_| {}).expect("it is taken out");
    place.make("while it was away");
    let (back, exported) = place.export_in(|progress| place.pools.online("tank", "/b", progress));
    exported.expect("it does not wait for the disk");
    assert!(back.expect_err("it is not over").to_string().contains("was interrupted; it goes on by itself"));
    place.import();
    let cut_off = "/b has missed changes, and was cut off while it was given them.\nThat goes on by itself";
    assert!(place.messages().contains(cut_off), "{}", place.messages());
    place.make("meanwhile");
    assert_eq!(place.look(2 * AWAY_SECONDS), [SpareErrand::GoOn { leg: place.guid("/b") }]);
    assert_eq!(place.states(), [("/a".into(), "ONLINE"), ("/b".into(), "ONLINE")]);
    assert!(place.events().contains("join: /b is up to date again"), "{}", place.events());
    assert_eq!((place.look(0), place.messages()), (vec![], String::new()));
    assert_eq!(place.spares(), [avail("/s")]);
    place.has_all(&["while it was away", "meanwhile"]);
}

/// It fails on its way, when it goes on by itself: that is told, and somebody has to want it again. A spare is taken for it like for any other.
#[test]
fn a_disk_that_fails_while_it_comes_back_by_itself_is_away_and_that_is_told() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/s", 32)]);
    place.create(&["mirror", "/a", "/b"]);
    place.add(&["spare", "/s"]).expect("it waits");
    place.pools.offline("tank", "/b", true, &mut |_| {}).expect("it is taken out");
    place.make("while it was away");
    let (_, exported) = place.export_in(|progress| place.pools.online("tank", "/b", progress));
    exported.expect("it is let go");
    let failing = FaultyDisk::new("/b", 32 * MIB, &Journal::default());
    failing.write(0, &place.disk("/b").content(), tally_disk::Durability::Durable).expect("a disk");
    place.opener.put("/b", Arc::clone(&failing) as Arc<dyn Disk>);
    place.import();
    FaultyDisk::set(&failing.flushes_fail, true);
    assert_eq!(place.look(0).len(), 1);
    assert_eq!(place.states()[1], ("/b".into(), "FAULTED"));
    let told = place.events();
    assert!(told.contains("join_failed: /b is not up to date") && told.contains("`tally pool online`"), "{told}");
    assert!(!told.contains("again later"), "nobody tries: {told}");
    assert_eq!(place.look(0), []);
    let (spare, away) = (place.guid("/s"), place.guid("/b"));
    assert_eq!(place.look(2 * AWAY_SECONDS), [SpareErrand::Take { spare, away }]);
    place.has_all(&["while it was away"]);
}

/// The power went between the label that says that the new disk counts, which lacked something, and the end of its replace. Whoever went on said
/// that it has joined, and nothing told why the old disk was still there.
#[test]
fn a_replace_that_was_cut_off_at_its_end_says_why_the_old_disk_stays() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/new", 32)]);
    place.create(&["mirror", "/a", "/b"]);
    place.make("before");
    let mut cut = Vec::new();
    let ended = place.pools.replace("tank", "/b", Some(Path::new("/new")), false, &mut |progress| {
        if cut.is_empty() && progress.what.starts_with("checking") {
            let pool = Arc::clone(place.tank().filer.pool());
            let new = pool.member(place.guid("/new")).expect("it joins");
            pool.roster.finish_resilver(&new.vdev, new.leg, false).expect("labels can be written");
            cut.extend(place.disks.iter().map(|(path, disk)| (*path, disk.fork())));
        }
    });
    assert!(ended.is_err(), "it had counted already");
    place.pools.export("tank", None).expect("it is let go");
    for (path, disk) in cut {
        place.opener.put(path, Arc::new(disk));
    }
    place.import();
    assert_eq!(place.look(0), [SpareErrand::GoOn { leg: place.guid("/new") }]);
    assert_eq!(place.states().len(), 3, "the old one stays");
    let stays = "/new has joined its mirror, and /b stays beside it: something could not be read when /new was copied";
    for told in [place.events(), place.messages()] {
        assert!(told.contains(stays) && told.contains("`tally pool detach tank /b`"), "{told}");
        assert!(!told.contains("again later"), "nobody tries: {told}");
    }
    assert_eq!(place.look(AWAY_SECONDS), []);
    place.again();
    assert!(place.messages().contains("/new counts, and lacks what could not be read"), "{}", place.messages());
    place.pools.detach("tank", "/b", false, &mut |_| {}).expect("every block is there after all");
    assert_eq!((place.messages(), place.states().len()), (String::new(), 2));
    place.has_all(&["before"]);
}

/// A disk that fails in a copy that goes on is FAULTED, and waits for somebody: it was told that it is tried again later.
#[test]
fn a_disk_that_fails_while_its_copy_goes_on_waits_for_somebody_and_that_is_told() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/new", 32)]);
    place.create(&["mirror", "/a", "/b"]);
    place.make("before");
    let (_, exported) = place.replace_and_export("/b", "/new");
    exported.expect("it is let go");
    let failing = FaultyDisk::new("/new", 32 * MIB, &Journal::default());
    failing.write(0, &place.disk("/new").content(), tally_disk::Durability::Durable).expect("a disk");
    place.opener.put("/new", Arc::clone(&failing) as Arc<dyn Disk>);
    place.import();
    FaultyDisk::set(&failing.flushes_fail, true);
    assert_eq!(place.look(0).len(), 1);
    assert_eq!(place.states()[2], ("/new".into(), "FAULTED"));
    for told in [place.events(), place.messages()] {
        assert!(told.contains("`tally pool online` goes on with its copy"), "{told}");
        assert!(!told.contains("again later") && !told.contains("gives it what it has missed"), "{told}");
    }
    FaultyDisk::set(&failing.flushes_fail, false);
    assert_eq!(place.look(2 * AWAY_SECONDS), [], "nor is a spare taken for it");
    place.pools.offline("tank", "/new", true, &mut |_| {}).expect("it is of no use");
    assert!(place.messages().contains("`tally pool online` goes on with its copy"), "{}", place.messages());
    assert_eq!(place.look(2 * AWAY_SECONDS), []);
    place.pools.online("tank", "/new", &mut |_| {}).expect("it is well");
    assert_eq!(place.states(), [("/a".into(), "ONLINE"), ("/new".into(), "ONLINE")]);
    place.has_all(&["before"]);
}

/// Two spares stand in for one disk, and a third disk replaces it, with an export in the middle: both are given back, and none is taken for a disk that is
/// about to leave.
#[test]
fn two_spares_that_stand_in_beside_one_replace_are_given_back() {
    let place = Place::new(&[("/a", 32), ("/b", 32), ("/s", 32), ("/t", 32), ("/u", 32), ("/new", 32)]);
    place.create(&["mirror", "/a", "/b"]);
    place.add(&["spare", "/s", "/t", "/u"]).expect("three spares");
    place.make("before");
    place.strike_off("/b");
    for spare in ["/s", "/t"] {
        place.pools.replace("tank", "/b", Some(Path::new(spare)), false, &mut |_| {}).expect("it stands in");
    }
    assert_eq!(place.spares(), [in_use("/s", "/b"), in_use("/t", "/b"), avail("/u")]);
    let (_, exported) = place.replace_and_export("/b", "/new");
    exported.expect("it is let go");
    place.import();
    assert_eq!(place.spares(), [in_use("/s", "/b"), in_use("/t", "/b"), avail("/u")]);
    let [s, t, leg] = ["/s", "/t", "/new"].map(|path| place.guid(path));
    assert_eq!(place.look(0), [SpareErrand::GoOn { leg }]);
    assert_eq!(place.spares(), [in_use("/s", "/new"), in_use("/t", "/new"), avail("/u")]);
    let give_back = [SpareErrand::GiveBack { spare: s }, SpareErrand::GiveBack { spare: t }];
    assert_eq!(place.look(2 * AWAY_SECONDS), give_back);
    assert_eq!(place.spares(), [avail("/s"), avail("/t"), avail("/u")]);
    assert_eq!(place.states(), [("/a".into(), "ONLINE"), ("/new".into(), "ONLINE")]);
    assert_eq!(place.look(2 * AWAY_SECONDS), []);
    place.has_all(&["before"]);
}
