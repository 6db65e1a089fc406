//! A pool that is to be made: what is asked of it, what can be wrong with that, and the files that are made for it. Making the
//! pool of them is the list's ([`Pools::create`]).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Access as May, access};
use tally_base::SECTOR;
use tally_fs::filer::{CreateOptions, FilerError};
use tally_members::create;
use tally_members::grammar::{VdevSpec, parse_vdev_args};

use super::error::{NewFileError, PoolsError};
use super::new_files::NewFile;
use super::pools::Pools;
use super::{datasets, features, first_pool, zfs_words};
use crate::control::message::{Assignment, OnProgress, Progress};
use crate::process;

impl Pools {
    /// Looks at everything that can be wrong with a pool that is to be made, without writing anything. With `asked_bytes` the
    /// files that are not there are to be made, so large: gives them.
    pub(super) fn check_create(
        &self,
        name: &str,
        words: &[String],
        options: &CreateOptions,
        asked_bytes: Option<u64>,
    ) -> Result<(Vec<PathBuf>, u64), PoolsError> {
        let specs = parse_vdev_args(words)?;
        self.check_not_imported(name)?;
        let paths = asked_bytes.map(|_| missing(&specs)).unwrap_or_default();
        let bytes = asked_bytes.unwrap_or(0).checked_next_multiple_of(SECTOR as u64).unwrap_or(u64::MAX);
        let size_of_new = |path: &Path| paths.iter().any(|new| new == path).then_some(bytes);
        create::check(&self.platform, name, &specs, &options.disks, &size_of_new).map_err(FilerError::from)?;
        check_room(&paths, bytes)?;
        Ok((paths, bytes))
    }

    /// Makes the files for a pool that are not there, `asked_bytes` large, once everything that can be wrong with that pool
    /// was looked at. `ends` becomes true when they are not to be made any more.
    pub(super) fn make_files(
        &self,
        name: &str,
        words: &[String],
        options: &CreateOptions,
        asked_bytes: u64,
        ends: &AtomicBool,
        progress: OnProgress<'_>,
    ) -> Result<Vec<NewFile>, PoolsError> {
        let (paths, bytes) = self.check_create(name, words, options, Some(asked_bytes))?;
        let make = |path: &PathBuf| {
            let what = format!("making {}", path.display());
            // All of it is written out: whether it will hold a log is not known before the pool is made.
            NewFile::make(&self.platform.opener, path, bytes, true, &mut |done| {
                progress(Progress { what: what.clone(), done, total: bytes });
                !ends.load(Ordering::Acquire)
            })
        };
        Ok(paths.iter().map(make).collect::<Result<_, _>>()?)
    }
}

/// What is asked of a new pool, in the words of the control socket.
pub(super) fn create_options(
    force: bool,
    properties: &[Assignment],
    of_pool: &[Assignment],
) -> Result<CreateOptions, PoolsError> {
    let properties = datasets::property_set(properties)?;
    let mut disks = create::CreateOptions { force, ..create::CreateOptions::default() };
    for assignment in of_pool {
        let Assignment { property, value } = assignment;
        match property.as_str() {
            "compatibility" => disks.compatibility = features::parse_compatibility(value)?,
            name => match zfs_words::of_pools(name) {
                Some(foreign) => foreign.check(assignment)?,
                None => return Err(PoolsError::BadNewPoolProperty { name: property.clone(), value: value.clone() }),
            },
        }
    }
    Ok(CreateOptions { disks, root_owner: process::owner(), properties })
}

/// The files among the disks of a pool that are not there.
fn missing(specs: &[VdevSpec]) -> Vec<PathBuf> {
    specs.iter().flat_map(|spec| &spec.paths).filter(|path| fs::symlink_metadata(path).is_err()).cloned().collect()
}

/// Whether there is room for all of them, in directories in which we may make them.
fn check_room(paths: &[PathBuf], bytes: u64) -> Result<(), NewFileError> {
    let mut needed = BTreeMap::<u64, u64>::new();
    for path in paths {
        let dir = path.parent().unwrap_or(Path::new("/"));
        let failed = |source: io::Error| NewFileError::Io { path: path.clone(), source };
        let device = fs::metadata(dir).map_err(failed)?.dev();
        access(dir, May::WRITE_OK | May::EXEC_OK).map_err(|errno| failed(errno.into()))?;
        let sum = needed.entry(device).or_default();
        *sum = sum.saturating_add(bytes);
        let free = first_pool::free_bytes(dir).map_err(failed)?;
        if *sum > free {
            return Err(NewFileError::NoRoom { dir: dir.into(), free, needed: *sum });
        }
    }
    Ok(())
}
