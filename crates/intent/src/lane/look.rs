//! A look at the frames that the next import would need: a scrub reads them on every leg.
//!
//! Nothing is written. A frame that one leg has wrong could be given to it by another, but not beside a lane that goes on: the
//! place may be trimmed and written anew between the look and the repair, and a torn repair would be an old frame in the middle
//! of the ring. There is a better one: once what the frame holds is in the trees nobody needs it, and that takes two groups
//! (rules F8). Whoever looks asks for them.

use tally_base::VdevGuid;

use super::Lane;
use crate::config::Leg;
use crate::recovery::leg::{AtPlace, Identity, LegReader};

/// What a look at a ring has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingLook {
    /// Bytes of frames that were right, over all legs.
    pub right_bytes: u64,
    /// Legs that have frames wrong, or cannot be read there, and how many.
    pub wrong: Vec<(VdevGuid, u64)>,
}

impl Lane {
    /// Reads every frame that was acknowledged and that the newest durable uberblock needs, from each leg that counts.
    #[must_use]
    pub fn look_at_ring(&self) -> RingLook {
        let (legs, frames) = {
            let state = self.state.lock();
            let first_missing = state.flights.first_seq().unwrap_or(u64::MAX);
            let counts = state.legs.iter().filter(|member| member.counts());
            let landed = state.ring.live().filter(|frame| frame.seq < first_missing);
            let legs: Vec<Leg> = counts.map(|member| member.leg.clone()).collect();
            (legs, landed.map(|frame| (frame.pos, frame.seq)).collect::<Vec<_>>())
        };
        let identity = Identity { pool: self.pool, lane: self.id, epoch: self.epoch };
        let mut look = RingLook::default();
        for leg in &legs {
            let mut reader = LegReader::new(leg, u64::MAX, self.geometry, self.helpers);
            let mut wrong: Vec<u64> = Vec::new();
            for (pos, seq) in &frames {
                match reader.look_at(&identity, *pos) {
                    AtPlace::Sound(header, ..) if header.seq == *seq => look.right_bytes += header.frame_bytes(),
                    _ => wrong.push(*pos),
                }
            }
            let state = self.state.lock();
            // What was trimmed meanwhile may have been written anew, and whoever was struck off is not asked.
            wrong.retain(|pos| state.ring.needs(*pos));
            let counts = state.legs.iter().any(|member| member.leg.guid == leg.guid);
            if counts && !wrong.is_empty() {
                look.wrong.push((leg.guid, wrong.len() as u64));
            }
        }
        look
    }
}
