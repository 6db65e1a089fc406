//! The disk through its socket, as the kernel's client drives it, and its costs as data.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::model::{Counts, Model};
use super::{Disk, Options};
use crate::nbd::Action;

const WRITE: Duration = Duration::from_micros(3);
const DURABLE: Duration = Duration::from_millis(8);

fn cached() -> Action {
    Action::Write { offset: 0, data: vec![1], through: false }
}

fn through() -> Action {
    Action::Write { offset: 0, data: vec![1], through: true }
}

#[test]
fn a_turn_is_charged_for_durability_alone() {
    let read = || Action::Read { offset: 0, length: 1 };
    let cases: [(&str, Vec<Action>, Duration, u64); 6] = [
        ("a flush of nothing", vec![Action::Flush, read()], Duration::ZERO, 0),
        ("a write and its flush", vec![cached(), Action::Flush], WRITE + DURABLE, 1),
        ("one flush for many", vec![cached(), cached(), cached(), Action::Flush], 3 * WRITE + DURABLE, 1),
        ("a second flush", vec![cached(), Action::Flush, Action::Flush], WRITE + DURABLE, 1),
        ("a write through", vec![through(), Action::Flush], DURABLE, 1),
        ("a write through leaves the cache", vec![cached(), through(), Action::Flush], WRITE + 2 * DURABLE, 2),
    ];
    for (name, actions, expected, durable) in cases {
        let (mut model, mut counts) = (Model::new(WRITE, DURABLE), Counts::default());
        let cost: Duration = actions.iter().map(|action| model.cost(action, &mut counts)).sum();
        assert_eq!((cost, counts.durable), (expected, durable), "{name}");
    }
}

/// A client that speaks as Linux does.
struct Client(UnixStream);

impl Client {
    fn connect(mut socket: UnixStream) -> (Self, u64, u16) {
        expect(&mut socket, b"NBDMAGICIHAVEOPT\0\x03");
        socket.write_all(&3u32.to_be_bytes()).unwrap();
        // An option that the disk does not know (7 is GO), then the one that all know.
        socket.write_all(b"IHAVEOPT\0\0\0\x07\0\0\0\x02xx").unwrap();
        expect(&mut socket, b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\x80\0\0\x01\0\0\0\0");
        socket.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        let mut answer = [0; 10];
        socket.read_exact(&mut answer).unwrap();
        let (size, flags) = answer.split_at(8);
        let (size, flags) = (size.try_into().unwrap(), flags.try_into().unwrap());
        (Self(socket), u64::from_be_bytes(size), u16::from_be_bytes(flags))
    }

    /// Sends a request and returns the error number.
    fn ask(&mut self, flags: u16, command: u16, offset: u64, length: u32, data: &[u8]) -> u32 {
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend([flags.to_be_bytes(), command.to_be_bytes()].concat());
        request.extend(b"a handle");
        request.extend(offset.to_be_bytes());
        request.extend(length.to_be_bytes());
        request.extend(data);
        self.0.write_all(&request).unwrap();
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).unwrap();
        assert_eq!((&reply[..4], &reply[8..]), (&0x6744_6698u32.to_be_bytes()[..], &b"a handle"[..]));
        u32::from_be_bytes(reply[4..8].try_into().unwrap())
    }
}

fn expect(socket: &mut UnixStream, wanted: &[u8]) {
    let mut bytes = vec![0; wanted.len()];
    socket.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, wanted);
}

#[test]
fn a_client_writes_flushes_and_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        file: folder.path().join("disk"),
        mib: 1,
        socket: folder.path().join("unused"),
        counts: folder.path().join("counts"),
        durable_us: 0,
        write_us: 0,
        fua: true,
    };
    let mut disk = Disk::open(&options).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = std::thread::spawn(move || {
        let mut theirs = theirs;
        disk.serve(&mut theirs).map(|()| disk.counts).unwrap()
    });
    let (mut client, size, flags) = Client::connect(ours);
    assert_eq!((size, flags), (1 << 20, 1 | 4 | 8));
    assert_eq!(client.ask(0, 1, 4096, 5, b"hello"), 0, "a write");
    assert_eq!(client.ask(0, 3, 0, 0, b""), 0, "a flush");
    assert_eq!(client.ask(1, 1, 8192, 5, b"again"), 0, "a write through");
    assert_eq!(client.ask(0, 0, 4096, 5, b""), 0, "a read");
    expect(&mut client.0, b"hello");
    assert_eq!(client.ask(0, 1, (1 << 20) - 4, 5, b"above"), 22, "a write beyond the end");
    assert_eq!(client.ask(0, 0, u64::MAX, 5, b""), 22, "a read beyond everything");
    assert_eq!(client.ask(0, 4, 0, 512, b""), 22, "a trim, which was not offered");
    // The disconnect has no answer.
    client.0.write_all(b"\x25\x60\x95\x13\0\0\0\x02a handle\0\0\0\0\0\0\0\0\0\0\0\0").unwrap();
    let counts = server.join().unwrap();
    assert_eq!(counts, Counts { writes: 3, flushes: 1, durable: 2 });
    assert_eq!(std::fs::read_to_string(&options.counts).unwrap(), counts.line());
    assert_eq!(&std::fs::read(&options.file).unwrap()[8192..8197], b"again");
}
