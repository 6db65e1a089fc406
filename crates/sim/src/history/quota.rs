//! Quotas: set, changed and taken away while clients fill what there is.
//!
//! A quota counts names and the targets of links beside contents. `refquota` bounds the dataset on which it was set, and so does
//! the `quota` of one that has none below it; in some histories the pool's own dataset gets one for all of them together.
//! Four things must hold, all by the oracle's own account (`oracle/used.rs`):
//!
//! - Who is told that the quota is exceeded would have exceeded it, even if nothing in the dataset can be compressed;
//!   and what does not make it grow is never told so.
//! - What is carried out leaves names and targets within the quota, if it has made them more.
//! - What is promised (docs/design/0075) counts as if it were written, and what is written in it no more.
//! - Behind an import the dataset's account lies between what names take and what everything takes uncompressed, and
//!   above the quota only as far as it was when the quota came, and by the rest of a sector for each file.

use std::sync::Arc;

use tally_fs::filer::{DatasetInfo, Filer};
use tally_store::dataset::Dataset;
use tally_store::properties::{Property, parse};
use tally_vfs::model::Model;

use super::run::History;
use super::{Checked, Part, Plan, State, Trouble};
use crate::chance::Chance;
use crate::machine::POOL;
use crate::op::Op;
use crate::oracle::{Before, Bound, Left, Reserved, Used, used};

/// How much more than what is there already: no name, a few of them, a file, and a few of these.
const ROOM_BYTES: [u64; 5] = [0, 700, 3_000, 40_000, 400_000];
/// What a file may take beyond what it was charged when it outgrows the tree: the rest of a sector, and another one, since
/// a block that is longer by zeroes is not compressed to less than what it had (4,091 bytes of noise became 8,192).
const FILE_SLACK_BYTES: u64 = 2 * 4096;

/// So much below a quota hardly anything fits.
const NEAR_BYTES: u64 = 4096;

impl Trouble {
    /// Whether quotas are drawn. Where something rots, and stays so, what was behind it may not be known to any
    /// account; and a pool that is to be full must be filled.
    pub(super) fn has_quotas(self) -> bool {
        !matches!(self, Self::Rot | Self::Full)
    }
}

impl Plan {
    /// Whether the quota of the pool's own dataset is one for all.
    fn quota_is_of_all(&self) -> bool {
        self.seed % 8 == 4
    }

    /// The property by which a part is bound.
    pub(super) fn bound_of(&self, part: usize) -> Property {
        if part % 2 == 1 || part == 0 && self.quota_is_of_all() { Property::Quota } else { Property::RefQuota }
    }
}

impl History {
    /// Sets a quota, often a little above what is used, or takes it away.
    pub(super) fn set_quota(&self, chance: &mut Chance) -> Checked<()> {
        if self.0.lock().is_beside() {
            return Ok(());
        }
        let (at, name, property, asked, used_before) = {
            let mut state = self.0.lock();
            let at = state.some_part(chance);
            let used_bytes = state.counted_bytes(at);
            let was_bound = state.parts[at].oracle.bound.quota.is_some();
            let quota_bytes = if chance.one_in(4) { used_bytes / 2 } else { used_bytes + chance.pick(&ROOM_BYTES) };
            let asked = (!was_bound || chance.one_in(3)).then_some(quota_bytes.max(1));
            state.parts[at].oracle.bound.asked = asked;
            let part = &state.parts[at];
            let name = part.name.clone();
            let property = state.plan.bound_of(at);
            state.note(format!("{property}={asked:?} on {name}, which uses {used_bytes}"));
            (at, name, property, asked, used_bytes)
        };
        let value = asked.map_or("none".to_owned(), |bytes| bytes.to_string());
        let value = parse(property, &value).expect("a size");
        self.sync(false, move |filer| filer.set_property(&name, value).map_err(|error| error.to_string()))?;
        let mut state = self.0.lock();
        if !state.is_off() {
            // What was removed inside the sync is of the next group, which may be given up.
            let used_bytes = state.counted_bytes(at).max(used_before);
            state.parts[at].oracle.bound = Bound { quota: asked, asked, used_bytes };
        }
        Ok(())
    }
}

impl State {
    /// What counts against the quota of a part, as the server says.
    fn counted_bytes(&self, at: usize) -> u64 {
        let filer = &self.machine.server().filer;
        if at == 0 && self.plan.quota_is_of_all() {
            return filer.datasets().iter().map(counted_bytes).sum();
        }
        counted_bytes(&info(filer, &self.parts[at].name))
    }

    /// What all parts take.
    fn used_by_all(&self) -> Used {
        self.parts_there().into_iter().map(|at| self.parts[at].used_now()).sum()
    }

    /// The quotas that bound a part, each with what counts against it.
    fn bounds_of(&self, at: usize) -> Vec<(u64, Used)> {
        let part = &self.parts[at];
        let is_of_all = self.plan.quota_is_of_all();
        let own = part.oracle.bound.quota.filter(|_| at > 0 || !is_of_all);
        let of_all = self.parts[0].oracle.bound.quota.filter(|_| is_of_all);
        let own = own.map(|quota| (quota, part.used_now()));
        own.into_iter().chain(of_all.map(|quota| (quota, self.used_by_all()))).collect()
    }

    /// Whether a part could hardly grow.
    pub(super) fn is_at_quota(&self, at: usize) -> bool {
        self.bounds_of(at).iter().any(|(quota, used)| used.bytes_min + used.kept_min + NEAR_BYTES > *quota)
    }

    /// Somebody was told that a quota is exceeded: it would have been.
    pub(super) fn check_over_quota(&mut self, op: &Op, before: &Before) -> Checked<()> {
        let bounds = self.bounds_of(op.dataset());
        if bounds.is_empty() {
            return Err(format!("{op:?} is refused for a quota, and there is none"));
        }
        let growth = self.parts[op.dataset()].oracle.growth(op, before);
        if growth == 0 || bounds.iter().all(|(quota, used)| used.counted_max() + growth <= *quota) {
            return Err(format!("{op:?} is refused for a quota of {bounds:?}, and takes {growth} at most"));
        }
        self.totals.over_quota += 1;
        self.totals.reservations_refused += u64::from(matches!(op, Op::Allocate { .. }));
        Ok(())
    }

    /// Something was made: names and targets do not exceed the quota. What a WRITE takes, and what is promised, is seen behind an import.
    pub(super) fn check_within_quota(&self, op: &Op) -> Checked<()> {
        if matches!(op, Op::Write { .. } | Op::Allocate { .. } | Op::SetAttr { .. }) {
            return Ok(());
        }
        match self.bounds_of(op.dataset()).into_iter().find(|(quota, used)| used.bytes_min > *quota) {
            Some((quota, used)) => {
                Err(format!("{op:?} is carried out, and names take {} of a quota of {quota}", used.bytes_min))
            }
            None => Ok(()),
        }
    }

    /// The same of the quota for all, once each part was found.
    pub(super) fn check_account_of_all(&mut self) -> Checked<()> {
        let filer = Arc::clone(&self.machine.server().filer);
        if !self.plan.quota_is_of_all() {
            return Ok(());
        }
        let (found_bytes, used) = (self.counted_bytes(0), self.used_by_all());
        let bound = &mut self.parts[0].oracle.bound;
        bound.find(info(&filer, POOL).effective.quota, found_bytes)?;
        if has_orphans(&filer, |_| true) { Ok(()) } else { bound.check(found_bytes, &used) }
    }
}

impl Bound {
    /// An import has found this quota, which has to be one of which somebody knows.
    fn find(&mut self, quota: Option<u64>, used_bytes: u64) -> Checked<()> {
        if quota != self.quota {
            if quota != self.asked {
                return Err(format!("the quota is {quota:?}, and was {:?}", self.quota));
            }
            *self = Self { quota, asked: quota, used_bytes };
        }
        Ok(())
    }

    /// Nothing passes it further than it was passed when it came.
    fn check(&self, found_bytes: u64, used: &Used) -> Checked<()> {
        let allowed_bytes = self.quota.unwrap_or(u64::MAX).max(self.used_bytes);
        let slack_bytes = used.file_count * FILE_SLACK_BYTES + used.last_bytes;
        if found_bytes > allowed_bytes.saturating_add(slack_bytes) {
            return Err(format!("it uses {found_bytes}, and may use {allowed_bytes} ({self:?})"));
        }
        Ok(())
    }
}

impl Part {
    /// What everything in this state of it takes.
    fn used(&self, model: &Model, reserved: &Reserved) -> Used {
        used(model, reserved, |object| self.record_sizes.get(&object).copied())
    }

    fn used_now(&self) -> Used {
        self.used(&self.oracle.live, &self.oracle.reserved)
    }

    /// The account that an import has found is true of what it has found, and the quota is one of which somebody knows.
    pub(super) fn check_account(&mut self, filer: &Filer, left: &Left, bound_by: Property) -> Checked<()> {
        let info = info(filer, &self.name);
        let (found_bytes, used) = (counted_bytes(&info), self.used(&left.model, &left.reserved));
        let bound = &mut self.oracle.bound;
        // One that is for all is looked at once all are known.
        let is_of_all = self.name == POOL && bound_by == Property::Quota;
        if !is_of_all {
            bound.find(info.effective.refquota.or(info.effective.quota), found_bytes)?;
        }
        if has_orphans(filer, |dataset| dataset.birth.id == info.id) {
            return Ok(());
        }
        let Used { bytes_min, bytes_max, kept_min, kept_max, .. } = used;
        let (used_bytes, reserved_bytes) = (info.used_bytes, info.reserved_bytes);
        if !(bytes_min..=bytes_max).contains(&used_bytes) {
            return Err(format!("it says that it uses {used_bytes}, and that must be {bytes_min} to {bytes_max}"));
        }
        if reserved_bytes > kept_max {
            return Err(format!("it keeps {reserved_bytes} for what is promised, which takes {kept_max} at most"));
        }
        if found_bytes < bytes_min + kept_min {
            return Err(format!(
                "{used_bytes} and {reserved_bytes} count, and {kept_min} are promised beside {bytes_min}"
            ));
        }
        if is_of_all { Ok(()) } else { bound.check(found_bytes, &used) }
    }
}

fn has_orphans(filer: &Filer, of: impl Fn(&Dataset) -> bool) -> bool {
    filer.pool().datasets().iter().any(|dataset| of(dataset) && dataset.root().orphan_count > 0)
}

/// Against a quota counts what is used, and what is kept for what is promised.
fn counted_bytes(info: &DatasetInfo) -> u64 {
    info.used_bytes + info.reserved_bytes
}

fn info(filer: &Filer, name: &str) -> DatasetInfo {
    filer.datasets().into_iter().find(|info| info.name == name).expect("it is there")
}
