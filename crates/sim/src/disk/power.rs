//! Disks on one power line. What was not flushed when the power goes is kept in part, in any order, and torn.
//!
//! A disk has two contents: what a reader sees, and what survives for certain. A write changes the first and is put
//! aside until a flush; a durable write changes both. When the power goes, a chance decides for each write that was
//! put aside, or for each sector of it, whether it has reached the medium: so any subset, in any order.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tally_disk::{Disk, Durability, Geometry};

use super::fault::{Fault, Faults};
use super::pages::{PAGE, Pages};
use crate::chance::Chance;

/// Pages that count as written last.
const RECENT_MAX: usize = 32;

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
}

/// Whether a request comes through.
enum Current {
    On,
    /// The power goes in the middle of this one.
    Goes,
}

impl Power {
    /// Plans the cut at the `events`th write or flush from now on, or none.
    pub fn plan_cut(&self, events: Option<u64>) {
        self.state.lock().left = events;
    }

    /// Cuts it now.
    pub fn cut(&self) {
        self.state.lock().off = true;
    }

    /// Whether it is gone.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state.lock().off
    }

    /// Writes and flushes so far.
    #[must_use]
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

    fn count(&self) -> io::Result<Current> {
        let mut state = self.state.lock();
        if state.off {
            return Err(gone());
        }
        state.events += 1;
        match &mut state.left {
            Some(0) | None => Ok(Current::On),
            Some(left) => {
                *left -= 1;
                if *left > 0 {
                    return Ok(Current::On);
                }
                state.off = true;
                Ok(Current::Goes)
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
    faults: Faults,
}

#[derive(Clone, Default)]
struct DiskState {
    /// What a reader sees.
    current: Pages,
    /// What survives for certain.
    stable: Pages,
    /// Cached writes since the last flush, in order.
    cached: Vec<(u64, Vec<u8>)>,
    /// The pages that were written last.
    recent: VecDeque<u64>,
}

impl PowerDisk {
    /// Zeroes.
    #[must_use]
    pub fn new(power: &Arc<Power>, size: u64) -> Self {
        Self { power: Arc::clone(power), size, state: Mutex::default(), faults: Faults::default() }
    }

    /// What it refuses.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The same content on another power line; what was put aside, too.
    #[must_use]
    pub fn copy(&self, power: &Arc<Power>) -> Self {
        let state = Mutex::new(self.state.lock().clone());
        Self { power: Arc::clone(power), size: self.size, state, faults: Faults::default() }
    }

    /// What the disk has after the cut, on another power line.
    #[must_use]
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
        Self { power: Arc::clone(power), size: self.size, state: Mutex::new(state), faults: Faults::default() }
    }

    /// Flips a bit of some pages that were written once, half of them a while ago, of the medium and of what a reader sees.
    /// Gives their offsets.
    pub fn rot(&self, pages: u64, chance: &mut Chance) -> Vec<u64> {
        let mut state = self.state.lock();
        let numbers = state.stable.numbers();
        if numbers.is_empty() {
            return Vec::new();
        }
        // One of the pages written last, at most: the frame behind one of the log bears witness to it.
        let (recent, old): (Vec<u64>, Vec<u64>) = numbers.iter().partition(|page| state.recent.contains(page));
        let mut hit = Vec::new();
        for nth in 0..pages {
            let from = if nth == 0 && chance.one_in(2) { &recent } else { &old };
            if !from.is_empty() {
                hit.push(chance.pick(from) * PAGE as u64);
            }
        }
        for offset in &hit {
            let mut page = [0; PAGE];
            state.stable.read(*offset, &mut page);
            page[chance.below(PAGE as u64) as usize] ^= 1 << chance.below(8);
            state.stable.write(*offset, &page);
            state.current.write(*offset, &page);
        }
        hit
    }
}

impl DiskState {
    fn note(&mut self, offset: u64, bytes: &[u8]) {
        self.recent.extend((0..bytes.len() / PAGE).map(|page| offset / PAGE as u64 + page as u64));
        let excess = self.recent.len().saturating_sub(RECENT_MAX);
        self.recent.drain(..excess);
    }

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
        self.faults.strike(Fault::Read)?;
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
        let current = self.power.count()?;
        let struck = match durability {
            Durability::Durable => self.faults.strike(Fault::DurableWrite),
            Durability::Cached => self.faults.strike(Fault::Write),
        };
        let mut state = self.state.lock();
        state.note(offset, buf);
        match (current, &struck, durability) {
            (Current::On, Ok(()), Durability::Durable) => state.write_durable(offset, buf),
            (Current::On, Ok(()), Durability::Cached) => {
                state.current.write(offset, buf);
                state.cached.push((offset, buf.to_vec()));
            }
            // A write during which the power goes, or that fails, is like any that was not flushed: it stays in part.
            (Current::Goes, ..) => {
                state.cached.push((offset, buf.to_vec()));
                return Err(gone());
            }
            (Current::On, Err(_), _) => state.cached.push((offset, buf.to_vec())),
        }
        struck
    }

    fn flush(&self) -> io::Result<()> {
        self.power.run_hook();
        if let Current::Goes = self.power.count()? {
            return Err(gone());
        }
        let struck = self.faults.strike(Fault::Flush);
        let state = &mut *self.state.lock();
        // What a failed flush was to save is on the medium or not, and no later flush saves it: the device believes that it
        // has done its part. A reader sees it all the same, until the power goes.
        let mut chance = Chance::new(self.power.events(), 0xf1);
        for (offset, bytes) in state.cached.drain(..) {
            if struck.is_ok() || chance.one_in(2) {
                state.stable.write(offset, &bytes);
            }
        }
        struck
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        if self.power.is_off() { Err(gone()) } else { Ok(()) }
    }

    fn geometry(&self) -> Geometry {
        Geometry { size: self.size, rotational: false, write_through: false }
    }
}
