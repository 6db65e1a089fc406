//! Cold READs: of files in order, as clients send them that read a file from beginning to end, and at random; and
//! whether what is read again and again stays in memory while much more streams by. A server knows nothing before the
//! first READ of a run: it was started for it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use tally_base::Size;
use tally_bench::random::Random;
use tally_bench::wire::{Connection, Handle, Target, random_u32};

use crate::Site;
use crate::figures::Figures;
use crate::filer::{Binaries, POOL_FILE, Setup, slowness};
use crate::load::{at_once, write_stream};
use crate::report;
use crate::rivals::{Rival, Rivals, in_turns, key, print_ratios};

/// What `cold` takes.
#[derive(Args)]
pub struct Cold {
    #[command(flatten)]
    site: Site,
    #[command(flatten)]
    rivals: Rivals,
    /// Where; `hot` is what stays in memory, on this machine's disk.
    #[arg(long, value_delimiter = ',', default_value = "slow,turning,ssd,hot")]
    places: Vec<Place>,
    /// Bytes that are read in order from this machine's disk, MiB.
    #[arg(long, default_value_t = 512)]
    mebibytes: u64,
    /// The same from the slow disks.
    #[arg(long, default_value_t = 256)]
    slow_mebibytes: u64,
    /// READs at random from this machine's disk; an eighth of them from the slow ones.
    #[arg(long, default_value_t = 2000)]
    random_reads: u64,
    /// Time of the slow disks for a READ, milliseconds.
    #[arg(long, default_value_t = 8)]
    delay_ms: u64,
    /// Cache of the server that reads from this machine's disk, MiB, instead of what it takes by itself. Where much more
    /// is read than that, its memory is used again, as in a server that runs for long.
    #[arg(long)]
    ssd_cache_mebibytes: Option<u64>,
    /// Cache of the server whose hot set is looked at, MiB.
    #[arg(long, default_value_t = 128)]
    cache_mebibytes: u64,
}

/// Where the cold bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Place {
    /// A disk that takes its time for whatever it is asked, ten things at once.
    Slow,
    /// A disk that takes its time once for whatever it is asked, however long that is, one thing after the other.
    Turning,
    /// This machine's disk.
    Ssd,
    /// This machine's disk and a small cache.
    Hot,
}

/// How a file is read.
#[derive(Clone, Copy, Debug)]
struct Shape {
    bytes: usize,
    under_way: usize,
    streams: usize,
    order: Order,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Ascending,
    Random,
}

const RECORD: usize = 128 << 10;
const MIB: usize = 1 << 20;
/// Files that are read at once where several are.
const STREAMS: usize = 16;

const SHAPES_SLOW: [Shape; 5] =
    [in_order(RECORD, 1, 1), in_order(MIB, 1, 1), in_order(RECORD, 1, STREAMS), at_random(4096), at_random(RECORD)];
const SHAPES_SSD: [Shape; 7] = [
    in_order(RECORD, 1, 1),
    in_order(RECORD, 8, 1),
    in_order(MIB, 1, 1),
    in_order(MIB, 4, 1),
    in_order(RECORD, 1, STREAMS),
    at_random(4096),
    at_random(RECORD),
];

const fn in_order(bytes: usize, under_way: usize, streams: usize) -> Shape {
    Shape { bytes, under_way, streams, order: Order::Ascending }
}

const fn at_random(bytes: usize) -> Shape {
    Shape { bytes, under_way: 1, streams: 1, order: Order::Random }
}

impl Shape {
    fn title(&self) -> String {
        let Self { bytes, under_way, streams, order } = *self;
        let pace = if under_way == 1 { "one by one".to_owned() } else { format!("{under_way} in flight") };
        let order = if order == Order::Random { "at random, " } else { "" };
        let streams = if streams == 1 { String::new() } else { format!("{streams} streams, ") };
        format!("{streams}{order}{}, {pace}", Size(bytes as u64))
    }

    /// Where READs of one stream begin, in a file of so many bytes.
    fn offsets(&self, file_bytes: u64, random_reads: u64, seed: u64) -> Vec<u64> {
        let places = file_bytes / self.bytes as u64;
        let mut random = Random::new(seed, 0);
        let place = |number| match self.order {
            Order::Ascending => number,
            Order::Random => random.below(places as usize) as u64,
        };
        let count = if self.order == Order::Random { random_reads } else { places };
        (0..count).map(place).map(|place| place * self.bytes as u64).collect()
    }
}

const RATE: &str = "MB/s";
const DEVICE: &str = "device bytes per byte asked";
const HITS: &str = "hit share of a hot set of half the cache";

impl Place {
    fn title(self, cold: &Cold) -> String {
        match self {
            Self::Slow => format!("disk of {} ms", cold.delay_ms),
            Self::Turning => format!("disk of {} ms, one at a time", cold.delay_ms),
            Self::Ssd => match cold.ssd_cache_mebibytes {
                None => "quick disk".to_owned(),
                Some(mebibytes) => format!("quick disk, cache of {mebibytes} MiB"),
            },
            Self::Hot => format!("quick disk, cache of {} MiB", cold.cache_mebibytes),
        }
    }

    fn setup(self, cold: &Cold) -> Setup {
        let slow = |rule| Setup { slowness: slowness(rule, POOL_FILE, cold.delay_ms), ..Setup::default() };
        let with_cache = |mebibytes| Setup { configuration: format!("cache = \"{mebibytes}M\"\n"), ..Setup::default() };
        match self {
            Self::Slow => slow("--queued"),
            Self::Turning => slow("--turning"),
            Self::Ssd => cold.ssd_cache_mebibytes.map_or_else(Setup::default, with_cache),
            Self::Hot => with_cache(cold.cache_mebibytes),
        }
    }

    fn shapes(self) -> &'static [Shape] {
        match self {
            Self::Slow | Self::Turning => &SHAPES_SLOW,
            Self::Ssd => &SHAPES_SSD,
            Self::Hot => &[],
        }
    }
}

impl Cold {
    /// Runs all places, by turns and each time on a server that was just started.
    pub fn run(&self) -> Result<()> {
        ensure!(self.slow_mebibytes >= STREAMS as u64 && self.mebibytes >= STREAMS as u64, "less than a MiB a stream");
        let binaries = Binaries::build()?;
        let folder = self.site.folder()?;
        let mut figures = Figures::default();
        for place in &self.places {
            let mut rivals = self.rivals.start(&binaries, &place.setup(self), &folder)?;
            let names: Vec<_> = rivals.iter().map(|rival| rival.name).collect();
            let rows = match place {
                Place::Hot => self.hot(&mut rivals, &mut figures)?,
                _ => self.shapes(*place, &mut rivals, &mut figures)?,
            };
            print(&figures, &rows, &names);
        }
        report::save("cold", &figures)
    }

    fn shapes(&self, place: Place, rivals: &mut [Rival], figures: &mut Figures) -> Result<Vec<String>> {
        let (mebibytes, random_reads) = match place {
            Place::Slow | Place::Turning => (self.slow_mebibytes, self.random_reads / 8),
            _ => (self.mebibytes, self.random_reads),
        };
        let files: Vec<Files> = rivals.iter().map(|rival| Files::write(rival, mebibytes)).collect::<Result<_>>()?;
        let row = |shape: &Shape| format!("{}: {}", place.title(self), shape.title());
        for run in 0..self.site.runs {
            for shape in place.shapes() {
                for turn in in_turns(rivals.len(), run) {
                    let rival = &mut rivals[turn];
                    rival.cool()?;
                    let before = rival.status()?;
                    let (bytes, elapsed) = files[turn].read(&rival.target(), shape, random_reads)?;
                    figures.add(&key(&row(shape), rival.name, RATE), RATE, bytes as f64 / 1e6 / elapsed.as_secs_f64());
                    if let (Some(before), Some(after)) = (before, rival.status()?) {
                        let device = after.io.read_bytes - before.io.read_bytes;
                        figures.add(&key(&row(shape), rival.name, DEVICE), "", device as f64 / bytes as f64);
                    }
                }
            }
        }
        Ok(place.shapes().iter().map(row).collect())
    }

    /// The share of a hot set's records that need no disk while ten times the cache streams by.
    fn hot(&self, rivals: &mut [Rival], figures: &mut Figures) -> Result<Vec<String>> {
        let (hot, stream) = (self.cache_mebibytes / 2, self.cache_mebibytes * 10);
        let write = |rival: &Rival| {
            let target = rival.target();
            let files = (write_stream(&target, hot)?.0, write_stream(&target, stream)?.0);
            rival.write_all_out()?;
            Ok(files)
        };
        let files: Vec<(Handle, Handle)> = rivals.iter().map(write).collect::<Result<_>>()?;
        let row = |piece: usize| {
            format!("{} beside {stream} MiB in {}", Place::Hot.title(self), in_order(piece, 1, 1).title())
        };
        for run in 0..self.site.runs {
            for piece in STREAMED {
                for turn in in_turns(rivals.len(), run) {
                    let (rival, (hot_file, stream_file)) = (&mut rivals[turn], &files[turn]);
                    rival.cool()?;
                    let mut connection = Connection::open(rival.target().nfs)?;
                    let random = Random::new(random_u32()?.into(), 0);
                    let mut hot = Hot { connection: &mut connection, file: hot_file, bytes: hot << 20, random };
                    hot.warm()?;
                    let before = rival.status()?;
                    let started = Instant::now();
                    hot.beside(stream_file, stream << 20, piece)?;
                    // Of each there was as much.
                    let (asked, elapsed) = (stream << 20, started.elapsed());
                    let key = |what| key(&row(piece), rival.name, what);
                    figures.add(&key(RATE), RATE, 2.0 * asked as f64 / 1e6 / elapsed.as_secs_f64());
                    if let (Some(before), Some(after)) = (before, rival.status()?) {
                        // The stream was never read before, so it is of the disk, and whatever is beyond it was missed.
                        let missed = (after.io.read_bytes - before.io.read_bytes).saturating_sub(asked);
                        figures.add(&key(HITS), "", 1.0 - missed as f64 / asked as f64);
                    }
                }
            }
        }
        Ok(STREAMED.map(row).into())
    }
}

/// READs in which the stream goes by that a hot set has to outlive: of one record, and of several that a server fetches at
/// once and then finds in its cache, as if somebody had read them before.
const STREAMED: [usize; 2] = [RECORD, MIB];

/// One client that reads some records again and again.
struct Hot<'a> {
    connection: &'a mut Connection,
    file: &'a Handle,
    bytes: u64,
    random: Random,
}

impl Hot<'_> {
    /// Reads all of it, twice.
    fn warm(&mut self) -> Result<()> {
        for offset in (0..2 * self.bytes).step_by(RECORD) {
            self.connection.read(self.file, offset % self.bytes, RECORD as u32)?;
        }
        Ok(())
    }

    /// Reads another file in order, and between as many bytes of its own at random: each record is read twice in the time
    /// in which as much as the cache holds goes by.
    fn beside(&mut self, stream: &Handle, stream_bytes: u64, piece: usize) -> Result<()> {
        for offset in (0..stream_bytes).step_by(piece) {
            self.connection.read(stream, offset, u32::try_from(piece)?)?;
            for _ in 0..piece / RECORD {
                let record = self.random.below(usize::try_from(self.bytes)? / RECORD);
                self.connection.read(self.file, (record * RECORD) as u64, RECORD as u32)?;
            }
        }
        Ok(())
    }
}

/// What is read of one server: a long file, and many that are together as long.
struct Files {
    long: Handle,
    many: Vec<Handle>,
    mebibytes: u64,
}

impl Files {
    fn write(rival: &Rival, mebibytes: u64) -> Result<Self> {
        let target = rival.target();
        let long = write_stream(&target, mebibytes)?.0;
        let many = (0..STREAMS).map(|_| Ok(write_stream(&target, mebibytes / STREAMS as u64)?.0));
        let many = many.collect::<Result<_>>()?;
        rival.write_all_out()?;
        Ok(Self { long, many, mebibytes })
    }

    /// Bytes that came, and the time that they took.
    fn read(&self, target: &Target, shape: &Shape, random_reads: u64) -> Result<(u64, Duration)> {
        let files = if shape.streams == 1 { std::slice::from_ref(&self.long) } else { &self.many };
        let file_bytes = (self.mebibytes / files.len() as u64) << 20;
        let seed = random_u32()?.into();
        let (elapsed, bytes) = at_once(target.nfs, files.len(), |stream, connection| {
            read(connection, &files[stream], &shape.offsets(file_bytes, random_reads, seed), shape)
        })?;
        Ok((bytes.iter().sum(), elapsed))
    }
}

fn read(connection: &mut Connection, file: &Handle, offsets: &[u64], shape: &Shape) -> Result<u64> {
    let (mut sent, mut bytes) = (0, 0);
    for received in 0..offsets.len() {
        while sent < offsets.len() && sent - received < shape.under_way {
            connection.send_read(file, offsets[sent], u32::try_from(shape.bytes)?)?;
            sent += 1;
        }
        bytes += connection.receive_read()?;
    }
    ensure!(bytes == offsets.len() * shape.bytes, "{bytes} bytes came of {} READs of {}", offsets.len(), shape.bytes);
    Ok(bytes as u64)
}

fn print(figures: &Figures, rows: &[String], rivals: &[&str]) {
    for rival in rivals {
        println!("\n| {rival} | MB/s | device bytes per byte asked | hit share |\n|---|---:|---:|---:|");
        for row in rows {
            let cell = |what| figures.spread(&key(row, rival, what)).unwrap_or_default();
            println!("| {row} | {} | {} | {} |", cell(RATE), figures.median(&key(row, rival, DEVICE)), cell(HITS));
        }
    }
    print_ratios(figures, rows, rivals, RATE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_is_all_of_a_file_and_at_random_is_as_much_as_was_asked() {
        assert_eq!(in_order(RECORD, 8, 1).offsets(1 << 20, 9, 1), (0..8).map(|n| n << 17).collect::<Vec<u64>>());
        let random = at_random(4096).offsets(1 << 20, 1000, 1);
        assert!(random.len() == 1000 && random.iter().all(|offset| offset % 4096 == 0 && *offset < 1 << 20));
        let places: std::collections::BTreeSet<_> = random.iter().collect();
        assert!(places.len() > 200, "{} of 256 places", places.len());
    }

    #[test]
    fn shapes_say_what_they_are() {
        let titles = [in_order(MIB, 4, 1), in_order(RECORD, 1, STREAMS), at_random(4096)].map(|shape| shape.title());
        assert_eq!(titles, ["1M, 4 in flight", "16 streams, 128K, one by one", "at random, 4K, one by one"]);
    }
}
