//! What could not be read, as `status` tells it: whether it still cannot be, and below which path it stands.
//!
//! Both are asked of the disks, and one that hangs answers neither. So a thread of its own asks, one at a time for each
//! pool, and whoever waits for it goes on without an answer when time is up. The disks of all pools are asked before
//! the first answer is waited for: a pool whose disks hang must not use up the time of the others.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use tally_fs::Filesystem;
use tally_fs::damage::{DamageReport, DamagedPlace, Part};

use super::patience;
use super::pool_report::report;
use super::served::ServedPool;
use crate::control::report::{DamagedObject, PoolReport};

/// How long it may take to look for the paths of what is damaged, in all pools together: some seconds over a disk that
/// has much to do, and not for as long as one hangs.
pub(super) const LOOK_MAX: Duration = Duration::from_secs(3);

/// What is damaged, by the names of datasets.
type Found = Vec<(String, DamageReport)>;

/// Everything about one pool, but for where the damage is: somebody may still be looking for that.
pub(super) struct Pending {
    report: PoolReport,
    damage: Option<Damage>,
}

struct Damage {
    /// As it was met.
    met: Found,
    /// Where the answer of whoever looks will come.
    looked: Option<Receiver<Option<Found>>>,
}

impl From<PoolReport> for Pending {
    fn from(report: PoolReport) -> Self {
        Self { report, damage: None }
    }
}

/// Begins the report of one pool: its disks are asked whether what could not be read still cannot, and for its paths.
pub(super) fn begin_report(served: &Arc<ServedPool>, until: Instant) -> Pending {
    let of_each = |damage_of: fn(&Filesystem) -> DamageReport, served: &ServedPool| -> Found {
        let names = served.filer.names();
        let damaged = names.iter().filter(|named| named.filesystem.has_damage());
        damaged.map(|named| (named.name.to_string(), damage_of(&named.filesystem))).collect()
    };
    let met = of_each(Filesystem::damage_met, served);
    let damage = (!met.is_empty()).then(|| {
        let looker = Arc::clone(served);
        let looked = patience::begin(move || {
            let _alone = looker.looking.try_lock_until(until)?;
            Some(of_each(Filesystem::damage_report, &looker))
        });
        Damage { met, looked }
    });
    Pending { report: report(served), damage }
}

impl Pending {
    /// The whole report. Where the disks do not answer by `until`, damage is told as it was met.
    pub(super) fn end(self, until: Instant) -> PoolReport {
        let Self { mut report, damage } = self;
        let Some(Damage { met, looked }) = damage else { return report };
        let time = until.saturating_duration_since(Instant::now());
        let found = looked.and_then(|looked| looked.recv_timeout(time).ok()).flatten().unwrap_or_else(|| {
            report.messages.push(
                "the disks did not answer in time: what could not be read is told as it was met, without looking for \
                 its path, or whether it can be read again."
                    .into(),
            );
            met
        });
        for (dataset, damage) in found {
            report.damage_beyond += damage.beyond;
            report.damage.extend(damage.places.into_iter().map(|place| damaged_object(&dataset, place)));
        }
        report
    }
}

fn damaged_object(dataset: &str, place: DamagedPlace) -> DamagedObject {
    let (what, offset) = match place.part {
        Part::Attributes => ("attributes", None),
        Part::Names => ("names", None),
        Part::Xattrs => ("xattrs", None),
        Part::Content(offset) => ("content", Some(offset)),
        Part::Space => ("space", None),
    };
    DamagedObject { dataset: dataset.into(), object: place.object.0, path: place.path, what: what.into(), offset }
}
