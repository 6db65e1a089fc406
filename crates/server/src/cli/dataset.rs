//! `tally dataset`: its grammar, its requests and its table.

use std::collections::BTreeMap;
use std::str::FromStr;

use clap::Subcommand;
use tally_base::Size;
use tally_store::properties::{Property, check_user_name, is_user_name};

use super::columns::{Column, Columns, column, columns};
use super::completion::Names;
use super::fields::Fields;
use super::mount::{MountArgs, UnmountArgs};
use super::short_names;
use super::table::{Align, TableArgs};
use super::which::Which;
use super::words;
use super::zfs_words::OfZfs;
use crate::control::message::{Assignment, Reply, Request};
use crate::control::report::{DatasetReport, PropertyLine};
use crate::dates;

/// The commands on datasets.
#[derive(Debug, Subcommand)]
pub enum DatasetCommand {
    /// Make a dataset
    Create {
        /// Set a property; may be repeated
        #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = words::assignment, add = Names::DatasetSetting)]
        properties: Vec<Assignment>,
        /// Make missing ancestors, too
        #[arg(short = 'p')]
        parents: bool,
        /// What ZFS makes a volume with: it must not be taken for a wish to see the version
        #[arg(short = 'V', hide = true, value_name = "SIZE")]
        volume: Option<String>,
        /// What stands beside that
        #[arg(short = 's', hide = true)]
        sparse: bool,
        /// The same
        #[arg(short = 'b', hide = true, value_name = "SIZE")]
        block: Option<String>,
        /// As without it: nothing is mounted here
        #[arg(short = 'u', hide = true)]
        unmounted: bool,
        /// Its name: tank/home
        #[arg(add = Names::Dataset)]
        name: String,
    },
    /// Destroy a dataset: its files are lost
    Destroy {
        /// With all datasets below it
        #[arg(short, short_alias = 'R')]
        recursive: bool,
        /// As without it: what is mounted and not in use is unmounted, and what is in use is in the way
        #[arg(short, hide = true)]
        force: bool,
        /// Only say what would go
        #[arg(short = 'n')]
        dry_run: bool,
        /// Say what has gone
        #[arg(short)]
        verbose: bool,
        /// The dataset
        #[arg(add = Names::Dataset)]
        name: String,
    },
    /// List datasets with their space
    List {
        #[command(flatten)]
        which: Which,
        /// Columns, separated by commas: name, type, used, avail, refer, mountpoint, mounted, exportpath, creation, createtxg,
        /// guid, held, and properties, also those that users name
        #[arg(short = 'o', value_name = "COLUMN,...", value_parser = columns_or_space, add = Names::DatasetColumns, default_value = DEFAULT_COLUMNS)]
        columns: Columns<DatasetColumn>,
        /// Sort by a column, the smallest first; may be repeated
        #[arg(short = 's', value_name = "COLUMN", value_parser = column::<DatasetColumn>, add = Names::DatasetColumns)]
        up: Vec<DatasetColumn>,
        /// Sort by a column, the largest first; may be repeated
        #[arg(short = 'S', value_name = "COLUMN", value_parser = column::<DatasetColumn>, add = Names::DatasetColumns)]
        down: Vec<DatasetColumn>,
        #[command(flatten)]
        table: TableArgs,
    },
    /// Print properties, and where their values come from
    Get {
        /// Properties, separated by commas, or 'all'
        #[arg(add = Names::DatasetProperties)]
        properties: String,
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        fields: Fields,
        #[command(flatten)]
        table: TableArgs,
    },
    /// Set properties: sync, logbias, recordsize, quota, refquota, readonly, atime, compression, delegations,
    /// sharenfs, sharesmb, mountpoint, canmount, and those that users name, like com.example:note
    Set {
        /// property=value, one or more, then the dataset
        #[arg(required = true, num_args = 2.., value_name = "PROPERTY=VALUE... DATASET", add = Names::DatasetSettingsThenDataset)]
        words: Vec<String>,
    },
    /// Take a property from the parent again
    Inherit {
        /// The property
        #[arg(add = Names::DatasetProperties)]
        property: String,
        /// The dataset
        #[arg(add = Names::Dataset)]
        name: String,
    },
    /// Rename a dataset, with all below it
    Rename {
        /// Its name
        #[arg(add = Names::Dataset)]
        from: String,
        /// Its new name, in the same pool
        #[arg(add = Names::Dataset)]
        to: String,
    },
    /// What is exported: nothing has to be done for it.
    #[command(hide = true)]
    Share {
        /// All
        #[arg(short, conflicts_with = "name")]
        all: bool,
        /// The dataset
        #[arg(required_unless_present = "all")]
        name: Option<String>,
    },
    /// What there is not yet.
    #[command(flatten)]
    OfZfs(OfZfs),
    /// `tally mount`, as `zfs` has it.
    #[command(hide = true)]
    Mount(MountArgs),
    /// And `tally unmount`.
    #[command(hide = true, alias = "umount")]
    Unmount(UnmountArgs),
}

impl DatasetCommand {
    /// What to ask the daemon.
    pub(super) fn request(&self) -> Result<Request, String> {
        Ok(match self {
            Self::Create { volume, sparse, block, .. } if volume.is_some() || *sparse || block.is_some() => {
                return Err(words::NO_VOLUMES.into());
            }
            Self::Create { properties, parents, name, .. } => {
                Request::DatasetCreate { name: name.clone(), parents: *parents, properties: properties.clone() }
            }
            Self::Destroy { recursive, name, .. } => {
                Request::DatasetDestroy { name: name.clone(), recursive: *recursive }
            }
            Self::List { which, columns, up, down, .. } => Request::DatasetList {
                names: which.names.clone(),
                recursive: which.is_recursive(),
                users: DatasetColumn::users(columns.0.iter().chain(up).chain(down)),
            },
            Self::Get { properties, which, .. } => Request::DatasetGet {
                names: which.names.clone(),
                recursive: which.is_recursive(),
                properties: words::property_list(properties, short_names::of_dataset),
            },
            Self::Set { words } => {
                let (name, assignments) = words::assignments_then_name(words)?;
                Request::DatasetSet { name, assignments }
            }
            Self::Inherit { property, name } => {
                Request::DatasetInherit { name: name.clone(), property: property.clone() }
            }
            Self::Share { .. } => Request::Exports,
            Self::OfZfs(words) => return Err(words.instead().into()),
            Self::Mount(_) | Self::Unmount(_) => Request::Mounts,
            Self::Rename { from, to } => Request::DatasetRename { from: from.clone(), to: to.clone() },
        })
    }

    /// What to ask beside that, for a list that shows properties.
    pub(super) fn properties_request(&self) -> Option<Request> {
        let Self::List { which, columns, up, down, .. } = self else { return None };
        let named = columns.0.iter().chain(up).chain(down).filter_map(|column| match column {
            DatasetColumn::Property(name) => Some(name.clone()),
            _ => None,
        });
        let properties: Vec<String> = named.collect();
        let (names, recursive) = (which.names.clone(), which.is_recursive());
        (!properties.is_empty()).then_some(Request::DatasetGet { names, recursive, properties })
    }

    /// What of an answer was asked for: the daemon knows nothing of depths and types.
    pub(super) fn only_meant(&self, mut reply: Reply) -> Reply {
        match (self, &mut reply) {
            (Self::List { which, .. }, Reply::Datasets(datasets)) => datasets.retain(|it| which.is_meant(&it.name)),
            (Self::Get { which, .. }, Reply::Properties(lines)) => lines.retain(|it| which.is_meant(&it.name)),
            _ => {}
        }
        reply
    }
}

/// A column of `tally dataset list`.
#[derive(Clone, Debug)]
pub enum DatasetColumn {
    Name,
    Type,
    Used,
    Available,
    Referenced,
    Mountpoint,
    Mounted,
    ExportPath,
    Creation,
    CreateTxg,
    Guid,
    Held,
    /// A property that users name.
    User(String),
    /// Any other.
    Property(String),
}

/// A dataset with those of its properties that are shown.
pub struct DatasetRow {
    dataset: DatasetReport,
    properties: Vec<PropertyLine>,
}

impl DatasetRow {
    /// Puts together what two answers say.
    pub(super) fn of(datasets: &[DatasetReport], lines: &[PropertyLine]) -> Vec<Self> {
        let mut by_name: BTreeMap<&str, Vec<PropertyLine>> = BTreeMap::new();
        lines.iter().for_each(|line| by_name.entry(&line.name).or_default().push(line.clone()));
        let row = |dataset: &DatasetReport| Self {
            dataset: dataset.clone(),
            properties: by_name.remove(&*dataset.name).unwrap_or_default(),
        };
        datasets.iter().map(row).collect()
    }
}

/// Reads the columns of `-o`; for clap.
fn columns_or_space(text: &str) -> Result<Columns<DatasetColumn>, String> {
    columns(if text == "space" { short_names::SPACE } else { text })
}

const DEFAULT_COLUMNS: &str = "name,used,avail,refer,mountpoint";

impl DatasetColumn {
    /// The names of users' properties among them.
    fn users<'a>(columns: impl Iterator<Item = &'a Self>) -> Vec<String> {
        columns.filter_map(|column| if let Self::User(name) = column { Some(name.clone()) } else { None }).collect()
    }
}

impl Column for DatasetColumn {
    type Row = DatasetRow;

    const NAMES: &'static [&'static str] = &[
        "name",
        "type",
        "used",
        "avail",
        "refer",
        "mountpoint",
        "mounted",
        "exportpath",
        "creation",
        "createtxg",
        "guid",
        "held",
    ];

    const MORE: &'static str = ", and properties, also those that users name";

    fn of_name(name: &str) -> Option<Result<Self, String>> {
        Some(Ok(match name {
            "name" => Self::Name,
            "type" => Self::Type,
            "used" => Self::Used,
            "avail" | "available" => Self::Available,
            "refer" | "referenced" => Self::Referenced,
            "mountpoint" => Self::Mountpoint,
            "mounted" => Self::Mounted,
            "exportpath" => Self::ExportPath,
            "creation" => Self::Creation,
            "createtxg" => Self::CreateTxg,
            "guid" => Self::Guid,
            "held" => Self::Held,
            name if is_user_name(name) => {
                return Some(
                    check_user_name(name).map(|()| Self::User(name.into())).map_err(|error| error.to_string()),
                );
            }
            name => {
                let whole = short_names::of_dataset(name);
                let is_there = short_names::is_column(whole) || Property::from_str(whole).is_ok();
                return is_there.then(|| Ok(Self::Property(whole.into())));
            }
        }))
    }

    fn title(&self) -> (String, Align) {
        let (title, align) = match self {
            Self::User(name) | Self::Property(name) => return (name.to_uppercase(), Align::Left),
            Self::Name => ("NAME", Align::Left),
            Self::Type => ("TYPE", Align::Left),
            Self::Used => ("USED", Align::Right),
            Self::Available => ("AVAIL", Align::Right),
            Self::Referenced => ("REFER", Align::Right),
            Self::Mountpoint => ("MOUNTPOINT", Align::Left),
            Self::Mounted => ("MOUNTED", Align::Left),
            Self::ExportPath => ("EXPORTPATH", Align::Left),
            Self::Creation => ("CREATION", Align::Left),
            Self::CreateTxg => ("CREATETXG", Align::Right),
            Self::Guid => ("GUID", Align::Right),
            Self::Held => ("HELD", Align::Right),
        };
        (title.into(), align)
    }

    fn cell(&self, DatasetRow { dataset, properties }: &DatasetRow, is_exact: bool) -> String {
        let size = |bytes: u64| if is_exact { bytes.to_string() } else { Size(bytes).to_string() };
        match self {
            Self::Name => dataset.name.clone(),
            Self::Type => "filesystem".into(),
            Self::Used => size(dataset.used),
            Self::Available => size(dataset.available),
            Self::Referenced => size(dataset.referenced),
            Self::Mountpoint if dataset.mountpoint == "none" => "-".into(),
            Self::Mountpoint => dataset.mountpoint.clone(),
            Self::Mounted => if dataset.mounted { "yes" } else { "no" }.into(),
            Self::ExportPath => dataset.exportpath.clone(),
            Self::Creation if is_exact => dataset.created.to_string(),
            Self::Creation => dates::utc_as_zfs(dataset.created),
            Self::CreateTxg => dataset.created_txg.to_string(),
            Self::Guid => dataset.guid.to_string(),
            Self::Held => dataset.held.map_or_else(|| "-".into(), |held| held.to_string()),
            Self::Property(name) => {
                let line = properties.iter().find(|line| line.property == *name);
                line.map_or("-", |line| if is_exact { &line.exact } else { &line.value }).to_owned()
            }
            Self::User(name) => dataset.user.get(name).cloned().unwrap_or_else(|| "-".into()),
        }
    }
}
