//! What clients of version 4 hold, over all lives of a server: one seed of opens, locks, delegations and calls for them, lost replies, silences, kills and power cuts, and of what is claimed again behind them.
//!
//! ```text
//!          ┌──────── step: a client asks, is silent, starts anew; version 3 beside; time; a pool comes or goes ◀──┐
//!   life ──┤                                                                                                      │
//!          └─ a kill, or a power cut, perhaps in the middle of a request ─▶ import ─▶ a look at all that is there ─┘
//! ```
//!
//! Requests run one after the other, each to its end; what only two at once do wrong tests find (`nfs/tests/it/seams.rs`). Three things are kept beside the server and apart from
//! its code: what each client [believes](caller) to have, who [was given](ledger) what, and what may be in [files]. A reply is judged by them when it comes, whether or not its
//! client gets it.
//!
//! Only where a request waits for what another client keeps are there others inside of it: the server's calls are answered, and what they ask for is given back, before it goes on.
//!
//! A pool that is exported and imported in one process goes on for its clients, or it is away for longer than that is kept: then what they have there is revoked, and they are taken for told at once, as they stay in the
//! pool's list (docs/nfs4.md).

mod caller;
mod claims;
mod content;
mod files;
mod judge;
mod kept;
mod lasting;
mod leases;
mod ledger;
mod lives;
mod older;
mod recalls;
mod shares;
mod steps;
mod third;
mod world;

use std::collections::BTreeSet;
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::chance::{Chance, Stream};
use crate::client::Client;
use crate::panics::{PANICKED_AT, quietly};
use caller::Caller;
use files::{Files, Handle};
use lasting::Lasting;
use leases::{LEASE, Leases};
use ledger::{Grant, Ledger, Moment};
use recalls::Recalls;
use third::Again;
use world::{FOLDERS, POOLS, World};

/// `Err` says what was found wrong.
type Checked<T> = Result<T, String>;

/// Clients of version 4, the last of which is of minor version 0, and the others of 1.
const CALLERS: usize = 4;
const OLDER: usize = 3;
/// Names in each folder.
const NAMES: [&str; 2] = ["a", "b"];

/// One history, and how far it goes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Everything that happens follows from it.
    pub seed: u64,
    /// Steps in all, over all lives.
    pub steps: usize,
}

/// How a run ended badly.
#[derive(Debug)]
pub struct Failure {
    /// What was found wrong.
    pub message: String,
    /// What led to it.
    pub trace: Vec<String>,
}

macro_rules! totals {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a run has come through.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals { $($(#[$doc])* pub $name: u64,)* }

        impl AddAssign for Totals {
            fn add_assign(&mut self, other: Self) { $(self.$name += other.$name;)* }
        }

        impl Totals {
            /// Each with its name.
            #[must_use]
            pub fn each(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

totals! {
    /// Processes that were killed, their disks as written.
    kills,
    /// Power cuts.
    cuts,
    /// Of these, in the middle of a request or an import.
    cuts_in_requests,
    /// Kills in the middle of a request.
    kills_in_requests,
    /// Of both, while somebody could claim something.
    crashes_in_grace,
    /// Imports of a pool beside one that was served already.
    late_imports,
    /// Exports.
    exports,
    /// Exports with an import behind them, by which nobody loses anything.
    blinks,
    /// Opens that were given.
    opens,
    /// Opens that somebody was in the way of.
    share_denied,
    /// Ranges that were locked.
    locks,
    /// Ranges that somebody was in the way of.
    lock_denied,
    /// What was refused as others might claim something.
    grace,
    /// Closes, downgrades, unlocks.
    given_up,
    /// Opens and ranges that were given again.
    claims,
    /// Claims that were refused, as somebody else was given that, or the time was over.
    claims_refused,
    /// Of these, by who had said that it claims nothing more, or never had anything.
    claims_out_of_turn,
    /// Clients that were ended for another one, as their leases were over.
    ended,
    /// Opens of minor version 0.
    older_opens,
    /// What it had open or locked and was given again.
    older_claims,
    /// What it asked when it was not its turn.
    out_of_turn,
    /// Clients that started anew.
    started_anew,
    /// Reads and writes by an open.
    io_by_open,
    /// Of these, of a file that has no name.
    nameless_io,
    /// Of these, by an open that was claimed again.
    nameless_io_behind,
    /// Files without a name that went when nobody had them.
    nameless_gone,
    /// Reads and writes by no open.
    io_by_nobody,
    /// Of these, that what somebody denies kept out.
    locked,
    /// Requests of version 3.
    third,
    /// Requests that came again, and were told the same bytes.
    repetitions,
    /// Of these, while the first waited.
    repetitions_beside,
    /// Slots that another request came for.
    false_repetitions,
    /// Stateids of sessions that were over.
    old_stateids,
    /// Times in which nobody was answered for longer than a lease.
    jumps,
    /// Sessions of a life before, which clients went on in.
    dead_sessions,
    /// Requests that came again in such sessions as outlive the server.
    dead_retries,
    /// Of these, those that a pool knew.
    dead_told,
    /// Of these, those that were to change a name, and were not answered before.
    dead_lost,
    /// Other requests for the slots of those.
    dead_false,
    /// Files that a client was given to keep.
    kept,
    /// The same, again behind a crash.
    kept_again,
    /// Claims of that which were refused.
    kept_refused,
    /// Files that a client was given for writing.
    kept_to_write,
    /// The same, again behind a crash.
    kept_to_write_again,
    /// What clients wrote there without a word.
    written_to_send,
    /// What they sent of it.
    sent,
    /// Clients that were asked how such a file is by now.
    looks,
    /// Looks that were told so.
    seen,
    /// Of these, where there was something to be sent.
    seen_newer,
    /// Requests of version 3 and of others that waited for what may be claimed for writing.
    kept_out_by_claims,
    /// Clients that were called for what they keep.
    recalls,
    /// Requests of version 3 that what a client keeps was in the way of.
    recalls_for_third,
    /// Requests that waited for that, of all versions.
    parked,
    /// Of these, those that were told to come again.
    kept_out,
    /// What was given back.
    returned,
    /// What was not, and was taken.
    revoked,
}

/// What a thousand seeds of 200 steps have to come through at least: a class of events that is not met proves nothing.
pub const FLOORS: [(&str, u64); 56] = [
    ("kills", 1600),
    ("cuts", 1200),
    ("cuts_in_requests", 420),
    ("kills_in_requests", 270),
    ("crashes_in_grace", 500),
    ("late_imports", 400),
    ("exports", 310),
    ("blinks", 96),
    ("opens", 5600),
    ("share_denied", 1400),
    ("locks", 2300),
    ("lock_denied", 36),
    ("grace", 7200),
    ("given_up", 2600),
    ("claims", 2800),
    ("claims_refused", 900),
    ("claims_out_of_turn", 1000),
    ("ended", 25),
    ("older_opens", 3300),
    ("older_claims", 1000),
    ("out_of_turn", 230),
    ("started_anew", 390),
    ("io_by_open", 1600),
    ("nameless_io", 200),
    ("nameless_io_behind", 110),
    ("nameless_gone", 1100),
    ("io_by_nobody", 470),
    ("locked", 100),
    ("third", 39500),
    ("repetitions", 9900),
    ("repetitions_beside", 9600),
    ("false_repetitions", 230),
    ("old_stateids", 270),
    ("jumps", 410),
    ("dead_sessions", 5000),
    ("dead_retries", 7500),
    ("dead_told", 230),
    ("dead_lost", 25),
    ("dead_false", 1900),
    ("kept", 1100),
    ("kept_again", 180),
    ("kept_refused", 240),
    ("kept_to_write", 1500),
    ("kept_to_write_again", 380),
    ("written_to_send", 1100),
    ("sent", 470),
    ("looks", 420),
    ("seen", 380),
    ("seen_newer", 150),
    ("kept_out_by_claims", 4100),
    ("recalls", 450),
    ("recalls_for_third", 1000),
    ("parked", 800),
    ("kept_out", 700),
    ("returned", 350),
    ("revoked", 40),
];

/// Runs a plan.
pub fn run(plan: &Plan) -> Result<(Totals, Vec<String>), Failure> {
    PANICKED_AT.take();
    let mut trace = Vec::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut story = Story::new(plan)?;
        let outcome = story.tell(plan.steps);
        trace = std::mem::take(&mut story.trace);
        outcome.map(|()| story.totals)
    }));
    let message = match outcome {
        Ok(Ok(totals)) => return Ok((totals, trace)),
        Ok(Err(message)) => match PANICKED_AT.take() {
            place if place.is_empty() => message,
            place => format!("{message} (a panic at {place} was caught)"),
        },
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            format!("panic at {}: {}", PANICKED_AT.take(), text.unwrap_or_default())
        }
    };
    Err(Failure { message, trace })
}

/// Runs these seeds, so many at once: what they came through, or the first that failed, as its command repeats it.
pub fn sweep(seeds: std::ops::Range<u64>, steps: usize, threads: usize) -> Result<Totals, String> {
    let next = AtomicU64::new(seeds.start);
    let one_after_the_other = || {
        let mut totals = Totals::default();
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.end {
                return Ok(totals);
            }
            match run(&Plan { seed, steps }) {
                Ok((of_seed, _)) => totals += of_seed,
                Err(failure) => {
                    next.store(seeds.end, Relaxed);
                    return Err((seed, failure));
                }
            }
        }
    };
    let ended = quietly(|| {
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(one_after_the_other)).collect();
            workers.into_iter().map(|worker| worker.join().expect("a history's panic is a failure")).collect::<Vec<_>>()
        })
    });
    // Those before the first that failed were all run to their ends.
    if let Some((seed, Failure { message, trace })) =
        ended.iter().filter_map(|ended| ended.as_ref().err()).min_by_key(|(seed, _)| *seed)
    {
        let repeat = format!("cargo xtask holding -- --seed {seed} --steps {steps}");
        return Err(format!("{}\nseed {seed} fails: {message}\nrepeat it with: {repeat}", trace.join("\n")));
    }
    let mut totals = Totals::default();
    ended.into_iter().flatten().for_each(|of_thread| totals += of_thread);
    Ok(totals)
}

/// The state of a run.
struct Story {
    chance: Chance,
    trace: Vec<String>,
    totals: Totals,
    world: World,
    leases: Leases,
    callers: Vec<Caller>,
    third: Client,
    third_again: Option<Again>,
    ledger: Ledger,
    files: Files,
    /// When each client was heard last, by the time that counts.
    heard: [Duration; CALLERS],
    /// Somebody asked for what a client has whose lease was over.
    crossed: [bool; CALLERS],
    /// In which life a client's session was made.
    session_of: [u64; CALLERS],
    /// It has started, and nobody was told yet.
    starting: [bool; CALLERS],
    life: u64,
    /// When a pool came, and when the server looked after it first.
    imported: [Option<Duration>; POOLS],
    looked: [Option<Duration>; POOLS],
    /// Somebody was kept out for the end of its grace.
    end_written: [bool; POOLS],
    /// When a client said, in this life, that it claims nothing more; and in which pools it was given something new since.
    completed: [Option<Duration>; CALLERS],
    given_anew: [BTreeSet<usize>; POOLS],
    /// Who may be in a pool's list.
    listed: [BTreeSet<usize>; POOLS],
    /// Who may be out of a pool's list, as something was taken from it.
    unlisted: [BTreeSet<usize>; POOLS],
    /// What clients were called for.
    recalls: Recalls,
    /// What is asked for, and what was given back meanwhile.
    wanted: Vec<Handle>,
    came_back: Vec<Handle>,
    /// What clients kept no more since the present request began.
    gave_back: Vec<Grant>,
    /// Of which files a client has said how they are by now.
    said: Vec<Handle>,
    /// In which datasets a client may have something for writing, and claim it behind a restart; who ever asked for that.
    may_write: [BTreeSet<usize>; FOLDERS.len()],
    /// Where version 3 was heard in this life.
    is_heard_plainly: [bool; FOLDERS.len()],
    /// A client was told that something was taken from it.
    has_lost: [bool; CALLERS],
    /// What sessions that outlive the server were asked to do.
    lasting: Lasting,
    next_tag: u64,
}

impl Story {
    fn new(plan: &Plan) -> Checked<Self> {
        let world = World::new(plan.seed)?;
        let mut leases = Leases::default();
        leases.begin_life(&world);
        Ok(Self {
            chance: Chance::of(plan.seed, Stream::Holding, 0),
            trace: Vec::new(),
            totals: Totals::default(),
            world,
            leases,
            callers: (0..CALLERS).map(Caller::new).collect(),
            third: Client::new(9, 0, 1),
            third_again: None,
            ledger: Ledger::default(),
            files: Files::default(),
            heard: [Duration::ZERO; CALLERS],
            crossed: [false; CALLERS],
            session_of: [0; CALLERS],
            starting: [false; CALLERS],
            life: 1,
            imported: [Some(Duration::ZERO); POOLS],
            looked: [None; POOLS],
            end_written: [false; POOLS],
            completed: [None; CALLERS],
            given_anew: Default::default(),
            listed: Default::default(),
            unlisted: Default::default(),
            recalls: Recalls::default(),
            wanted: Vec::new(),
            came_back: Vec::new(),
            gave_back: Vec::new(),
            said: Vec::new(),
            may_write: Default::default(),
            is_heard_plainly: Default::default(),
            has_lost: [false; CALLERS],
            lasting: Lasting::new(),
            next_tag: 1,
        })
    }

    fn tell(&mut self, steps: usize) -> Checked<()> {
        for step in 0..steps {
            self.step(step)?;
            if self.world.is_off() {
                let is_cut = !self.world.is_killed();
                self.totals.cuts_in_requests += u64::from(is_cut);
                self.totals.kills_in_requests += u64::from(!is_cut);
                self.crash(is_cut)?;
            }
        }
        self.end()?;
        self.totals.out_of_turn = self.callers[OLDER].older.out_of_turn;
        Ok(())
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        let (at, events) = (self.leases.now().as_secs(), self.world.events());
        let line = format!("{at:>6} s, event {events}: {}", what());
        self.trace.push(line);
    }

    fn is_late(&self, client: usize) -> bool {
        self.leases.now().saturating_sub(self.heard[client]) >= LEASE
    }

    /// Whether a client may claim something in a pool that is served.
    fn may_claim(&self, client: usize, pool: usize) -> bool {
        let in_time = |at: Duration| self.leases.now().saturating_sub(at) < LEASE;
        !self.callers[client].is_complete && self.imported[pool].is_some_and(in_time)
    }

    /// Whether somebody may be told to wait for those who may claim something.
    fn may_be_in_grace(&self, pool: usize) -> bool {
        let is_over = |since: Duration| self.leases.now().saturating_sub(since) > LEASE * 2 + Duration::from_secs(5);
        // One has no word for that, as far as the server knows.
        let may_wait_for = |client: &usize| {
            !self.callers[*client].is_complete || self.callers[*client].is_older() || self.is_late(*client)
        };
        !self.looked[pool].is_some_and(is_over) && self.listed[pool].iter().any(may_wait_for)
    }

    /// Whether somebody but this client may be told to wait for those who may claim what they had for writing in a dataset.
    fn may_be_claimed_to_write(&self, folder: usize, by: Option<usize>) -> bool {
        let may_wait_for =
            |client: &usize| Some(*client) != by && (!self.callers[*client].is_complete || self.is_late(*client));
        self.may_be_in_grace(FOLDERS[folder].0) && self.may_write[folder].iter().any(may_wait_for)
    }

    /// The same of who reads or changes a file without an open. He may be the first behind a grace to whose end somebody did not come, and be told to come again while that is
    /// written down (rules V25): one in each grace.
    fn waits_for_claims(&mut self, folder: usize, by: Option<usize>) -> bool {
        let pool = FOLDERS[folder].0;
        let is_claimed = self.may_be_claimed_to_write(folder, by);
        if !is_claimed && !self.end_written[pool] && !self.listed[pool].is_empty() {
            self.end_written[pool] = true;
            return true;
        }
        is_claimed
    }

    /// Judges by the ledger.
    fn with_ledger<T>(&mut self, pool: usize, judge: impl FnOnce(&mut Ledger, &Moment<'_>) -> T) -> T {
        let mut ledger = std::mem::take(&mut self.ledger);
        let (is_late, may_claim) = (|client| self.is_late(client), |client| self.may_claim(client, pool));
        let now = self.leases.now();
        let is_overdue = |kept: &Grant| self.recalls.is_overdue(&kept.file, kept.who.0, now);
        let outcome = judge(&mut ledger, &Moment { is_late: &is_late, may_claim: &may_claim, is_overdue: &is_overdue });
        self.ledger = ledger;
        outcome
    }

    /// A client was answered.
    fn hears(&mut self, client: usize) {
        self.heard[client] = self.leases.now();
        self.crossed[client] = false;
    }
}
