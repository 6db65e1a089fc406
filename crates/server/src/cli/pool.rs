//! `tally pool`: its grammar, its requests, and its short tables.

mod history;
mod list;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use tally_base::Size;
use tally_members::grammar::{parse_spare_args, parse_vdev_args};
use tally_members::label::VdevClass;

use self::history::HistoryArgs;
use self::list::ListArgs;
pub(super) use self::list::{ZPOOL_COLUMNS, pool_columns};
use super::completion::Names;
use super::fields::Fields;
use super::iostat::{IostatArgs, Plan};
use super::short_names;
use super::status::Detail;
use super::table::TableArgs;
use super::upgrade::UpgradeArgs;
use super::words;
use super::zfs_words::OfZpool;
use crate::control::message::{Assignment, Request};
use crate::control::report::PoolReport;

/// The commands on pools.
#[derive(Debug, Subcommand)]
pub enum PoolCommand {
    /// Make a pool: tally pool create tank mirror A B mirror C D log mirror E F
    Create(CreateArgs),
    /// List pools with their size and health
    List(ListArgs),
    /// Show the health of pools and of each disk
    Status {
        /// Pools, then optionally the seconds between reports and how many
        #[arg(value_name = "POOL|INTERVAL [COUNT]", add = Names::Pool)]
        words: Vec<String>,
        #[command(flatten)]
        detail: Detail,
        #[command(flatten)]
        paths: PathWords,
        /// Only pools that are not well; exit status 1 if there is one
        #[arg(short = 'x')]
        only_sick: bool,
    },
    /// Show reads and writes: since import, then per interval
    Iostat {
        /// Pools, then optionally the seconds between samples and how many
        #[arg(value_name = "POOL|INTERVAL [COUNT]", add = Names::Pool)]
        words: Vec<String>,
        #[command(flatten)]
        args: IostatArgs,
    },
    /// Write everything out and let go of a pool; clients go on if it is imported here within a lease
    Export {
        /// All pools
        #[arg(short, conflicts_with = "names")]
        all: bool,
        /// Pools
        #[arg(required_unless_present = "all", add = Names::Pool)]
        names: Vec<String>,
    },
    /// Take over a pool and replay its log; without a name, list what could be imported
    Import(ImportArgs),
    /// Destroy a pool: its data is lost
    Destroy {
        /// As without it: nothing is mounted here that could be in the way
        #[arg(short)]
        force: bool,
        /// Only say what would be done
        #[arg(short = 'n')]
        dry_run: bool,
        /// The pool
        #[arg(add = Names::Pool)]
        name: String,
    },
    /// Wait no more for a pool that is gone for good: one that `status` shows as UNAVAIL
    Forget {
        /// Name or guid
        #[arg(value_name = "NAME|GUID")]
        pool: String,
    },
    /// Print properties of pools
    Get {
        /// Properties, separated by commas, or 'all'; feature@NAME, or feature@all
        #[arg(add = Names::PoolProperties)]
        properties: String,
        /// Pools; all when none is named
        #[arg(add = Names::Pool)]
        names: Vec<String>,
        #[command(flatten)]
        fields: Fields,
        #[command(flatten)]
        table: TableArgs,
    },
    /// Set properties of a pool: failmode=wait|continue; scrub=off|weekly|monthly; hang_limit=auto|off|SECONDS;
    /// compatibility=off|VERSION;
    /// mountpoints=accept|ignore, whether what it says of them and of shares holds on this machine;
    /// feature@NAME=enabled; clock=accept believes a clock that is far from the pool's times
    Set {
        /// property=value, one or more, then the pool
        #[arg(required = true, num_args = 2.., value_name = "PROPERTY=VALUE... POOL", add = Names::PoolSettingsThenPool)]
        words: Vec<String>,
    },
    /// Enable features that this version knows and a pool has not; without a pool, list those that lack some
    Upgrade(UpgradeArgs),
    /// Make a disk a mirror, or a mirror wider
    Attach {
        /// Use the new disk even if it seems to be in use
        #[arg(short)]
        force: bool,
        /// Only say what would be done
        #[arg(short = 'n')]
        dry_run: bool,
        /// The pool
        #[arg(add = Names::Pool)]
        name: String,
        /// The disk that is there
        #[arg(add = Names::Disk)]
        device: String,
        /// The disk to add
        #[arg(value_hint = ValueHint::AnyPath)]
        new_device: String,
    },
    /// Give a pool spares, which stand in for disks that go away: tally pool add tank spare A B
    Add {
        /// Use disks that seem to be in use
        #[arg(short)]
        force: bool,
        /// Only say what would be done
        #[arg(short = 'n')]
        dry_run: bool,
        /// The pool
        #[arg(add = Names::Pool)]
        name: String,
        /// The word spare, and disks
        #[arg(required = true, value_name = "VDEV", add = Names::Spare)]
        vdevs: Vec<String>,
    },
    /// Take a spare out of a pool
    Remove {
        /// Only say what would be done
        #[arg(short = 'n')]
        dry_run: bool,
        /// The pool
        #[arg(add = Names::Pool)]
        name: String,
        /// The spare
        #[arg(add = Names::Disk)]
        device: String,
    },
    /// Take a disk out of a mirror, once every block is found on the disks that stay; or stop the copy to it
    Detach {
        /// Without looking at the blocks: what this disk alone has right is lost
        #[arg(short)]
        force: bool,
        /// Only say what would be done
        #[arg(short = 'n')]
        dry_run: bool,
        /// The pool
        #[arg(add = Names::Pool)]
        name: String,
        /// The disk
        #[arg(add = Names::Disk)]
        device: String,
    },
    /// Put another disk in the place of one
    Replace {
        /// Use the new disk even if it seems to be in use
        #[arg(short)]
        force: bool,
        /// Only say what would be done
        #[arg(short = 'n')]
        dry_run: bool,
        /// The pool
        #[arg(add = Names::Pool)]
        name: String,
        /// The disk to replace
        #[arg(add = Names::Disk)]
        device: String,
        /// The new one, when it has another path
        #[arg(value_hint = ValueHint::AnyPath)]
        new_device: Option<String>,
    },
    /// Take a disk out of use; what is written meanwhile it gets with `online`
    Offline {
        /// Until the next import only, which finds it as a disk that has missed changes
        #[arg(short)]
        temporary: bool,
        /// Only say what would be done
        #[arg(short = 'n')]
        dry_run: bool,
        /// The pool
        #[arg(add = Names::Pool)]
        name: String,
        /// The disk
        #[arg(add = Names::Disk)]
        device: String,
    },
    /// Take a disk back that was away, and give it what it has missed; `status` shows how far that is
    Online {
        /// Only say what would be done
        #[arg(short = 'n')]
        dry_run: bool,
        /// The pool
        #[arg(add = Names::Pool)]
        name: String,
        /// The disk
        #[arg(add = Names::Disk)]
        device: String,
    },
    /// Count errors of disks anew; a suspended pool whose disks answer again goes on, and its clients notice nothing
    Clear {
        /// The pool
        #[arg(add = Names::Pool)]
        name: String,
        /// A disk; all when none is named
        #[arg(add = Names::Disk)]
        device: Option<String>,
    },
    /// Erase the labels of a disk that is no pool's any more
    Labelclear {
        /// Also a disk of a pool that can be imported: that one is damaged, or lost
        #[arg(short)]
        force: bool,
        /// Only say what would be erased
        #[arg(short = 'n')]
        dry_run: bool,
        /// The disk
        #[arg(add = Names::Disk)]
        device: String,
    },
    /// Open the disks again that failed or were missing, and give them what they have missed
    Reopen {
        /// The pool
        #[arg(add = Names::Pool)]
        name: String,
    },
    /// Write out all that was changed so far, and wait for it: `sync` on a client does not reach so far
    Sync {
        /// Pools; all when none is named
        #[arg(add = Names::Pool)]
        names: Vec<String>,
    },
    /// Wait until nothing of this runs on a pool any more
    Wait {
        /// Of this alone, separated by commas [default: all]
        #[arg(short = 't', value_delimiter = ',', value_name = "ACTIVITY")]
        activities: Vec<Activity>,
        /// The pool
        #[arg(add = Names::Pool)]
        name: String,
    },
    /// Show what has happened to pools and disks, as `tally events` does
    Events(EventsArgs),
    /// Show the commands that changed pools
    History(HistoryArgs),
    /// Look at every block on every disk, and repair from other disks what is damaged; `status` shows how far it is. One that was
    /// paused goes on
    Scrub {
        /// Stop the one that is under way: the next one begins anew
        #[arg(short)]
        stop: bool,
        /// Pause the one that is under way, also over restarts, until the next `scrub`
        #[arg(short, conflicts_with_all = ["stop", "wait"])]
        pause: bool,
        /// Wait until it is over
        #[arg(short, conflicts_with = "stop")]
        wait: bool,
        /// The pool
        #[arg(add = Names::Pool)]
        name: String,
    },
    /// What there is not yet.
    #[command(flatten)]
    OfZpool(OfZpool),
}

/// With these `zpool` shows disks by whole paths, which is what is shown in any case.
#[derive(Clone, Copy, Debug, Args)]
pub struct PathWords {
    #[arg(short = 'P', hide = true)]
    whole: bool,
    #[arg(short = 'L', hide = true)]
    real: bool,
}

/// What runs on a pool for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Activity {
    /// What was removed or cut off is given back
    Free,
    /// A disk is looked at before it leaves
    Remove,
    /// A disk is copied to in the place of another
    Replace,
    /// A disk is copied to
    Resilver,
    /// Every block is looked at
    Scrub,
}

impl Activity {
    /// Whether it runs.
    pub(super) fn is_under_way(self, pool: &PoolReport) -> bool {
        let runs = |words: &[&str]| pool.copies.iter().any(|copy| words.contains(&copy.what.as_str()));
        match self {
            Self::Free => pool.freeing,
            Self::Remove => runs(&["check", "offline"]),
            Self::Replace | Self::Resilver => runs(&["resilver"]),
            Self::Scrub => runs(&["scrub"]),
        }
    }
}

/// Words of `pool create`.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Use disks that seem to be in use
    #[arg(short)]
    force: bool,
    /// Only say what would be done
    #[arg(short = 'n')]
    dry_run: bool,
    /// Set a property of the pool; may be repeated: compatibility=VERSION enables only what tally VERSION knows
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = words::assignment, add = Names::PoolSetting)]
    pool_properties: Vec<Assignment>,
    /// Set a property of the pool's root dataset; may be repeated
    #[arg(short = 'O', value_name = "PROPERTY=VALUE", value_parser = words::assignment, add = Names::DatasetSetting)]
    properties: Vec<Assignment>,
    /// Set the mountpoint of the pool's root dataset: -O mountpoint=DIR
    #[arg(short, value_name = "DIR", value_hint = ValueHint::DirPath)]
    mountpoint: Option<String>,
    /// As without it: nothing is mounted here
    #[arg(short = 'R', hide = true, value_name = "ROOT")]
    altroot: Option<PathBuf>,
    /// Make files that do not exist, with this size, all of it allocated
    #[arg(long, value_name = "SIZE")]
    file_size: Option<Size>,
    /// The pool
    name: String,
    /// Disks and files, with the words mirror and log between them
    #[arg(required = true, value_name = "VDEV", add = Names::Vdev)]
    vdevs: Vec<String>,
}

/// Words of `pool import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Where to look for disks and files; may be repeated [default: the data directory; for root also /dev]
    #[arg(short, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Vec<PathBuf>,
    /// Import although the pool seems to be in use on another machine
    #[arg(short)]
    force: bool,
    /// All pools that can be imported
    #[arg(short, conflicts_with_all = ["pool", "rewind", "destroyed"])]
    pub(super) all: bool,
    /// As without it: nothing is mounted here
    #[arg(short = 'N', hide = true)]
    unmounted: bool,
    /// Import without writing anything
    #[arg(long = "readonly", alias = "read-only")]
    read_only: bool,
    /// As without it: nothing is mounted here
    #[arg(short = 'R', hide = true, value_name = "ROOT")]
    altroot: Option<PathBuf>,
    /// What `zpool` goes back to an older group with
    #[arg(short = 'F', hide = true)]
    recover: bool,
    /// The same as `zpool` has it: readonly=on
    #[arg(short = 'o', value_name = "readonly=on", value_parser = words::import_option)]
    options: Vec<bool>,
    /// Import although acknowledged changes are lost; a list of them is printed
    #[arg(long)]
    accept_loss: bool,
    /// What it says of mountpoints and shares (mountpoint, canmount, sharesmb) is to hold on this machine, though another one has made or had it; without this, `tally pool set mountpoints=accept` does that later
    #[arg(long, conflicts_with = "rewind")]
    accept_mountpoints: bool,
    /// Pools that were destroyed: list them, or bring one back
    #[arg(short = 'D')]
    destroyed: bool,
    /// Go back to an older group, the newest that can be read or that of a number, and give up all behind it; what that is
    /// is shown, and asked
    #[arg(long, num_args = 0..=1, value_name = "TXG", conflicts_with = "accept_loss")]
    rewind: Option<Option<String>>,
    /// With --rewind: only show what would be given up
    #[arg(short = 'n', requires = "rewind")]
    only_look: bool,
    /// With --rewind: do not ask
    #[arg(short, long, requires = "rewind")]
    yes: bool,
    /// Name or guid
    pool: Option<String>,
    /// What `zpool` gives another name with
    #[arg(hide = true)]
    new_name: Option<String>,
}

impl CreateArgs {
    fn request(&self, here: &Path) -> Result<Request, String> {
        let mountpoint = self.mountpoint.clone().map(|value| Assignment { property: "mountpoint".into(), value });
        let vdevs = words::vdev_words(&self.vdevs, here);
        let specs = parse_vdev_args(&vdevs).map_err(|error| error.to_string())?;
        let mut widths = specs.iter().filter(|spec| spec.class == VdevClass::Data).map(|spec| spec.paths.len());
        let width = widths.next();
        // As `zpool` has it: whoever forgot a word has a pool that one disk takes along, and a vdev is not taken out again.
        if let Some(other) = widths.find(|other| Some(*other) != width).filter(|_| !self.force) {
            return Err(format!(
                "some of it would be on {} and some on {other}; write mirror before each group of disks, or take -f if that is meant",
                width.map_or_else(String::new, |width| width.to_string() + if width == 1 { " disk" } else { " disks" }),
            ));
        }
        Ok(Request::PoolCreate {
            name: self.name.clone(),
            vdevs,
            force: self.force,
            file_bytes: self.file_size.map(|size| size.0),
            properties: self.properties.iter().cloned().chain(mountpoint).collect(),
            pool_properties: self.pool_properties.clone(),
        })
    }
}

impl ImportArgs {
    /// What `zpool` has and we have not.
    pub(super) fn check(&self) -> Result<(), String> {
        match (&self.new_name, self.recover) {
            (Some(name), _) => {
                Err(format!("a pool keeps its name, as clients mount it by that: import it without '{name}'"))
            }
            (None, true) => {
                Err("-F is --rewind here: it shows what going back gives up, and asks; with -n it only shows".into())
            }
            (None, false) => Ok(()),
        }
    }

    pub(super) const fn goes_back(&self) -> bool {
        self.rewind.is_some()
    }

    pub(super) const fn only_looks(&self) -> bool {
        self.only_look
    }

    /// Whoever only reads gives nothing up.
    pub(super) fn is_agreed(&self) -> bool {
        self.yes || self.is_read_only()
    }

    /// The last word counts.
    fn is_read_only(&self) -> bool {
        self.options.last().copied().unwrap_or(self.read_only)
    }

    /// What to ask the daemon to take over one of all, where they are looked for.
    pub(super) fn one(&self, pool: &str, here: &Path) -> Request {
        Request::PoolImport {
            pool: pool.into(),
            dirs: self.dir.iter().map(|dir| here.join(dir)).collect(),
            force: self.force,
            read_only: self.is_read_only(),
            accept_loss: self.accept_loss,
            destroyed: self.destroyed,
            accept_mountpoints: self.accept_mountpoints,
        }
    }

    /// What to ask the daemon. `--rewind tank` names a pool, as names of pools do not begin with a digit.
    pub(super) fn rewind_request(&self, here: &Path, look: bool) -> Result<Request, String> {
        let (to, pool) = match (self.rewind.clone().flatten(), self.pool.clone()) {
            (Some(pool), None) => (None, pool),
            (to, Some(pool)) => (to, pool),
            (None, None) => return Err("--rewind goes with the name of a pool".to_owned()),
        };
        let number = |word: String| word.parse().map_err(|_| format!("'{word}' is no number of a transaction group"));
        Ok(Request::PoolRewind {
            pool,
            dirs: self.dir.iter().map(|dir| here.join(dir)).collect(),
            force: self.force,
            read_only: self.is_read_only(),
            destroyed: self.destroyed,
            to: to.map(number).transpose()?,
            from: None,
            look,
        })
    }
}

impl PoolCommand {
    /// What to ask the daemon. Relative paths are taken from `here`.
    pub(super) fn request(&self, here: &Path) -> Result<Request, String> {
        let request = self.request_to_do(here)?;
        Ok(if self.is_dry_run() { Request::PoolTry { what: Box::new(request) } } else { request })
    }

    /// Whether nothing is to be done to disks.
    const fn is_dry_run(&self) -> bool {
        match self {
            Self::Add { dry_run, .. }
            | Self::Remove { dry_run, .. }
            | Self::Attach { dry_run, .. }
            | Self::Detach { dry_run, .. }
            | Self::Replace { dry_run, .. }
            | Self::Offline { dry_run, .. }
            | Self::Online { dry_run, .. }
            | Self::Destroy { dry_run, .. }
            | Self::Create(CreateArgs { dry_run, .. }) => *dry_run,
            Self::Upgrade(args) => args.is_dry_run(),
            // All others by name: a new one with -n is not carried out for want of a line here.
            Self::List(_)
            | Self::Status { .. }
            | Self::Iostat { .. }
            | Self::Events(_)
            | Self::OfZpool(_)
            | Self::Sync { .. }
            | Self::Export { .. }
            | Self::Import(_)
            | Self::Forget { .. }
            | Self::Get { .. }
            | Self::Set { .. }
            | Self::Clear { .. }
            | Self::Labelclear { .. }
            | Self::Reopen { .. }
            | Self::Wait { .. }
            | Self::History(_)
            | Self::Scrub { .. } => false,
        }
    }

    /// Whether nothing but the table is to be printed.
    pub(super) const fn is_for_scripts(&self) -> bool {
        matches!(self, Self::List(args) if args.table.plain)
    }

    /// How often it is carried out.
    pub(super) fn plan(&self) -> Result<Plan, String> {
        match self {
            Self::Status { words, .. } | Self::Iostat { words, .. } => Plan::parse(words),
            Self::List(args) => Plan::parse(&args.words),
            _ => Plan::parse(&[]),
        }
    }

    /// What to ask the daemon to know which pools could be imported.
    pub(super) fn find(args: &ImportArgs, here: &Path) -> Request {
        Request::PoolFind { dirs: args.dir.iter().map(|dir| here.join(dir)).collect(), destroyed: args.destroyed }
    }

    fn request_to_do(&self, here: &Path) -> Result<Request, String> {
        Ok(match self {
            Self::Create(args) => args.request(here)?,
            Self::List(_) | Self::Status { .. } | Self::Iostat { .. } => {
                Request::PoolStatus { names: self.plan()?.names }
            }
            Self::Export { names, .. } => Request::PoolExport { name: one(names)? },
            Self::Sync { names } => Request::PoolSync { name: one(names)? },
            Self::OfZpool(words) => return Err(words.instead().into()),
            Self::Events(_) => Request::Events { since: 0 },
            Self::Import(args @ ImportArgs { pool: None, .. }) => Self::find(args, here),
            Self::Import(args @ ImportArgs { pool: Some(pool), .. }) => args.one(pool, here),
            Self::Destroy { name, .. } => Request::PoolDestroy { name: name.clone() },
            Self::Forget { pool } => Request::PoolForget { pool: pool.clone() },
            Self::Get { properties, names, .. } => Request::PoolGet {
                names: names.clone(),
                properties: words::property_list(properties, short_names::of_pool),
            },
            Self::Set { words } => {
                let (name, assignments) = words::assignments_then_name(words)?;
                Request::PoolSet { name, assignments }
            }
            Self::Upgrade(args) => args.request(),
            Self::Attach { force, name, device, new_device, .. } => Request::PoolAttach {
                name: name.clone(),
                device: words::existing_device(device, here),
                new_device: words::device(new_device, here),
                force: *force,
            },
            Self::Add { force, name, vdevs, .. } => {
                let vdevs = words::vdev_words(vdevs, here);
                parse_spare_args(&vdevs).map_err(|error| error.to_string())?;
                Request::PoolAdd { name: name.clone(), vdevs, force: *force }
            }
            Self::Remove { name, device, .. } => {
                Request::PoolRemove { name: name.clone(), device: words::existing_device(device, here) }
            }
            Self::Detach { force, name, device, .. } => {
                Request::PoolDetach { name: name.clone(), device: words::existing_device(device, here), force: *force }
            }
            Self::Replace { force, name, device, new_device, .. } => Request::PoolReplace {
                name: name.clone(),
                device: words::existing_device(device, here),
                new_device: new_device.as_ref().map(|path| words::device(path, here)),
                force: *force,
            },
            Self::Offline { temporary, name, device, .. } => Request::PoolOffline {
                name: name.clone(),
                device: words::existing_device(device, here),
                temporary: *temporary,
            },
            Self::Online { name, device, .. } => {
                Request::PoolOnline { name: name.clone(), device: words::existing_device(device, here) }
            }
            Self::Clear { name, device } => Request::PoolClear {
                name: name.clone(),
                device: device.as_ref().map(|device| words::existing_device(device, here)),
            },
            Self::Labelclear { force, dry_run, device } => {
                Request::PoolLabelClear { device: words::device(device, here), force: *force, dry_run: *dry_run }
            }
            Self::Reopen { name } => Request::PoolReopen { name: name.clone() },
            Self::Wait { name, .. } => Request::PoolStatus { names: vec![name.clone()] },
            Self::History(args) => args.request(),
            Self::Scrub { stop, pause, wait, name } => {
                Request::PoolScrub { name: name.clone(), stop: *stop, pause: *pause, wait: *wait }
            }
        })
    }
}

/// Of a command that is carried out for each of several.
fn one(names: &[String]) -> Result<String, String> {
    match names {
        [name] => Ok(name.clone()),
        _ => Err("name one pool".into()),
    }
}

/// Words of `events`.
#[derive(Clone, Copy, Debug, Args)]
pub struct EventsArgs {
    /// Go on, with what happens from now on
    #[arg(short)]
    pub(super) follow: bool,
    /// All of each event, which is shown in any case
    #[arg(short, hide = true)]
    verbose: bool,
}
