//! `cargo xtask failing-disks`: the release binary over disks that fail, hang and lose, in a folder passed through
//! FUSE.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use tally_lab::cargo;
use tally_lab::tally::Tally;

/// The cases. The seed is printed where one fails.
#[derive(Args)]
pub(crate) struct FailingDisks {
    /// Where randomness starts; drawn if not given.
    #[arg(long)]
    seed: Option<u64>,
    /// How many sectors rot, one after the other [default: 30]
    #[arg(long)]
    draws: Option<u32>,
    /// Cases by name: bad-sector, two-refusals, lost-cache, rotten-sector, hung-leg, silent-leg,
    /// silent-damage, silent-end, silent-end-alone, silent-end-beside, silent-newcomer, suspended; without, all of them.
    cases: Vec<String>,
}

impl FailingDisks {
    /// As `cargo xtask test` has it.
    pub(crate) const fn continuous_integration() -> Self {
        Self { seed: None, draws: None, cases: Vec::new() }
    }

    /// Runs it; a skip where nothing can be mounted.
    pub(crate) fn run(&self) -> Result<Tally> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            eprintln!("Failing disks need root and /dev/fuse: the binary is NOT tried over them.");
            return Ok(Tally::SKIPPED);
        }
        // Each by itself: chosen together, the server would be built once more, with what features the other one asks for.
        let server = cargo::build_tally()?;
        cargo::run(&["build", "--release", "--package", "tally-failing", "--bins"])?;
        let mut command = Command::new(cargo::target_folder().join("release/failing-disks"));
        command.arg("run").arg("--server").arg(server);
        if let Some(draws) = self.draws {
            command.args(["--draws", &draws.to_string()]);
        }
        if let Some(seed) = self.seed {
            command.args(["--seed", &seed.to_string()]);
        }
        command.args(&self.cases);
        Tally::of(&mut command)
    }
}
