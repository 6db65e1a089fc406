//! What is below disks, and shared by all of them that lie on it: two files, two partitions, a log and a pool have one
//! device's cache, and wait in one queue.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::Disk;

/// One device, for all disks that are open on it.
#[derive(Debug, Default)]
pub(crate) struct Device {
    /// Flushes and durable writes that have failed.
    pub(crate) failures: AtomicU64,
    /// Requests for those who wait, up to now; and those of them that are done.
    pub(crate) asked: AtomicU64,
    pub(crate) answered: AtomicU64,
}

/// The devices that some disk is open on, by number.
static DEVICES: Mutex<BTreeMap<u64, Weak<Device>>> = Mutex::new(BTreeMap::new());

impl Device {
    /// Those below a disk; if it names none it has one that nobody else has.
    pub(crate) fn below(disk: &dyn Disk) -> Vec<Arc<Self>> {
        Self::numbered(&disk.devices())
    }

    pub(crate) fn numbered(numbers: &[u64]) -> Vec<Arc<Self>> {
        if numbers.is_empty() {
            return vec![Arc::default()];
        }
        let mut devices = DEVICES.lock();
        devices.retain(|_, device| device.strong_count() > 0);
        let mut share = |number: &u64| {
            devices.get(number).and_then(Weak::upgrade).unwrap_or_else(|| {
                let device = Arc::default();
                devices.insert(*number, Arc::downgrade(&device));
                device
            })
        };
        numbers.iter().map(&mut share).collect()
    }
}
