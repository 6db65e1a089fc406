//! A disk that lies, to see that the check can fail.

use anyhow::{Context, Result};

use super::draw::Draw;
use super::stations::steps_of;
use crate::recording::{Event, Recording};

/// The disk forgets to make durable what it said was, one time in so many.
const LIE_EVERY: usize = 2;
/// The stream of chance that decides on lies; cuts have those from zero on.
const STREAM: u64 = 1 << 20;

/// The events as they were, but for what this disk forgets once the client has begun: flushes are not there, and writes
/// through the cache went into it.
pub(super) fn told(recording: &Recording, name: &str, seed: u64) -> Result<Vec<Event>> {
    let liar = recording.disks.iter().position(|disk| disk.name == name);
    let liar = liar.with_context(|| format!("no disk {name} was recorded"))?;
    let (mut draw, mut begun) = (Draw::new(seed, STREAM), false);
    let events = recording.events.iter().filter_map(|event| {
        begun |= steps_of(event).is_some();
        let lie = begun && draw.below(LIE_EVERY) == 0;
        match event {
            Event::Flush { disk } if lie && *disk == liar => None,
            Event::Write { disk, offset, data, .. } if lie && *disk == liar => {
                Some(Event::Write { disk: *disk, offset: *offset, data: data.clone(), durable: false })
            }
            event => Some(event.clone()),
        }
    });
    Ok(events.collect())
}
