//! Quotas: set, changed and taken away while clients fill what there is.
//!
//! A quota counts names and the targets of links beside contents (`refquota` bounds the dataset on which it was set).
//! Three things must hold, all by the oracle's own account (`oracle/used.rs`):
//!
//! - Who is told that the quota is exceeded would have exceeded it, even if nothing in the dataset can be compressed;
//!   and what does not make it grow is never told so.
//! - What is carried out leaves names and targets within the quota, if it has made them more.
//! - Behind an import the dataset's account lies between what names take and what everything takes uncompressed, and
//!   above the quota only as far as it was when the quota came, and by the rest of a sector for each file.

use tally_fs::filer::{DatasetInfo, Filer};
use tally_store::properties::{Property, parse};
use tally_vfs::model::Model;

use super::run::History;
use super::{Checked, Part, State, Trouble};
use crate::chance::Chance;
use crate::op::Op;
use crate::oracle::{Before, Bound, Used, used};

/// How much more than what is there already: no name, a few of them, a file, and a few of these.
const ROOM_BYTES: [u64; 5] = [0, 700, 3_000, 40_000, 400_000];
/// What a file may take beyond what it was charged when it outgrows the tree: the rest of a sector, and another one, since
/// a block that is longer by zeroes is not compressed to less than what it had (4,091 bytes of noise became 8,192).
const FILE_SLACK_BYTES: u64 = 2 * 4096;

impl Trouble {
    /// Whether quotas are drawn. Where something rots, and stays so, what was behind it may not be known to any
    /// account; and a pool that is to be full must be filled.
    pub(super) fn has_quotas(self) -> bool {
        !matches!(self, Self::Rot | Self::Full)
    }
}

impl History {
    /// Sets a quota, often a little above what is used, or takes it away.
    pub(super) fn set_quota(&self, chance: &mut Chance) -> Checked<()> {
        if self.0.lock().is_beside() {
            return Ok(());
        }
        let (at, name, asked) = {
            let mut state = self.0.lock();
            let at = state.some_part(chance);
            let used_bytes = info(&state.machine.server().filer, &state.parts[at].name).used_bytes;
            let was_bound = state.parts[at].oracle.bound.quota.is_some();
            let quota_bytes = if chance.one_in(4) { used_bytes / 2 } else { used_bytes + chance.pick(&ROOM_BYTES) };
            let asked = (!was_bound || chance.one_in(3)).then_some(quota_bytes.max(1));
            state.parts[at].oracle.bound.asked = asked;
            let part = &state.parts[at];
            let name = part.name.clone();
            state.note(format!("refquota={asked:?} on {name}, which uses {used_bytes}"));
            (at, name, asked)
        };
        let value = asked.map_or("none".to_owned(), |bytes| bytes.to_string());
        let value = parse(Property::RefQuota, &value).expect("a size");
        self.sync(false, move |filer| filer.set_property(&name, value).map_err(|error| error.to_string()))?;
        let mut state = self.0.lock();
        if !state.is_off() {
            let used_bytes = info(&state.machine.server().filer, &state.parts[at].name).used_bytes;
            state.parts[at].oracle.bound = Bound { quota: asked, asked, used_bytes };
        }
        Ok(())
    }
}

impl State {
    /// Somebody was told that a quota is exceeded: it would have been.
    pub(super) fn check_over_quota(&mut self, op: &Op, before: &Before) -> Checked<()> {
        let part = &self.parts[op.dataset()];
        let Some(quota) = part.oracle.bound.quota else {
            return Err(format!("{op:?} is refused for a quota, and there is none"));
        };
        let (growth, used) = (part.oracle.growth(op, before), part.used(&part.oracle.live));
        if growth == 0 || used.bytes_max + growth <= quota {
            return Err(format!(
                "{op:?} is refused for a quota of {quota}, with {} to {} used, and takes {growth} at most",
                used.bytes_min, used.bytes_max
            ));
        }
        self.totals.over_quota += 1;
        Ok(())
    }

    /// Something was made: names and targets do not exceed the quota. What a WRITE takes is seen behind an import.
    pub(super) fn check_within_quota(&self, op: &Op) -> Checked<()> {
        let part = &self.parts[op.dataset()];
        if matches!(op, Op::Write { .. }) {
            return Ok(());
        }
        let Some(quota) = part.oracle.bound.quota else { return Ok(()) };
        let bytes_min = part.used(&part.oracle.live).bytes_min;
        if bytes_min > quota {
            return Err(format!("{op:?} is carried out, and names take {bytes_min} of a quota of {quota}"));
        }
        Ok(())
    }
}

impl Part {
    /// What everything in this state of it takes.
    fn used(&self, model: &Model) -> Used {
        used(model, |object| self.record_sizes.get(&object).copied())
    }

    /// The account that an import has found is true of what it has found, and the quota is one of which somebody knows.
    pub(super) fn check_account(&mut self, filer: &Filer, model: &Model) -> Checked<()> {
        let info = info(filer, &self.name);
        let (found_bytes, used, bound) = (info.used_bytes, self.used(model), &mut self.oracle.bound);
        let quota = info.effective.refquota;
        if quota != bound.quota {
            if quota != bound.asked {
                return Err(format!("the quota is {quota:?}, and was {:?}", bound.quota));
            }
            *bound = Bound { quota, asked: quota, used_bytes: found_bytes };
        }
        let dataset = filer.pool().datasets().into_iter().find(|dataset| dataset.birth.id == info.id);
        if dataset.is_some_and(|dataset| dataset.root().orphan_count > 0) {
            return Ok(());
        }
        let Used { bytes_min, bytes_max, file_count } = used;
        if !(bytes_min..=bytes_max).contains(&found_bytes) {
            return Err(format!("it says that it uses {found_bytes}, and that must be {bytes_min} to {bytes_max}"));
        }
        let allowed_bytes = bound.quota.unwrap_or(u64::MAX).max(bound.used_bytes);
        if found_bytes > allowed_bytes.saturating_add(file_count * FILE_SLACK_BYTES) {
            return Err(format!("it uses {found_bytes}, and may use {allowed_bytes} ({bound:?})"));
        }
        Ok(())
    }
}

fn info(filer: &Filer, name: &str) -> DatasetInfo {
    filer.datasets().into_iter().find(|info| info.name == name).expect("it is there")
}
