//! What was seen to go wrong on failing disks, and must not again. Each case takes less than a minute.

mod bad_sector;
mod hung_leg;
mod lost_cache;
mod rotten_sector;
mod silent_damage;
mod silent_end;
mod silent_leg;
mod silent_newcomer;
mod suspended;
mod two_refusals;

use std::path::Path;

use anyhow::Result;

/// What a case is given.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The binary.
    pub binary: &'a Path,
    /// Where randomness starts.
    pub seed: u64,
    /// How many sectors rot, one after the other.
    pub draws: u32,
}

/// A case: an error is what went wrong.
pub struct Case {
    /// By which it is asked for.
    pub name: &'static str,
    /// What it does.
    pub run: fn(Given<'_>) -> Result<()>,
}

/// All of them: every change is tried with each.
pub const CASES: [Case; 12] = [
    Case { name: "bad-sector", run: bad_sector::run },
    Case { name: "two-refusals", run: two_refusals::run },
    Case { name: "lost-cache", run: lost_cache::run },
    Case { name: "rotten-sector", run: rotten_sector::run },
    Case { name: "hung-leg", run: hung_leg::run },
    Case { name: "silent-leg", run: silent_leg::run },
    Case { name: "silent-damage", run: silent_damage::run },
    Case { name: "silent-end", run: silent_end::run },
    Case { name: "silent-end-alone", run: silent_end::run_with_one_signal },
    Case { name: "silent-end-beside", run: silent_end::run_beside_a_slow_export },
    Case { name: "silent-newcomer", run: silent_newcomer::run },
    Case { name: "suspended", run: suspended::run },
];

const MIB: u64 = 1 << 20;
