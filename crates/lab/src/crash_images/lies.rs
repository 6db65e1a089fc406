//! Lies, to see that the check can fail. One about a disk is mostly noticed by the import itself, which misses what
//! was acknowledged; one about the server's answers only by whoever compares them with what is found.

use anyhow::{Context, Result};

use super::draw::Draw;
use super::stations::steps_of;
use crate::recording::{Event, Recording};

/// The disk forgets to make durable what it said was, one time in so many.
const LIE_EVERY: usize = 2;
/// The stream of chance that decides on lies; cuts have those from zero on.
const STREAM: u64 = 1 << 20;

/// Who lies, if it is not a disk by its name.
pub(super) const SERVER: &str = "server";

/// The events, as whoever is named would have them.
pub(super) fn told(recording: &Recording, name: &str, seed: u64) -> Result<Vec<Event>> {
    if name == SERVER {
        return Ok(answered_too_early(&recording.events));
    }
    let liar = recording.disks.iter().position(|disk| disk.name == name);
    Ok(forgetful(&recording.events, liar.with_context(|| format!("no disk {name} was recorded"))?, seed))
}

/// Once the client has begun, a disk forgets: flushes are not there, and writes through the cache went into it.
fn forgetful(events: &[Event], liar: usize, seed: u64) -> Vec<Event> {
    let (mut draw, mut begun) = (Draw::new(seed, STREAM), false);
    let events = events.iter().filter_map(|event| {
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
    events.collect()
}

/// Every answer comes before the durable write that it waited for.
fn answered_too_early(events: &[Event]) -> Vec<Event> {
    let mut told: Vec<Event> = Vec::with_capacity(events.len());
    for event in events {
        let awaited = |event: &Event| matches!(event, Event::Write { durable: true, .. } | Event::Mark(_));
        match told.iter().rposition(awaited) {
            Some(at) if steps_of(event).is_some_and(|steps| steps > 0) => told.insert(at, event.clone()),
            _ => told.push(event.clone()),
        }
    }
    told
}

#[cfg(test)]
mod tests;
