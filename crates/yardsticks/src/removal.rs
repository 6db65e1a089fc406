//! Ten million files go, and another client makes small ones beside it (docs/design/0017, 0010): one by one, as `rm -r` of a lone
//! client takes them away, and all at once, with the dataset in which they are. How long each small file takes beside either,
//! against as long before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use tally_bench::wire::{Connection, Handle};

use crate::Site;
use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, POOL, Setup};
use crate::limits::Limits;
use crate::load::{self, file_name, joined, make_small_files};

/// What `removal` takes.
#[derive(Args)]
pub struct Removal {
    #[command(flatten)]
    site: Site,
    #[command(flatten)]
    limits: Limits,
    /// Files that there are at first; empty ones.
    #[arg(long, default_value_t = 10_000_000)]
    files: u64,
    /// Files in one directory.
    #[arg(long, default_value_t = 1000)]
    per_directory: u64,
    /// How long small files are made before, beside the client that removes, once for each `sync`, and beside the dataset that goes, seconds.
    #[arg(long, default_value_t = 40)]
    seconds: u64,
}

/// Connections that make the files.
const MAKERS: usize = 16;
/// The dataset with the files that go.
const OLD: &str = "tank/old";
/// Nothing there waits for the log: so the files are made, or they would not be today, and so most are removed in a second.
const DISABLED: &str = "sync=disabled";
/// What a dataset has unless somebody says otherwise.
const STANDARD: &str = "sync=standard";

const BEFORE: &str = "CREATE and WRITE of 4 KiB, p99 before";
const BESIDE_ANOTHER: &str = "CREATE and WRITE of 4 KiB, p99 beside another client that makes them";
const BESIDE_REMOVES: &str = "CREATE and WRITE of 4 KiB, p99 beside rm -r with sync=standard";
const BESIDE_DISABLED: &str = "CREATE and WRITE of 4 KiB, p99 beside rm -r with sync=disabled";
const BESIDE_DESTROY: &str = "CREATE and WRITE of 4 KiB, p99 beside the dataset that goes";
const RATIO_ANOTHER: &str = "p99 beside another client that makes them, against before";
const RATIO_AS_ANOTHER: &str = "p99 beside rm -r with sync=standard, against beside another client that makes them";
const RATIO_REMOVES: &str = "p99 beside rm -r with sync=standard, against before";
const RATIO_DISABLED: &str = "p99 beside rm -r with sync=disabled, against before";
const RATIO_DESTROY: &str = "p99 beside the dataset that goes, against before";
const LONGEST: &str = "the longest beside any";
const REMOVED: &str = "files that rm -r removed, a second";
const REMOVED_DISABLED: &str = "files that rm -r removed with sync=disabled, a second";
const FREED: &str = "until the dataset has given back its space";

impl Removal {
    /// Makes the files once, and runs it on a copy of that pool each time.
    pub fn run(&self) -> Result<()> {
        ensure!(self.files / self.per_directory >= MAKERS as u64, "fewer directories than the {MAKERS} that make them");
        let binaries = Binaries::build()?;
        let mut figures = Figures::default();
        let (pool_bytes, configuration) = ((8 << 30) + self.files * 2048, self.limits.configuration());
        let setup = Setup { configuration, pool_bytes, sparse: true, ..Setup::default() };
        let mut filer = Filer::make(&binaries, setup, &self.site.folder()?)?;
        filer.command(&["dataset", "create", "-o", DISABLED, OLD])?;
        let directories = self.make(&filer)?;
        filer.keep_disks()?;
        for _ in 0..self.site.runs {
            filer.go_back()?;
            self.measure(&filer, directories.clone(), &mut figures)?;
        }
        figures.add_ratios(RATIO_ANOTHER, BESIDE_ANOTHER, BEFORE);
        figures.add_ratios(RATIO_AS_ANOTHER, BESIDE_REMOVES, BESIDE_ANOTHER);
        figures.add_ratios(RATIO_REMOVES, BESIDE_REMOVES, BEFORE);
        figures.add_ratios(RATIO_DISABLED, BESIDE_DISABLED, BEFORE);
        figures.add_ratios(RATIO_DESTROY, BESIDE_DESTROY, BEFORE);
        figures.finish("removal")?;
        for ratio in [RATIO_AS_ANOTHER, RATIO_DESTROY] {
            figures.row("bench removal", ratio, Bar::AtMost(2.0));
        }
        for what in [RATIO_ANOTHER, RATIO_REMOVES, RATIO_DISABLED, LONGEST, REMOVED, REMOVED_DISABLED, FREED] {
            figures.row("bench removal", what, Bar::Stated);
        }
        self.limits.row(&figures, "bench removal");
        Ok(())
    }

    fn measure(&self, filer: &Filer, mut directories: Vec<Handle>, figures: &mut Figures) -> Result<()> {
        let target = filer.target(POOL);
        let root = Connection::mount(&target)?;
        let mut connection = Connection::open(target.nfs)?;
        let seconds = Duration::from_secs(self.seconds);
        let mut small_files = |name: &str| {
            let folder = connection.mkdir(&root, name)?;
            make_small_files(&mut connection, &folder, seconds)
        };
        let before = small_files("before")?;
        filer.take_memory_peak()?;

        let mut beside = |name: &str, other: &mut (dyn FnMut(&AtomicBool) -> Result<u64> + Send)| {
            let over = AtomicBool::new(false);
            let beside = std::thread::scope(|scope| {
                let other = scope.spawn(|| other(&over));
                let made = small_files(name);
                over.store(true, Ordering::Relaxed);
                anyhow::Ok((made?, joined(other.join())?))
            })?;
            filer.write_all_out()?;
            anyhow::Ok(beside)
        };
        let (another, _) = beside("another", &mut |_| self.make_as_well(filer))?;
        let mut beside_rm = |sync: &str| {
            filer.command(&["dataset", "set", sync, OLD])?;
            beside(sync, &mut |over| self.remove_until(filer, &mut directories, over))
        };
        let (standard, removed) = beside_rm(STANDARD)?;
        let (disabled, removed_disabled) = beside_rm(DISABLED)?;

        let started = Instant::now();
        filer.command(&["dataset", "destroy", OLD])?;
        let destroy = small_files("beside destroy")?;
        filer.quiet()?;
        let freed = started.elapsed();
        self.limits.add_peak(figures, filer.take_memory_peak()?);

        let ms = |ns: u64| Duration::from_nanos(ns).as_secs_f64() * 1000.0;
        figures.add(BEFORE, "ms", ms(before.value_at_quantile(0.99)));
        figures.add(BESIDE_ANOTHER, "ms", ms(another.value_at_quantile(0.99)));
        figures.add(BESIDE_REMOVES, "ms", ms(standard.value_at_quantile(0.99)));
        figures.add(BESIDE_DISABLED, "ms", ms(disabled.value_at_quantile(0.99)));
        figures.add(BESIDE_DESTROY, "ms", ms(destroy.value_at_quantile(0.99)));
        let longest = [another, standard, disabled, destroy].iter().map(|times| times.max()).max();
        figures.add(LONGEST, "ms", ms(longest.unwrap_or_default()));
        figures.add(REMOVED, "1/s", removed as f64 / self.seconds as f64);
        figures.add(REMOVED_DISABLED, "1/s", removed_disabled as f64 / self.seconds as f64);
        figures.add(FREED, "s", freed.as_secs_f64());
        Ok(())
    }

    /// The directories, each with its files.
    fn make(&self, filer: &Filer) -> Result<Vec<Handle>> {
        let target = filer.target(OLD);
        let root = Connection::mount(&target)?;
        let count = self.files / self.per_directory;
        let (time, directories) = load::at_once(target.nfs, MAKERS, |index, connection| {
            let make = |number: u64, connection: &mut Connection| {
                let directory = connection.mkdir(&root, &format!("d{number:07}"))?;
                for item in 0..self.per_directory {
                    connection.create(&directory, &file_name(item))?;
                }
                anyhow::Ok(directory)
            };
            (0..count).skip(index).step_by(MAKERS).map(|number| make(number, connection)).collect::<Result<Vec<_>>>()
        })?;
        eprintln!("  {} files made in {time:.0?}", count * self.per_directory);
        Ok(directories.into_iter().flatten().collect())
    }

    /// Makes small files as the client does whose times count, for as long. Gives how many.
    fn make_as_well(&self, filer: &Filer) -> Result<u64> {
        let target = filer.target(POOL);
        let (root, mut connection) = (Connection::mount(&target)?, Connection::open(target.nfs)?);
        let folder = connection.mkdir(&root, "by another")?;
        Ok(make_small_files(&mut connection, &folder, Duration::from_secs(self.seconds))?.len())
    }

    /// Removes files, directory by directory, on one connection. Gives how many.
    fn remove_until(&self, filer: &Filer, directories: &mut Vec<Handle>, over: &AtomicBool) -> Result<u64> {
        let mut connection = Connection::open(filer.target(OLD).nfs)?;
        let mut removed = 0;
        while let Some(directory) = directories.pop() {
            for item in 0..self.per_directory {
                if over.load(Ordering::Relaxed) {
                    return Ok(removed);
                }
                connection.remove(&directory, &file_name(item))?;
                removed += 1;
            }
        }
        anyhow::bail!("all {removed} files were gone before the time was: take more, or less time")
    }
}
