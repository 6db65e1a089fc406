use tally_base::LaneId;

/// A lane takes no more records. What was not durable by then may or may not be on disk: nothing that rests on
/// it is acknowledged, and the good prefix of the ring stays replayable (rules F25).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaneFailed {
    /// It was closed in good order.
    #[error("lane {lane} of the intent log is closed")]
    Closed {
        /// Which lane.
        lane: LaneId,
    },
    /// A durable write failed on every leg that was left. It is not tried again: after a failed flush nobody
    /// knows what the device has kept.
    #[error(
        "lane {lane} of the intent log: frame {seq} could not be written to any leg ({cause}); replace the log device"
    )]
    Write {
        /// Which lane.
        lane: LaneId,
        /// Sequence number of the frame.
        seq: u64,
        /// What the last leg said.
        cause: String,
    },
    /// A leg failed and the set without it could not be made durable in the labels, so nothing may rest on it.
    #[error("lane {lane} of the intent log: a leg failed and the smaller set could not be recorded ({cause})")]
    LegSet {
        /// Which lane.
        lane: LaneId,
        /// What the device, or who records the leg set, said.
        cause: String,
    },
}
