//! What a benchmark prints, and the JSON that it leaves beside.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::load::Measured;

/// Runs of several contenders, taken alternately, so that a machine that slows down slows them all.
#[derive(Default)]
pub(crate) struct Report {
    runs: BTreeMap<String, Vec<Measured>>,
}

#[derive(Serialize)]
struct Line {
    contender: String,
    rates_per_second: Vec<f64>,
    median_per_second: f64,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    max_us: f64,
}

impl Report {
    /// Adds one run of `contender`.
    pub(crate) fn add(&mut self, contender: &str, measured: Measured) {
        eprintln!("  {contender}: {:.0}/s", measured.rate());
        self.runs.entry(contender.to_owned()).or_default().push(measured);
    }

    /// Rates of a contender's runs, in the order in which they were taken.
    pub(crate) fn rates(&self, contender: &str) -> Vec<f64> {
        self.runs.get(contender).map(|runs| runs.iter().map(Measured::rate).collect()).unwrap_or_default()
    }

    /// Prints a table and writes `target/bench/NAME-SECONDS.json`.
    pub(crate) fn finish(&self, name: &str, item: &str) -> Result<()> {
        println!("{name}: {item} per second, median (lowest … highest); one of the {item}, µs: p50, p90, p99, max");
        let lines: Vec<_> = self.runs.iter().map(|(contender, runs)| line(contender, runs)).collect::<Result<_>>()?;
        for line in &lines {
            let (low, high) = spread(&line.rates_per_second);
            println!(
                "{:<24} {:>8.0} ({low:.0} … {high:.0})   {:>7.1} {:>7.1} {:>7.1} {:>8.1}",
                line.contender, line.median_per_second, line.p50_us, line.p90_us, line.p99_us, line.max_us
            );
        }
        save(name, &lines)
    }
}

fn line(contender: &str, runs: &[Measured]) -> Result<Line> {
    let mut all = Histogram::<u64>::new(3)?;
    for run in runs {
        all.add(&run.latency_ns)?;
    }
    let rates: Vec<_> = runs.iter().map(Measured::rate).collect();
    let micros = |quantile| all.value_at_quantile(quantile) as f64 / 1000.0;
    Ok(Line {
        contender: contender.to_owned(),
        median_per_second: median(rates.clone()),
        rates_per_second: rates,
        p50_us: micros(0.5),
        p90_us: micros(0.9),
        p99_us: micros(0.99),
        max_us: all.max() as f64 / 1000.0,
    })
}

/// Writes anything as JSON below `target/bench`.
pub(crate) fn save(name: &str, value: &impl Serialize) -> Result<()> {
    let folder = tally_lab::cargo::target_folder().join("bench");
    std::fs::create_dir_all(&folder)?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let path: PathBuf = folder.join(format!("{}-{seconds}.json", name.replace(' ', "-")));
    std::fs::write(&path, serde_json::to_vec_pretty(value)?)?;
    println!("figures: {}", path.display());
    Ok(())
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// The lowest and the highest value.
pub(crate) fn spread(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)))
}
