//! Which columns a table has, and in which order its rows stand: `-o`, `-s` and `-S` of `list`, `-o` of `get`.

use std::cmp::Ordering;

use super::table::{Align, Table, TableArgs};

/// What a table of these rows can show.
pub trait Column: Clone + Sized {
    /// What a row is about.
    type Row;

    /// Reads a name, or tells that there is none of that.
    fn of_name(name: &str) -> Option<Result<Self, String>>;

    /// All names, for who has typed another one.
    const NAMES: &'static [&'static str];

    /// What else there is, in words.
    const MORE: &'static str = "";

    fn title(&self) -> (String, Align);

    /// For people, or exact.
    fn cell(&self, row: &Self::Row, is_exact: bool) -> String;
}

/// Those that were chosen.
#[derive(Clone, Debug)]
pub struct Columns<C>(pub(super) Vec<C>);

/// Reads names with commas between them; for clap.
pub(super) fn columns<C: Column>(text: &str) -> Result<Columns<C>, String> {
    text.split(',').map(column).collect::<Result<_, _>>().map(Columns)
}

/// Reads one; for clap.
pub(super) fn column<C: Column>(name: &str) -> Result<C, String> {
    let unknown = || format!("there is no column '{name}'; there are {}{}", C::NAMES.join(", "), C::MORE);
    C::of_name(name).unwrap_or_else(|| Err(unknown()))
}

/// By what rows are sorted: ascending by the first, then descending by the second.
#[derive(Clone, Debug)]
pub(super) struct Sorting<'a, C> {
    pub(super) up: &'a [C],
    pub(super) down: &'a [C],
}

impl<C: Column> Columns<C> {
    /// The rows, sorted; those that are equal stay in their order.
    pub(super) fn print(&self, rows: &[C::Row], by: &Sorting<'_, C>, style: TableArgs) -> String {
        let mut rows: Vec<_> = rows.iter().collect();
        rows.sort_by(|a, b| by.order(a, b));
        let mut table = Table::of(self.0.iter().map(Column::title).collect());
        rows.into_iter().for_each(|row| table.row(self.0.iter().map(|column| column.cell(row, style.exact)).collect()));
        table.print(style)
    }
}

impl<C: Column> Sorting<'_, C> {
    fn order(&self, a: &C::Row, b: &C::Row) -> Ordering {
        let of = |column: &C| compare(&column.cell(a, true), &column.cell(b, true));
        let up = self.up.iter().map(of);
        let down = self.down.iter().map(|column| of(column).reverse());
        up.chain(down).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

/// Numbers by what they say, and the rest by their letters.
fn compare(a: &str, b: &str) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        _ => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_as_such() {
        assert_eq!(compare("9", "10"), Ordering::Less);
        assert_eq!(compare("tank/9", "tank/10"), Ordering::Greater);
        assert_eq!(compare("-", "10"), Ordering::Less);
    }
}
