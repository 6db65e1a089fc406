//! The directories on which datasets are mounted, in the root directories of those above them.

use tally_base::{Broken, ObjectId};
use tally_vfs::{Cred, FileKind, FsError, Names, OpCtx};

use super::datasets::DatasetError;
use crate::filesystem::Filesystem;

/// A directory for a dataset to be mounted on. It is protected, as mount points are, before anything waits: who may write to
/// the parent's root would put something else in its place, which nobody could take away any more.
pub(super) struct MountPoint {
    id: ObjectId,
    /// Whether it was there before.
    found: bool,
}

impl MountPoint {
    /// Makes it if it is not there. What is there must be empty, and root's alone: who can write to a directory that is
    /// covered writes past the dataset above it.
    pub(super) fn take(parent: &Filesystem, name: &str) -> Result<Self, DatasetError> {
        let failed = |why: String| DatasetError::MountPoint { name: name.to_owned(), why };
        let broken = |broken: Broken| failed(broken.to_string());
        let cred = Cred::root();
        loop {
            let made = parent.make_covered_directory(OpCtx::of(&cred), component(name));
            match made.result {
                Ok(attr) => {
                    let point = Self { id: attr.object.id, found: false };
                    made.wait.block().map_err(broken).inspect_err(|_| point.give_back(parent, name))?;
                    return Ok(point);
                }
                Err(FsError::Throttled) => drop(made.wait.block().map_err(broken)?),
                Err(FsError::Exists) => break,
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        let point = Self::protect(parent, name).map_err(|error| failed(error.to_string()))?;
        // It stays what it is from here on, so this holds however long the rest takes.
        match objection(parent, name, point.id) {
            Ok(None) => Ok(point),
            objection => {
                point.give_back(parent, name);
                Err(failed(objection.map_or_else(|error| error.to_string(), Option::unwrap_or_default)))
            }
        }
    }

    /// Protects what has the name now. Whoever removes a name looks under its lock whether the object is protected, so a
    /// second look tells whether they came first.
    fn protect(parent: &Filesystem, name: &str) -> Result<Self, FsError> {
        let look = || Ok(parent.lookup(&Cred::root(), parent.root(), component(name))?.0.object.id);
        loop {
            let id = look()?;
            let is_new = parent.mountpoints.write().insert(id);
            match look() {
                Ok(again) if again == id => return Ok(Self { id, found: true }),
                other => {
                    if is_new {
                        parent.mountpoints.write().remove(&id);
                    }
                    other?;
                }
            }
        }
    }

    /// Nothing is mounted on it after all.
    pub(super) fn give_back(&self, parent: &Filesystem, name: &str) {
        parent.mountpoints.write().remove(&self.id);
        if !self.found {
            remove_mount_point(parent, name);
        }
    }
}

/// Why nothing can be mounted on what has this name.
fn objection(parent: &Filesystem, name: &str, id: ObjectId) -> Result<Option<String>, FsError> {
    let (attr, _) = parent.lookup(&Cred::root(), parent.root(), component(name))?;
    if attr.object.id != id {
        return Ok(Some("somebody else moves it about; try again".into()));
    }
    if attr.kind != FileKind::Directory {
        return Ok(Some("there is something that is no directory".into()));
    }
    if attr.uid != 0 || attr.mode & 0o022 != 0 {
        let (uid, mode) = (attr.uid, attr.mode);
        return Ok(Some(format!(
            "there is a directory of user {uid} with mode {mode:o} already; remove it, or make it root's alone (chown root, \
             chmod 755)"
        )));
    }
    let page = Names::readdir(parent, &Cred::root(), attr.object, 2, 1, false)?;
    Ok((!page.entries.is_empty()).then(|| "the directory is not empty".into()))
}

/// So many groups may pass until there is room for the removal of a directory.
const REMOVE_TRIES: usize = 16;

/// Removes the covered directory. If that fails it stays, as an empty directory, and does no harm.
pub(super) fn remove_mount_point(parent: &Filesystem, name: &str) {
    if let Err(why) = try_remove(parent, component(name)) {
        tracing::warn!("the mount point of {name} was not removed: {why}");
    }
}

/// Where clients bring more than the disks take it has a group written and tries again. Nobody waits until it is durable: behind a cut an empty
/// directory is there.
fn try_remove(parent: &Filesystem, component: &[u8]) -> Result<(), String> {
    let cred = Cred::root();
    for _ in 0..REMOVE_TRIES {
        let removed = parent.rmdir(OpCtx::of(&cred), parent.root(), component);
        match removed.result {
            Err(FsError::Throttled) => parent.pool.sync().map(drop).map_err(|error| error.to_string())?,
            done => return done.map_err(|error| error.to_string()),
        }
    }
    Err("there was no room for that through several transaction groups".into())
}

/// The name of a dataset's directory in its parent.
pub(super) fn component(name: &str) -> &[u8] {
    name.rsplit('/').next().expect("a split has at least one part").as_bytes()
}
