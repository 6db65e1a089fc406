//! The yardstick: a loop that reads a request, makes one durable write where the request asks for durability,
//! and sends a reply of the size that a real server would send. It decodes nothing but the procedure, keeps no
//! state and stores nothing that could be found again, so that a server which keeps its promises on the same
//! machine and disk cannot be faster for a lone client; how much slower it is, is what it does with its time.
//!
//! The write goes into a file that was written out before (a durable write into an unwritten extent costs many
//! times more), with `O_DIRECT | O_DSYNC`, 4 KiB for a request without data and 8 KiB for one with 4 KiB of it:
//! what a log needs for the request and a header. Every connection has its thread, and each takes the next free
//! place, as a log would.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use rustix::fs::OFlags;
use tally_bench::wire::{NFS_PROGRAM, Procedure, Target};
use tally_disk::AlignedBuf;

/// Bytes of the file that durable writes go round in.
const FILE_BYTES: u64 = 64 << 20;
/// Longest request that is taken, bytes.
pub(super) const REQUEST_BYTES_MAX: usize = 2 << 20;
/// Where the procedure number and the credential's length stand in a call.
const PROCEDURE_AT: usize = 20;
const CREDENTIAL_LENGTH_AT: usize = 28;
/// Bytes of the handles that are given out: as long as the real server's.
const HANDLE_BYTES: usize = 48;

/// What it answers to a request of version 4, of which it decodes nothing: clients of these send the same requests over and over, in one order.
pub(crate) struct Turn {
    /// How much is written before that; `None` where nothing is promised.
    pub(crate) durable_bytes: Option<usize>,
    /// The results of a compound, as a real server has sent them.
    pub(crate) results: Vec<u8>,
}

/// A running floor; dropping it ends the listener, and its file goes away.
pub(crate) struct Floor {
    address: SocketAddr,
    path: PathBuf,
    stop: Arc<AtomicBool>,
    own_ns: Arc<Mutex<Histogram<u64>>>,
}

impl Floor {
    /// Prepares the file in `folder` and starts to listen on loopback.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        Self::in_turns(folder, Vec::new())
    }

    /// The same for version 4: each connection is answered with these, one after the other and over again.
    pub(crate) fn in_turns(folder: &Path, turns: Vec<Turn>) -> Result<Self> {
        let turns = Arc::new(turns);
        let path = folder.join("floor.log");
        let medium = Arc::new(Medium::create(&path)?);
        let own_ns = Arc::new(Mutex::new(Histogram::new(3)?));
        let own = Arc::clone(&own_ns);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), medium, own) = (stream, Arc::clone(&medium), Arc::clone(&own)) else { continue };
                let turns = Arc::clone(&turns);
                std::thread::spawn(move || serve(stream, &medium, &own, &turns));
            }
        });
        Ok(Self { address, path, stop, own_ns })
    }

    /// How a client reaches it.
    pub(crate) fn target(&self) -> Target {
        Target { nfs: self.address, mount: self.address, export: "/floor".to_owned() }
    }

    /// From the last byte of a durable request read to the reply handed to the socket, less the durable write: what the
    /// machine takes for the least that a server must do. Nanoseconds at a quantile.
    pub(crate) fn own_ns(&self, quantile: f64) -> u64 {
        self.own_ns.lock().unwrap_or_else(PoisonError::into_inner).value_at_quantile(quantile)
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the listener, so that it sees the flag; if that fails, the process is about to end anyway.
        let _ = TcpStream::connect(self.address);
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The prewritten file and the next free place in it.
pub(super) struct Medium {
    file: File,
    next: AtomicU64,
}

impl Medium {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let zeroes = AlignedBuf::zeroed(1 << 20);
        let mut plain = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        for _ in 0..FILE_BYTES >> 20 {
            plain.write_all(&zeroes)?;
        }
        plain.sync_all()?;
        let flags = (OFlags::DIRECT | OFlags::DSYNC).bits().cast_signed();
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(flags)
            .open(path)
            .with_context(|| format!("{} takes no O_DIRECT; choose a folder on a disk", path.display()))?;
        Ok(Self { file, next: AtomicU64::new(0) })
    }

    pub(super) fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        let offset = self.next.fetch_add(bytes.len() as u64, Ordering::Relaxed) % (FILE_BYTES - bytes.len() as u64);
        self.file.write_all_at(bytes, offset / 4096 * 4096)
    }
}

/// Answers one connection until it closes. An error ends it: the client reports the broken connection.
fn serve(mut stream: TcpStream, medium: &Medium, own_ns: &Mutex<Histogram<u64>>, turns: &[Turn]) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut turns = turns.iter().cycle();
    let mut request = Vec::with_capacity(1 << 16);
    let mut buffer = AlignedBuf::zeroed(8192);
    let mut reply = Vec::with_capacity(512);
    loop {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark)?;
        let length = (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize;
        ensure!((40..=REQUEST_BYTES_MAX).contains(&length), "request of {length} bytes");
        request.resize(length, 0);
        stream.read_exact(&mut request)?;
        let read_at = Instant::now();
        let mut in_the_device = None;
        let (call, turn) = (Call::of(&request), turns.next());
        let durable_bytes = turn.map_or_else(|| call.durable_bytes(), |turn| turn.durable_bytes);
        if let Some(bytes) = durable_bytes {
            buffer[..length.min(4096)].copy_from_slice(&request[..length.min(4096)]);
            let written_from = Instant::now();
            medium.write(&buffer[..bytes])?;
            in_the_device = Some(written_from.elapsed());
        }
        match turn {
            Some(turn) => call.reply_with(&turn.results, &mut reply),
            None => call.reply(&mut reply),
        }
        stream.write_all(&reply)?;
        if let Some(in_the_device) = in_the_device {
            let own = read_at.elapsed().saturating_sub(in_the_device);
            own_ns.lock().unwrap_or_else(PoisonError::into_inner).record(u64::try_from(own.as_nanos())?)?;
        }
    }
}

/// What is looked at of a request.
pub(super) struct Call {
    xid: u32,
    program: u32,
    procedure: u32,
    stable: u32,
    count: u32,
}

impl Call {
    pub(super) fn of(request: &[u8]) -> Self {
        let number = |at: usize| request.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes);
        // Behind the credential and the empty verifier: handle, then offset, count and stability of a WRITE.
        let arguments = CREDENTIAL_LENGTH_AT + 4 + number(CREDENTIAL_LENGTH_AT) as usize + 8;
        let behind_handle = arguments + 4 + (number(arguments) as usize).next_multiple_of(4);
        Self {
            xid: number(0),
            program: number(12),
            procedure: number(PROCEDURE_AT),
            count: number(behind_handle + 8),
            stable: number(behind_handle + 12),
        }
    }

    fn is(&self, procedure: Procedure) -> bool {
        self.program == NFS_PROGRAM && self.procedure == procedure as u32
    }

    /// How much is written before the reply; `None` where nothing is promised.
    pub(super) fn durable_bytes(&self) -> Option<usize> {
        if self.is(Procedure::Write) {
            return (self.stable != 0).then_some(8192);
        }
        // A COMMIT logs the 4 KiB that an unstable WRITE brought before.
        if self.is(Procedure::Commit) {
            return Some(8192);
        }
        (self.is(Procedure::SetAttr) || self.is(Procedure::Create) || self.is(Procedure::MkDir)).then_some(4096)
    }

    pub(super) fn reply(&self, reply: &mut Vec<u8>) {
        self.begin(reply);
        match self.program {
            NFS_PROGRAM if self.is(Procedure::Create) || self.is(Procedure::MkDir) => {
                numbers(reply, &[0, 1]);
                handle(reply);
                attributes(reply);
                wcc(reply);
            }
            NFS_PROGRAM => {
                numbers(reply, &[0]);
                wcc(reply);
                if self.is(Procedure::Write) {
                    numbers(reply, &[self.count, self.stable, 0, 0]);
                } else if self.is(Procedure::Commit) {
                    numbers(reply, &[0, 0]);
                }
            }
            _mount => {
                numbers(reply, &[0]);
                handle(reply);
                numbers(reply, &[1, 1]);
            }
        }
        end(reply);
    }

    fn reply_with(&self, results: &[u8], reply: &mut Vec<u8>) {
        self.begin(reply);
        reply.extend_from_slice(results);
        end(reply);
    }

    /// A reply that is accepted, as far as its results.
    fn begin(&self, reply: &mut Vec<u8>) {
        reply.clear();
        numbers(reply, &[0, self.xid, 1, 0, 0, 0, 0]);
    }
}

/// Sets the mark of the record, for which there is room at its front.
fn end(reply: &mut [u8]) {
    let length = u32::try_from(reply.len() - 4).expect("replies are a few hundred bytes");
    reply[..4].copy_from_slice(&(length | 1 << 31).to_be_bytes());
}

fn numbers(reply: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|number| reply.extend_from_slice(&number.to_be_bytes()));
}

fn handle(reply: &mut Vec<u8>) {
    reply.extend_from_slice(&(HANDLE_BYTES as u32).to_be_bytes());
    reply.resize(reply.len() + HANDLE_BYTES, 7);
}

fn attributes(reply: &mut Vec<u8>) {
    reply.extend_from_slice(&1u32.to_be_bytes());
    reply.resize(reply.len() + 84, 0);
}

fn wcc(reply: &mut Vec<u8>) {
    reply.extend_from_slice(&1u32.to_be_bytes());
    reply.resize(reply.len() + 24, 0);
    attributes(reply);
}
