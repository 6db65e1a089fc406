//! Recordings as bytes: one as the kernel writes it, and what must be refused.

use super::entry::{DISCARD, Entry, FLUSH, FUA, Head, MARK, METADATA};
use super::{Event, Recording};

/// Entries with what follows them.
struct Bytes {
    entries: u64,
    sector_bytes: usize,
    bytes: Vec<u8>,
}

impl Bytes {
    /// One disk of `sectors` sectors.
    fn new(sector_bytes: usize, sectors: u64) -> Self {
        let mut bytes = Self { entries: 0, sector_bytes, bytes: Vec::new() };
        bytes.mark(&format!("disk:pool:0:{sectors}"));
        bytes
    }

    fn mark(&mut self, text: &str) {
        self.add(Entry { flags: MARK, mark_bytes: text.len() as u64, ..Entry::default() }, text.as_bytes(), &[]);
    }

    fn write(&mut self, sector: u64, flags: u64, data: &[u8]) {
        let sectors = (data.len() / self.sector_bytes) as u64;
        self.add(Entry { sector, sectors, flags, mark_bytes: 0 }, &[], data);
    }

    fn add(&mut self, entry: Entry, mark: &[u8], data: &[u8]) {
        let filled = self.bytes.len() + self.sector_bytes;
        self.bytes.extend(entry.encode());
        self.bytes.extend(mark);
        self.bytes.resize(filled, 0);
        self.bytes.extend(data);
        self.entries += 1;
    }

    fn finish(&self) -> Vec<u8> {
        let head = Head { entries: self.entries, sector_bytes: self.sector_bytes };
        [head.encode(), self.bytes.clone()].concat()
    }
}

fn read(bytes: &Bytes) -> anyhow::Result<Vec<Event>> {
    Ok(Recording::parse(bytes.finish())?.events)
}

#[test]
fn the_head_is_that_of_the_kernel() {
    // Bytes as Linux 6.1 wrote them: "rhswfsj", version 1, 3 entries, sectors of 512 bytes.
    let bytes = *b"rhswfsj\0\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\x02\0\0";
    assert_eq!(Head { entries: 3, sector_bytes: 512 }.encode()[..28], bytes);
}

#[test]
fn writes_flushes_and_marks_come_in_order() {
    for sector_bytes in [512, 4096] {
        let mut bytes = Bytes::new(sector_bytes, 100);
        let data = vec![9; 2 * sector_bytes];
        bytes.write(98, METADATA, &data);
        bytes.mark("step:1");
        bytes.write(3, FLUSH | FUA, &data);
        bytes.write(0, FLUSH, &[]);
        let events = read(&bytes).unwrap();
        let sector = sector_bytes as u64;
        assert!(
            matches!(&events[..], [
                Event::Write { disk: 0, offset: first, durable: false, .. },
                Event::Mark(mark),
                Event::Flush { disk: 0 },
                Event::Write { disk: 0, offset: second, durable: true, data },
                Event::Flush { disk: 0 },
            ] if (*first, *second, data.len()) == (98 * sector, 3 * sector, 2 * sector_bytes) && mark == "step:1"),
            "{events:?}"
        );
    }
}

#[test]
fn what_was_not_counted_yet_is_not_read() {
    let mut bytes = Bytes::new(512, 100);
    let counted = bytes.entries;
    bytes.write(0, 0, &[1; 512]);
    bytes.entries = counted;
    assert_eq!(read(&bytes).unwrap(), []);
}

#[test]
fn recordings_that_say_too_little_or_too_much_are_refused() {
    let refused = |change: &dyn Fn(&mut Bytes), expected: &str| {
        let mut bytes = Bytes::new(512, 100);
        change(&mut bytes);
        let error = format!("{:#}", read(&bytes).unwrap_err());
        assert!(error.contains(expected), "{error} instead of {expected}");
    };
    refused(&|bytes| bytes.write(0, DISCARD, &[]), "discard");
    refused(&|bytes| bytes.write(0, 32, &[]), "unknown flags");
    refused(&|bytes| bytes.write(99, 0, &[0; 1024]), "lies on no disk");
    refused(&|bytes| bytes.write(u64::MAX / 512, 0, &[0; 512]), "lies on no disk");
    refused(&|bytes| bytes.write(u64::MAX, 0, &[0; 512]), "beyond everything");
    refused(&|bytes| bytes.entries += 1, "cut off");
    refused(&|bytes| bytes.add(Entry { sectors: 1 << 60, ..Entry::default() }, &[], &[]), "too long");
    refused(&|bytes| bytes.add(Entry { sectors: 2, ..Entry::default() }, &[], &[0; 512]), "cut off within a write");
    refused(&|bytes| bytes.add(Entry { mark_bytes: 5, ..Entry::default() }, b"hello", &[]), "neither a mark");
    refused(&|bytes| bytes.add(Entry { flags: MARK, mark_bytes: 481, ..Entry::default() }, &[], &[]), "too long");
    refused(&|bytes| bytes.mark("disk:x:y"), "no disk");
    let error = Recording::parse(vec![0; 512]).err().unwrap();
    assert!(format!("{error:#}").contains("no recording"), "{error:#}");
    assert!(Recording::parse(Vec::new()).is_err());
}
