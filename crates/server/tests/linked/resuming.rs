//! A pool that was suspended as its disk failed goes on when the disk answers again, and its clients have only waited.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;

use tally_bench::wire::{Refused, status};
use tally_nfs::xdr::Encoder;

use super::*;

fn is_told_to_come_again(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refused>().is_some_and(|refused| refused.status == status::JUKEBOX)
}

#[test]
fn a_suspended_pool_goes_on_and_its_clients_have_only_waited() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let (daemon, disk, target) = serving(data_dir, &opener, &[]);
    let root = Connection::mount(&target).unwrap();
    let mut client = Connection::open(target.nfs).unwrap();
    let file = client.create(&root, "kept").unwrap();
    client.write(&file, 0, b"acknowledged", Stable::FileSync).unwrap();
    let verifier = client.write(&file, 4096, b"in memory alone", Stable::Unstable).unwrap().verifier;

    disk.fails.store(true, Ordering::SeqCst);
    let (sender, answers) = channel();
    let (folder, mut other) = (root.clone(), Connection::open(target.nfs).unwrap());
    // Where the pool was found suspended before it came, it is told to come again.
    thread::spawn(move || {
        let mut outcome = other.mkdir(&folder, "during").map(drop);
        while outcome.as_ref().is_err_and(is_told_to_come_again) {
            thread::sleep(Duration::from_millis(20));
            outcome = other.mkdir(&folder, "during").map(drop);
        }
        sender.send(outcome)
    });
    wait_for(data_dir, &["pool", "status", "dozer"], "state: SUSPENDED");
    let path = data_dir.join("a").display().to_string();
    story(
        data_dir,
        &[
            (&["pool", "status", "dozer"], true, &["`tally pool clear dozer` goes on where it stopped"]),
            (&["pool", "clear", "dozer"], false, &["stays suspended", &path, "the cable is out", "do this again"]),
            (&["pool", "clear", "dozer", "nothing"], false, &["no disk"]),
            (&["pool", "status", "dozer"], true, &["state: SUSPENDED"]),
        ],
    );
    let early = answers.try_recv();
    assert!(early.is_err(), "it is answered while nobody knows: {early:?}");

    disk.fails.store(false, Ordering::SeqCst);
    story(data_dir, &[(&["pool", "clear", "dozer"], true, &["pool 'dozer' goes on", "replayed"])]);
    answers.recv_timeout(PATIENCE).expect("the MKDIR is not answered").expect("its client had only to wait");
    assert!(client.lookup(&root, "during").is_ok());
    assert_eq!(client.read(&file, 0, 12).unwrap(), b"acknowledged");
    assert_ne!(client.commit(&file).unwrap(), verifier, "what was unstable is gone, and its writer is not told");
    client.write(&file, 0, b"and on", Stable::FileSync).unwrap();
    story(
        data_dir,
        &[
            (&["pool", "status", "dozer"], true, &["state: ONLINE", "No known data errors"]),
            (&["pool", "clear", "dozer"], true, &["errors of dozer are counted anew"]),
            (&["pool", "clear", "dozer", "a"], true, &["counted anew"]),
            (&["pool", "clear", "gone"], false, &["no pool 'gone'"]),
        ],
    );
    daemon.stop();
}

/// While it is suspended somebody puts an older copy of the disk in its place, or takes the pool on another machine: what
/// clients were told is not there, and they are not told that it is.
#[test]
fn a_suspended_pool_goes_on_as_it_was_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let (daemon, disk, target) = serving(data_dir, &opener, &[]);
    let root = Connection::mount(&target).unwrap();
    let mut client = Connection::open(target.nfs).unwrap();
    let older = disk.content();
    for number in 0..3 {
        client.mkdir(&root, &format!("d{number}")).unwrap();
        story(data_dir, &[(&["dataset", "create", &format!("dozer/x{number}")], true, &[])]);
    }
    disk.fails.store(true, Ordering::SeqCst);
    story(data_dir, &[(&["dataset", "create", "dozer/y"], false, &[])]);
    let copy = Failing::new(32 << 20);
    copy.restore(&older);
    let disk = opener.remove(&data_dir.join("a")).unwrap();
    opener.put(data_dir.join("a"), Arc::clone(&copy) as Arc<dyn Disk>);
    story(
        data_dir,
        &[
            (&["pool", "clear", "dozer"], false, &["was not resumed", "older copies", "tally pool import dozer"]),
            (&["pool", "status", "dozer"], true, &["state: UNAVAIL", "could not be resumed"]),
            (&["pool", "clear", "dozer"], false, &["is not imported", "tally pool import dozer"]),
        ],
    );
    drop(disk);
    daemon.stop();
}

/// A client of a dataset with `sync=disabled` was told that its directory is made, the pool was suspended before that was on disk and
/// taken up again: the directory is gone, which `sync=disabled` may do. Its client missed the reply and asked again, and the reply
/// cache, which had lived on, said a second time that it is made.
#[test]
fn what_a_resume_has_lost_is_not_told_again_but_carried_out() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let (daemon, disk, target) = serving(data_dir, &opener, &["-O", "sync=disabled"]);
    let root = Connection::mount(&target).unwrap();
    let mut other = Connection::open(target.nfs).unwrap();
    let mut client = Repeating::open(target.nfs);
    // Its group is on disk when the next one is told of.
    assert_eq!(client.mkdir(7, &root.0, "durable"), 0);
    story(data_dir, &[(&["dataset", "create", "dozer/x"], true, &[])]);
    // The command is written down with a group of its own, which must not be the one that fails.
    thread::sleep(Duration::from_secs(1));
    disk.fails.store(true, Ordering::SeqCst);
    assert_eq!(client.mkdir(8, &root.0, "lost"), 0);
    assert_eq!(client.mkdir(8, &root.0, "lost"), 0, "while the pool is there its answer is");
    wait_for(data_dir, &["pool", "status", "dozer"], "state: SUSPENDED");
    disk.fails.store(false, Ordering::SeqCst);
    story(data_dir, &[(&["pool", "clear", "dozer"], true, &["pool 'dozer' goes on", "are lost"])]);
    assert!(other.lookup(&root, "lost").is_err(), "it was in memory alone");

    assert_eq!(client.mkdir(8, &root.0, "lost"), 0);
    other.lookup(&root, "lost").expect("it was told that this is there");
    assert_eq!(client.mkdir(7, &root.0, "durable"), 0, "the pool itself remembers what is on disk");
    daemon.stop();
}

/// A program makes the directory `d` and removes it; both are on disk. Another program of the same host, which began its transaction
/// ids at the same number, makes it as the disk fails: its record is lost. When the pool was taken up again it was told that it
/// had made `d`, by the first one's record, and there was none.
#[test]
fn who_is_in_doubt_beside_another_connection_is_not_told_of_that_ones_success() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let (daemon, disk, target) = serving(data_dir, &opener, &[]);
    let root = Connection::mount(&target).unwrap();
    let mut first = Repeating::open(target.nfs);
    assert_eq!([first.mkdir(7, &root.0, "d"), first.rmdir(8, &root.0, "d")], [0; 2]);
    disk.fails.store(true, Ordering::SeqCst);
    let (sender, answers) = channel();
    let (folder, mut second) = (root.clone(), Repeating::open(target.nfs));
    thread::spawn(move || {
        // Where the pool was found suspended before it came, it is told to come again.
        let mut status = second.mkdir(7, &folder.0, "d");
        while status == status::JUKEBOX {
            thread::sleep(Duration::from_millis(20));
            status = second.mkdir(7, &folder.0, "d");
        }
        sender.send(status)
    });
    wait_for(data_dir, &["pool", "status", "dozer"], "state: SUSPENDED");
    disk.fails.store(false, Ordering::SeqCst);
    story(data_dir, &[(&["pool", "clear", "dozer"], true, &["pool 'dozer' goes on"])]);
    assert_eq!(answers.recv_timeout(PATIENCE).expect("the MKDIR is not answered"), 0);
    Connection::open(target.nfs).unwrap().lookup(&root, "d").expect("its client was told that it is there");
    drop(first);
    daemon.stop();
}

/// A client that says under which transaction id it asks.
struct Repeating(TcpStream);

impl Repeating {
    fn open(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).unwrap())
    }

    /// The status of a MKDIR, without attributes.
    fn mkdir(&mut self, xid: u32, dir: &[u8], name: &str) -> u32 {
        self.ask((xid, 9), dir, name, &[0; 24])
    }

    /// The status of an RMDIR.
    fn rmdir(&mut self, xid: u32, dir: &[u8], name: &str) -> u32 {
        self.ask((xid, 13), dir, name, &[])
    }

    /// Calls a procedure of NFSv3, as the superuser of a nameless machine (AUTH_SYS).
    fn ask(&mut self, (xid, procedure): (u32, u32), dir: &[u8], name: &str, rest: &[u8]) -> u32 {
        let mut words = Encoder::new();
        words.u32(xid).u32(0).u32(2).u32(100_003).u32(3).u32(procedure).u32(1).opaque(&[0; 20]).u64(0);
        words.opaque(dir).opaque(name.as_bytes());
        let words = [&words.into_vec(), rest].concat();
        let mark = u32::try_from(words.len()).unwrap() | 1 << 31;
        self.0.write_all(&[&mark.to_be_bytes()[..], &words].concat()).unwrap();
        let mut mark = [0; 4];
        self.0.read_exact(&mut mark).unwrap();
        let mut reply = vec![0; (u32::from_be_bytes(mark) & !(1 << 31)) as usize];
        self.0.read_exact(&mut reply).unwrap();
        let word = |at: usize| u32::from_be_bytes(reply[4 * at..][..4].try_into().unwrap());
        assert_eq!([word(0), word(1), word(2), word(5)], [xid, 1, 0, 0], "it is accepted");
        word(6)
    }
}
