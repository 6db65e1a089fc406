//! What FSINFO's wtmax should be. A Linux client sends a file that fits into one WRITE as one FILE_SYNC WRITE, and a
//! longer one as UNSTABLE WRITEs and a COMMIT; so wtmax decides which files go which way. Every file size is
//! written for every wtmax, and what counts is the time of a file and the bytes that disks had to write for it.

use anyhow::Result;
use clap::Args;
use tally_bench::random::Random;
use tally_bench::wire::{Connection, Handle, Stable, random_u32};

use crate::Site;
use crate::figures::Figures;
use crate::filer::{Binaries, Filer, Setup, Status};
use crate::load;

const KIB: usize = 1 << 10;
/// Sizes of files, and values of wtmax.
const SIZES: [usize; 5] = [64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, 1024 * KIB];
/// WRITEs that are under way at once before the COMMIT.
const DEPTH: usize = 16;

/// What `wtmax` takes.
#[derive(Args)]
pub struct WtMax {
    #[command(flatten)]
    site: Site,
    /// Connections, each with its own thread.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// MiB written for each pair of file size and wtmax in each run.
    #[arg(long, default_value_t = 128)]
    mebibytes: u64,
}

impl WtMax {
    /// Runs all pairs, one after the other, several times.
    pub fn run(&self) -> Result<()> {
        let pairs = (SIZES.len() * (SIZES.len() + 1) / 2) as u64;
        // Nothing is removed in between, which would be measured too.
        let pool_bytes = (2 << 30) + pairs * self.site.runs as u64 * (self.mebibytes << 20) * 5 / 4;
        let setup = Setup { pool_bytes, ..Setup::default() };
        let filer = Filer::make(&Binaries::build()?, setup, &self.site.folder()?)?;
        let mut figures = Figures::default();
        let mut before = filer.quiet()?;
        for _ in 0..self.site.runs {
            for size in SIZES {
                // A wtmax above the size of the file changes nothing.
                for wtmax in SIZES.into_iter().filter(|wtmax| *wtmax <= size) {
                    before = self.pair(&filer, &before, (size, wtmax), &mut figures)?;
                }
            }
        }
        figures.finish(&format!("wtmax x{}", self.connections))?;
        for what in ["files", "log", "pool"] {
            print_table(&figures, what);
        }
        Ok(())
    }

    /// Writes files of one size for one wtmax; gives the counters when all is in the pool.
    fn pair(
        &self,
        filer: &Filer,
        before: &Status,
        (size, wtmax): (usize, usize),
        figures: &mut Figures,
    ) -> Result<Status> {
        let target = filer.target("tank");
        let root = Connection::mount(&target)?;
        let folder = Connection::open(target.nfs)?.mkdir(&root, &format!("wtmax-{:08x}", random_u32()?))?;
        let files = (self.mebibytes << 20) / size as u64 / self.connections as u64;
        let seed = random_u32()?.into();
        let (elapsed, _) = load::at_once(target.nfs, self.connections, |index, connection| {
            let data = Random::new(seed, index as u64).bytes(size);
            (0..files).try_for_each(|file| {
                let file = connection.create(&folder, &format!("f{index}-{file}"))?;
                write_file(connection, &file, &data, wtmax)
            })
        })?;
        let after = filer.quiet()?;
        let files = files * self.connections as u64;
        let written = files as f64 * size as f64;
        let bytes = |status: &Status| (status.lanes(|lane| lane.bytes), status.io.write_bytes);
        let per_byte = |now: u64, then: u64| (now - then) as f64 / written;
        figures.add(&name(size, wtmax, "files"), "files/s", files as f64 / elapsed.as_secs_f64());
        figures.add(&name(size, wtmax, "log"), "", per_byte(bytes(&after).0, bytes(before).0));
        figures.add(&name(size, wtmax, "pool"), "", per_byte(bytes(&after).1, bytes(before).1));
        Ok(after)
    }
}

/// A table as it stands in `docs/benchmarks.md`: a line for each file size, a column for each wtmax.
fn print_table(figures: &Figures, what: &str) {
    let heading = match what {
        "log" => "bytes to the log per byte of file",
        "pool" => "bytes to the pool per byte of file",
        _ => "files/s",
    };
    let cells = |cell: &dyn Fn(usize) -> String| SIZES.map(cell).join(" | ");
    println!("\n| {heading} | {} |", cells(&|wtmax| format!("wtmax {} KiB", wtmax / KIB)));
    println!("|---|{}", "---:|".repeat(SIZES.len()));
    for size in SIZES {
        // From the file's own size on, wtmax makes no difference any more.
        let line = cells(&|wtmax| match wtmax <= size {
            true => figures.spread(&name(size, wtmax, what)).unwrap_or_default(),
            false => "as left".to_owned(),
        });
        println!("| {} KiB | {line} |", size / KIB);
    }
}

fn write_file(connection: &mut Connection, file: &Handle, data: &[u8], wtmax: usize) -> Result<()> {
    if data.len() <= wtmax {
        return connection.write(file, 0, data, Stable::FileSync).map(drop);
    }
    let mut under_way = 0;
    for (index, piece) in data.chunks(wtmax).enumerate() {
        if under_way == DEPTH {
            connection.receive_write(wtmax, Stable::Unstable)?;
            under_way -= 1;
        }
        connection.send_write(file, (index * wtmax) as u64, piece, Stable::Unstable)?;
        under_way += 1;
    }
    for _ in 0..under_way {
        connection.receive_write(wtmax, Stable::Unstable)?;
    }
    connection.commit(file).map(drop)
}

fn name(size: usize, wtmax: usize, what: &str) -> String {
    let how = if size <= wtmax {
        "one FILE_SYNC WRITE".to_owned()
    } else {
        format!("{} UNSTABLE WRITEs of {} KiB and COMMIT", size / wtmax, wtmax / KIB)
    };
    let size = size / KIB;
    match what {
        "log" => format!("file of {size} KiB, {how}: log bytes per byte"),
        "pool" => format!("file of {size} KiB, {how}: pool bytes per byte"),
        _ => format!("file of {size} KiB, {how}"),
    }
}
