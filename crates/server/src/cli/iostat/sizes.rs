//! How long requests were.

use tally_base::Size;

use super::{TableArgs, doublings};
use crate::control::report::IoSizes;

/// Columns: `syncw` are durable writes.
const KINDS: [&str; 3] = ["read", "write", "syncw"];

/// How the lengths are distributed: a row is of those from its size up to below the next one's.
pub(super) fn histogram(name: &str, sizes: &IoSizes, style: TableArgs) -> String {
    let spreads = [&sizes.read, &sizes.write, &sizes.durable_write];
    doublings::table(name, &KINDS, &spreads, &|end| Size(end / 2 + 1).to_string(), style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::spread::Spread;

    #[test]
    fn a_row_is_named_by_its_least_size() {
        let sizes = IoSizes { read: Spread(vec![(8191, 3), (16_383, 1)]), ..IoSizes::default() };
        let expected = "\
tank             read      write      syncw
        4K          3          0          0
        8K          1          0          0
";
        assert_eq!(histogram("tank", &sizes, TableArgs::default()), expected);
    }
}
