//! Disks that write down what they are told: network block devices in memory with one recording for all.
//!
//! One lock orders everything. A disk takes it, carries a request out, adds it to the recording, and answers only
//! then; so does a mark. Disks have a cache as far as the kernel knows, and take FUA: it tells them exactly what it
//! wants to be durable and when.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;

use super::entry::SECTOR;
use super::write::Writer;
use crate::nbd::{self, Action, Request, Status};

/// Name of the socket that takes marks, a line each, and answers each with an empty line.
const MARKS: &str = "marks";

/// The disks, as the command line describes them.
#[derive(Args)]
pub struct Options {
    /// The recording; made anew.
    recording: PathBuf,
    /// The folder of the Unix sockets: one for each disk, by its name, and `marks`.
    #[arg(long)]
    sockets: PathBuf,
    /// A disk; may be repeated.
    #[arg(long, required = true, value_name = "NAME=MIB")]
    disk: Vec<Size>,
}

/// A disk's name and size.
#[derive(Clone, Debug)]
struct Size {
    name: String,
    bytes: usize,
}

impl FromStr for Size {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, mebibytes) = text.split_once('=').context("a disk is NAME=MIB")?;
        let bytes = mebibytes.parse::<usize>()?.checked_mul(1 << 20).context("too large a disk")?;
        Ok(Self { name: name.to_owned(), bytes })
    }
}

/// Serves until the process is ended.
pub fn run(options: &Options) -> Result<()> {
    let shelf = Shelf::new(&options.recording, &options.disk)?;
    for (index, size) in options.disk.iter().enumerate() {
        let listener = listen(&options.sockets, &size.name)?;
        let shelf = Arc::clone(&shelf);
        std::thread::spawn(move || serve(&listener, |client| shelf.disk(index, client)));
    }
    serve(&listen(&options.sockets, MARKS)?, |client| shelf.marks(client));
    Ok(())
}

fn listen(folder: &Path, name: &str) -> Result<UnixListener> {
    let path = folder.join(name);
    UnixListener::bind(&path).with_context(|| format!("cannot listen on {}", path.display()))
}

/// One client after the other.
fn serve(listener: &UnixListener, mut client: impl FnMut(UnixStream) -> Result<()>) {
    for stream in listener.incoming() {
        if let Err(error) = stream.map_err(Into::into).and_then(&mut client) {
            eprintln!("record-disks: a client was dropped: {error:#}");
        }
    }
}

/// All disks and their recording.
struct Shelf(Mutex<State>);

struct State {
    recording: Writer,
    disks: Vec<Memory>,
}

struct Memory {
    bytes: Vec<u8>,
    /// Its first sector in the recording.
    first: u64,
}

impl Shelf {
    fn new(recording: &Path, sizes: &[Size]) -> Result<Arc<Self>> {
        let mut recording = Writer::create(recording)?;
        let mut disks: Vec<Memory> = Vec::new();
        let mut first = 0;
        for size in sizes {
            let sectors = (size.bytes / SECTOR) as u64;
            recording.mark(&format!("disk:{}:{first}:{sectors}", size.name))?;
            disks.push(Memory { bytes: vec![0; size.bytes], first });
            first += sectors;
        }
        Ok(Arc::new(Self(Mutex::new(State { recording, disks }))))
    }

    fn disk(&self, index: usize, mut client: UnixStream) -> Result<()> {
        let size = self.with(|state| state.disks[index].bytes.len() as u64)?;
        if !nbd::greet(&mut client, size, true)? {
            return Ok(());
        }
        while let Some(request) = Request::read(&mut client)? {
            let (status, data) = self.with(|state| state.perform(index, &request.action))??;
            request.answer(&mut client, status, &data)?;
        }
        Ok(())
    }

    fn marks(&self, client: UnixStream) -> Result<()> {
        let mut answers = client.try_clone()?;
        for line in BufReader::new(client).lines() {
            let line = line?;
            self.with(|state| state.recording.mark(&line))??;
            answers.write_all(b"\n")?;
        }
        Ok(())
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> Result<T> {
        // After a panic nobody knows what the recording says.
        self.0.lock().map(|mut state| work(&mut state)).map_err(|_| anyhow!("another client's thread panicked"))
    }
}

impl State {
    /// An error is the end of the recording; what a client asks wrongly is only refused.
    fn perform(&mut self, index: usize, action: &Action) -> Result<(Status, Vec<u8>)> {
        let disk = &mut self.disks[index];
        match action {
            Action::Read { offset, length } => match part(&mut disk.bytes, *offset, u64::from(*length)) {
                Some(bytes) => Ok((Status::Done, bytes.to_vec())),
                None => Ok((Status::Invalid, Vec::new())),
            },
            Action::Write { offset, data, through } => {
                let sector = offset / SECTOR as u64;
                let Some(bytes) = part(&mut disk.bytes, *offset, data.len() as u64) else {
                    return Ok((Status::Invalid, Vec::new()));
                };
                ensure!(offset.is_multiple_of(SECTOR as u64), "a write at {offset}, within a sector");
                bytes.copy_from_slice(data);
                self.recording.write(disk.first + sector, data, *through)?;
                Ok((Status::Done, Vec::new()))
            }
            Action::Flush => {
                self.recording.flush(disk.first)?;
                Ok((Status::Done, Vec::new()))
            }
            Action::Other => Ok((Status::Invalid, Vec::new())),
        }
    }
}

fn part(bytes: &mut [u8], offset: u64, length: u64) -> Option<&mut [u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    bytes.get_mut(start..end)
}

#[cfg(test)]
mod tests;
