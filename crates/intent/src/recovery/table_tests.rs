//! The tables of docs/log.md, the code that decides and the tests of the rows cannot drift apart.

use std::collections::BTreeSet;

use tally_base::{Dseq, LaneId};

use super::{Contradiction, DatasetVerdict, ScanError};

const PAGE: &str = include_str!("../../../../docs/log.md");
const CODE: &str = include_str!("decide.rs");
const TESTS: &str = concat!(include_str!("tests.rs"), include_str!("merge_tests.rs"));

/// Cells of the rows of the table whose head begins with `| head |`.
fn table(text: &'static str, head: &str) -> Vec<Vec<&'static str>> {
    let lines = text.lines().map(|line| line.trim_start_matches("//! "));
    let below = lines.skip_while(|line| !line.starts_with(&format!("| {head} |"))).skip(2);
    let rows = below.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

fn first_word(cell: &'static str) -> &'static str {
    cell.split(|c: char| !c.is_alphanumeric()).next().expect("a split has at least one part")
}

/// The first words behind `prefix` in the names of tests.
fn tested(prefix: &str) -> BTreeSet<&'static str> {
    let tests = TESTS.split("#[test]\n").skip(1).filter_map(|test| test.strip_prefix("fn "));
    tests.filter_map(|name| name.strip_prefix(prefix)).map(|name| name.split('_').next().expect("a name")).collect()
}

fn cases() -> BTreeSet<&'static str> {
    table(PAGE, "case").iter().map(|row| first_word(row[0])).collect()
}

fn verdict_rows() -> BTreeSet<&'static str> {
    table(PAGE, "what is found").iter().map(|row| first_word(row[1])).collect()
}

#[test]
fn every_case_has_a_test_and_every_test_a_case() {
    assert_eq!(cases().len(), 23, "rows are lost on the way from the page to this test");
    assert_eq!(cases(), tested("case_"));
}

#[test]
fn every_verdict_on_a_dataset_has_a_test_and_every_test_a_verdict() {
    assert_eq!(verdict_rows(), tested("verdict_"));
}

#[test]
fn the_page_and_the_code_have_the_same_cases() {
    let names = |text| table(text, "case").into_iter().map(|row| row[0]).collect::<Vec<_>>();
    assert_eq!(names(PAGE), names(CODE));
}

/// A new way to contradict itself does not compile before it has a row.
fn row_of(stop: &ScanError) -> Option<&'static str> {
    match stop {
        ScanError::TwoWriters { .. } => Some("g"),
        // The label's fault, before anything is read.
        ScanError::Geometry { .. } => None,
    }
}

/// Nor does a new way that ends in a loss.
fn row_of_contradiction(contradiction: Contradiction) -> &'static str {
    match contradiction {
        Contradiction::TwoEpochs { .. } => "q",
        Contradiction::Misnumbered { .. } => "t",
        Contradiction::Malformed { .. } => "u",
    }
}

/// Nor does a new verdict.
fn word_of(verdict: &DatasetVerdict) -> &'static str {
    match verdict {
        DatasetVerdict::Whole => "whole",
        DatasetVerdict::Cut { .. } => "cut",
        DatasetVerdict::Lost { .. } => "lost",
        DatasetVerdict::Suspect { .. } => "suspect",
        DatasetVerdict::Unknown { .. } => "unknown",
    }
}

#[test]
fn everything_that_stops_an_import_is_a_case_and_every_verdict_a_row() {
    let (lane, pos) = (LaneId(0), 0);
    let rows_with = |wanted: &dyn Fn(&str) -> bool| -> BTreeSet<_> {
        table(PAGE, "case").into_iter().filter(|row| wanted(row[2])).map(|row| first_word(row[0])).collect()
    };
    let stops = [ScanError::TwoWriters { lane, pos }];
    assert_eq!(rows_with(&|decision| decision.starts_with("stop")), stops.iter().filter_map(row_of).collect());
    let contradictions =
        [Contradiction::TwoEpochs { pos }, Contradiction::Misnumbered { pos }, Contradiction::Malformed { pos }];
    let rows = rows_with(&|decision| decision.starts_with("loss") && decision.ends_with("cannot happen"));
    assert_eq!(rows, contradictions.into_iter().map(row_of_contradiction).collect());

    let (first, last, withheld) = (Dseq(1), Dseq(1), 1);
    let verdicts = [
        DatasetVerdict::Whole,
        DatasetVerdict::Cut { after: first, dropped: 1 },
        DatasetVerdict::Lost { first, last, withheld },
        DatasetVerdict::Suspect { lane },
        DatasetVerdict::Unknown { withheld },
    ];
    assert_eq!(verdict_rows(), verdicts.iter().map(word_of).collect());
}
