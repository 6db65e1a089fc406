//! The simulated world's command: `cargo xtask sim` builds and runs it.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use tally_sim::history::{Plan, Syncs, Totals, Trouble};
use tally_sim::sweep::{Sweep, sweep};

/// How often progress is told.
const TELLING_EVERY: Duration = Duration::from_secs(15);

/// Random histories with power cuts, each owned by its seed.
#[derive(Parser)]
#[command(name = "sim")]
struct Arguments {
    /// How many seeds
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// One seed alone
    #[arg(long, conflicts_with_all = ["seeds", "from", "minutes"])]
    seed: Option<u64>,
    /// Begin no further seed after so many minutes
    #[arg(long)]
    minutes: Option<u64>,
    /// Steps of a history, over all its lives
    #[arg(long, default_value_t = 400)]
    steps: usize,
    /// Steps that are left out, as a failure's report names them
    #[arg(long, value_delimiter = ',')]
    skip: Vec<usize>,
    /// Where groups are synced [default: the seed's own choice]
    #[arg(long)]
    syncs: Option<Syncs>,
    /// What goes wrong beside the power [default: the seed's own choice]
    #[arg(long)]
    trouble: Option<Trouble>,
    /// Whether clients reserve room [default: the seed's own choice]
    #[arg(long)]
    reserves: Option<bool>,
    /// Seeds at once [default: one for each processor]
    #[arg(long)]
    threads: Option<usize>,
    /// End with the first failure
    #[arg(long)]
    until_failure: bool,
    /// Print the trace of a failure as it is, without looking for a shorter one
    #[arg(long)]
    no_shrink: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let plan = |seed| {
        let trouble = arguments.trouble.unwrap_or_else(|| trouble_of(seed));
        let syncs = arguments.syncs.unwrap_or_else(|| syncs_of(seed, trouble));
        let reserves = arguments.reserves.unwrap_or_else(|| reserves(seed));
        Plan { seed, steps: arguments.steps, syncs, trouble, reserves, skipped: arguments.skip.clone() }
    };
    let seeds = match arguments.seed {
        Some(seed) => seed..seed + 1,
        None => arguments.from..arguments.from.saturating_add(arguments.seeds),
    };
    let threads = arguments.threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let (started, told) = (Instant::now(), AtomicU64::new(0));
    let tell = |done: u64| {
        let elapsed = started.elapsed().as_secs();
        let turn = elapsed / TELLING_EVERY.as_secs();
        if told.swap(turn, Ordering::Relaxed) < turn {
            eprintln!("sim: {done} seeds in {elapsed} s");
        }
    };
    let mut wanted = Sweep::over(seeds, &plan).on(threads).telling(&tell);
    if let Some(minutes) = arguments.minutes {
        wanted = wanted.at_most(Duration::from_secs(60 * minutes));
    }
    if arguments.until_failure {
        wanted = wanted.until_failure();
    }
    let outcome = sweep(&wanted);
    let totals = outcome.totals;
    println!(
        "sim: {} seeds in {} s: {} lives, {} power cuts ({} during an import), {} requests, {} sent again ({} answered \
         across a crash), {} groups, {} records replayed, {} losses named",
        outcome.seeds,
        started.elapsed().as_secs(),
        totals.lives,
        totals.cuts,
        totals.cuts_in_import,
        totals.operations,
        totals.repetitions,
        totals.remembered,
        totals.syncs,
        totals.replayed,
        totals.named
    );
    let is_short = tell_events(&totals, outcome.seeds);
    for (plan, failure) in &outcome.failed {
        eprintln!("sim: seed {}: {}", plan.seed, failure.message.lines().next().unwrap_or_default());
    }
    let (failed, seeds) = (outcome.failed.len(), outcome.seeds);
    match outcome.first_failure(!arguments.no_shrink) {
        None if is_short => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
        Some(report) => {
            println!("{report}");
            eprintln!("sim: {failed} of {seeds} seeds failed");
            ExitCode::FAILURE
        }
    }
}

/// Seeds from which on a run must have met each kind of event so often.
const FLOORS_FROM_SEEDS: u64 = 5000;

/// Says how often what can go wrong went wrong, beside how often it must in a long run. A class of events that is not
/// met any more proves nothing, and nobody would notice. Gives whether a long run is short of something.
fn tell_events(totals: &Totals, seeds: u64) -> bool {
    let floors = [
        ("cuts inside disk commands", totals.cuts_in_disk_commands, 20_000),
        ("cuts in label writes", totals.cuts_in_labels, 20_000),
        ("cuts after a leg was struck off", totals.cuts_after_strike, 20_000),
        ("imports behind which nothing was asked", totals.idle_lives, 20_000),
        ("of these, across a cut, an export and a cut", totals.idle_across, 400),
        ("cuts behind cuts, and no group between them", totals.lives_without_sync, 20_000),
        ("requests between steps of copies and scrubs", totals.requests_beside_walks, 5_000),
        ("disks that joined while another one did", totals.joins_beside, 60),
        ("disks that were left, and answered late", totals.late_answers, 80),
        ("disks that were away and got what they missed", totals.legs_taken_back, 400),
        ("disks that were not taken back, as they owed an answer", totals.legs_not_taken_back, 20),
        ("cuts inside of what is done with spares", totals.cuts_in_spare_commands, 500),
        ("spares that came", totals.spares_added, 400),
        ("spares that were removed", totals.spares_removed, 200),
        ("spares that were asked for by name", totals.spares_by_name, 100),
        ("spares that were taken", totals.spares_taken, 60),
        ("imports that found a spare in the place of a disk", totals.lives_on_spares, 3_000),
        ("spares that were given back", totals.spares_given_back, 5),
        ("spares that stayed for good", totals.spares_kept, 2),
        ("scrubs that went on behind an interruption", totals.scrubs_in_parts, 500),
        ("scrubs that judged space", totals.scrubs_of_space, 1_500),
        ("scrubs of full pools", totals.scrubs_when_full, 400),
        ("copies to disks that joined full pools, or came back", totals.copies_when_full, 25),
        ("disks that were struck off while they got it", totals.legs_that_stayed_away, 50),
        ("lives after a long outage or a clock jump", totals.lives_after_gap, 10_000),
        ("full pools", totals.full, 5_000),
        ("syncs that left something to the reaper", totals.syncs_with_rest, 20_000),
        ("changes above rot", totals.above_rot, 20_000),
        ("changes over a quota", totals.over_quota, 50_000),
        ("requests that had to wait before they began", totals.throttled, 1_000),
        ("pieces of listings between changes", totals.pieces_listed, 30_000),
        ("blocks found that were fetched ahead", totals.fetched_ahead, 10_000),
        ("ACCESS requests of ordinary users", totals.access_asked, 20_000),
        ("reads denied to them", totals.reads_denied, 5_000),
        ("imports that went back to an older group", totals.rewinds, 8_000),
        ("of these, cut short behind that point", totals.rewinds_cut, 1_500),
        ("operations that they gave up", totals.given_up, 60_000),
        ("destroyed datasets that they brought back", totals.datasets_back, 80),
        ("suspended pools that went on", totals.went_on, 1_000),
        ("clear that was refused, as disks did not answer", totals.clears_refused, 200),
        ("tries to go on that failed", totals.resumes_failed, 500),
        ("power cuts while a pool was suspended", totals.cuts_while_suspended, 250),
        ("changes refused meanwhile", totals.refused_meanwhile, 2_000),
        ("requests in doubt that had been carried out", totals.doubts_answered, 30),
        ("requests in doubt that were carried out", totals.doubts_carried_out, 120),
        ("ranges that were reserved", totals.reserved, 8_000),
        ("ranges that were punched", totals.unreserved, 1_500),
        ("reservations that were refused", totals.reservations_refused, 4_900),
        ("WRITEs that were promised room", totals.promised_writes, 17_000),
        ("of these, in full pools", totals.promised_writes_when_full, 1_900),
        ("of these, at a quota", totals.promised_writes_at_quota, 350),
        ("files with promises behind cuts", totals.reserved_behind_cuts, 49_000),
        ("reservations that came again in a later life", totals.reserved_again, 500),
    ];
    let mut is_short = false;
    for (what, count, floor) in floors {
        let misses = seeds >= FLOORS_FROM_SEEDS && count < floor;
        is_short |= misses;
        let floor = floor * seeds / FLOORS_FROM_SEEDS;
        println!("sim: {count} {what}; {floor} are wanted of so many seeds{}", if misses { ": TOO FEW" } else { "" });
    }
    println!(
        "sim: {} disk commands, {} dataset commands, {} requests dropped with their connections",
        totals.disk_commands, totals.dataset_commands, totals.dropped
    );
    is_short
}

/// Where no leg is struck off or changed, every seed with an even number runs requests inside of the syncs. Else labels
/// are written under a lock that requests take, too, and nothing runs there; but for every other seed in which any disk
/// refuses requests, with labels and flushes spared ([`tally_sim::disk::Power::spare_labels`]). In most full pools disks join
/// and leave.
fn syncs_of(seed: u64, trouble: Trouble) -> Syncs {
    let is_around = match trouble {
        Trouble::Refusals => seed % 16 == 5,
        Trouble::Full => seed % 32 == 4,
        _ => seed.is_multiple_of(2) && !trouble.strikes_off(),
    };
    if is_around { Syncs::Around } else { Syncs::Between }
}

/// In every third seed, whatever else goes wrong there, and in more of those whose pools are full.
fn reserves(seed: u64) -> bool {
    seed.is_multiple_of(3) || seed % 32 == 20
}

/// Of sixteen seeds, hardly three lose nothing but the power: of those with an 8, every fourth fills its pool, as those with a 4 have
/// scrubs and disks to do, too, and are full less often for it.
fn trouble_of(seed: u64) -> Trouble {
    match seed % 16 {
        8 if seed % 64 == 8 => Trouble::Full,
        1 | 3 | 9 => Trouble::Legs,
        4 => Trouble::Full,
        5 | 13 => Trouble::Refusals,
        6 | 10 | 12 | 14 => Trouble::Disks,
        7 | 15 => Trouble::Rot,
        11 => Trouble::Turns,
        _ => Trouble::None,
    }
}
