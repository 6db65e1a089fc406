//! Where the next frame goes, which frames are live, and what may be written over.
//!
//! ```text
//!      tail_released     tail_checkpointed                head
//!  ┄┄┄┄┄┄┄│━━━━━━━━━━━━━━━━━━━│━━━━━━━━━━━━━━━━━━━━━━━━━━━━━│┄┄┄┄┄┄
//!   free  │ for the uberblock │ live: the next checkpoint   │ free
//!         │ before the newest │ begins with one of them     │
//! ```
//!
//! All of it is guarded by the lane's `state`. A crash finds the frames between the tails and the head; which of them
//! hold, recovery decides.

use std::collections::VecDeque;

use tally_base::{Lsn, Txg};

use crate::checkpoint::Checkpoint;
use crate::ring::LaneGeometry;

/// The live part of a lane's ring.
pub(super) struct Ring {
    /// Where the next frame goes.
    pub(super) head: u64,
    /// What it is called.
    pub(super) next_seq: u64,
    /// Frames that the next checkpoint may have to begin with, oldest first.
    live: VecDeque<LiveFrame>,
    /// The newest group that an uberblock on disk carries, as far as the lane was told.
    pub(super) synced_txg: Txg,
    /// Nothing before this is needed any more.
    pub(super) tail_released: u64,
    /// Tail of the newest released checkpoint.
    tail_checkpointed: u64,
}

/// What a checkpoint must know of a frame to begin with it.
pub(super) struct LiveFrame {
    pub(super) pos: u64,
    pub(super) seq: u64,
    pub(super) prev: u64,
    pub(super) first_lsn: Lsn,
    pub(super) txg_max: Txg,
}

/// A place that was given to a frame.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) pos: u64,
    pub(super) seq: u64,
    /// Bytes of the ring that it takes, a gap behind it included.
    pub(super) taken: u64,
}

impl Ring {
    /// An empty one that starts at the checkpoint.
    pub(super) fn new(geometry: &LaneGeometry, checkpoint: &Checkpoint) -> Self {
        let head = geometry.place(checkpoint.tail_pos);
        Self {
            head,
            next_seq: checkpoint.tail_seq,
            live: VecDeque::new(),
            synced_txg: Txg(0),
            tail_released: head,
            tail_checkpointed: head,
        }
    }

    /// The next frame has so many bytes: its place and its number.
    pub(super) fn take(&mut self, geometry: &LaneGeometry, frame_bytes: u64) -> Place {
        let (pos, seq) = (self.head, self.next_seq);
        let end = pos + frame_bytes;
        assert_eq!(geometry.place(pos), pos, "frame {seq} begins where a frame may begin");
        assert!(end - pos <= u64::from(geometry.frame_bytes_max), "frame {seq} is longer than Fmax");
        assert!(end - self.tail_released <= geometry.size, "frame {seq} would overwrite a live frame");
        self.head = geometry.place(end);
        self.next_seq += 1;
        Place { pos, seq, taken: self.head - pos }
    }

    /// A frame with records has its place.
    pub(super) fn push(&mut self, frame: LiveFrame) {
        let ascends =
            |last: &LiveFrame| last.pos < frame.pos && last.seq < frame.seq && last.first_lsn < frame.first_lsn;
        assert!(self.live.back().is_none_or(ascends), "frame {} follows the live ones", frame.seq);
        self.live.push_back(frame);
    }

    /// The first live frame with a record of a group newer than that.
    pub(super) fn tail_behind(&self, synced: Txg) -> Option<&LiveFrame> {
        self.live.iter().find(|frame| frame.txg_max > synced)
    }

    /// The uberblock with that checkpoint is durable. Says how many bytes are free now: those before the checkpoint
    /// that was released before (rules F8).
    pub(super) fn release(&mut self, synced: Txg, checkpoint: &Checkpoint) -> u64 {
        assert!(
            self.tail_checkpointed <= checkpoint.tail_pos && checkpoint.tail_pos <= self.head,
            "checkpoints are released in order"
        );
        let freed = self.tail_checkpointed - self.tail_released;
        self.tail_released = self.tail_checkpointed;
        self.tail_checkpointed = checkpoint.tail_pos;
        self.synced_txg = self.synced_txg.max(synced);
        // There may be hundreds of thousands, and requests wait for the lock.
        let dead = self.live.partition_point(|frame| frame.pos < checkpoint.tail_pos);
        self.live.drain(..dead);
        freed
    }

    /// The frames that the next checkpoint may have to begin with, oldest first.
    pub(super) fn live(&self) -> impl Iterator<Item = &LiveFrame> {
        self.live.iter()
    }

    /// Whether the newest durable uberblock needs the frame that was here when it was looked up.
    pub(super) fn needs(&self, pos: u64) -> bool {
        pos >= self.tail_checkpointed
    }

    /// Bytes between what may be written over and the head.
    pub(super) fn used(&self) -> u64 {
        self.head - self.tail_released
    }

    /// The tails and the head are in order, and every live frame lies between them. That they ascend is asserted as each
    /// of them comes.
    pub(super) fn invariant(&self) {
        debug_assert!(self.tail_released <= self.tail_checkpointed && self.tail_checkpointed <= self.head);
        debug_assert!(self.live.front().is_none_or(|first| self.tail_checkpointed <= first.pos));
        debug_assert!(self.live.back().is_none_or(|last| last.pos < self.head && last.seq < self.next_seq));
    }
}
