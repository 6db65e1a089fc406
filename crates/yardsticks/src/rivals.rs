//! Servers that take turns at one measurement: this tree's, another build of it, and NFS-Ganesha over the same folder.
//! Each has a pool of its own. Who was first in one round is last in the next (ABBA), so that whatever drifts meets all.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use tally_bench::wire::Target;

use crate::against::interval;
use crate::figures::{Figures, short};
use crate::filer::{Binaries, Filer, POOL, Setup, Status};
use crate::report::median;
use crate::server::Server;
use crate::stream::drop_from_page_cache;

/// Beside whom this tree's server is measured.
#[derive(Args)]
pub(crate) struct Rivals {
    /// Another build of `tally`, by turns; where a disk is slowed down, with its `tally-slow` beside it.
    #[arg(long)]
    against: Option<PathBuf>,
    /// Debian's NFS-Ganesha, by turns, where no disk is slowed down (packages nfs-ganesha, nfs-ganesha-vfs).
    #[arg(long)]
    ganesha: bool,
}

/// One of them.
pub(super) struct Rival {
    pub(super) name: &'static str,
    server: Kind,
}

enum Kind {
    Tally(Box<Filer>),
    Ganesha(Server),
}

const OURS: &str = "tally";

impl Rivals {
    /// Starts all of them on new pools.
    pub(super) fn start(&self, binaries: &Binaries, setup: &Setup, folder: &Path) -> Result<Vec<Rival>> {
        let tally = |name, binaries: &Binaries| {
            let filer = Filer::make(binaries, setup.clone(), folder)?;
            anyhow::Ok(Rival { name, server: Kind::Tally(Box::new(filer)) })
        };
        let mut rivals = vec![tally(OURS, binaries)?];
        if let Some(other) = &self.against {
            rivals.push(tally("other", &Binaries::other(other)?)?);
        }
        if self.ganesha && setup.slowness.is_empty() {
            rivals.push(Rival { name: "ganesha", server: Kind::Ganesha(Server::ganesha(folder)?) });
        }
        Ok(rivals)
    }
}

impl Rival {
    /// How a client reaches it.
    pub(super) fn target(&self) -> Target {
        match &self.server {
            Kind::Tally(filer) => filer.target(POOL),
            Kind::Ganesha(server) => server.target().clone(),
        }
    }

    /// The counters, of a server that tells them.
    pub(super) fn status(&self) -> Result<Option<Status>> {
        match &self.server {
            Kind::Tally(filer) => filer.status().map(Some),
            Kind::Ganesha(_) => Ok(None),
        }
    }

    /// Carries out a command of `tally`, of a server that has some.
    pub(super) fn command(&self, words: &[&str]) -> Result<()> {
        match &self.server {
            Kind::Tally(filer) => filer.command(words).map(drop),
            Kind::Ganesha(_) => bail!("Ganesha has no command {}", words.join(" ")),
        }
    }

    /// Has everything written that is to be written some time, and gives the counters then.
    pub(super) fn write_all_out(&self) -> Result<Option<Status>> {
        match &self.server {
            Kind::Tally(filer) => filer.write_all_out().map(Some),
            Kind::Ganesha(_) => {
                rustix::fs::sync();
                Ok(None)
            }
        }
    }

    /// Nothing of what it serves is in memory any more.
    pub(super) fn cool(&mut self) -> Result<()> {
        match &mut self.server {
            // A new process has nothing in its cache, and the kernel never had, as the pool goes past it.
            Kind::Tally(filer) => {
                filer.stop()?;
                filer.start().map(drop)
            }
            Kind::Ganesha(server) => drop_from_page_cache(&server.folder().join("served")),
        }
    }
}

/// The name of a rival's figure.
pub(super) fn key(row: &str, rival: &str, what: &str) -> String {
    format!("{row}: {rival}: {what}")
}

/// In which order so many take their turns in a round.
pub(super) fn in_turns(count: usize, round: usize) -> Vec<usize> {
    let order = 0..count;
    if round.is_multiple_of(2) { order.collect() } else { order.rev().collect() }
}

/// The ratio of two figures as a table shows it: the median of the pairs with its 90 % interval.
pub(super) fn ratio_cell(figures: &Figures, above: &str, below: &str) -> String {
    let mut ratios = figures.ratios(above, below);
    if ratios.is_empty() {
        return String::new();
    }
    let (low, high) = interval(&mut ratios);
    format!("{} ({} … {})", short(median(ratios)), short(low), short(high))
}

/// Prints our figure over that of each of the others, row by row.
pub(super) fn print_ratios(figures: &Figures, rows: &[String], rivals: &[&str], what: &str) {
    for other in rivals.iter().filter(|rival| **rival != OURS) {
        println!("\n| | {OURS} over {other}: median and 90 % interval |\n|---|---|");
        for row in rows {
            println!("| {row} | {} |", ratio_cell(figures, &key(row, OURS, what), &key(row, other, what)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_first_is_last_in_the_next_round() {
        assert_eq!([in_turns(3, 0), in_turns(3, 1), in_turns(3, 2)], [[0, 1, 2], [2, 1, 0], [0, 1, 2]]);
    }

    #[test]
    fn a_ratio_is_that_of_runs_side_by_side() {
        let mut figures = Figures::default();
        for (ours, theirs) in [(1.0, 2.0), (9.0, 3.0), (4.0, 4.0)] {
            figures.add("ours", "ms", ours);
            figures.add("theirs", "ms", theirs);
        }
        assert_eq!(ratio_cell(&figures, "ours", "theirs"), "1.00 (0.500 … 3.00)");
        assert_eq!(ratio_cell(&figures, "ours", "nobody's"), "");
    }
}
