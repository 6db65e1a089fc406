//! `tally dataset`: its grammar, its requests and its table.

use clap::Subcommand;
use tally_base::Size;

use super::args::TableArgs;
use super::table::{Align, Table};
use super::words;
use crate::control::message::{Assignment, Request};
use crate::control::report::DatasetReport;

/// The commands on datasets.
#[derive(Debug, Subcommand)]
pub enum DatasetCommand {
    /// Make a dataset
    Create {
        /// Set a property; may be repeated
        #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = words::assignment)]
        properties: Vec<Assignment>,
        /// Make missing ancestors, too
        #[arg(short = 'p')]
        parents: bool,
        /// What ZFS makes a volume with: it must not be taken for a wish to see the version
        #[arg(short = 'V', hide = true, value_name = "SIZE", value_parser = words::volume_size)]
        volume: Option<String>,
        /// Its name: tank/home
        name: String,
    },
    /// Destroy a dataset: its files are lost
    Destroy {
        /// With all datasets below it
        #[arg(short)]
        recursive: bool,
        /// The dataset
        name: String,
    },
    /// List datasets with their space
    List {
        /// Datasets; all when none is named
        names: Vec<String>,
        /// Also what is below them
        #[arg(short)]
        recursive: bool,
        #[command(flatten)]
        table: TableArgs,
    },
    /// Print properties, and where their values come from
    Get {
        /// Properties, separated by commas, or 'all'
        properties: String,
        /// Datasets; all when none is named
        names: Vec<String>,
        /// Also what is below them
        #[arg(short)]
        recursive: bool,
        #[command(flatten)]
        table: TableArgs,
    },
    /// Set properties: sync, logbias, recordsize, refquota, readonly, atime, compression, sharenfs
    Set {
        /// property=value, one or more, then the dataset
        #[arg(required = true, num_args = 2.., value_name = "PROPERTY=VALUE... DATASET")]
        words: Vec<String>,
    },
    /// Take a property from the parent again
    Inherit {
        /// The property
        property: String,
        /// The dataset
        name: String,
    },
    /// Rename a dataset, with all below it
    Rename {
        /// Its name
        from: String,
        /// Its new name, in the same pool
        to: String,
    },
}

impl DatasetCommand {
    /// What to ask the daemon.
    pub(super) fn request(&self) -> Result<Request, String> {
        Ok(match self {
            Self::Create { properties, parents, volume: _, name } => {
                Request::DatasetCreate { name: name.clone(), parents: *parents, properties: properties.clone() }
            }
            Self::Destroy { recursive, name } => Request::DatasetDestroy { name: name.clone(), recursive: *recursive },
            Self::List { names, recursive, .. } => Request::DatasetList { names: names.clone(), recursive: *recursive },
            Self::Get { properties, names, recursive, .. } => Request::DatasetGet {
                names: names.clone(),
                recursive: *recursive,
                properties: words::property_list(properties),
            },
            Self::Set { words } => {
                let (name, assignments) = words::assignments_then_name(words)?;
                Request::DatasetSet { name, assignments }
            }
            Self::Inherit { property, name } => {
                Request::DatasetInherit { name: name.clone(), property: property.clone() }
            }
            Self::Rename { from, to } => Request::DatasetRename { from: from.clone(), to: to.clone() },
        })
    }
}

/// `tally dataset list`.
pub(super) fn list(datasets: &[DatasetReport], style: TableArgs) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let columns = [("NAME", left), ("USED", right), ("AVAIL", right), ("REFER", right), ("MOUNTPOINT", left)];
    let mut table = Table::new(&columns);
    let size = |bytes: u64| if style.exact { bytes.to_string() } else { Size(bytes).to_string() };
    for dataset in datasets {
        table.row(vec![
            dataset.name.clone(),
            size(dataset.used),
            size(dataset.available),
            size(dataset.referenced),
            dataset.mountpoint.clone(),
        ]);
    }
    table.print(style)
}
