//! A look at what the roster has written, for a scrub: labels, and the uberblocks that an import may choose. Each is there
//! several times, so that damage to one of them is met by nobody until the others are damaged, too.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tally_base::{Txg, VdevGuid};
use tally_disk::Disk;

use super::{Roster, RosterError};
use crate::label::{self, CONFIG_SLOTS, PoolConfig};
use crate::uberblock::{self, Uberblock};
use crate::vdev::{LegState, VdevLeg};

/// A slot for a label or an uberblock, of a leg in use, that does not hold what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSlot {
    /// The leg in use that the slot is on.
    pub leg: VdevGuid,
    /// Where that leg was last seen.
    pub path: PathBuf,
    /// Bytes from the start of the leg.
    pub offset: u64,
    /// What stands in it, or should.
    pub what: &'static str,
    /// Why it does not hold that, for people.
    pub why: String,
}

impl fmt::Display for DamagedSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:#x} of {}: {}", self.what, self.offset, self.path.display(), self.why)
    }
}

/// What was damaged, and what still is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecuredSlots {
    /// Slots that are right again, or that no import chooses from any more.
    pub repaired: Vec<DamagedSlot>,
    /// Slots that are wrong all the same.
    pub lost: Vec<DamagedSlot>,
}

impl Roster {
    /// Sees to it that both labels of every leg that counts are whole: where one is not, the configuration is written anew
    /// into every slot of all of them, in the order in which any change of it is.
    pub fn secure_labels(&self) -> Result<SecuredSlots, RosterError> {
        let damaged = seen_twice(|| self.damaged_labels(&self.config()));
        if damaged.is_empty() {
            return Ok(SecuredSlots::default());
        }
        for _ in 0..CONFIG_SLOTS {
            self.update(|_| {})?;
        }
        Ok(self.sort_out(damaged, self.damaged_labels(&self.config())))
    }

    /// Copies of the uberblock of `newest()`, and of the one before it, which are not whole: what an import chooses from. Those
    /// before are written over by the next groups.
    pub fn damaged_uberblocks(&self, newest: impl Fn() -> Txg) -> Vec<DamagedSlot> {
        seen_twice(|| self.damaged_uberblocks_of(newest()))
    }

    /// Tells what was damaged, and by now harms nobody, from what is `lost`; and counts both on the legs. Slots of a leg that was
    /// struck off for it harm whoever takes it back.
    pub fn sort_out(&self, damaged: Vec<DamagedSlot>, mut lost: Vec<DamagedSlot>) -> SecuredSlots {
        let counts = |slot: &DamagedSlot| self.online().any(|leg| leg.guid() == slot.leg);
        let damaged = damaged.into_iter().filter(|slot| !is_among(slot, &lost));
        let (repaired, gone): (Vec<_>, Vec<_>) = damaged.partition(counts);
        lost.extend(gone);
        for leg in self.online() {
            let count = |slots: &[DamagedSlot]| slots.iter().filter(|slot| slot.leg == leg.guid()).count() as u64;
            leg.note_damage(count(&repaired) + count(&lost), count(&repaired));
        }
        SecuredSlots { repaired, lost }
    }

    fn online(&self) -> impl Iterator<Item = Arc<VdevLeg>> {
        self.legs().filter(|leg| leg.state() == LegState::Online)
    }

    /// Slots of labels that do not say what they must where this configuration is the newest.
    fn damaged_labels(&self, config: &PoolConfig) -> Vec<DamagedSlot> {
        let mut damaged = Vec::new();
        for leg in self.online() {
            let Some(disk) = leg.patient() else { continue };
            for slot in label::inspect(disk.as_ref()) {
                let is_newest = slot.slot == config.sequence % CONFIG_SLOTS;
                let why = match slot.content {
                    Err(why) => why,
                    Ok(Some(label)) if label.leg != leg.guid() => "it is another disk's".to_owned(),
                    Ok(Some(label)) if is_newest && label.config.rank() < config.rank() => {
                        "it is out of date".to_owned()
                    }
                    Ok(None) if is_newest => "it is empty".to_owned(),
                    Ok(_) => continue,
                };
                damaged.push(damaged_slot(&leg, slot.offset, "a label", why));
            }
        }
        damaged
    }

    fn damaged_uberblocks_of(&self, newest: Txg) -> Vec<DamagedSlot> {
        let before = Txg(newest.0.saturating_sub(1));
        let mut damaged = Vec::new();
        for leg in self.online() {
            let Some(disk) = leg.patient() else { continue };
            let slots_of = |txg| uberblock::slot_offsets(disk.geometry().size, txg).unwrap_or_default();
            for slot in uberblock::read_all(disk.as_ref()) {
                let is_newest = slots_of(newest).contains(&slot.offset);
                let is_of_it = |found: &Uberblock| found.txg >= newest;
                let why = match slot.content {
                    Err(why) if is_newest || slots_of(before).contains(&slot.offset) => why,
                    Ok(found) if is_newest && !found.as_ref().is_some_and(is_of_it) => "it is out of date".to_owned(),
                    _ => continue,
                };
                damaged.push(damaged_slot(&leg, slot.offset, "an uberblock", why));
            }
        }
        damaged
    }
}

/// What two looks have both found: what was on its way at one of them is no damage. Nothing waits for them, since a disk may
/// take its time (rules P1).
fn seen_twice(look: impl Fn() -> Vec<DamagedSlot>) -> Vec<DamagedSlot> {
    let first = look();
    if first.is_empty() {
        return first;
    }
    let second = look();
    first.into_iter().filter(|slot| is_among(slot, &second)).collect()
}

fn is_among(slot: &DamagedSlot, others: &[DamagedSlot]) -> bool {
    others.iter().any(|other| (other.leg, other.offset) == (slot.leg, slot.offset))
}

fn damaged_slot(leg: &VdevLeg, offset: u64, what: &'static str, why: String) -> DamagedSlot {
    DamagedSlot { leg: leg.guid(), path: leg.path().to_owned(), offset, what, why }
}
