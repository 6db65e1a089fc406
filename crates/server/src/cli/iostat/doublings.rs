//! Histograms by steps of doubled length.

use super::TableArgs;
use crate::control::spread::Spread;

/// A table with a row for each doubling, from the first that anything fell into to the last. `shown` is how the end of a step is told to a person.
pub(super) fn table<const N: usize>(
    name: &str,
    titles: &[&str; N],
    spreads: &[&Spread; N],
    shown: &dyn Fn(u64) -> String,
    style: TableArgs,
) -> String {
    let doubled = spreads.map(doublings);
    let used = |row: &usize| doubled.iter().any(|counts| counts[*row] > 0);
    let (first, last) = ((0..64).find(used), (0..64).rfind(used));
    let mut text = String::new();
    if !style.plain {
        let titles = titles.map(|title| format!("{title:>9}")).join("  ");
        text += &format!("{:<10}  {titles}\n", name.trim_start());
    }
    let (Some(first), Some(last)) = (first, last) else { return text };
    for row in first..=last {
        let end = u64::MAX >> (63 - row);
        let counts = doubled.each_ref().map(|counts| counts[row]);
        if style.plain {
            let counts = counts.map(|count| count.to_string()).join("\t");
            text += &format!("{}\t{end}\t{counts}\n", name.trim_start());
        } else {
            let end = if style.exact { end.to_string() } else { shown(end) };
            text += &format!("{end:>10}  {}\n", counts.map(|count| format!("{count:>9}")).join("  "));
        }
    }
    text
}

/// Counts by the doubling that they fell into.
fn doublings(spread: &Spread) -> [u64; 64] {
    let mut counts = [0; 64];
    for (end, count) in &spread.0 {
        counts[end.max(&1).ilog2() as usize] += count;
    }
    counts
}
