//! `tally pool list`: its grammar and its columns.

use clap::Args;
use tally_base::Size;

use crate::cli::columns::{Column, Columns, Sorting, columns};
use crate::cli::table::{Align, TableArgs};
use crate::control::report::PoolReport;

/// Words of `pool list`.
#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    /// Pools; all when none is named
    pub(crate) names: Vec<String>,
    /// Columns, separated by commas: name, size, alloc, free, cap, health, guid, readonly, failmode; and those of ZFS that are the same
    /// for all pools here: frag, dedup, altroot, expandsize, checkpoint
    #[arg(short = 'o', value_name = "COLUMN,...", value_parser = columns::<PoolColumn>, default_value = DEFAULT_COLUMNS)]
    pub(super) columns: Columns<PoolColumn>,
    #[command(flatten)]
    pub(super) table: TableArgs,
}

impl ListArgs {
    /// The table.
    pub(crate) fn print(&self, pools: &[PoolReport]) -> String {
        self.columns.print(pools, &Sorting { up: &[], down: &[] }, self.table)
    }
}

/// A column of `tally pool list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolColumn {
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

impl Column for PoolColumn {
    type Row = PoolReport;

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

    fn cell(&self, pool: &PoolReport, is_exact: bool) -> String {
        let size = |bytes: u64| if is_exact { bytes.to_string() } else { Size(bytes).to_string() };
        let percent = || u128::from(pool.allocated) * 100 / u128::from(pool.size.max(1));
        match self {
            Self::Name => pool.name.clone(),
            Self::Health => pool.state.clone(),
            Self::Guid => pool.guid.clone(),
            Self::Same(_, value) => (*value).into(),
            // Of a pool that is not imported nothing else is known.
            _ if !pool.is_imported() => "-".into(),
            Self::Size => size(pool.size),
            Self::Allocated => size(pool.allocated),
            Self::Free => size(pool.free),
            Self::Capacity if is_exact => percent().to_string(),
            Self::Capacity => format!("{}%", percent()),
            Self::ReadOnly => if pool.read_only { "on" } else { "off" }.into(),
            Self::FailMode => pool.failmode.clone(),
        }
    }
}
