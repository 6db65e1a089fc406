//! A disk of the log is missing: one leg of two, or the only one.

use tally_fs::filer::{Filer, ImportOptions};
use tally_fs::record::RecordKind;
use tally_members::vdev::LegState;
use tally_store::tuning::Tuning;
use tally_vfs::{Cred, Vfs};

use crate::cuts::Journal;
use crate::shapes::{Shape, shapes};
use crate::story::{Log, Story, import, look};
use crate::tail::later;
use crate::world::{World, ctx, done, mode, vfs};

/// Either leg of a mirrored log.
pub(crate) fn one_leg(kind: RecordKind, shape: &Shape) -> Result<u64, String> {
    let story = Story::tell(kind, shape, Log::TwoLegs);
    for gone in Log::TwoLegs.legs() {
        without_leg(&story, gone).map_err(|why| format!("without {gone}: {why}"))?;
    }
    Ok(Log::TwoLegs.legs().len() as u64)
}

fn without_leg(story: &Story, gone: &str) -> Result<(), String> {
    let mut world = story.after.cut();
    let taken = world.take(&[gone]);
    let (filer, report) = import(&world)?;
    if report.records_replayed != 2 {
        return Err(format!("{} records were replayed", report.records_replayed));
    }
    if !report.remarks.iter().any(|remark| remark.contains(gone)) {
        return Err(format!("it is not said that it is missing: {:?}", report.remarks));
    }
    if state(&filer, gone) == LegState::Online {
        return Err("it counts as present".to_owned());
    }
    story.with.check(&filer)?;
    later(&*vfs(&filer));
    // It comes back as it was, with the operation's frame as its newest.
    let mut world = world.cut();
    world.put(taken);
    let (filer, report) = import(&world)?;
    let replayed = report.records_replayed;
    if replayed != 1 || !report.remarks.contains(&format!("{gone} is {}", LegState::Stale.word())) {
        return Err(format!("{replayed} records were replayed when it was back: {:?}", report.remarks));
    }
    story.with.and(later).check(&filer)?;
    // From now on it is as good as the other one.
    last(&*vfs(&filer));
    let mut world = world.cut();
    world.take(&[other(gone)]);
    let (filer, _) = import(&world)?;
    let expected = story.with.and(|fs| {
        later(fs);
        last(fs);
    });
    expected.check(&filer).map_err(|why| format!("it is back, and {} is gone: {why}", other(gone)))
}

fn other(leg: &str) -> &'static str {
    Log::TwoLegs.legs().iter().find(|other| **other != leg).expect("there are two")
}

fn last(fs: &dyn Vfs) {
    done(fs.mkdir(ctx(&Cred::root()), fs.root(), b"last", &mode(0o700))).unwrap();
}

/// The power goes at every write of an import without a leg, and the leg is back at the next one: as it was, with the log
/// that the import had begun to replay. One shape of each type is enough, for the leg knows nothing of shapes.
pub(crate) fn one_leg_and_cut(kind: RecordKind, shape: &Shape) -> Result<u64, String> {
    if shape.name != shapes(kind)[0].name {
        return Ok(0);
    }
    let story = Story::tell(kind, shape, Log::TwoLegs);
    let mut count = 0;
    for gone in Log::TwoLegs.legs() {
        let mut world = story.after.cut();
        let taken = world.take(&[gone]);
        let journal = Journal::of(&world, import)?;
        count += journal.every_cut(|_, _, world| {
            let mut world = world.cut();
            world.put(taken.iter().map(|(path, disk)| (path.clone(), World::copy(disk))).collect());
            let (filer, _) = import(&world).map_err(|why| format!("{gone} is back: {why}"))?;
            story.with.check(&filer).map_err(|why| format!("{gone} is back: {why}"))
        })?;
    }
    Ok(count)
}

fn state(filer: &Filer, path: &str) -> LegState {
    let legs = filer.pool().roster.vdevs().iter().flat_map(|vdev| vdev.legs());
    legs.into_iter().find(|leg| leg.path().to_str() == Some(path)).expect("it is a disk of the pool").state()
}

/// The only leg: nothing is given up without a word.
pub(crate) fn the_log(kind: RecordKind, shape: &Shape) -> Result<u64, String> {
    let story = Story::tell(kind, shape, Log::OneLeg);
    let mut world = story.after.cut();
    let taken = world.take(&["/disks/slog"]);
    let before = world.cut();
    match world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()) {
        Ok(_) => return Err("the pool was imported without its log".to_owned()),
        Err(refusal) => {
            let refusal = refusal.to_string();
            if let Some(words) =
                ["/disks/slog", "tank", "--accept-loss"].iter().find(|words| !refusal.contains(**words))
            {
                return Err(format!("the refusal does not say {words}: {refusal}"));
            }
        }
    }
    let (filer, report) = look(&world)?;
    if report.losses.len() != 1 || !report.losses[0].contains("/disks/slog") {
        return Err(format!("the loss is not named: {:?}", report.losses));
    }
    story.synced.check_seen(&filer)?;
    if !world.is_same(&before) {
        return Err("looking or refusing has changed the disks".to_owned());
    }
    drop(filer);
    world.put(taken);
    let (filer, _) = import(&world)?;
    story.with.check(&filer)?;
    Ok(3)
}
