//! `tally pool list`: its grammar and its columns.

use clap::Args;
use tally_base::Size;

use crate::cli::columns::{Column, Columns, Sorting, columns};
use crate::cli::completion::Names;
use crate::cli::pool::PathWords;
use crate::cli::table::{Align, TableArgs};
use crate::cli::words::harmless;
use crate::control::report::{PoolReport, SpareReport, VdevReport, VdevSpace};

/// Words of `pool list`.
#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    /// Pools, then optionally the seconds between lists and how many
    #[arg(value_name = "POOL|INTERVAL [COUNT]", add = Names::Pool)]
    pub(crate) words: Vec<String>,
    /// Each vdev and each disk, too
    #[arg(short)]
    verbose: bool,
    /// Columns, separated by commas: name, size, alloc, free, cap, health, guid, readonly, failmode; and those of ZFS that are the same
    /// for all pools here: frag, dedup, altroot, expandsize, checkpoint
    #[arg(short = 'o', value_name = "COLUMN,...", value_parser = columns::<PoolColumn>, add = Names::PoolColumns, default_value = DEFAULT_COLUMNS)]
    columns: Columns<PoolColumn>,
    #[command(flatten)]
    paths: PathWords,
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

impl ListArgs {
    /// The table.
    pub(crate) fn print(&self, pools: &[PoolReport]) -> String {
        let rows: Vec<Row> = pools.iter().flat_map(|pool| self.rows(pool)).collect();
        self.columns.print(&rows, &Sorting { up: &[], down: &[] }, self.table)
    }

    fn rows(&self, pool: &PoolReport) -> Vec<Row> {
        let mut rows = vec![Row { name: pool.name.clone(), of: Of::Pool(Box::new(pool.clone())) }];
        if self.verbose {
            let of_class = |is_log: bool| pool.vdevs.iter().filter(move |vdev| (vdev.class == "log") == is_log);
            of_class(false).for_each(|vdev| self.add(&mut rows, vdev, 1));
            if of_class(true).next().is_some() {
                rows.push(Row { name: "logs".into(), of: Of::Class });
            }
            of_class(true).for_each(|vdev| self.add(&mut rows, vdev, 1));
            if !pool.spares.is_empty() {
                rows.push(Row { name: "spare".into(), of: Of::Class });
            }
            let spare = |spare: &SpareReport| Row {
                name: self.indented(&spare.name, 1),
                of: Of::Disk(None, spare.state.clone()),
            };
            rows.extend(pool.spares.iter().map(spare));
        }
        rows
    }

    fn add(&self, rows: &mut Vec<Row>, vdev: &VdevReport, depth: usize) {
        rows.push(Row { name: self.indented(&vdev.name, depth), of: Of::Disk(vdev.space, vdev.state.clone()) });
        vdev.children.iter().for_each(|child| self.add(rows, child, depth + 1));
    }

    /// For a script a tab stands before it, as `zpool` has it.
    fn indented(&self, name: &str, depth: usize) -> String {
        let name = harmless(name);
        if self.table.plain { format!("\t{name}") } else { "  ".repeat(depth) + &name }
    }
}

/// Names of columns.
pub(in crate::cli) fn pool_columns() -> impl Iterator<Item = &'static str> {
    PoolColumn::NAMES.iter().copied()
}

/// A line: a pool, or with `-v` something of it.
pub(super) struct Row {
    name: String,
    of: Of,
}

enum Of {
    Pool(Box<PoolReport>),
    /// What its disks are there for.
    Class,
    /// A vdev or a disk: its space, if it has some of its own, and its state.
    Disk(Option<VdevSpace>, String),
}

/// A column of `tally pool list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolColumn {
    Name,
    Size,
    Allocated,
    Free,
    Capacity,
    Health,
    Guid,
    ReadOnly,
    FailMode,
    /// What ZFS knows and is the same for all pools here: its title, and that.
    Same(&'static str, &'static str),
}

const DEFAULT_COLUMNS: &str = "name,size,alloc,free,cap,health";
/// Those of `zpool list`.
pub(crate) const ZPOOL_COLUMNS: &str = "name,size,alloc,free,ckpoint,expandsz,frag,cap,dedup,health,altroot";

impl Column for PoolColumn {
    type Row = Row;

    const NAMES: &'static [&'static str] = &[
        "name",
        "size",
        "alloc",
        "free",
        "cap",
        "health",
        "guid",
        "readonly",
        "failmode",
        "frag",
        "dedup",
        "altroot",
        "expandsize",
        "checkpoint",
    ];

    fn of_name(name: &str) -> Option<Result<Self, String>> {
        Some(Ok(match name {
            "name" => Self::Name,
            "size" => Self::Size,
            "alloc" | "allocated" => Self::Allocated,
            "free" => Self::Free,
            "cap" | "capacity" => Self::Capacity,
            "health" => Self::Health,
            "guid" => Self::Guid,
            "readonly" | "rdonly" => Self::ReadOnly,
            "failmode" => Self::FailMode,
            "frag" | "fragmentation" => Self::Same("FRAG", "-"),
            "dedup" | "dedupratio" => Self::Same("DEDUP", "1.00x"),
            "altroot" => Self::Same("ALTROOT", "-"),
            "expandsize" | "expandsz" => Self::Same("EXPANDSZ", "-"),
            "checkpoint" | "ckpoint" => Self::Same("CKPOINT", "-"),
            _ => return None,
        }))
    }

    fn title(&self) -> (String, Align) {
        let (title, align) = match *self {
            Self::Name => ("NAME", Align::Left),
            Self::Size => ("SIZE", Align::Right),
            Self::Allocated => ("ALLOC", Align::Right),
            Self::Free => ("FREE", Align::Right),
            Self::Capacity => ("CAP", Align::Right),
            Self::Health => ("HEALTH", Align::Left),
            Self::Guid => ("GUID", Align::Right),
            Self::ReadOnly => ("RDONLY", Align::Left),
            Self::FailMode => ("FAILMODE", Align::Left),
            Self::Same(title, _) => (title, Align::Right),
        };
        (title.into(), align)
    }

    fn cell(&self, row: &Row, is_exact: bool) -> String {
        let sizes = |allocated: u64, size: u64| Sizes { allocated, size, is_exact };
        match (self, &row.of) {
            (Self::Name, _) => row.name.clone(),
            (Self::Health, Of::Pool(pool)) => pool.state.clone(),
            (Self::Health, Of::Disk(_, state)) => state.clone(),
            (Self::Guid, Of::Pool(pool)) => pool.guid.clone(),
            (Self::Same(_, value), Of::Pool(_)) if is_exact => value.trim_end_matches('x').into(),
            (Self::Same(_, value), Of::Pool(_)) => (*value).into(),
            (Self::ReadOnly, Of::Pool(pool)) if pool.is_imported() => if pool.read_only { "on" } else { "off" }.into(),
            (Self::FailMode, Of::Pool(pool)) if pool.is_imported() => pool.failmode.clone(),
            (_, Of::Pool(pool)) if pool.is_imported() => sizes(pool.allocated, pool.size).cell(self),
            (_, Of::Disk(Some(space), _)) => sizes(space.allocated, space.allocated + space.free).cell(self),
            // Of a pool that is not imported nothing else is known.
            _ => "-".into(),
        }
    }
}

/// The columns about room.
struct Sizes {
    allocated: u64,
    size: u64,
    is_exact: bool,
}

impl Sizes {
    fn cell(&self, column: &PoolColumn) -> String {
        let size = |bytes: u64| if self.is_exact { bytes.to_string() } else { Size(bytes).to_string() };
        let percent = || u128::from(self.allocated) * 100 / u128::from(self.size.max(1));
        match column {
            PoolColumn::Size => size(self.size),
            PoolColumn::Allocated => size(self.allocated),
            PoolColumn::Free => size(self.size.saturating_sub(self.allocated)),
            PoolColumn::Capacity if self.is_exact => percent().to_string(),
            PoolColumn::Capacity => format!("{}%", percent()),
            _ => "-".into(),
        }
    }
}
