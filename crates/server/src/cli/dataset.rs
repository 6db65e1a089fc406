//! `tally dataset`: its grammar, its requests and its table.

use clap::Subcommand;
use tally_base::Size;
use tally_store::properties::{check_user_name, is_user_name};

use super::table::{Align, Table, TableArgs};
use super::words;
use crate::control::message::{Assignment, Request};
use crate::control::report::DatasetReport;
use crate::dates;

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
        /// Columns, separated by commas: name, used, avail, refer, mountpoint, creation, createtxg, guid, held, and
        /// properties that users name
        #[arg(short = 'o', value_name = "COLUMN,...", value_parser = columns, default_value = DEFAULT_COLUMNS)]
        columns: Columns,
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
    /// Set properties: sync, logbias, recordsize, quota, refquota, readonly, atime, compression, delegations,
    /// sharenfs, and those that users name, like com.example:note
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
            Self::List { names, recursive, columns, .. } => {
                Request::DatasetList { names: names.clone(), recursive: *recursive, users: columns.users() }
            }
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

/// A column of `tally dataset list`.
#[derive(Clone, Debug)]
enum Column {
    Name,
    Used,
    Available,
    Referenced,
    Mountpoint,
    Creation,
    CreateTxg,
    Guid,
    Held,
    /// A property that users name.
    User(String),
}

/// What `-o` chooses.
#[derive(Clone, Debug)]
pub struct Columns(Vec<Column>);

const DEFAULT_COLUMNS: &str = "name,used,avail,refer,mountpoint";

fn columns(text: &str) -> Result<Columns, String> {
    let column = |word: &str| match word {
        "name" => Ok(Column::Name),
        "used" => Ok(Column::Used),
        "avail" | "available" => Ok(Column::Available),
        "refer" | "referenced" => Ok(Column::Referenced),
        "mountpoint" => Ok(Column::Mountpoint),
        "creation" => Ok(Column::Creation),
        "createtxg" => Ok(Column::CreateTxg),
        "guid" => Ok(Column::Guid),
        "held" => Ok(Column::Held),
        other if is_user_name(other) => match check_user_name(other) {
            Ok(()) => Ok(Column::User(other.into())),
            Err(error) => Err(error.to_string()),
        },
        other => Err(format!("there is no column '{other}'")),
    };
    text.split(',').map(column).collect::<Result<_, _>>().map(Columns)
}

impl Columns {
    fn users(&self) -> Vec<String> {
        let user = |column: &Column| if let Column::User(name) = column { Some(name.clone()) } else { None };
        self.0.iter().filter_map(user).collect()
    }
}

impl Column {
    fn title(&self) -> (String, Align) {
        let (title, align) = match self {
            Self::User(name) => return (name.to_uppercase(), Align::Left),
            Self::Name => ("NAME", Align::Left),
            Self::Used => ("USED", Align::Right),
            Self::Available => ("AVAIL", Align::Right),
            Self::Referenced => ("REFER", Align::Right),
            Self::Mountpoint => ("MOUNTPOINT", Align::Left),
            Self::Creation => ("CREATION", Align::Left),
            Self::CreateTxg => ("CREATETXG", Align::Right),
            Self::Guid => ("GUID", Align::Right),
            Self::Held => ("HELD", Align::Right),
        };
        (title.into(), align)
    }

    fn cell(&self, dataset: &DatasetReport, is_exact: bool) -> String {
        let size = |bytes: u64| if is_exact { bytes.to_string() } else { Size(bytes).to_string() };
        match self {
            Self::Name => dataset.name.clone(),
            Self::Used => size(dataset.used),
            Self::Available => size(dataset.available),
            Self::Referenced => size(dataset.referenced),
            Self::Mountpoint => dataset.mountpoint.clone(),
            Self::Creation if is_exact => dataset.created.to_string(),
            Self::Creation => dates::utc_as_zfs(dataset.created),
            Self::CreateTxg => dataset.created_txg.to_string(),
            Self::Guid => dataset.guid.to_string(),
            Self::Held => dataset.held.map_or_else(|| "-".into(), |held| held.to_string()),
            Self::User(name) => dataset.user.get(name).cloned().unwrap_or_else(|| "-".into()),
        }
    }
}

/// `tally dataset list`.
pub(super) fn list(datasets: &[DatasetReport], Columns(columns): &Columns, style: TableArgs) -> String {
    let mut table = Table::of(columns.iter().map(Column::title).collect());
    for dataset in datasets {
        table.row(columns.iter().map(|column| column.cell(dataset, style.exact)).collect());
    }
    table.print(style)
}
