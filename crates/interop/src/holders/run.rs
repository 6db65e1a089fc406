//! The kills.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::Trouble;
use super::client::{Client, Common, Minor, NOBODY};
pub use super::truth::Counts;
use super::truth::Truth;
use crate::child::{Program, Server};
use crate::random::Random;

/// Clients.
pub(super) const CLIENTS: usize = 8;
/// What the server exports by itself.
pub(super) const EXPORT: &str = "/tank";
/// Longest work before a kill, behind the last one that has come back.
const WORK_MS_MAX: u64 = 600;
/// So many kills in a hundred come while clients come back.
const EARLY_KILLS: u64 = 20;
/// Longest time until one of these.
const EARLY_MS_MAX: u64 = 60;
/// Behind the first, and so many kills in a hundred, a client stays away.
const AWAY: u64 = 30;
/// Longest time for which it does, unless there is another kill meanwhile: grace and lease of those who come are over by then, or are not.
const AWAY_MS_MAX: u64 = 14_000;
/// How long it may take until all clients have come back.
const COMING_BACK_MAX: Duration = Duration::from_secs(60);

/// How long a lease is, in seconds: the shortest, as with clients of 4.0 a grace takes all of one.
const LEASE_SECONDS: u32 = 5;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The server.
    pub program: Program,
    /// How many of its clients speak 4.0.
    pub minor_0: usize,
    /// Whether one of them stays away behind some kills, often for longer than a lease.
    pub stay_away: bool,
    /// How often it is killed.
    pub kills: u32,
    /// Where randomness starts.
    pub seed: u64,
}

/// How a run ended.
#[derive(Debug)]
pub struct Verdict {
    /// Kills that were survived.
    pub kills: u32,
    /// Everything that was done.
    pub counts: Counts,
    /// The first broken promise.
    pub violation: Option<String>,
}

/// Runs a plan in `folder`. An error is a fault of the surroundings, or of a server that never started.
pub fn run(plan: &Plan, folder: &Path) -> anyhow::Result<Verdict> {
    let program = Program { lease_seconds: Some(LEASE_SECONDS), ..plan.program.clone() };
    let mut server = Server::new(program, folder)?;
    server.start()?;
    // It has to have answered something before it minds signals.
    tally_bench::wire::Connection::open(server.address())?.mnt(EXPORT).with_context(|| server.messages())?;
    server.stop()?;
    server.start()?;
    let lease = Duration::from_secs(LEASE_SECONDS.into());
    let truth = Truth::new(lease, plan.minor_0 == 0);
    let (is_over, is_broken_off) = Default::default();
    let away = AtomicUsize::new(NOBODY);
    let common = Common { server: server.address(), truth, is_over, is_broken_off, away };
    let found = Mutex::new(None);
    let is_found = |said: String| {
        found.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(said);
        common.is_broken_off.store(true, Ordering::Relaxed);
    };
    let mut clients: Vec<_> =
        (0..CLIENTS).map(|number| Client::new(number, minor(plan, number), &common, plan.seed)).collect();
    let kills = std::thread::scope(|scope| -> anyhow::Result<u32> {
        for client in &mut clients {
            let is_found = &is_found;
            scope.spawn(move || {
                if let Some(said) = said(client.number, client.work()) {
                    is_found(said);
                }
            });
        }
        let kills = kill(plan, &mut server, &common, &is_found);
        common.is_over.store(true, Ordering::Relaxed);
        kills
    })?;
    if found.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
        for client in &mut clients {
            if let Some(said) = said(client.number, client.finish()) {
                is_found(said);
            }
        }
        if let Some(said) = said(CLIENTS, common.truth.check_names()) {
            is_found(said);
        }
    }
    let violation = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let violation = violation.map(|said| format!("{said}\nthe server said last:\n{}", server.messages()));
    Ok(Verdict { kills, counts: common.truth.counts(), violation })
}

/// The first ones speak 4.0.
fn minor(plan: &Plan, number: usize) -> Minor {
    if number < plan.minor_0 { Minor::Zero } else { Minor::One }
}

fn said(client: usize, came: super::Result<()>) -> Option<String> {
    match came {
        Ok(()) | Err(Trouble::Enough) => None,
        Err(Trouble::Violation(said)) => Some(format!("client {client}: {said}")),
        Err(trouble) => Some(format!("client {client}: {trouble:?} is told to nobody")),
    }
}

/// Kills the server so often, or until somebody has found something. In the end all clients have come back: who stays away would be waited for.
fn kill(plan: &Plan, server: &mut Server, common: &Common, is_found: &dyn Fn(String)) -> anyhow::Result<u32> {
    let mut random = Random::new(plan.seed, 1000);
    for kill in 0..plan.kills {
        if random.chance(EARLY_KILLS) {
            std::thread::sleep(Duration::from_millis(random.below(EARLY_MS_MAX)));
        } else {
            if common.away.load(Ordering::Relaxed) != NOBODY {
                std::thread::sleep(Duration::from_millis(random.below(AWAY_MS_MAX)));
                common.away.store(NOBODY, Ordering::Relaxed);
            }
            wait_for_all(common, is_found);
            if plan.minor_0 > 0 {
                wait_until(common, is_found, "nobody is given anything new", Truth::is_anything_given);
            }
            std::thread::sleep(Duration::from_millis(20 + random.below(WORK_MS_MAX)));
        }
        if common.is_broken_off() {
            return Ok(kill);
        }
        if !server.runs()? {
            is_found("the server ended by itself".into());
            return Ok(kill);
        }
        if plan.stay_away && common.away.load(Ordering::Relaxed) == NOBODY && (random.chance(AWAY) || kill == 0) {
            common.away.store(random.below(CLIENTS as u64) as usize, Ordering::Relaxed);
        }
        server.kill()?;
        common.truth.new_life(Some(common.away.load(Ordering::Relaxed)).filter(|away| *away != NOBODY));
        if let Err(error) = server.start() {
            is_found(format!("{error:#}"));
            return Ok(kill);
        }
    }
    common.away.store(NOBODY, Ordering::Relaxed);
    wait_for_all(common, is_found);
    Ok(plan.kills)
}

fn wait_for_all(common: &Common, is_found: &dyn Fn(String)) {
    wait_until(common, is_found, "not all clients have come back", Truth::are_all_complete);
}

fn wait_until(common: &Common, is_found: &dyn Fn(String), otherwise: &str, is_so: fn(&Truth) -> bool) {
    let began = Instant::now();
    while !is_so(&common.truth) && !common.is_broken_off() {
        if began.elapsed() > COMING_BACK_MAX {
            is_found(format!("{otherwise} in {COMING_BACK_MAX:?}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
