//! A mounted directory, worked on by system calls; the kernel makes the requests.
//!
//! On an NFS mount a system call that changes a directory or attributes is a request, and `close` sends what was
//! written. On any other file system nothing but `fsync` promises anything, so nothing but that is probed and judged.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{Advice, AtFlags, FileType, Gid, Mode, Timespec, Timestamps, Uid};

use super::{Client, Pieces, Setting, Site, TIME_SECONDS, Tool, USER};
use crate::meter::{Meter, Promise};
use crate::promise::Kind;
use crate::random::Random;
use crate::wire::random_u32;
use crate::witness::{CHANGE_BYTES, PROBE_BYTES, Probed, Witness};

/// What statfs says of an NFS mount.
const NFS_MAGIC: u64 = 0x6969;

const KINDS_NFS: [Kind; 10] = [
    Kind::Create,
    Kind::SetAttr,
    Kind::WriteAndClose,
    Kind::WriteAndFsync,
    Kind::MkDir,
    Kind::SymLink,
    Kind::Link,
    Kind::Rename,
    Kind::Remove,
    Kind::RmDir,
];
const KINDS_OTHER: [Kind; 1] = [Kind::WriteAndFsync];

/// A directory.
pub struct Mounted {
    path: PathBuf,
    magic: u64,
}

impl Mounted {
    /// Looks what kind of file system it is.
    pub fn open(path: &Path) -> Result<Self> {
        let path = path.canonicalize().with_context(|| format!("cannot use {}", path.display()))?;
        ensure!(path.is_dir(), "{} is no directory", path.display());
        let magic = rustix::fs::statfs(&path)?.f_type;
        Ok(Self { path, magic: magic.cast_unsigned() })
    }

    fn is_nfs(&self) -> bool {
        self.magic == NFS_MAGIC
    }
}

impl Site for Mounted {
    type Client = Calls;

    fn client(&self, meter: &Arc<Meter>) -> Result<Calls> {
        let noise = Random::new(random_u32()?.into(), 0);
        Ok(Calls { meter: Arc::clone(meter), is_nfs: self.is_nfs(), noise })
    }

    fn make_run(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }

    fn remove_run(&self, name: &str, gone: &mut dyn FnMut(u64)) -> Result<()> {
        let path = self.path.join(name);
        empty(&path, gone, &mut 0)?;
        Ok(fs::remove_dir(path)?)
    }

    fn kinds(&self) -> &'static [Kind] {
        if self.is_nfs() { &KINDS_NFS } else { &KINDS_OTHER }
    }

    fn beyond_judgement(&self) -> Option<String> {
        (!self.is_nfs()).then(|| {
            let (path, magic) = (self.path.display(), self.magic);
            format!("{path} is no NFS mount (file system type {magic:#x}): without fsync nothing is promised there")
        })
    }
}

fn empty(folder: &Path, gone: &mut dyn FnMut(u64), count: &mut u64) -> Result<()> {
    for entry in fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()? {
        if entry.file_type()?.is_dir() {
            empty(&entry.path(), gone, count)?;
            fs::remove_dir(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
        *count += 1;
        gone(*count);
    }
    Ok(())
}

/// A thread's system calls.
pub struct Calls {
    meter: Arc<Meter>,
    is_nfs: bool,
    /// What is written for the referee.
    noise: Random,
}

impl Calls {
    /// One system call that is a request whose reply promises durability, where anything is.
    fn change<T>(&self, kind: Kind, bytes: u64, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let promise = if self.is_nfs { Promise::Durable(kind, bytes) } else { Promise::Nothing };
        self.meter.time(promise, call)
    }

    /// Of what is at the path itself: a symbolic link is not followed.
    fn set(&self, path: &Path, setting: Setting, mode: u32) -> Result<()> {
        self.change(Kind::SetAttr, 0, || {
            let here = rustix::fs::CWD;
            match setting {
                Setting::Times => {
                    rustix::fs::utimensat(here, path, &times(), AtFlags::SYMLINK_NOFOLLOW)?;
                }
                Setting::Owner => {
                    let (uid, gid) = (Uid::from_raw(USER.0), Gid::from_raw(USER.1));
                    rustix::fs::chownat(here, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
                }
                Setting::Mode => fs::set_permissions(path, Permissions::from_mode(mode))?,
            }
            Ok(())
        })
        .with_context(|| format!("cannot set {setting:?} of {}", path.display()))
    }

    /// Closes a file that was written. An error of the flush that this is over NFS would go unseen with the last
    /// descriptor; so another one is closed first, and fsync, which finds nothing left to send, asks how that went.
    fn close(&self, file: &File, bytes: u64) -> Result<()> {
        self.change(Kind::WriteAndClose, bytes, || {
            if self.is_nfs {
                drop(file.try_clone()?);
                file.sync_all()?;
            }
            Ok(())
        })
    }
}

fn times() -> Timestamps {
    let time = Timespec { tv_sec: TIME_SECONDS.into(), tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}

fn create_new(path: &Path, mode: u32) -> Result<File> {
    let made = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    made.with_context(|| format!("cannot make {}", path.display()))
}

impl Client for Calls {
    type Node = PathBuf;

    fn make_folder(&mut self, parent: &PathBuf, name: &str) -> Result<PathBuf> {
        let path = parent.join(name);
        let make = || Ok(fs::create_dir(&path)?);
        self.change(Kind::MkDir, 0, make).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }

    fn find(&mut self, folder: &PathBuf, name: &str) -> Result<PathBuf> {
        Ok(folder.join(name))
    }

    fn finish_folder(&mut self, folder: &PathBuf, tool: Tool) -> Result<()> {
        tool.settings().iter().try_for_each(|setting| self.set(folder, *setting, 0o755))
    }

    fn add_file(&mut self, folder: &PathBuf, name: &str, data: &[u8], tool: Tool) -> Result<PathBuf> {
        let path = folder.join(name);
        let mut file = self.change(Kind::Create, 0, || create_new(&path, 0o600))?;
        file.write_all(data).with_context(|| format!("cannot write {}", path.display()))?;
        self.close(&file, data.len() as u64).with_context(|| format!("cannot write {}", path.display()))?;
        drop(file);
        tool.settings().iter().try_for_each(|setting| self.set(&path, *setting, 0o644))?;
        Ok(path)
    }

    /// A link's mode is nobody's to set.
    fn add_symlink(&mut self, folder: &PathBuf, name: &str, to: &str, tool: Tool) -> Result<()> {
        let path = folder.join(name);
        self.change(Kind::SymLink, 0, || Ok(std::os::unix::fs::symlink(to, &path)?))
            .with_context(|| format!("cannot make {}", path.display()))?;
        let settings = tool.settings().iter().filter(|setting| **setting != Setting::Mode);
        settings.copied().try_for_each(|setting| self.set(&path, setting, 0))
    }

    fn link(&mut self, file: &PathBuf, folder: &PathBuf, name: &str) -> Result<()> {
        let path = folder.join(name);
        let link = || Ok(fs::hard_link(file, &path)?);
        self.change(Kind::Link, 0, link).with_context(|| format!("cannot make {}", path.display()))
    }

    fn create(&mut self, folder: &PathBuf, name: &str) -> Result<PathBuf> {
        let path = folder.join(name);
        self.change(Kind::Create, 0, || create_new(&path, 0o644))?;
        Ok(path)
    }

    fn overwrite(&mut self, file: &PathBuf, data: &[u8]) -> Result<()> {
        let what = || format!("cannot overwrite {}", file.display());
        let open = || Ok(OpenOptions::new().write(true).truncate(true).open(file)?);
        let mut opened = self.change(Kind::SetAttr, 0, open).with_context(what)?;
        opened.write_all(data).with_context(what)?;
        self.close(&opened, data.len() as u64).with_context(what)
    }

    fn write_long(&mut self, file: &PathBuf, pieces: &mut Pieces<'_>) -> Result<()> {
        let what = || format!("cannot write {}", file.display());
        let mut opened = OpenOptions::new().write(true).open(file).with_context(what)?;
        for index in 0..pieces.count {
            let piece = pieces.piece(index);
            self.meter.time(Promise::Nothing, || Ok(opened.write_all(piece)?)).with_context(what)?;
            pieces.done()?;
        }
        let bytes = pieces.count * pieces.bytes() as u64;
        self.meter.time(Promise::Durable(Kind::WriteAndFsync, bytes), || Ok(opened.sync_all()?)).with_context(what)
    }

    fn read_long(&mut self, file: &PathBuf, pieces: &mut Pieces<'_>) -> Result<()> {
        let what = || format!("cannot read {}", file.display());
        let mut opened = File::open(file).with_context(what)?;
        rustix::fs::fadvise(&opened, 0, None, Advice::DontNeed)?;
        let mut data = vec![0; pieces.bytes()];
        for _ in 0..pieces.count {
            self.meter.time(Promise::Nothing, || Ok(opened.read_exact(&mut data)?)).with_context(what)?;
            pieces.check(&data)?;
        }
        Ok(())
    }

    fn list(&mut self, folder: &PathBuf) -> Result<u64> {
        self.meter.time(Promise::Nothing, || {
            let mut names = 0;
            for entry in fs::read_dir(folder)? {
                entry?.metadata()?;
                names += 1;
            }
            Ok(names)
        })
    }

    fn probe(&mut self, folder: &PathBuf, kind: Kind, number: u64, witness: &mut Witness<'_>) -> Result<Probed> {
        let (path, other) = (folder.join(format!("p{number:03}")), folder.join(format!("q{number:03}")));
        prepare(kind, &path)?;
        match kind {
            Kind::WriteAndClose | Kind::WriteAndFsync => {
                let mut file = OpenOptions::new().write(true).open(&path)?;
                let data = self.noise.bytes(PROBE_BYTES);
                witness.ask(data.len() as u64, || {
                    file.write_all(&data)?;
                    if kind == Kind::WriteAndFsync {
                        file.sync_all()?;
                    }
                    drop(file);
                    Ok(kind)
                })
            }
            _ => witness.ask(CHANGE_BYTES, || call(kind, &path, &other, number).map(|()| kind)),
        }
    }
}

/// What must be there before.
fn prepare(kind: Kind, path: &Path) -> Result<()> {
    match kind {
        Kind::Create | Kind::MkDir | Kind::SymLink | Kind::MkNod => {}
        Kind::RmDir => fs::create_dir(path)?,
        Kind::WriteAndFsync => create_new(path, 0o644)?.sync_all()?,
        _ => drop(create_new(path, 0o644)?),
    }
    Ok(())
}

/// The one system call.
fn call(kind: Kind, path: &Path, other: &Path, number: u64) -> Result<()> {
    match kind {
        Kind::Create => drop(create_new(path, 0o644)?),
        Kind::SetAttr => match number % 3 {
            0 => fs::set_permissions(path, Permissions::from_mode(0o600))?,
            1 => rustix::fs::utimensat(rustix::fs::CWD, path, &times(), rustix::fs::AtFlags::empty())?,
            _ => OpenOptions::new().write(true).open(path)?.set_len(4096)?,
        },
        Kind::MkDir => fs::create_dir(path)?,
        Kind::SymLink => std::os::unix::fs::symlink("somewhere/else", path)?,
        Kind::MkNod => rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0)?,
        Kind::Link => fs::hard_link(path, other)?,
        Kind::Rename => fs::rename(path, other)?,
        Kind::Remove => fs::remove_file(path)?,
        Kind::RmDir => fs::remove_dir(path)?,
        _ => bail!("{} is no system call", kind.word()),
    }
    Ok(())
}
