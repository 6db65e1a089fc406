//! Every block of the pool is made sure of: on one vdev before a leg of it counts, or leaves ([`Pool::secure`]), and on all
//! of them when somebody asks for a scrub ([`Pool::scrub`]); or what a leg has missed, before it counts again
//! ([`Pool::bring_up`]).
//!
//! **The problem.** Disks rot where nobody reads, and the legs of a mirror apart from each other. A copy that takes what it
//! is given may take the rot of one leg, and with the leg that leaves, or fails, the last good copy is gone. Only block
//! pointers know how a block must be.
//!
//! **The idea.** All pointers of the pool are gone through, and each block is read from the legs that are to keep it.
//! What they lack is given to them by any leg that has it ([`Vdev::secure`]), or by the block's other copy where there is
//! one. What none has right is as lost as it was before: it is named and counted.
//!
//! **While the pool changes.** A leg that joins, or counts, gets every write, so only what was written before has to be
//! looked at. One group is synced first, which gives a pointer to what was placed ahead. Trees are walked in steps, each
//! in the newest version ([`crate::tree::Step`]), and its blocks are held ([`Pool::hold_blocks`]), so that nothing of it is
//! written anew meanwhile (rules S11). The pool's own blocks have no keys to go by; they are few, and their version is held until all are seen.
//!
//! **The way down.** Pointers are read from the legs that count, and where those have rotted, what hangs below would be passed
//! over. So a node that none of them has right is given to them first, by any leg that has it, and the walk looks again. One
//! that a device refuses, on whichever vdev it lies, may be read again some day, and then leads on to blocks that nobody has
//! looked at. So it counts as lost and unread: no leg leaves on the strength of such a walk. One that every leg has right, and
//! that is no node all the same, was written so by a bug: it counts as lost, too, since what it named is.
//!
//! **What it costs.** One read of every allocated byte of the vdev from each leg that is to keep it, and of the trees'
//! nodes; for one that joins, one read from a leg that counts and one write ([`Vdev::bring`]). Content is gathered and read in the order in which it lies ([`gathered`]): a disk that turns has a turn for a long
//! stretch, and not for each block.

mod gathered;
mod report;
mod space;
mod top;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

use tally_base::{DatasetId, Txg, VdevGuid, VdevIndex};
use tally_disk::aside;
use tally_members::label::{MissedGroups, VdevClass};
use tally_members::roster::SecuredSlots;
use tally_members::vdev::{LegState, Vdev};

use super::Pool;
use super::held::{Holding, Lasts};
use super::job::{Cursor, JobState, ScrubJob, Walking};
use super::joining::JoinJob;
use crate::block::BlockError;
use crate::bp::{BlockKind, BlockPtr};
use crate::key::Key;
use crate::tree::Step;
use gathered::Gathered;
pub use report::{LostBlock, SecureError, SecureReport};
use space::SpaceCheck;
pub use space::{Owner, SpaceAlarm, SpaceFound};
use top::TopBlocks;
use verdict::{Keepers, Subject, Verdict};

/// How often a step of a walk looks again after a block on its way was healed: trees are lower, and a device that is right
/// by turns ends here.
const LOOKS_MAX: usize = 32;

/// A pool that nobody changes is asked for a group so often while a scrub runs, to write its cursor down: so much is done
/// once more behind a power cut.
const CURSOR_AGE_MAX: Duration = Duration::from_secs(30);

impl Pool {
    /// Sees to it that every block on `vdev` is right on each of `keepers`, and durable there. `progress` hears of bytes
    /// done, and ends it by answering `false`. The caller has synced a group before, see the module's head.
    pub fn secure(
        &self,
        vdev: &Vdev,
        keepers: &[VdevGuid],
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<SecureReport, SecureError> {
        if vdev.class() != VdevClass::Data {
            return Ok(SecureReport::default());
        }
        let subjects = [Subject { vdev, keepers: Keepers::These(keepers) }];
        self.securing(&subjects, None, progress, &mut |_| {}).walk()
    }

    /// Gives the leg of a job every block that the others have, each verified on its way; or, where it was brought all of them, looks at them once
    /// more on the leg itself. `missed`: only what was written in these groups. It goes on where the job is, and moves on with it.
    pub(super) fn secure_joining(
        &self,
        vdev: &Vdev,
        job: JoinJob,
        missed: Option<&MissedGroups>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<SecureReport, SecureError> {
        let leg = [job.leg];
        let keepers = if job.is_brought { Keepers::These(&leg) } else { Keepers::Joining(job.leg) };
        let subjects = [Subject { vdev, keepers }];
        let mut lost = |_: &LostBlock| {};
        let mut securing = self.securing(&subjects, missed, progress, &mut lost);
        securing.follow(Job::Join(job));
        securing.walk()
    }

    /// The same for a leg that was away, of blocks that were `written` while it was: nothing else can be wrong on it but what
    /// has rotted, which a scrub finds. A birth tells nothing here: a tree may have got a block long after it was written, and
    /// the other way round (rules S8).
    pub fn bring_up(
        &self,
        vdev: &Vdev,
        leg: VdevGuid,
        missed: &MissedGroups,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<SecureReport, SecureError> {
        let subjects = [Subject { vdev, keepers: Keepers::Joining(leg) }];
        self.securing(&subjects, Some(missed), progress, &mut |_| {}).walk()
    }

    /// How many bytes [`Self::bring_up`] will have to look at, as far as can be told without it.
    pub fn missed_bytes(&self, vdev: VdevIndex, missed: &MissedGroups) -> u64 {
        let since = since(Some(missed));
        let on_vdev = |bp: &BlockPtr| {
            let places: u64 = bp.dvas().filter(|dva| dva.vdev == vdev).map(|dva| dva.bytes()).sum();
            if is_wanted(Some(missed), bp) { places } else { 0 }
        };
        let mut bytes: u64 = self.top_blocks().blocks.iter().map(on_vdev).sum();
        for dataset in self.datasets() {
            let (mut from, mut way) = (None, Vec::new());
            loop {
                let _held = self.hold_blocks(Lasts::Step);
                let root = dataset.root();
                let step = root.tree.step(&self.io, from.as_ref(), self.schema.blocks(), since, &mut |key, value| {
                    bytes += self.schema.block(&key, value).as_ref().map_or(0, on_vdev);
                });
                bytes += step.way.iter().filter(|bp| !way.contains(*bp)).map(on_vdev).sum::<u64>();
                let Some(next) = step.next else { break };
                (from, way) = (Some(next), step.way);
            }
        }
        bytes
    }

    /// Sees to it that every block of the pool, and its labels, are right on each leg that counts, and durable there. `lost`
    /// hears of each that is right nowhere or that was given up, `progress` of bytes done, and ends it by answering `false`.
    /// Legs may fail, leave and join meanwhile: one that joins is made sure of by itself. What was placed ahead and belongs
    /// to no group yet is looked at if the caller has synced one before.
    ///
    /// That it is over is written down by the next group, which the caller asks for. One that was interrupted goes on at its cursor, whatever interrupted it ([`super::job`]).
    pub fn scrub(
        &self,
        progress: &mut dyn FnMut(u64) -> bool,
        lost: &mut dyn FnMut(&LostBlock),
    ) -> Result<SecureReport, SecureError> {
        let now = || self.platform.clock.now();
        let open = self.scrub_job().filter(ScrubJob::is_open);
        // Of one that nobody has begun with nothing was looked at.
        let in_parts = open.as_ref().is_some_and(|job| job.cursor.is_some());
        let mut job = ScrubJob { state: JobState::Running, in_parts, ..open.unwrap_or_else(|| self.new_scrub()) };
        self.note_scrub(&job);
        let subject = |vdev| Subject { vdev: Arc::as_ref(vdev), keepers: Keepers::Online };
        let subjects: Vec<_> = self.roster.data_vdevs().map(subject).collect();
        let labels = self.roster.secure_labels()?;
        let wrong_frames = self.secure_rings()?;
        let counted = self.roster.data_vdevs().flat_map(|vdev| online(vdev));
        let counted: Vec<_> = counted.map(|guid| (guid, self.roster.missed(guid))).collect();
        let mut securing = self.securing(&subjects, None, progress, lost);
        securing.follow(Job::Scrub(job.clone()));
        // What was met before an interruption nobody knows any more.
        securing.space = if in_parts { None } else { SpaceCheck::begin(self) };
        let report = securing.walk();
        job = self.scrub_job().unwrap_or(job);
        let mut report = report?;
        // A leg that came back in between was looked at in part.
        if report.unread_count == 0 && !in_parts {
            self.roster.forget_missed(&counted)?;
        }
        report.note_slots(&labels, lost);
        report.repaired_count += wrong_frames;
        let counts = SecureReport { lost: Vec::new(), ..report.clone() };
        self.note_scrub(&ScrubJob { state: JobState::Finished, changed: now(), cursor: None, report: counts, ..job });
        Ok(report)
    }

    fn new_scrub(&self) -> ScrubJob {
        let allocated = self.io.allocator().space().allocated;
        ScrubJob::new(self.platform.clock.now(), self.txgs.last_synced(), allocated)
    }

    /// Behind an import that has gone back to an older group all is looked at, by whoever runs the pool, as if a scrub had been interrupted: a leg that
    /// joined later, or came back, was given what the newest group named, and lacks what only that older one did (rules S55).
    pub(super) fn scrub_by_itself(&self) {
        self.note_scrub(&self.new_scrub());
    }

    /// Sees to it that what an import would need of the log is right on each leg that counts. Frames that one has wrong are not
    /// written again beside a lane that goes on: two groups are synced, and nobody needs them ([`tally_intent::RingLook`]). Gives how many
    /// there were.
    fn secure_rings(&self) -> Result<u64, SecureError> {
        let looks: Vec<_> = self.lanes().iter().map(|lane| (lane.id(), lane.look_at_ring())).collect();
        let mut count = 0;
        for (lane, (leg, wrong)) in
            looks.iter().flat_map(|(lane, look)| look.wrong.iter().map(move |wrong| (lane, wrong)))
        {
            let vdevs = self.roster.vdevs();
            let path = vdevs.iter().find_map(|vdev| vdev.leg(*leg)).map(|leg| leg.path().display().to_string());
            let path = path.unwrap_or_default();
            tracing::error!(%lane, %leg, path, wrong, "frames of the log are wrong on a disk; groups are synced, so that nobody needs them");
            count += wrong;
        }
        if count > 0 {
            // The uberblock before the newest counts as well.
            self.sync()?;
            self.sync()?;
        }
        Ok(count)
    }

    /// The walk of all of them, over the blocks that lie on these vdevs, or those that were written in the `missed` groups.
    fn securing<'a>(
        &'a self,
        subjects: &'a [Subject<'a>],
        missed: Option<&'a MissedGroups>,
        progress: &'a mut dyn FnMut(u64) -> bool,
        lost: &'a mut dyn FnMut(&LostBlock),
    ) -> Securing<'a> {
        Securing {
            pool: self,
            subjects,
            missed,
            report: SecureReport::default(),
            progress,
            lost,
            job: None,
            space: None,
        }
    }

    /// Sees to it that the uberblocks that an import would choose from are whole on each leg that counts. Where they are not,
    /// two more groups are synced: their slots are others.
    pub fn secure_uberblocks(&self) -> Result<SecuredSlots, SecureError> {
        let damaged = || self.roster.damaged_uberblocks(|| self.txgs.last_synced());
        let before = damaged();
        if before.is_empty() {
            return Ok(SecuredSlots::default());
        }
        for _ in 0..2 {
            self.sync()?;
        }
        Ok(self.roster.sort_out(before, damaged()))
    }
}

/// The legs that count.
fn online(vdev: &Vdev) -> Vec<VdevGuid> {
    let legs = vdev.legs().into_iter().filter(|leg| leg.state() == LegState::Online);
    legs.map(|leg| leg.guid()).collect()
}

/// Whether a block is looked at.
fn is_wanted(missed: Option<&MissedGroups>, bp: &BlockPtr) -> bool {
    missed.is_none_or(|missed| missed.has(bp.written))
}

/// Below a node that was written before, nothing is looked at.
fn since(missed: Option<&MissedGroups>) -> Txg {
    missed.and_then(|missed| missed.ranges().first()).map_or(Txg(0), |range| range.from)
}

struct Securing<'a> {
    pool: &'a Pool,
    subjects: &'a [Subject<'a>],
    /// Only blocks that were written in these groups.
    missed: Option<&'a MissedGroups>,
    report: SecureReport,
    progress: &'a mut dyn FnMut(u64) -> bool,
    lost: &'a mut dyn FnMut(&LostBlock),
    job: Option<Following>,
    space: Option<SpaceCheck<'a>>,
}

/// A walk of which it is written down how far it is.
struct Following {
    job: Job,
    walking: Walking,
}

enum Job {
    Scrub(ScrubJob),
    Join(JoinJob),
}

impl Job {
    const fn cursor(&self) -> Option<Cursor> {
        match self {
            Self::Scrub(job) => job.cursor,
            Self::Join(job) => job.cursor,
        }
    }
}

impl Securing<'_> {
    /// Goes on where a job is.
    fn follow(&mut self, job: Job) {
        self.report = match &job {
            Job::Scrub(job) => job.report.clone(),
            Job::Join(job) => job.secured.clone(),
        };
        self.job = Some(Following { job, walking: Walking::begin(self.pool) });
    }

    fn walk(mut self) -> Result<SecureReport, SecureError> {
        let cursor = self.job.as_ref().and_then(|following| following.job.cursor());
        if cursor.is_none() {
            self.top()?;
        }
        let first = cursor.map_or(DatasetId(0), |cursor| cursor.dataset);
        for dataset in self.pool.datasets().into_iter().filter(|dataset| dataset.birth.id >= first) {
            let id = dataset.birth.id;
            self.dataset(id, cursor.filter(|cursor| cursor.dataset == id).map(|cursor| cursor.key))?;
            self.reach(Cursor { dataset: DatasetId(id.0 + 1), key: Key::MIN });
        }
        self.subjects.iter().try_for_each(|subject| subject.vdev.flush_legs(&subject.keepers()))?;
        self.report.space = self.space.take().map(SpaceCheck::judge);
        Ok(self.report)
    }

    /// Everything before the cursor is verified, and what was repaired or brought is written. Of a scrub the next group flushes it before its
    /// uberblock says so; of a copy the disk is flushed before the group is folded ([`Pool::keep_reached`]).
    fn reach(&mut self, cursor: Cursor) {
        let Some(following) = &mut self.job else { return };
        let (pool, Following { job, walking }) = (self.pool, following);
        let (ran, report) = (walking.ran(pool), SecureReport { lost: Vec::new(), ..self.report.clone() });
        match job {
            Job::Scrub(job) => {
                job.ran += ran;
                (job.report, job.cursor) = (report, Some(cursor));
                pool.note_scrub(job);
                walking.want_group(pool, CURSOR_AGE_MAX);
            }
            Job::Join(job) => {
                job.ran += ran;
                (job.secured, job.cursor) = (report, Some(cursor));
                pool.reach_join(job);
                walking.want_group(pool, JoinJob::AGE_MAX);
            }
        }
    }

    fn top(&mut self) -> Result<(), SecureError> {
        let TopBlocks { blocks, hiding, foreign, _held } = self.pool.top_blocks();
        for bp in hiding {
            self.note_lost_catalog(&bp);
            self.note_lost(true, LostBlock { dataset: None, content: None, bp: None, block: bp.to_string() });
        }
        let missed = self.missed;
        for bp in blocks.into_iter().filter(|bp| is_wanted(missed, bp)) {
            let of_pool = |block| LostBlock { dataset: None, content: None, bp: None, block };
            if let Verdict::Lost { unread } = self.block(&bp)? {
                self.pool.io.note_unrepaired(&bp);
                self.note_lost_catalog(&bp);
                self.note_lost(unread, of_pool(bp.to_string()));
            } else if foreign.contains(&bp) && !bp.is_given_up() {
                self.note_lost_catalog(&bp);
                self.note_lost(false, of_pool(format!("{bp}: its checksum is right, and it is not what it should be")));
            }
        }
        Ok(())
    }

    /// The catalog is known by heart: the next group writes what is lost of it.
    fn note_lost_catalog(&mut self, bp: &BlockPtr) {
        self.report.hides = true;
        if matches!(bp.kind, BlockKind::TreeNode | BlockKind::Leaf) {
            self.pool.syncing.lock().catalog.note_damage();
        }
    }

    fn dataset(&mut self, id: DatasetId, mut from: Option<Key>) -> Result<(), SecureError> {
        let (mut way, mut looks_left) = (Vec::new(), LOOKS_MAX);
        let mut gathered = Gathered::new(self.pool.tuning.scrub_stretch_bytes);
        loop {
            // For the step, and before its root is asked for: what is found wrong is written again, and must be nobody else's by
            // then. The root itself holds nothing of a dataset that is destroyed meanwhile.
            let held = self.pool.hold_blocks(Lasts::Step);
            // A dataset that is destroyed has nothing to keep, and the walk goes on behind it (rules S12).
            let Some(dataset) = self.pool.dataset(id) else { break };
            let root = dataset.root();
            let (mut content, mut foreign): (Vec<(Key, BlockPtr)>, Vec<Key>) = Default::default();
            let (missed, since) = (self.missed, since(self.missed));
            let schema = self.pool.schema;
            let mut sort = |key: Key, bp: Option<BlockPtr>| match bp {
                Some(bp) if is_wanted(missed, &bp) => content.push((key, bp)),
                None if missed.is_none() => foreign.push(key),
                Some(_) | None => {}
            };
            let mut visit = |key: Key, value: &[u8]| sort(key, schema.block(&key, value));
            let step = aside(|| root.tree.step(&self.pool.io, from.as_ref(), schema.blocks(), since, &mut visit));
            if step.damage.is_some() && looks_left > 0 && step.way.last().is_some_and(|bp| self.pool.heals(bp)) {
                looks_left -= 1;
                continue;
            }
            looks_left = LOOKS_MAX;
            self.meet(id, &step, &way, &content, foreign.is_empty());
            let hiding = step.damage.as_ref().filter(|damage| damage.is_of_device()).and(step.way.last());
            let met = step.way.iter().filter(|bp| !way.contains(*bp) && Some(*bp) != hiding);
            let mut is_counted = hiding.is_some();
            for bp in met.filter(|bp| is_wanted(missed, bp)) {
                if bp.is_given_up() {
                    self.note_given_up(&LostBlock::of(id, None, bp));
                }
                is_counted |= self.block_of(id, bp, None)? && Some(bp) == step.way.last();
            }
            if let Some(damage) = &step.damage {
                self.report.hides |= !matches!(damage, BlockError::GivenUp { .. });
                if let Some(Following { job: Job::Scrub(job), .. }) = &mut self.job {
                    job.has_gaps = true;
                }
            }
            if let Some(bp) = hiding {
                self.note_lost(true, LostBlock::of(id, None, bp));
            }
            if let Some((damage, bp)) = step.damage.as_ref().zip(step.way.last()).filter(|_| !is_counted) {
                self.note_foreign(id, bp, damage);
            }
            for key in foreign {
                let (content, block) = (Some(self.content_of(&key)), "what stands for its pointer is none".into());
                self.note_lost(false, LostBlock { dataset: Some(id), content, bp: None, block });
            }
            for (key, bp) in content {
                if bp.is_given_up() && self.is_named(id, &bp, Some(key)) {
                    self.note_given_up(&LostBlock::of(id, Some(self.content_of(&key)), &bp));
                }
                gathered.take((key, bp), &held);
            }
            let is_enough = gathered.is_enough_at(self.now()) || self.pool.held.are_awaited();
            if is_enough {
                self.content(id, &mut gathered)?;
                drop(held);
                self.pool.pace_walks();
            }
            let Some(next) = step.next else { break };
            if is_enough {
                self.reach(Cursor { dataset: id, key: next });
            }
            (from, way) = (Some(next), step.way);
        }
        self.content(id, &mut gathered)
    }

    /// The blocks of a step, which are held, are named.
    fn meet(&mut self, id: DatasetId, step: &Step, way: &[BlockPtr], content: &[(Key, BlockPtr)], is_readable: bool) {
        let Some(space) = &mut self.space else { return };
        let dataset = Some(id);
        for bp in step.way.iter().filter(|bp| !way.contains(*bp)) {
            space.meet(Owner { dataset, content: None }, bp);
        }
        for (key, bp) in content {
            space.meet(Owner { dataset, content: Some((key.object, key.a)) }, bp);
        }
        let damage = step.damage.as_ref();
        if !is_readable || damage.is_some_and(|damage| !matches!(damage, BlockError::GivenUp { .. })) {
            space.note_hidden();
        }
    }

    /// Makes sure of the content that was gathered: of stretches that are right as a whole at once, else block by block.
    fn content(&mut self, id: DatasetId, gathered: &mut Gathered) -> Result<(), SecureError> {
        let (begun, bytes) = (self.now(), gathered.bytes());
        let (stretches, _held) = gathered.in_order(&self.pool.io);
        for some in &stretches {
            let right = gathered::which_are_right(&self.pool.io, self.subjects, some)?;
            for (stretch, is_right) in some.iter().zip(right) {
                for (key, bp) in stretch {
                    if is_right {
                        self.note_right(bp)?;
                    } else {
                        self.block_of(id, bp, Some(*key))?;
                    }
                }
            }
        }
        gathered.note_look(bytes, self.now().saturating_sub(begun));
        Ok(())
    }

    /// By the clock that nobody sets.
    fn now(&self) -> Duration {
        self.pool.platform.clock.monotonic()
    }

    /// A node of a tree is no node, although every leg has it right: it was written so. What it named was not looked at.
    fn note_foreign(&mut self, id: DatasetId, bp: &BlockPtr, damage: &BlockError) {
        if is_wanted(self.missed, bp) && !bp.is_given_up() && self.is_named(id, bp, None) {
            self.note_lost(false, LostBlock { block: damage.to_string(), ..LostBlock::of(id, None, bp) });
        }
    }

    fn note_given_up(&mut self, block: &LostBlock) {
        self.report.given_up_count += 1;
        (self.lost)(block);
    }

    fn note_lost(&mut self, unread: bool, lost: LostBlock) {
        self.report.note_lost(unread, lost, self.lost);
    }
}

#[cfg(test)]
mod tests;
