//! A candidate for a log device, measured: durable writes one behind the other, as the log makes them, and some at a
//! time.
//!
//! Nothing that anybody may need is overwritten. In a directory a file is made, and removed afterwards. A block device
//! is opened exclusively, which the kernel refuses while it is mounted or part of something, and only if it is blank:
//! its first and last mebibyte must be zeroes; what was written is zeroed again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tally_disk::{Access, AlignedBuf, Disk, Durability, Opener};

use super::latency::{Device, Samples};
use crate::control::message::Progress;

/// Bytes that are written in turn, like the log's ring.
const AREA_BYTES: u64 = 64 << 20;
/// Where blankness is looked for, at both ends.
const LOOK_BYTES: u64 = 1 << 20;
/// Lengths of frames that are measured.
const LENGTHS: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Writes of each length, unless the time is over before.
const WRITES_MAX: usize = 1_000;
/// The least of them, however long they take, of the shortest length.
const WRITES_MIN: usize = 20;
const TIME_MAX: Duration = Duration::from_millis(1_500);
/// Writes at a time that are tried, of the shortest length.
const DEPTHS: [usize; 3] = [2, 4, 8];
/// The name of the file that is made in a directory.
const FILE_NAME: &str = ".tally-advise";

/// Why a candidate was not measured.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum CandidateError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{} holds data, and nothing of it is overwritten.\nName a directory on the device, where a file can be made; or, if \
         the data is of no use any more, wipe the device first (`wipefs -a`, `blkdiscard -z`).",
        path.display()
    )]
    InUse { path: PathBuf },
    #[error(
        "{} is a file. Name the directory that it is in: a file of {} is made there and removed again.",
        path.display(),
        tally_base::Size(AREA_BYTES)
    )]
    File { path: PathBuf },
    #[error("{} has {size} bytes; {AREA_BYTES} are needed", path.display())]
    Small { path: PathBuf, size: u64 },
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// One write at a time.
    pub device: Device,
    /// Several at a time: how many, and how many there were in a second.
    pub depths: Vec<(usize, f64)>,
}

/// A place that can be written to.
struct Place {
    disk: Arc<dyn Disk>,
    /// Whether it is to be zeroes again.
    is_device: bool,
}

/// Measures the candidate at `path`.
pub fn measure(
    path: &Path,
    opener: &dyn Opener,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Measured, CandidateError> {
    let failed = |source| CandidateError::Io { path: path.into(), source };
    let metadata = std::fs::metadata(path).map_err(failed)?;
    let place = if metadata.is_file() {
        return Err(CandidateError::File { path: path.into() });
    } else if metadata.is_dir() {
        Place::in_directory(path, opener, progress).map_err(failed)?
    } else {
        Place::of_device(path, opener.open(path, Access::Exclusive).map_err(failed)?)?
    };
    let measured = place.measure(&mut |done, total| {
        progress(&Progress { what: format!("measuring {}", path.display()), done, total });
    });
    // Whatever came of it.
    place.close().map_err(failed)?;
    measured.map_err(failed)
}

impl Place {
    /// A file without a name: it is gone when nobody has it open any more, however that comes about.
    fn in_directory(directory: &Path, opener: &dyn Opener, progress: &mut dyn FnMut(&Progress)) -> io::Result<Self> {
        let file = directory.join(format!("{FILE_NAME}.{}", std::process::id()));
        opener.create(&file, AREA_BYTES, true, &mut |done| {
            progress(&Progress { what: format!("writing {}", file.display()), done, total: AREA_BYTES });
            true
        })?;
        let disk = opener.open(&file, Access::Exclusive);
        std::fs::remove_file(&file)?;
        Ok(Self { disk: disk?, is_device: false })
    }

    /// A blank device, as far as that can be seen.
    fn of_device(path: &Path, disk: Arc<dyn Disk>) -> Result<Self, CandidateError> {
        let failed = |source| CandidateError::Io { path: path.into(), source };
        let size = disk.geometry().size;
        if size < AREA_BYTES {
            return Err(CandidateError::Small { path: path.into(), size });
        }
        let place = Self { disk, is_device: true };
        // Both ends, where labels are, and all that is to be written over.
        let looked = (0..AREA_BYTES).step_by(LOOK_BYTES as usize).chain([size - LOOK_BYTES]);
        for offset in looked {
            if !place.is_blank(offset).map_err(failed)? {
                return Err(CandidateError::InUse { path: path.into() });
            }
        }
        Ok(place)
    }

    fn measure(&self, step: &mut dyn FnMut(u64, u64)) -> io::Result<Measured> {
        let total = (LENGTHS.len() + DEPTHS.len()) as u64;
        let (mut samples, mut depths) = (Vec::new(), Vec::new());
        for (done, length) in LENGTHS.into_iter().enumerate() {
            step(done as u64, total);
            samples.push(one_at_a_time(&*self.disk, length, if done == 0 { WRITES_MIN } else { 3 })?);
        }
        for (done, depth) in DEPTHS.into_iter().enumerate() {
            step((LENGTHS.len() + done) as u64, total);
            depths.push((depth, at_a_time(&self.disk, depth)?));
        }
        Ok(Measured { device: Device::new(samples), depths })
    }

    fn is_blank(&self, offset: u64) -> io::Result<bool> {
        let mut buf = buffer(LOOK_BYTES as usize, 1);
        self.disk.read(offset, &mut buf)?;
        Ok(buf.iter().all(|byte| *byte == 0))
    }

    /// Leaves everything as it was.
    fn close(self) -> io::Result<()> {
        if self.is_device {
            let zeroes = buffer(LOOK_BYTES as usize, 0);
            for offset in (0..AREA_BYTES).step_by(LOOK_BYTES as usize) {
                self.disk.write(offset, &zeroes, Durability::Cached)?;
            }
            self.disk.flush()?;
        }
        Ok(())
    }
}

/// Something that no device makes small: the multiples of a large odd number. Zeroes for `seed` 0.
fn buffer(length: usize, seed: u64) -> AlignedBuf {
    let mut buf = AlignedBuf::with_capacity(length);
    for word in 0..(length as u64 / 8) {
        buf.extend_from_slice(&(word + 1).wrapping_mul(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes());
    }
    buf
}

fn one_at_a_time(disk: &dyn Disk, length: usize, least: usize) -> io::Result<Samples> {
    let (began, mut ns) = (Instant::now(), Vec::new());
    for count in 0..WRITES_MAX {
        if count >= least && began.elapsed() > TIME_MAX {
            break;
        }
        let buf = buffer(length, count as u64 + 1);
        let offset = (count as u64 * length as u64) % AREA_BYTES;
        let start = Instant::now();
        disk.write(offset, &buf, Durability::Durable)?;
        ns.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(Samples::new(length as u64, ns))
}

/// Writes per second of so many threads.
fn at_a_time(disk: &Arc<dyn Disk>, depth: usize) -> io::Result<f64> {
    let began = Instant::now();
    let threads: Vec<_> = (0..depth as u64)
        .map(|thread| {
            let disk = Arc::clone(disk);
            std::thread::spawn(move || {
                let (buf, own) = (buffer(LENGTHS[0], thread + 1), AREA_BYTES / depth as u64);
                let mut count = 0;
                while count < 3 || began.elapsed() < TIME_MAX / 3 {
                    let offset = thread * own + (count * LENGTHS[0] as u64) % own;
                    disk.write(offset / 4096 * 4096, &buf, Durability::Durable)?;
                    count += 1;
                }
                io::Result::Ok(count)
            })
        })
        .collect();
    let mut written = 0;
    for thread in threads {
        written += thread.join().map_err(|_| io::Error::other("a thread that measured panicked"))??;
    }
    #[allow(clippy::cast_precision_loss)]
    let rate = written as f64 / began.elapsed().as_secs_f64();
    Ok(rate)
}

#[cfg(test)]
mod tests;
