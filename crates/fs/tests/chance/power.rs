//! Disks on one power line. What was not flushed when the power goes is kept in part, in any order, and torn.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tally_disk::{Disk, Durability, Geometry};

use super::Chance;

const PAGE: usize = 4096;

/// Sparse bytes.
#[derive(Clone, Default)]
struct Pages(HashMap<u64, Arc<[u8; PAGE]>>);

impl Pages {
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let within = (at % PAGE as u64) as usize;
            let length = (PAGE - within).min(bytes.len() - done);
            let page = self.0.entry(at / PAGE as u64).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[within..within + length].copy_from_slice(&bytes[done..done + length]);
            done += length;
        }
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        for (at, part) in into.chunks_mut(PAGE).enumerate() {
            match self.0.get(&(offset / PAGE as u64 + at as u64)) {
                Some(page) => part.copy_from_slice(&page[..part.len()]),
                None => part.fill(0),
            }
        }
    }
}

/// What runs inside a device write.
type Hook = Box<dyn FnMut() + Send>;

/// The power of all disks of a machine.
#[derive(Default)]
pub struct Power {
    state: Mutex<PowerState>,
    hook: Mutex<Option<Hook>>,
}

#[derive(Default)]
struct PowerState {
    off: bool,
    /// Device writes and flushes until the cut, if one is planned.
    left: Option<u64>,
    events: u64,
    chance: u64,
}

impl Power {
    /// Plans the cut at the `events`th write or flush from now on, or none.
    pub fn plan_cut(&self, events: Option<u64>, chance: u64) {
        let mut state = self.state.lock();
        state.left = events;
        state.chance = chance;
    }

    pub fn cut(&self) {
        self.state.lock().off = true;
    }

    pub fn is_off(&self) -> bool {
        self.state.lock().off
    }

    pub fn events(&self) -> u64 {
        self.state.lock().events
    }

    /// Runs `hook` before every write and flush; not inside itself.
    pub fn set_hook(&self, hook: Option<Hook>) {
        *self.hook.lock() = hook;
    }

    fn run_hook(&self) {
        let Some(mut hook) = self.hook.lock().take() else { return };
        hook();
        let mut place = self.hook.lock();
        if place.is_none() {
            *place = Some(hook);
        }
    }

    /// Counts a write or flush. An error: the power is off. `Some`: it goes off in the middle of this one.
    fn count(&self) -> io::Result<Option<u64>> {
        let mut state = self.state.lock();
        if state.off {
            return Err(gone());
        }
        state.events += 1;
        match &mut state.left {
            Some(0) | None => Ok(None),
            Some(left) => {
                *left -= 1;
                if *left > 0 {
                    return Ok(None);
                }
                state.off = true;
                Ok(Some(state.chance))
            }
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the power is gone")
}

/// One disk.
pub struct PowerDisk {
    power: Arc<Power>,
    size: u64,
    state: Mutex<DiskState>,
}

#[derive(Clone, Default)]
struct DiskState {
    /// What a reader sees.
    current: Pages,
    /// What survives for certain.
    stable: Pages,
    /// Cached writes since the last flush, in order.
    cached: Vec<(u64, Vec<u8>)>,
}

impl PowerDisk {
    pub fn new(power: &Arc<Power>, size: u64) -> Self {
        Self { power: Arc::clone(power), size, state: Mutex::default() }
    }

    /// What the disk has after the cut, on another power line.
    pub fn survivor(&self, power: &Arc<Power>, chance: &mut Chance) -> Self {
        let mut state = self.state.lock().clone();
        let kept_of_8 = chance.pick(&[0, 1, 4, 7, 8]);
        let tear = chance.pick(&[512usize, 4096]);
        let tears = chance.one_in(2);
        for (offset, bytes) in std::mem::take(&mut state.cached) {
            if !tears {
                if chance.below(8) < kept_of_8 {
                    state.stable.write(offset, &bytes);
                }
                continue;
            }
            for (at, part) in bytes.chunks(tear).enumerate() {
                if chance.below(8) < kept_of_8 {
                    state.stable.write(offset + (at * tear) as u64, part);
                }
            }
        }
        state.current = state.stable.clone();
        Self { power: Arc::clone(power), size: self.size, state: Mutex::new(state) }
    }
}

impl DiskState {
    fn write_durable(&mut self, offset: u64, bytes: &[u8]) {
        self.current.write(offset, bytes);
        self.stable.write(offset, bytes);
        // An older cached write to the same place cannot reach the medium any more.
        let end = offset + bytes.len() as u64;
        for (cached, content) in &mut self.cached {
            let from = offset.max(*cached);
            let to = end.min(*cached + content.len() as u64);
            if from < to {
                content[(from - *cached) as usize..(to - *cached) as usize]
                    .copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]);
            }
        }
    }
}

impl Disk for PowerDisk {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        assert!(offset.is_multiple_of(4096) && buf.len().is_multiple_of(4096), "whole sectors");
        if self.power.is_off() {
            return Err(gone());
        }
        if offset + buf.len() as u64 > self.size {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.state.lock().current.read(offset, buf);
        Ok(())
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        assert!(offset.is_multiple_of(4096) && buf.len().is_multiple_of(4096), "whole sectors");
        if offset + buf.len() as u64 > self.size {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.power.run_hook();
        let cut = self.power.count()?;
        let mut state = self.state.lock();
        match (cut, durability) {
            (None, Durability::Durable) => state.write_durable(offset, buf),
            (None, Durability::Cached) => {
                state.current.write(offset, buf);
                state.cached.push((offset, buf.to_vec()));
            }
            // The write during which the power goes is like any that was not flushed: it stays in part.
            (Some(_), _) => state.cached.push((offset, buf.to_vec())),
        }
        if cut.is_some() { Err(gone()) } else { Ok(()) }
    }

    fn flush(&self) -> io::Result<()> {
        self.power.run_hook();
        if self.power.count()?.is_some() {
            return Err(gone());
        }
        let state = &mut *self.state.lock();
        for (offset, bytes) in state.cached.drain(..) {
            state.stable.write(offset, &bytes);
        }
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        if self.power.is_off() { Err(gone()) } else { Ok(()) }
    }

    fn geometry(&self) -> Geometry {
        Geometry { size: self.size, rotational: false, write_through: false }
    }
}
