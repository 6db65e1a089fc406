//! Places of what stateids name: found by the index that a stateid tells, and used again when they are free.
//!
//! ```text
//!  number   generation: how often the place was used │ index: position + 1 │ whether it is a delegation's │ a lock's │ shard
//!           32 bits                                  │        26 bits      │            1 bit             │  1 bit   │ 4 bits
//! ```
//!
//! A number never comes twice in one start of the server. An index is never 0, so that no stateid is one of those that name nothing, and tells whether an
//! open, a lock or a delegation is asked for.

/// Of clients: a client's state is in one shard, which its stateids tell.
pub(super) const SHARD_BITS: u32 = 4;
pub(super) const SHARD_COUNT: usize = 1 << SHARD_BITS;
/// Of an index that is a lock's.
pub(super) const OF_LOCKS: u32 = 1 << SHARD_BITS;
/// Of one that is a delegation's.
pub(super) const OF_DELEGATIONS: u32 = OF_LOCKS << 1;
/// What stands below the position.
pub(super) const LOW_BITS: u32 = SHARD_BITS + 2;

/// Most places of one shard.
pub(super) const PLACES_MAX: usize = 1 << (32 - LOW_BITS - 1);

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    /// The last turn that ended with its client; 0 if none did.
    gone: u32,
    value: Option<T>,
}

/// The places of one shard.
#[derive(Debug)]
pub(super) struct Places<T> {
    /// The low bits of their indices.
    low: u32,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Places<T> {
    /// None yet. The low bits are the shard, and what they are for.
    pub(super) const fn new(low: u32) -> Self {
        Self { low, slots: Vec::new(), free: Vec::new() }
    }

    /// A place for what this makes, which is told its number.
    pub(super) fn add(&mut self, make: impl FnOnce(u64) -> T) -> u64 {
        let position = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, gone: 0, value: None });
            self.slots.len() as u32 - 1
        });
        let index = self.index(position);
        let slot = &mut self.slots[position as usize];
        slot.generation += 1;
        let number = number(slot.generation, index);
        slot.value = Some(make(number));
        number
    }

    pub(super) fn get(&self, number: u64) -> Option<&T> {
        self.at(number as u32).filter(|(at, _)| *at == number).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.get(number)?;
        let position = self.position(number as u32)?;
        self.slots[position].value.as_mut()
    }

    /// What is at the place that a stateid tells, with its number.
    pub(super) fn at(&self, index: u32) -> Option<(u64, &T)> {
        let slot = self.slots.get(self.position(index)?)?;
        slot.value.as_ref().map(|value| (number(slot.generation, index), value))
    }

    /// Its place is free, but for one whose numbers are all used: that stays empty.
    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        self.get(number)?;
        let position = self.position(number as u32)?;
        let slot = &mut self.slots[position];
        if slot.generation < u32::MAX {
            self.free.push(position as u32);
        }
        slot.value.take()
    }

    /// What had this number is gone with its client.
    pub(super) fn note_gone(&mut self, number: u64) {
        let slot = self.position(number as u32).and_then(|position| self.slots.get_mut(position));
        if let Some(slot) = slot {
            slot.gone = (number >> 32) as u32;
        }
    }

    /// The number of what was at that place last and is gone with its client.
    pub(super) fn gone_at(&self, index: u32) -> Option<u64> {
        let slot = self.slots.get(self.position(index)?)?;
        Some(number(slot.gone, index)).filter(|_| slot.gone > 0)
    }

    fn index(&self, position: u32) -> u32 {
        (position + 1) << LOW_BITS | self.low
    }

    fn position(&self, index: u32) -> Option<usize> {
        let is_here = index & ((1 << LOW_BITS) - 1) == self.low;
        (index >> LOW_BITS).checked_sub(1).filter(|_| is_here).map(|position| position as usize)
    }
}

fn number(generation: u32, index: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}

#[cfg(test)]
impl<T> Places<T> {
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, &T)> {
        let indices = (0..self.slots.len() as u32).map(|position| self.index(position));
        indices.filter_map(|index| self.at(index))
    }

    /// Each place is in use, or free, or all its numbers are used.
    pub(super) fn check(&self) {
        let is_empty = |slot: &&Slot<T>| slot.value.is_none();
        let worn = self.slots.iter().filter(is_empty).filter(|slot| slot.generation == u32::MAX).count();
        assert_eq!(self.all().count() + self.free.len() + worn, self.slots.len());
        assert!(self.free.iter().all(|position| is_empty(&&self.slots[*position as usize])));
    }

    /// How many are in use, and how many may be used again.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.all().count(), self.free.len())
    }

    /// As if every place had been used as often as it can be, but for once.
    pub(super) fn wear(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.generation = u32::MAX - 1);
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<T>>() + self.free.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_comes_twice() {
        let mut places = Places::new(OF_LOCKS | 3);
        let first = places.add(|number| number);
        assert_eq!((first, places.get(first)), (1 << 32 | 1 << LOW_BITS | 0x13, Some(&first)));
        assert_eq!([places.remove(first), places.remove(first), places.get(first).copied()], [Some(first), None, None]);
        let again = places.add(|number| number);
        assert_eq!((again, places.get(first)), (first + (1 << 32), None));
        assert_eq!(places.gone_at(first as u32), None);
        places.note_gone(first);
        assert_eq!([first as u32, 0, 1 << 20].map(|index| places.gone_at(index)), [Some(first), None, None]);
        assert_eq!((places.at(again as u32), places.at(again as u32 ^ OF_LOCKS)), (Some((again, &again)), None));
        places.remove(again);
        places.wear();
        let last = places.add(|number| number);
        assert_eq!(last >> 32, u64::from(u32::MAX));
        places.remove(last);
        let other = places.add(|number| number);
        assert!(other as u32 != last as u32 && other >> 32 == 1);
        assert_eq!(places.counts(), (1, 0));
    }
}
