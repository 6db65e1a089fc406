//! A scrub: every block of the pool is looked at on every disk, and what is damaged gets the names of files.

use std::collections::{BTreeMap, BTreeSet};

use tally_base::{DatasetId, ObjectId};
use tally_store::bp::BlockPtr;
use tally_store::pool::{LostBlock, MetBy, Owner, ScrubJob, SecureError, SecureReport, SpaceAlarm};
use tally_store::txg::Cause;

use super::Filer;
use crate::damage::{PLACES_MAX, Part};
use crate::filesystem::Filesystem;

impl Filer {
    /// Looks at every block of the pool on every disk that counts, and gives those that lack it what another has right
    /// ([`Pool::scrub`](tally_store::pool::Pool::scrub)). What no disk has right each dataset knows afterwards, by file; what
    /// was met before, and is right by now, it has forgotten. `progress` hears of bytes done, and ends it by answering
    /// `false`. One that was interrupted goes on.
    pub fn scrub(&self, progress: &mut dyn FnMut(u64) -> bool) -> Result<SecureReport, SecureError> {
        // What is met from here on is noted with this group or a later one.
        let synced = self.pool.sync()?;
        let before = self.pool.scrub_job().filter(ScrubJob::is_open);
        let uberblocks = self.pool.secure_uberblocks()?;
        // Of one that goes on nobody knows how many of these it has met itself.
        let beyond_of = |filesystem: &Filesystem| (filesystem.dataset.birth.id, filesystem.damage_beyond());
        let names = self.names();
        let beyond: BTreeMap<_, _> = match before {
            None => names.iter().map(|named| beyond_of(&named.filesystem)).collect(),
            Some(_) => BTreeMap::new(),
        };
        let mut hiding = BTreeSet::new();
        // A dataset's list may be full of what is about to be forgotten.
        let mut found = BTreeMap::<DatasetId, BTreeMap<(ObjectId, u64), Option<BlockPtr>>>::new();
        let mut report = self.pool.scrub(progress, &mut |lost| {
            let LostBlock { dataset: Some(dataset), content, bp, block } = lost else { return };
            let Some(filesystem) = self.filesystem(*dataset) else { return };
            match content {
                Some((object, offset)) => {
                    let found = found.entry(*dataset).or_default();
                    if found.len() < PLACES_MAX {
                        found.insert((ObjectId(*object), *offset), *bp);
                    }
                    let part = Part::Content(*offset);
                    filesystem.met_damage(ObjectId(*object), part, (MetBy::Scrub, bp.as_ref()), block);
                }
                None => {
                    hiding.insert(*dataset);
                }
            }
        })?;
        report.note_slots(&uberblocks, &mut |_| {});
        self.name_space_alarms();
        self.pool.note_found(&report);
        let began = before.as_ref().map_or(synced, |job| job.began_txg);
        // Nor is it known where a part before had met them.
        let had_gaps = before.is_some() && self.pool.scrub_job().is_some_and(|job| job.has_gaps);
        // Below a node that cannot be read nothing was looked at.
        for named in self.names().iter().filter(|_| !had_gaps) {
            let id = named.filesystem.dataset.birth.id;
            if !hiding.contains(&id) {
                let (beyond, found) = (beyond.get(&id).copied().unwrap_or(0), found.remove(&id).unwrap_or_default());
                named.filesystem.forget_content_met_before(began, beyond, &found);
            }
        }
        // That it is over, and what it has found.
        self.pool.txgs.want(Cause::Chore);
        Ok(report)
    }

    /// Finds the names of files of places that are named twice, or were free. A file that is renamed later is told by the name that
    /// it had.
    fn name_space_alarms(&self) {
        let alarms = self.pool.space_alarms();
        let words: Vec<_> = alarms.iter().map(|alarm| self.space_alarm_words(alarm)).collect();
        let mut known = self.space_alarms.lock();
        for words in words.iter().filter(|words| !known.contains(words)) {
            tracing::error!(pool = %self.name(), "{words}");
        }
        *known = words;
    }

    fn space_alarm_words(&self, alarm: &SpaceAlarm) -> String {
        let name = |owner: &Owner| {
            let filesystem = self.filesystem(owner.dataset?)?;
            let (object, offset) = owner.content?;
            Some(format!("{}:{} at {offset}", filesystem.name(), filesystem.path_of(ObjectId(object))?))
        };
        alarm.words(|owner| name(owner).unwrap_or_else(|| owner.to_string()))
    }

    /// Places that are named twice, or were named and free, as scrubs of this import have found them: the first of them.
    #[must_use]
    pub fn space_alarms(&self) -> Vec<String> {
        let (named, found) = (self.space_alarms.lock().clone(), self.pool.space_alarms());
        // While a scrub runs that has found more, those have no names yet.
        let more = found.iter().skip(named.len()).map(ToString::to_string).collect::<Vec<_>>();
        named.into_iter().chain(more).collect()
    }
}
