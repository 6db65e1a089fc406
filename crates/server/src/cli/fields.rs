//! What `get` shows of properties: which fields (`-o`), and of which sources (`-s`).

use clap::{Args, ValueEnum};

use super::table::{Align, Table, TableArgs};
use crate::control::report::PropertyLine;

/// The words for that.
#[derive(Clone, Debug, Args)]
pub struct Fields {
    /// Fields, separated by commas
    #[arg(short = 'o', value_name = "FIELD,...", value_delimiter = ',', default_value = "name,property,value,source")]
    shown: Vec<Field>,
    /// Only values of these sources, separated by commas
    #[arg(short = 's', value_name = "SOURCE,...", value_delimiter = ',')]
    sources: Vec<Source>,
}

/// A field of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Field {
    /// Whose it is
    Name,
    /// What it is called
    Property,
    /// Its value
    Value,
    /// A value that came with a stream: none does yet
    Received,
    /// Where the value is from
    Source,
    /// All of them
    All,
}

/// Where a value is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Source {
    /// It was set on that dataset or pool
    Local,
    /// Nobody has set it
    Default,
    /// It was set on a dataset above
    Inherited,
    /// It was given for one mount: none is
    Temporary,
    /// It came with a stream: none does yet
    Received,
    /// It cannot be set
    #[value(name = "none")]
    Nothing,
}

impl Source {
    fn is_it(self, source: &str) -> bool {
        match self {
            Self::Local => source == "local" || source.starts_with("[["),
            Self::Default => source == "default",
            Self::Inherited => source.starts_with("inherited"),
            Self::Nothing => source == "-",
            Self::Temporary | Self::Received => false,
        }
    }
}

impl Fields {
    /// The table of these.
    pub(super) fn print(&self, lines: &[PropertyLine], style: TableArgs) -> String {
        let every = [Field::Name, Field::Property, Field::Value, Field::Source];
        let shown = if self.shown.contains(&Field::All) { &every[..] } else { &self.shown };
        let title = |field: &Field| match field {
            Field::Name | Field::All => "NAME",
            Field::Property => "PROPERTY",
            Field::Value => "VALUE",
            Field::Received => "RECEIVED",
            Field::Source => "SOURCE",
        };
        let mut table = Table::of(shown.iter().map(|field| (title(field).to_owned(), Align::Left)).collect());
        let is_wanted = |line: &&PropertyLine| {
            self.sources.is_empty() || self.sources.iter().any(|source| source.is_it(&line.source))
        };
        for line in lines.iter().filter(is_wanted) {
            let cell = |field: &Field| match field {
                Field::Name | Field::All => line.name.clone(),
                Field::Property => line.property.clone(),
                Field::Value if style.exact => line.exact.clone(),
                Field::Value => line.value.clone(),
                Field::Received => "-".into(),
                Field::Source => line.source.clone(),
            };
            table.row(shown.iter().map(cell).collect());
        }
        table.print(style)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_asks_for_values_gets_values() {
        let line = |property: &str, value: &str, source: &str| PropertyLine {
            name: "tank".into(),
            property: property.into(),
            value: value.into(),
            exact: value.into(),
            source: source.into(),
        };
        let lines = [line("health", "ONLINE", "-"), line("failmode", "wait", "default"), line("scrub", "off", "local")];
        let plain = TableArgs { plain: true, exact: false };
        let values = Fields { shown: vec![Field::Value], sources: Vec::new() };
        assert_eq!(values.print(&lines, plain), "ONLINE\nwait\noff\n");
        let local = Fields { shown: vec![Field::Property, Field::Source], sources: vec![Source::Local] };
        assert_eq!(local.print(&lines, plain), "scrub\tlocal\n");
    }
}
