//! `cargo xtask test`: the workspace's tests, the crash ledger, the dashboard, the simulated world and the lab, counted
//! together.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use tally_lab::tally::Tally;
use tally_lab::{cargo, guests};

use crate::failing_disks::FailingDisks;
use crate::{dashboard, needing, sim};

/// Kills of the plain ledger in continuous integration.
const CI_KILLS: u32 = 10;
/// Kills of the ledger over disks that forget what was not flushed.
const CI_VOLATILE_KILLS: u32 = 20;
/// Kills under clients of version 4 that hold something, three a second, and of these over such disks.
const CI_HOLDERS_KILLS: u32 = 90;
const CI_HOLDERS_VOLATILE_KILLS: u32 = 10;
/// The same where some of them speak 4.0, so that a grace takes all of a lease: one in six seconds.
const CI_MINOR_0_KILLS: u32 = 10;
const CI_MINOR_0: u8 = 4;
/// The same where one stays away behind some of them, for seconds.
const CI_AWAY_KILLS: u32 = 8;
/// Kills under programs of this machine, over a mount and disks that forget what was not flushed.
const CI_MOUNT_KILLS: u32 = 10;
/// Operations of a mount and a client on the same files.
const CI_AGREEING: u64 = 2000;

/// Runs all tests and prints one line. Of planted bugs it tries as many as there is time for, of what all of it may take since it began.
pub(crate) fn run(began: Instant) -> Result<()> {
    let mut total = Tally::default();
    let mut failures = Failures::default();
    let mut part = |name: &str, run: &mut dyn FnMut(&mut Failures) -> Result<Tally>| -> Result<()> {
        let tally = timed(name, || run(&mut failures))?;
        failures.part(name, tally);
        total += tally;
        Ok(())
    };
    part("the workspace's tests", &mut workspace)?;
    part("tests that need more", &mut needing::run)?;
    for crash in Crash::continuous_integration() {
        part("the kill ledger", &mut |_| crash.run())?;
    }
    part("failing disks", &mut |_| FailingDisks::continuous_integration().run())?;
    part("the dashboard", &mut |_| dashboard::Options::continuous_integration().run())?;
    part("the lab", &mut |_| guests::run(&guests::Options::default()))?;
    part("the simulated world", &mut |_| sim::continuous_integration(began))?;
    print!("{}", failures.0);
    total.into_result()
}

/// Says how long a part took, its build included: all of it has 45 minutes.
pub(crate) fn timed<T>(what: &str, part: impl FnOnce() -> Result<T>) -> Result<T> {
    let began = Instant::now();
    let result = part();
    eprintln!("\n{what}: {} s", began.elapsed().as_secs());
    result
}

/// What failed, and what it said: told once more at the end, as hours of output lie between.
#[derive(Default)]
pub(crate) struct Failures(String);

impl Failures {
    /// Names a part of which something failed.
    fn part(&mut self, name: &str, tally: Tally) {
        if tally.failed > 0 {
            self.0 += &format!("{name}: {tally}\n");
        }
    }

    /// A line of a test program: everything between the first `failures:` and the result is what tests say that failed.
    fn line(&mut self, line: &str, telling: &mut bool) {
        *telling = (*telling || line == "failures:") && !line.starts_with("test result: ");
        if *telling {
            self.0.push_str(line);
            self.0.push('\n');
        }
    }
}

fn workspace(failures: &mut Failures) -> Result<Tally> {
    let mut command = cargo::command(&["test", "--workspace", "--no-fail-fast", "--"]);
    // They are ignored there, and have a turn of their own.
    command.args(needing::names().flat_map(|name| ["--skip", name]));
    counted(&mut command, failures)
}

/// Runs `cargo test`, and adds up what each of its programs says.
pub(crate) fn counted(command: &mut Command, failures: &mut Failures) -> Result<Tally> {
    let mut total = Tally::default();
    let mut telling = false;
    let succeeded = cargo::watch(command, |line| {
        failures.line(line, &mut telling);
        if let Some(tally) = line.starts_with("test result: ").then(|| Tally::parse(line)).flatten() {
            total += tally;
        }
    })?;
    // A test that does not compile, or a process that dies, prints no result.
    if !succeeded && total.failed == 0 {
        total += Tally::FAILED;
    }
    Ok(total)
}

/// The kill ledger. Its seed is printed, and the seed repeats the run as far as a killed process can be repeated.
#[derive(Args)]
pub(crate) struct Crash {
    /// How often the server is killed.
    #[arg(long, default_value_t = 100)]
    kills: u32,
    /// Where the load's randomness starts; drawn and printed if not given.
    #[arg(long)]
    seed: Option<u64>,
    /// Over disks that lose, at the kill, what was written and not flushed.
    #[arg(long)]
    volatile: bool,
    /// With `--volatile`: durable writes are lost too. The ledger must then fail.
    #[arg(long, requires = "volatile")]
    no_dsync: bool,
    /// Under eight clients of version 4.1 with opens, locks, and names that all want.
    #[arg(long)]
    holders: bool,
    /// So many of these speak 4.0.
    #[arg(long, requires = "holders", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=8))]
    minor_0: u8,
    /// One of these stays away behind some kills, often for longer than a lease.
    #[arg(long, requires = "holders")]
    away: bool,
    /// Under programs of this machine, which work on a mount. Needs root and /dev/fuse.
    #[arg(long, conflicts_with = "holders")]
    mount: bool,
    /// One of these is PostgreSQL, of the machine's packages.
    #[arg(long, requires = "mount")]
    postgres: bool,
    /// Without kills: a mount and a client of version 3 do so many operations on the same files, and see the same.
    #[arg(long, requires = "mount", conflicts_with = "postgres", value_name = "OPERATIONS")]
    agreeing: Option<u64>,
}

impl Crash {
    fn continuous_integration() -> [Self; 10] {
        let plain = |kills| Self {
            kills,
            seed: None,
            volatile: false,
            no_dsync: false,
            holders: false,
            minor_0: 0,
            away: false,
            mount: false,
            postgres: false,
            agreeing: None,
        };
        let volatile = |kills| Self { volatile: true, ..plain(kills) };
        [
            plain(CI_KILLS),
            volatile(CI_VOLATILE_KILLS),
            Self { no_dsync: true, ..volatile(CI_VOLATILE_KILLS) },
            Self { holders: true, ..plain(CI_HOLDERS_KILLS) },
            Self { holders: true, minor_0: CI_MINOR_0, ..plain(CI_MINOR_0_KILLS) },
            Self { holders: true, away: true, ..plain(CI_AWAY_KILLS) },
            Self { holders: true, ..volatile(CI_HOLDERS_VOLATILE_KILLS) },
            Self { mount: true, ..volatile(CI_MOUNT_KILLS) },
            Self { mount: true, no_dsync: true, ..volatile(CI_MOUNT_KILLS) },
            Self { mount: true, agreeing: Some(CI_AGREEING), ..plain(0) },
        ]
    }

    /// Runs it. With `--no-dsync`, a ledger that finds nothing wrong is the failure.
    pub(crate) fn run(&self) -> Result<Tally> {
        if self.mount && !needing::has_fuse() {
            eprintln!("The kill ledger over a mount is skipped: it needs root and /dev/fuse (the module fuse).");
            return Ok(Tally::SKIPPED);
        }
        let release: PathBuf = cargo::target_folder().join("release");
        cargo::run(&["build", "--release", "--package", "tally-server", "--package", "tally-interop", "--bins"])?;
        let mut command = Command::new(release.join("ledger"));
        command.args(["--kills", &self.kills.to_string()]);
        if let Some(seed) = self.seed {
            command.args(["--seed", &seed.to_string()]);
        }
        if self.no_dsync {
            command.arg("--expect-failure");
        }
        if self.holders {
            command.args(["--holders", "--minor-0", &self.minor_0.to_string()]);
        }
        if self.away {
            command.arg("--away");
        }
        if self.mount {
            command.arg("--mount").arg(release.join("tally"));
        }
        if self.postgres {
            command.arg("--postgres");
        }
        if let Some(operations) = self.agreeing {
            command.args(["--agreeing", &operations.to_string()]);
        }
        if self.volatile {
            command.arg("--server").arg(release.join("tally-volatile"));
            if self.no_dsync {
                command.args(["--server-argument", "--no-dsync"]);
            }
        } else {
            command.arg("--server").arg(release.join("tally"));
        }
        Tally::of(&mut command)
    }
}
