//! What a disk did, and what it owes.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;

use tally_disk::{CountingDisk, Disk, Durability, Geometry, IoCounts, IoKind};
use tally_fakes::MemDisk;

#[test]
fn every_request_is_counted_once() {
    let disk = CountingDisk::new(Arc::new(MemDisk::new(64 << 10)));
    disk.write(0, &[1; 8192], Durability::Cached).unwrap();
    disk.write(0, &[1; 4096], Durability::Durable).unwrap();
    disk.read(0, &mut [0; 4096]).unwrap();
    disk.flush().unwrap();
    disk.discard(0, 4096).unwrap();
    assert!(disk.read(64 << 10, &mut [0; 4096]).is_err());
    let expected = IoCounts {
        reads: 2,
        read_bytes: 8192,
        writes: 2,
        write_bytes: 12288,
        durable_writes: 1,
        flushes: 1,
        discards: 1,
        errors: 1,
    };
    assert_eq!(disk.counts(), expected);
    // The one that failed, too.
    assert_eq!(disk.times(IoKind::Read).sizes(), [(8191, 2)]);
    assert_eq!(disk.times(IoKind::Write).sizes(), [(16_383, 1)]);
    assert_eq!(disk.times(IoKind::DurableWrite).sizes(), [(8191, 1)]);
    assert_eq!(disk.times(IoKind::Flush).sizes(), []);
}

/// Says that it was asked to flush, and answers when it is told to.
struct Hanging {
    asked: Mutex<Sender<()>>,
    answer: Mutex<Receiver<()>>,
}

impl Disk for Hanging {
    fn read(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8], _: Durability) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.asked.lock().send(()).unwrap();
        self.answer.lock().recv().unwrap();
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn geometry(&self) -> Geometry {
        Geometry { size: 1 << 20, rotational: false, write_through: false }
    }
}

/// The second leg of a mirrored log hung: a request waited for 19 s, and nothing in the pool's state told of it.
#[test]
fn a_disk_that_owes_an_answer_is_seen_while_it_does() {
    let ((asked, is_asked), (answer, answers)) = (channel(), channel());
    let disk = CountingDisk::new(Arc::new(Hanging { asked: Mutex::new(asked), answer: Mutex::new(answers) }));
    disk.read(0, &mut []).unwrap();
    assert_eq!(disk.silent_for(), None);
    std::thread::scope(|scope| {
        scope.spawn(|| disk.flush());
        is_asked.recv().unwrap();
        let first = disk.silent_for().expect("a flush is on its way");
        disk.write(0, &[], Durability::Cached).unwrap();
        assert!(disk.silent_for() >= Some(first), "one that is answered meanwhile hides nothing");
        answer.send(()).unwrap();
    });
    assert_eq!(disk.silent_for(), None);
}
