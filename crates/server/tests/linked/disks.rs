//! Disks in memory that fail, and that hang.

use super::*;

/// A disk with a switch, and sectors that cannot be read until they are written.
pub(super) struct Failing {
    disk: MemDisk,
    pub(super) fails: AtomicBool,
    pub(super) bad_sectors: Mutex<BTreeSet<u64>>,
    /// Reads as long as a step of a copy that are let through; without a number all are.
    long_reads_left: Mutex<Option<u64>>,
    let_through: Condvar,
    /// How long a long read is.
    pub(super) long: AtomicUsize,
}

impl Failing {
    pub(super) fn new(size: u64) -> Arc<Self> {
        Arc::new(Self {
            disk: MemDisk::new(size),
            fails: AtomicBool::new(false),
            bad_sectors: Mutex::default(),
            long_reads_left: Mutex::new(None),
            let_through: Condvar::new(),
            long: AtomicUsize::new(1 << 20),
        })
    }

    /// All that is on it.
    pub(super) fn content(&self) -> Vec<u8> {
        self.disk.content()
    }

    /// Puts a copy on it.
    pub(super) fn restore(&self, content: &[u8]) {
        self.disk.write(0, content, Durability::Cached).unwrap();
    }

    /// The offsets of all sectors behind the first label and before the last that are not empty.
    pub(super) fn used_sectors(&self) -> Vec<u64> {
        let content = self.disk.content();
        let sectors = content.chunks(4096).enumerate().filter(|(_, sector)| sector.iter().any(|byte| *byte != 0));
        let offsets = sectors.map(|(at, _)| at as u64 * 4096);
        offsets.filter(|at| (LABEL_BYTES..content.len() as u64 - LABEL_BYTES).contains(at)).collect()
    }

    /// The sector with this content cannot be read from now on. Gives where it is.
    pub(super) fn spoil(&self, content: &[u8]) -> u64 {
        let place = self.content().chunks(content.len()).position(|sector| sector == content);
        let place = (place.expect("it lies somewhere") * content.len()) as u64;
        self.bad_sectors.lock().unwrap().insert(place);
        place
    }

    /// From now on so many long reads are let through, and the others wait.
    pub(super) fn let_through(&self, long_reads: Option<u64>) {
        *self.long_reads_left.lock().unwrap() = long_reads;
        self.let_through.notify_all();
    }

    fn wait_for_turn(&self) {
        let left = self.long_reads_left.lock().unwrap();
        let mut left = self.let_through.wait_while(left, |left| *left == Some(0)).unwrap();
        *left = left.map(|left| left - 1);
    }

    /// Inverts every byte of a sector.
    pub(super) fn rot(&self, offset: u64) {
        let mut sector = [0; 4096];
        self.disk.read(offset, &mut sector).unwrap();
        self.disk.write(offset, &sector.map(|byte| !byte), Durability::Cached).unwrap();
    }

    fn check(&self) -> io::Result<()> {
        if self.fails.load(Ordering::SeqCst) { Err(io::Error::other("the cable is out")) } else { Ok(()) }
    }
}

impl Disk for Failing {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.check()?;
        if self.bad_sectors.lock().unwrap().range(offset..offset + buf.len() as u64).next().is_some() {
            return Err(io::Error::other("a sector that cannot be read"));
        }
        if buf.len() >= self.long.load(Ordering::SeqCst) {
            self.wait_for_turn();
        }
        self.disk.read(offset, buf)
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        self.check()?;
        self.bad_sectors.lock().unwrap().retain(|bad| !(offset..offset + buf.len() as u64).contains(bad));
        self.disk.write(offset, buf, durability)
    }

    fn flush(&self) -> io::Result<()> {
        self.check()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk.discard(offset, length)
    }

    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
}

/// A disk that answers no durable write while it hangs.
pub(super) struct Hanging {
    pub(super) disk: MemDisk,
    pub(super) hangs: Mutex<bool>,
    pub(super) goes_on: Condvar,
}

impl Hanging {
    pub(super) fn set(&self, hangs: bool) {
        *self.hangs.lock().unwrap() = hangs;
        self.goes_on.notify_all();
    }
}

impl Disk for Hanging {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, buf)
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        if durability == Durability::Durable {
            drop(self.goes_on.wait_while(self.hangs.lock().unwrap(), |hangs| *hangs).unwrap());
        }
        self.disk.write(offset, buf, durability)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk.discard(offset, length)
    }

    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
}
