//! Disks on one power line. What was not flushed when the power goes is kept in part, in any order, and torn.
//!
//! A disk has two contents: what a reader sees, and what survives for certain. A write changes the first and is put
//! aside until a flush; a durable write changes both. When the power goes, a chance decides for each write that was
//! put aside, or for each sector of it, whether it has reached the medium: so any subset, in any order.
//!
//! Beside the power, a disk [fails](super::fault): it refuses requests, forgets one write or puts it elsewhere, keeps
//! its caller waiting, and has sectors that cannot be read until somebody writes them. A disk that falls silent answers no
//! write that its caller may leave: what he has left is put aside, and the disk stays open for it. It lands later, when
//! the history says so, or in part or never where the power goes before.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tally_disk::{Disk, Durability, Geometry, Limit, Patience};
use tally_members::label::{LABEL_BYTES, UBERBLOCK_RING_OFFSET};
use xxhash_rust::xxh3::xxh3_64;

use super::fault::{Fault, Faults, Left, Lie, Mishap};
use super::pages::{PAGE, Pages};
use crate::chance::Chance;
use crate::clock::Ticks;

/// How long a write or a flush takes, in the machine's time.
const WORK_TIME: Duration = Duration::from_micros(100);
/// Pages that count as written last.
const RECENT_MAX: usize = 32;

/// What runs inside a device write.
type Hook = Box<dyn FnMut() + Send>;

/// The power of all disks of a machine.
#[derive(Default)]
pub struct Power {
    state: Mutex<PowerState>,
    hook: Mutex<Option<Hook>>,
    /// See [`Power::spare_labels`].
    spares_labels: AtomicBool,
    /// What the disks did, if that is recorded.
    events: Mutex<Option<Vec<Event>>>,
    /// What a disk that hangs moves on.
    clock: Arc<Ticks>,
}

thread_local! {
    /// The request that this thread carries out now, if it may be left. Each thread has its own: where a pool reads or writes
    /// several blocks at once, one for all would be put back by the wrong one, and a disk stay open for nobody.
    static ASKING: RefCell<Option<Asking>> = const { RefCell::new(None) };
}

/// A request that may be left.
#[derive(Clone)]
struct Asking {
    patience: Arc<dyn Patience>,
    limit: Limit,
    /// The disk as it was opened.
    disk: Arc<dyn Disk>,
}

/// Something that a disk did.
#[derive(Clone, Debug)]
pub struct Event {
    /// Which disk of its power line, in the order in which they were put on it.
    pub disk: usize,
    /// What it did.
    pub what: What,
}

/// What a disk did.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum What {
    Write { offset: u64, bytes: Vec<u8>, durability: Durability },
    Flush,
}

impl Event {
    /// A write that is not durable yet.
    fn under_way(&self) -> Option<Self> {
        let What::Write { offset, bytes, .. } = &self.what else { return None };
        let what = What::Write { offset: *offset, bytes: bytes.clone(), durability: Durability::Cached };
        Some(Self { disk: self.disk, what })
    }
}

#[derive(Default)]
struct PowerState {
    off: bool,
    /// It went in the middle of a write to a label's configuration.
    went_in_label: bool,
    /// Device writes and flushes until the cut, if one is planned.
    left: Option<u64>,
    events: u64,
    disks: usize,
}

/// Whether a request comes through.
enum Current {
    On,
    /// The power goes in the middle of this one.
    Goes,
}

impl Power {
    /// The power of a machine with this clock.
    #[must_use]
    pub fn beside(clock: &Arc<Ticks>) -> Self {
        Self { clock: Arc::clone(clock), ..Self::default() }
    }

    /// Plans the cut at the `events`th write or flush from now on, or none.
    pub fn plan_cut(&self, events: Option<u64>) {
        self.state.lock().left = events;
    }

    /// At which of the next `events` writes and flushes the planned cut comes, if it does.
    pub(super) fn goes_within(&self, events: u64) -> Option<u64> {
        self.state.lock().left.filter(|left| (1..=events).contains(left))
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

    /// Whether it went in the middle of a write to the configuration in a label.
    #[must_use]
    pub fn went_in_label(&self) -> bool {
        self.state.lock().went_in_label
    }

    /// Writes and flushes so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.state.lock().events
    }

    /// From now on nothing runs inside of what may be done under the lock of the labels: their writes, and flushes. A
    /// disk that refuses a request is struck off under it, also by a request of a client.
    pub fn spare_labels(&self) {
        self.spares_labels.store(true, Ordering::Relaxed);
    }

    /// Runs `hook` before every write and flush that is not spared; not inside itself.
    pub fn set_hook(&self, hook: Option<Hook>) {
        *self.hook.lock() = hook;
    }

    /// Begins to record what the disks do, or ends it.
    pub fn record(&self, on: bool) {
        *self.events.lock() = on.then(Vec::new);
    }

    /// What was recorded since it was last taken.
    pub fn take_events(&self) -> Vec<Event> {
        self.events.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Carries out writes of which any may have reached its medium when the power goes. So among the events each of them goes
    /// into its disk's cache before the first is durable.
    pub(super) fn together<T>(&self, writes: impl FnOnce() -> T) -> T {
        let first = self.events.lock().as_ref().map(Vec::len);
        let outcome = writes();
        if let (Some(first), Some(events)) = (first, &mut *self.events.lock()) {
            let under_way: Vec<_> = events.iter().skip(first).filter_map(Event::under_way).collect();
            events.splice(first..first, under_way);
        }
        outcome
    }

    /// Carries out a request of a disk that was opened, which may be left where `patience` has a limit.
    pub(super) fn ask<T>(
        patience: Option<Arc<dyn Patience>>,
        disk: Option<&Arc<dyn Disk>>,
        request: impl FnOnce() -> T,
    ) -> T {
        let limited = patience.map(|patience| (patience.limit(), patience));
        let asking = limited.zip(disk.cloned()).map(|((limit, patience), disk)| Asking { patience, limit, disk });
        let outer = ASKING.replace(asking);
        let outcome = request();
        ASKING.set(outer);
        outcome
    }

    /// Whether whoever has asked a silent disk leaves; then the disk stays open as long as what is given.
    fn leave(&self) -> Option<Arc<dyn Disk>> {
        // Without a limit it is waited for, however long that is.
        let asking = ASKING.with_borrow(Clone::clone)?;
        let Limit::After(limit) = asking.limit else { return None };
        self.clock.pass(limit);
        let leaves = asking.patience.has_left() || asking.patience.may_leave(limit);
        leaves.then_some(asking.disk)
    }

    fn note(&self, disk: usize, what: impl FnOnce() -> What) {
        if let Some(events) = &mut *self.events.lock() {
            events.push(Event { disk, what: what() });
        }
    }

    /// One more disk; gives its number.
    fn plug(&self) -> usize {
        let mut state = self.state.lock();
        state.disks += 1;
        state.disks - 1
    }

    fn run_hook(&self, may_be_of_labels: bool) {
        if may_be_of_labels && self.spares_labels.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut hook) = self.hook.lock().take() else { return };
        let outer = ASKING.take();
        hook();
        ASKING.set(outer);
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

/// Whether what begins here is a configuration in one of the two labels of a disk of this size, and no uberblock beside it.
fn is_configuration(offset: u64, size: u64) -> bool {
    let back = size - LABEL_BYTES;
    offset < UBERBLOCK_RING_OFFSET || (back..back + UBERBLOCK_RING_OFFSET).contains(&offset)
}

fn gone() -> io::Error {
    io::Error::other("the power is gone")
}

/// What a cut leaves of the writes that were not flushed, and of the one under way.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Of eight such writes, or of the parts that they are torn into.
    pub of_8: u64,
    /// Bytes of a part; none: writes stay whole.
    pub tear: Option<usize>,
}

/// One disk.
pub struct PowerDisk {
    power: Arc<Power>,
    number: usize,
    size: u64,
    state: Mutex<DiskState>,
    faults: Faults,
    /// What keeps it open for the sake of requests that were left.
    held_open: Mutex<Vec<Arc<dyn Disk>>>,
    /// A reader sees what survives for certain.
    shows_medium: AtomicBool,
}

#[derive(Clone, Default)]
pub(super) struct DiskState {
    /// What a reader sees.
    current: Pages,
    /// What survives for certain.
    pub(super) stable: Pages,
    /// Cached writes since the last flush, in order.
    pub(super) cached: Vec<(u64, Vec<u8>)>,
    /// Writes that were left.
    late: Vec<(u64, Vec<u8>, Durability)>,
    /// The pages that were written last.
    recent: VecDeque<u64>,
    /// Pages that cannot be read: how often, or for ever. Whoever writes one heals it: the device puts another in its
    /// place.
    bad: BTreeMap<u64, u32>,
}

impl PowerDisk {
    /// A disk of so many bytes, all of them zero.
    #[must_use]
    pub fn new(power: &Arc<Power>, size: u64) -> Self {
        Self::with(power, size, DiskState::default())
    }

    /// With this content, all of it on the medium.
    #[must_use]
    pub fn holding(power: &Arc<Power>, size: u64, content: &Pages) -> Self {
        let state = DiskState { current: content.clone(), stable: content.clone(), ..DiskState::default() };
        Self::with(power, size, state)
    }

    fn with(power: &Arc<Power>, size: u64, state: DiskState) -> Self {
        let (power, number) = (Arc::clone(power), power.plug());
        let (faults, held_open, shows_medium) = Default::default();
        Self { power, number, size, state: Mutex::new(state), faults, held_open, shows_medium }
    }

    pub(super) fn state(&self) -> DiskState {
        self.state.lock().clone()
    }

    /// What is on its medium for certain.
    #[must_use]
    pub fn content(&self) -> Pages {
        self.state.lock().stable.clone()
    }

    /// While `look` runs a reader sees what survives for certain, and nothing of what a cache may lose yet.
    pub fn with_medium<T>(&self, look: impl FnOnce() -> T) -> T {
        self.shows_medium.store(true, Ordering::SeqCst);
        let seen = look();
        self.shows_medium.store(false, Ordering::SeqCst);
        seen
    }

    /// How many bytes it has.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What goes wrong with its requests.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The same content on another power line; what was put aside, too.
    #[must_use]
    pub fn copy(&self, power: &Arc<Power>) -> Self {
        Self::with(power, self.size, self.state())
    }

    /// What the disk has after the cut, on another power line.
    #[must_use]
    pub fn survivor(&self, power: &Arc<Power>, chance: &mut Chance) -> Self {
        let of_8 = chance.pick(&[0, 1, 4, 7, 8]);
        let sector = chance.pick(&[512usize, 4096]);
        let tear = chance.one_in(2).then_some(sector);
        self.survivor_with(power, Kept { of_8, tear }, chance)
    }

    /// The same, with so much of what was not flushed.
    #[must_use]
    pub fn survivor_with(&self, power: &Arc<Power>, kept: Kept, chance: &mut Chance) -> Self {
        // The process that had it open is gone.
        let held_open = std::mem::take(&mut *self.held_open.lock());
        drop(held_open);
        let mut state = self.state();
        let late = std::mem::take(&mut state.late).into_iter().map(|(offset, bytes, _)| (offset, bytes));
        for (offset, bytes) in std::mem::take(&mut state.cached).into_iter().chain(late) {
            let tear = kept.tear.unwrap_or(bytes.len()).max(1);
            for (at, part) in bytes.chunks(tear).enumerate() {
                if chance.below(8) < kept.of_8 {
                    state.stable.write(offset + (at * tear) as u64, part);
                }
            }
        }
        state.current = state.stable.clone();
        Self::with(power, self.size, state)
    }

    /// Whether somebody has left a request of it that has not come home.
    #[must_use]
    pub fn owes(&self) -> bool {
        !self.held_open.lock().is_empty()
    }

    /// It answers again: what was left lands.
    pub fn come_home(&self) {
        self.faults.answer();
        {
            let mut state = self.state.lock();
            for (offset, bytes, durability) in std::mem::take(&mut state.late) {
                self.power.note(self.number, || What::Write { offset, bytes: bytes.clone(), durability });
                state.write(offset, &bytes, durability);
            }
        }
        // Another thread's lock may be what is let go.
        let held_open = std::mem::take(&mut *self.held_open.lock());
        drop(held_open);
    }

    /// What befalls the request that comes now: nothing where the power is gone, which carries none out.
    fn meet(&self, fault: Fault) -> Option<Mishap> {
        if self.power.is_off() { None } else { self.faults.meet(fault) }
    }

    /// Whether the request that comes now is left, as the disk is silent.
    fn is_left(&self) -> bool {
        if !self.faults.is_silent() {
            return false;
        }
        match self.power.leave() {
            Some(disk) => {
                self.held_open.lock().push(disk);
                true
            }
            None => {
                // Somebody waits for it, and it has some grace. What was left before comes first.
                self.come_home();
                false
            }
        }
    }

    /// A range of pages around one that was written cannot be read any more, `tries` times; gives their offsets.
    pub fn spoil(&self, pages: u64, tries: u32, chance: &mut Chance) -> Vec<u64> {
        let mut state = self.state.lock();
        let numbers = state.current.numbers();
        if numbers.is_empty() {
            return Vec::new();
        }
        let first = chance.pick(&numbers);
        let last = (first + pages).min(self.size / PAGE as u64);
        state.bad.extend((first..last).map(|page| (page, tries)));
        (first..last).map(|page| page * PAGE as u64).collect()
    }

    /// Everything can be read again.
    pub fn mend(&self) {
        self.state.lock().bad.clear();
    }

    /// The offsets of what cannot be read.
    #[must_use]
    pub fn unreadable(&self) -> Vec<u64> {
        self.state.lock().bad.keys().map(|page| page * PAGE as u64).collect()
    }

    /// The numbers of the pages that were ever written to the medium.
    #[must_use]
    pub fn written(&self) -> Vec<u64> {
        self.state.lock().stable.numbers()
    }

    /// Flips a bit of one of the bytes there, of the medium and of what a reader sees.
    pub fn rot_within(&self, offset: u64, bytes: u64, chance: &mut Chance) {
        self.state.lock().flip(offset + chance.below(bytes), chance);
    }

    /// Flips a bit of some pages that were written once, half of them a while ago, of the medium and of what a reader
    /// sees. Gives their offsets.
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
        hit.iter().for_each(|offset| state.rot(*offset, chance));
        hit
    }
}

impl DiskState {
    fn rot(&mut self, offset: u64, chance: &mut Chance) {
        self.flip(offset + chance.below(PAGE as u64), chance);
    }

    /// Flips a bit of this byte.
    fn flip(&mut self, at: u64, chance: &mut Chance) {
        let (mut page, offset) = ([0; PAGE], at / PAGE as u64 * PAGE as u64);
        self.stable.read(offset, &mut page);
        page[(at - offset) as usize] ^= 1 << chance.below(8);
        self.stable.write(offset, &page);
        self.current.write(offset, &page);
    }

    /// Flips a bit of each page of this range, of the medium and of what a reader sees, which may be newer.
    fn rot_pages(&mut self, offset: u64, length: usize) {
        let mut chance = Chance::new(offset, length as u64);
        for page in 0..length / PAGE {
            let at = offset + (page * PAGE) as u64;
            let (byte, bit) = (chance.below(PAGE as u64) as usize, 1 << chance.below(8));
            for content in [&mut self.stable, &mut self.current] {
                let mut bytes = [0; PAGE];
                content.read(at, &mut bytes);
                bytes[byte] ^= bit;
                content.write(at, &bytes);
            }
        }
    }

    /// Where a write lands that goes astray: over something that was written before.
    fn astray(&self, number: u64, length: usize, size: u64) -> u64 {
        let pages = self.current.numbers();
        let page = if pages.is_empty() { 0 } else { pages[(number % pages.len() as u64) as usize] };
        (page * PAGE as u64).min(size - length as u64)
    }

    /// Whether a page of this range cannot be read now.
    fn is_unreadable(&mut self, offset: u64, length: usize) -> bool {
        let pages = offset / PAGE as u64..(offset + length as u64).div_ceil(PAGE as u64);
        let mut hit = false;
        for (_, tries) in self.bad.range_mut(pages) {
            hit = true;
            *tries = tries.saturating_sub(u32::from(*tries < u32::MAX));
        }
        if hit {
            self.bad.retain(|_, tries| *tries > 0);
        }
        hit
    }

    fn heal(&mut self, offset: u64, length: usize) {
        if !self.bad.is_empty() {
            let pages = offset / PAGE as u64..(offset + length as u64).div_ceil(PAGE as u64);
            self.bad.retain(|page, _| !pages.contains(page));
        }
    }

    /// What a failed flush was to save is on the medium or not, and no later flush saves it: the device believes that
    /// it has done its part. A reader sees it all the same, until the power goes.
    fn lose_by_halves(&mut self, events: u64) {
        let first = self.cached.first().map_or(0, |(_, bytes)| xxh3_64(bytes));
        let mut chance = Chance::new(first, events);
        for (offset, bytes) in self.cached.drain(..) {
            if chance.one_in(2) {
                self.stable.write(offset, &bytes);
            }
        }
    }

    fn note(&mut self, offset: u64, bytes: &[u8]) {
        self.recent.extend((0..bytes.len() / PAGE).map(|page| offset / PAGE as u64 + page as u64));
        let excess = self.recent.len().saturating_sub(RECENT_MAX);
        self.recent.drain(..excess);
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8], durability: Durability) {
        match durability {
            Durability::Durable => self.write_durable(offset, bytes),
            Durability::Cached => {
                self.current.write(offset, bytes);
                self.cached.push((offset, bytes.to_vec()));
            }
        }
    }

    /// All that was put aside is on the medium.
    pub(super) fn flush(&mut self) {
        for (offset, bytes) in self.cached.drain(..) {
            self.stable.write(offset, &bytes);
        }
    }

    /// What was put aside and lies under a durable write says nothing any more.
    pub(super) fn forget_covered(&mut self, offset: u64, length: usize) {
        let end = offset + length as u64;
        self.cached.retain(|(at, bytes)| *at < offset || at + bytes.len() as u64 > end);
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
        let mishap = self.faults.meet(Fault::Read);
        self.power.clock.pass(self.faults.delay());
        self.faults.strike(Fault::Read)?;
        if offset + buf.len() as u64 > self.size {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut state = self.state.lock();
        if mishap == Some(Mishap::Rot) {
            state.rot_pages(offset, buf.len());
        }
        if state.is_unreadable(offset, buf.len()) {
            return Err(io::Error::other("a sector that cannot be read"));
        }
        let seen = if self.shows_medium.load(Ordering::SeqCst) { &state.stable } else { &state.current };
        seen.read(offset, buf);
        Ok(())
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        assert!(offset.is_multiple_of(4096) && buf.len().is_multiple_of(4096), "whole sectors");
        if offset + buf.len() as u64 > self.size {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let is_label = offset < LABEL_BYTES || offset + buf.len() as u64 > self.size - LABEL_BYTES;
        self.power.run_hook(is_label);
        let fault = match durability {
            Durability::Cached => Fault::Write,
            Durability::Durable => Fault::DurableWrite,
        };
        let mishap = self.meet(fault);
        if !self.power.is_off() && self.is_left() {
            self.state.lock().late.push((offset, buf.to_vec(), durability));
            return Err(io::ErrorKind::TimedOut.into());
        }
        let current = self.power.count()?;
        self.power.clock.work(WORK_TIME);
        self.power.clock.pass(self.faults.delay());
        let (struck, takes_cache) = match durability {
            Durability::Cached => (self.faults.strike(Fault::Write), false),
            Durability::Durable => match self.faults.strike(Fault::CacheWithDurableWrite) {
                Ok(()) => (self.faults.strike(Fault::DurableWrite), false),
                struck => (struck, true),
            },
        };
        let lie = if struck.is_ok() { self.faults.lies() } else { None };
        let mut state = self.state.lock();
        state.note(offset, buf);
        match (current, &struck) {
            (Current::On, Ok(())) => {
                let offset = match lie {
                    Some(Lie::Lost) => return Ok(()),
                    Some(Lie::Misdirected(number)) => state.astray(number, buf.len(), self.size),
                    None => offset,
                };
                let buf = if mishap == Some(Mishap::Half) { &buf[..buf.len() / 2] } else { buf };
                self.power.note(self.number, || What::Write { offset, bytes: buf.to_vec(), durability });
                state.heal(offset, buf.len());
                state.write(offset, buf, durability);
            }
            // A write during which the power goes, or that fails, is like any that was not flushed: it stays in part.
            (Current::Goes, _) => {
                if is_configuration(offset, self.size) {
                    self.power.state.lock().went_in_label = true;
                }
                state.cached.push((offset, buf.to_vec()));
                return Err(gone());
            }
            (Current::On, Err(_)) => {
                let left = self.faults.left();
                if left != Left::Nothing {
                    state.cached.push((offset, buf.to_vec()));
                }
                if left == Left::Read {
                    state.current.write(offset, buf);
                }
                if takes_cache {
                    state.lose_by_halves(self.power.events());
                }
            }
        }
        struck
    }

    fn flush(&self) -> io::Result<()> {
        self.power.run_hook(true);
        self.meet(Fault::Flush);
        if !self.power.is_off() && self.is_left() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if let Current::Goes = self.power.count()? {
            return Err(gone());
        }
        self.power.clock.work(WORK_TIME);
        self.power.clock.pass(self.faults.delay());
        let struck = self.faults.strike(Fault::Flush);
        self.power.note(self.number, || What::Flush);
        let state = &mut *self.state.lock();
        if struck.is_ok() {
            state.flush();
        } else {
            state.lose_by_halves(self.power.events());
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
