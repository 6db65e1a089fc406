//! What a start imports, and what it says of what it does not import.
//!
//! One pool that is destroyed, foreign or broken keeps neither the daemon nor other pools from their clients.
//!
//! | asked for | what is there | what the start does |
//! |---|---|---|
//! | `--pool PATH...` | several pools, some of which cannot be imported | the others are served, and each failure is told |
//! | | nothing that can be imported | it ends, and says why for each |
//! | the list | a pool that cannot be imported | it is UNAVAIL, its clients wait |
//! | | several of one name | the one that was in service last is imported, the others are UNAVAIL |
//! | | one that was destroyed | it is taken off the list: whoever destroyed it was killed before that |
//! | nothing, and there is no list | no file of a first pool | the first pool is made |
//! | | one that was being made, or was in use | it is imported |
//! | | a file that holds no pool | it ends and names the file |
//! | | an exported or destroyed one | nothing is made, and it is told how to import it |
//! | nothing, and the list is empty | whatever it is | nothing is made or imported: this is not the first start |
//! | nothing, and `first_pool = false` | whatever it is | the same |

use std::io;
use std::path::{Path, PathBuf};

use tally_base::Size;
use tally_fs::filer::CreateOptions;
use tally_members::create;
use tally_members::discover::ImportSource;
use tally_store::properties::{Property, PropertySet, parse};

use super::error::PoolsError;
use super::first_pool::{self, FirstPoolError, Plan};
use super::importing::ImportOrder;
use super::manager::Way;
use super::service::{Desk, import_remarks};
use super::state::KnownPool;
use crate::config::{Config, ServeArgs};
use crate::control::message::Progress;
use crate::control::report::FoundPool;
use crate::process;

/// Why a start has nothing to serve.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The first pool could not be made.
    #[error(transparent)]
    FirstPool(#[from] FirstPoolError),
    /// It could not be, or nobody can look what is there.
    #[error(transparent)]
    Pools(#[from] PoolsError),
    /// Nothing of what `--pool` named could be imported.
    #[error("nothing that --pool names could be imported:\n{}", reasons.join("\n"))]
    Nothing {
        /// One for each pool or path.
        reasons: Vec<String>,
    },
    /// The data directory cannot be looked at.
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
}

/// What the person who waits for a start is told.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// A line to keep.
    Line(&'a str),
    /// How far something is, some times a second.
    Progress(&'a Progress),
}

/// Hears what the person who waits for the start is told.
pub(super) type Tell<'a> = &'a mut dyn FnMut(Told<'_>);

/// Imports the pools that were named, or else those of the list; makes the first one where there was never any.
pub(super) fn open_pools(desk: &Desk, config: &Config, args: &ServeArgs, tell: Tell<'_>) -> Result<(), OpenError> {
    if !args.pool.is_empty() {
        return import_named(desk, &args.pool, tell);
    }
    let listed = desk.pools.listed();
    for (place, pool) in listed.iter().enumerate() {
        // Whoever was in service last stands last.
        if listed.iter().skip(place + 1).any(|later| later.name == pool.name) {
            leave_to_its_namesake(desk, pool, tell);
        } else {
            import_listed(desk, pool, tell);
        }
    }
    if !listed.is_empty() {
        return Ok(());
    }
    match desk.dirs.first() {
        Some(dir) if config.first_pool && desk.pools.is_first_start() => first_pool(desk, dir, args, tell),
        Some(dir) => tell_what_is_there(desk, dir, config.first_pool, tell),
        None => Ok(()),
    }
}

/// Its disks may be back after a long time. Its name is in the mounts of those who have used the other one since.
fn leave_to_its_namesake(desk: &Desk, pool: &KnownPool, tell: Tell<'_>) {
    let KnownPool { name, guid, .. } = pool;
    let why =
        format!("another pool '{name}' was in service after it, and has the name: export or forget that one first.");
    warn(tell, &format!("pool '{name}' ({guid}) was not imported: {why}"));
    desk.pools.absent.because(*guid, why);
}

fn import_listed(desk: &Desk, pool: &KnownPool, tell: Tell<'_>) {
    let order = ImportOrder {
        pool: pool.guid.to_string(),
        paths: pool.paths.clone(),
        dirs: desk.dirs.clone(),
        read_only: pool.read_only,
        ..ImportOrder::default()
    };
    match import(desk, &order, tell) {
        Ok(()) => {}
        Err(error) if error.is_destroyed() => {
            desk.pools.forget_destroyed(pool.guid);
            warn(tell, &format!("{error}. It is taken off the list of pools."));
        }
        // Its clients are told to wait.
        Err(error) => {
            tracing::error!("pool '{}' was not imported: {error}", pool.name);
            desk.pools.absent.because(pool.guid, error.to_string());
        }
    }
}

fn import_named(desk: &Desk, named: &[PathBuf], tell: Tell<'_>) -> Result<(), OpenError> {
    let (mut source, mut reasons) = (ImportSource::default(), Vec::new());
    for path in named {
        match path.canonicalize() {
            Ok(path) if path.is_dir() => match desk.pools.platform.opener.list(&path) {
                Ok(_) => source.dirs.push(path),
                Err(error) => reasons.push(format!("{}: {error}", path.display())),
            },
            Ok(path) => source.paths.push(path),
            Err(error) => reasons.push(format!("{}: {error}", path.display())),
        }
    }
    let (found, refused) = desk.pools.look(&source)?;
    reasons.extend(refused.iter().map(ToString::to_string));
    for pool in &found {
        let order = ImportOrder {
            pool: pool.guid.clone(),
            paths: source.paths.clone(),
            dirs: source.dirs.clone(),
            ..ImportOrder::default()
        };
        if let Err(error) = import(desk, &order, tell) {
            desk.pools
                .absent
                .find(&pool.guid)
                .iter()
                .for_each(|(_, guid)| desk.pools.absent.because(*guid, error.to_string()));
            reasons.push(skipped(pool, &error));
        }
    }
    if desk.pools.all().is_empty() {
        if reasons.is_empty() {
            let places: Vec<String> = named.iter().map(|path| path.display().to_string()).collect();
            reasons.push(format!("no pool was found in {}", places.join(", ")));
        }
        return Err(OpenError::Nothing { reasons });
    }
    reasons.iter().for_each(|reason| warn(tell, reason));
    desk.pools.absent.nobody_comes("The daemon was started with --pool, which does not name it.");
    Ok(())
}

fn skipped(pool: &FoundPool, error: &PoolsError) -> String {
    let what = format!("pool '{}' ({}) was not imported: {error}", pool.name, pool.guid);
    // The error has the command, without the place.
    if error.is_destroyed() { format!("{what}\nThe command: `{}`", pool.import_command(&pool.name)) } else { what }
}

fn import(desk: &Desk, order: &ImportOrder, tell: Tell<'_>) -> Result<(), PoolsError> {
    let mut way = Way::default();
    let (pool, report) = desk.pools.import(order, &mut |progress| {
        desk.pools.absent.progress(&order.pool, &progress);
        tell(Told::Progress(&progress));
        way.goes_on(&progress);
    })?;
    let brought = desk.pools.brought(&pool, false);
    import_remarks(&pool.filer, &report).iter().chain(&brought).for_each(|remark| tell(Told::Line(remark)));
    Ok(())
}

/// Makes the first pool, or takes up the one that an earlier start was making.
fn first_pool(desk: &Desk, dir: &Path, args: &ServeArgs, tell: Tell<'_>) -> Result<(), OpenError> {
    let opener = &*desk.pools.platform.opener;
    let leftovers = first_pool::leftovers(dir, opener)?;
    if let Some(leftover) = leftovers.first() {
        let leftover = leftover.clone();
        let source = ImportSource { paths: leftovers, dirs: Vec::new() };
        let (found, _) = desk.pools.look(&source)?;
        if found.is_empty() {
            return Err(FirstPoolError::Leftover { path: leftover }.into());
        }
        for pool in &found {
            take_up(desk, pool, &source, tell);
        }
        return Ok(());
    }
    let free = first_pool::free_bytes(dir)?;
    let plan = Plan::new(dir, args.size.map(|size| size.0), free)?;
    tell(Told::Line(&format!(
        "Making pool '{}' in {}: {} for files and {} for the intent log ...",
        first_pool::NAME,
        dir.display(),
        Size(plan.size),
        Size(first_pool::LOG_BYTES)
    )));
    let mut way = Way::default();
    let files = plan.make_files(&desk.pools.platform.opener, &mut |progress| {
        desk.pools.comes_on();
        way.goes_on(&progress);
        tell(Told::Progress(&progress));
    })?;
    let sharenfs = parse(Property::ShareNfs, first_pool::SHARENFS).map_err(PoolsError::Property)?;
    let properties = PropertySet::from_iter([sharenfs]);
    // The log file is written out already.
    let disks = create::CreateOptions { prewrite_rings: false, ..create::CreateOptions::default() };
    let options = CreateOptions { disks, root_owner: process::owner(), properties };
    desk.pools.create(first_pool::NAME, &plan.vdev_words(), &options, files)?;
    Ok(())
}

/// A pool in the files of a first one, without a list: the start that made it, or one behind it, was killed. What
/// somebody has put away or destroyed stays so.
fn take_up(desk: &Desk, pool: &FoundPool, source: &ImportSource, tell: Tell<'_>) {
    if pool.is_put_away() {
        warn(tell, &left_alone(pool));
        return;
    }
    let (pool_word, paths) = (pool.guid.clone(), source.paths.clone());
    let dirs = desk.dirs.clone();
    // Nobody but the daemon's user writes there.
    let order = ImportOrder { pool: pool_word, paths, dirs, accepts_mountpoints: true, ..ImportOrder::default() };
    if let Err(error) = import(desk, &order, tell) {
        warn(tell, &skipped(pool, &error));
    }
}

/// There is nothing to import, and this is not the first start.
fn tell_what_is_there(desk: &Desk, dir: &Path, wants_pool: bool, tell: Tell<'_>) -> Result<(), OpenError> {
    let (found, _) = desk.pools.look(&ImportSource { paths: Vec::new(), dirs: vec![dir.into()] })?;
    found.iter().for_each(|pool| warn(tell, &left_alone(pool)));
    if found.is_empty() && wants_pool {
        warn(tell, "There is no pool to serve, and only a first start makes one: `tally pool create` does it now.");
    }
    Ok(())
}

fn left_alone(pool: &FoundPool) -> String {
    let why = match pool.state.as_str() {
        FoundPool::DESTROYED => "was destroyed, and nothing is made in its place; this brings it back",
        _ if pool.exported => "was exported and stays so; this imports it",
        _ => "is not on the list of pools; this imports it",
    };
    format!("Pool '{}' {why}: `{}`", pool.name, pool.import_command(&pool.name))
}

/// To the person who waits for the start, and to the log.
fn warn(tell: Tell<'_>, line: &str) {
    tracing::warn!("{line}");
    tell(Told::Line(line));
}
