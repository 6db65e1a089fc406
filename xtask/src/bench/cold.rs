//! READs of what is not cached: in order, some in flight, by one reader and by sixteen, and at random. Each run is on a
//! server that was just started, over pool files that go past the page cache; a second binary runs alternately.
//!
//! The slow disk takes its turn for each read, however long that is, and does one at a time (`tally-slow --turning`): what
//! is measured there is how many turns a stream costs.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use tally_bench::wire::{Connection, Handle, Stable, Target};

use super::Site;
use super::figures::{Bar, Figures};
use super::filer::{Binaries, Filer, POOL, POOL_FILE, Setup};

/// What `cold` takes.
#[derive(Args)]
pub(crate) struct Cold {
    #[command(flatten)]
    site: Site,
    /// What is read in order in a run, MiB; a sixteenth of it by each of sixteen readers.
    #[arg(long, default_value_t = 512)]
    mebibytes: u64,
    /// What the slow disk takes for a read, milliseconds; 0: only this disk.
    #[arg(long, default_value_t = 8)]
    turn_ms: u64,
    /// Only the slow disk.
    #[arg(long)]
    slow_only: bool,
    /// Another `tally`, on this disk only.
    #[arg(long)]
    other: Option<PathBuf>,
}

const READERS: u64 = 16;
const MIB: u64 = 1 << 20;

/// How it is read.
#[derive(Clone, Copy, Debug)]
struct Shape {
    name: &'static str,
    bytes: u32,
    in_flight: usize,
    readers: u64,
    /// So many reads at random; 0: in order.
    scattered: u64,
}

const fn in_order(name: &'static str, bytes: u32, in_flight: usize, readers: u64) -> Shape {
    Shape { name, bytes, in_flight, readers, scattered: 0 }
}

const ON_THIS_DISK: [Shape; 6] = [
    in_order("128 KiB one by one", 128 << 10, 1, 1),
    in_order("128 KiB, 8 in flight", 128 << 10, 8, 1),
    in_order("1 MiB one by one", 1 << 20, 1, 1),
    in_order("1 MiB, 4 in flight", 1 << 20, 4, 1),
    Shape { name: "4 KiB at random", bytes: 4096, in_flight: 1, readers: 1, scattered: 2000 },
    Shape { name: "128 KiB at random", bytes: 128 << 10, in_flight: 1, readers: 1, scattered: 1000 },
];

const ON_THE_SLOW_DISK: [Shape; 3] = [
    in_order("128 KiB one by one", 128 << 10, 1, 1),
    in_order("1 MiB one by one", 1 << 20, 1, 1),
    in_order("16 readers, 128 KiB one by one", 128 << 10, 1, READERS),
];

/// A server with files to read.
struct Served {
    filer: Filer,
    files: Vec<Handle>,
}

impl Cold {
    /// Runs all shapes.
    pub(crate) fn run(&self) -> Result<()> {
        let binaries = Binaries::build()?;
        let mut figures = Figures::default();
        let mut ours = self.prepare(&binaries)?;
        if !self.slow_only {
            let other = self.other.as_ref().map(|tally| -> Result<Served> {
                let tally = tally.canonicalize().with_context(|| format!("no {}", tally.display()))?;
                self.prepare(&Binaries { tally, slow: binaries.slow.clone() })
            });
            let mut other = other.transpose()?;
            for run in 0..self.site.runs {
                for shape in ON_THIS_DISK {
                    let mut both = [Some(("tally", &mut ours)), other.as_mut().map(|site| ("other", site))];
                    if run % 2 == 1 {
                        both.reverse();
                    }
                    for (who, site) in both.into_iter().flatten() {
                        self.measure(site, shape, &format!("{who}, {}", shape.name), &mut figures)?;
                    }
                }
            }
            for shape in ON_THIS_DISK.iter().filter(|_| self.other.is_some()) {
                let of = |who: &str| format!("{who}, {}", shape.name);
                figures.add_ratios(&format!("tally over other, {}", shape.name), &of("tally"), &of("other"));
            }
        }
        if self.turn_ms > 0 {
            ours.filer.become_slow(vec!["--turning".into(), format!("{POOL_FILE}={}", self.turn_ms).into()]);
            for _ in 0..self.site.runs {
                for shape in ON_THE_SLOW_DISK {
                    self.measure(&mut ours, shape, &slow(shape), &mut figures)?;
                }
            }
            let [one, _, many] = ON_THE_SLOW_DISK.map(slow);
            figures.add_ratios(RATIO, &many, &one);
        }
        figures.finish("cold")?;
        if self.turn_ms > 0 {
            figures.row("bench cold", &slow(ON_THE_SLOW_DISK[0]), Bar::AtLeast(120.0));
            figures.row("bench cold", &slow(ON_THE_SLOW_DISK[1]), Bar::AtLeast(300.0));
            figures.row("bench cold", RATIO, Bar::AtLeast(0.8));
        }
        Ok(())
    }

    fn prepare(&self, binaries: &Binaries) -> Result<Served> {
        let setup = Setup { pool_bytes: (1024 + self.mebibytes * 2) << 20, ..Setup::default() };
        let filer = Filer::make(binaries, setup, &self.site.folder()?)?;
        let target = filer.target(POOL);
        let root = Connection::mount(&target)?;
        let mut connection = Connection::open(target.nfs)?;
        let mut noise = vec![0; MIB as usize];
        let mut files = Vec::new();
        for at in 0..=READERS {
            let file = connection.create(&root, &format!("file-{at}"))?;
            let length = if at == 0 { self.mebibytes } else { self.mebibytes / READERS };
            for mebibyte in 0..length {
                rustix::rand::getrandom(&mut noise[..], rustix::rand::GetRandomFlags::empty())?;
                connection.write(&file, mebibyte * MIB, &noise, Stable::Unstable)?;
            }
            connection.commit(&file)?;
            files.push(file);
        }
        Ok(Served { filer, files })
    }

    fn measure(&self, site: &mut Served, shape: Shape, name: &str, figures: &mut Figures) -> Result<()> {
        site.filer.stop()?;
        site.filer.start()?;
        let target = &site.filer.target(POOL);
        let before = site.filer.status()?.io.read_bytes;
        let started = Instant::now();
        let files = if shape.readers == 1 { &site.files[..1] } else { &site.files[1..] };
        let length = self.mebibytes * MIB / shape.readers;
        let asked: u64 = std::thread::scope(|scope| {
            let reader = |file| scope.spawn(move || read(target, file, length, shape));
            let readers: Vec<_> = files.iter().map(reader).collect();
            let join = |reader: std::thread::ScopedJoinHandle<'_, Result<u64>>| {
                reader.join().map_err(|_| anyhow::anyhow!("a reading thread panicked"))?
            };
            readers.into_iter().map(join).sum::<Result<u64>>()
        })?;
        let seconds = started.elapsed().as_secs_f64();
        figures.add(name, "MB/s", asked as f64 / seconds / 1e6);
        if shape.scattered > 0 {
            let read = site.filer.status()?.io.read_bytes - before;
            figures.add(&format!("{name}, device bytes per byte asked for"), "", read as f64 / asked as f64);
        }
        Ok(())
    }
}

const RATIO: &str = "16 readers against one, slow disk, 128 KiB one by one";

fn slow(shape: Shape) -> String {
    format!("slow disk, {}", shape.name)
}

fn read(target: &Target, file: &Handle, length: u64, shape: Shape) -> Result<u64> {
    let mut connection = Connection::open(target.nfs)?;
    let bytes = u64::from(shape.bytes);
    let count = if shape.scattered > 0 { shape.scattered } else { length / bytes };
    let mut state = u64::from(tally_bench::wire::random_u32()?);
    let mut place = |at: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if shape.scattered > 0 { (state >> 33) % (length / bytes) * bytes } else { at * bytes }
    };
    let (mut sent, mut asked) = (0, 0);
    for received in 0..count {
        while sent < count && sent < received + shape.in_flight as u64 {
            connection.send_read(file, place(sent), shape.bytes)?;
            sent += 1;
        }
        asked += connection.receive_read()? as u64;
    }
    Ok(asked)
}
