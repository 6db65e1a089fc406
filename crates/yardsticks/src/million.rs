//! A million small files in one dataset: whether the last are made as quickly as the first, and what it then costs
//! to overwrite some at random, to change every inode and to look at every file: time, memory of the server,
//! and bytes that it writes.
//!
//! The files lie in directories of a thousand, as an archive would have them, each directory made by one client.
//! Before the overwrites and before each scan the server starts anew, so that its cache is empty.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use tally_bench::random::Random;
use tally_bench::wire::{Attributes, Connection, Handle, Stable, random_u32};

use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, Setup, Status};
use crate::limits::Limits;
use crate::load::{self, FILE_BYTES, Load};

/// The files are made in so many parts, of which the first and the last are compared.
const PARTS: u64 = 10;

/// What `million` takes.
#[derive(Args)]
pub struct Million {
    /// Runs.
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Where the pool is made; a folder on a disk [default: target/bench]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Files.
    #[arg(long, default_value_t = 1_000_000)]
    files: u64,
    /// Bytes of each file.
    #[arg(long, default_value_t = FILE_BYTES)]
    file_bytes: usize,
    /// Files in one directory.
    #[arg(long, default_value_t = 1000)]
    per_directory: u64,
    /// Connections, each with its own thread.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// How a file is made.
    #[arg(long, value_enum, default_value_t = Load::Untar)]
    load: Load,
    /// Files that are overwritten at random, each with one FILE_SYNC WRITE of all of it.
    #[arg(long, default_value_t = 10_000)]
    overwrites: u64,
    #[command(flatten)]
    limits: Limits,
}

/// A directory that was made, with its files.
struct Directory {
    handle: Handle,
    files: Vec<Handle>,
}

const LAST_AGAINST_FIRST: &str = "files per second, last tenth against first";

impl Million {
    /// Runs it.
    pub fn run(&self) -> Result<()> {
        let directories = self.files / self.per_directory;
        ensure!(
            self.load != Load::Lone && directories >= PARTS * self.connections as u64,
            "each of {PARTS} parts needs a directory for each of the {} connections",
            self.connections
        );
        let binaries = Binaries::build()?;
        let mut figures = Figures::default();
        for _ in 0..self.runs {
            self.once(&binaries, &mut figures)?;
        }
        figures.finish("million")?;
        println!(
            "{} files of {} bytes, {} to a directory, {} connections",
            self.files, self.file_bytes, self.per_directory, self.connections
        );
        figures.row("bench million", LAST_AGAINST_FIRST, Bar::AtLeast(0.8));
        self.limits.row(&figures, "bench million");
        for (phase, item) in [(MAKE, "file"), (OVERWRITE, "file"), (CHMOD, "file")] {
            figures.row("bench million", &format!("{phase}: pool bytes written per {item}"), Bar::Stated);
        }
        for phase in [MAKE, OVERWRITE, CHMOD, LIST, LOOKUP, READ] {
            figures.row("bench million", &format!("{phase}: rate"), Bar::Stated);
            figures.row("bench million", &format!("{phase}: resident memory at most"), Bar::Stated);
        }
        Ok(())
    }

    fn once(&self, binaries: &Binaries, figures: &mut Figures) -> Result<()> {
        let setup = Setup {
            configuration: self.limits.configuration(),
            pool_bytes: (4 << 30) + self.files * 3 * self.file_bytes.next_multiple_of(FILE_BYTES) as u64,
            ..Setup::default()
        };
        let mut filer = Filer::make(binaries, setup, &super::prepared(self.folder.as_deref())?)?;
        let mut made = Vec::new();
        let mut memory = 0_u64;
        let mut phase = |filer: &Filer, name, items, work: &mut dyn FnMut() -> Result<Duration>| {
            memory = memory.max(watch(filer, figures, name, items, work)?);
            Ok::<_, anyhow::Error>(())
        };
        let mut first_and_last = Vec::new();
        phase(&filer, MAKE, self.files, &mut || {
            let (directories, times) = self.make(&filer)?;
            (made, first_and_last) = (directories, times);
            Ok(first_and_last.iter().sum())
        })?;
        let files: Vec<&Handle> = made.iter().flat_map(|directory| &directory.files).collect();
        restart(&mut filer)?;
        phase(&filer, OVERWRITE, self.overwrites, &mut || self.overwrite(&filer, &files))?;
        phase(&filer, CHMOD, files.len() as u64, &mut || self.chmod(&filer, &files))?;
        restart(&mut filer)?;
        phase(&filer, LIST, files.len() as u64, &mut || self.list(&filer, &made))?;
        restart(&mut filer)?;
        phase(&filer, LOOKUP, files.len() as u64, &mut || self.look_up(&filer, &made))?;
        restart(&mut filer)?;
        phase(&filer, READ, files.len() as u64, &mut || self.read(&filer, &files))?;
        self.limits.add_peak(figures, memory);
        if let [first, .., last] = first_and_last.as_slice() {
            figures.add(LAST_AGAINST_FIRST, "", first.as_secs_f64() / last.as_secs_f64());
        }
        Ok(())
    }

    /// Makes all directories and files; gives the time of each part.
    fn make(&self, filer: &Filer) -> Result<(Vec<Directory>, Vec<Duration>)> {
        let target = filer.target("tank");
        let root = Connection::mount(&target)?;
        let part = self.files / self.per_directory / PARTS;
        let (mut made, mut times) = (Vec::new(), Vec::new());
        for start in (0..PARTS).map(|index| index * part) {
            let (time, directories) = load::at_once(target.nfs, self.connections, |index, connection| {
                let own = (start..start + part).skip(index).step_by(self.connections);
                own.map(|number| self.make_directory(connection, &root, number)).collect::<Result<Vec<_>>>()
            })?;
            eprintln!("  {:.0} files/s", (part * self.per_directory) as f64 / time.as_secs_f64());
            made.extend(directories.into_iter().flatten());
            times.push(time);
        }
        Ok((made, times))
    }

    fn make_directory(&self, connection: &mut Connection, root: &Handle, number: u64) -> Result<Directory> {
        let handle = connection.mkdir(root, &format!("d{number:07}"))?;
        let mut random = Random::new(random_u32()?.into(), number);
        let files = (0..self.per_directory)
            .map(|item| self.load.make_file(connection, &handle, item, &random.bytes(self.file_bytes)));
        let files = files.collect::<Result<_>>()?;
        Ok(Directory { handle, files })
    }

    fn overwrite(&self, filer: &Filer, files: &[&Handle]) -> Result<Duration> {
        let each = self.overwrites / self.connections as u64;
        let seed = random_u32()?.into();
        let (time, _) = load::at_once(filer.target("tank").nfs, self.connections, |index, connection| {
            let mut random = Random::new(seed, index as u64);
            (0..each).try_for_each(|_| {
                let file = random.pick(files);
                connection.write(file, 0, &random.bytes(self.file_bytes), Stable::FileSync).map(drop)
            })
        })?;
        Ok(time)
    }

    fn chmod(&self, filer: &Filer, files: &[&Handle]) -> Result<Duration> {
        let mode = Attributes { mode: Some(0o600), ..Attributes::default() };
        let (time, _) = self.on_shares(filer, files, |connection, file| connection.set_attributes(file, mode))?;
        Ok(time)
    }

    fn list(&self, filer: &Filer, made: &[Directory]) -> Result<Duration> {
        let (time, entries) = self.on_shares(filer, made, |connection, directory| {
            let entries = connection.list(&directory.handle)?;
            ensure!(entries == self.per_directory + 2, "{entries} entries in a directory");
            Ok(())
        })?;
        ensure!(entries == made.len(), "{entries} directories were listed");
        Ok(time)
    }

    fn look_up(&self, filer: &Filer, made: &[Directory]) -> Result<Duration> {
        let (time, _) = self.on_shares(filer, made, |connection, directory| {
            (0_u64..).zip(&directory.files).try_for_each(|(item, file)| {
                let found = connection.lookup(&directory.handle, &load::file_name(item))?;
                ensure!(found == *file, "LOOKUP finds another file");
                Ok(())
            })
        })?;
        Ok(time)
    }

    /// In the order in which they were made: a backup, or a search through all of them.
    fn read(&self, filer: &Filer, files: &[&Handle]) -> Result<Duration> {
        let (time, _) = self.on_shares(filer, files, |connection, file| {
            connection.send_read(file, 0, u32::try_from(self.file_bytes)?)?;
            let bytes = connection.receive_read()?;
            ensure!(bytes == self.file_bytes, "READ gives {bytes} bytes");
            Ok(())
        })?;
        Ok(time)
    }

    /// Each connection does its share of the items, in order. Gives the time, and how many were done.
    fn on_shares<T: Sync>(
        &self,
        filer: &Filer,
        items: &[T],
        act: impl Fn(&mut Connection, &T) -> Result<()> + Sync,
    ) -> Result<(Duration, usize)> {
        let share = items.len().div_ceil(self.connections);
        let (time, done) = load::at_once(filer.target("tank").nfs, self.connections, |index, connection| {
            let own = items.iter().skip(index * share).take(share);
            own.map(|item| act(connection, item)).collect::<Result<Vec<()>>>().map(|done| done.len())
        })?;
        Ok((time, done.into_iter().sum()))
    }
}

const MAKE: &str = "files made";
const OVERWRITE: &str = "cold random overwrites";
const CHMOD: &str = "chmod of every file";
const LIST: &str = "cold READDIRPLUS of every directory";
const LOOKUP: &str = "cold LOOKUP of every file";
const READ: &str = "cold READ of every file";

fn restart(filer: &mut Filer) -> Result<()> {
    filer.stop()?;
    filer.start().map(drop)
}

/// Does one phase, and notes what it cost until the pool is quiet again. Gives the highest resident memory.
fn watch(
    filer: &Filer,
    figures: &mut Figures,
    name: &str,
    items: u64,
    work: &mut dyn FnMut() -> Result<Duration>,
) -> Result<u64> {
    let before = filer.quiet()?;
    // What an earlier phase needed is no matter here.
    filer.take_memory_peak()?;
    let time = work()?;
    let after = filer.quiet()?;
    let memory = filer.take_memory_peak()?;
    let per_item = |field: fn(&Status) -> u64| (field(&after) - field(&before)) as f64 / items as f64;
    figures.add(&format!("{name}: rate"), "files/s", items as f64 / time.as_secs_f64());
    figures.add(&format!("{name}: resident memory at most"), "MiB", (memory >> 20) as f64);
    figures.add(&format!("{name}: pool bytes written per file"), "B", per_item(|status| status.io.write_bytes));
    figures.add(&format!("{name}: pool bytes read per file"), "B", per_item(|status| status.io.read_bytes));
    figures.add(&format!("{name}: log bytes per file"), "B", per_item(|status| status.lanes(|lane| lane.bytes)));
    Ok(memory)
}
