//! Where a run stops to look: borders, and power cuts between them. Known before the first image is made, so that
//! one of them can be repeated alone.

use super::STEP;
use super::Share;
use super::draw::Draw;
use crate::recording::Event;

/// A moment of the recording.
pub(super) struct Station {
    /// The event that is complete at a border, and under way at a cut.
    pub(super) event: usize,
    pub(super) what: What,
}

pub(super) enum What {
    Border(usize),
    Cut(u64, Draw),
}

impl What {
    /// The option that repeats it.
    pub(super) fn option(&self) -> String {
        match self {
            Self::Border(number) => format!("--border {number}"),
            Self::Cut(number, _) => format!("--cut {number}"),
        }
    }
}

/// All of them that a share asks for, in order. Nothing is looked at before the client begins. Every other cut comes
/// while a cache holds something: most of the time only one frame of the log is under way.
pub(super) fn all(events: &[Event], disks: usize, share: &Share, seed: u64) -> Vec<Station> {
    let Some(begin) = events.iter().position(|event| steps_of(event).is_some()) else { return Vec::new() };
    let (mut borders, mut moments, mut with_caches) = (vec![begin], Vec::new(), Vec::new());
    let mut cached = vec![false; disks];
    for (index, event) in events.iter().enumerate() {
        let before = cached.contains(&true);
        let changed = match event {
            Event::Write { disk, durable, .. } => {
                cached[*disk] |= !durable;
                *durable
            }
            Event::Flush { disk } => std::mem::take(&mut cached[*disk]),
            Event::Mark(_) => continue,
        };
        if index < begin {
            continue;
        }
        if changed {
            borders.push(index);
        }
        if before {
            with_caches.push(index);
        }
        if before || matches!(event, Event::Write { .. }) {
            moments.push(index);
        }
    }
    if with_caches.is_empty() {
        with_caches.clone_from(&moments);
    }
    let chosen = borders.iter().enumerate().step_by(share.every.max(1));
    let borders = chosen.map(|(number, event)| Station { event: *event, what: What::Border(number) });
    let cuts = (0..share.cuts).filter(|_| !moments.is_empty()).map(|number| {
        let mut draw = Draw::new(seed, number);
        let moments = if number % 2 == 0 { &moments } else { &with_caches };
        Station { event: moments[draw.below(moments.len())], what: What::Cut(number, draw) }
    });
    let mut stations: Vec<_> = borders.chain(cuts).collect();
    // The request that a border waits for is still under way at a cut.
    stations.sort_by_key(|station| (station.event, matches!(station.what, What::Border(_))));
    stations
}

/// The one station that is to be repeated, behind the border before it: what that one held must be found.
pub(super) fn alone(mut stations: Vec<Station>, wanted: impl Fn(&What) -> bool) -> Vec<Station> {
    let Some(at) = stations.iter().position(|station| wanted(&station.what)) else { return Vec::new() };
    let before = stations[..at].iter().rposition(|station| matches!(station.what, What::Border(_)));
    stations.truncate(at + 1);
    let last = stations.pop();
    let before = before.map(|index| stations.swap_remove(index));
    before.into_iter().chain(last).collect()
}

/// How many steps a mark says were answered.
pub(super) fn steps_of(event: &Event) -> Option<usize> {
    let Event::Mark(text) = event else { return None };
    text.strip_prefix(STEP)?.parse().ok()
}

#[cfg(test)]
mod tests;
