//! Figures of a benchmark that are not all rates of one load: each with its unit, one value a run, printed as a
//! median with its spread, and as a row of the table in `docs/benchmarks.md`.

use anyhow::Result;
use serde::Serialize;

use crate::report;

/// Named values, in the order in which they were first added.
#[derive(Default, Serialize)]
pub(crate) struct Figures(Vec<Figure>);

#[derive(Serialize)]
struct Figure {
    what: String,
    unit: &'static str,
    values: Vec<f64>,
}

/// What is promised of a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bar {
    AtLeast(f64),
    AtMost(f64),
    /// The figure is to be stated, whatever it is.
    Stated,
}

impl Bar {
    /// How a table shows it, and whether a figure keeps it.
    pub(crate) fn judge(self, figure: f64) -> (String, &'static str) {
        let kept = |kept| if kept { "yes" } else { "**no**" };
        match self {
            Self::AtLeast(bar) => (format!("≥ {bar}"), kept(figure >= bar)),
            Self::AtMost(bar) => (format!("≤ {bar}"), kept(figure <= bar)),
            Self::Stated => ("stated".to_owned(), ""),
        }
    }
}

impl Figures {
    /// Adds the value of one run.
    pub(crate) fn add(&mut self, what: &str, unit: &'static str, value: f64) {
        eprintln!("  {what}: {} {unit}", short(value));
        match self.0.iter_mut().find(|figure| figure.what == what) {
            Some(figure) => figure.values.push(value),
            None => self.0.push(Figure { what: what.to_owned(), unit, values: vec![value] }),
        }
    }

    /// Adds `above / below` of each pair of runs that were taken one after the other.
    pub(crate) fn add_ratios(&mut self, what: &str, above: &str, below: &str) {
        for ratio in self.ratios(above, below) {
            self.add(what, "", ratio);
        }
    }

    /// `above / below` of each pair of runs that were taken one after the other.
    pub(crate) fn ratios(&self, above: &str, below: &str) -> Vec<f64> {
        self.values(above).iter().zip(self.values(below)).map(|(above, below)| above / below).collect()
    }

    /// The values of a figure, run by run; none where nobody added one.
    fn values(&self, what: &str) -> &[f64] {
        self.0.iter().find(|figure| figure.what == what).map_or(&[], |figure| &figure.values)
    }

    /// The median of a figure, as a table shows it; empty where there is none.
    pub(crate) fn median(&self, what: &str) -> String {
        match self.values(what) {
            [] => String::new(),
            values => short(report::median(values.to_vec())),
        }
    }

    /// Prints all and saves them.
    pub(crate) fn finish(&self, name: &str) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        println!("{name}: median (lowest … highest)");
        for figure in &self.0 {
            println!("  {:<58} {} {}", figure.what, figure.spread(), figure.unit);
        }
        report::save(name, &self.0)
    }

    /// Median and spread of a figure.
    pub(crate) fn spread(&self, what: &str) -> Option<String> {
        self.0.iter().find(|figure| figure.what == what).map(Figure::spread)
    }

    /// Prints a figure as a row of the table in `docs/benchmarks.md`.
    pub(crate) fn row(&self, command: &str, what: &str, bar: Bar) {
        let Some(figure) = self.0.iter().find(|figure| figure.what == what) else { return };
        let median = report::median(figure.values.clone());
        let (bar, kept) = bar.judge(median);
        let unit = if figure.unit.is_empty() { String::new() } else { format!(" {}", figure.unit) };
        println!("| `cargo xtask {command}` | {what} | {bar} | {}{unit} | {kept} |", figure.spread());
    }
}

impl Figure {
    fn spread(&self) -> String {
        shown(&self.values)
    }
}

/// A median with its spread.
pub(crate) fn shown(values: &[f64]) -> String {
    let (low, high) = report::spread(values);
    format!("{} ({} … {})", short(report::median(values.to_vec())), short(low), short(high))
}

/// Three digits that matter.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        size if size < f64::MIN_POSITIVE => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_a_median_with_its_spread() {
        let mut figures = Figures::default();
        for (above, below) in [(300.0, 100.0), (100.0, 100.0), (50.0, 10.0)] {
            figures.add("quick", "1/s", above);
            figures.add("slow", "1/s", below);
        }
        figures.add_ratios("ratio", "quick", "slow");
        assert_eq!(figures.0[2].spread(), "3.00 (1.00 … 5.00)");
    }
}
