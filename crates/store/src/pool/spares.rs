//! Hot spares: when one is taken for a disk that is away, and when it is given back.
//!
//! The problem: a mirror whose disk is gone has nobody to fall back on, until somebody comes and gives it another one. A spare
//! is that other one, and nobody has to come. But a disk that somebody pulls for a minute is no reason to copy terabytes, and
//! a pool must not copy to a spare over and over because it refuses writes.
//!
//! The idea: [`SpareWatch`] looks at the pool every now and then, with a time that it is given, and says what is to be done. All
//! that it remembers is for how long each disk has been away, and what did not go well; what the labels say is the rest, so
//! that it goes on behind a restart where it was. What is to be done are the steps that there are: a spare joins as any
//! disk does ([`super::membership`]), comes back if it was cut off, and leaves as any disk does.
//!
//! | the disk | its spare | what is done |
//! |---|---|---|
//! | is away since [`AWAY_MIN`] | there is none that counts or joins | one that fits is taken |
//! | is away | has missed changes: its copy was cut off | it is brought up to date, or copied anew |
//! | any | in use, and not there | it is brought up to date when it is |
//! | is back, and has everything | in use | it is given back, once nothing is right on it alone |
//! | has been detached | in use | it stays for good, and is no spare any more |
//!
//! The same watch goes on with copies to disks that somebody has let join, and that were cut off ([`super::joining`]).
//!
//! Only data: a log that has lost its disk loses nothing, and the pool goes on without it. A disk that was taken out of use by
//! command gets no spare. Nor does a spare that fails in its turn: the disk for which it stands gets another one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tally_base::VdevGuid;
use tally_members::label::{LABEL_BYTES, PoolConfig, Spare, VdevClass};
use tally_members::roster::Roster;
use tally_members::vdev::{LegState, VdevLeg};

use super::Pool;
use super::membership::{Copied, Member, MembershipError, Onlooker};
use crate::pool::SecureReport;

/// How long a disk must have been away until a spare is taken for it. Who changes a cable, or starts the disk's box anew, needs
/// less; and what came meanwhile is brought along in less time than a copy takes.
pub const AWAY_MIN: Duration = Duration::from_secs(300);
/// How long it is waited behind what did not go well, at first; twice as long each time.
const AGAIN_MIN: Duration = Duration::from_secs(60);
/// And at most: each try may read the whole pool.
const AGAIN_MAX: Duration = Duration::from_secs(6 * 3600);

/// What a pool does by itself for disks that are away, or were cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpareErrand {
    /// A spare is taken for a leg that is away.
    Take {
        /// The spare, by its guid.
        spare: VdevGuid,
        /// The leg that it is to stand in for.
        away: VdevGuid,
    },
    /// A spare in use that was cut off is brought up to date.
    Return {
        /// The spare, by its guid.
        spare: VdevGuid,
    },
    /// A disk that somebody has let join was cut off, and its copy goes on; or the one that it replaces has not left yet.
    GoOn {
        /// The disk that joins.
        leg: VdevGuid,
    },
    /// The leg that it stood for has everything again.
    GiveBack {
        /// The spare, by its guid.
        spare: VdevGuid,
    },
    /// Spares of a mirror whose legs have left it are none any more.
    Keep {
        /// The mirror whose legs have left it.
        vdev: VdevGuid,
    },
}

impl SpareErrand {
    /// About whom it is: what failed is tried again later.
    const fn about(self) -> VdevGuid {
        match self {
            Self::Take { away, .. } => away,
            Self::GoOn { leg } => leg,
            Self::Return { spare } | Self::GiveBack { spare } => spare,
            Self::Keep { vdev } => vdev,
        }
    }
}

/// Who looks. See the head of this module.
#[derive(Default)]
pub struct SpareWatch {
    /// Since when each leg has been away.
    away_since: BTreeMap<VdevGuid, Duration>,
    /// What did not go well, and about whom: when it is tried again, and how long that was put off.
    again: BTreeMap<VdevGuid, (Duration, Duration)>,
    /// Legs whose spare somebody has given back by command: none is taken until they have been there.
    declined: BTreeSet<VdevGuid>,
    /// How often each spare was to be taken and could not: another one is tried first.
    failed: BTreeMap<VdevGuid, u64>,
    /// Spares that the last look did not find where they should be, and why.
    absent: BTreeMap<VdevGuid, String>,
}

impl SpareWatch {
    /// What is to be done, at this time of a clock that never goes back.
    pub fn look(&mut self, pool: &Pool, now: Duration) -> Vec<SpareErrand> {
        let roster = &pool.roster;
        let config = roster.config();
        let mut away = away(roster, &config);
        // Nobody misses one that has never counted, or is about to leave.
        away.retain(|guid, _| !pool.is_joining(*guid) && !pool.is_leaving(*guid));
        self.away_since.retain(|guid, _| away.contains_key(guid));
        self.declined.retain(|guid| away.contains_key(guid));
        for guid in away.keys() {
            self.away_since.entry(*guid).or_insert(now);
        }
        let mut errands = self.for_spares_in_use(roster, &config, &away);
        // With one that goes back its job goes, too.
        let joining = for_joining(pool, &config).into_iter();
        let goes_back = |leg: VdevGuid| errands.contains(&SpareErrand::GiveBack { spare: leg });
        let joining: Vec<_> = joining.filter(|leg| !goes_back(*leg)).map(|leg| SpareErrand::GoOn { leg }).collect();
        errands.extend(joining);
        // What waits for its next try keeps no spare from others.
        let is_due = |about| self.again.get(&about).is_none_or(|(at, _)| *at <= now);
        errands.retain(|errand| is_due(errand.about()));
        for (guid, leg) in &away {
            // One that is about to go on may be back before a spare has joined.
            let goes_on = errands.contains(&SpareErrand::GoOn { leg: *guid });
            if self.is_long_enough(leg, now) && is_due(*guid) && !goes_on && !is_stood_for(roster, &config, *guid) {
                let taken = |spare: &Spare| errands.iter().any(|errand| takes(*errand, spare.guid));
                let spare = self.best(&config, *guid, &taken).map(|spare| spare.guid);
                errands.extend(spare.map(|spare| SpareErrand::Take { spare, away: *guid }));
            }
        }
        errands
    }

    /// An errand did not come to its end, or did.
    pub fn note(&mut self, errand: SpareErrand, is_done: bool, now: Duration) {
        let about = errand.about();
        if let SpareErrand::Take { spare, .. } = errand {
            let failures = self.failed.entry(spare).or_default();
            *failures = if is_done { 0 } else { *failures + 1 };
        }
        if is_done {
            self.again.remove(&about);
            return;
        }
        let waited = self.again.get(&about).map_or(AGAIN_MIN, |(_, waited)| (*waited * 2).min(AGAIN_MAX));
        self.again.insert(about, (now + waited, waited));
    }

    /// Somebody has given back by command what stood for this leg.
    pub fn decline(&mut self, leg: VdevGuid) {
        self.declined.insert(leg);
    }

    /// Whether a spare that waits is where it should be.
    pub fn note_presence(&mut self, spare: VdevGuid, found: Result<(), String>) {
        match found {
            Ok(()) => drop(self.absent.remove(&spare)),
            Err(why) => drop(self.absent.insert(spare, why)),
        }
    }

    /// Why a spare that waits could not be used when it was last looked at.
    #[must_use]
    pub fn absence(&self, spare: VdevGuid) -> Option<&str> {
        self.absent.get(&spare).map(String::as_str)
    }

    fn is_long_enough(&self, leg: &VdevLeg, now: Duration) -> bool {
        let since = self.away_since.get(&leg.guid()).copied().unwrap_or(now);
        let is_long = now.saturating_sub(since) >= AWAY_MIN;
        is_long && !self.declined.contains(&leg.guid())
    }

    fn for_spares_in_use(
        &self,
        roster: &Roster,
        config: &PoolConfig,
        away: &BTreeMap<VdevGuid, Arc<VdevLeg>>,
    ) -> Vec<SpareErrand> {
        let mut errands = Vec::new();
        for (Spare { guid, stands_for, .. }, vdev) in config.spares_in_use() {
            let (spare, keep) = (*guid, SpareErrand::Keep { vdev: vdev.guid });
            let original = stands_for.and_then(|leg| config.leg(leg));
            let is_whole = original.is_some_and(|(_, leg)| {
                leg.stale_since.is_none() && leg.missed.is_empty() && !away.contains_key(&leg.guid)
            });
            match state_of(roster, spare) {
                _ if original.is_none() && errands.contains(&keep) => {}
                _ if original.is_none() => errands.push(keep),
                // Something may be right on it alone, which nobody can tell while it is not there.
                Some(LegState::Missing) => errands.push(SpareErrand::Return { spare }),
                Some(LegState::Offline) => {}
                _ if is_whole => errands.push(SpareErrand::GiveBack { spare }),
                Some(LegState::Stale | LegState::Resilvering) => errands.push(SpareErrand::Return { spare }),
                _ => {}
            }
        }
        errands
    }

    /// The smallest spare that is large enough, is there, and is meant for nobody else.
    fn best<'a>(&self, config: &'a PoolConfig, leg: VdevGuid, taken: &dyn Fn(&Spare) -> bool) -> Option<&'a Spare> {
        let (vdev, _) = config.leg(leg)?;
        let fits = |spare: &&Spare| {
            let is_there = !self.absent.contains_key(&spare.guid);
            spare.size >= vdev.data_bytes + 2 * LABEL_BYTES && is_there && !taken(spare)
        };
        let failures = |spare: &Spare| self.failed.get(&spare.guid).copied().unwrap_or(0);
        config.spares_available().filter(fits).min_by_key(|spare| (failures(spare), spare.size))
    }
}

fn takes(errand: SpareErrand, wanted: VdevGuid) -> bool {
    matches!(errand, SpareErrand::Take { spare, .. } if spare == wanted)
}

pub(super) fn state_of(roster: &Roster, leg: VdevGuid) -> Option<LegState> {
    roster.vdevs().iter().find_map(|vdev| vdev.leg(leg)).map(|leg| leg.state())
}

/// The legs of data vdevs that are away, but for spares, and those that somebody has taken out of use.
fn away(roster: &Roster, config: &PoolConfig) -> BTreeMap<VdevGuid, Arc<VdevLeg>> {
    let is_away = |state| matches!(state, LegState::Stale | LegState::Missing | LegState::Faulted);
    let legs = roster.data_legs().filter(|leg| is_away(leg.state()) && config.spare(leg.guid()).is_none());
    legs.map(|leg| (leg.guid(), leg)).collect()
}

/// Disks whose copy was cut off. A spare is brought up to date as one, and one that was put away or has failed waits for somebody.
fn for_joining(pool: &Pool, config: &PoolConfig) -> Vec<VdevGuid> {
    let counts = |leg| state_of(&pool.roster, leg) == Some(LegState::Online);
    let is_due = |leg: &VdevGuid| pool.goes_on_by_itself(*leg) && (config.spare(*leg).is_none() || counts(*leg));
    pool.joins().into_iter().map(|job| job.leg).filter(is_due).collect()
}

/// Whether a spare is in the place of a leg, or on its way to that.
fn is_stood_for(roster: &Roster, config: &PoolConfig, leg: VdevGuid) -> bool {
    let counts = |spare: &Spare| {
        let state = state_of(roster, spare.guid);
        matches!(state, Some(LegState::Online | LegState::Resilvering | LegState::Stale))
    };
    config.spares_in_use().any(|(spare, _)| spare.stands_for == Some(leg) && counts(spare))
}

impl Pool {
    /// Lets a spare join in the place of a disk, which stays what it is.
    pub fn take_spare(
        &self,
        place: &Member,
        spare: VdevGuid,
        onlooker: &mut dyn Onlooker,
    ) -> Result<Copied, MembershipError> {
        self.check_take_spare(place, spare)?;
        let leg = self.roster.take_spare(&self.platform, spare, place.leg)?;
        self.join_with(place, leg, None, onlooker)
    }

    /// Whether a spare could stand in for a disk; its own disk is not looked at.
    pub fn check_take_spare(&self, place: &Member, spare: VdevGuid) -> Result<(), MembershipError> {
        self.roster.check_changeable()?;
        let config = self.roster.config();
        let needed = place.config.data_bytes + 2 * LABEL_BYTES;
        if let Some(line) = config.spare(spare).filter(|line| line.size < needed) {
            let why = "is smaller than the disks of that mirror; take another spare, or `tally pool add` a larger one";
            return Err(MembershipError::Refused { path: line.path.clone(), why });
        }
        if place.config.class != VdevClass::Data {
            let path = place.path();
            let why = "is of the intent log, for which no spare is taken; `tally pool replace` gives it another disk";
            return Err(MembershipError::Refused { path, why });
        }
        if place.vdev.leg(place.leg).is_some_and(|leg| leg.state() == LegState::Online) {
            let path = place.path();
            let why = "is there and has everything, so that no spare stands in for it. To give it up for the spare, take that out with \
                       `tally pool remove`, and then `tally pool replace`";
            return Err(MembershipError::Refused { path, why });
        }
        Ok(())
    }

    /// Gives a spare back that is in use, once nothing is right on it alone.
    pub fn give_back_spare(
        &self,
        place: &Member,
        onlooker: &mut dyn Onlooker,
    ) -> Result<SecureReport, MembershipError> {
        let secured = self.make_sure(place, onlooker)?;
        self.leave(place, onlooker)?;
        Ok(secured)
    }
}
