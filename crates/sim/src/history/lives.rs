//! From a cut, or an export, to the next life.

use std::collections::BTreeMap;
use std::sync::Arc;

use nfs3_types::nfs3::{GETATTR3args, NFS_PROGRAM, nfsstat3};
use tally_fs::filer::ImportOptions;
use tally_store::pool::spares::SpareWatch;
use tally_store::properties::SyncMode;
use tally_vfs::model::Model;
use tally_vfs::{Attributes, FsError, Identity, ObjectRef, Vfs};

use super::requests::{Fate, Past};
use super::reserve::{reserved_files, same_reserved};
use super::{Checked, State};
use crate::chance::{Chance, Stream};
use crate::client::{Call, handle, same_fattr};
use crate::op::Op;
use crate::same::same;
use crate::sound::sound;

/// Imports of one life that are cut short, at most.
const CUT_IMPORTS_MAX: u64 = 4;
/// Dirty bytes of a machine with little memory.
const LITTLE_MEMORY_BYTES: u64 = 64 << 10;

impl State {
    /// The power goes, if it has not; what survives is imported, and must be a state that the oracles know.
    pub(super) fn begin_life(&mut self, was_exported: bool, stream: Stream) -> Checked<()> {
        let mut exported = was_exported;
        self.sent.clear();
        self.in_doubt.clear();
        self.stands_still = false;
        self.meanwhile.end();
        self.clients.iter_mut().for_each(|client| client.session = None);
        if !was_exported {
            self.count_struck_off();
        }
        self.note_end(was_exported, stream);
        self.is_full = false;
        self.spares.watch = SpareWatch::default();
        self.may_be_back = None;
        for attempt in 0.. {
            let life = if stream == Stream::Import { self.totals.lives } else { self.totals.idle_lives };
            let mut chance = Chance::of(self.plan.seed, stream, life * 16 + attempt);
            self.totals.cuts_in_labels += u64::from(self.machine.power().went_in_label());
            self.machine.lose_power(&mut chance);
            self.totals.cuts += u64::from(!exported);
            self.trouble_while_off(&mut chance)?;
            if attempt == 0 {
                self.go_by(&mut chance);
            }
            let scale = chance.pick(&[8, 60, 60]);
            let planned = (attempt < CUT_IMPORTS_MAX && chance.one_in(3)).then(|| 1 + chance.below(scale));
            self.note(format!("import{}", planned.map_or(String::new(), |at| format!(", cut after {at} writes"))));
            let mut tuning = self.machine.shape().tuning.clone();
            // With little memory a log is replayed in several groups, and the cut comes between them, or before anybody
            // is served.
            let has_little_memory = planned.is_some() && scale > 8 && chance.one_in(2);
            if has_little_memory {
                tuning.dirty_bytes_max = LITTLE_MEMORY_BYTES;
            }
            let way = if attempt == 0 { self.way_back(stream, life)? } else { None };
            self.machine.power().plan_cut(planned);
            let outcome = match way {
                None => self.machine.import_with(&ImportOptions::default(), &tuning),
                Some(way) => self.machine.import_going_back(way.order, &tuning),
            };
            self.may_be_back = self.may_be_back.or(way);
            if self.is_off() {
                self.totals.cuts_in_import += 1;
                exported = false;
                continue;
            }
            let report = outcome.map_err(|error| format!("the import is refused: {error}"))?;
            self.machine.power().plan_cut(None);
            let back = self.may_be_back.filter(|way| self.has_gone_back(*way));
            if way.is_some() && back.is_none() {
                return Err("an import has gone back, and no label says so".into());
            }
            self.totals.rewinds_cut += u64::from(way.is_none() && back.is_some());
            if back.is_some() && report.records_replayed > 0 {
                return Err(format!("gone back, and {} records were replayed", report.records_replayed));
            }
            self.note(format!("imported; {} records replayed {:?}", report.records_replayed, report.remarks));
            self.totals.replayed += report.records_replayed;
            if !report.losses.is_empty() {
                return Err(format!("losses: {:?}", report.losses));
            }
            if exported && back.is_none() && (!report.was_clean || report.records_replayed > 0) {
                return Err(format!("not clean after an export: {report:?}"));
            }
            if has_little_memory {
                self.totals.cuts_in_import += 1;
                exported = false;
                continue;
            }
            match back {
                None => self.adopt(report.was_clean, was_exported, false)?,
                Some(way) => {
                    self.go_back_to(way)?;
                    self.adopt(false, false, false)?;
                }
            }
            self.keep_imported_group();
            self.check_spares()?;
            let filer = &self.machine.server().filer;
            return sound(filer).map_err(|what| format!("after the import: {what}"));
        }
        unreachable!("the last attempt is not cut");
    }

    /// Counts what a life's end makes of those before it.
    fn note_end(&mut self, was_exported: bool, stream: Stream) {
        let was_cut = !was_exported && self.ends.back().is_some_and(|(exported, _)| !exported);
        self.totals.lives_without_sync += u64::from(was_cut && !self.has_synced);
        self.has_synced = false;
        self.ends.push_back((was_exported, stream == Stream::IdleImport));
        if self.ends.len() > 3 {
            self.ends.pop_front();
        }
        let is_across = matches!(self.ends.make_contiguous(), [(false, _), (true, true), (false, true)]);
        self.totals.idle_across += u64::from(is_across);
    }

    /// Finds the states that the import has, and goes on from there. A process that was there before gives its answers again.
    pub(super) fn adopt(&mut self, was_clean: bool, was_exported: bool, is_same_process: bool) -> Checked<()> {
        let filer = Arc::clone(&self.machine.server().filer);
        if let Some((name, sync)) = self.born.take()
            && filer.by_name(&name).is_some()
        {
            self.add_part(&name, sync)?;
        }
        for at in self.parts_there() {
            let bound_by = self.plan.bound_of(at);
            let (now, part) = (self.op, &mut self.parts[at]);
            if let Some(name) = part.renamed.take().filter(|name| filer.by_name(name).is_some()) {
                part.name = name;
            }
            let name = part.name.clone();
            let Some(fs) = filer.by_name(&name) else {
                let is_right = part.doomed;
                self.forget_part(at)?;
                if is_right {
                    continue;
                }
                return Err(format!("dataset {name} is gone"));
            };
            part.doomed = false;
            let key = filer.pool().roster.config().handle_key;
            let known = self.objects.iter().filter(|known| known.dataset == at);
            let known: Vec<_> = known.map(|known| Ok((known.real(&key)?, known.model))).collect::<Checked<_>>()?;
            let reserved = if self.plan.reserves() { reserved_files(&filer, fs.dataset()) } else { BTreeMap::new() };
            let record_size = |object: ObjectRef| part.record_sizes.get(&object).copied();
            let found = part.oracle.find(false, |left| {
                same(&*fs, &left.model)?;
                same_objects(&*fs, &left.model, &known)?;
                same_reserved(&reserved, left, &known, record_size)
            });
            self.totals.reserved_behind_cuts += if was_clean { 0 } else { reserved.len() as u64 };
            let found = found.map_err(|what| format!("{name}: {what}"))?;
            part.check_account(&filer, &found.left, bound_by).map_err(|what| format!("{name}: {what}"))?;
            if was_clean && same(&*fs, &part.oracle.live).is_err() {
                return Err(format!("{name}: the pool says that it was exported, and something is missing"));
            }
            let info = filer.datasets().into_iter().find(|info| info.name == name).expect("it was just found");
            part.oracle.sync = info.effective.sync;
            // After a clean export nothing is lost, also when the power went before the labels said so. A cut in the
            // import that follows may change the verifier, and need not.
            let verifier = part.verifier.take();
            if was_clean {
                part.verifier = verifier;
            } else if !was_exported {
                part.old_verifiers.extend(verifier);
            }
            self.trace.lock().push(format!("     {name}: the state after #{} of #{now}", found.ops.1));
            let is_answered =
                |past: &Past| is_same_process && past.fate == Fate::Here && past.reply.is_some() && past.has_waited;
            for past in self.past.iter_mut().filter(|past| past.op.dataset() == at && is_answered(past)) {
                past.has_stayed = Some(fate(past, found.ops) == Some(Fate::Survived));
            }
            let is_asked = |past: &Past| past.op.dataset() == at && !is_answered(past);
            let fates: Vec<_> = self.past.iter().map(|past| is_asked(past).then(|| fate(past, found.ops))).collect();
            let mut fates = fates.into_iter();
            self.past.retain_mut(|past| match fates.next().expect("as many fates as requests") {
                None => true,
                Some(None) => false,
                Some(Some(fate)) => {
                    past.fate = fate;
                    true
                }
            });
            self.parts[at].seen.keep_of(&found.left.model);
            self.check_handles(at, &found.left.model, found.ops.0)?;
            let newest = self.newest_known();
            self.parts[at].oracle.begin_life(found.left, now, newest);
        }
        self.synced_op = self.op;
        let objects = &self.objects;
        let knows = |op: &Op| op.objects().iter().all(|object| objects.iter().any(|known| Arc::ptr_eq(known, object)));
        self.past.retain(|past| knows(&past.op));
        self.check_account_of_all()
    }

    /// Every handle opens what it did, or nothing.
    fn check_handles(&mut self, part: usize, model: &Model, oldest: usize) -> Checked<()> {
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.objects).into_iter().partition(|object| object.dataset == part);
        self.objects = elsewhere;
        for object in here {
            let told = self.attributes(&object.handle)?;
            match (told.status, model.getattr(object.model)) {
                (nfsstat3::NFS3_OK, Ok(expected)) => {
                    let attr = told.attr.expect("GETATTR tells attributes");
                    same_fattr(&attr, &expected).map_err(|what| format!("{object:?} by its handle: {what}"))?;
                    let now = self.op;
                    let seen = self.parts[part].seen.in_a_new_life(object.model, &attr, oldest, now);
                    seen.map_err(|what| format!("{object:?}: {what}"))?;
                    self.objects.push(object);
                }
                (nfsstat3::NFS3ERR_STALE, Err(_)) => {
                    let key = self.machine.server().filer.pool().roster.config().handle_key;
                    let real = object.real(&key)?;
                    self.parts[part].gone_ids.insert(real.id, real.generation);
                    self.parts[part].gone.push(object);
                }
                (status, expected) => {
                    return Err(format!("the handle of {object:?} gives {status} instead of {expected:?}"));
                }
            }
        }
        for gone in self.parts[part].gone.clone() {
            self.must_be_stale(&gone.handle)?;
        }
        let gone = &mut self.parts[part].gone;
        let excess = gone.len().saturating_sub(100);
        gone.drain(..excess);
        Ok(())
    }

    pub(super) fn must_be_stale(&mut self, handle: &[u8]) -> Checked<()> {
        match self.attributes(handle)?.status {
            nfsstat3::NFS3ERR_STALE => Ok(()),
            status => Err(format!("a handle of something lost is answered with {status}: {handle:02x?}")),
        }
    }

    pub(super) fn attributes(&mut self, of: &[u8]) -> Checked<crate::client::Told> {
        self.read_told(&Call::new(NFS_PROGRAM::NFSPROC3_GETATTR, &GETATTR3args { object: handle(of) }))
    }
}

/// The objects that clients know, by the server's handle and the model's, are there in both or gone in both: states
/// between which a name was removed and made again look alike otherwise.
fn same_objects(fs: &dyn Vfs, model: &Model, known: &[(ObjectRef, ObjectRef)]) -> Checked<()> {
    let is_gone = |real| matches!(fs.getattr(real), Err(FsError::Stale));
    let differs = known.iter().find(|(real, of_model)| is_gone(*real) != model.getattr(*of_model).is_err());
    differs.map_or(Ok(()), |(real, _)| Err(format!("{real:?} is there, or gone, against what the state says")))
}

/// What became of a request whose dataset looks as it did behind some operation from the first of `ops` to the second.
/// `None`: that cannot be known.
fn fate(past: &Past, ops: (usize, usize)) -> Option<Fate> {
    // A WRITE is remembered in memory only: sent again, it writes the same again.
    if matches!(past.op, Op::Write { .. }) || past.fate == Fate::Lost {
        return Some(Fate::Lost);
    }
    if past.has_stayed == Some(false) {
        return None;
    }
    if past.fate == Fate::Survived || past.has_stayed.is_some() {
        return Some(Fate::Survived);
    }
    if !past.succeeded {
        return Some(Fate::Lost);
    }
    if !past.has_effect || (ops.0 < past.number && past.number <= ops.1) {
        return None;
    }
    Some(if past.number <= ops.0 { Fate::Survived } else { Fate::Lost })
}

/// As people write it.
pub(super) fn shown(sync: SyncMode) -> &'static str {
    match sync {
        SyncMode::Standard => "standard",
        SyncMode::Always => "always",
        SyncMode::Disabled => "disabled",
    }
}
