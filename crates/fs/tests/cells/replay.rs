//! Replayed once, replayed twice, and cut at every write of the replay.

use tally_fs::record::RecordKind;
use tally_store::tuning::Tuning;

use crate::cuts::Journal;
use crate::shapes::Shape;
use crate::story::{Log, Story, import, import_as, to_replay};
use crate::world::World;

/// How an import that follows finds the log: records that it replays, and whether there are frames at all.
type Found = (u64, bool);

pub(crate) fn once(kind: RecordKind, shape: &Shape) -> Result<u64, String> {
    let story = Story::tell(kind, shape, Log::OneLeg);
    let world = story.after.cut();
    let (filer, report) = import(&world)?;
    if report.records_replayed != 2 {
        return Err(format!("{} records were replayed", report.records_replayed));
    }
    story.with.check(&filer)?;
    // And it is in the pool now, whatever becomes of the log.
    let world = world.cut();
    let (filer, report) = import(&world)?;
    if (report.records_replayed, report.frames) != (0, 0) {
        return Err(format!("{} records were replayed once more", report.records_replayed));
    }
    story.with.check(&filer)?;
    Ok(2)
}

/// The power goes when everything is replayed and the uberblock of that is not there yet, three times in a row; and when a
/// group in the middle of the replay is durable, of which the log knows nothing.
pub(crate) fn twice(kind: RecordKind, shape: &Shape) -> Result<u64, String> {
    let story = Story::tell(kind, shape, Log::OneLeg);
    Ok(before_the_commit(&story)? + behind_a_group_in_between(&story)?)
}

fn before_the_commit(story: &Story) -> Result<u64, String> {
    let mut world = story.after.cut();
    for import_number in 1..=3 {
        let journal = Journal::of(&world, import)?;
        let commit = first(&journal, |found| found == (0, false))?;
        let cut = journal.cut(commit - 1);
        if to_replay(&cut) != to_replay(&story.after) {
            return Err(format!(
                "before the commit of import {import_number} there is {:?} to replay",
                to_replay(&cut)
            ));
        }
        let (filer, report) = import(&cut.cut())?;
        if report.records_replayed != 2 {
            return Err(format!("{} records were replayed by import {import_number}", report.records_replayed));
        }
        story.with.check(&filer)?;
        world = cut;
    }
    Ok(3)
}

/// At each border between the groups of one replay.
fn behind_a_group_in_between(story: &Story) -> Result<u64, String> {
    let journal = Journal::of(&story.after, |world| import_as(world, &tight()))?;
    let mut checked = 0;
    for expected in [(2, true), (1, true), (0, true), (0, false)] {
        let at = first(&journal, |found| found <= expected)?;
        let found = found(&journal.cut(at))?;
        if found != expected {
            return Err(format!("no cut leaves {expected:?} records to replay, but {found:?}"));
        }
        let (filer, _) = import(&journal.cut(at))?;
        story.with.check(&filer)?;
        checked += 1;
    }
    Ok(checked)
}

/// The first cut at which the disks are as asked; from there on all are.
fn first(journal: &Journal, is: impl Fn(Found) -> bool) -> Result<usize, String> {
    let (mut from, mut to) = (0, journal.len());
    while from < to {
        let middle = usize::midpoint(from, to);
        if is(found(&journal.cut(middle))?) { to = middle } else { from = middle + 1 }
    }
    if is(found(&journal.cut(from))?) { Ok(from) } else { Err("no cut leaves the disks as asked".to_owned()) }
}

fn found(world: &World) -> Result<Found, String> {
    import(world).map(|(_, report)| (report.records_replayed, report.frames > 0))
}

/// The power goes at every write of an import that makes everything durable with one uberblock.
pub(crate) fn cut(kind: RecordKind, shape: &Shape) -> Result<u64, String> {
    every_cut_of(kind, shape, &Tuning::default())
}

/// And of one that does so record by record.
pub(crate) fn cut_in_groups(kind: RecordKind, shape: &Shape) -> Result<u64, String> {
    every_cut_of(kind, shape, &tight())
}

fn every_cut_of(kind: RecordKind, shape: &Shape, tuning: &Tuning) -> Result<u64, String> {
    let story = Story::tell(kind, shape, Log::OneLeg);
    let journal = Journal::of(&story.after, |world| import_as(world, tuning))?;
    let mut replayed = [0, 0];
    let count = journal.every_cut(|_, _, world| {
        let (filer, report) = import(world)?;
        replayed[usize::from(report.records_replayed > 0)] += 1;
        story.with.check(&filer)
    })?;
    if replayed.contains(&0) {
        return Err(format!("{replayed:?} cuts left nothing and something to replay"));
    }
    Ok(count)
}

/// A group for each record: its uberblock has the record in the trees, and the log as the import found it.
fn tight() -> Tuning {
    Tuning { dirty_bytes_max: 4, ..Tuning::default() }
}
