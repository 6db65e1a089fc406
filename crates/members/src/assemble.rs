//! From labels to a pool: locks the legs, decides which of them may be believed, and chooses the uberblock.
//!
//! Nothing is written. What an import finds it keeps in memory until [`Roster::claim`], so that an import which is
//! given up (a lane is missing, the operator has forgotten a disk) leaves every disk as it was.
//!
//! How each leg stands is the table of docs/on-disk.md ("Which configuration holds"), whose cases have letters; the
//! functions here name theirs.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tally_base::{PoolGuid, Txg, VdevGuid, VdevIndex};
use tally_disk::{Access, Disk, Platform};

use crate::choose::{Candidate, ChooseError, Chosen, choose, choose_unheard};
use crate::discover::{FoundLeg, FoundPool, ImportSource, Scan, leg_inside, scan};
use crate::label::{self, Label, LegConfig, PoolConfig, PoolState, VdevClass, VdevConfig, data_bytes_of};
use crate::roster::Roster;
use crate::uberblock::{self, Uberblock};
use crate::vdev::{LegState, Vdev, VdevLeg};

/// Which of the pools that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolSelect {
    /// By name, which need not be unique.
    Name(String),
    /// The one with this guid, whatever its name is.
    Guid(PoolGuid),
}

/// What an import may do that it does not do unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Take it although its label says that another machine has it.
    pub force: bool,
    /// It will not be claimed for writing.
    pub read_only: bool,
    /// Take it although it was destroyed.
    pub destroyed: bool,
    /// It will go back to an older group: whoever tells of a newer one than there is does not keep it from that.
    pub goes_back: bool,
}

/// A pool put together, not yet claimed.
pub struct Assembled {
    /// Its configuration, as the newest label has it. After a claim ask [`Roster::config`].
    pub config: PoolConfig,
    /// Who is in it: labels and uberblocks are written here.
    pub roster: Arc<Roster>,
    /// Those with blocks, in order of index; without those that were removed.
    pub vdevs: Vec<Arc<Vdev>>,
    /// Those that are rings of the log and nothing else.
    pub logs: Vec<Arc<Vdev>>,
    /// What is not as it should be, for people.
    pub notes: Vec<String>,
}

/// Why a pool cannot be imported.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum ImportError {
    /// A named place cannot be looked at.
    #[error("cannot look for pools: {0}")]
    Scan(io::Error),
    /// There is no such pool.
    #[error("no pool {wanted} was found{}", listed(seen))]
    NoSuchPool {
        /// What was asked for.
        wanted: String,
        /// What there was instead.
        seen: Vec<String>,
    },
    /// Several pools have the name.
    #[error("several pools are called {name}; import one of them by its guid: {}", guids.join(", "))]
    Ambiguous { name: String, guids: Vec<String> },
    /// Another process has one of its disks.
    #[error("{} is in use by another process: the pool is imported there, or the disk is mounted", path.display())]
    InUse { path: PathBuf },
    /// Another machine has it.
    #[error(
        "pool {pool} was last in use by {host}, which has not exported it; export it there, or force the import (-f) if \
         that machine is dead: two machines on one pool destroy it"
    )]
    OtherHost {
        /// Name of the pool.
        pool: String,
        host: String,
    },
    /// It was destroyed.
    #[error(
        "pool {pool} was destroyed; `tally pool import -D` lists destroyed pools, and with its name brings it back"
    )]
    Destroyed {
        /// Name of the pool.
        pool: String,
    },
    /// It can only be read by this program.
    #[error("pool {pool} {why}")]
    ReadOnlyFeatures {
        /// Name of the pool.
        pool: String,
        /// Which, and what to do.
        why: String,
    },
    /// Its labels have sections without which nobody may write it.
    #[error(
        "pool {pool} has sections in its labels ({}) without which this program may only read it; import it with \
         --readonly, or use a newer program",
        numbers(sections)
    )]
    ReadOnlySections {
        /// Name of the pool.
        pool: String,
        sections: Vec<u16>,
    },
    /// Two disks say that they are the same leg.
    #[error("{} and {} are copies of one leg; take one of them away", first.display(), second.display())]
    TwoCopies { first: PathBuf, second: PathBuf },
    /// Legs that were used apart.
    #[error(
        "{} went on without the other legs of pool {pool} after it had dropped out there: the pool was imported \
         twice from different legs; take away the legs whose changes are to be given up", path.display()
    )]
    SplitBrain {
        /// Name of the pool.
        pool: String,
        path: PathBuf,
    },
    /// A data vdev has no leg that can be believed.
    #[error("pool {pool}: vdev {vdev} has no usable leg ({}); attach its disks", legs.join("; "))]
    VdevUnavailable {
        /// Name of the pool.
        pool: String,
        vdev: VdevIndex,
        /// Path and state of each leg.
        legs: Vec<String>,
    },
    /// No uberblock can be taken.
    #[error("pool {pool}: {why}")]
    Choose {
        /// Name of the pool.
        pool: String,
        why: ChooseError,
    },
}

fn numbers(sections: &[u16]) -> String {
    sections.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

fn listed(seen: &[String]) -> String {
    if seen.is_empty() {
        "; name the directory of its disks".to_owned()
    } else {
        format!("; seen: {}", seen.join(", "))
    }
}

/// A leg whose disk is locked, with what was read under the lock.
struct LockedLeg {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    label: Label,
    uberblocks: Vec<Uberblock>,
}

/// Finds the pool, locks its legs and puts it together.
pub fn import(
    platform: &Platform,
    source: &ImportSource,
    select: &PoolSelect,
    options: &ImportOptions,
) -> Result<(Assembled, Chosen), ImportError> {
    let found = scan(platform.opener.as_ref(), source).map_err(ImportError::Scan)?;
    let pool = selected(&found, select, options)?;
    let mut locked = lock_legs(platform, pool)?;
    if locked.is_empty() {
        let seen = vec!["its disks went away or changed while they were looked at; import it again".to_owned()];
        return Err(ImportError::NoSuchPool { wanted: asked_for(select), seen });
    }
    let config = newest(&locked)?;
    check_allowed(platform, &config, options)?;
    let (assembled, chosen) = assemble(platform, config, &mut locked, options)?;
    assembled.roster.found_spares(pool.spares.iter().map(|found| (found.label.leg, found.path.clone())).collect());
    Ok((assembled, chosen))
}

fn asked_for(select: &PoolSelect) -> String {
    match select {
        PoolSelect::Name(name) => name.clone(),
        PoolSelect::Guid(guid) => guid.to_string(),
    }
}

/// Names of a pool for lists.
fn shown(pool: &FoundPool) -> String {
    format!("{} ({})", pool.newest().name, pool.pool)
}

fn selected<'a>(found: &'a Scan, select: &PoolSelect, options: &ImportOptions) -> Result<&'a FoundPool, ImportError> {
    let is_wanted = |pool: &&FoundPool| match select {
        PoolSelect::Name(name) => pool.newest().name == *name,
        PoolSelect::Guid(guid) => pool.pool == *guid,
    };
    let is_destroyed = |pool: &FoundPool| pool.newest().state == PoolState::Destroyed;
    let mut wanted: Vec<_> = found.pools.iter().filter(is_wanted).collect();
    // A destroyed pool does not stand in the way of a living one with its name, nor that one when a destroyed one is wanted.
    if wanted.iter().any(|pool| is_destroyed(pool) == options.destroyed) {
        wanted.retain(|pool| is_destroyed(pool) == options.destroyed);
    }
    match (wanted.as_slice(), select) {
        ([pool], _) => Ok(pool),
        ([], _) => {
            let wanted = asked_for(select);
            let refused = found.refused.iter().map(ToString::to_string);
            Err(ImportError::NoSuchPool { wanted, seen: found.pools.iter().map(shown).chain(refused).collect() })
        }
        (several, _) => {
            let name = several.first().map_or_else(String::new, |pool| pool.newest().name.clone());
            Err(ImportError::Ambiguous { name, guids: several.iter().map(|pool| pool.pool.to_string()).collect() })
        }
    }
}

/// Locks every leg and reads its label again: what was read before the lock decides nothing (rules F24).
fn lock_legs(platform: &Platform, pool: &FoundPool) -> Result<Vec<LockedLeg>, ImportError> {
    let mut locked: Vec<LockedLeg> = Vec::new();
    for FoundLeg { path, label: seen } in &pool.legs {
        let disk = match platform.opener.open(path, Access::Exclusive) {
            Ok(disk) => disk,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // Links to one device are one device: we have it ourselves.
                if locked.iter().any(|leg| leg.label.leg == seen.leg) {
                    continue;
                }
                return Err(ImportError::InUse { path: path.clone() });
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a leg cannot be opened");
                continue;
            }
        };
        let Ok(label) = label::read(disk.as_ref()) else { continue };
        if label.config.pool != pool.pool || label.is_spare() {
            continue;
        }
        if let Some(start) = leg_inside(disk.as_ref(), &label) {
            tracing::warn!(path = %path.display(), start, "it only ends with a leg; the leg itself is elsewhere");
            continue;
        }
        if let Some(first) = locked.iter().find(|leg| leg.label.leg == label.leg) {
            return Err(ImportError::TwoCopies { first: first.path.clone(), second: path.clone() });
        }
        let uberblocks = own_uberblocks(disk.as_ref(), pool.pool);
        locked.push(LockedLeg { path: path.clone(), disk, label, uberblocks });
    }
    Ok(locked)
}

/// The newest configuration. Two different ones of equal rank cannot both be, unless they are claims that were cut short
/// before anybody was served: then either will do.
fn newest(locked: &[LockedLeg]) -> Result<PoolConfig, ImportError> {
    let voters = || locked.iter().filter(|leg| !is_idle_claim(leg, locked));
    let order = |leg: &&LockedLeg| (leg.label.config.rank(), leg.label.config.open_id);
    let config = &voters().max_by_key(order).expect("the leg with the newest uberblock is no idle claim").label.config;
    let was_used = locked.iter().flat_map(|leg| &leg.uberblocks).any(|seen| seen.open_gen >= config.open_gen);
    let other = voters().find(|leg| leg.label.config.rank() == config.rank() && leg.label.config != *config);
    match other.filter(|_| was_used) {
        Some(other) => Err(ImportError::SplitBrain { pool: config.name.clone(), path: other.path.clone() }),
        None => Ok(config.clone()),
    }
}

/// Whether a leg's configuration is a claim behind which it has synced nothing, while others have synced more than it
/// has: the power was cut inside an import, and the next one was without this leg. Such a claim counts for nothing,
/// however high its rank is.
fn is_idle_claim(leg: &LockedLeg, locked: &[LockedLeg]) -> bool {
    let newest = |leg: &LockedLeg| leg.uberblocks.iter().map(Uberblock::rank).max();
    // Without one that can be read, nobody knows what it has synced.
    let Some(own) = newest(leg) else { return false };
    // With its note the pool has gone back, whatever others have synced before that (rules S55).
    if leg.label.config.rewinds.last().is_some_and(|note| note.open_gen > own.0) {
        return false;
    }
    own.0 < leg.label.config.open_gen && locked.iter().any(|other| newest(other) > Some(own))
}

/// Whether this machine may have the pool.
fn check_allowed(platform: &Platform, config: &PoolConfig, options: &ImportOptions) -> Result<(), ImportError> {
    let pool = config.name.clone();
    if config.state == PoolState::Destroyed && !options.destroyed {
        return Err(ImportError::Destroyed { pool });
    }
    if config.state == PoolState::Active && config.host.id != platform.host.id && !options.force {
        return Err(ImportError::OtherHost { pool, host: config.host.name.clone() });
    }
    if let Some(why) = config.why_only_read()
        && !options.read_only
    {
        return Err(ImportError::ReadOnlyFeatures { pool, why });
    }
    let sections = config.sections_needed();
    if !sections.is_empty() && !options.read_only {
        return Err(ImportError::ReadOnlySections { pool, sections });
    }
    Ok(())
}

fn assemble(
    platform: &Platform,
    config: PoolConfig,
    locked: &mut Vec<LockedLeg>,
    options: &ImportOptions,
) -> Result<(Assembled, Chosen), ImportError> {
    let (mut vdevs, mut logs, mut candidates, mut notes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let is_claim_cut = !locked.iter().flat_map(|leg| &leg.uberblocks).any(|seen| seen.open_gen >= config.open_gen);
    let shared: Vec<Uberblock> = locked
        .iter()
        .filter(|leg| config.leg(leg.label.leg).is_some_and(|(_, leg)| leg.stale_since.is_none()))
        .flat_map(|leg| leg.uberblocks.iter().cloned())
        .collect();
    let label_txg = locked.iter().map(|leg| leg.label.config.synced_txg).max().unwrap_or(Txg(0));
    for vdev_config in config.vdevs_present() {
        let legs = stand(&config, vdev_config, locked, is_claim_cut, &shared)?;
        for (leg, uberblocks) in &legs {
            if leg.state() != LegState::Online {
                notes.push(format!("{} is {}", leg.path().display(), leg.state().word()));
            }
            let stale = leg.state() != LegState::Online;
            candidates.push(Candidate { leg: leg.guid(), stale, uberblocks: uberblocks.clone() });
        }
        let legs: Vec<_> = legs.into_iter().map(|(leg, _)| Arc::new(leg)).collect();
        let vdev = Arc::new(Vdev::new(vdev_config, legs));
        if vdev.class() == VdevClass::Data && !vdev.is_usable() {
            let state = |leg: &Arc<VdevLeg>| format!("{} is {}", leg.path().display(), leg.state().word());
            let legs = vdev.legs().iter().map(state).collect();
            return Err(ImportError::VdevUnavailable { pool: config.name.clone(), vdev: vdev.index(), legs });
        }
        if vdev.class() == VdevClass::Data { &mut vdevs } else { &mut logs }.push(vdev);
    }
    let choose = if options.goes_back { choose_unheard } else { choose };
    let chosen = choose(config.pool, &candidates, label_txg, &config.rewinds);
    let chosen = chosen.map_err(|why| ImportError::Choose { pool: config.name.clone(), why })?;
    let all = vdevs.iter().chain(&logs).map(Arc::clone).collect();
    let roster = Roster::new(config.clone(), all, platform);
    roster.note_durable(chosen.uberblock.txg);
    Ok((Assembled { config, roster, vdevs, logs, notes }, chosen))
}

/// Decides how each leg of a vdev stands, and takes its disk out of `locked`. With `is_claim_cut` nothing was synced since
/// the newest claim. `shared`: the uberblocks of all legs in use.
fn stand(
    config: &PoolConfig,
    vdev: &VdevConfig,
    locked: &mut Vec<LockedLeg>,
    is_claim_cut: bool,
    shared: &[Uberblock],
) -> Result<Vec<(VdevLeg, Vec<Uberblock>)>, ImportError> {
    let best_open_gen = vdev
        .legs
        .iter()
        .filter(|leg| leg.stale_since.is_none())
        .filter_map(|leg| locked.iter().find(|locked| locked.label.leg == leg.guid))
        .map(|leg| leg.label.config.open_gen)
        .max();
    let gen_needed = if is_claim_cut { 0 } else { best_open_gen.unwrap_or(0) };
    let mut legs = Vec::new();
    for leg in &vdev.legs {
        let locked = locked.iter().position(|locked| locked.label.leg == leg.guid).map(|at| locked.swap_remove(at));
        let Some(LockedLeg { path, disk, label, uberblocks }) = locked else {
            let state = if leg.is_offline { LegState::Offline } else { LegState::Missing };
            legs.push((VdevLeg::new(leg.guid, leg.path.clone(), None, state), Vec::new()));
            continue;
        };
        if leg.is_offline {
            legs.push((VdevLeg::new(leg.guid, leg.path.clone(), None, LegState::Offline), uberblocks));
            continue;
        }
        let fits = data_bytes_of(disk.geometry().size).is_some_and(|bytes| bytes >= vdev.data_bytes);
        let state = if !fits {
            LegState::Missing
        } else if leg.is_ahead_of_its_drop(&label.config) {
            if !shares_a_leg(leg.guid, config, &label.config) && !has_only(&uberblocks, shared) {
                return Err(ImportError::SplitBrain { pool: config.name.clone(), path });
            }
            LegState::Stale
        } else {
            standing(config, vdev, leg, &label.config, gen_needed)
        };
        let disk = (state != LegState::Missing).then_some(disk);
        let found = VdevLeg::new(leg.guid, path, disk, state);
        let is_of_its_set = !leg.is_ahead_of_its_drop(&label.config) && has_every_frame(config, leg, &label.config);
        let has_frames = is_of_its_set && has_the_last_group(leg, &uberblocks);
        legs.push((if has_frames { found.with_frames() } else { found }, uberblocks));
    }
    if vdev.class == VdevClass::Data {
        distrust_older_copies(&legs);
    }
    Ok(legs)
}

/// Whether a leg's own configuration has a leg in use that the newest one has in use, too: whatever was synced under it is
/// on that one as well.
fn shares_a_leg(leg: VdevGuid, newest: &PoolConfig, own: &PoolConfig) -> bool {
    let in_use = |config: &PoolConfig| -> BTreeSet<VdevGuid> {
        let legs = config.vdevs_present().flat_map(|vdev| &vdev.legs);
        legs.filter(|other| other.stale_since.is_none() && other.guid != leg).map(|leg| leg.guid).collect()
    };
    !in_use(newest).is_disjoint(&in_use(own))
}

/// Whether a leg's newest uberblock is one of these: then it has synced nothing that the others do not know.
fn has_only(uberblocks: &[Uberblock], shared: &[Uberblock]) -> bool {
    uberblocks.iter().max_by_key(|uberblock| uberblock.rank()).is_some_and(|newest| shared.contains(newest))
}

/// The table of docs/on-disk.md, "Which configuration holds", for any other leg that is there.
fn standing(newest: &PoolConfig, vdev: &VdevConfig, leg: &LegConfig, own: &PoolConfig, gen_needed: u64) -> LegState {
    if leg.stale_since.is_none() {
        let is_current = own.rank() == newest.rank()
            || own.open_gen >= gen_needed && own.sequence.saturating_add(1) >= newest.sequence;
        return if is_current { LegState::Online } else { LegState::Stale };
    }
    // There is nothing else that a log device could lack.
    let is_whole = vdev.class == VdevClass::Log && has_every_frame(newest, leg, own);
    if is_whole { LegState::Online } else { LegState::Stale }
}

/// Whether a leg that was struck off is the last of its lane, which has ended with it.
fn has_every_frame(newest: &PoolConfig, leg: &LegConfig, own: &PoolConfig) -> bool {
    let is_last_of_lane = newest.lanes.iter().any(|line| line.legset == [leg.guid]);
    // It was struck off for refusing a label, or a frame while one was written.
    is_last_of_lane && leg.stale_since.is_some_and(|dropped| own.sequence.saturating_add(2) >= dropped)
}

/// Whether a disk has the group that was durable when it was struck off. An older copy of it may have a label of then, as that may not have changed for
/// long, and has neither that group nor the frames behind it.
fn has_the_last_group(leg: &LegConfig, uberblocks: &[Uberblock]) -> bool {
    let newest = uberblocks.iter().map(|uberblock| uberblock.txg).max();
    let missed = leg.missed.ranges().last();
    missed.zip(newest).is_some_and(|(missed, newest)| newest.next() >= missed.from)
}

/// Two or more uberblocks behind a sibling: not a power cut.
fn distrust_older_copies(legs: &[(VdevLeg, Vec<Uberblock>)]) {
    let online = || legs.iter().filter(|(leg, _)| leg.state() == LegState::Online);
    let ranks: BTreeSet<_> = online().flat_map(|(_, uberblocks)| uberblocks.iter().map(Uberblock::rank)).collect();
    for (leg, uberblocks) in online() {
        let newest = uberblocks.iter().map(Uberblock::rank).max();
        if ranks.iter().filter(|rank| newest.is_none_or(|newest| **rank > newest)).count() >= 2 {
            tracing::warn!(leg = %leg.guid(), path = %leg.path().display(), "an older copy of a leg");
            leg.set_state(LegState::Stale);
        }
    }
}

fn own_uberblocks(disk: &dyn Disk, pool: PoolGuid) -> Vec<Uberblock> {
    let found = uberblock::read_all(disk).into_iter().filter_map(|slot| slot.content.ok().flatten());
    found.filter(|uberblock| uberblock.pool == pool).collect()
}

#[cfg(test)]
mod tests;
