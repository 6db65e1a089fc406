//! Damage that was met, in the catalog: it is known over exports and power cuts, and a read-only import can tell it.
//!
//! A key is a place: dataset, object, and what of the object. The value says when it was met, by whom, and which block was
//! wrong: group numbers come again where no uberblock and no frame has seen them (rules S53), so a block that is there now
//! is the one that was met if place and checksum are the same.
//!
//! ```text
//!  0  form u8 = 1   1  met by u8 (bit 0 a read, bit 1 a scrub)   2  places that were wrong u8   3  zero (5)
//!  8  first met, group u64     16  last met, group u64     24  written, group u64     32  checksum u128
//! 48  place (10)    58  zero (6)    64
//! ```
//!
//! From 24 on it is zero where no block is known: the node above could not be read. Under object 0 of a dataset stands how
//! often damage was met there that is not in the list, as it is full: form, zero (7), count u64. Nothing of it is text, and names are looked up when
//! it is shown.

use bytes::Bytes;
use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{DatasetId, ObjectId, Txg};

use super::Pool;
use super::kept::DAMAGE_PLACES_MAX;
use crate::bp::{BlockPtr, Dva, PLACE_BYTES};
use crate::key::{Class, Key};

const FORM: u8 = 1;
const WHAT: &str = "damage in the catalog";

/// Spots from here on are no offsets: files end before.
const ATTRIBUTES: u64 = 1 << 63;
const NAMES: u64 = ATTRIBUTES + 1;

/// What of an object is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spot {
    /// Content from this offset on.
    Content(u64),
    /// Its attributes.
    Attributes,
    /// Names in a directory.
    Names,
}

impl Spot {
    const fn number(self) -> u64 {
        match self {
            Self::Content(offset) => offset,
            Self::Attributes => ATTRIBUTES,
            Self::Names => NAMES,
        }
    }

    /// Of the last part of a key.
    #[must_use]
    pub const fn of(number: u64) -> Option<Self> {
        match number {
            0..ATTRIBUTES => Some(Self::Content(number)),
            ATTRIBUTES => Some(Self::Attributes),
            NAMES => Some(Self::Names),
            _ => None,
        }
    }
}

/// Who has met damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetBy {
    /// Somebody who wanted the bytes.
    Read,
    /// Somebody who looks at everything.
    Scrub,
}

/// The block that was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetBlock {
    /// Where its first copy lies.
    pub dva: Dva,
    /// The group that wrote it.
    pub written: Txg,
    /// Its checksum; of one that was given up the one that it has since.
    pub checksum: u128,
    /// Which of its places were wrong: bit 0 the first, bit 1 the second.
    pub places: u8,
}

impl MetBlock {
    fn new(bp: &BlockPtr) -> Self {
        let places = if bp.copy.is_some() { 3 } else { 1 };
        Self { dva: bp.dva, written: bp.written, checksum: bp.checksum, places }
    }

    /// Whether this pointer leads to it.
    #[must_use]
    pub fn is(&self, bp: &BlockPtr) -> bool {
        self.dva == bp.dva && self.written == bp.written && bp.had_checksum(self.checksum)
    }
}

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetDamage {
    /// The newest durable group when it was met first.
    pub first: Txg,
    /// The same of the last time that was written down: by a scrub, or by whoever met it first.
    pub last: Txg,
    /// Whether a read has met it.
    pub by_read: bool,
    /// Whether a scrub has.
    pub by_scrub: bool,
    /// The block, if it is known.
    pub block: Option<MetBlock>,
}

impl MetDamage {
    /// Damage that is met now for the first time.
    #[must_use]
    pub fn new(txg: Txg, by: MetBy, bp: Option<&BlockPtr>) -> Self {
        let (by_read, by_scrub) = (by == MetBy::Read, by == MetBy::Scrub);
        Self { first: txg, last: txg, by_read, by_scrub, block: bp.map(MetBlock::new) }
    }

    /// The same place was found damaged again.
    #[must_use]
    pub fn again(self, now: &Self) -> Self {
        Self {
            first: self.first,
            last: now.last,
            by_read: self.by_read || now.by_read,
            by_scrub: self.by_scrub || now.by_scrub,
            block: now.block.or(self.block),
        }
    }

    fn encode(&self) -> Bytes {
        let mut out = vec![FORM, u8::from(self.by_read) | u8::from(self.by_scrub) << 1];
        out.push(self.block.map_or(0, |block| block.places));
        out.resize(8, 0);
        out.put_u64(self.first.0);
        out.put_u64(self.last.0);
        out.put_u64(self.block.map_or(0, |block| block.written.0));
        out.put(&self.block.map_or(0, |block| block.checksum).to_le_bytes());
        out.put(&self.block.map_or([0; PLACE_BYTES], |block| block.dva.encode()));
        out.resize(64, 0);
        out.into()
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(value, WHAT);
        let [form, met_by, places] = reader.array()?;
        let zero = reader.array::<5>()?;
        let (first, last, written) = (Txg(reader.u64()?), Txg(reader.u64()?), Txg(reader.u64()?));
        let checksum = reader.u128()?;
        let dva = Dva::decode(&mut reader)?;
        let zeroes = reader.array::<6>()?;
        let malformed = reader.malformed();
        reader.end()?;
        if form != FORM || zero != [0; 5] || zeroes != [0; 6] || met_by > 3 || places > 3 {
            return Err(malformed);
        }
        let block = (places > 0).then_some(MetBlock { dva, written, checksum, places });
        Ok(Self { first, last, by_read: met_by & 1 != 0, by_scrub: met_by & 2 != 0, block })
    }
}

fn key_of(dataset: DatasetId, object: ObjectId, spot: Spot) -> Key {
    Key::new(Class::Damage, dataset.0, object.0, spot.number())
}

/// No object has this id: under it stands the count of what the list has no room for.
const NO_OBJECT: u64 = 0;

/// What stands under a key of damage.
pub(crate) enum Line {
    /// A place.
    Place(ObjectId, Spot, MetDamage),
    /// How often more was met.
    Beyond(u64),
}

/// A line of the list, as it stands in the catalog.
pub(crate) fn line_of(key: &Key, value: &[u8]) -> Result<Line, Malformed> {
    if key.a == NO_OBJECT {
        let mut reader = Reader::new(value, WHAT);
        let (form, count) = (reader.array::<8>()?, reader.u64()?);
        let malformed = reader.malformed();
        reader.end()?;
        return if form == [FORM, 0, 0, 0, 0, 0, 0, 0] && key.b == 0 {
            Ok(Line::Beyond(count))
        } else {
            Err(malformed)
        };
    }
    let spot = Spot::of(key.b).ok_or(Malformed(WHAT))?;
    Ok(Line::Place(ObjectId(key.a), spot, MetDamage::decode(value)?))
}

/// What is known of a dataset's damage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamageList {
    /// By object.
    pub places: Vec<(ObjectId, Spot, MetDamage)>,
    /// How often more was met than is kept.
    pub beyond: u64,
}

impl Pool {
    /// What the catalog says of a dataset. What is in a form that this program does not know is passed over.
    #[must_use]
    pub fn damage_of(&self, dataset: DatasetId) -> DamageList {
        let mut list = DamageList::default();
        for (key, value) in self.kept.values_of(Class::Damage, dataset.0) {
            match line_of(&key, &value) {
                Ok(Line::Place(object, spot, met)) => list.places.push((object, spot, met)),
                Ok(Line::Beyond(count)) => list.beyond = count,
                Err(_) => {}
            }
        }
        list
    }

    /// Notes damage, for the next group to write down. False: there is no room for another place.
    pub fn note_damage(&self, dataset: DatasetId, object: ObjectId, spot: Spot, met: &MetDamage) -> bool {
        let key = key_of(dataset, object, spot);
        // Nobody else adds one meanwhile but readers, and each of them one.
        if self.kept.value(&key).is_none() && self.kept.count_of(Class::Damage) >= DAMAGE_PLACES_MAX {
            return false;
        }
        if self.kept.note(key, Some(met.encode())) {
            self.want_kept();
        }
        true
    }

    /// The damage is gone.
    pub fn forget_damage(&self, dataset: DatasetId, object: ObjectId, spot: Spot) {
        if self.kept.note(key_of(dataset, object, spot), None) {
            self.want_kept();
        }
    }

    /// So often more was met than is kept. It goes with whichever group comes next: a client that reads in vain on and on asks
    /// for none.
    pub fn note_damage_beyond(&self, dataset: DatasetId, count: u64) {
        let mut value = vec![FORM, 0, 0, 0, 0, 0, 0, 0];
        value.put_u64(count);
        self.kept.note(Key::new(Class::Damage, dataset.0, NO_OBJECT, 0), (count > 0).then(|| value.into()));
    }

    /// A dataset is gone, and its damage with it.
    pub(super) fn forget_damage_of(&self, dataset: DatasetId) {
        for (key, _) in self.kept.values_of(Class::Damage, dataset.0) {
            self.kept.note(key, None);
        }
    }
}

#[cfg(test)]
mod tests;
