//! Saved reports side by side. Only what does the same is compared, and only those who keep their word are ranked; the
//! others stand below, each with what was found.

use super::{Figure, Report};
use crate::case::Case;
use crate::client::As;

/// The same part of the same case, by several servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Group<'a> {
    /// The case with its size.
    pub case: &'a Case,
    /// Who the servers took the clients for.
    pub whose: As,
    /// What was measured, as figures call it.
    pub part: &'a str,
    /// Of the rates: `files/s`, `MiB/s`.
    pub unit: &'a str,
    /// Those who keep their word, the fastest first.
    pub ranked: Vec<Row<'a>>,
    /// Those who do not, or of whom nobody knows, in the order in which they were given.
    pub unranked: Vec<Row<'a>>,
}

/// One server's figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Row<'a> {
    /// What its report is called.
    pub label: &'a str,
    /// All of it: version, target, every run.
    pub report: &'a Report,
    /// The part that is compared.
    pub figure: &'a Figure,
}

/// Groups the figures of reports that have a name each.
#[must_use]
pub fn compare<'a>(reports: &'a [(String, Report)]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (label, report) in reports {
        for figure in &report.figures {
            let same = |group: &&mut Group<'_>| {
                (group.case, group.whose, group.part) == (&report.case, report.whose, figure.name.as_str())
            };
            let row = Row { label, report, figure };
            match groups.iter_mut().find(same) {
                Some(group) => group.add(row),
                None => {
                    let (case, whose, part, unit) = (&report.case, report.whose, &figure.name, &figure.unit);
                    let mut group = Group { case, whose, part, unit, ranked: Vec::new(), unranked: Vec::new() };
                    group.add(row);
                    groups.push(group);
                }
            }
        }
    }
    groups
}

impl<'a> Group<'a> {
    fn add(&mut self, row: Row<'a>) {
        if !row.report.may_be_ranked() {
            return self.unranked.push(row);
        }
        let place = self.ranked.iter().position(|other| other.figure.median < row.figure.median);
        self.ranked.insert(place.unwrap_or(self.ranked.len()), row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::referee::Verdict;

    fn report(case: Case, median: f64, verdict: Verdict, collapsed: bool) -> Report {
        let figure = Figure {
            name: case.word().into(),
            unit: "files/s".into(),
            rates: vec![median],
            median,
            lowest: median,
            highest: median,
            p50_ns: 0,
            p99_ns: 0,
            promises: 0,
            promised_bytes: 0,
            work: None,
            settled: None,
            collapsed,
        };
        Report {
            format: String::new(),
            version: String::new(),
            case,
            target: String::new(),
            whose: As::Root,
            started_seconds: 0,
            watched: None,
            verdict,
            collapsed,
            figures: vec![figure],
            runs: Vec::new(),
        }
    }

    #[test]
    fn whoever_breaks_promises_is_never_ranked() {
        let untar = |files| Case::Untar { files };
        let broken = || Verdict::NotDurable { kinds: vec!["CREATE: 0 of 200".into()] };
        let unseen = || Verdict::Unverified { reason: "no device was named".into() };
        let reports = [
            ("slow", report(untar(4096), 100.0, Verdict::Honest, false)),
            ("liar", report(untar(4096), 900.0, broken(), false)),
            ("quick", report(untar(4096), 300.0, Verdict::Honest, false)),
            ("collapsed", report(untar(4096), 800.0, Verdict::Honest, true)),
            ("unknown", report(untar(4096), 700.0, unseen(), false)),
            ("other size", report(untar(64), 5.0, Verdict::Honest, false)),
        ];
        let reports = reports.map(|(label, report)| (label.to_owned(), report));
        let groups = compare(&reports);
        let labels = |rows: &[Row<'_>]| rows.iter().map(|row| row.label.to_owned()).collect::<Vec<_>>();
        assert_eq!(groups.len(), 2);
        assert_eq!(labels(&groups[0].ranked), ["quick", "slow"]);
        assert_eq!(labels(&groups[0].unranked), ["liar", "collapsed", "unknown"]);
        assert_eq!(labels(&groups[1].ranked), ["other size"]);
    }
}
