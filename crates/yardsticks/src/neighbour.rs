//! How long others wait while one client writes a byte into each of many records: nearly no dirty memory, and a whole
//! record to read and to write for each (docs/design/0017).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use tally_bench::wire::{Connection, Handle, Stable, Target, random_u32};

use crate::Site;
use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, POOL, Setup};
use crate::load::{file_name, joined, write_stream};

/// Bytes of a record, unless the dataset says otherwise.
const RECORD_BYTES: u64 = 128 << 10;
const MIB: usize = 1 << 20;

/// What `neighbour` takes.
#[derive(Args)]
pub struct Neighbour {
    #[command(flatten)]
    site: Site,
    /// Records that get a byte each.
    #[arg(long, default_value_t = 32_768)]
    records: u64,
}

const CREATE: &str = "the longest CREATE beside bytes into many records";
const COMMIT: &str = "the longest WRITE of 1 MiB with COMMIT beside them";

impl Neighbour {
    /// Runs it on a new pool each time.
    pub fn run(&self) -> Result<()> {
        let binaries = Binaries::build()?;
        let mut figures = Figures::default();
        for _ in 0..self.site.runs {
            let pool_bytes = 4 * self.records * RECORD_BYTES;
            let setup = Setup { pool_bytes, sparse: true, ..Setup::default() };
            let filer = Filer::make(&binaries, setup, &self.site.folder()?)?;
            let target = filer.target(POOL);
            let (file, _) = write_stream(&target, (self.records * RECORD_BYTES) >> 20)?;
            filer.quiet()?;
            self.beside(&target, &file, &mut figures)?;
        }
        figures.finish("neighbour")?;
        figures.row("bench neighbour", CREATE, Bar::AtMost(1.0));
        figures.row("bench neighbour", COMMIT, Bar::AtMost(1.0));
        Ok(())
    }

    fn beside(&self, target: &Target, file: &Handle, figures: &mut Figures) -> Result<()> {
        let root = Connection::mount(target)?;
        let folder = Connection::open(target.nfs)?.mkdir(&root, &format!("beside-{:08x}", random_u32()?))?;
        let done = AtomicBool::new(false);
        let still = || !done.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            let creates = scope.spawn(|| {
                longest(target, still, |connection, number| connection.create(&folder, &file_name(number)).map(drop))
            });
            let commits = scope.spawn(|| {
                let place = Connection::open(target.nfs)?.create(&folder, "committed")?;
                longest(target, still, |connection, number| {
                    let offset = number % 64 * MIB as u64;
                    connection.write(&place, offset, &vec![number as u8; MIB], Stable::Unstable)?;
                    connection.commit(&place).map(drop)
                })
            });
            let started = Instant::now();
            let scattered = self.scatter(target, file);
            // The groups that carry it out come behind the last reply.
            std::thread::sleep(Duration::from_secs(15));
            done.store(true, Ordering::Relaxed);
            scattered?;
            figures.add("bytes into many records, and 15 s", "s", started.elapsed().as_secs_f64());
            for (what, waits) in [(CREATE, creates), (COMMIT, commits)] {
                let longest = joined(waits.join())?;
                figures.add(what, "s", longest.as_secs_f64());
            }
            Ok(())
        })
    }

    fn scatter(&self, target: &Target, file: &Handle) -> Result<()> {
        let mut connection = Connection::open(target.nfs)?;
        (0..self.records).try_for_each(|record| {
            connection.write(file, record * RECORD_BYTES + record % 1000, &[record as u8], Stable::Unstable).map(drop)
        })
    }
}

/// The longest that one of these requests took, sent one after the other.
fn longest(
    target: &Target,
    still: impl Fn() -> bool,
    mut request: impl FnMut(&mut Connection, u64) -> Result<()>,
) -> Result<Duration> {
    let mut connection = Connection::open(target.nfs)?;
    let mut longest = Duration::ZERO;
    let mut number = 0;
    while still() {
        let started = Instant::now();
        request(&mut connection, number)?;
        longest = longest.max(started.elapsed());
        number += 1;
    }
    Ok(longest)
}
