//! A server at work for half an hour: six clients make, overwrite, read, rename and remove files of a byte to 4 MiB, and
//! check what they read. What creeps shows here and nowhere else: memory and descriptors that grow, groups that are closed
//! for somebody who waits instead of by time or room, and requests that take ever longer. An error of any request ends it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use hdrhistogram::Histogram;
use serde::Serialize;
use tally_base::Size;
use tally_bench::random::Random;
use tally_bench::wire::{Connection, Handle, Stable, Target, random_u32};

use crate::figures::short;
use crate::filer::{Binaries, Filer, POOL, POOL_FILE, Setup, Status, slowness};
use crate::load::{PIECE_BYTES, file_name, joined, pieces};
use crate::{prepared, report};

/// What `soak` takes.
#[derive(Args)]
pub struct Soak {
    /// For how long.
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Clients at once.
    #[arg(long, default_value_t = 6)]
    clients: usize,
    /// A data disk that takes so many milliseconds for whatever it is asked, beside a log on this machine's disk.
    #[arg(long)]
    delay_ms: Option<u64>,
    /// Another build of `tally` instead of this tree's, with its `tally-slow` beside it.
    #[arg(long)]
    binary: Option<std::path::PathBuf>,
    /// Repeats what clients do, though not when.
    #[arg(long)]
    seed: Option<u64>,
    /// Where the pool is made; a folder on a disk [default: target/bench]
    #[arg(long)]
    folder: Option<std::path::PathBuf>,
}

/// How often the server is looked at.
const INTERVAL: Duration = Duration::from_secs(10);
/// Until then caches fill and the allocator gets what it will need.
const SETTLED: Duration = Duration::from_secs(300);
/// Files of each client.
const FILES_MAX: usize = 200;
/// Doublings from a byte to 4 MiB, each as frequent as any other.
const DOUBLINGS: usize = 22;
/// Half of the contents up to so much are one FILE_SYNC WRITE, as Linux sends them; all others a COMMIT makes stable.
const SYNC_BYTES_MAX: usize = PIECE_BYTES;

/// What was seen in one interval.
#[derive(Clone, Copy, Debug, Serialize)]
struct Sample {
    seconds: f64,
    requests_per_second: f64,
    groups_per_second: f64,
    p99_ms: f64,
    longest_ms: f64,
    resident_bytes: f64,
    descriptors: f64,
}

impl Soak {
    /// Runs it, and says what crept.
    pub fn run(&self) -> Result<()> {
        ensure!(self.clients > 0 && self.minutes > 0.0, "nobody, or no time");
        let binaries = self.binary.as_deref().map_or_else(Binaries::build, Binaries::other)?;
        let slowness = self.delay_ms.map(|delay_ms| slowness("--queued", POOL_FILE, delay_ms)).unwrap_or_default();
        let setup = Setup { slowness, ..Setup::default() };
        let filer = Filer::make(&binaries, setup, &prepared(self.folder.as_deref())?)?;
        let seed = self.seed.map_or_else(|| random_u32().map(u64::from), Ok)?;
        println!("seed {seed}");
        let (done, taken) = (AtomicBool::new(false), Mutex::new(Histogram::new(3)?));
        let target = filer.target(POOL);
        let samples = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..self.clients)
                .map(|number| {
                    let (target, taken, done) = (&target, &taken, &done);
                    scope.spawn(move || {
                        let worked = Client::new(target, seed, number, taken).and_then(|client| client.work(done));
                        // The others have nothing more to find out.
                        done.store(true, Ordering::Relaxed);
                        worked.with_context(|| format!("client {number}"))
                    })
                })
                .collect();
            let samples = self.watch(&filer, &taken, &done);
            done.store(true, Ordering::Relaxed);
            for client in clients {
                joined(client.join())?;
            }
            samples
        })?;
        self.tell(&samples);
        println!("groups by why they were closed: {}", causes(&filer.status()?));
        report::save("soak", &samples)
    }

    fn watch(&self, filer: &Filer, taken: &Mutex<Histogram<u64>>, done: &AtomicBool) -> Result<Vec<Sample>> {
        let (started, mut samples) = (Instant::now(), Vec::new());
        let (mut before, mut since) = (filer.status()?, Instant::now());
        while started.elapsed().as_secs_f64() < self.minutes * 60.0 && !done.load(Ordering::Relaxed) {
            std::thread::sleep(INTERVAL);
            let (status, elapsed) = (filer.status()?, since.elapsed().as_secs_f64());
            since = Instant::now();
            let fresh = Histogram::new(3)?;
            let latency_ns = std::mem::replace(&mut *taken.lock().unwrap_or_else(PoisonError::into_inner), fresh);
            let milliseconds = |quantile| latency_ns.value_at_quantile(quantile) as f64 / 1e6;
            let sample = Sample {
                seconds: started.elapsed().as_secs_f64(),
                requests_per_second: latency_ns.len() as f64 / elapsed,
                groups_per_second: (status.txg_open - before.txg_open) as f64 / elapsed,
                p99_ms: milliseconds(0.99),
                longest_ms: milliseconds(1.0),
                resident_bytes: filer.resident_bytes()? as f64,
                descriptors: filer.descriptors()? as f64,
            };
            eprintln!("  {}", sample.line());
            samples.push(sample);
            before = status;
        }
        Ok(samples)
    }

    fn tell(&self, samples: &[Sample]) {
        let settled = SETTLED.as_secs_f64().min(self.minutes * 30.0);
        println!(
            "\n| {} minutes, {} clients | median | highest | end over start, once settled |",
            self.minutes, self.clients
        );
        println!("|---|---:|---:|---:|");
        type Column = (&'static str, fn(&Sample) -> f64);
        let columns: [Column; 6] = [
            ("requests a second", |sample| sample.requests_per_second),
            ("groups a second", |sample| sample.groups_per_second),
            ("p99 of a request, ms", |sample| sample.p99_ms),
            ("longest request, ms", |sample| sample.longest_ms),
            ("memory, MiB", |sample| sample.resident_bytes / f64::from(1 << 20)),
            ("descriptors", |sample| sample.descriptors),
        ];
        for (name, of) in columns {
            let values: Vec<f64> = samples.iter().map(of).collect();
            let later: Vec<f64> = samples.iter().filter(|sample| sample.seconds > settled).map(of).collect();
            let (median, highest) = (report::median(values.clone()), report::spread(&values).1);
            println!("| {name} | {} | {} | {} |", short(median), short(highest), short(growth(&later)));
        }
        println!("errors: 0; settled after {settled:.0} s");
    }
}

impl Sample {
    fn line(&self) -> String {
        format!(
            "{:.0} s: {:.0} requests/s, {} groups/s, p99 {} ms, longest {} ms, {}, {} descriptors",
            self.seconds,
            self.requests_per_second,
            short(self.groups_per_second),
            short(self.p99_ms),
            short(self.longest_ms),
            Size(self.resident_bytes as u64),
            self.descriptors
        )
    }
}

/// The causes that occurred, with their counts.
fn causes(status: &Status) -> String {
    let told = status.txg_causes.iter().filter(|(_, groups)| **groups > 0);
    told.map(|(cause, groups)| format!("{groups} {cause}")).collect::<Vec<_>>().join(", ")
}

/// The median of the last tenth over that of the first: 1 for what stays as it is.
fn growth(values: &[f64]) -> f64 {
    let tenth = values.len().div_ceil(10);
    report::median(values[values.len() - tenth..].to_vec()) / report::median(values[..tenth].to_vec())
}

/// A file, and what is in it: noise of that seed.
struct File {
    name: u64,
    handle: Handle,
    seed: u64,
    bytes: usize,
}

impl File {
    fn content(&self) -> Vec<u8> {
        Random::new(self.seed, 0).bytes(self.bytes)
    }
}

/// What a client may do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Create,
    Overwrite,
    Read,
    Rename,
    Remove,
}

impl Deed {
    /// Most clients read and write more than they make and remove; what is made is removed in the end.
    fn draw(random: &mut Random, files: usize) -> Self {
        match random.below(100) {
            _ if files == 0 => Self::Create,
            0..25 if files >= FILES_MAX => Self::Remove,
            0..25 => Self::Create,
            25..50 => Self::Overwrite,
            50..75 => Self::Read,
            75..85 => Self::Rename,
            _ => Self::Remove,
        }
    }
}

/// A size from one byte to 4 MiB.
fn draw_bytes(random: &mut Random) -> usize {
    let from = 1 << random.below(DOUBLINGS);
    from + random.below(from + 1)
}

/// One client, alone in its folder.
struct Client<'a> {
    connection: Connection,
    folder: Handle,
    random: Random,
    files: Vec<File>,
    made: u64,
    taken: &'a Mutex<Histogram<u64>>,
}

impl<'a> Client<'a> {
    fn new(target: &Target, seed: u64, number: usize, taken: &'a Mutex<Histogram<u64>>) -> Result<Self> {
        let root = Connection::mount(target)?;
        let mut connection = Connection::open(target.nfs)?;
        let folder = connection.mkdir(&root, &format!("client-{number}"))?;
        let random = Random::new(seed, number as u64 + 1);
        Ok(Self { connection, folder, random, files: Vec::new(), made: 0, taken })
    }

    fn work(mut self, done: &AtomicBool) -> Result<()> {
        while !done.load(Ordering::Relaxed) {
            let deed = Deed::draw(&mut self.random, self.files.len());
            let at = self.random.below(self.files.len().max(1));
            self.act(deed, at).with_context(|| format!("{deed:?}, {} files made before it", self.made))?;
        }
        Ok(())
    }

    fn act(&mut self, deed: Deed, at: usize) -> Result<()> {
        match deed {
            Deed::Create => {
                let (name, folder) = (self.next_name(), self.folder.clone());
                let handle = self.timed(|connection| connection.create(&folder, &file_name(name)))?;
                let bytes = draw_bytes(&mut self.random);
                let file = File { name, handle, seed: name, bytes };
                self.write(&file)?;
                self.files.push(file);
            }
            Deed::Overwrite => {
                let mut file = self.files.swap_remove(at);
                file.seed = self.next_name();
                self.write(&file)?;
                self.files.push(file);
            }
            Deed::Read => {
                let file = self.files.swap_remove(at);
                let content = file.content();
                for (offset, piece) in pieces(&content) {
                    let count = u32::try_from(piece.len())?;
                    let data = self.timed(|connection| connection.read(&file.handle, offset, count))?;
                    ensure!(data == piece, "what was read is not what was written: {} at {offset}", file.name);
                }
                self.files.push(file);
            }
            Deed::Rename => {
                let (new, folder, old) = (self.next_name(), self.folder.clone(), self.files[at].name);
                self.timed(|connection| connection.rename((&folder, &file_name(old)), (&folder, &file_name(new))))?;
                self.files[at].name = new;
            }
            Deed::Remove => {
                let (folder, name) = (self.folder.clone(), self.files.swap_remove(at).name);
                self.timed(|connection| connection.remove(&folder, &file_name(name)))?;
            }
        }
        Ok(())
    }

    /// Writes all of a file's content, stable in the end.
    fn write(&mut self, file: &File) -> Result<()> {
        let content = file.content();
        let in_one = content.len() <= SYNC_BYTES_MAX && self.random.below(2) == 0;
        let stable = if in_one { Stable::FileSync } else { Stable::Unstable };
        let mut verifiers = Vec::new();
        for (offset, piece) in pieces(&content) {
            verifiers.push(self.timed(|connection| connection.write(&file.handle, offset, piece, stable))?.verifier);
        }
        if stable == Stable::Unstable {
            let verifier = self.timed(|connection| connection.commit(&file.handle))?;
            ensure!(verifiers.iter().all(|before| *before == verifier), "the server says that it may have lost data");
        }
        Ok(())
    }

    fn timed<T>(&mut self, request: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let started = Instant::now();
        let answer = request(&mut self.connection)?;
        let taken_ns = u64::try_from(started.elapsed().as_nanos())?;
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).record(taken_ns)?;
        Ok(answer)
    }

    fn next_name(&mut self) -> u64 {
        self.made += 1;
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_go_from_a_byte_to_four_mebibytes() {
        let mut random = Random::new(1, 0);
        let sizes: Vec<usize> = (0..20_000).map(|_| draw_bytes(&mut random)).collect();
        assert!(sizes.iter().all(|bytes| (1..=4 << 20).contains(bytes)) && sizes.contains(&1));
        let above = |bytes: usize| sizes.iter().filter(|size| **size > bytes).count() as f64 / sizes.len() as f64;
        // 22 doublings: the last two lie above 1 MiB, eleven above 2 KiB.
        assert!((above(1 << 20) - 2.0 / 22.0).abs() < 0.01 && (above(2048) - 0.5).abs() < 0.01);
    }

    #[test]
    fn a_client_has_files_and_never_more_than_it_may() {
        let (mut random, mut files, mut deeds) = (Random::new(1, 0), 0, Vec::new());
        for _ in 0..20_000 {
            let deed = Deed::draw(&mut random, files);
            match deed {
                Deed::Create => files += 1,
                Deed::Remove => files -= 1,
                _ => {}
            }
            assert!(files <= FILES_MAX);
            deeds.push(deed);
        }
        for deed in [Deed::Create, Deed::Overwrite, Deed::Read, Deed::Rename, Deed::Remove] {
            assert!(deeds.iter().filter(|done| **done == deed).count() > 1000, "{deed:?}");
        }
    }

    #[test]
    fn what_creeps_is_seen() {
        assert!((growth(&[5.0; 30]) - 1.0).abs() < 1e-9);
        let creeping: Vec<f64> = (0..100).map(|minute| 100.0 + f64::from(minute)).collect();
        assert!((growth(&creeping) - 194.5 / 104.5).abs() < 1e-9);
        assert!(growth(&[]).is_nan());
    }
}
