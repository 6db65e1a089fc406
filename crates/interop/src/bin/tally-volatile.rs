//! The server over disks that lose at a kill what was not flushed: `tally-volatile [--seed N] [--no-dsync] serve …`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Parser;
use tally_disk::SystemOpener;
use tally_interop::volatile::{Honesty, VolatileOpener};
use tally_server::cli::{Cli, Command};
use tally_server::daemon::{Daemon, Launch, Told};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tally-volatile: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut words = std::env::args_os().peekable();
    let program = words.next().context("no program name")?;
    let (mut seed, mut honesty) = (1, Honesty::Honest);
    while let Some(word) = words.next_if(|word| word == "--seed" || word == "--no-dsync") {
        if word == "--no-dsync" {
            honesty = Honesty::ForgetsDurable;
        } else {
            seed = words.next().context("--seed needs a number")?.to_string_lossy().parse()?;
        }
    }
    let cli = Cli::parse_from(std::iter::once(program).chain(words));
    let Command::Serve(args) = cli.command else { bail!("only `serve` makes sense over volatile disks") };
    let opener = Arc::new(VolatileOpener::new(Arc::new(SystemOpener), honesty, seed));
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
