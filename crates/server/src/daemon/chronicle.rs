//! What was done to pools, for `tally pool history`: each command that changed something, as it is typed, with who asked for
//! it. It is kept in the pool itself ([`tally_store::pool::Command`]), behind what it did; an export's is in the last group.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use tally_store::pool::Command;

use super::error::{DiskError, PoolsError};
use super::pools::Pools;
use super::served::ServedPool;
use crate::control::message::{Assignment, Request};
use crate::control::report::{DoneCommand, PoolHistory};

/// A command, before anybody knows what comes of it.
pub(super) struct Said {
    /// By name or guid; none: it changes no pool.
    pool: Option<String>,
    words: String,
    user: String,
    /// Written down before it is carried out, as nobody can afterwards.
    is_last: bool,
}

impl Said {
    pub(super) fn of(request: &Request, user: String) -> Self {
        let is_last = matches!(request, Request::PoolExport { .. } | Request::PoolDestroy { .. });
        let (pool, words) = words_of(request).unzip();
        let pool = pool.map(|name: &str| name.split('/').next().unwrap_or(name).to_owned());
        Self { pool, words: words.unwrap_or_default(), user, is_last }
    }

    /// In a pool that has it from now on.
    pub(super) fn write_down(&self, served: &Arc<ServedPool>) {
        let pool = served.filer.pool();
        let (user, words) = (self.user.clone(), format!("tally {}", self.words));
        pool.note_command(&Command { time: pool.now(), user, host: pool.platform.host.name.clone(), words });
    }
}

impl Pools {
    /// A command was carried out.
    pub(super) fn write_down(&self, said: &Said) {
        if let Some(pool) = self.pool_of(said).filter(|_| !said.is_last) {
            said.write_down(&pool);
        }
    }

    /// A command was not carried out. Where its pool is suspended, be it by that, whoever gave it is told how it goes on: what the
    /// command met may be no more than a disk's word.
    pub(super) fn met_by(&self, said: &Said, error: PoolsError) -> PoolsError {
        let Some(served) = self.pool_of(said) else { return error };
        served.filer.pool().suspend_if_closed();
        let says_so = match &error {
            PoolsError::StillGone { .. } => true,
            PoolsError::Disk(error) => matches!(**error, DiskError::Suspended { .. }),
            _ => false,
        };
        if says_so || served.filer.pool().fault().is_none() {
            return error;
        }
        PoolsError::WhileSuspended { name: served.filer.name(), source: Box::new(error) }
    }

    fn pool_of(&self, said: &Said) -> Option<Arc<ServedPool>> {
        let word = said.pool.as_ref()?;
        self.all().into_iter().find(|pool| pool.filer.name() == *word || pool.guid().to_string() == *word)
    }

    /// What was done to these pools, or to all.
    pub(super) fn history(&self, names: &[String]) -> Result<Vec<PoolHistory>, PoolsError> {
        let pools = match names {
            [] => self.all(),
            names => names.iter().map(|name| self.pool(name)).collect::<Result<_, _>>()?,
        };
        let done = |Command { time, user, host, words }| DoneCommand { time_ns: time.0, user, host, words };
        let history = |served: &Arc<ServedPool>| PoolHistory {
            name: served.filer.name(),
            guid: served.guid().to_string(),
            commands: served.filer.pool().commands().into_iter().map(done).collect(),
        };
        Ok(pools.iter().map(history).collect())
    }
}

/// The pool or dataset that a request changes, and how that is typed.
fn words_of(request: &Request) -> Option<(&str, String)> {
    let flag = |is_set: bool, flag: &str| if is_set { format!("{flag} ") } else { String::new() };
    let set = |assignments: &[Assignment], before: &str| {
        let word = |set: &Assignment| format!("{before}{}={} ", set.property, set.value);
        assignments.iter().map(word).collect::<String>()
    };
    let path = |path: &Path| path.display().to_string();
    Some(match request {
        Request::PoolCreate { name, vdevs, force, file_bytes, properties, pool_properties } => {
            let size = file_bytes.map(|bytes| format!("--file-size {bytes} ")).unwrap_or_default();
            let (force, of_pool, properties) =
                (flag(*force, "-f"), set(pool_properties, "-o "), set(properties, "-O "));
            (name, format!("pool create {force}{of_pool}{properties}{size}{name} {}", vdevs.join(" ")))
        }
        Request::PoolImport { pool, dirs, force, read_only: _, accept_loss, destroyed, accept_mountpoints } => {
            let mut words = "pool import ".to_owned();
            dirs.iter().for_each(|dir| write!(words, "-d {} ", dir.display()).unwrap_or_default());
            words += &(flag(*force, "-f") + &flag(*accept_loss, "--accept-loss") + &flag(*destroyed, "-D"));
            words += &flag(*accept_mountpoints, "--accept-mountpoints");
            (pool, words + pool)
        }
        Request::PoolRewind { pool, look: false, to, .. } => {
            let to = to.map(|txg| format!("{txg} ")).unwrap_or_default();
            (pool, format!("pool import --rewind {to}{pool}"))
        }
        Request::PoolExport { name } => (name, format!("pool export {name}")),
        Request::PoolDestroy { name } => (name, format!("pool destroy {name}")),
        Request::PoolSet { name, assignments } => (name, format!("pool set {}{name}", set(assignments, ""))),
        Request::PoolAttach { name, device, new_device, force } => {
            (name, format!("pool attach {}{name} {device} {}", flag(*force, "-f"), path(new_device)))
        }
        Request::PoolAdd { name, vdevs, force } => {
            (name, format!("pool add {}{name} {}", flag(*force, "-f"), vdevs.join(" ")))
        }
        Request::PoolRemove { name, device } => (name, format!("pool remove {name} {device}")),
        Request::PoolDetach { name, device, force } => {
            (name, format!("pool detach {}{name} {device}", flag(*force, "-f")))
        }
        Request::PoolReplace { name, device, new_device, force } => {
            let new = new_device.as_deref().map(|new| format!(" {}", path(new))).unwrap_or_default();
            (name, format!("pool replace {}{name} {device}{new}", flag(*force, "-f")))
        }
        Request::PoolOffline { name, device, temporary } => {
            (name, format!("pool offline {}{name} {device}", flag(*temporary, "-t")))
        }
        Request::PoolOnline { name, device } => (name, format!("pool online {name} {device}")),
        Request::PoolClear { name, device } => {
            let device = device.as_ref().map(|device| format!(" {device}")).unwrap_or_default();
            (name, format!("pool clear {name}{device}"))
        }
        Request::PoolReopen { name } => (name, format!("pool reopen {name}")),
        Request::PoolScrub { name, stop, pause, .. } => {
            (name, format!("pool scrub {}{}{name}", flag(*stop, "-s"), flag(*pause, "-p")))
        }
        Request::DatasetCreate { name, parents, properties } => {
            (name, format!("dataset create {}{}{name}", flag(*parents, "-p"), set(properties, "-o ")))
        }
        Request::DatasetDestroy { name, recursive } => {
            (name, format!("dataset destroy {}{name}", flag(*recursive, "-r")))
        }
        Request::DatasetSet { name, assignments } => (name, format!("dataset set {}{name}", set(assignments, ""))),
        Request::DatasetInherit { name, property } => (name, format!("dataset inherit {property} {name}")),
        Request::DatasetRename { from, to } => (from, format!("dataset rename {from} {to}")),
        _ => return None,
    })
}
