//! Imports that go back to an older group (docs/design/0051).
//!
//! ```text
//!   group 7 ── group 8 ── group 9 ── its log        what clients were told
//!      ▲ kept: models, handles, times                │
//!      └──────────── import --rewind 7 ──────────────┘  behind group 7 nothing of it was ever there
//! ```
//!
//! Of the newest groups it is kept what each dataset was when the group was closed. A life may then begin with one of them
//! that the pool offers. What must hold: the state found is the one that this group had, with no record behind it, in this
//! life and in all later ones; handles of what was made behind it are stale, and of what was removed open it again; what is made
//! is none of those objects and datasets again, and no time that was seen comes again (the checks of every life); verifiers are
//! others; and no answer is remembered. An import that is cut short has gone back or has not, as the labels say, and a look changes nothing.

use std::collections::HashMap;

use tally_base::Txg;
use tally_fs::filer::ImportOptions;
use tally_members::label::Rewind;
use tally_store::pool::{RewindOrder, RewindTo};
use tally_vfs::{Attributes, ObjectRef};

use super::requests::Fate;
use super::times::Frozen;
use super::{Checked, Plan, State, Trouble};
use crate::chance::{Chance, Stream};
use crate::op::Object;
use crate::oracle::{Bound, Left};

/// Groups that are kept: more than the pool may go back.
const GROUPS_MAX: usize = 6;
/// Of lives that could, one in so many begins with an older group.
const ONE_IN: u64 = 3;

/// What the pool was in a group.
pub(super) struct OldGroup {
    txg: Txg,
    /// The last operation that it has.
    op: usize,
    parts: Vec<OldPart>,
}

/// What a dataset was in it.
struct OldPart {
    name: String,
    is_there: bool,
    left: Left,
    bound: Bound,
    record_sizes: HashMap<ObjectRef, u64>,
    seen: Frozen,
    /// Handles that were known then.
    objects: Vec<Object>,
    /// Handles of what had been there once.
    gone: Vec<Object>,
}

/// The way back of the import under way.
#[derive(Clone, Copy)]
pub(super) struct WayBack {
    pub(super) order: RewindOrder,
    to: Txg,
    /// The newest note of that kind before.
    noted: Option<Rewind>,
}

impl Plan {
    /// Whether lives begin with older groups. Where disks are changed, one that joined behind a group need not have what that
    /// group names; a pool that is to be full is seldom full behind it; and all other seeds do what they did.
    pub(super) fn goes_back(&self) -> bool {
        match self.trouble {
            Trouble::None | Trouble::Legs => matches!(self.seed % 32, 0 | 3 | 8 | 16 | 18 | 19),
            Trouble::Full => self.seed % 64 == 4,
            _ => false,
        }
    }
}

impl State {
    /// What the group has that is closed now.
    pub(super) fn as_it_is(&self, txg: Txg) -> OldGroup {
        let part = |(at, part): (usize, &super::Part)| OldPart {
            name: part.name.clone(),
            is_there: part.is_there,
            left: part.oracle.as_group(),
            bound: part.oracle.bound,
            record_sizes: part.record_sizes.clone(),
            seen: part.seen.frozen(),
            objects: self.objects.iter().filter(|object| object.dataset == at).cloned().collect(),
            gone: part.gone.clone(),
        };
        OldGroup { txg, op: self.op, parts: self.parts.iter().enumerate().map(part).collect() }
    }

    /// A group is closed now.
    pub(super) fn close_old_group(&mut self) {
        if self.plan.goes_back() && !self.is_off() {
            self.closing = Some(self.as_it_is(self.machine.server().filer.pool().txgs.last_synced()));
        }
    }

    /// It is durable. Where a command has synced several, nobody knows which of them has what.
    pub(super) fn keep_old_group(&mut self) {
        let Some(mut closed) = self.closing.take() else { return };
        let synced = self.machine.server().filer.pool().txgs.last_synced();
        if synced == closed.txg.next() {
            closed.txg = synced;
            self.keep_group(closed);
        }
    }

    /// What an import has found is in a group of its own.
    pub(super) fn keep_imported_group(&mut self) {
        if self.plan.goes_back() {
            self.closing = None;
            self.keep_group(self.as_it_is(self.machine.server().filer.pool().txgs.last_synced()));
        }
    }

    fn keep_group(&mut self, group: OldGroup) {
        self.groups.push_back(group);
        let excess = self.groups.len().saturating_sub(GROUPS_MAX);
        self.groups.drain(..excess);
    }

    /// Chooses a group to go back to, of those that the pool offers.
    pub(super) fn choose_way_back(&mut self, chance: &mut Chance) -> Checked<Option<WayBack>> {
        if !self.plan.goes_back() || self.groups.is_empty() || !chance.one_in(ONE_IN) {
            return Ok(None);
        }
        let before: Vec<_> = self.machine.disks().iter().map(|(_, disk)| disk.content()).collect();
        let look = ImportOptions { read_only: true, ..ImportOptions::default() };
        let order = RewindOrder { to: RewindTo::Before, from: None };
        let Ok((filer, report)) = self.machine.go_back(&look, order) else {
            self.note("nothing to go back to");
            return Ok(None);
        };
        let after: Vec<_> = self.machine.disks().iter().map(|(_, disk)| disk.content()).collect();
        if before != after {
            return Err("a look at an older group has written something".into());
        }
        let found = report.rewind.ok_or("a way back that tells of none")?.groups;
        let offered: Vec<Txg> = found.possible.iter().map(|(txg, _)| *txg).collect();
        let known: Vec<Txg> = self.groups.iter().map(|group| group.txg).filter(|txg| offered.contains(txg)).collect();
        self.note(format!("groups {offered:?} are offered, {known:?} are known"));
        if known.is_empty() {
            return Ok(None);
        }
        let to = chance.pick(&known);
        let from = chance.one_in(2).then(|| found.newest());
        let noted = newest_note(&filer.pool().roster.config().rewinds);
        Ok(Some(WayBack { order: RewindOrder { to: RewindTo::Group(to), from }, to, noted }))
    }

    /// Whether an import that was cut short had gone back: the labels say so.
    pub(super) fn has_gone_back(&self, way: WayBack) -> bool {
        let newest = newest_note(&self.machine.server().filer.pool().roster.config().rewinds);
        newest != way.noted
    }

    /// The pool is what it was in this group, and nobody knows more.
    pub(super) fn go_back_to(&mut self, way: WayBack) -> Checked<()> {
        let at = self.groups.iter().position(|group| group.txg == way.to).ok_or("a group that was known")?;
        self.groups.truncate(at + 1);
        let group = self.groups.pop_back().expect("it was just found");
        self.note(format!("gone back to group {}, behind #{} of #{}", group.txg, group.op, self.op));
        self.totals.rewinds += 1;
        self.totals.given_up += (self.op - group.op) as u64;
        self.born = None;
        // A session that lasts may be told of what that group has.
        self.past.retain(|past| !past.op.is_newer());
        self.past.iter_mut().for_each(|past| (past.fate, past.has_stayed) = (Fate::Lost, None));
        for later in group.parts.len()..self.parts.len() {
            if self.parts[later].is_there {
                self.forget_part(later)?;
            }
        }
        for (at, old) in group.parts.iter().enumerate() {
            let came_back = old.is_there && !self.parts[at].is_there;
            self.totals.datasets_back += u64::from(came_back);
            if !old.is_there && self.parts[at].is_there {
                return Err(format!("{} was there, then not, and is there again", old.name));
            }
            self.take_old_part(at, old, group.op);
        }
        self.groups.push_back(group);
        Ok(())
    }

    fn take_old_part(&mut self, at: usize, old: &OldPart, op: usize) {
        let part = &mut self.parts[at];
        (part.name, part.is_there) = (old.name.clone(), old.is_there);
        (part.doomed, part.renamed) = (false, None);
        part.oracle.go_back(old.left.fork(), op);
        part.oracle.bound = old.bound;
        part.record_sizes.clone_from(&old.record_sizes);
        part.seen.go_back(&old.seen, op);
        // What was gone then is gone, and so is what was made since; what was removed since is there again.
        let was_gone = |object: &Object| old.gone.iter().any(|gone| gone.handle == object.handle);
        part.gone.retain(|object| was_gone(object) || old.left.model.getattr(object.model).is_err());
        for object in &old.objects {
            if !self.objects.iter().any(|known| known.handle == object.handle) {
                self.objects.push(object.clone());
            }
        }
    }

    /// Draws whether and how the next import goes back.
    pub(super) fn way_back(&mut self, stream: Stream, life: u64) -> Checked<Option<WayBack>> {
        let nth = 2 * life + u64::from(stream == Stream::IdleImport);
        self.choose_way_back(&mut Chance::of(self.plan.seed, Stream::Back, nth))
    }
}

fn newest_note(notes: &[Rewind]) -> Option<Rewind> {
    notes.iter().max_by_key(|note| note.open_gen).copied()
}
