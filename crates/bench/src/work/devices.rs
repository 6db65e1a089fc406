//! The kernel's counters of whole disks, `/sys/class/block/NAME/stat`.
//!
//! What proves durability depends on the disk's write cache (`queue/write_cache`). Without one (`write through`)
//! every completed write is durable. With one (`write back`) only a flush proves anything, or a write with FUA,
//! which `stat` does not tell from other writes: where the disk has FUA (`queue/fua`), a write alone is *unknown*, and
//! never taken as a proof.
//!
//! The kernel counts flushes for a whole disk and not for its partitions, and those of a disk that is put together
//! (device mapper, md) as writes, if at all. So a partition stands for its disk here, and a disk that is put together
//! for those it is made of.
//!
//! ```text
//! field of stat  5 writes completed | 7 sectors of 512 bytes written | 9 requests under way
//!                16 flushes completed (Linux 5.5)
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::{Watch, Work};

/// Where the kernel shows block devices.
const BLOCK: &str = "/sys/class/block";
/// Unit of the sector counts in `stat`, whatever the disk's own sector is.
const SECTOR_BYTES: u64 = 512;
/// The field that is no counter.
const UNDER_WAY: usize = 9;
/// Disks upon disks upon disks: deeper than anybody stacks them.
const DEPTH_MAX: usize = 8;

/// Disks that are watched together.
#[derive(Debug)]
pub struct Devices {
    disks: Vec<Device>,
    /// All others of this machine, as far as their counters can be read.
    others: Vec<Device>,
}

#[derive(Debug)]
struct Device {
    name: String,
    stat: PathBuf,
    cache: Cache,
}

/// What a completed write means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cache {
    /// It is durable.
    None,
    /// It is not, before a flush.
    Volatile,
    /// It may be, if it was written with FUA.
    VolatileWithFua,
}

impl Devices {
    /// Finds the disks behind device files (`/dev/sda`, `/dev/disk/by-id/…`) or names (`sda`).
    pub fn find(words: &[PathBuf]) -> Result<Self> {
        Self::find_below(Path::new(BLOCK), words)
    }

    pub(crate) fn find_below(block: &Path, words: &[PathBuf]) -> Result<Self> {
        let mut names = BTreeSet::new();
        for word in words {
            let path = word.canonicalize().unwrap_or_else(|_| word.clone());
            let name = path.file_name().with_context(|| format!("{} names no device", word.display()))?;
            let found = disks_of(&block.join(name), DEPTH_MAX);
            names.extend(found.with_context(|| format!("{} is no block device here", word.display()))?);
        }
        ensure!(!names.is_empty(), "no device is named");
        let all = std::fs::read_dir(block).into_iter().flatten().flatten();
        let all: BTreeSet<PathBuf> =
            all.filter_map(|entry| disks_of(&entry.path(), DEPTH_MAX).ok()).flatten().collect();
        let others = all.difference(&names).filter_map(|path| Device::open(path).ok());
        let others = others.filter(|disk| disk.add_to(&mut Work::default()).is_ok()).collect();
        let disks = names.iter().map(|path| Device::open(path)).collect::<Result<_>>()?;
        let mut devices = Self { disks, others };
        devices.work()?;
        Ok(devices)
    }
}

impl Watch for Devices {
    fn work(&mut self) -> Result<Work> {
        let mut work = Work::default();
        self.disks.iter().try_for_each(|disk| disk.add_to(&mut work))?;
        Ok(work)
    }

    fn elsewhere(&mut self) -> Result<Work> {
        let mut work = Work::default();
        // One that has been pulled out has nobody's log.
        self.others.retain(|disk| disk.add_to(&mut work).is_ok());
        Ok(work)
    }

    fn is_at_rest(&mut self) -> Result<bool> {
        let under_way = |disk: &Device| {
            let text = std::fs::read_to_string(&disk.stat)?;
            Ok::<_, anyhow::Error>(text.split_whitespace().nth(UNDER_WAY - 1) != Some("0"))
        };
        let busy: Vec<bool> = self.disks.iter().map(under_way).collect::<Result<_>>()?;
        Ok(!busy.contains(&true))
    }

    fn source(&self) -> String {
        let word = |disk: &Device| {
            let cache = match disk.cache {
                Cache::None => "write through",
                Cache::Volatile => "write back",
                Cache::VolatileWithFua => "write back with FUA",
            };
            format!("{} ({cache})", disk.name)
        };
        let disks: Vec<String> = self.disks.iter().map(word).collect();
        format!("the kernel's counters of {}", disks.join(", "))
    }
}

impl Device {
    fn open(folder: &Path) -> Result<Self> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let read = |file: &str| {
            let path = folder.join("queue").join(file);
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        // Kernels that do not tell about FUA have it no less.
        let fua = read("fua").map_or(true, |text| text.trim() != "0");
        let cache = match read("write_cache")?.trim() {
            "write through" => Cache::None,
            "write back" if fua => Cache::VolatileWithFua,
            "write back" => Cache::Volatile,
            other => bail!("{name} has a write cache of a kind that is not known: '{other}'"),
        };
        Ok(Self { name, stat: folder.join("stat"), cache })
    }

    fn add_to(&self, work: &mut Work) -> Result<()> {
        let text = std::fs::read_to_string(&self.stat)
            .with_context(|| format!("the counters of {} cannot be read any more", self.name))?;
        add(work, &text, self.cache).with_context(|| format!("the counters of {}", self.name))
    }
}

/// The whole disks below a device, as folders of the kernel.
fn disks_of(device: &Path, depth: usize) -> Result<Vec<PathBuf>> {
    ensure!(depth > 0, "devices are stacked too deep");
    let folder = device.canonicalize()?;
    if folder.join("partition").exists() {
        return disks_of(folder.parent().context("a partition lies in its disk")?, depth - 1);
    }
    let slaves = std::fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten();
    let slaves: Vec<PathBuf> = slaves.map(|slave| slave.path()).collect();
    if slaves.is_empty() {
        ensure!(folder.join("stat").exists(), "{} has no counters", folder.display());
        return Ok(vec![folder]);
    }
    let found: Vec<Vec<PathBuf>> = slaves.iter().map(|slave| disks_of(slave, depth - 1)).collect::<Result<_>>()?;
    Ok(found.concat())
}

fn add(work: &mut Work, stat: &str, cache: Cache) -> Result<()> {
    let fields: Vec<u64> = stat.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    // Fields are counted from 1, as in the kernel's documentation.
    let field = |number: usize| fields.get(number - 1).copied();
    let writes = field(5).context("stat has too few fields")?;
    let sectors = field(7).context("stat has too few fields")?;
    let flushes = field(16).context("this kernel does not count flushes (it takes Linux 5.5)")?;
    work.writes += writes;
    work.write_bytes += sectors * SECTOR_BYTES;
    work.flushes += flushes;
    work.durable_events += flushes + if cache == Cache::None { writes } else { 0 };
    work.unknown_events += if cache == Cache::VolatileWithFua { writes } else { 0 };
    Ok(())
}

#[cfg(test)]
mod tests;
