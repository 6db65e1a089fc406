//! The loads: what a client sends, on how many connections, and how long each piece took.

use std::net::SocketAddr;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use hdrhistogram::Histogram;
use tally_bench::random::Random;
use tally_bench::wire::{Attributes, Connection, Handle, Stable, Target, random_u32};

/// Requests that a streaming client keeps under way on its connection.
const STREAM_DEPTH: usize = 8;
/// Bytes of one READ or WRITE of a long content.
pub const PIECE_BYTES: usize = 1 << 20;
/// Bytes of a small file.
pub const FILE_BYTES: usize = 4096;

/// Which requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Load {
    /// What tar as root sends for a 4 KiB file: CREATE EXCLUSIVE, SETATTR, WRITE FILE_SYNC, 3 × SETATTR.
    Untar,
    /// CREATE, WRITE UNSTABLE and COMMIT of a 4 KiB file.
    Mixed,
    /// SETATTR of one file, over and over.
    Lone,
}

impl Load {
    /// Requests that each item needs, of which all but an UNSTABLE write are durable.
    pub fn requests_per_item(self) -> u64 {
        match self {
            Self::Untar => 6,
            Self::Mixed => 3,
            Self::Lone => 1,
        }
    }

    /// What one item is, for the report.
    pub fn item(self) -> &'static str {
        match self {
            Self::Untar | Self::Mixed => "files",
            Self::Lone => "requests",
        }
    }
}

/// What a run brought.
pub struct Measured {
    /// What was done of the load's items.
    pub items: u64,
    /// From the first request to the last reply.
    pub elapsed: Duration,
    /// Time of one item, nanoseconds.
    pub latency_ns: Histogram<u64>,
}

impl Measured {
    /// Items a second, over all of the time.
    pub fn rate(&self) -> f64 {
        self.items as f64 / self.elapsed.as_secs_f64()
    }
}

/// Runs `items` of a load, spread evenly over `connections`, each with its own thread and folder.
pub fn run(target: &Target, load: Load, connections: usize, items: u64) -> Result<Measured> {
    ensure!(connections > 0 && items >= connections as u64, "fewer items than connections");
    let root = Connection::mount(target)?;
    let folder = Connection::open(target.nfs)?.mkdir(&root, &format!("bench-{:08x}", random_u32()?))?;
    let each = items / connections as u64;
    let barrier = Arc::new(Barrier::new(connections + 1));
    let workers: Vec<_> = (0..connections)
        .map(|index| {
            let (address, folder, barrier) = (target.nfs, folder.clone(), Arc::clone(&barrier));
            std::thread::spawn(move || worker(address, &folder, load, index, each, &barrier))
        })
        .collect();
    barrier.wait();
    let started = Instant::now();
    let mut latency_ns = Histogram::new(3)?;
    for worker in workers {
        let one = joined(worker.join())?;
        latency_ns.add(one)?;
    }
    Ok(Measured { items: each * connections as u64, elapsed: started.elapsed(), latency_ns })
}

/// Does `work` on several connections at once, each with its own thread. Gives the time from the common start to
/// the last end, and what each brought.
pub fn at_once<T: Send>(
    address: SocketAddr,
    connections: usize,
    work: impl Fn(usize, &mut Connection) -> Result<T> + Sync,
) -> Result<(Duration, Vec<T>)> {
    let barrier = Barrier::new(connections + 1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..connections)
            .map(|index| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    // Whatever fails before the start must still reach the barrier.
                    let connection = Connection::open(address);
                    barrier.wait();
                    work(index, &mut connection?).with_context(|| format!("connection {index}"))
                })
            })
            .collect();
        barrier.wait();
        let started = Instant::now();
        let mut brought = Vec::new();
        for worker in workers {
            brought.push(joined(worker.join())?);
        }
        Ok((started.elapsed(), brought))
    })
}

fn worker(
    address: SocketAddr,
    folder: &Handle,
    load: Load,
    index: usize,
    items: u64,
    barrier: &Barrier,
) -> Result<Histogram<u64>> {
    // Whatever fails before the start must still reach the barrier, or the others would wait for ever.
    let prepared = Client::prepare(address, folder, load, index);
    barrier.wait();
    let mut client = prepared?;
    let mut latency_ns = Histogram::new(3)?;
    for item in 0..items {
        let started = Instant::now();
        client.step(load, item).with_context(|| format!("connection {index}, item {item}"))?;
        latency_ns.record(u64::try_from(started.elapsed().as_nanos())?)?;
    }
    Ok(latency_ns)
}

struct Client {
    connection: Connection,
    /// Where new files go; for the lone load, the file itself.
    place: Handle,
    random: Random,
}

impl Client {
    fn prepare(address: SocketAddr, folder: &Handle, load: Load, index: usize) -> Result<Self> {
        let mut connection = Connection::open(address)?;
        let place = connection.mkdir(folder, &format!("client-{index}"))?;
        let place = if load == Load::Lone { connection.create(&place, "lone")? } else { place };
        Ok(Self { connection, place, random: Random::new(random_u32()?.into(), index as u64) })
    }

    fn step(&mut self, load: Load, item: u64) -> Result<()> {
        let Self { connection, place, random } = self;
        match load {
            Load::Untar | Load::Mixed => load.make_file(connection, place, item, &random.bytes(FILE_BYTES)).map(drop),
            Load::Lone => {
                let mode = Some(0o600 + (item % 2) as u32);
                connection.set_attributes(place, Attributes { mode, ..Attributes::default() })
            }
        }
    }
}

impl Load {
    /// Makes file number `item` with this content in a folder as this load does. The load must be one that makes files.
    pub fn make_file(self, connection: &mut Connection, folder: &Handle, item: u64, data: &[u8]) -> Result<Handle> {
        match self {
            Self::Untar => untar(connection, folder, item, data),
            Self::Mixed => {
                let file = connection.create(folder, &file_name(item))?;
                connection.write(&file, 0, data, Stable::Unstable)?;
                connection.commit(&file)?;
                Ok(file)
            }
            Self::Lone => bail!("this load makes no files"),
        }
    }
}

/// Name of file number `item`.
pub fn file_name(item: u64) -> String {
    format!("f{item:07}")
}

/// What a client's thread has come to.
pub fn joined<T>(ended: std::thread::Result<Result<T>>) -> Result<T> {
    ended.map_err(|_| anyhow::anyhow!("a client thread panicked"))?
}

/// A content that nothing can be saved of.
pub fn noise(bytes: usize) -> Result<Vec<u8>> {
    let mut data = vec![0; bytes];
    rustix::rand::getrandom(&mut data[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(data)
}

/// The READs or WRITEs of a content: where each begins, and what it carries.
pub fn pieces(data: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    data.chunks(PIECE_BYTES).enumerate().map(|(number, piece)| ((number * PIECE_BYTES) as u64, piece))
}

fn untar(connection: &mut Connection, folder: &Handle, item: u64, data: &[u8]) -> Result<Handle> {
    let set = |mode, owner, times| Attributes { mode, size: None, owner, times };
    let file = connection.create_exclusive(folder, &file_name(item), item + 1)?;
    connection.set_attributes(&file, set(Some(0o600), None, None))?;
    connection.write(&file, 0, data, Stable::FileSync)?;
    connection.set_attributes(&file, set(None, None, Some((1_700_000_000, 0))))?;
    connection.set_attributes(&file, set(None, Some((1000, 1000)), None))?;
    connection.set_attributes(&file, set(Some(0o644), None, None))?;
    Ok(file)
}

/// A lone client makes files of 4 KiB, each a CREATE and a FILE_SYNC WRITE, for so long. Gives how long each took, nanoseconds.
pub fn make_small_files(connection: &mut Connection, folder: &Handle, for_so_long: Duration) -> Result<Histogram<u64>> {
    let data = noise(FILE_BYTES)?;
    let mut times_ns = Histogram::new(3)?;
    let begun = Instant::now();
    while begun.elapsed() < for_so_long {
        let started = Instant::now();
        let file = connection.create(folder, &file_name(times_ns.len()))?;
        connection.write(&file, 0, &data, Stable::FileSync)?;
        times_ns.record(u64::try_from(started.elapsed().as_nanos())?)?;
    }
    Ok(times_ns)
}

/// Writes `mebibytes` into a new file in one stream and commits them; gives the file and the time.
pub fn write_stream(target: &Target, mebibytes: u64) -> Result<(Handle, Duration)> {
    write_pieces(target, mebibytes, noise(PIECE_BYTES)?)
}

/// As [`write_stream`], of zeros but for eight bytes of each MiB: a disk's file that is copied with its holes has no room for them.
pub fn write_zeros(target: &Target, mebibytes: u64) -> Result<(Handle, Duration)> {
    write_pieces(target, mebibytes, vec![0; PIECE_BYTES])
}

fn write_pieces(target: &Target, mebibytes: u64, mut data: Vec<u8>) -> Result<(Handle, Duration)> {
    let root = Connection::mount(target)?;
    let mut connection = Connection::open(target.nfs)?;
    let file = connection.create(&root, &format!("stream-{:08x}", random_u32()?))?;
    let started = Instant::now();
    let mut windows = 0..mebibytes;
    let mut under_way = 0;
    loop {
        while under_way < STREAM_DEPTH {
            let Some(index) = windows.next() else { break };
            data[..8].copy_from_slice(&index.to_le_bytes());
            connection.send_write(&file, index * PIECE_BYTES as u64, &data, Stable::Unstable)?;
            under_way += 1;
        }
        if under_way == 0 {
            break;
        }
        connection.receive_write(PIECE_BYTES, Stable::Unstable)?;
        under_way -= 1;
    }
    connection.commit(&file)?;
    Ok((file, started.elapsed()))
}

/// Reads a file of that length in one stream, on a new connection.
pub fn read_stream(target: &Target, file: &Handle, mebibytes: u64) -> Result<Duration> {
    let mut connection = Connection::open(target.nfs)?;
    let started = Instant::now();
    let (mut sent, mut bytes) = (0, 0);
    for received in 0..mebibytes {
        while sent < mebibytes && sent - received < STREAM_DEPTH as u64 {
            connection.send_read(file, sent * PIECE_BYTES as u64, PIECE_BYTES as u32)?;
            sent += 1;
        }
        bytes += connection.receive_read()?;
    }
    ensure!(bytes as u64 == mebibytes << 20, "{bytes} bytes came back of {mebibytes} MiB");
    Ok(started.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_of_a_content_are_all_of_it() {
        let data = vec![7; 2 * PIECE_BYTES + 5];
        let all: Vec<(u64, usize)> = pieces(&data).map(|(offset, piece)| (offset, piece.len())).collect();
        assert_eq!(all, [(0, PIECE_BYTES), (1 << 20, PIECE_BYTES), (2 << 20, 5)]);
    }
}
