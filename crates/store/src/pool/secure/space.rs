//! What a scrub in one piece finds out of space: what is allocated and named by nothing is given back, and what is named and
//! free, or named twice, is an alarm (rules S37).
//!
//! **A leak** is what is left of a survey ([`crate::alloc::survey`]) when all trees were gone through. It goes back by the list of a
//! group, as any free, so that an older group that may still be imported, and names it, finds it whole. Nothing goes back if
//! anything was met that may name what was not: a node, or a map of pieces, that could not be read now and perhaps another day. What was
//! given up is read on no day. And nothing goes back where there is an alarm: then it is not known what can be believed.
//!
//! **An alarm** is never told on the strength of the walk alone, which goes by versions. What is named, was named when the survey began, and has no bit is looked
//! into: is it free in the map, while its tree holds it, it is pinned at once (`Allocator::pin`): nobody is given
//! anything of it any more. Else all pointers are gone
//! through once more, under one hold, for those who name such a place: two of them, or one and a list of frees, are an alarm.

use std::fmt;

use tally_base::{DatasetId, SECTOR, Txg};

use super::{Lasts, Pool};
use crate::alloc::Survey;
use crate::block::scatter;
use crate::bp::{BlockPtr, Dva};
use crate::pool::catalog;

/// Places that are looked into behind one scrub. More than a few are a pool that has to be copied away.
const SUSPECTS_MAX: usize = 1024;

/// Alarms that are told by name; beyond that they are counted.
pub(crate) const ALARMS_MAX: usize = 64;

/// Who names a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// A dataset; none: the pool itself.
    pub dataset: Option<DatasetId>,
    /// Object and offset of content; none: a node of the dataset's tree, or a block of the pool itself.
    pub content: Option<(u64, u64)>,
}

impl Owner {
    const POOL: Self = Self { dataset: None, content: None };
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.dataset, self.content) {
            (Some(dataset), Some((object, offset))) => write!(f, "object {object} of dataset {dataset} at {offset}"),
            (Some(dataset), None) => write!(f, "a node of dataset {dataset}"),
            (None, _) => f.write_str("the pool itself"),
        }
    }
}

/// A place of which it is known that something else may be written, or was written, over a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceAlarm {
    /// The place.
    pub place: Dva,
    /// Who names it: one, and it was free; or several.
    pub owners: Vec<Owner>,
}

impl SpaceAlarm {
    /// In words, with these for whoever names it.
    pub fn words(&self, name: impl Fn(&Owner) -> String) -> String {
        let owners: Vec<_> = self.owners.iter().map(name).collect();
        match &owners[..] {
            [alone] => format!("{} is in use by {alone}, and was free", self.place),
            owners => format!("{} is in use by {}", self.place, owners.join(" and by ")),
        }
    }
}

impl fmt::Display for SpaceAlarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(ToString::to_string))
    }
}

/// What a scrub has found out of space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceFound {
    /// Bytes that nothing named which was met.
    pub leaked_bytes: u64,
    /// Something could not be read that may name them, so that they are perhaps no leak.
    pub hidden: bool,
    /// Those of them that were given back.
    pub given_bytes: u64,
    /// Places with an alarm.
    pub alarm_count: u64,
}

struct Suspect {
    owner: Owner,
    dva: Dva,
}

/// Beside the walk of a scrub.
pub(super) struct SpaceCheck<'a> {
    pool: &'a Pool,
    survey: Survey<'a>,
    rings: Vec<Dva>,
    /// Something may name what was not met.
    hides: bool,
    suspects: Vec<Suspect>,
    alarm_count: u64,
    /// Leaks that were noted before.
    leaks: u64,
}

impl<'a> SpaceCheck<'a> {
    /// Before the walk. None where what is never allocated is not known, or another scrub runs.
    pub(super) fn begin(pool: &'a Pool) -> Option<Self> {
        let (leaks, rings) = (pool.io.leak_count(), pool.rings());
        let survey = pool.io.allocator().begin_survey(pool.txgs.last_synced())?;
        // What was committed by now is in the newest roots when nobody syncs.
        let syncing = pool.syncing.lock();
        survey.pass_over_waiting();
        drop(syncing);
        let check = Self { pool, survey, rings, hides: false, suspects: Vec::new(), alarm_count: 0, leaks };
        Some(check).filter(|check| check.survey.is_all_excluded(&check.rings))
    }

    /// Something could not be read that may name what is not met.
    pub(super) fn note_hidden(&mut self) {
        self.hides = true;
    }

    /// A tree names a block. Its root is held, or nothing is synced.
    pub(super) fn meet(&mut self, owner: Owner, bp: &BlockPtr) {
        let pieces = self.pieces(bp);
        for dva in bp.dvas().chain(pieces) {
            if !self.survey.meet(&dva) && bp.birth <= self.survey.began {
                self.suspect(owner, dva);
            }
        }
    }

    fn pieces(&mut self, bp: &BlockPtr) -> Vec<Dva> {
        let pieces = pieces_of(self.pool, bp);
        self.hides |= pieces.is_none();
        pieces.unwrap_or_default()
    }

    #[cold]
    fn suspect(&mut self, owner: Owner, dva: Dva) {
        if self.pool.io.allocator().has_free(&dva) {
            self.alarm(SpaceAlarm { place: dva, owners: vec![owner] });
        } else if self.suspects.len() < SUSPECTS_MAX {
            self.suspects.push(Suspect { owner, dva });
        }
    }

    fn alarm(&mut self, alarm: SpaceAlarm) {
        self.alarm_count += 1;
        self.pool.note_alarm(alarm);
    }

    /// Behind the walk.
    pub(super) fn judge(mut self) -> SpaceFound {
        {
            let _held = self.pool.hold_blocks(Lasts::Step);
            let catalog = self.pool.syncing.lock().catalog.tree().clone();
            for (bp, damage) in catalog::blocks_of(&catalog, &self.pool.io) {
                self.hides |= damage.is_some();
                self.meet(Owner::POOL, &bp);
            }
        }
        let mut found = self.give_back();
        self.look_into_suspects();
        found.alarm_count = self.alarm_count;
        if found.leaked_bytes > 0 {
            let SpaceFound { leaked_bytes, given_bytes, hidden, .. } = found;
            tracing::warn!(leaked_bytes, given_bytes, hidden, "space was allocated and named by nothing");
        }
        found
    }

    fn give_back(&mut self) -> SpaceFound {
        let (pool, alloc) = (self.pool, self.pool.io.allocator());
        let syncing = pool.syncing.lock();
        for bp in syncing.root.iter().chain(syncing.reply_blocks.iter().flatten()) {
            self.meet(Owner::POOL, bp);
        }
        alloc.visit_own(&mut |bp| self.meet(Owner::POOL, bp));
        self.survey.pass_over_waiting();
        for ring in &self.rings {
            self.survey.meet(ring);
        }
        let unmet = self.survey.unmet(self.survey.ranges_max());
        let bytes = |sectors: u64| sectors * SECTOR as u64;
        let mut found = SpaceFound { leaked_bytes: bytes(unmet.sectors), hidden: self.hides, ..SpaceFound::default() };
        let is_sure = !self.hides && self.suspects.is_empty() && self.alarm_count == 0;
        if !is_sure || pool.check_syncing(&syncing).is_err() {
            return found;
        }
        let hold = pool.txgs.hold(None);
        for dva in unmet.ranges {
            found.given_bytes += dva.bytes();
            alloc.free(dva, hold.txg());
        }
        if found.given_bytes == found.leaked_bytes {
            pool.io.forget_leaks(self.leaks);
        }
        found
    }

    /// Who else names the places that had no bit.
    fn look_into_suspects(&mut self) {
        if self.suspects.is_empty() {
            return;
        }
        let pool = self.pool;
        // For all of it: what was named at its beginning is nobody else's before its end.
        let (durable, _held) = (pool.txgs.last_synced(), pool.hold_blocks(Lasts::Step));
        let mut places: Vec<(Dva, Vec<Owner>)> = Vec::new();
        self.suspects.sort_by_key(|suspect| suspect.dva);
        for suspect in &self.suspects {
            tracing::warn!(place = %suspect.dva, owner = %suspect.owner, "is looked into: it was met, and had been met, or was free");
            if places.last().is_none_or(|(place, _)| *place != suspect.dva) {
                places.push((suspect.dva, Vec::new()));
            }
        }
        pool.visit_owners(&mut |owner, dva| {
            for (place, owners) in &mut places {
                if place.overlaps(&dva) {
                    owners.push(owner);
                }
            }
        });
        let alloc = pool.io.allocator();
        // Nothing comes free between the look and the pin.
        let _nobody_syncs = pool.syncing.lock();
        for (place, owners) in places {
            let is_free = || alloc.has_free(&place) || alloc.was_freed(&place, durable);
            if owners.len() > 1 || owners.len() == 1 && is_free() {
                self.alarm(SpaceAlarm { place, owners });
            }
        }
    }
}

/// `None` where the map of its pieces is gone.
fn pieces_of(pool: &Pool, bp: &BlockPtr) -> Option<Vec<Dva>> {
    if !bp.in_pieces {
        return Some(Vec::new());
    }
    scatter::pieces_of(&pool.io.devs, bp).ok().map(|pieces| pieces.into_iter().collect())
}

impl Pool {
    /// The rings that lie on data vdevs.
    fn rings(&self) -> Vec<Dva> {
        let sectors = |bytes: u64| u32::try_from(bytes / SECTOR as u64).unwrap_or(u32::MAX);
        let rings = super::super::open::rings_in_pool(&self.roster).into_iter();
        rings.map(|(vdev, offset, bytes)| Dva { vdev, offset, sectors: sectors(bytes) }).collect()
    }

    /// Every range that is named, with who names it. The caller holds blocks.
    fn visit_owners(&self, visit: &mut dyn FnMut(Owner, Dva)) {
        let mut visit_block = |owner: Owner, bp: &BlockPtr| {
            let pieces = pieces_of(self, bp).unwrap_or_default();
            bp.dvas().chain(pieces).for_each(|dva| visit(owner, dva));
        };
        let syncing = self.syncing.lock();
        let catalog = syncing.catalog.tree().clone();
        let mut alone: Vec<_> = syncing.root.iter().chain(syncing.reply_blocks.iter().flatten()).copied().collect();
        self.io.allocator().visit_own(&mut |bp| alone.push(*bp));
        drop(syncing);
        alone.extend(catalog::blocks_of(&catalog, &self.io).into_iter().map(|(bp, _)| bp));
        alone.iter().for_each(|bp| visit_block(Owner::POOL, bp));
        for dataset in self.datasets() {
            let id = Some(dataset.birth.id);
            let (mut from, mut way) = (None, Vec::new());
            loop {
                let root = dataset.root();
                let step = root.tree.step(&self.io, from.as_ref(), self.schema.blocks(), Txg(0), &mut |key, value| {
                    let owner = Owner { dataset: id, content: Some((key.object, key.a)) };
                    self.schema.block(&key, value).iter().for_each(|bp| visit_block(owner, bp));
                });
                let met = step.way.iter().filter(|bp| !way.contains(*bp));
                met.for_each(|bp| visit_block(Owner { dataset: id, content: None }, bp));
                let Some(next) = step.next else { break };
                (from, way) = (Some(next), step.way);
            }
        }
    }

    /// Something may be written over a block, or was: nobody is given its place any more.
    fn note_alarm(&self, alarm: SpaceAlarm) {
        let hold = self.txgs.hold(None);
        self.io.allocator().pin(&alarm.place, hold.txg());
        drop(hold);
        tracing::error!("{alarm}; nothing is written there any more");
        let mut alarms = self.alarms.lock();
        if alarms.len() < ALARMS_MAX && !alarms.contains(&alarm) {
            alarms.push(alarm);
        }
    }

    /// The places that scrubs of this import have found to be named and free, or named twice: the first of them.
    #[must_use]
    pub fn space_alarms(&self) -> Vec<SpaceAlarm> {
        self.alarms.lock().clone()
    }
}
