//! Disks that do to a log what disks do, and a lane over them, for the tests of this crate.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tally_base::{Clock, DatasetId, LaneId, Lsn, PoolGuid, Rng, SECTOR, Time, Txg, VdevGuid};
use tally_disk::{Disk, Durability, Geometry, Helpers, SerialFanout};

use crate::frame::FrameHeader;
use crate::recovery::{LaneScan, ScanError, scan};
use crate::{Appended, Checkpoint, Lane, LaneConfig, LaneGeometry, Leg, LegSet};

/// Where the ring begins on a test disk: not at 0, so that a forgotten start shows.
pub(crate) const RING_START: u64 = 64 << 10;

/// Memory that can rot, refuse and panic.
pub(crate) struct TestDisk {
    bytes: Mutex<Vec<u8>>,
    faults: Mutex<Faults>,
    rotational: bool,
    pub(crate) write_count: AtomicU64,
    pub(crate) write_bytes: AtomicU64,
}

#[derive(Default)]
struct Faults {
    unreadable: Vec<Range<u64>>,
    writes_to_fail: u32,
    writes_to_panic: u32,
}

impl TestDisk {
    pub(crate) fn new(ring_size: u64, rotational: bool) -> Arc<Self> {
        Arc::new(Self {
            bytes: Mutex::new(vec![0; (RING_START + ring_size) as usize]),
            faults: Mutex::default(),
            rotational,
            write_count: AtomicU64::new(0),
            write_bytes: AtomicU64::new(0),
        })
    }

    pub(crate) fn fail_writes(&self, count: u32) {
        self.faults.lock().writes_to_fail = count;
    }

    pub(crate) fn panic_in_writes(&self, count: u32) {
        self.faults.lock().writes_to_panic = count;
    }

    /// Reads of these bytes of the ring fail.
    pub(crate) fn make_unreadable(&self, ring: Range<u64>) {
        self.faults.lock().unreadable.push(RING_START + ring.start..RING_START + ring.end);
    }

    /// Flips a bit of a byte of the ring.
    pub(crate) fn rot(&self, ring_offset: u64) {
        self.bytes.lock()[(RING_START + ring_offset) as usize] ^= 0x10;
    }

    /// Overwrites bytes of the ring behind the lane's back.
    pub(crate) fn poke(&self, ring_offset: u64, bytes: &[u8]) {
        let start = (RING_START + ring_offset) as usize;
        self.bytes.lock()[start..start + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn peek(&self, ring_offset: u64, length: usize) -> Vec<u8> {
        let start = (RING_START + ring_offset) as usize;
        self.bytes.lock()[start..start + length].to_vec()
    }

    pub(crate) fn image(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }
}

impl Disk for TestDisk {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        assert!(offset.is_multiple_of(SECTOR as u64) && buf.len().is_multiple_of(SECTOR), "in whole sectors");
        let end = offset + buf.len() as u64;
        if self.faults.lock().unreadable.iter().any(|bad| bad.start < end && offset < bad.end) {
            return Err(io::Error::other("medium error"));
        }
        let bytes = self.bytes.lock();
        let range = offset as usize..end as usize;
        buf.copy_from_slice(bytes.get(range).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        assert_eq!(durability, Durability::Durable, "the log writes durably");
        assert!(offset.is_multiple_of(SECTOR as u64) && buf.len().is_multiple_of(SECTOR), "in whole sectors");
        assert!(buf.as_ptr().addr().is_multiple_of(SECTOR), "from aligned memory");
        assert!(offset >= RING_START, "inside its ring");
        let mut faults = self.faults.lock();
        if faults.writes_to_panic > 0 {
            faults.writes_to_panic -= 1;
            drop(faults);
            panic!("a disk that panics, as the test asked for");
        }
        if faults.writes_to_fail > 0 {
            faults.writes_to_fail -= 1;
            return Err(io::Error::other("write failed, as the test asked for"));
        }
        drop(faults);
        self.write_count.fetch_add(1, Ordering::Relaxed);
        self.write_bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        let start = offset as usize;
        self.bytes.lock()[start..start + buf.len()].copy_from_slice(buf);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        panic!("the log never flushes: each of its writes is durable")
    }

    fn discard(&self, _offset: u64, _length: u64) -> io::Result<()> {
        panic!("the log never discards")
    }

    fn geometry(&self) -> Geometry {
        let size = self.bytes.lock().len() as u64;
        Geometry { size, rotational: self.rotational, write_through: false }
    }
}

/// A clock that stands still until it is moved.
#[derive(Default)]
pub(crate) struct TestClock(AtomicU64);

impl TestClock {
    pub(crate) fn advance(&self, duration: Duration) {
        self.0.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Time {
        Time(self.0.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Random numbers that are the same in every run.
pub(crate) struct TestRng(AtomicU64);

impl TestRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Rng for TestRng {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            // A step of splitmix64.
            let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            chunk.copy_from_slice(&z.to_le_bytes()[..chunk.len()]);
        }
    }
}

/// A lane over test disks, with its uberblock's line.
pub(crate) struct World {
    pub(crate) legs: Vec<Arc<TestDisk>>,
    pub(crate) config: LaneConfig,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) dseq: AtomicU64,
    pub(crate) lane: Arc<Lane>,
}

pub(crate) const DATASET: DatasetId = DatasetId(5);
pub(crate) const RING_SIZE: u64 = 256 << 10;

impl World {
    pub(crate) fn new(leg_count: usize) -> Self {
        let legs = (0..leg_count).map(|_| TestDisk::new(RING_SIZE, false)).collect();
        Self::over(legs, Checkpoint::fresh(&TestRng::new(1)))
    }

    pub(crate) fn over(legs: Vec<Arc<TestDisk>>, checkpoint: Checkpoint) -> Self {
        let clock = Arc::new(TestClock::default());
        let config = config(&legs);
        let lane = Lane::open(config.clone(), &checkpoint, Arc::clone(&clock) as Arc<dyn Clock>);
        lane.set_frames_in_flight(4);
        Self { legs, config, checkpoint, clock, dseq: AtomicU64::new(1), lane }
    }

    /// Appends a record of transaction group 7, and does not write it.
    pub(crate) fn append(&self, body: &[u8]) -> Appended {
        self.append_in(Txg(7), body)
    }

    pub(crate) fn append_in(&self, txg: Txg, body: &[u8]) -> Appended {
        let room = self.lane.reserve(body.len()).expect("the ring has room");
        self.lane.append(room, DATASET, &self.dseq, txg, 1, &[body]).expect("the lane is open")
    }

    /// Appends a record and writes its frame.
    pub(crate) fn log(&self, body: &[u8]) -> Lsn {
        let lsn = self.append(body).lsn;
        assert!(self.lane.drive_frame());
        lsn
    }

    /// Logs one record to a frame, named by their numbers, so that frame n holds record n and begins at
    /// (n − 1) × 4 KiB.
    pub(crate) fn log_frames(&self, count: u64) {
        for _ in 0..count {
            self.log(format!("record {}", self.dseq.load(Ordering::Relaxed)).as_bytes());
        }
    }

    pub(crate) fn try_scan(&self) -> Result<LaneScan, ScanError> {
        scan(&self.config, &self.checkpoint, &mut |_| {})
    }

    pub(crate) fn scan(&self) -> LaneScan {
        self.try_scan().expect("the ring does not contradict itself")
    }

    /// Changes the header of a frame on a leg and makes its checksum right again.
    pub(crate) fn forge(&self, leg: usize, frame: u64, change: impl FnOnce(&mut FrameHeader)) {
        let mut sector = self.legs[leg].peek(frame_offset(frame), SECTOR);
        let (mut header, _) = FrameHeader::decode(&sector).expect("there is a frame");
        change(&mut header);
        header.encode(&mut sector);
        self.legs[leg].poke(frame_offset(frame), &sector);
    }
}

/// Where the n-th frame of one sector begins, from 1.
pub(crate) fn frame_offset(frame: u64) -> u64 {
    (frame - 1) * SECTOR as u64
}

pub(crate) fn leg_guid(index: usize) -> VdevGuid {
    VdevGuid(100 + index as u64)
}

pub(crate) fn config(legs: &[Arc<TestDisk>]) -> LaneConfig {
    let size = legs.first().map_or(RING_SIZE, |leg| leg.geometry().size - RING_START);
    let set = Mutex::new(LegSet { generation: 1, legs: (0..legs.len()).map(leg_guid).collect() });
    LaneConfig {
        pool: PoolGuid(3),
        lane: LaneId(0),
        geometry: LaneGeometry::for_size(size),
        legset_gen: 1,
        legs: legs
            .iter()
            .enumerate()
            .map(|(index, disk)| Leg {
                guid: leg_guid(index),
                disk: Arc::clone(disk) as Arc<dyn Disk>,
                start: RING_START,
            })
            .collect(),
        stale_legs: Vec::new(),
        fanout: Arc::new(SerialFanout),
        helpers: Helpers::Threads,
        leg_failed: Arc::new(move |guid, _| {
            let mut set = set.lock();
            set.generation += 1;
            set.legs.retain(|leg| *leg != guid);
            Ok(set.clone())
        }),
    }
}

/// The LSNs of a scan's records.
pub(crate) fn lsns(scan: &LaneScan) -> Vec<u64> {
    scan.records.iter().map(|record| record.lsn.0).collect()
}
