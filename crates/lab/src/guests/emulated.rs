//! A whole machine, emulated, whose clock counts instructions: one is a nanosecond, and where it idles its clock leaps to
//! the next timer. So neither the host's load nor the emulator's slowness is in its times, and code of a user's costs what
//! the kernel's costs. It is where servers in user space and in the kernel are compared by time; everything else is
//! quicker, and runs longer, under User Mode Linux.
//!
//! **Its files** are made once below `target/lab/emulated`: a minimal Debian of the newest suite, whose kernel is a stock
//! one, with OpenZFS as Debian's package builds it; then an image of that, which no guest changes. It takes a quarter of
//! an hour.
//!
//! **What it cannot see:** caches, and what a system call or a switch of address spaces costs beyond its instructions.
//! Nothing in a guest may wait for the host while a time is taken: the clock would leap.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::archive;
use super::guest::Luggage;
use super::suites::LIBRARY;
use crate::cargo;
use crate::packages::{self, Package};
use crate::tally::Tally;

const SUITE: &str = "sid";
/// What guests need. A change here makes a new root.
const PACKAGES: &str = "kmod,iproute2,procps,tar,nfs-common,nfs-kernel-server,rpcbind,xfsprogs,e2fsprogs,\
                        python3-minimal,netbase,util-linux,mount,fdisk,busybox-static,zstd,xz-utils,linux-image-amd64,linux-headers-amd64";
/// Built and installed by themselves: they are to find a kernel's headers.
const OPEN_ZFS: [&str; 2] = ["zfs-dkms", "zfsutils-linux"];
/// Counts changes of the steps to a root that PACKAGES does not show.
const VERSION: u32 = 1;
const NEEDED: [Package; 3] = [
    Package::new("debootstrap", "debootstrap", "the guest's files"),
    Package::new("qemu-system-x86_64", "qemu-system-x86", "the emulated machine"),
    Package::new("mkfs.ext4", "e2fsprogs", "the guest's disks"),
];
/// Space for the guest's files, most of which stays a hole.
const ROOT_MIB: u32 = 8192;
const MEMORY_MIB: u32 = 6144;
const INIT: &str = include_str!("../../guest/emulated-init.sh");
/// Makes what is booted of the root's kernel.
const BOOT: &str = include_str!("../../guest/emulated-boot.sh");
/// Servers by time; what is served is on a disk in the guest's memory.
const BY_TIME: &str = include_str!("../../guest/suites/by-time.sh");

/// What such guests boot.
pub struct Emulated {
    folder: PathBuf,
}

impl Emulated {
    /// Makes what is not there. None where there can be no such guest, which is said.
    pub fn prepare() -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() || !packages::ensure(&NEEDED)? {
            return Ok(None);
        }
        let folder = cargo::target_folder().join("lab/emulated");
        std::fs::create_dir_all(&folder)?;
        let emulated = Self { folder: folder.canonicalize()? };
        let wanted = format!("{SUITE} {PACKAGES} {OPEN_ZFS:?} {ROOT_MIB}\n{INIT}{BOOT}");
        let stamp = emulated.folder.join("stamp");
        if std::fs::read_to_string(&stamp).ok().as_deref() != Some(&wanted) {
            emulated.make_root()?;
            emulated.make_image()?;
            std::fs::write(&stamp, wanted)?;
        }
        Ok(Some(emulated))
    }

    /// A minimal Debian, if none is there for these packages.
    fn make_root(&self) -> Result<()> {
        let root = self.folder.join("root");
        let stamp = root.join("etc/made");
        let wanted = format!("{VERSION} {SUITE} {PACKAGES} {OPEN_ZFS:?}\n");
        if std::fs::read_to_string(&stamp).ok().as_deref() == Some(&wanted) {
            return Ok(());
        }
        // Made under another name first: a half-made root must never be taken for a whole one.
        let unfinished = root.with_extension("unfinished");
        for folder in [&root, &unfinished] {
            if folder.exists() {
                std::fs::remove_dir_all(folder)?;
            }
        }
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", "--components=main,contrib", &format!("--include={PACKAGES}"), SUITE]);
        debootstrap.arg(&unfinished).arg(archive::address(SUITE)?);
        cargo::step(debootstrap.stdin(Stdio::null()).stdout(Stdio::null()))?;
        let mut install = in_root(&unfinished, r#"apt-get install --yes --no-install-recommends "$@""#);
        cargo::step(install.args(OPEN_ZFS))?;
        std::fs::write(unfinished.join("etc/made"), wanted)?;
        Ok(std::fs::rename(unfinished, root)?)
    }

    /// The disk that is booted, and the kernel beside it.
    fn make_image(&self) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let root = self.folder.join("root");
        let init = root.join("usr/sbin/lab-init");
        std::fs::write(&init, INIT)?;
        std::fs::set_permissions(&init, std::fs::Permissions::from_mode(0o755))?;
        std::fs::write(root.join("boot/make"), BOOT)?;
        cargo::step(in_root(&root, r#"bash /boot/make "$1""#).arg(newest(&root.join("usr/lib/modules"))?))?;
        for name in ["vmlinux", "initrd"] {
            std::fs::rename(root.join("boot").join(name), self.folder.join(name))?;
        }
        make_disk(&self.folder.join("root.img"), &root, ROOT_MIB)
    }

    /// Boots, and runs the script of servers by time; each of its lines goes to `heard` as it comes. A guest that is not
    /// done within `limit` is ended, and is a failure.
    pub fn run(&self, luggage: &Luggage, limit: Duration, mut heard: impl FnMut(&str)) -> Result<Tally> {
        let scene = tempfile::Builder::new().prefix("guest-").tempdir_in(&self.folder)?;
        let share = scene.path().join("share");
        fill(&share, luggage)?;
        make_disk(&scene.path().join("share.img"), &share, 256)?;
        let console = scene.path().join("console");
        let mut machine = self.machine(scene.path(), &console);
        let child = machine.stdin(Stdio::null()).spawn().context("cannot start the emulator")?;
        wait(child, limit, &console, &mut heard)?;
        Ok(judge(&std::fs::read_to_string(&console).unwrap_or_default()))
    }

    fn machine(&self, scene: &Path, console: &Path) -> Command {
        let mut machine = Command::new("qemu-system-x86_64");
        machine.args(["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-machine", "q35", "-smp", "1"]);
        // Strings are moved byte by byte here, which no processor does.
        machine.args(["-cpu", "max,-erms,-fsrm", "-m", &format!("{MEMORY_MIB}M")]);
        machine.args(["-nodefaults", "-display", "none", "-no-reboot"]);
        machine.arg("-kernel").arg(self.folder.join("vmlinux")).arg("-initrd").arg(self.folder.join("initrd"));
        machine.args(["-append", "console=ttyS0 quiet mitigations=off nopti tsc=reliable panic=-1"]);
        machine.arg("-serial").arg(format!("file:{}", console.display()));
        for image in [self.folder.join("root.img"), scene.join("share.img")] {
            machine.arg("-drive").arg(format!("file={},format=raw,if=virtio,snapshot=on", image.display()));
        }
        machine
    }
}

/// Commands of a shell in the root, which has `/proc` meanwhile, with the arguments that are added.
fn in_root(root: &Path, commands: &str) -> Command {
    const ENTER: &str = r#"
        set -e; root=$1 commands=$2; shift 2
        mount -t proc proc "$root/proc"
        exec chroot "$root" /usr/bin/env PATH=/usr/sbin:/usr/bin DEBIAN_FRONTEND=noninteractive sh -c "$commands" sh "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", ENTER, "sh"]).arg(root).arg(commands);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// The name in `folder` that sorts last.
fn newest(folder: &Path) -> Result<OsString> {
    let names = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.file_name()));
    names.max().with_context(|| format!("{} is empty", folder.display()))
}

/// An image of a folder.
fn make_disk(image: &Path, folder: &Path, mib: u32) -> Result<()> {
    let _ = std::fs::remove_file(image);
    let mut command = Command::new("mkfs.ext4");
    command.args(["-q", "-F", "-d"]).arg(folder).arg(image).arg(format!("{mib}M"));
    cargo::step(&mut command)
}

fn fill(share: &Path, luggage: &Luggage) -> Result<()> {
    std::fs::create_dir(share)?;
    std::fs::write(share.join("library"), LIBRARY)?;
    std::fs::write(share.join("script"), BY_TIME)?;
    let mut environment = String::new();
    for (name, value) in &luggage.variables {
        ensure!(!value.contains('\''), "{name}={value} does not fit between quotation marks");
        writeln!(environment, "{name}='{value}'")?;
    }
    std::fs::write(share.join("environment"), environment)?;
    std::fs::copy(cargo::target_folder().join("release/tally"), share.join("tally"))?;
    Ok(())
}

/// Passes on whole lines of the console until the machine is off, or ends it.
fn wait(mut child: Child, limit: Duration, console: &Path, heard: &mut impl FnMut(&str)) -> Result<()> {
    let (started, mut heard_bytes) = (Instant::now(), 0);
    loop {
        let ended = child.try_wait()?.is_some();
        let text = std::fs::read(console).unwrap_or_default();
        let new = text.get(heard_bytes..).unwrap_or_default();
        let whole_lines = new.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        for line in String::from_utf8_lossy(&new[..whole_lines]).lines() {
            heard(line.trim_end());
        }
        heard_bytes += whole_lines;
        if ended {
            return Ok(());
        }
        if started.elapsed() > limit {
            child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Counts the script's checks; whatever is not its own last word is a failure.
fn judge(console: &str) -> Tally {
    let lines = || console.lines().map(str::trim_end);
    let counted = lines().rev().find_map(Tally::parse);
    if lines().any(|line| line == "status 0") {
        return counted.unwrap_or(Tally::FAILED);
    }
    println!("FAIL the guest did not come to a good end");
    let mut tally = counted.unwrap_or_default();
    tally += Tally::FAILED;
    tally
}
