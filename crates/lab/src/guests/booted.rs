//! A Debian whose first process is systemd, on a disk of its own that outlives its boots: what becomes of a server that is installed, upgraded under load, booted again, removed and
//! purged. Its script (`guest/booted.sh`) goes on in each boot where it was in the last one, and says when it is through.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::guest::{Listener, judge, show, wait};
use super::kernel::Kernel;
use super::suites::LIBRARY;
use crate::cargo;
use crate::tally::Tally;

const SCRIPT: &str = include_str!("../../guest/booted.sh");
/// The disk that it boots from, and the pool's: mebibytes.
const ROOT_MIB: u64 = 1536;
const POOL_MIB: u64 = 1024;
/// More boots than the script has parts: one that never ends is not booted for ever.
const BOOTS_MAX: u32 = 4;
/// What one boot may take, its part of the script included.
const BOOT_LIMIT: Duration = Duration::from_secs(600);

/// A machine about to be installed.
pub(super) struct Booted<'a> {
    pub kernel: &'a Kernel,
    /// What its disk begins with.
    pub root: &'a Path,
    pub package: &'a Path,
    pub newer: &'a Path,
    pub keep: bool,
}

impl Booted<'_> {
    /// Boots it until its script is through, and counts the checks. A guest that hangs or dies is one failure.
    pub(super) fn run(&self) -> Result<Tally> {
        let folder = cargo::target_folder().join("lab").canonicalize()?;
        let scene = tempfile::Builder::new().prefix("booted-").tempdir_in(folder)?;
        let share = scene.path().join("share");
        fs::create_dir(&share)?;
        fs::write(share.join("library"), LIBRARY)?;
        fs::write(share.join("script"), SCRIPT)?;
        fs::copy(self.package, share.join("older.deb"))?;
        fs::copy(self.newer, share.join("newer.deb"))?;
        File::create(scene.path().join("pool"))?.set_len(POOL_MIB << 20)?;
        let disk = scene.path().join("disk");
        File::create(&disk)?.set_len(ROOT_MIB << 20)?;
        cargo::step(Command::new("mkfs.ext4").args(["-q", "-d"]).arg(self.root).arg(&disk))?;
        println!("== lab: a booted Debian");
        let mut listener = Listener::new(&share);
        let mut ended = None;
        for _ in 0..BOOTS_MAX {
            ended = self.boot(scene.path(), &mut listener)?;
            if ended.is_none() || share.join("status").exists() {
                break;
            }
        }
        let tally = judge(&share, ended);
        if tally.failed > 0 {
            show(&scene.path().join("console"));
        }
        if self.keep {
            println!("kept: {}", scene.keep().display());
        }
        println!("== lab: a booted Debian: {tally}");
        Ok(tally)
    }

    fn boot(&self, scene: &Path, listener: &mut Listener) -> Result<Option<std::process::ExitStatus>> {
        let mut command = self.kernel.command()?;
        // The guest's memory is a file in TMPDIR; on a disk, every page that it touches would be written there.
        command.env("TMPDIR", "/dev/shm");
        command.args(["mem=1024M", "root=/dev/ubda", "rw"]);
        command.arg(format!("ubd0={}", scene.join("disk").display()));
        command.arg(format!("ubd1={}", scene.join("pool").display()));
        command.arg(format!("LAB_SHARE={}", scene.join("share").display()));
        command.args(["con=null", "con0=null,fd:1", "quiet", "panic=-1"]);
        let console = File::options().create(true).append(true).open(scene.join("console"))?;
        let child = command.process_group(0).stdin(Stdio::null()).stdout(console.try_clone()?).stderr(console).spawn();
        wait(child.context("cannot start the guest's kernel")?, BOOT_LIMIT, listener)
    }
}
