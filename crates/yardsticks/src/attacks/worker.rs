//! The good client: one request after the other, and how long each took.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use tally_bench::wire::{Connection, Handle, Stable, Target, random_u32};

use super::{AT_ONCE, SLOWER_MAX};

const MIB: usize = 1 << 20;
/// WRITEs go round in so many megabytes.
const FILE_MIB: u64 = 32;
/// Of its requests one in so many is a WRITE.
const WRITE_PART: u64 = 4;

/// In its folder, with so many levels of directories below: twice what a directory moves (docs/design/0024).
pub(super) const TOP: &str = "top";
const LEVELS: usize = 4096;

/// The priority of the good client's thread, as nice(2) counts it.
const FIRST_IN_TURN: i32 = -15;

/// A client with a folder of its own.
pub(super) struct Worker {
    connection: Connection,
    root: Handle,
    folder: Handle,
    file: Handle,
    deepest: Handle,
    number: u64,
}

impl Worker {
    pub(super) fn begin(target: &Target) -> Result<Self> {
        let root = Connection::mount(target)?;
        let mut connection = Connection::open(target.nfs)?;
        let folder = connection.mkdir(&root, &format!("good-{:08x}", random_u32()?))?;
        let file = connection.create(&folder, "written")?;
        for at in 0..FILE_MIB {
            connection.write(&file, at * MIB as u64, &vec![at as u8; MIB], Stable::Unstable)?;
        }
        connection.commit(&file)?;
        // A directory is made for everybody.
        connection.send_mode(&folder.0, 0o700)?;
        connection.receive_status()?;
        let mut deepest = folder.clone();
        for name in [TOP].into_iter().chain((1..LEVELS).map(|_| "below")) {
            deepest = connection.mkdir(&deepest, name)?;
        }
        Ok(Self { connection, root, folder, file, deepest, number: 0 })
    }

    /// Of the pool's root, its file, its folder and what is deepest below that.
    pub(super) fn handles(&self) -> [&Handle; 4] {
        [&self.root, &self.file, &self.folder, &self.deepest]
    }

    fn work_once(&mut self, data: &[u8], times: &mut Times) -> Result<()> {
        self.number += 1;
        let (connection, number) = (&mut self.connection, self.number);
        let (folder, file) = (&self.folder, &self.file);
        times.getattr.take(|| {
            connection.send_getattr(&file.0)?;
            connection.receive_status().map(drop)
        })?;
        times.create.take(|| connection.create(folder, &format!("file-{number}")).map(drop))?;
        if number.is_multiple_of(WRITE_PART) {
            let offset = number / WRITE_PART % FILE_MIB * MIB as u64;
            times.write.take(|| connection.write(file, offset, data, Stable::Unstable).map(drop))?;
        }
        Ok(())
    }
}

/// The good client has a machine of its own as well: where it may, its thread waits for nobody's processor here, so
/// that what is measured is the server's.
pub(super) fn first_in_turn() {
    // Without the right to it, it waits for its turn.
    let _ = rustix::process::nice(FIRST_IN_TURN);
}

/// Works for so long, in turns, so that both meet the same machine.
pub(super) fn work(both: &mut [Worker; 2], time: Duration) -> Result<[Times; 2]> {
    let mut times = [Times::default(), Times::default()];
    let data = vec![7; MIB];
    let began = Instant::now();
    while began.elapsed() < time {
        for (worker, times) in both.iter_mut().zip(&mut times) {
            worker.work_once(&data, times)?;
        }
    }
    Ok(times)
}

/// How long requests took, by kind.
#[derive(Clone, Default)]
pub(super) struct Times {
    getattr: Series,
    create: Series,
    write: Series,
}

#[derive(Clone, Default)]
struct Series(Vec<Duration>);

impl Series {
    fn take(&mut self, request: impl FnOnce() -> Result<()>) -> Result<()> {
        let began = Instant::now();
        request()?;
        self.0.push(began.elapsed());
        Ok(())
    }

    fn quantile(&self, part: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * part) as usize;
        sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    fn is_like(&self, others: &[&Self]) -> bool {
        let slowest = others.iter().map(|other| other.quantile(0.99)).max().unwrap_or_default();
        self.quantile(0.99) <= slowest.mul_f64(SLOWER_MAX).max(AT_ONCE)
    }
}

impl Times {
    /// Whether nobody would notice, who knows the slower of the others.
    pub(super) fn is_like(&self, others: &[&Self]) -> bool {
        let series: [fn(&Self) -> &Series; 3] = [|times| &times.getattr, |times| &times.create, |times| &times.write];
        series.iter().all(|of| of(self).is_like(&others.iter().map(|other| of(other)).collect::<Vec<_>>()))
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, series) in [("GETATTR", &self.getattr), ("CREATE", &self.create), ("WRITE", &self.write)] {
            let [p50, p99] = [0.5, 0.99].map(|part| series.quantile(part).as_secs_f64() * 1000.0);
            write!(f, " {name} {p50:7.2} {p99:7.2}")?;
        }
        f.write_str(" ms")
    }
}
