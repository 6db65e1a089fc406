//! This tree's server against another build of it: what a change costs. The two run alternately on pools of their own,
//! ours first in one pair and last in the next (ABBA), so that whatever drifts meets both; each run is on a server that
//! was just started. What is told is the median of the pairs' ratios of time with its 90 % interval, which is that of a
//! sign test: it asks nothing of how the ratios are distributed.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Deserialize;

use crate::figures::short;
use crate::filer::{Binaries, Filer, POOL, Setup};
use crate::load::{self, Load, at_once};
use crate::{prepared, report};

/// What `against` takes.
#[derive(Args)]
pub struct Against {
    /// The other `tally`.
    binary: PathBuf,
    /// Pairs of runs of each load.
    #[arg(long, default_value_t = 41)]
    pairs: usize,
    /// Where pools are made; a folder on a disk [default: target/bench]
    #[arg(long)]
    folder: Option<PathBuf>,
}

const CONNECTIONS: usize = 64;

/// What is compared.
#[derive(Clone, Copy, Debug)]
enum Question {
    Own,
    Untar,
    Creates,
}

/// What `tally stat ops --json` tells, as far as this benchmark cares.
#[derive(Deserialize)]
struct Ops {
    own: Quantiles,
}

#[derive(Deserialize)]
struct Quantiles {
    p50_ns: u64,
}

impl Question {
    fn name(self) -> &'static str {
        match self {
            Self::Own => "a lone SETATTR, the server's own time, p50",
            Self::Untar => "untar, 512 files on one connection",
            Self::Creates => "creates, 64 connections of 64",
        }
    }

    /// Time, in whatever unit: only ratios are told.
    fn ask(self, filer: &Filer, run: usize) -> Result<f64> {
        let target = filer.target(POOL);
        match self {
            Self::Own => {
                load::run(&target, Load::Lone, 1, 4000)?;
                let ops: Ops = serde_json::from_str(&filer.command(&["stat", "ops", "--json"])?)?;
                Ok(ops.own.p50_ns as f64)
            }
            Self::Untar => Ok(load::run(&target, Load::Untar, 1, 512)?.elapsed.as_secs_f64()),
            Self::Creates => {
                let root = tally_bench::wire::Connection::mount(&target)?;
                let (elapsed, _) = at_once(target.nfs, CONNECTIONS, |index, connection| {
                    let folder = connection.mkdir(&root, &format!("run-{run}-{index}"))?;
                    (0..64).try_for_each(|item| connection.create(&folder, &load::file_name(item)).map(drop))
                })?;
                Ok(elapsed.as_secs_f64())
            }
        }
    }
}

impl Against {
    /// Runs all loads, and says for each what the ratio of times is.
    pub fn run(&self) -> Result<()> {
        ensure!(self.pairs >= 5, "{} pairs have no 90 % interval", self.pairs);
        let binaries = Binaries::build()?;
        let folder = prepared(self.folder.as_deref())?;
        let setup = || Setup { pool_bytes: 2 << 30, ..Setup::default() };
        let mut ours = Filer::make(&binaries, setup(), &folder)?;
        let tally = self.binary.canonicalize().with_context(|| format!("no {}", self.binary.display()))?;
        let mut theirs = Filer::make(&Binaries { tally, ..binaries }, setup(), &folder)?;
        println!("time of this tree's server over that of {}: median and 90 % interval", self.binary.display());
        for question in [Question::Own, Question::Untar, Question::Creates] {
            let mut ratios = Vec::new();
            for pair in 0..self.pairs {
                let [mut own, mut other] = [0.0, 0.0];
                let turns = [true, false];
                for turn in if pair % 2 == 0 { turns } else { [turns[1], turns[0]] } {
                    let (filer, time) = if turn { (&mut ours, &mut own) } else { (&mut theirs, &mut other) };
                    filer.stop()?;
                    filer.start()?;
                    *time = question.ask(filer, pair)?;
                }
                ratios.push(own / other);
                eprintln!("  {}: {}", question.name(), short(own / other));
            }
            let (low, high) = interval(&mut ratios);
            let median = report::median(ratios.clone());
            println!("| {} | {} ({} … {}) |", question.name(), short(median), short(low), short(high));
        }
        Ok(())
    }
}

/// The values between which the median lies with 90 % certainty, by the order of the values alone. Sorts them.
pub(super) fn interval(values: &mut [f64]) -> (f64, f64) {
    values.sort_unstable_by(f64::total_cmp);
    let count = values.len() as f64;
    // How many lie below the median is binomial, and from five on nearly normal.
    let below = (0.5 * count - 1.645 * 0.5 * count.sqrt() - 0.5).floor().max(0.0) as usize;
    (values[below], values[values.len() - 1 - below])
}

#[cfg(test)]
mod tests {
    use super::interval;

    #[test]
    fn the_interval_leaves_out_what_chance_may_put_on_one_side() {
        let mut values: Vec<f64> = (1..=41).rev().map(f64::from).collect();
        // Binomial: at most 14 of 41 on one side has a probability of 3 %, at most 15 of 6 %.
        assert_eq!(interval(&mut values), (15.0, 27.0));
        assert_eq!(interval(&mut [3.0, 1.0, 2.0, 5.0, 4.0]), (1.0, 5.0));
    }
}
