//! One long file: written in a stream and committed, then read cold, beside the same on a file with O_DIRECT.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use rustix::fs::{Advice, OFlags, fadvise};
use tally_disk::{AlignedBuf, Opener, SystemOpener};

use crate::Site;
use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, Setup};
use crate::load;
use crate::server::Server;

/// What `stream` takes.
#[derive(Args)]
pub struct Stream {
    #[command(flatten)]
    site: Site,
    /// Length of the file, MiB.
    #[arg(long, default_value_t = 4096)]
    mebibytes: u64,
    /// Run Debian's NFS-Ganesha alternately (packages nfs-ganesha, nfs-ganesha-vfs).
    #[arg(long)]
    ganesha: bool,
}

const DIRECT: &str = "file with O_DIRECT";

impl Stream {
    /// Runs all contenders alternately, each time with a new pool and a new file.
    pub fn run(&self) -> Result<()> {
        let binaries = Binaries::build()?;
        let mut figures = Figures::default();
        for _ in 0..self.site.runs {
            self.add(&mut figures, "tally", self.tally(&binaries)?);
            if self.ganesha {
                self.add(&mut figures, "ganesha", self.ganesha()?);
            }
            self.add(&mut figures, DIRECT, direct_file(&self.site.folder()?.join("stream.raw"), self.mebibytes)?);
        }
        for contender in ["tally", "ganesha"] {
            for verb in ["write and COMMIT", "cold read"] {
                figures.add_ratios(&ratio(contender, verb), &what(contender, verb), &what(DIRECT, verb));
            }
        }
        figures.finish("stream")?;
        figures.row("bench stream", &ratio("tally", "write and COMMIT"), Bar::AtLeast(0.5));
        figures.row("bench stream", &ratio("tally", "cold read"), Bar::AtLeast(0.5));
        Ok(())
    }

    fn add(&self, figures: &mut Figures, contender: &str, (written, read): (Duration, Duration)) {
        let rate = |time: Duration| self.mebibytes as f64 / time.as_secs_f64();
        figures.add(&what(contender, "write and COMMIT"), "MiB/s", rate(written));
        figures.add(&what(contender, "cold read"), "MiB/s", rate(read));
    }

    fn tally(&self, binaries: &Binaries) -> Result<(Duration, Duration)> {
        // A third more than the file, as a pool that is nearly full is another benchmark.
        let setup = Setup { pool_bytes: (1024 + self.mebibytes * 4 / 3) << 20, ..Setup::default() };
        let mut filer = Filer::make(binaries, setup, &self.site.folder()?)?;
        let target = filer.target("tank");
        let stream = load::write_stream(&target, self.mebibytes);
        let (file, written) = stream.with_context(|| format!("tally in {}", filer.folder().display()))?;
        // Cold: a new process has nothing in its cache, and the kernel never had, as the pool goes past it.
        filer.stop()?;
        filer.start()?;
        Ok((written, load::read_stream(&target, &file, self.mebibytes)?))
    }

    fn ganesha(&self) -> Result<(Duration, Duration)> {
        let server = Server::ganesha(&self.site.folder()?)?;
        let (file, written) = load::write_stream(server.target(), self.mebibytes)?;
        drop_from_page_cache(&server.folder().join("served"))?;
        Ok((written, load::read_stream(server.target(), &file, self.mebibytes)?))
    }
}

/// The kernel forgets the content of every file in a folder, which must be on disk already.
pub(super) fn drop_from_page_cache(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let file = std::fs::File::open(entry?.path())?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Sequential writes and an fsync, then reads, of a file with O_DIRECT, in pieces of 1 MiB: the disk's own rate.
pub(super) fn direct_file(path: &Path, mebibytes: u64) -> Result<(Duration, Duration)> {
    let flags = OFlags::DIRECT.bits().cast_signed();
    // Allocated, as the pool's file is.
    SystemOpener.create(path, mebibytes << 20, false, &mut |_| true)?;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
    let mut buffer = AlignedBuf::zeroed(1 << 20);
    rustix::rand::getrandom(&mut buffer[..], rustix::rand::GetRandomFlags::empty())?;
    let started = Instant::now();
    for index in 0..mebibytes {
        file.write_all_at(&buffer, index << 20)?;
    }
    file.sync_all()?;
    let written = started.elapsed();
    let started = Instant::now();
    for index in 0..mebibytes {
        file.read_exact_at(&mut buffer, index << 20)?;
    }
    let read = started.elapsed();
    std::fs::remove_file(path)?;
    Ok((written, read))
}

fn what(contender: &str, verb: &str) -> String {
    format!("{contender}, {verb}")
}

fn ratio(contender: &str, verb: &str) -> String {
    format!("{contender} against a {DIRECT}, sequential {verb}")
}
