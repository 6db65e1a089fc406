//! How much of a label's slot there is for whom.
//!
//! **The problem.** A strike makes a label longer, by what the leg misses and by its line among those that left a lane, and
//! it cannot be refused: whoever waits for it may not succeed before it is durable (rules F6), so a label that is full to
//! its last byte would suspend the pool with the first disk that fails. Sections that are carried along, long paths and
//! remembered losses can fill one.
//!
//! **The idea.** Who only wants something leaves [`RESERVE_BYTES`] free, or makes the label no longer than it was. Strikes
//! and claims may use all of it. What of the reserve they take up over the years are ranges of missed groups, and those can
//! say less where room is short: two ranges become one, that some more is copied; a leg's list becomes empty, that
//! all of it is. Last of all go the lines of legs that left a lane, which are further copies of frames that the set has.

use super::encoding;
use super::{CONFIG_SLOT_BYTES, HEADER_BYTES, LabelError, LaneConfigLine, LegConfig, PoolConfig};

/// Bytes of a payload that only strikes and claims may use. A strike of each of 128 legs takes one range and one line of
/// a leg that left, 32 bytes; a claim the name of another host.
const RESERVE_BYTES: usize = 4 << 10;

/// Bytes of a payload.
pub(super) const PAYLOAD_BYTES_MAX: usize = CONFIG_SLOT_BYTES as usize - HEADER_BYTES;

/// Who changes a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Somebody who can be told that there is no room.
    Wish,
    /// What the pool cannot go on without: strikes, claims, lanes behind a replay.
    Must,
}

impl PoolConfig {
    /// Makes this fit into the labels in which `before` stands, saying less of what legs have missed if need be.
    pub(crate) fn make_fit(&mut self, before: &Self, need: Need) -> Result<(), LabelError> {
        let limit = match need {
            Need::Must => PAYLOAD_BYTES_MAX,
            Need::Wish => (PAYLOAD_BYTES_MAX - RESERVE_BYTES).max(encoding::encode(before)?.len()),
        };
        let mut bytes = encoding::encode(self)?.len();
        while bytes > limit {
            if !(self.join_ranges() || need == Need::Must && self.forget_something()) {
                return Err(LabelError::TooLarge { bytes, limit });
            }
            bytes = encoding::encode(self)?.len();
        }
        Ok(())
    }

    /// Whether this leaves in labels that hold nothing yet what strikes and claims will need.
    pub(crate) fn check_room(&self) -> Result<(), LabelError> {
        let (bytes, limit) = (encoding::encode(self)?.len(), PAYLOAD_BYTES_MAX - RESERVE_BYTES);
        if bytes > limit { Err(LabelError::TooLarge { bytes, limit }) } else { Ok(()) }
    }

    /// Makes two ranges one, of the leg that has most of them.
    fn join_ranges(&mut self) -> bool {
        let legs = self.vdevs.iter_mut().flat_map(|vdev| &mut vdev.legs);
        legs.max_by_key(|leg| leg.missed.ranges().len()).is_some_and(|leg| leg.missed.join_closest())
    }

    /// What a leg has missed, or the legs that left a lane; last of all what the last leg of a lane has missed, by which an import tells it from an
    /// older copy of it.
    fn forget_something(&mut self) -> bool {
        let last_of = |line: &LaneConfigLine| if let [leg] = line.legset[..] { Some(leg) } else { None };
        let last: Vec<_> = self.lanes.iter().filter_map(last_of).collect();
        self.forget_missed(|leg| !last.contains(&leg.guid))
            || self.lanes.iter_mut().find(|line| !line.left.is_empty()).is_some_and(|line| line.left.pop().is_some())
            || self.forget_missed(|_| true)
    }

    fn forget_missed(&mut self, may: impl Fn(&LegConfig) -> bool) -> bool {
        let mut legs = self.vdevs.iter_mut().flat_map(|vdev| &mut vdev.legs);
        let leg = legs.find(|leg| leg.stale_since.is_some() && !leg.missed.is_empty() && may(leg));
        leg.is_some_and(|leg| {
            leg.missed.clear();
            true
        })
    }
}
