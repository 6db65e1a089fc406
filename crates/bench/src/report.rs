//! What a benchmark leaves: every run with its figures, the work of the disks, and the verdict. This is also what is
//! saved as JSON, so a field is never renamed.

mod compare;

use serde::{Deserialize, Serialize};

use crate::case::{Case, Plan};
use crate::client::As;
use crate::referee::{Findings, Verdict};
use crate::stage::Phase;
use crate::work::Work;

pub use compare::{Group, Row, compare};

/// Name of the format.
const FORMAT: &str = "tally-bench 1";

/// Everything about one benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The format of this report.
    pub format: String,
    /// Version of the program.
    pub version: String,
    /// The case and its size.
    pub case: Case,
    /// What was measured, as the user named it.
    pub target: String,
    /// Who the server took the clients for.
    pub whose: As,
    /// When it began, seconds since 1970-01-01 UTC.
    pub started_seconds: u64,
    /// Whose counters were watched.
    pub watched: Option<String>,
    /// The verdict on all runs together.
    pub verdict: Verdict,
    /// Whether work was promised that was never done, in any part of any run.
    pub collapsed: bool,
    /// Each measured part, over all runs.
    pub figures: Vec<Figure>,
    /// In the order in which they were made.
    pub runs: Vec<Run>,
}

/// One run of the case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its measured parts.
    pub phases: Vec<Phase>,
    /// What the lone probe has found, where somebody watched.
    pub findings: Option<Findings>,
    /// The verdict on this run.
    pub verdict: Verdict,
}

/// One measured part, over all runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What the part is called, the same in all reports of this case.
    pub name: String,
    /// Of the rates: `files/s`, `MiB/s`.
    pub unit: String,
    /// The rate of each run.
    pub rates: Vec<f64>,
    /// The rate in the middle.
    pub median: f64,
    /// The lowest rate.
    pub lowest: f64,
    /// The highest rate.
    pub highest: f64,
    /// Half of the requests were answered within this time; the median of the runs.
    pub p50_ns: u64,
    /// 99 of 100 were answered within this time; the median of the runs.
    pub p99_ns: u64,
    /// Replies that promised durability, in one run.
    pub promises: u64,
    /// Bytes that were promised to be durable, in one run.
    pub promised_bytes: u64,
    /// What the disks did until the last reply, in the run of the median.
    pub work: Option<Work>,
    /// What they did until they were quiet, in the same run.
    pub settled: Option<Work>,
    /// Whether fewer bytes reached the disks than were promised, in any run.
    pub collapsed: bool,
}

impl Report {
    pub(crate) fn new(plan: &Plan, started_seconds: u64, watched: Option<String>, runs: Vec<Run>) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            case: plan.case.clone(),
            target: plan.target.clone(),
            whose: plan.whose,
            started_seconds,
            watched,
            verdict: Verdict::worst(runs.iter().map(|run| run.verdict.clone())),
            collapsed: runs.iter().any(|run| run.phases.iter().any(|phase| run.is_collapsed(phase))),
            figures: figures(&runs),
            runs,
        }
    }

    /// Whether its figures may be ranked: it keeps its word, and has done the work.
    #[must_use]
    pub fn may_be_ranked(&self) -> bool {
        self.verdict == Verdict::Honest && !self.collapsed
    }

    /// The verdict in words, and collapsed beside it.
    #[must_use]
    pub fn verdict_words(&self) -> String {
        let collapsed = if self.collapsed { ", COLLAPSED" } else { "" };
        format!("{}{collapsed}", self.verdict.word())
    }
}

impl Run {
    /// Whether this part of it promised work that was never done. Of disks that may be another server's nobody knows.
    fn is_collapsed(&self, phase: &Phase) -> bool {
        phase.collapsed() && !matches!(self.verdict, Verdict::Unverified { .. })
    }
}

/// The parts in the order of the first run; every run has the same.
fn figures(runs: &[Run]) -> Vec<Figure> {
    let parts = runs.first().map_or(0, |run| run.phases.len());
    let of = |part: usize| runs.iter().filter_map(move |run| Some((run, run.phases.get(part)?)));
    (0..parts)
        .filter_map(|part| {
            let collapsed = of(part).any(|(run, phase)| run.is_collapsed(phase));
            figure(&of(part).map(|(_, phase)| phase).collect::<Vec<_>>(), collapsed)
        })
        .collect()
}

fn figure(phases: &[&Phase], collapsed: bool) -> Option<Figure> {
    let mut by_rate = phases.to_vec();
    by_rate.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    let middle = by_rate.get(by_rate.len() / 2)?;
    let rates: Vec<f64> = phases.iter().map(|phase| phase.rate()).collect();
    let time = |of: fn(&Phase) -> u64| {
        let mut times: Vec<u64> = phases.iter().map(|phase| of(phase)).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    Some(Figure {
        name: middle.name.clone(),
        unit: format!("{}/s", middle.item),
        median: median(&rates),
        lowest: rates.iter().copied().fold(f64::INFINITY, f64::min),
        highest: rates.iter().copied().fold(0.0, f64::max),
        rates,
        p50_ns: time(|phase| phase.p50_ns),
        p99_ns: time(|phase| phase.p99_ns),
        promises: middle.promises,
        promised_bytes: middle.promised_bytes,
        work: middle.work,
        settled: middle.settled,
        collapsed,
    })
}

/// The middle value, or the mean of the two in the middle.
fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_median_with_its_spread() {
        let phase = |items, p99_ns| Phase { items, p99_ns, elapsed_seconds: 1.0, ..Phase::default() };
        let run = |phase| Run { phases: vec![phase], findings: None, verdict: Verdict::Honest };
        let runs = [run(phase(100, 9)), run(phase(300, 7)), run(phase(200, 8))];
        let figure = &figures(&runs)[0];
        assert_eq!((figure.median, figure.lowest, figure.highest, figure.p99_ns), (200.0, 100.0, 300.0, 8));
        assert_eq!(figures(&runs[..2])[0].median, 200.0);
        assert!(figures(&[]).is_empty());
    }

    #[test]
    fn nobody_collapses_on_disks_that_may_be_another_servers() {
        let phase = Phase { promised_bytes: 4096, settled: Some(Work::default()), ..Phase::default() };
        let unverified = Verdict::Unverified { reason: "others of this machine flushed".into() };
        for (verdict, expected) in [(unverified, false), (Verdict::NotDurable { kinds: Vec::new() }, true)] {
            let plan = Plan {
                case: Case::Untar { files: 1 },
                runs: 1,
                whose: As::Root,
                quiet: std::time::Duration::ZERO,
                keep: false,
                target: String::new(),
                pace: crate::witness::Pace::default(),
            };
            let runs = vec![Run { phases: vec![phase.clone()], findings: None, verdict }];
            let report = Report::new(&plan, 0, None, runs);
            assert_eq!((report.collapsed, report.figures[0].collapsed), (expected, expected), "{:?}", report.verdict);
        }
    }
}
