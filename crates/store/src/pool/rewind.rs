//! Imports that go back to an older group: since the newest cannot be read, or for what was before a mistake.
//!
//! **What is given up.** All behind the group that is chosen: groups, and the records of the log, be they in the ring still
//! or not. None of them is replayed. Whoever goes back before a mistake does not want its records; and a record of a
//! later group fits the older one only if nothing came between them that no record tells of, such as long files whose COMMIT
//! waited for their group (docs/design/0051). So what is found is exactly what that group had.
//!
//! **How far.** As far as roots are whole ([`super::window`]). Where groups are known of that cannot be read, each of them
//! counts.
//!
//! ```text
//!   nothing is written:   choose, read the root and the catalog there, hear all rings
//!   the claim             notes in the labels what is given up    ◀── the pool has gone back
//!   its first group       above all numbers that were seen, in a generation of its own, with empty rings
//! ```
//!
//! Power that goes before the claim leaves the old groups, and behind it the new: an import then finds the note, chooses the
//! group that was kept, drops the log again, and goes on.
//!
//! | what a client may know of what was given up | what is behind it |
//! |---|---|
//! | write verifiers, ids | a life whose number is above all that those generations can have had (rules S55) |
//! | times, changes | the latest lease of any uberblock, and the times of dropped records, are behind the first that is issued |
//! | ids of datasets | so many are passed over as those groups cannot have drawn |
//! | answers | none is remembered |

use std::collections::BTreeMap;

use tally_base::{DatasetId, Dseq, Time, Txg};
use tally_disk::{Helpers, Platform};
use tally_intent::recovery::{self, RecordInfo, RingVisit};
use tally_members::blockdev::BlockDevs;
use tally_members::choose::Chosen;
use tally_members::label::Rewind;
use tally_members::roster::Roster;
use tally_members::uberblock::Uberblock;

use super::catalog::Top;
use super::log::LogContent;
use super::open::{OpenError, read_top};
use super::root::PoolRoot;
use super::window::RootArea;
use crate::alloc::AllocRoot;
use crate::bp::BlockPtr;
use crate::io::BlockIo;

/// Ids of datasets that are passed over: a command takes one, and a group of its own.
pub(super) const LOST_DATASETS_MAX: u64 = 1 << 16;

/// To which group an import goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewindTo {
    /// The newest that can be read, before the newest of all.
    Before,
    /// The group of this number.
    Group(Txg),
}

/// To go back to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RewindOrder {
    /// The group to go back to.
    pub to: RewindTo,
    /// The newest group as somebody was shown it: where the pool has gone on since, it stays as it is.
    pub from: Option<Txg>,
}

/// Where an import went back to, and what that gives up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoneBack {
    /// The group, and when it was synced.
    pub to: (Txg, Time),
    /// Groups behind it, newest first, and when they were synced; nothing of one that cannot be read.
    pub groups: Vec<(Txg, Option<Time>)>,
    /// What it could have gone back to, newest first.
    pub possible: Vec<(Txg, Time)>,
}

/// Why an import cannot go back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum RewindError {
    /// Not so far, or not to this one.
    #[error("the pool cannot go back to group {wanted}: {}", listed(possible))]
    NotPossible {
        /// What was asked for.
        wanted: Txg,
        possible: Vec<(Txg, Time)>,
    },
    /// It is there already.
    #[error("group {0} is the newest of the pool: import it without --rewind")]
    Newest(Txg),
    /// In the middle of an import.
    #[error(
        "group {0} was made while an import replayed its log: nobody has seen the pool like that; choose another one"
    )]
    Unfinished(Txg),
    /// More would be given up than somebody was shown.
    #[error("the newest group of the pool is {newest} now, and not {shown}: look again what going back gives up")]
    WentOn { shown: Txg, newest: Txg },
    #[error("no older group can be read: {}", listed(possible))]
    Nothing { possible: Vec<(Txg, Time)> },
}

fn listed(possible: &[(Txg, Time)]) -> String {
    if possible.is_empty() {
        return "what older groups name may be in use again by now".to_owned();
    }
    let groups: Vec<_> = possible.iter().map(|(txg, _)| txg.to_string()).collect();
    format!("what is whole are groups {}, and what those before name may be in use again by now", groups.join(", "))
}

impl GoneBack {
    /// Whether nothing that the group names can have been used again. The newest two groups stay, always (rules F8); of older ones
    /// each uberblock says how many it has left, and there are some behind this one that cannot be read.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        let lost = self.groups.iter().filter(|(_, time)| time.is_none()).count();
        lost == 0 || lost == 1 && self.groups.len() == 1
    }

    /// The group that was the newest, whether it could be read or not.
    #[must_use]
    pub fn newest(&self) -> Txg {
        self.groups.first().map_or(self.to.0, |(txg, _)| *txg)
    }
}

/// What all rings hold, whatever anybody thinks of it.
pub(super) struct Heard {
    synced: Txg,
    newest: Txg,
    records: BTreeMap<(DatasetId, Dseq), RecordInfo>,
}

/// Reads all of every ring, and keeps the records of groups behind `from`.
fn hear(roster: &Roster, from: Txg) -> Heard {
    let mut heard = Heard { synced: Txg(0), newest: Txg(0), records: BTreeMap::new() };
    for line in &roster.config().lanes {
        recovery::visit_ring(&roster.lane_config(line), None, &mut |visit| {
            let RingVisit::Frame(frame) = visit else { return };
            heard.synced = heard.synced.max(frame.header.synced_txg);
            heard.newest = heard.newest.max(frame.header.txg_max).max(frame.header.synced_txg);
            for record in frame.records.iter().filter(|record| record.head.txg > from) {
                heard.records.entry((record.head.dataset, record.head.dseq)).or_insert_with(|| record.clone());
            }
        });
    }
    heard
}

/// Roots before the chosen one that are whole.
pub(super) fn depth_of(chosen: &Chosen, area: &RootArea) -> u16 {
    match chosen.rewind {
        None => area.depth,
        Some(rewind) if rewind.kept == chosen.uberblock.txg => rewind.depth,
        // The kept one is gone as well.
        Some(rewind) => rewind.depth.saturating_sub(1),
    }
}

/// The root and the catalog of an uberblock.
pub(super) fn read_root_and_top(
    devs: &BlockDevs,
    helpers: Helpers,
    uberblock: &Uberblock,
) -> Result<(BlockPtr, AllocRoot, Top), OpenError> {
    let pointer = RootArea::decode(&uberblock.root)?.root;
    let (root, alloc) = PoolRoot::decode(&BlockIo::read_root(devs, &pointer)?)?;
    Ok((pointer, alloc, read_top(devs, helpers, root, uberblock)?))
}

fn check_target(devs: &BlockDevs, helpers: Helpers, uberblock: &Uberblock) -> Result<(), OpenError> {
    let (_, _, top) = read_root_and_top(devs, helpers, uberblock)?;
    let is_whole = top.root.log_txg == uberblock.txg;
    if is_whole { Ok(()) } else { Err(RewindError::Unfinished(uberblock.txg).into()) }
}

/// Chooses the group to go back to. Nothing is written.
pub(super) fn plan(
    platform: &Platform,
    devs: &BlockDevs,
    helpers: Helpers,
    roster: &Roster,
    chosen: &Chosen,
    order: RewindOrder,
) -> Result<(Chosen, GoneBack, Heard), OpenError> {
    let chain: Vec<&Uberblock> = std::iter::once(&chosen.uberblock).chain(&chosen.before).collect();
    let newest = chosen.uberblock.txg;
    let heard = hear(roster, chain.last().map_or(newest, |oldest| oldest.txg));
    let told = chosen.lost.as_ref().map_or(Txg(0), |(txg, _)| *txg).max(heard.synced);
    // Groups that were durable, and cannot be read.
    let known = chosen.known();
    let lost = told.0.saturating_sub(known.0);
    let whole = u64::from(depth_of(chosen, &RootArea::decode(&chosen.uberblock.root)?));
    // With the newest readable one as the first, where there was a newer.
    let first = usize::from(lost == 0);
    // What an uberblock calls whole is so until the next one. How many roots one has left that cannot be read nobody knows
    // ([`GoneBack::is_sure`]), and of the newest that can be there is no other way than to try.
    let reach = usize::try_from((whole + 1).saturating_sub(lost)).unwrap_or(0);
    let end = reach.max(usize::from(lost > 0)).min(chain.len());
    let targets: Vec<(usize, &Uberblock)> = (first..end).filter_map(|at| Some((at, *chain.get(at)?))).collect();
    let possible: Vec<_> = targets.iter().map(|(_, uberblock)| (uberblock.txg, uberblock.time)).collect();
    let is_readable = |(_, uberblock): &&(usize, &Uberblock)| check_target(devs, helpers, uberblock).is_ok();
    let (at, target) = *match order.to {
        RewindTo::Before => {
            targets.iter().find(is_readable).ok_or(RewindError::Nothing { possible: possible.clone() })?
        }
        RewindTo::Group(wanted) => {
            if wanted == newest && lost == 0 {
                return Err(RewindError::Newest(wanted).into());
            }
            let found = targets.iter().find(|(_, uberblock)| uberblock.txg == wanted);
            found.ok_or_else(|| RewindError::NotPossible { wanted, possible: possible.clone() })?
        }
    };
    check_target(devs, helpers, target)?;
    let txg_max = chosen.txg_max.max(told).max(heard.newest);
    let rewind = Rewind {
        kept: target.txg,
        kept_gen: target.open_gen,
        dropped: txg_max,
        open_gen: chosen.open_gen_max + 1,
        time: platform.clock.now(),
        depth: if lost == 0 { whole.saturating_sub(at as u64) as u16 } else { 0 },
    };
    let lost = (known.0 + 1..=told.0).rev().map(|txg| (Txg(txg), None));
    let dropped = chain.iter().take(at).map(|uberblock| (uberblock.txg, Some(uberblock.time)));
    let back = GoneBack { to: (target.txg, target.time), groups: lost.chain(dropped).collect(), possible };
    if let Some(shown) = order.from.filter(|shown| *shown != back.newest()) {
        return Err(RewindError::WentOn { shown, newest: back.newest() }.into());
    }
    let before = chain.iter().skip(at + 1).map(|uberblock| (*uberblock).clone()).collect();
    let chosen =
        Chosen { uberblock: target.clone(), before, txg_max, rewind: Some(rewind), lost: None, ..chosen.clone() };
    Ok((chosen, back, heard))
}

/// What is in the log for a group that the pool has gone back to: nothing, but what was dropped. Also gives the newest group
/// that any frame belongs to or has seen.
pub(super) fn drop_log(roster: &Roster, chosen: &Chosen, heard: Option<Heard>) -> Result<(LogContent, Txg), OpenError> {
    let kept = chosen.uberblock.txg;
    let mut heard = heard.unwrap_or_else(|| hear(roster, kept));
    // A frame of the life behind the note tells that there was a group behind it.
    chosen.witness(heard.synced, "the intent log")?;
    heard.records.retain(|_, record| record.head.txg > kept);
    let mut content = LogContent { dropped: heard.records, ..LogContent::default() };
    let count = content.dropped.len();
    content.remarks.push(format!(
        "the pool has gone back to transaction group {kept}; of what was given up, {count} records are still in the log"
    ));
    Ok((content, heard.newest))
}
