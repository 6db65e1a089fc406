//! What durability costs where the log device costs nothing: `sync=standard` against `sync=disabled`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::Site;
use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, Setup};
use crate::load::{self, Load};

/// What `memory-log` takes.
#[derive(Args)]
pub struct MemoryLog {
    #[command(flatten)]
    site: Site,
    /// A folder in memory, for the log.
    #[arg(long, default_value = "/dev/shm")]
    log_folder: PathBuf,
    /// Connections, each with its own thread.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Files in each run.
    #[arg(long, default_value_t = 4096)]
    files: u64,
}

const RATIO: &str = "raw untar with the log on memory, sync=standard against sync=disabled";

impl MemoryLog {
    /// Runs both datasets of one server alternately.
    pub fn run(&self) -> Result<()> {
        let setup = Setup { log_folder: Some(self.log_folder.clone()), ..Setup::default() };
        let filer = Filer::make(&Binaries::build()?, setup, &self.site.folder()?)?;
        let modes = ["standard", "disabled"];
        for mode in modes {
            filer.command(&["dataset", "create", "-o", &format!("sync={mode}"), &format!("tank/{mode}")])?;
        }
        for mode in modes {
            // Not measured: whoever is first pays for the growth of the server's memory.
            load::run(&filer.target(&format!("tank/{mode}")), Load::Untar, self.connections, self.files)?;
        }
        let mut figures = Figures::default();
        for run in 0..self.site.runs {
            // Who goes first changes, and none runs beside what the other left to be written.
            for index in 0..modes.len() {
                let mode = modes[(index + run) % modes.len()];
                filer.quiet()?;
                let target = filer.target(&format!("tank/{mode}"));
                let measured = load::run(&target, Load::Untar, self.connections, self.files)?;
                figures.add(&format!("raw untar, sync={mode}"), "files/s", measured.rate());
            }
        }
        figures.add_ratios(RATIO, "raw untar, sync=standard", "raw untar, sync=disabled");
        figures.finish("memory-log")?;
        figures.row("bench memory-log", RATIO, Bar::AtLeast(0.8));
        Ok(())
    }
}
