//! A disk of the log is missing: one leg of two, or the only one.

use tally_fs::filer::{Filer, ImportOptions};
use tally_fs::record::RecordKind;
use tally_store::vdev::LegState;

use crate::shapes::Shape;
use crate::story::{Log, Story, import, look};
use crate::tail::later;
use crate::world::vfs;

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
    if report.records_replayed != 1 {
        return Err(format!("{} records were replayed when it was back", report.records_replayed));
    }
    story.with.and(later).check(&filer)
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
    match world.try_import_without_threads(&crate::story::alone(), &ImportOptions::default()) {
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
