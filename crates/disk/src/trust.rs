//! Whether a device is still believed (I7).
//!
//! The problem: a flush that fails has told everything that it knows. The kernel reports the error once, to one caller,
//! and may call the lost pages clean; the device has emptied its cache or not. A durable write is a flush too, wherever
//! it is more than one FUA command. So after either has failed, what the *next* flush says is worth nothing for
//! whatever was written before: it answers that there is nothing left to do.
//!
//! The idea: the first failure of a flush or durable write ends all belief in the device. Every later one fails at once
//! until the disk is opened anew, and one that was under way when it happened fails at its end, as it may have found
//! clean what the other one lost. A device is more than one disk: two files, two partitions, a log and a pool share its
//! cache, so they share the count of its failures. Reads and cached writes go on; they promise nothing.
//!
//! One thing is left: between the error in the kernel and its count here a thread can be held up, and another flush end
//! well (docs/design/0020-a-failure-that-is-not-counted-yet.md).
//!
//! A write that was one FUA command would say nothing about other sectors, and could be let off. It is not: one errno
//! comes back for the write and for whatever flush the kernel has sent behind it (docs/design/0019).

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::device::Device;
use crate::{AlignedBuf, Disk, Durability, Geometry};

/// What one open disk believes of the devices below it.
#[derive(Debug)]
struct Trust {
    /// Each device's count of failures, and what it was when the disk was opened.
    devices: Vec<(Arc<Device>, u64)>,
}

impl Trust {
    /// In devices that other disks may lie on, too.
    fn in_devices(devices: Vec<Arc<Device>>) -> Self {
        let seen = |device: &Arc<Device>| device.failures.load(Ordering::Acquire);
        Self { devices: devices.into_iter().map(|device| (Arc::clone(&device), seen(&device))).collect() }
    }

    /// Carries out a flush or a durable write, and believes it if nothing has failed up to its end.
    fn carry_out(&self, request: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.believe()?;
        if let Err(error) = request() {
            for (device, _) in &self.devices {
                device.failures.fetch_add(1, Ordering::AcqRel);
            }
            return Err(error);
        }
        self.believe()
    }

    fn believe(&self) -> io::Result<()> {
        if self.devices.iter().all(|(device, seen)| device.failures.load(Ordering::Acquire) == *seen) {
            return Ok(());
        }
        Err(io::Error::other(
            "an earlier flush or durable write of this device failed, and nothing later on it is believed until the pool \
             is opened again",
        ))
    }
}

/// A disk that is believed no more once a flush or a durable write has failed, its own or that of another disk on one
/// of its devices.
pub struct TrustedDisk {
    disk: Arc<dyn Disk>,
    trust: Trust,
}

impl TrustedDisk {
    /// Believes the disk, so far.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        let trust = Trust::in_devices(Device::below(disk.as_ref()));
        Self { disk, trust }
    }
}

impl Disk for TrustedDisk {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, buf)
    }

    fn read_parts(&self, offset: u64, parts: &mut [AlignedBuf]) -> io::Result<()> {
        self.disk.read_parts(offset, parts)
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        match durability {
            Durability::Cached => self.disk.write(offset, buf, durability),
            Durability::Durable => self.trust.carry_out(|| self.disk.write(offset, buf, durability)),
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.trust.carry_out(|| self.disk.flush())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk.discard(offset, length)
    }

    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn devices(&self) -> Vec<u64> {
        self.disk.devices()
    }
}

#[cfg(test)]
mod tests;
