//! The kill ledger as a program. Ends with one line: `N passed, N failed, N skipped`, where each kill that the
//! promises survived is one that passed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use tally_interop::child::Program;
use tally_interop::holders::run as holders;
use tally_interop::ledger::{self, Plan, Verdict};
use tally_interop::mounted;

struct Arguments {
    plan: Plan,
    folder: Option<PathBuf>,
    expect_failure: bool,
    /// Under clients of version 4, which hold something.
    holds: bool,
    /// How many of these speak 4.0.
    minor_0: usize,
    /// And whether some stay away.
    stay_away: bool,
    /// Over a mount, which this program makes.
    mounts_by: Option<PathBuf>,
    /// A database works there.
    postgres: bool,
    /// A client of version 3 works there as well, and all that they see has to agree: so many operations.
    agreeing: Option<u64>,
}

const USAGE: &str = "ledger --server BINARY [--server-argument ARGUMENT]… [--kills N] [--seed N] [--size SIZE]
       [--folder FOLDER] [--no-remembering] [--expect-failure] [--holders [--minor-0 N] [--away]]
       [--mount TALLY [--postgres | --agreeing N]]";

fn main() -> ExitCode {
    match parse(std::env::args_os().skip(1)).and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ledger: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse(words: impl Iterator<Item = OsString>) -> Result<Arguments> {
    let mut words = words;
    let (path, arguments, lease_seconds) = Default::default();
    let program = Program { path, arguments, pool_size: "1G".into(), lease_seconds };
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.subsec_nanos().into();
    let plan = Plan { program, kills: 100, seed, remembers: true };
    let mut arguments = Arguments {
        plan,
        folder: None,
        expect_failure: false,
        holds: false,
        minor_0: 0,
        stay_away: false,
        mounts_by: None,
        postgres: false,
        agreeing: None,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| anyhow::anyhow!("{word:?} needs a value\n{USAGE}"));
        let plan = &mut arguments.plan;
        match word.to_str() {
            Some("--server") => plan.program.path = std::path::absolute(PathBuf::from(value()?))?,
            Some("--server-argument") => plan.program.arguments.push(value()?),
            Some("--kills") => plan.kills = value()?.to_string_lossy().parse()?,
            Some("--seed") => plan.seed = value()?.to_string_lossy().parse()?,
            Some("--size") => plan.program.pool_size = value()?.to_string_lossy().into_owned(),
            Some("--folder") => arguments.folder = Some(value()?.into()),
            Some("--no-remembering") => plan.remembers = false,
            Some("--holders") => arguments.holds = true,
            Some("--minor-0") => arguments.minor_0 = value()?.to_string_lossy().parse()?,
            Some("--away") => arguments.stay_away = true,
            Some("--mount") => arguments.mounts_by = Some(std::path::absolute(PathBuf::from(value()?))?),
            Some("--postgres") => arguments.postgres = true,
            Some("--agreeing") => arguments.agreeing = Some(value()?.to_string_lossy().parse()?),
            Some("--expect-failure") => arguments.expect_failure = true,
            _ => bail!("{word:?} is not understood\n{USAGE}"),
        }
    }
    ensure!(!arguments.plan.program.path.as_os_str().is_empty(), "no --server\n{USAGE}");
    Ok(arguments)
}

fn run(arguments: &Arguments) -> Result<bool> {
    println!("seed {}", arguments.plan.seed);
    let (folder, kept) = match &arguments.folder {
        Some(folder) => {
            std::fs::create_dir_all(folder)?;
            (folder.clone(), None)
        }
        None => {
            let folder = tempfile::Builder::new().prefix("ledger-").tempdir()?;
            (folder.path().to_owned(), Some(folder))
        }
    };
    let (good, kills) = if arguments.holds {
        let Plan { program, kills, seed, .. } = arguments.plan.clone();
        let Arguments { minor_0, stay_away, .. } = *arguments;
        let verdict = holders::run(&holders::Plan { program, minor_0, stay_away, kills, seed }, &folder)?;
        (report_of_holders(arguments, &verdict), verdict.kills)
    } else {
        let verdict = match (&arguments.mounts_by, arguments.agreeing) {
            (Some(command), Some(operations)) => mounted::agreeing::run(&arguments.plan, command, &folder, operations)?,
            (Some(command), None) if arguments.postgres => mounted::postgres::run(&arguments.plan, command, &folder)?,
            (Some(command), None) => mounted::run(&arguments.plan, command, &folder)?,
            (None, _) => ledger::run(&arguments.plan, &folder)?,
        };
        (report(arguments, &verdict), verdict.kills)
    };
    if !good && let Some(folder) = kept {
        println!("the pool and the server's messages are kept in {}", folder.keep().display());
    }
    let failed = u32::from(!good);
    println!(
        "{} passed, {failed} failed, 0 skipped",
        if arguments.expect_failure || arguments.agreeing.is_some() { 1 - failed } else { kills }
    );
    Ok(good)
}

fn report(arguments: &Arguments, verdict: &Verdict) -> bool {
    let counts = verdict.counts;
    if arguments.agreeing.is_some() {
        println!("{} operations by a mount and a client: both saw the same", counts.answered);
        return judge(verdict.violation.as_deref(), arguments.expect_failure);
    }
    println!(
        "{} kills survived: {} operations answered, {} requests repeated across crashes ({} of them more than 10 s later), {} names compared",
        verdict.kills, counts.answered, counts.repeated, counts.repeated_late, counts.compared
    );
    judge(verdict.violation.as_deref(), arguments.expect_failure)
}

fn report_of_holders(arguments: &Arguments, verdict: &holders::Verdict) -> bool {
    let counts = verdict.counts;
    println!(
        "{} kills survived: {} requests answered, {} claims, {} requests under way had been carried out and {} had not, {} names won, {} locks denied, {} numbers counted, {} locks taken from who was away and {} told so, nobody kept out for more than {} ms behind the last that claimed something",
        verdict.kills,
        counts.answered,
        counts.reclaimed,
        counts.done_before,
        counts.not_done,
        counts.won,
        counts.denied,
        counts.counted,
        counts.taken,
        counts.late,
        counts.kept_out_max.as_millis()
    );
    judge(verdict.violation.as_deref(), arguments.expect_failure)
}

fn judge(violation: Option<&str>, expect_failure: bool) -> bool {
    match (violation, expect_failure) {
        (None, false) => true,
        (None, true) => {
            println!("FAIL the disks kept nothing that was not flushed, and the ledger noticed nothing");
            false
        }
        (Some(violation), true) => {
            println!("as it must, the ledger noticed: {violation}");
            true
        }
        (Some(violation), false) => {
            println!("FAIL {violation}");
            false
        }
    }
}
