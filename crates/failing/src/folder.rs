//! The folder of disks, as the kernel asks for it. Flat: the disks are made in the folder below before it is mounted.
//!
//! Every file is opened with direct I/O, so that each request of the server is one request here, as large as it was.
//! The flags of a write tell a durable one: the kernel adds O_DSYNC for RWF_DSYNC.

use std::ffi::OsStr;
use std::fs::{Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, WriteFlags,
};

use crate::disk::Disk;
use crate::rules::{Action, Request, Rules};

/// Requests that may hang or sleep at once without holding up others.
const THREADS: usize = 16;
/// Nothing is remembered by the kernel.
const TTL: Duration = Duration::ZERO;
/// O_DSYNC, as on every Linux that has it so.
const O_DSYNC: i32 = 0o10_000;

struct Entry {
    name: String,
    path: PathBuf,
    disk: Disk,
}

/// The folder.
pub struct Folder {
    below: PathBuf,
    rules: Rules,
    /// A disk's number is its place here, and two.
    disks: Mutex<Vec<Arc<Entry>>>,
}

impl Folder {
    /// Mounts `below` at `at`; it lasts as long as what is given back.
    pub fn mount(below: &Path, rules: &Path, at: &Path) -> Result<BackgroundSession> {
        let folder = Self { below: below.to_owned(), rules: Rules::new(rules.to_owned()), disks: Mutex::default() };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("tally-failing".into())];
        config.n_threads = Some(THREADS);
        fuser::spawn_mount(folder, at, &config).with_context(|| format!("cannot mount {}", at.display()))
    }

    /// The disk of this name, opened when it is first asked for.
    fn find(&self, name: &str) -> io::Result<(INodeNo, Arc<Entry>)> {
        let mut disks = self.disks.lock().expect("no holder of the list panics");
        let at = match disks.iter().position(|entry| entry.name == name) {
            Some(at) => at,
            None => {
                let path = self.below.join(name);
                let disk = Disk::new(OpenOptions::new().read(true).write(true).open(&path)?);
                disks.push(Arc::new(Entry { name: name.to_owned(), path, disk }));
                disks.len() - 1
            }
        };
        Ok((INodeNo(at as u64 + 2), Arc::clone(&disks[at])))
    }

    fn entry(&self, ino: INodeNo) -> Result<Arc<Entry>, Errno> {
        let disks = self.disks.lock().expect("no holder of the list panics");
        let at = ino.0.checked_sub(2).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| disks.get(at)).cloned().ok_or(Errno::ENOENT)
    }

    fn attr(&self, ino: INodeNo) -> Result<FileAttr, Errno> {
        let path = if ino.0 == 1 { self.below.clone() } else { self.entry(ino)?.path.clone() };
        Ok(attr(ino, &std::fs::metadata(path)?))
    }

    /// What the rules have a request do before, or instead of, the right thing.
    fn meet(&self, entry: &Entry, request: Request, bytes: &Range<u64>) -> Result<(), Errno> {
        loop {
            match self.rules.judge(&entry.name, request, bytes) {
                None => return Ok(()),
                Some(Action::Fail) => return Err(Errno::EIO),
                Some(Action::Lose) => {
                    entry.disk.lose()?;
                    return Err(Errno::EIO);
                }
                Some(Action::Sleep(time)) => {
                    std::thread::sleep(time);
                    return Ok(());
                }
                Some(Action::Hang) => self.rules.wait_for_change(),
            }
        }
    }

    fn flush_disk(&self, ino: INodeNo) -> Result<(), Errno> {
        let entry = self.entry(ino)?;
        self.meet(&entry, Request::Flush, &(0..u64::MAX))?;
        entry.disk.flush();
        Ok(())
    }
}

impl Filesystem for Folder {
    fn lookup(&self, _: &fuser::Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = name.to_str().ok_or(Errno::ENOENT).and_then(|name| {
            let (ino, _) = self.find(name)?;
            self.attr(ino)
        });
        match found {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &fuser::Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attr(ino) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &fuser::Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<fuser::TimeOrNow>,
        _mtime: Option<fuser::TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let resized = size.map_or(Ok(()), |size| Ok(self.entry(ino)?.disk.resize(size)?));
        match resized.and_then(|()| self.attr(ino)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &fuser::Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
    }

    fn read(
        &self,
        _: &fuser::Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.entry(ino).and_then(|entry| {
            self.meet(&entry, Request::Read, &(offset..offset + u64::from(size)))?;
            Ok(entry.disk.read(offset, size as usize)?)
        });
        match read {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &fuser::Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let durable = flags.0 & O_DSYNC != 0;
        let request = if durable { Request::Durable } else { Request::Write };
        let written = self.entry(ino).and_then(|entry| {
            self.meet(&entry, request, &(offset..offset + data.len() as u64))?;
            Ok(entry.disk.write(offset, data, durable)?)
        });
        match written {
            Ok(()) => reply.written(u32::try_from(data.len()).expect("the kernel's own count has 32 bits")),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &fuser::Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // A close; disks do not hear of that.
        reply.ok();
    }

    fn fsync(&self, _: &fuser::Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.flush_disk(ino) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn fsyncdir(&self, _: &fuser::Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(&self, _: &fuser::Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let names = std::fs::read_dir(&self.below).into_iter().flatten().flatten().map(|entry| entry.file_name());
        for (number, name) in (1_u64..).zip(names).skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
            if reply.add(INodeNo(u64::MAX), number, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }
}

fn attr(ino: INodeNo, metadata: &Metadata) -> FileAttr {
    use std::os::unix::fs::MetadataExt;
    let time = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    FileAttr {
        ino,
        size: metadata.len(),
        blocks: metadata.blocks(),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: if metadata.is_dir() { FileType::Directory } else { FileType::RegularFile },
        perm: if metadata.is_dir() { 0o700 } else { 0o600 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
