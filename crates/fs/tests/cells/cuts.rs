//! What the disks hold if the power goes while something is being done: made from a journal of what they were told, so that
//! one run gives every cut.
//!
//! At each event that was on its way there are up to three states: everything before it has arrived; only what was
//! durable or flushed has; and everything before it, with the first half of this write (in pieces of 512 bytes).

use tally_disk::Durability;

use crate::world::{Event, World};

/// What a device writes whole.
pub(crate) const PIECE: usize = 512;

/// The disks before, and what they were told then.
pub(crate) struct Journal {
    base: World,
    events: Vec<Event>,
}

/// How the power left the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    All,
    Flushed,
    Torn,
}

impl Journal {
    /// Runs `work` on copies of the disks.
    pub(crate) fn of<T>(base: &World, work: impl FnOnce(&World) -> Result<T, String>) -> Result<Self, String> {
        let world = base.cut();
        world.start_journal();
        let kept_open = work(&world)?;
        let events = world.end_journal();
        drop(kept_open);
        Ok(Self { base: base.cut(), events })
    }

    /// How many events there are: a cut is at 0 to this many, both included.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Everything before event `at` has arrived.
    pub(crate) fn cut(&self, at: usize) -> World {
        let world = self.base.cut();
        self.events[..at].iter().for_each(|event| arrive(&world, event));
        world
    }

    /// Every state that a cut can leave.
    pub(crate) fn every_cut(
        &self,
        mut check: impl FnMut(usize, Left, &World) -> Result<(), String>,
    ) -> Result<u64, String> {
        let (all, flushed) = (self.base.cut(), self.base.cut());
        let mut cached: Vec<&Event> = Vec::new();
        let mut count = 0;
        for at in 0..=self.events.len() {
            let mut judge = |left, world: World| {
                count += 1;
                check(at, left, &world)
                    .map_err(|why| format!("cut at event {at} of {}, {left:?}: {why}", self.events.len()))
            };
            let event = self.events.get(at);
            // A flush changes nothing that is seen, so a cut at it is like one at the next event.
            if !matches!(event, Some(Event::Flush { .. })) {
                judge(Left::All, all.cut())?;
            }
            if !cached.is_empty() {
                judge(Left::Flushed, flushed.cut())?;
            }
            let Some(event) = event else { break };
            if let Event::Write { disk, offset, bytes, .. } = event {
                let torn = all.cut();
                torn.poke(disk, *offset, &bytes[..(bytes.len() / 2).next_multiple_of(PIECE)]);
                judge(Left::Torn, torn)?;
            }
            arrive(&all, event);
            note_stable(&flushed, &mut cached, event);
        }
        Ok(count)
    }
}

fn arrive(world: &World, event: &Event) {
    if let Event::Write { disk, offset, bytes, .. } = event {
        world.poke(disk, *offset, bytes);
    }
}

/// Keeps `flushed` at what is stable for certain.
fn note_stable<'a>(flushed: &World, cached: &mut Vec<&'a Event>, event: &'a Event) {
    match event {
        Event::Write { durability: Durability::Cached, .. } => cached.push(event),
        Event::Write { .. } => arrive(flushed, event),
        Event::Flush { disk } => {
            let is_of_disk = |event: &mut &Event| matches!(event, Event::Write { disk: of, .. } if of == disk);
            cached.extract_if(.., is_of_disk).for_each(|event| arrive(flushed, event));
        }
    }
}
