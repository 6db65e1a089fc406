//! How long requests took, and how many there are.

use super::{TableArgs, doublings};
use crate::cli::words::duration;
use crate::control::report::{IoActive, IoTimes};
use crate::control::spread::Spread;

/// Columns: `syncw` are durable writes.
pub(super) const KINDS: [&str; 4] = ["read", "write", "syncw", "flush"];

fn spreads(times: &IoTimes) -> [&Spread; 4] {
    [&times.read, &times.write, &times.durable_write, &times.flush]
}

/// In the order of [`KINDS`].
pub(super) const fn active(active: IoActive) -> [u64; 4] {
    [active.read, active.write, active.durable_write, active.flush]
}

/// Means, at most a sixteenth too large; `-` where there was none.
pub(super) fn averages(times: &IoTimes, style: TableArgs) -> [String; 4] {
    spreads(times).map(|spread| match spread.mean() {
        None => "-".into(),
        Some(ns) if style.exact => ns.to_string(),
        Some(ns) => duration(ns),
    })
}

/// How the times are distributed.
pub(super) fn histogram(name: &str, times: &IoTimes, style: TableArgs) -> String {
    doublings::table(name, &KINDS, &spreads(times), &duration, style)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times() -> IoTimes {
        IoTimes { read: Spread(vec![(1_000, 3), (1_500, 1)]), flush: Spread(vec![(6_000, 2)]), ..IoTimes::default() }
    }

    #[test]
    fn a_histogram_has_a_row_for_each_doubling_in_between() {
        let expected = "\
tank             read      write      syncw      flush
    1.02us          3          0          0          0
    2.05us          1          0          0          0
    4.09us          0          0          0          0
    8.19us          0          0          0          2
";
        assert_eq!(histogram("  tank", &times(), TableArgs::default()), expected);
        let plain = histogram("tank", &times(), TableArgs { plain: true, exact: true });
        assert_eq!(plain.lines().next(), Some("tank\t1023\t3\t0\t0\t0"));
        assert_eq!(histogram("tank", &IoTimes::default(), TableArgs::default()).lines().count(), 1);
    }

    #[test]
    fn averages_of_what_there_was() {
        assert_eq!(averages(&times(), TableArgs::default()), ["1.12us", "-", "-", "6.00us"]);
    }
}
