//! One program: what it does, and what each call that returned has promised to it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use rustix::io::Errno;

use super::look::look;
use crate::load::choose;
use crate::model::{HOME, Id, Model, Operation};
use crate::random::Random;

/// That it is known where something is: the model has handles for that, and here there are names.
const KNOWN: &[u8] = &[];
/// There is one write verifier, as the kernel shows none: whether what was written and not promised is there behind a kill, nobody says.
pub(super) const VERIFIER: [u8; 8] = [0; 8];

/// Why a call brought no result.
pub(super) enum Trouble {
    /// The mount is gone: what became of it is unknown.
    Gone,
    /// It failed, or said what it must not.
    Violation(String),
}

/// A program with a directory of its own.
pub(super) struct Worker {
    pub(super) home: PathBuf,
    random: Random,
    pub(super) model: Model,
    /// Files with writes that nothing has promised yet.
    pub(super) open: BTreeMap<Id, File>,
    under_way: Option<Operation>,
}

impl Worker {
    /// Worker `index`, whose directory is made below `dir`.
    pub(super) fn new(seed: u64, index: u8, dir: &Path) -> Result<Self> {
        let home = dir.join(format!("home-{index}"));
        fs::create_dir(&home)?;
        let mut model = Model::new(KNOWN.to_vec(), KNOWN.to_vec());
        // What all share with each other is a matter of clients.
        model.nodes.remove(&crate::model::SHARED);
        let random = Random::new(seed, u64::from(index));
        Ok(Self { home, random, model, open: BTreeMap::new(), under_way: None })
    }

    /// Works until the mount is gone. How many calls returned; or a broken promise.
    pub(super) fn work(&mut self) -> Result<u64, String> {
        for answered in 0.. {
            let operation = choose(&mut self.random, &mut self.model, "", &[]);
            match self.perform(&operation) {
                Ok(()) => {}
                Err(Trouble::Gone) => {
                    self.under_way = Some(operation);
                    return Ok(answered);
                }
                Err(Trouble::Violation(text)) => return Err(format!("{}: {operation:?}: {text}", self.home.display())),
            }
        }
        Ok(0)
    }

    pub(super) fn perform(&mut self, operation: &Operation) -> Result<(), Trouble> {
        match operation {
            Operation::Read { node } => self.read(*node),
            Operation::Write { node, offset, data, stable } => self.write(*node, *offset, data, *stable),
            Operation::Commit { node } => self.commit(*node),
            changing => {
                self.change(changing)?;
                self.model.apply(changing, Some(KNOWN.to_vec()));
                // What has no name any more is closed.
                self.open.retain(|id, _| self.model.nodes.contains_key(id));
                Ok(())
            }
        }
    }

    /// A name or an attribute: each is for good once its call has returned.
    fn change(&mut self, operation: &Operation) -> Result<(), Trouble> {
        match operation {
            Operation::Create { dir, name, .. } => {
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).mode(0o644);
                options.open(self.at(*dir, name)).map(drop)?;
                // The process' own mask is no matter of this ledger.
                Ok(fs::set_permissions(self.at(*dir, name), Permissions::from_mode(0o644))?)
            }
            Operation::MakeDirectory { dir, name, .. } => {
                let path = self.at(*dir, name);
                fs::create_dir(&path)?;
                Ok(fs::set_permissions(path, Permissions::from_mode(0o755))?)
            }
            Operation::Symlink { dir, name, target, .. } => Ok(symlink(target, self.at(*dir, name))?),
            Operation::Link { node, dir, name } => Ok(fs::hard_link(self.path(*node)?, self.at(*dir, name))?),
            Operation::Remove { dir, name } => Ok(fs::remove_file(self.at(*dir, name))?),
            Operation::RemoveDirectory { dir, name } => Ok(fs::remove_dir(self.at(*dir, name))?),
            Operation::Rename { dir, name, to_dir, to_name } => {
                // As mv does. Linux cannot rename a directory that it has last seen elsewhere, as a client has moved it since (ESTALE).
                let (from, to) = (self.at(*dir, name), self.at(*to_dir, to_name));
                fs::symlink_metadata(&from)?;
                Ok(fs::rename(from, to)?)
            }
            Operation::Mode { node, mode } => {
                Ok(fs::set_permissions(self.path(*node)?, Permissions::from_mode(*mode))?)
            }
            Operation::Truncate { node, size } => {
                Ok(rustix::fs::ftruncate(&open(&self.path(*node)?)?, *size).map_err(io::Error::from)?)
            }
            Operation::ModificationTime { node, time } => {
                let time = SystemTime::UNIX_EPOCH + Duration::new(time.0.into(), time.1);
                Ok(open(&self.path(*node)?)?.set_modified(time)?)
            }
            other => Err(Trouble::Violation(format!("{other:?} is no change"))),
        }
    }

    fn read(&mut self, node: Id) -> Result<(), Trouble> {
        let content = fs::read(self.path(node)?)?;
        match self.model.nodes.get(&node) {
            Some(known) if known.current() != content => {
                Err(Trouble::Violation(format!("{} bytes that are not what was written", content.len())))
            }
            _ => Ok(()),
        }
    }

    fn write(&mut self, node: Id, offset: u64, data: &[u8], stable: bool) -> Result<(), Trouble> {
        let path = self.path(node)?;
        if stable {
            // In each of the ways that promise.
            let mut options = OpenOptions::new();
            options.write(true);
            let way = self.random.below(5);
            match way {
                0 => options.custom_flags(rustix::fs::OFlags::DSYNC.bits().cast_signed()),
                1 => options.custom_flags(rustix::fs::OFlags::SYNC.bits().cast_signed()),
                _ => &mut options,
            };
            let file = options.open(&path)?;
            file.write_all_at(data, offset)?;
            match way {
                2 => file.sync_all()?,
                3 => file.sync_data()?,
                _ => {}
            }
            close(file, &path)?;
        } else {
            let file = match self.open.entry(node) {
                std::collections::btree_map::Entry::Occupied(there) => there.into_mut(),
                std::collections::btree_map::Entry::Vacant(place) => place.insert(open(&path)?),
            };
            file.write_all_at(data, offset)?;
        }
        self.model.written(node, offset, data.to_vec(), stable, VERIFIER).map_err(Trouble::Violation)
    }

    fn commit(&mut self, node: Id) -> Result<(), Trouble> {
        let path = self.path(node)?;
        let Some(file) = self.open.remove(&node) else { return Ok(()) };
        match self.random.below(3) {
            0 => file.sync_all()?,
            1 => file.sync_data()?,
            _ => close(file, &path)?,
        }
        self.model.committed(node, VERIFIER).map_err(Trouble::Violation)
    }

    /// Behind a restart: what is there against what was promised, and what is there is known from then on. How many names were compared.
    pub(super) fn recover(&mut self) -> Result<u64, String> {
        self.open.clear();
        let Some(operation) = self.under_way.take() else { return look(&mut self.model, &self.home) };
        if let Operation::Write { node, offset, data, .. } = operation {
            self.model.perhaps_written(node, offset, data);
            return look(&mut self.model, &self.home);
        }
        // It has happened, or it has not.
        let mut with = self.model.clone();
        with.apply(&operation, Some(KNOWN.to_vec()));
        let without = look(&mut self.model, &self.home);
        without.or_else(|without| {
            let compared = look(&mut with, &self.home).map_err(|with| {
                format!("{}: {operation:?} was under way. Without it: {without}; with it: {with}", self.home.display())
            })?;
            self.model = with;
            Ok(compared)
        })
    }

    fn at(&self, dir: Id, name: &str) -> PathBuf {
        self.model.path(&self.home, dir).unwrap_or_default().join(name)
    }

    fn path(&self, node: Id) -> Result<PathBuf, Trouble> {
        let none = || Trouble::Violation("the ledger has no name of that".into());
        self.model.path(&self.home, node).ok_or_else(none)
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// What is closed is durable. Whether that was told to a kernel whose server was gone `std` does not say; but who is answered behind it was told before.
fn close(file: File, path: &Path) -> io::Result<()> {
    drop(file);
    fs::symlink_metadata(path).map(drop)
}

impl Model {
    /// Where it is, by one of its names.
    pub(super) fn path(&self, home: &Path, id: Id) -> Option<PathBuf> {
        if id == HOME {
            return Some(home.to_owned());
        }
        let ((dir, name), _) = self.names.iter().find(|(_, named)| **named == id)?;
        Some(self.path(home, *dir)?.join(name))
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        // The kernel's words for a mount whose server is gone, to who waited and to who comes.
        let gone = [Errno::NOTCONN, Errno::CONNABORTED].map(|errno| Some(errno.raw_os_error()));
        if gone.contains(&error.raw_os_error()) { Self::Gone } else { Self::Violation(error.to_string()) }
    }
}
