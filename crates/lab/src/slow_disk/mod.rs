//! A hard disk's time without its noise: a network block device in front of a file.
//!
//! Where a durable write takes milliseconds, a file server's speed is the number of times that it waits for the
//! disk, and nothing else. To show that number as seconds a disk is needed that is slow in the same way every
//! time; a real one differs between its inner and outer tracks, and the kernel's delaying target has the grain
//! of a clock tick and does any number of writes at once.
//!
//! The model stands for a disk of 120 operations a second that has a write cache:
//!
//! 1. One request is done at a time, in the order of arrival.
//! 2. A write goes into the cache and costs nothing (or `--write-us`); a read costs nothing.
//! 3. What makes a write durable costs a turn of the platter, `--durable-us`: a FLUSH if anything was written
//!    since the last one, or a write with FUA. A FLUSH with nothing to do costs nothing.
//!
//! One turn for all that a FLUSH finds in the cache is kinder than a real disk to whoever writes many blocks
//! before it. `--write-us 8000 --durable-us 0` is the other extreme, a disk without a cache, where each write
//! costs a turn and FLUSH has nothing to do. A server that is ahead in both is ahead on what lies between.
//!
//! FUA is offered with `--fua` alone. Consumer disks that Linux drives through libata have it switched off, and so
//! have virtual machines' disks as a rule; a durable write then is a write and a FLUSH.

mod model;

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;

use crate::nbd::{self, Action, Request, Status};
use model::{Counts, Model};

/// The disk, as its command line describes it.
#[derive(Args)]
pub struct Options {
    /// The file that holds its bytes; made if it is not there.
    file: PathBuf,
    /// Its size.
    #[arg(long)]
    mib: u64,
    /// The Unix socket where the kernel's client finds it.
    #[arg(long)]
    socket: PathBuf,
    /// Where it keeps count of what it did, as one line.
    #[arg(long)]
    counts: PathBuf,
    /// What a durable write costs.
    #[arg(long, default_value_t = 8000)]
    durable_us: u64,
    /// What a write into the cache costs.
    #[arg(long, default_value_t = 0)]
    write_us: u64,
    /// Offer writes that go through the cache.
    #[arg(long)]
    fua: bool,
}

/// Serves one client after the other until the process is ended.
pub fn run(options: &Options) -> Result<()> {
    let mut disk = Disk::open(options)?;
    // A socket that an earlier run left behind would be in the way.
    let _ = std::fs::remove_file(&options.socket);
    let listener = UnixListener::bind(&options.socket)
        .with_context(|| format!("cannot listen on {}", options.socket.display()))?;
    loop {
        let (mut client, _) = listener.accept()?;
        if let Err(error) = disk.serve(&mut client) {
            eprintln!("slow-disk: the client was dropped: {error:#}");
        }
    }
}

/// The disk itself. Its cache outlives a connection.
struct Disk {
    bytes: File,
    size: u64,
    fua: bool,
    model: Model,
    counts: Counts,
    counts_file: File,
}

impl Disk {
    fn open(options: &Options) -> Result<Self> {
        let mut how = OpenOptions::new();
        how.read(true).write(true).create(true).truncate(false);
        let bytes = how.open(&options.file).with_context(|| format!("cannot open {}", options.file.display()))?;
        let size = options.mib << 20;
        bytes.set_len(size)?;
        let counts_file = File::create(&options.counts)?;
        let (write, durable) = (Duration::from_micros(options.write_us), Duration::from_micros(options.durable_us));
        let model = Model::new(write, durable);
        let disk = Self { bytes, size, fua: options.fua, model, counts: Counts::default(), counts_file };
        disk.show_counts()?;
        Ok(disk)
    }

    fn serve(&mut self, client: &mut UnixStream) -> Result<()> {
        if !nbd::greet(client, self.size, self.fua)? {
            return Ok(());
        }
        while let Some(request) = Request::read(client)? {
            let started = Instant::now();
            let (status, data) = self.perform(&request.action);
            let cost = self.model.cost(&request.action, &mut self.counts);
            if request.action.changes() {
                self.show_counts()?;
            }
            // What the work itself took lies within the turn of the platter.
            std::thread::sleep(cost.saturating_sub(started.elapsed()));
            request.answer(client, status, &data)?;
        }
        Ok(())
    }

    fn perform(&self, action: &Action) -> (Status, Vec<u8>) {
        let done = match action {
            Action::Read { offset, length } if self.holds(*offset, u64::from(*length)) => {
                let mut data = vec![0; *length as usize];
                self.bytes.read_exact_at(&mut data, *offset).map(|()| data)
            }
            Action::Write { offset, data, .. } if self.holds(*offset, data.len() as u64) => {
                self.bytes.write_all_at(data, *offset).map(|()| Vec::new())
            }
            Action::Flush => Ok(Vec::new()),
            Action::Read { .. } | Action::Write { .. } | Action::Other => Err(ErrorKind::InvalidInput.into()),
        };
        match done {
            Ok(data) => (Status::Done, data),
            Err(error) if error.kind() == ErrorKind::InvalidInput => (Status::Invalid, Vec::new()),
            Err(_) => (Status::Broken, Vec::new()),
        }
    }

    fn holds(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.size)
    }

    fn show_counts(&self) -> std::io::Result<()> {
        self.counts_file.write_all_at(self.counts.line().as_bytes(), 0)
    }
}

#[cfg(test)]
mod tests;
