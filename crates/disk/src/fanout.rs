use std::io;
use std::sync::Arc;

use crate::{Disk, Durability};

/// How one buffer gets onto several disks, durably. A seam, because the right way differs: threads or a ring
/// of requests in production, one disk after the other in the simulator, which must own the order.
pub trait Fanout: Send + Sync {
    /// Writes all of `buf` to every target (a disk and an offset on it) and returns when each has answered:
    /// one result per target, in their order. No target is left out because another one failed.
    fn write_durable(&self, targets: &[(Arc<dyn Disk>, u64)], buf: &[u8]) -> Vec<io::Result<()>>;
}

/// One target after the other, in the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct SerialFanout;

impl Fanout for SerialFanout {
    fn write_durable(&self, targets: &[(Arc<dyn Disk>, u64)], buf: &[u8]) -> Vec<io::Result<()>> {
        targets.iter().map(|(disk, offset)| disk.write(*offset, buf, Durability::Durable)).collect()
    }
}
