//! The `tally` binary.

use std::io::{stderr, stdout};
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use clap::Parser;
use tally_disk::SystemOpener;
use tally_server::cli::progress::Bar;
use tally_server::cli::{self, Cli, Console, Interrupts};
use tally_server::config::ServeArgs;
use tally_server::daemon::{Daemon, Launch, Told, logging};

/// Requests bring buffers of up to 1 MiB that live for milliseconds. The C library maps and unmaps each of them, and
/// the kernel clears every page anew: a seventh of the time of a streaming client went there. jemalloc keeps them,
/// and a thread of its own gives back what nobody has used for half a second, also when no request comes to do it: after
/// a burst 1.2 GiB stayed for minutes.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = Cli::parse_from(cli::words_by_name(std::env::args_os()));
    match cli.to_serve() {
        Some(args) => serve_beside(args),
        None => ask(&cli),
    }
}

fn ask(cli: &Cli) -> ExitCode {
    let here = std::env::current_dir().unwrap_or_else(|_| "/".into());
    match cli::run(
        cli,
        &here,
        &mut Console { out: &mut stdout(), err: &mut stderr(), interrupts: Interrupts::OfProcess },
    ) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_broken_pipe() {
                eprintln!("tally: {failure}");
            }
            ExitCode::from(failure.exit_status())
        }
    }
}

/// As much as the process's first thread has.
const STACK_BYTES: usize = 8 << 20;

/// Serves in a thread beside the first one, which only waits: Linux gives a signal to the first thread even while that
/// sleeps for a disk which hangs, and then no other one gets it. Nobody would see a SIGTERM.
fn serve_beside(args: ServeArgs) -> ExitCode {
    let served = thread::Builder::new().name("daemon".into()).stack_size(STACK_BYTES).spawn(move || serve(args));
    let ended = match served {
        Ok(thread) => thread.join(),
        Err(error) => {
            logging::say(&format!("tally: cannot start a thread: {error}"));
            return ExitCode::FAILURE;
        }
    };
    // Nobody may be reading, and that is no reason to stay.
    logging::finish();
    ended.unwrap_or_else(|panic| resume_unwind(panic))
}

fn serve(args: ServeArgs) -> ExitCode {
    let launch = Launch { args, opener: Arc::new(SystemOpener), signals: true };
    let mut bar = Bar::default();
    let started = Daemon::start(launch, &mut |told| match told {
        Told::Progress(progress) => bar.show(progress),
        Told::Line(line) => {
            bar.clear();
            logging::print(line);
        }
    });
    bar.clear();
    let daemon = match started {
        Ok(daemon) => daemon,
        Err(error) => {
            logging::say(&format!("tally: {error}"));
            return ExitCode::FAILURE;
        }
    };
    logging::print(&format!("\n{}\nStop with Ctrl-C.", daemon.announcement()));
    let failures = daemon.run();
    for failure in &failures {
        logging::say(&format!("tally: {failure}"));
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
