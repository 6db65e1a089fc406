//! Rot that stays in the life that goes on: each block of a pool in turn, and changes above it.
//!
//! ```text
//!  import ─┬─▶ the history goes on, without rot
//!          ├─▶ fork: one block rots ─▶ import ─▶ changes, groups ─▶ the power goes ─▶ import ─▶ … ─▶ --accept-loss
//!          └─▶ fork: changes ─▶ the power goes, one block rots ─▶ replay above it ─▶ changes ─▶ …
//! ```
//!
//! Behind an import everything is durable and known, so the world can be forked there: copies of the disks, of the
//! models and of what clients know. In each fork one block rots for good. What must hold: the pool serves and is
//! imported, whatever is changed; who was damaged by the rot may answer EIO, and is named then; nobody else may; and
//! everything that is read is what the models say. Where one place of a block rots that has two, nobody is damaged. A
//! block that is in no dataset's tree may cost the import itself, where there was no room for a second copy of it: then
//! that is said, and it can be read where the root can.

use std::collections::HashMap;
use std::sync::Arc;

use nfs3_types::nfs3::nfsstat3;
use parking_lot::Mutex;
use tally_base::ObjectId;
use tally_fs::damage::Part as DamagedPart;
use tally_fs::filer::{Filer, FilerError, ImportOptions};
use tally_members::label::LABEL_BYTES;
use tally_members::uberblock;
use tally_store::bp::{BLOCK_PTR_BYTES, BlockPtr, Dva};
use tally_store::key::Class;
use tally_store::pool::OpenError;
use tally_store::tree::Visit;
use tally_vfs::{Attributes, Cred, FileKind, Names, SetAttr, Stability};

use super::rot::Rotten;
use super::run::{History, run_as};
use super::times::Seen;
use super::{Checked, Failure, Part, Plan, State, Totals, Troubles};
use crate::chance::{Chance, Stream};
use crate::client::{Client, same_fattr};
use crate::op::{NAMES, Object, Op};
use crate::oracle::Left;
use crate::sound::sound_above_rot;

/// The disk that the blocks lie on: these pools have one for data.
const DATA: &str = "/d/data";
/// Bytes of a sector.
const SECTOR: u64 = 4096;
/// Lives of a fork.
const LIVES: u64 = 2;
/// Changes of a life of a fork, at least.
const CHANGES_MIN: u64 = 10;
/// Blocks of datasets beside which one other sector rots.
const BLOCKS_FOR_A_SECTOR: usize = 4;
/// Of so many places of blocks that have two, one rots alone.
const ONE_COPY_OF: usize = 5;
/// Imports of a fork that are cut short, at most.
const CUT_IMPORTS_MAX: u64 = 2;

/// A block that is to rot.
#[derive(Clone, Debug)]
enum Target {
    /// A node of a dataset's tree, or content, wherever it lies.
    OfDataset(BlockPtr),
    /// One of its two places.
    OneCopy(BlockPtr, Dva),
    /// Anything else that was ever written: space maps, remembered answers, the root, labels, rings, and what was
    /// freed.
    Elsewhere(u64),
}

/// What a fork's import has come to.
enum Came {
    /// It serves.
    Up,
    /// It said what it cannot do.
    Refused,
}

impl Target {
    /// Whether the pool that is switched off has the block. Something else may stand in its place.
    fn is_still_there(&self, state: &State) -> Checked<bool> {
        let (Self::OfDataset(block) | Self::OneCopy(block, _)) = self else { return Ok(false) };
        let mut scout = state.machine.copy();
        let only_read = ImportOptions { read_only: true, ..ImportOptions::default() };
        scout.import(&only_read).map_err(|error| format!("only to be read: {error}"))?;
        Ok(blocks(&scout.server().filer).contains(block))
    }

    /// It rots, wherever it rots in the same bit.
    fn rot(&self, state: &State) {
        let disk = state.disk(DATA).expect("it is never taken out");
        let rot = |offset, bytes| disk.rot_within(offset, bytes, &mut Chance::of(state.plan.seed, Stream::Rot, offset));
        let rot_block = |block: &BlockPtr, dva: Dva| {
            rot(LABEL_BYTES + dva.offset, dva.bytes().min(u64::from(block.psize)));
        };
        match self {
            Self::OfDataset(block) => block.dvas().for_each(|dva| rot_block(block, dva)),
            Self::OneCopy(block, dva) => rot_block(block, *dva),
            Self::Elsewhere(offset) => rot(*offset, SECTOR),
        }
    }
}

/// Runs a plan's steps in one life, exports, imports, and then lets every block of the pool rot in turn.
pub fn every_block(plan: &Plan) -> Result<Totals, Failure> {
    run_as(plan, |history| {
        let mut chance = Chance::of(plan.seed, Stream::EveryBlock, 0);
        history.steps_to(plan.steps)?;
        let mut state = history.0.lock();
        state.begin_life(false, Stream::Import)?;
        state.rot_and_go_on(None, &mut chance)?;
        Ok(state.totals)
    })
}

impl State {
    /// Forks this world, in which everything is durable, once for each of some blocks, or of all.
    pub(super) fn rot_and_go_on(&mut self, count: Option<usize>, chance: &mut Chance) -> Checked<()> {
        let targets = self.targets();
        let first = chance.below(targets.len() as u64) as usize;
        let count = count.unwrap_or(targets.len()).min(targets.len());
        for nth in 0..count {
            let target = &targets[(first + nth * targets.len() / count) % targets.len()];
            self.note(format!("fork: {target:?} will rot"));
            let fork = History(Arc::new(Mutex::new(self.fork(chance))));
            let outcome = fork.live_above(target, chance);
            self.totals += fork.0.lock().totals;
            outcome.map_err(|what| format!("above rot: {what}"))?;
            self.note("the fork held");
        }
        Ok(())
    }

    /// The blocks of the datasets, and some of the sectors that hold something else.
    fn targets(&self) -> Vec<Target> {
        let blocks = blocks(&self.machine.server().filer);
        let disk = self.disk(DATA).expect("it is never taken out");
        let is_of_dataset = |at: u64| {
            let place = at.wrapping_sub(LABEL_BYTES);
            blocks.iter().flat_map(BlockPtr::dvas).any(|dva| (dva.offset..dva.end()).contains(&place))
        };
        let written = disk.written().into_iter().map(|page| page * SECTOR);
        let elsewhere: Vec<u64> = written.filter(|at| !is_of_dataset(*at)).collect();
        let wanted = blocks.len().div_ceil(BLOCKS_FOR_A_SECTOR).max(1);
        let elsewhere = elsewhere.iter().step_by(elsewhere.len().div_ceil(wanted).max(1));
        let elsewhere: Vec<Target> = elsewhere.map(|at| Target::Elsewhere(*at)).collect();
        let copies = blocks.iter().filter(|block| block.copy.is_some());
        let copies = copies.flat_map(|block| block.dvas().map(|dva| Target::OneCopy(*block, dva)));
        let copies: Vec<Target> = copies.step_by(ONE_COPY_OF).collect();
        blocks.into_iter().map(Target::OfDataset).chain(copies).chain(elsewhere).collect()
    }

    fn fork(&self, chance: &mut Chance) -> Self {
        let newest = self.newest_known();
        let part = |part: &Part| Part {
            name: part.name.clone(),
            is_there: part.is_there,
            doomed: false,
            renamed: None,
            seen: Seen::default(),
            oracle: part.oracle.fork(self.op, newest),
            verifier: None,
            old_verifiers: part.old_verifiers.iter().copied().chain(part.verifier).collect(),
            gone: Vec::new(),
            gone_ids: part.gone_ids.clone(),
            record_sizes: part.record_sizes.clone(),
        };
        Self {
            plan: self.plan.clone(),
            trace: Arc::clone(&self.trace),
            totals: Totals::default(),
            machine: self.machine.copy(),
            troubles: Troubles::default(),
            clients: [(4, 0), (5, 0)].map(|(at, user)| Client::new(at, user, chance.next() as u32)).into(),
            parts: self.parts.iter().map(part).collect(),
            born: None,
            is_full: false,
            objects: self.objects.clone(),
            sent: Vec::new(),
            in_doubt: Vec::new(),
            stands_still: false,
            past: std::collections::VecDeque::new(),
            next_past: 0,
            ends: std::collections::VecDeque::new(),
            has_synced: false,
            round: self.round,
            disks_made: self.disks_made,
            time_off_ns: self.time_off_ns,
            op: self.op,
            step: self.step,
            synced_op: self.op,
            closed_op: self.op,
            groups: std::collections::VecDeque::new(),
            closing: None,
            may_be_back: None,
            dataset_ids: self.dataset_ids.clone(),
            spares: super::Spares::default(),
            rotten: None,
            meanwhile: super::Meanwhile::default(),
        }
    }

    /// The power goes, if it has not, and the pool is imported, perhaps after a few cuts.
    fn import_above(&mut self, chance: &mut Chance) -> Checked<Came> {
        self.sent.clear();
        for attempt in 0.. {
            self.machine.lose_power(chance);
            let cut = (attempt < CUT_IMPORTS_MAX && chance.one_in(4)).then(|| 1 + chance.below(40));
            self.machine.power().plan_cut(cut);
            let outcome = self.machine.import(&ImportOptions::default());
            if self.is_off() {
                continue;
            }
            self.machine.power().plan_cut(None);
            self.note(format!("import above rot: {}", outcome.is_ok()));
            return match outcome {
                Ok(report) if report.losses.is_empty() => self.adopt_above().map(|()| Came::Up),
                Ok(report) => Err(format!("losses that nobody has accepted: {:?}", report.losses)),
                Err(error) => self.refused(&error, chance).map(|()| Came::Refused),
            };
        }
        unreachable!("the last attempt is not cut")
    }

    /// Finds the state that the import has; what is damaged may be unreadable, and is named.
    fn adopt_above(&mut self) -> Checked<()> {
        let newest = self.newest_known();
        for at in self.parts_there() {
            let found = self.parts[at].oracle.find(false, |left| {
                let model = self.with_believed_sizes(at, left)?;
                self.same_above_rot(at, &model, &left.rewritten).map(|_| ())
            });
            let found = found.map_err(|what| format!("{}: {what}", self.parts[at].name))?;
            let left = Left { model: self.with_believed_sizes(at, &found.left)?, ..found.left };
            self.named_by_status(at, &left)?;
            let now = self.op;
            let part = &mut self.parts[at];
            part.oracle.begin_life(left, now, newest);
            part.seen = Seen::default();
            part.old_verifiers.extend(part.verifier.take());
            self.handles_above(at)?;
        }
        self.synced_op = self.op;
        self.ask_for_inodes_again();
        sound_above_rot(&self.machine.server().filer)
    }

    /// `status -v` names whatever could not be read.
    fn named_by_status(&self, part: usize, left: &Left) -> Checked<()> {
        let unread = self.same_above_rot(part, &left.model, &left.rewritten)?;
        let fs = self.machine.server().filer.by_name(&self.parts[part].name).ok_or("a dataset is gone")?;
        let report = fs.damage_report();
        let named: Vec<ObjectId> = report.places.iter().map(|place| place.object).collect();
        for one_of in unread {
            if !one_of.is_empty() && !one_of.iter().any(|id| named.contains(id)) {
                return Err(format!("object {one_of:?} cannot be read, and status names {report:?}"));
            }
        }
        let rotten = self.rotten.as_ref().expect("it was asked for");
        for place in report.places.iter().filter(|place| place.part != DamagedPart::Space) {
            if !rotten.may_be_named(part, place.object) {
                return Err(format!("{place:?} is named, and was not damaged"));
            }
        }
        Ok(())
    }

    fn handles_above(&mut self, part: usize) -> Checked<()> {
        for object in self.objects.clone().into_iter().filter(|object| object.dataset == part) {
            let told = self.attributes(&object.handle)?;
            let expected = self.parts[part].oracle.live.getattr(object.model);
            let is_damaged = self.rotten.as_ref().is_some_and(|rotten| rotten.is_damaged((part, object.model.id)));
            match (told.status, expected) {
                (nfsstat3::NFS3_OK, Ok(expected)) => {
                    let attr = told.attr.ok_or("GETATTR tells attributes")?;
                    same_fattr(&attr, &expected).map_err(|what| format!("{object:?} by its handle: {what}"))?;
                }
                (nfsstat3::NFS3ERR_STALE | nfsstat3::NFS3ERR_IO, Err(_)) => {
                    self.objects.retain(|known| !Arc::ptr_eq(known, &object));
                }
                (nfsstat3::NFS3ERR_IO, _) if is_damaged => {}
                (status, expected) => {
                    return Err(format!("the handle of {object:?} gives {status} instead of {expected:?}"));
                }
            }
        }
        Ok(())
    }

    /// A refused import has a reason that the format gives it, and somebody can look all the same.
    fn refused(&mut self, error: &FilerError, chance: &mut Chance) -> Checked<()> {
        self.note(format!("refused: {error}"));
        self.totals.named += 1;
        if matches!(error, FilerError::Open(OpenError::Block(_) | OpenError::Root(_) | OpenError::Space(_)))
            && self.newest_root().is_some_and(|root| root.copy.is_some())
        {
            return Err(format!("one place has rotted of what is there twice: {error}"));
        }
        // It may be of a group in which there was no room for a second place.
        if let FilerError::Open(OpenError::Catalog(error)) = error
            && error.unreadable().is_some_and(|node| node.copy.is_some())
        {
            return Err(format!("one place has rotted of what is there twice: {error}"));
        }
        match error {
            FilerError::Open(OpenError::Block(_) | OpenError::Catalog(_) | OpenError::Root(_)) => Ok(()),
            FilerError::Open(OpenError::Space(_)) => {
                self.machine.lose_power(chance);
                let only_read = ImportOptions { read_only: true, ..ImportOptions::default() };
                self.machine.import(&only_read).map_err(|error| format!("only to be read: {error}"))?;
                Ok(())
            }
            FilerError::Open(OpenError::LogLost { .. } | OpenError::Choose(_)) => {
                self.machine.lose_power(chance);
                let accept = ImportOptions { accept_loss: true, ..ImportOptions::default() };
                let report = self.machine.import(&accept).map_err(|error| format!("--accept-loss: {error}"))?;
                if report.losses.is_empty() {
                    return Err(format!("{error}: and then a loss is accepted that nobody names"));
                }
                Ok(())
            }
            error => Err(format!("refused: {error}")),
        }
    }

    /// The pool's root, as the newest uberblock names it. All of the allocator's that an import needs was written with it,
    /// in as many places: these pools have one space map.
    fn newest_root(&self) -> Option<BlockPtr> {
        let slots = uberblock::read_all(self.disk(DATA)?.as_ref());
        let found = slots.into_iter().filter_map(|slot| slot.content.ok().flatten());
        let newest = found.max_by_key(|found| found.rank())?;
        BlockPtr::decode(newest.root.first_chunk()?).ok()
    }

    /// A change, most often of what is damaged.
    fn choose_above(&self, chance: &mut Chance) -> Op {
        let rotten = self.rotten.as_ref().expect("something rots");
        let is_there = |object: &&Object| self.parts[object.dataset].oracle.live.getattr(object.model).is_ok();
        let is_damaged = |object: &&Object| rotten.is_damaged((object.dataset, object.model.id));
        let damaged: Vec<&Object> = self.objects.iter().filter(is_damaged).filter(is_there).collect();
        if damaged.is_empty() || chance.one_in(4) {
            return self.choose_op(chance);
        }
        let object = Arc::clone(chance.pick(&damaged));
        match object.kind {
            FileKind::Directory => self.change_in(object, chance),
            kind => self.change_of(object, kind, chance),
        }
    }

    fn change_in(&self, dir: Object, chance: &mut Chance) -> Op {
        let (name, part) = (chance.pick(&NAMES), dir.dataset);
        match chance.below(8) {
            0 | 1 => Op::Create { dir, name, how: tally_vfs::CreateHow::Unchecked(SetAttr::default()) },
            2 => Op::Mkdir { dir, name },
            3 | 4 => Op::Remove { dir, name },
            5 => Op::Rmdir { dir, name },
            6 => {
                let to_dir = self.directory(chance, part);
                Op::Rename { from_dir: dir, from: name, to_dir, to: chance.pick(&NAMES) }
            }
            _ => Op::SetAttr { object: dir, set: SetAttr { mode: Some(0o777), ..SetAttr::default() } },
        }
    }

    fn change_of(&self, object: Object, kind: FileKind, chance: &mut Chance) -> Op {
        let names = self.names_of(&object);
        let named = (!names.is_empty()).then(|| chance.pick(&names));
        match (chance.below(10), named) {
            (0, Some((dir, name))) => Op::Remove { dir, name },
            (1 | 2, Some((dir, name))) => {
                // Something is renamed over it, or it goes elsewhere.
                let (other, of) = (self.directory(chance, object.dataset), chance.pick(&NAMES));
                if chance.one_in(2) {
                    Op::Rename { from_dir: other, from: of, to_dir: dir, to: name }
                } else {
                    Op::Rename { from_dir: dir, from: name, to_dir: other, to: of }
                }
            }
            (3, _) => Op::Link { dir: self.directory(chance, object.dataset), object, name: chance.pick(&NAMES) },
            (4, _) => Op::SetAttr { object, set: SetAttr { mode: Some(0o666), ..SetAttr::default() } },
            (5 | 6, _) if kind == FileKind::File => {
                let size = Some(self.place(chance, &object));
                Op::SetAttr { object, set: SetAttr { size, ..SetAttr::default() } }
            }
            (7, _) if kind == FileKind::File => Op::Commit { object, offset: 0, count: 0 },
            _ => {
                let offset = self.place(chance, &object);
                let length = chance.pick(&[10, 1000, 4096, 20_000, 140_000]);
                let stability = chance.pick(&[Stability::Unstable, Stability::FileSync]);
                Op::Write { object, offset, length, fill: chance.next(), stability }
            }
        }
    }

    /// Where an object is named.
    fn names_of(&self, object: &Object) -> Vec<(Object, &'static str)> {
        let model = &self.parts[object.dataset].oracle.live;
        let is_here = |dir: &&Object| dir.dataset == object.dataset && dir.kind == FileKind::Directory;
        let names_it = |dir: &Object, name: &str| {
            let found = model.lookup(&Cred::root(), dir.model, name.as_bytes());
            found.is_ok_and(|(attr, _)| attr.object == object.model)
        };
        let dirs = self.objects.iter().filter(is_here);
        dirs.flat_map(|dir| NAMES.iter().map(move |name| (Arc::clone(dir), *name)))
            .filter(|(dir, name)| names_it(dir, name))
            .collect()
    }
}

impl History {
    /// Lives on above one rotten block.
    fn live_above(&self, target: &Target, chance: &mut Chance) -> Checked<()> {
        let Some(mut rotten) = self.what_it_costs(target, chance)? else { return Ok(()) };
        let is_first = matches!(target, Target::Elsewhere(_)) || !chance.one_in(3);
        {
            let mut state = self.0.lock();
            state.machine.lose_power(chance);
            if is_first {
                target.rot(&state);
            }
            rotten.is_met = is_first;
            state.rotten = Some(rotten);
            if let Came::Refused = state.import_above(chance)? {
                return Ok(());
            }
        }
        for life in 0..LIVES {
            self.change_above(chance)?;
            let mut state = self.0.lock();
            if life == 0 && !is_first {
                state.machine.lose_power(chance);
                if target.is_still_there(&state)? {
                    target.rot(&state);
                    // The history's own choices go on as if nobody had looked.
                    let mut scout = state.fork(&mut chance.clone());
                    let names = state.names_of_parts();
                    let rotten = state.rotten.as_mut().expect("it was just put there");
                    rotten.is_met = true;
                    let damaged_files = rotten.damaged_files();
                    if scout.machine.import(&ImportOptions::default()).is_ok() {
                        for (part, id) in rotten.is_met_by(scout.machine.server(), &names) {
                            state.parts[part].oracle.forget_rewritten(id);
                        }
                        // Of those that were damaged before, what was written meanwhile is elsewhere, if it is anywhere.
                        for (part, file) in damaged_files {
                            state.parts[part].oracle.forget_holes(file);
                        }
                    }
                }
            }
            if let Came::Refused = state.import_above(chance)? {
                return Ok(());
            }
        }
        self.0.lock().accept_a_loss_of_nothing(chance)
    }

    /// What cannot be read if that block rots and nothing is changed. `None`: the pool itself cannot be.
    fn what_it_costs(&self, target: &Target, chance: &mut Chance) -> Checked<Option<Rotten>> {
        let mut state = self.0.lock();
        let (mut whole, mut scout) = (state.fork(chance), state.fork(chance));
        whole.machine.lose_power(chance);
        let imported = whole.machine.import(&ImportOptions::default());
        imported.map_err(|error| format!("refused before anything rots: {error}"))?;
        let mut rotten = whole.census()?;
        state.objects = whole.objects;
        scout.machine.lose_power(chance);
        target.rot(&scout);
        if let Err(error) = scout.machine.import(&ImportOptions::default()) {
            scout.refused(&error, chance)?;
            return match target {
                Target::OfDataset(block) | Target::OneCopy(block, _) => Err(format!("{block} ends the pool: {error}")),
                Target::Elsewhere(_) => Ok(None),
            };
        }
        rotten.probe(scout.machine.server(), &state.names_of_parts());
        if matches!(target, Target::OneCopy(..)) && rotten.damaged().next().is_some() {
            return Err(format!("{target:?}: its other copy is right, and something cannot be read"));
        }
        let damaged: Vec<String> = rotten.damaged().map(|(part, id)| format!("{part}:{id}")).collect();
        state.note(format!("rot damages {}", damaged.join(" ")));
        Ok(Some(rotten))
    }

    fn change_above(&self, chance: &mut Chance) -> Checked<()> {
        let cut = chance.one_in(3).then(|| 1 + chance.below(80));
        self.0.lock().machine.power().plan_cut(cut);
        for _ in 0..CHANGES_MIN + chance.below(CHANGES_MIN) {
            let attempt = {
                let mut state = self.0.lock();
                if state.is_off() {
                    return Ok(());
                }
                let op = state.choose_above(chance);
                state.attempt(&op, chance)?
            };
            self.carry_out(attempt, chance)?;
            if self.0.lock().is_off() {
                return Ok(());
            }
            self.answer_all()?;
            if chance.one_in(5) && !self.0.lock().is_off() {
                self.sync_group()?;
            }
        }
        Ok(())
    }
}

impl State {
    /// `--accept-loss` gets through, and has nothing to give up where the log is whole.
    fn accept_a_loss_of_nothing(&mut self, chance: &mut Chance) -> Checked<()> {
        self.machine.lose_power(chance);
        let accept = ImportOptions { accept_loss: true, ..ImportOptions::default() };
        let report = self.machine.import(&accept).map_err(|error| format!("--accept-loss: {error}"))?;
        if !report.losses.is_empty() {
            return Err(format!("a loss is accepted that is none: {:?}", report.losses));
        }
        self.adopt_above()
    }
}

/// Every node of the datasets' trees, and their content.
fn blocks(filer: &Filer) -> Vec<BlockPtr> {
    let mut blocks = HashMap::new();
    let pool = filer.pool();
    let mut meet = |bp: BlockPtr| {
        blocks.insert(bp.dva.offset, bp);
    };
    for dataset in pool.datasets() {
        dataset.root().tree.check(&pool.io, &mut |visit| match visit {
            Visit::Block { bp, .. } | Visit::Damage { bp, .. } => meet(*bp),
            Visit::Entry { key, value } if key.class == Class::Extent => {
                let bytes: &[u8; BLOCK_PTR_BYTES] = value.try_into().expect("the pool is sound");
                meet(BlockPtr::decode(bytes).expect("the pool is sound"));
            }
            Visit::Entry { .. } => {}
        });
    }
    let mut blocks: Vec<BlockPtr> = blocks.into_values().collect();
    blocks.sort_by_key(|block| block.dva.offset);
    blocks
}
