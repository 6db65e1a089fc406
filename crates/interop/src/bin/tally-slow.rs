//! The server over slow disks: `tally-slow [--paced FILE=MILLISECONDS]… [--turning FILE=MILLISECONDS]…
//! [--queued FILE=MILLISECONDS]… [--held FILE=GATE]… serve …`, where FILE is the last part of a disk's path.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use tally_disk::SystemOpener;
use tally_interop::slow::{SlowOpener, Slowness};
use tally_server::cli::{Cli, Command};
use tally_server::daemon::{Daemon, Launch, Told};

/// As `tally` has it: buffers that the C library maps anew for each request would be measured as the server's time.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const RULES: [&str; 4] = ["--paced", "--turning", "--queued", "--held"];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tally-slow: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut words = std::env::args_os().peekable();
    let program = words.next().context("no program name")?;
    let mut rules = Vec::new();
    while let Some(word) = words.next_if(|word| RULES.iter().any(|rule| word == rule)) {
        let value = words.next().with_context(|| format!("{word:?} needs FILE=VALUE"))?;
        let value = value.to_string_lossy();
        let (file, value) = value.split_once('=').with_context(|| format!("'{value}' is not FILE=VALUE"))?;
        let slowness = match word.to_str() {
            Some("--paced") => Slowness::Paced(Duration::from_millis(value.parse()?)),
            Some("--turning") => Slowness::Turning(Duration::from_millis(value.parse()?)),
            Some("--queued") => Slowness::Queued(Duration::from_millis(value.parse()?)),
            _ => Slowness::HeldWhile(PathBuf::from(value)),
        };
        rules.push((file.to_owned(), slowness));
    }
    let cli = Cli::parse_from(std::iter::once(program).chain(words));
    let Command::Serve(args) = cli.command else { bail!("only `serve` makes sense over slow disks") };
    let opener = Arc::new(SlowOpener::new(Arc::new(SystemOpener), rules));
    let launch = Launch { args, opener, signals: true };
    let daemon = Daemon::start(launch, &mut |told| {
        if let Told::Line(line) = told {
            eprintln!("{line}");
        }
    })?;
    for line in daemon.run() {
        eprintln!("{line}");
    }
    Ok(())
}
