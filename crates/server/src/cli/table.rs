//! Tables as `zpool list` prints them: two spaces between columns, numbers to the right.

use clap::Args;

/// How tables are printed.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct TableArgs {
    /// No header, and a single tab between fields
    #[arg(short = 'H')]
    pub plain: bool,

    /// Exact numbers
    #[arg(short = 'p')]
    pub exact: bool,
}

/// How a column is aligned. The last column is never padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows under a header.
pub(super) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(columns: &[(&'static str, Align)]) -> Self {
        Self::of(columns.iter().map(|(title, align)| ((*title).to_owned(), *align)).collect())
    }

    /// With titles that somebody has typed.
    pub(super) fn of(columns: Vec<(String, Align)>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row with one cell for each column.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// The text, with a newline at the end of each line; empty when there are no rows.
    pub(super) fn print(&self, style: TableArgs) -> String {
        if style.plain {
            return self.rows.iter().map(|cells| cells.join("\t") + "\n").collect();
        }
        if self.rows.is_empty() {
            return String::new();
        }
        let header: Vec<String> = self.columns.iter().map(|(title, _)| title.clone()).collect();
        let lines = std::iter::once(&header).chain(&self.rows);
        let width = |column: usize| lines.clone().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        lines.clone().map(|cells| self.line(cells, &widths)).collect()
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let padded = self.columns.iter().zip(cells).zip(widths).map(|(((_, align), cell), width)| match align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        });
        let line = padded.collect::<Vec<_>>().join("  ");
        format!("{}\n", line.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[("NAME", Align::Left), ("USED", Align::Right), ("MOUNTPOINT", Align::Left)]);
        table.row(vec!["tank".into(), "10.5G".into(), "/tank".into()]);
        table.row(vec!["tank/home".into(), "1K".into(), "/tank/home".into()]);
        table
    }

    #[test]
    fn columns_line_up() {
        let expected = "\
NAME        USED  MOUNTPOINT
tank       10.5G  /tank
tank/home     1K  /tank/home
";
        assert_eq!(table().print(TableArgs::default()), expected);
        assert_eq!(Table::new(&[("NAME", Align::Left)]).print(TableArgs::default()), "");
    }

    #[test]
    fn scripts_get_tabs_and_no_header() {
        let plain = TableArgs { plain: true, exact: false };
        assert_eq!(table().print(plain), "tank\t10.5G\t/tank\ntank/home\t1K\t/tank/home\n");
    }
}
