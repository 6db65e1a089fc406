//! Every state that a power cut may leave, one after the other.
//!
//! What a machine did is a list of events: writes into a disk's cache, durable writes, flushes. A cut between two of them,
//! or in the middle of one, leaves what is durable for certain, and any subset of what was in the caches. Each subset is
//! met once: behind a write into a cache come those that have that write, as all others were there before it.
//!
//! So many subsets are too many. With up to [`FULL_MAX`] writes in the caches all are met; with more, these: none, each
//! alone, each one missing, all, and each beginning of their order. A write that the cut falls into, or the newest in a
//! cache, is also met torn, at the places of [`tears`], beside none and all of the others; and one that goes to several
//! places at once, torn in all of them.

use std::collections::HashSet;
use std::hash::Hasher;
use std::ops::Range;
use std::sync::Arc;

use tally_disk::Durability;
use xxhash_rust::xxh3::Xxh3;

use super::pages::{PAGE, Pages};
use super::power::{DiskState, Event, PowerDisk, What};

/// Writes in the caches of which all subsets are met.
pub const FULL_MAX: usize = 6;
/// What a torn write is torn into.
const SECTOR: usize = 512;

/// Disks, as a cut may find them.
pub struct Cuts {
    disks: Vec<DiskState>,
    /// Durable writes stay in the cache, whatever the disk says.
    lies: bool,
    /// Pages that differ between the states of this one.
    touched: Vec<(usize, u64)>,
    met: HashSet<u64>,
}

/// A part of a write that has reached the medium.
type Tear = Range<usize>;

/// A write or a part of one: of which disk, where, and what it is.
type Torn<'a> = (usize, u64, &'a [u8]);

/// A write in a cache: of which disk, and which of its writes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cached(usize, usize);

/// Where a cut fell, for those who want to know.
#[derive(Clone, Debug)]
pub struct Place {
    /// So many events were over.
    pub event: usize,
    /// Which writes of the caches have reached the medium, and how much of the one that is torn.
    pub kept: String,
}

impl Cuts {
    /// Of disks as they are now. With `lies` their durable writes are not: something must then be found.
    #[must_use]
    pub fn of<'a>(disks: impl Iterator<Item = &'a Arc<PowerDisk>>, lies: bool) -> Self {
        Self { disks: disks.map(|disk| disk.state()).collect(), lies, touched: Vec::new(), met: HashSet::new() }
    }

    /// Shows `see` every state that a cut may leave before, in the middle of, and behind `events`; ends with the first
    /// that it does not like.
    pub fn each<E>(
        &mut self,
        events: &[Event],
        see: &mut impl FnMut(&[Pages], &Place) -> Result<(), E>,
    ) -> Result<(), E> {
        self.note_touched(events);
        let all = self.cached();
        for kept in subsets(&all) {
            self.show(0, &kept, &[], see)?;
        }
        for (number, event) in events.iter().enumerate() {
            match &event.what {
                What::Flush => self.disks[event.disk].flush(),
                What::Write { offset, bytes, durability } => {
                    self.show_torn(number, (event.disk, *offset, bytes.as_slice()), see)?;
                    let mut others = self.cached();
                    let durability = if self.lies { Durability::Cached } else { *durability };
                    self.disks[event.disk].write(*offset, bytes, durability);
                    if durability == Durability::Durable {
                        self.disks[event.disk].forget_covered(*offset, bytes.len());
                        others = self.cached();
                    }
                    let newest = Cached(event.disk, self.disks[event.disk].cached.len().wrapping_sub(1));
                    for mut kept in subsets(&others) {
                        if durability == Durability::Cached {
                            kept.push(newest);
                        }
                        self.show(number + 1, &kept, &[], see)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A cut in the middle of a write.
    fn show_torn<E>(
        &mut self,
        event: usize,
        (disk, offset, bytes): Torn<'_>,
        see: &mut impl FnMut(&[Pages], &Place) -> Result<(), E>,
    ) -> Result<(), E> {
        let others = self.cached();
        // Of what goes to several places at once, each write is in its disk's cache already.
        let is_another = |other: &Cached| {
            let (at, there) = &self.disks[other.0].cached[other.1];
            other.0 != disk || *at != offset || there.len() != bytes.len()
        };
        let beside: Vec<_> = others.iter().copied().filter(is_another).collect();
        let places = self.places_of(bytes);
        for tear in tears(bytes.len()) {
            let torn = |disk, offset: u64| (disk, offset + tear.start as u64, &bytes[tear.clone()]);
            let alone = [torn(disk, offset)];
            self.show(event, &[], &alone, see)?;
            self.show(event, &others, &alone, see)?;
            self.show(event, &beside, &alone, see)?;
            let together: Vec<_> = places.iter().map(|(disk, offset)| torn(*disk, *offset)).collect();
            self.show(event, &[], &together, see)?;
        }
        Ok(())
    }

    fn cached(&self) -> Vec<Cached> {
        let of = |(disk, state): (usize, &DiskState)| (0..state.cached.len()).map(move |at| Cached(disk, at)).collect();
        self.disks.iter().enumerate().flat_map(of as fn(_) -> Vec<_>).collect()
    }

    /// Where these bytes are in a cache: of what goes to several places at once, all that are under way.
    fn places_of(&self, bytes: &[u8]) -> Vec<(usize, u64)> {
        let of = |Cached(disk, at)| {
            let (offset, there): &(u64, Vec<u8>) = &self.disks[disk].cached[at];
            (there == bytes).then_some((disk, *offset))
        };
        self.cached().into_iter().filter_map(of).collect()
    }

    fn note_touched(&mut self, events: &[Event]) {
        let mut touched = Vec::new();
        let mut note = |disk: usize, offset: u64, length: usize| {
            touched.extend(
                (offset / PAGE as u64..(offset + length as u64).div_ceil(PAGE as u64)).map(|page| (disk, page)),
            );
        };
        for (disk, state) in self.disks.iter().enumerate() {
            state.cached.iter().for_each(|(offset, bytes)| note(disk, *offset, bytes.len()));
        }
        for event in events {
            if let What::Write { offset, bytes, .. } = &event.what {
                note(event.disk, *offset, bytes.len());
            }
        }
        touched.sort_unstable();
        touched.dedup();
        (self.touched, self.met) = (touched, HashSet::new());
    }

    fn show<E>(
        &mut self,
        event: usize,
        kept: &[Cached],
        torn: &[Torn<'_>],
        see: &mut impl FnMut(&[Pages], &Place) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut media: Vec<Pages> = self.disks.iter().map(|state| state.stable.clone()).collect();
        for (disk, state) in self.disks.iter().enumerate() {
            for (at, (offset, bytes)) in state.cached.iter().enumerate() {
                if kept.contains(&Cached(disk, at)) {
                    media[disk].write(*offset, bytes);
                }
            }
        }
        for (disk, offset, bytes) in torn {
            media[*disk].write(*offset, bytes);
        }
        if !self.met.insert(self.fingerprint(&media)) {
            return Ok(());
        }
        let names: Vec<String> = kept.iter().map(|Cached(disk, at)| format!("{disk}.{at}")).collect();
        let torn: String =
            torn.iter().map(|(disk, offset, bytes)| format!(" and {disk}:{offset:#x}+{}", bytes.len())).collect();
        see(&media, &Place { event, kept: format!("[{}]{torn}", names.join(" ")) })
    }

    fn fingerprint(&self, media: &[Pages]) -> u64 {
        let mut hash = Xxh3::new();
        let mut bytes = [0; PAGE];
        for (disk, page) in &self.touched {
            media[*disk].read(page * PAGE as u64, &mut bytes);
            hash.write(&bytes);
        }
        hash.finish()
    }
}

/// The subsets that are met of so many writes.
fn subsets(all: &[Cached]) -> Vec<Vec<Cached>> {
    if all.len() <= FULL_MAX {
        let chosen = |mask: usize| (0..all.len()).filter(|at| mask >> at & 1 == 1).map(|at| all[at]).collect();
        return (0..1_usize << all.len()).map(chosen).collect();
    }
    let alone = all.iter().map(|one| vec![*one]);
    let missing = all.iter().map(|one| all.iter().filter(|other| *other != one).copied().collect());
    let beginnings = (2..all.len() - 1).map(|length| all[..length].to_vec());
    [vec![], all.to_vec()].into_iter().chain(alone).chain(missing).chain(beginnings).collect()
}

/// What may be there of a write of so many bytes: its first sector, all but its first, all but its last, its first half, its
/// second half, and each page of a few.
fn tears(length: usize) -> Vec<Tear> {
    let half = (length / 2).next_multiple_of(SECTOR);
    let mut tears = vec![0..SECTOR, SECTOR..length, 0..length - SECTOR, 0..half, half..length];
    let pages = length / PAGE;
    if (2..=4).contains(&pages) {
        tears.extend((0..pages).map(|page| page * PAGE..(page + 1) * PAGE));
    }
    tears
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{AtOnce, Power};
    use tally_disk::{Disk, Fanout};

    /// Two cached pages, one durable, a flush: what may be there is exactly this.
    #[test]
    fn the_states_are_those_that_a_cut_may_leave() {
        let power = Arc::new(Power::default());
        let disk = Arc::new(PowerDisk::new(&power, 1 << 20));
        let mut cuts = Cuts::of([&disk].into_iter(), false);
        power.record(true);
        disk.write(0, &[1; PAGE], Durability::Cached).unwrap();
        disk.write(PAGE as u64, &[2; PAGE], Durability::Durable).unwrap();
        disk.flush().unwrap();
        disk.write(0, &[3; PAGE], Durability::Cached).unwrap();
        let mut whole = Vec::new();
        let mut torn = 0;
        let events = power.take_events();
        assert_eq!(events.len(), 4);
        cuts.each::<()>(&events, &mut |media, _| {
            let (mut first, mut second) = ([0; PAGE], [0; PAGE]);
            media[0].read(0, &mut first);
            media[0].read(PAGE as u64, &mut second);
            let of = |page: &[u8]| page.iter().all(|byte| *byte == page[0]).then_some(page[0]);
            match (of(&first), of(&second)) {
                (Some(first), Some(second)) => whole.push((first, second)),
                _ => torn += 1,
            }
            Ok(())
        })
        .unwrap();
        whole.sort_unstable();
        assert_eq!(whole, [(0, 0), (0, 2), (1, 0), (1, 2), (3, 2)], "each of them once");
        // Five tears of the first write, five of the second beside none and all, five of the third.
        assert_eq!(torn, 5 + 2 * 5 + 5);
    }

    /// Both disks are written at once: either may be ahead, and torn.
    #[test]
    fn what_goes_to_two_disks_at_once_is_cut_together() {
        let power = Arc::new(Power::default());
        let disks = [0, 1].map(|_| Arc::new(PowerDisk::new(&power, 1 << 20)));
        let mut cuts = Cuts::of(disks.iter(), false);
        power.record(true);
        let targets = disks.clone().map(|disk| (disk as Arc<dyn Disk>, 0));
        let outcomes = AtOnce::new(&power).write(&targets, &[1; PAGE], Durability::Durable);
        assert!(outcomes.iter().all(Result::is_ok));
        let mut met = Vec::new();
        cuts.each::<()>(&power.take_events(), &mut |media, _| {
            let of = |media: &Pages| {
                let mut page = [0; PAGE];
                media.read(0, &mut page);
                match page.iter().map(|byte| usize::from(*byte)).sum() {
                    0 => "none",
                    PAGE => "whole",
                    _ => "torn",
                }
            };
            met.push((of(&media[0]), of(&media[1])));
            Ok(())
        })
        .unwrap();
        let kept = ["none", "torn", "whole"];
        for (first, second) in kept.into_iter().flat_map(|first| kept.map(|second| (first, second))) {
            assert!(met.contains(&(first, second)), "{first} and {second} of {met:?}");
        }
    }

    #[test]
    fn many_writes_are_met_in_part() {
        let all: Vec<_> = (0..10).map(|at| Cached(0, at)).collect();
        assert_eq!(subsets(&all[..6]).len(), 64);
        let met = subsets(&all);
        assert_eq!(met.len(), 2 + 10 + 10 + 7);
        assert!(met.iter().all(|subset| met.iter().filter(|other| *other == subset).count() == 1));
    }
}
