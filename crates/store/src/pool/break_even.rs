//! The break-even of log and group: how many bytes a lane takes in the time in which a transaction group becomes durable
//! that brings nothing else. Less than that is promised sooner by the log, and more by the group, which takes it to its
//! final place at once (docs/design/0035). Both are measured, and what was measured counts from the next group on: so all
//! WRITEs of a file and their COMMIT mostly go by one bound.
//!
//! What nobody has measured yet is believed to be fast: a log that is not tried stays unknown.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tally_base::{LaneId, Speed, Timing};
use tally_intent::Lane;

/// Groups from here on tell how fast the disks are, and those with less what each group takes.
const LONG_GROUP_BYTES: u64 = 1 << 20;

/// See the module's head.
pub(super) struct BreakEven {
    groups: Mutex<Timing>,
    lanes: ArcSwap<Vec<LaneBounds>>,
}

/// What a lane takes, in bytes.
#[derive(Clone, Copy)]
struct LaneBounds {
    lane: LaneId,
    /// In the time of a group.
    break_even: u64,
    /// In the time that a frame costs whatever it brings.
    turn: u64,
}

impl Default for BreakEven {
    fn default() -> Self {
        Self { groups: Mutex::new(Timing::new(LONG_GROUP_BYTES)), lanes: ArcSwap::default() }
    }
}

impl BreakEven {
    /// A group was synced.
    pub(super) fn note(&self, dirty_bytes: u64, took: Duration, lanes: &[Arc<Lane>]) {
        let group = {
            let mut groups = self.groups.lock();
            groups.note(dirty_bytes, took);
            groups.speed()
        };
        let of_lane = |lane: &Arc<Lane>| {
            let speed = lane.speed();
            LaneBounds { lane: lane.id(), break_even: break_even(group, speed), turn: turn(speed) }
        };
        self.lanes.store(Arc::new(lanes.iter().map(of_lane).collect()));
    }

    /// That of a lane.
    pub(super) fn bytes(&self, lane: LaneId) -> u64 {
        self.lanes.load().iter().find(|bounds| bounds.lane == lane).map_or(u64::MAX, |bounds| bounds.break_even)
    }

    /// As many bytes as take a lane as long as beginning a frame does; nothing before that was measured.
    pub(super) fn turn_bytes(&self, lane: LaneId) -> u64 {
        self.lanes.load().iter().find(|bounds| bounds.lane == lane).map_or(0, |bounds| bounds.turn)
    }
}

fn turn(lane: Option<Speed>) -> u64 {
    lane.filter(|speed| speed.bytes_per_second.is_some()).map_or(0, |speed| speed.bytes_in(2 * speed.fixed))
}

fn break_even(group: Option<Speed>, lane: Option<Speed>) -> u64 {
    match (group, lane) {
        (Some(group), Some(lane)) => lane.bytes_in(group.fixed),
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_takes_what_it_takes_in_the_time_of_a_group() {
        let ms = Duration::from_millis;
        let mut groups = Timing::new(LONG_GROUP_BYTES);
        groups.note(50 << 20, ms(900));
        groups.note(40 << 10, ms(60));
        let lane = |fixed, rate| Some(Speed { fixed, bytes_per_second: rate });
        for (lane, bytes) in [
            (None, u64::MAX),
            (lane(ms(1), None), u64::MAX),
            (lane(ms(1), Some(500_000_000)), 29_500_000),
            // A log on the disks of the data: a turn of 8 ms, and their rate.
            (lane(ms(8), Some(100_000_000)), 5_200_000),
            (lane(ms(90), Some(500_000_000)), 0),
        ] {
            assert_eq!(break_even(groups.speed(), lane), bytes, "{lane:?}");
        }
        assert_eq!(break_even(None, lane(ms(1), Some(1))), u64::MAX);
        assert_eq!([turn(None), turn(lane(ms(8), None)), turn(lane(ms(8), Some(100_000_000)))], [0, 0, 800_000]);
    }
}
