//! The `tally` binary.

use std::io::{stderr, stdout};
use std::process::ExitCode;

use clap::Parser;
use tally_server::cli::{self, Cli, Console};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let here = std::env::current_dir().unwrap_or_else(|_| "/".into());
    match cli::run(&cli, &here, &mut Console { out: &mut stdout(), err: &mut stderr() }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("tally: {failure}");
            ExitCode::from(failure.exit_status())
        }
    }
}
