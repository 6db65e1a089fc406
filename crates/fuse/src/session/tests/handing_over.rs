//! A mount goes on behind the process that has served it.

use tally_vfs::Content as _;

use super::*;
use crate::keeping::Keeping;
use crate::wire::RESENT;
use crate::wire::raw::{FSyncIn, InitMore, ReadIn, ReleaseIn, WriteIn};

const READ: u32 = 15;
const WRITE: u32 = 16;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const O_APPEND: u32 = 0o2000;
const O_DSYNC: u32 = 0o10_000;

/// A mount that is kept, and what is kept of it.
struct Kept {
    played: Played,
    device: OwnedFd,
    files: [OwnedFd; 2],
}

fn files(keeping: &Keeping) -> [OwnedFd; 2] {
    keeping.files().map(|file| file.try_clone_to_owned().unwrap())
}

impl Kept {
    /// Under a kernel that asks again, or one that does not.
    fn start(can_resend: bool) -> Self {
        let (kernel, device) = pair();
        let (source, same) = (sourced(), device.try_clone().unwrap());
        let keeping = Keeping::begin(b"tank").unwrap();
        let files = files(&keeping);
        let session = Session::start(device, source.clone(), Some(keeping)).unwrap();
        let played = Played { kernel, source, session };
        let flags2 = if can_resend { can::HAS_RESEND } else { 0 };
        let (words, more) = ([7_u32, 40, 1 << 20, u32::MAX], InitMore { flags2, ..InitMore::default() });
        let told = played.told(1000, (INIT, 0), &[words.as_bytes(), more.as_bytes()]).2;
        assert_eq!(InitOut::read_from_bytes(&told[..]).unwrap().flags2, flags2);
        Self { played, device: same, files }
    }

    fn is_to_ask_again(&self) {
        let mut told = [0; 64];
        assert_eq!(rustix::io::read(&self.played.kernel, &mut told), Ok(16));
        assert_eq!(told[..16], wire::ask_again());
    }

    fn hands_over(&self) {
        self.played.session.hand_over();
        assert!(self.played.session.is_handed_over(Instant::now() + PATIENCE));
    }

    /// Another process serves it.
    fn taken_over(self) -> Self {
        let Played { kernel, source, session } = self.played;
        let keeping = Keeping::resume(self.files).expect("it is whole");
        assert_eq!(keeping.about(), b"tank");
        let files = files(&keeping);
        // With a process all that it had in the table ends.
        session.shared.door.close_all();
        drop(session);
        let device = self.device.try_clone().unwrap();
        let session = Session::start(self.device, source.clone(), Some(keeping)).unwrap();
        Self { played: Played { kernel, source, session }, device, files }
    }
}

/// All of a file, for somebody else.
fn all() -> Lock {
    let nobody = Holder { client: ClientNumber(5), owner: OwnerNumber(1) };
    Lock { holder: nobody, range: Range::ALL, kind: Kind::Write }
}

/// One that asks nothing again: what waited is written down, and waits on. Nobody sees a difference.
#[test]
fn who_waits_waits_on_behind_it() {
    let kept = Kept::start(false);
    let (file, fh) = kept.played.created();
    let asked = LkIn { fh, owner: 9, last: 9, kind: 1, ..LkIn::default() };
    assert_eq!(kept.played.told(2, (SETLKW, file.id.0), &[asked.as_bytes()]), (2, None, vec![]));
    let other = LkIn { owner: 10, ..asked };
    kept.played.asks(3, (SETLKW, file.id.0), &[other.as_bytes()]);
    until("it waits", || kept.played.session.parked() == 1);
    kept.hands_over();
    // What comes now is read by the next one.
    kept.played.mkdir(4);
    kept.played.session.ends_well();
    let vfs = kept.played.source.vfs.clone();
    assert!(is_open(&vfs, file), "nothing is closed");

    let kept = kept.taken_over();
    assert_eq!(kept.played.hears().0, 4);
    assert!(is_open(&vfs, file) && vfs.lock_unopened(file, all()).is_err());
    until("it waits on", || kept.played.session.parked() == 1);
    let unlock = LkIn { kind: 2, ..asked };
    kept.played.asks(5, (SETLKW - 1, file.id.0), &[unlock.as_bytes()]);
    let mut answers = [kept.played.hears().0, kept.played.hears().0];
    answers.sort_unstable();
    assert_eq!(answers, [3, 5]);
    assert_eq!(kept.played.source.ended.load(Ordering::SeqCst), 0, "it is mounted still");
}

/// Of what was neither answered nor left nobody would ever tell its programs.
#[test]
fn a_sudden_end_under_a_kernel_that_does_not_ask_again_ends_the_mount() {
    let kept = Kept::start(false);
    assert!(matches!(Keeping::resume(kept.files), Err(crate::NotKept::Lost)));
}

#[test]
fn a_mount_that_nothing_was_agreed_upon_ends() {
    let keeping = Keeping::begin(b"tank").unwrap();
    assert!(matches!(Keeping::resume(files(&keeping)), Err(crate::NotKept::Lost)));
}

/// What was carried out and not answered is asked again, and has happened once.
#[test]
fn what_comes_again_has_happened_once() {
    let kept = Kept::start(true);
    let (file, fh) = kept.played.created();
    let promises = by_hand(&kept.played);
    kept.played.mkdir(2);
    until("it is made", || named(&kept.played.source.vfs, b"d").is_some());
    kept.played.create(3, b"g");
    until("it is made", || named(&kept.played.source.vfs, b"g").is_some());
    let made = named(&kept.played.source.vfs, b"g").unwrap();
    // Of these the answers came, and are lost.
    kept.played.source.vfs.promise(|| Wait::Ready);
    let opened = kept.played.told(5, (OPEN, file.id.0), &[OpenIn { flags: O_RDWR, open_flags: 0 }.as_bytes()]).2;
    let second = OpenOut::read_from_bytes(&opened[..]).unwrap().fh;
    let appended = WriteIn { fh: second, size: 4, flags: O_APPEND | O_DSYNC, ..WriteIn::default() };
    assert_eq!(kept.played.told(4, (WRITE, file.id.0), &[appended.as_bytes(), b"line"]).1, None);
    let opened = kept.played.told(8, (OPEN, file.id.0), &[OpenIn { flags: O_RDWR, open_flags: 0 }.as_bytes()]).2;
    let third = OpenOut::read_from_bytes(&opened[..]).unwrap().fh;
    // This one is heard of.
    let first = ReleaseIn { fh, ..ReleaseIn::default() };
    assert_eq!(kept.played.told(9, (RELEASE, file.id.0), &[first.as_bytes()]).1, None);
    let closed = ReleaseIn { fh: third, ..first };
    assert_eq!(kept.played.told(6, (RELEASE, file.id.0), &[closed.as_bytes()]).1, None);
    kept.hands_over();
    // The process ends, and its promises with it.
    let kept = kept.taken_over();
    kept.is_to_ask_again();
    let vfs = kept.played.source.vfs.clone();
    kept.played.mkdir(2 | RESENT);
    let (unique, errno, told) = kept.played.hears();
    let dir = EntryOut::read_from_prefix(&told).expect("an entry").0.node;
    assert_eq!((unique, errno, Some(dir)), (2 | RESENT, None, named(&vfs, b"d").map(|made| made.id.0)));
    kept.played.create(3 | RESENT, b"g");
    let (_, errno, told) = kept.played.hears();
    assert_eq!((errno, EntryOut::read_from_prefix(&told).unwrap().0.node), (None, made.id.0));
    assert!(is_open(&vfs, made));
    kept.played.asks(4 | RESENT, (WRITE, file.id.0), &[appended.as_bytes(), b"line"]);
    assert_eq!(kept.played.hears().1, None);
    assert_eq!(vfs.getattr(file).unwrap().size, 4, "it is there once");
    let told = kept.played.told(5 | RESENT, (OPEN, file.id.0), &[OpenIn { flags: O_RDWR, open_flags: 0 }.as_bytes()]).2;
    assert_eq!(OpenOut::read_from_bytes(&told[..]).unwrap().fh, second);
    kept.played.asks(6 | RESENT, (RELEASE, file.id.0), &[closed.as_bytes()]);
    assert_eq!(kept.played.hears().1, None);
    assert!(is_open(&vfs, file), "the second one is open");
    let closed = ReleaseIn { fh: second, ..closed };
    assert_eq!(kept.played.told(7, (RELEASE, file.id.0), &[closed.as_bytes()]).1, None);
    assert!(!is_open(&vfs, file), "and nothing of the first and the third");
    drop(promises);
}

/// What was closed while its dataset was away had been locked, and what is closed before anything else of it is asked: behind that nobody has it.
#[test]
fn what_ends_while_its_dataset_is_away_stays_ended() {
    let kept = Kept::start(true);
    let (file, fh) = kept.played.created();
    let asked = LkIn { fh, owner: 9, last: 9, kind: 1, ..LkIn::default() };
    assert_eq!(kept.played.told(2, (SETLKW, file.id.0), &[asked.as_bytes()]), (2, None, vec![]));
    let opened = kept.played.told(4, (OPEN, file.id.0), &[OpenIn { flags: O_RDWR, open_flags: 0 }.as_bytes()]).2;
    let second = OpenOut::read_from_bytes(&opened[..]).unwrap().fh;
    let other = LkIn { fh: second, owner: 10, first: 20, last: 29, ..asked };
    assert_eq!(kept.played.told(5, (SETLKW, file.id.0), &[other.as_bytes()]), (5, None, vec![]));
    kept.hands_over();
    let vfs = kept.played.source.vfs.clone();
    kept.played.session.shared.door.close_all();
    kept.played.source.is_away.store(true, Ordering::SeqCst);
    let kept = kept.taken_over();
    kept.is_to_ask_again();
    let closed = ReleaseIn { fh, ..ReleaseIn::default() };
    assert_eq!(kept.played.told(3, (RELEASE, file.id.0), &[closed.as_bytes()]).1, None);
    kept.played.source.is_away.store(false, Ordering::SeqCst);
    let closed = ReleaseIn { fh: second, ..closed };
    assert_eq!(kept.played.told(6, (RELEASE, file.id.0), &[closed.as_bytes()]).1, None);
    kept.played.session.take_over();
    assert_eq!(vfs.lock_unopened(file, all()), Ok(()));
}

/// What was written and answered went with the process. Nobody reads what was there before as if it were that, and no sync says yes, also where nothing can be changed any more.
#[test]
fn what_is_lost_is_nobodys_to_read_and_no_sync_says_yes() {
    let kept = Kept::start(true);
    let (file, fh) = kept.played.created();
    let written = WriteIn { fh, size: 4, ..WriteIn::default() };
    assert_eq!(kept.played.told(2, (WRITE, file.id.0), &[written.as_bytes(), b"line"]).1, None);
    kept.hands_over();
    let kept = kept.taken_over();
    kept.is_to_ask_again();
    let sync =
        |unique| kept.played.told(unique, (FSYNC, file.id.0), &[FSyncIn { fh, ..FSyncIn::default() }.as_bytes()]).1;
    let read = |unique, fh| {
        let asked = ReadIn { fh, size: 4, ..ReadIn::default() };
        kept.played.told(unique, (READ, file.id.0), &[asked.as_bytes()])
    };
    assert_eq!((read(3, fh).1, sync(4)), (Some(Errno::IO), Some(Errno::IO)));
    kept.played.source.vfs.set_read_only(true);
    assert_eq!((sync(5), sync(6)), (Some(Errno::IO), Some(Errno::IO)));
    kept.played.source.vfs.set_read_only(false);
    let closed = ReleaseIn { fh, ..ReleaseIn::default() };
    assert_eq!(kept.played.told(7, (RELEASE, file.id.0), &[closed.as_bytes()]).1, None);
    let opened = kept.played.told(8, (OPEN, file.id.0), &[OpenIn { flags: O_RDWR, open_flags: 0 }.as_bytes()]).2;
    let anew = OpenOut::read_from_bytes(&opened[..]).unwrap().fh;
    assert_eq!(read(9, anew).1, None, "who opens it then has been told nothing");
}

/// Behind the process that had put it there somebody else has.
#[test]
fn what_is_appended_again_goes_over_nothing_of_others() {
    let kept = Kept::start(true);
    let (file, fh) = kept.played.created();
    let appended = WriteIn { fh, size: 4, flags: O_APPEND | O_DSYNC, ..WriteIn::default() };
    assert_eq!(kept.played.told(2, (WRITE, file.id.0), &[appended.as_bytes(), b"line"]).1, None);
    kept.hands_over();
    let vfs = kept.played.source.vfs.clone();
    let root = tally_vfs::Cred::root();
    let ctx = tally_vfs::OpCtx::of(&root);
    vfs.write(ctx, file, 0, Bytes::from_static(b"else"), tally_vfs::Stability::FileSync).result.unwrap();
    let kept = kept.taken_over();
    kept.is_to_ask_again();
    assert_eq!(kept.played.told(2 | RESENT, (WRITE, file.id.0), &[appended.as_bytes(), b"line"]).1, None);
    let there = vfs.read(&root, file, 0, 8).unwrap().data;
    assert_eq!(there.concat(), b"elseline");
}

/// A request is at a disk that hangs: its mount is not handed over in order, and reads no more all the same.
#[test]
fn what_is_at_a_disk_is_waited_for_and_told() {
    let kept = Kept::start(true);
    let gate = kept.played.source.gate.lock();
    kept.played.mkdir(2);
    until("it is read", || kept.played.session.shared.under_way.is_under_way(2));
    kept.played.session.hand_over();
    assert!(!kept.played.session.is_handed_over(Instant::now()));
    drop(gate);
    assert!(kept.played.session.is_handed_over(Instant::now() + PATIENCE));
    assert_eq!(kept.played.hears().0, 2);
}
