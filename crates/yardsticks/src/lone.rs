//! A lone client beside the bare loop. A client sees the round trip and the device; what the server itself takes it
//! keeps count of, and is asked for here.

use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;

use crate::Site;
use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, POOL, Setup};
use crate::floor::Floor;
use crate::load::{self, Load, Measured};

/// What `lone` takes.
#[derive(Args)]
pub struct Lone {
    #[command(flatten)]
    site: Site,
    /// Requests in each run.
    #[arg(long, default_value_t = 20_000)]
    items: u64,
}

/// What `tally stat ops --json` tells, as far as this benchmark cares.
#[derive(Deserialize)]
struct Ops {
    own: Quantiles,
    whole: Quantiles,
}

#[derive(Deserialize)]
struct Quantiles {
    p50_ns: u64,
    p99_ns: u64,
}

const OWN: &str = "lone SETATTR: the server's own time, p50";
const BARE: &str = "lone SETATTR: the floor's own time, p50";
const WHOLE: &str = "lone SETATTR: whole p99 against the device's p99";
const BESIDE: &str = "lone SETATTR: rate against the floor's";

impl Lone {
    /// Runs the server, anew each time so that its counters hold one run, and the floor alternately.
    pub fn run(&self) -> Result<()> {
        let binaries = Binaries::build()?;
        let folder = self.site.folder()?;
        let mut figures = Figures::default();
        for _ in 0..self.site.runs {
            let floor = Floor::start(&folder)?;
            let bare = load::run(&floor.target(), Load::Lone, 1, self.items)?;
            add(&mut figures, "floor", &bare);
            figures.add(BARE, "µs", micros(floor.own_ns(0.5)));
            drop(floor);
            let filer = Filer::make(&binaries, Setup { pool_bytes: 1 << 30, ..Setup::default() }, &folder)?;
            let measured = load::run(&filer.target(POOL), Load::Lone, 1, self.items)?;
            add(&mut figures, "tally", &measured);
            figures.add(BESIDE, "", measured.rate() / bare.rate());
            let ops: Ops = serde_json::from_str(&filer.command(&["stat", "ops", "--json"])?)?;
            let lane = filer.status()?.lanes.first().copied().context("a pool without a log")?;
            figures.add(OWN, "µs", micros(ops.own.p50_ns));
            figures.add("the same, p99", "µs", micros(ops.own.p99_ns));
            figures.add("lone SETATTR: whole, p50", "µs", micros(ops.whole.p50_ns));
            figures.add("lone SETATTR: whole, p99", "µs", micros(ops.whole.p99_ns));
            figures.add("the log device's durable write, p50", "µs", micros(lane.write_ns_p50));
            figures.add("the log device's durable write, p99", "µs", micros(lane.write_ns_p99));
            figures.add(WHOLE, "", ops.whole.p99_ns as f64 / lane.write_ns_p99 as f64);
        }
        figures.finish("lone")?;
        figures.row("bench lone", OWN, Bar::AtMost(30.0));
        figures.row("bench lone", BARE, Bar::Stated);
        figures.row("bench lone", WHOLE, Bar::AtMost(2.0));
        figures.row("bench lone", BESIDE, Bar::Stated);
        Ok(())
    }
}

fn add(figures: &mut Figures, contender: &str, measured: &Measured) {
    figures.add(&format!("lone SETATTR, {contender}"), "1/s", measured.rate());
    let p99 = measured.latency_ns.value_at_quantile(0.99);
    figures.add(&format!("lone SETATTR, {contender}, as the client sees it, p99"), "µs", micros(p99));
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}
