//! A log that is used, cut off at any moment, recovered, and used again on the same disks, many times.
//!
//! What is in flight at the cut has reached each leg in any part: every piece of 512 or 4096 bytes for itself. The
//! uberblock that recovery starts from is the newest, or the one before it (a torn uberblock), or one whose
//! durability nobody had heard of yet. Then: nothing that was promised is missing, what is found is a prefix of
//! what was appended, byte for byte, and nothing of an earlier life or lap is in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use tally_base::{Rng, SECTOR, Txg};

use super::{LaneScan, Verdict, scan};
use crate::frame::RecordHead;
use crate::lane::Flight;
use crate::testdisk::{DATASET, TestClock, TestDisk, TestRng, config, leg_guid};
use crate::{Checkpoint, Lane, LaneConfig, StaleLeg};

#[derive(Clone, Debug)]
enum Step {
    /// A record of so many bytes, in the open transaction group or the next one.
    Append { body_bytes: usize, in_next_txg: bool },
    /// The oldest gathered frame departs.
    Depart,
    /// One of the frames in flight lands.
    Land { which: usize },
    /// One of them lands on the first leg only, and the second leaves the set.
    LandOnOneLeg { which: usize },
    /// 50 ms pass.
    Idle,
    /// An uberblock is written …
    WriteUberblock,
    /// … and is durable.
    UberblockDurable,
    /// The power goes.
    Cut { seed: u64, piece_bytes: usize, uberblock: Uberblock },
}

#[derive(Clone, Copy, Debug)]
enum Uberblock {
    Newest,
    Previous,
    /// The one being written, if there is one.
    Unheard,
}

fn step() -> impl Strategy<Value = Step> {
    let uberblock = prop_oneof![Just(Uberblock::Newest), Just(Uberblock::Previous), Just(Uberblock::Unheard)];
    prop_oneof![
        200 => (prop_oneof![3 => 0..200_usize, 1 => 0..8000_usize], any::<bool>())
            .prop_map(|(body_bytes, in_next_txg)| Step::Append { body_bytes, in_next_txg }),
        150 => Just(Step::Depart),
        150 => any::<usize>().prop_map(|which| Step::Land { which }),
        4 => any::<usize>().prop_map(|which| Step::LandOnOneLeg { which }),
        20 => Just(Step::Idle),
        50 => Just(Step::WriteUberblock),
        50 => Just(Step::UberblockDurable),
        5 => (any::<u64>(), prop_oneof![Just(512), Just(SECTOR)], uberblock)
            .prop_map(|(seed, piece_bytes, uberblock)| Step::Cut { seed, piece_bytes, uberblock }),
    ]
}

/// A record as it was appended.
struct Appended {
    head: RecordHead,
    body: Vec<u8>,
}

/// A pool's view of its lane between two crashes.
struct Life<'a> {
    disks: &'a [Arc<TestDisk>],
    lane: &'a Lane,
    clock: &'a TestClock,
    records: Vec<Appended>,
    flights: Vec<Flight<'a>>,
    /// Uberblocks as (transaction group, lane's line): before the newest, newest, on its way.
    previous: (Txg, Checkpoint),
    newest: (Txg, Checkpoint),
    unheard: Option<(Txg, Checkpoint)>,
    has_second_leg: bool,
}

impl<'a> Life<'a> {
    fn append(&mut self, lane: &Arc<Lane>, dseq: &AtomicU64, body_bytes: usize, in_next_txg: bool) {
        let body = vec![dseq.load(Ordering::Relaxed) as u8; body_bytes];
        let Ok(room) = lane.reserve(body_bytes) else { return };
        // Groups up to the one that an uberblock is being written for are closed.
        let closed = self.unheard.map_or(self.newest.0, |(txg, _)| txg);
        let txg = Txg(closed.0 + 1 + u64::from(in_next_txg));
        let appended = lane.append(room, DATASET, dseq, txg, 3, &[&body]).expect("the lane is open");
        assert_eq!(appended.lsn.0, self.records.len() as u64 + 1);
        self.records.push(Appended {
            head: RecordHead { dataset: DATASET, dseq: appended.dseq, txg, kind: 3, shape: Default::default() },
            body,
        });
    }

    fn depart(&mut self) {
        self.flights.extend(self.lane.begin());
    }

    fn land(&mut self, which: usize, on_one_leg: bool) {
        if self.flights.is_empty() {
            return;
        }
        let flight = self.flights.remove(which % self.flights.len());
        let legs = if self.has_second_leg && flight.leg_count() > 1 && !on_one_leg { 2 } else { 1 };
        for disk in &self.disks[..legs] {
            disk.poke(self.lane.geometry().offset(flight.header().pos), flight.bytes());
        }
        let mut results: crate::lane::Results = [Ok(())].into_iter().collect();
        if flight.leg_count() > 1 {
            results.push(if legs == 2 { Ok(()) } else { Err(std::io::Error::other("refused")) });
        }
        self.has_second_leg &= legs == 2 || flight.leg_count() == 1;
        flight.land(results, Duration::ZERO);
    }

    fn idle(&mut self) {
        self.clock.advance(Duration::from_millis(50));
        self.flights.extend(self.lane.begin_seal());
    }

    fn write_uberblock(&mut self) {
        let txg = Txg(self.newest.0.0 + 1);
        if self.unheard.is_none() {
            self.unheard = Some((txg, self.lane.checkpoint(txg)));
        }
    }

    fn uberblock_durable(&mut self) {
        if let Some((txg, checkpoint)) = self.unheard.take() {
            self.lane.release(txg, &checkpoint);
            self.previous = std::mem::replace(&mut self.newest, (txg, checkpoint));
        }
    }

    /// What is in flight arrives in part, on each leg for itself.
    fn cut(&mut self, seed: u64, piece_bytes: usize) {
        let rng = TestRng::new(seed);
        for flight in &self.flights {
            let offset = self.lane.geometry().offset(flight.header().pos);
            for disk in &self.disks[..flight.leg_count()] {
                // Whole frames should arrive often, so that later ones do without earlier ones.
                let whole = rng.next_u64() % 3;
                for (index, piece) in flight.bytes().chunks(piece_bytes).enumerate() {
                    if whole == 1 || whole == 2 && rng.next_u64().is_multiple_of(2) {
                        disk.poke(offset + (index * piece_bytes) as u64, piece);
                    }
                }
            }
        }
    }

    fn check(&self, found: &LaneScan, uberblock: &(Txg, Checkpoint)) {
        let ends_well = match &found.verdict {
            Verdict::Empty => found.records.is_empty(),
            Verdict::Cut { last, .. } => last.0 + 1 == uberblock.1.next_lsn.0 + found.records.len() as u64,
            Verdict::Lost { .. } | Verdict::Missing => false,
        };
        assert!(ends_well, "{:?}, {:?}", found.verdict, found.anomalies);
        for (index, record) in found.records.iter().enumerate() {
            assert_eq!(record.lsn.0, uberblock.1.next_lsn.0 + index as u64, "a prefix without gaps");
            let appended = &self.records[record.lsn.0 as usize - 1];
            assert_eq!((record.head, record.body.as_ref()), (appended.head, appended.body.as_slice()));
        }
        let end = uberblock.1.next_lsn.0 + found.records.len() as u64;
        assert!(
            self.lane.durable_lsn().0 < end || self.lane.durable_lsn() < uberblock.1.next_lsn,
            "a promise was broken"
        );
        // Below the tail there is only what the uberblock itself contains.
        let trimmed = &self.records[..uberblock.1.next_lsn.0 as usize - 1];
        assert!(trimmed.iter().all(|record| record.head.txg <= uberblock.0), "a live record was trimmed");
        assert!(found.witness <= self.lane.durable_lsn(), "a witness never exceeds the truth");
        assert_eq!(found.leg_faults, [], "nothing that was acknowledged has rotted");
    }
}

/// The set as the labels have it after a crash.
fn committed(config: &LaneConfig, has_second_leg: bool) -> LaneConfig {
    let mut config = config.clone();
    if config.legs.len() > 1 && !has_second_leg {
        let leg = config.legs.pop().expect("there are two");
        assert_eq!(leg.guid, leg_guid(1));
        config.stale_legs.push(StaleLeg { leg, legset_gen_last: config.legset_gen });
    }
    config
}

/// Runs until the next cut; gives back how many steps it took.
fn live(disks: &[Arc<TestDisk>], rng: &TestRng, dseq: &AtomicU64, first_txg: &mut Txg, steps: &[Step]) -> usize {
    let clock = Arc::new(TestClock::default());
    let (config, fresh) = (config(disks), Checkpoint::fresh(rng));
    let lane = Lane::open(config.clone(), &fresh, Arc::clone(&clock) as Arc<dyn tally_base::Clock>);
    lane.set_frames_in_flight(4);
    let mut life = Life {
        disks,
        lane: &lane,
        clock: &clock,
        records: Vec::new(),
        flights: Vec::new(),
        previous: (*first_txg, fresh),
        newest: (*first_txg, fresh),
        unheard: None,
        has_second_leg: disks.len() > 1,
    };
    for (index, step) in steps.iter().enumerate() {
        match step {
            Step::Append { body_bytes, in_next_txg } => life.append(&lane, dseq, *body_bytes, *in_next_txg),
            Step::Depart => life.depart(),
            Step::Land { which } => life.land(*which, false),
            Step::LandOnOneLeg { which } => life.land(*which, true),
            Step::Idle => life.idle(),
            Step::WriteUberblock => life.write_uberblock(),
            Step::UberblockDurable => life.uberblock_durable(),
            Step::Cut { seed, piece_bytes, uberblock } => {
                life.cut(*seed, *piece_bytes);
                let chosen = match uberblock {
                    Uberblock::Newest => life.newest,
                    Uberblock::Previous => life.previous,
                    Uberblock::Unheard => life.unheard.unwrap_or(life.newest),
                };
                let config = committed(&config, life.has_second_leg);
                let found = scan(&config, &chosen.1, &mut |_| {}).expect("no contradiction");
                life.check(&found, &chosen);
                *first_txg = Txg(life.newest.0.0.max(found.max_txg.0) + 1);
                return index + 1;
            }
        }
    }
    steps.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]
    #[test]
    fn what_was_promised_is_found_after_any_crash(
        ring_size in prop_oneof![Just(64_u64 << 10), Just(160 << 10)],
        leg_count in 1..=2_usize,
        seed in any::<u64>(),
        mut steps in proptest::collection::vec(step(), 1..600),
    ) {
        let last = Step::Cut { seed, piece_bytes: 512, uberblock: Uberblock::Previous };
        steps.push(last);
        let disks: Vec<_> = (0..leg_count).map(|_| TestDisk::new(ring_size, false)).collect();
        let (rng, dseq, mut txg) = (TestRng::new(seed), AtomicU64::new(1), Txg(10));
        let mut rest = &steps[..];
        while !rest.is_empty() {
            let taken = live(&disks, &rng, &dseq, &mut txg, rest);
            rest = &rest[taken..];
        }
    }
}
