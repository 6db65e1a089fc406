//! The guest's files: a minimal Debian, made once and kept below `target/lab`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::archive;
use super::kernel::Kernel;
use crate::cargo;

/// What the suites use. A change here makes a new root.
const PACKAGES: &str = "kmod,iproute2,procps,tar,rsync,git,sqlite3,nfs-common,nfs-kernel-server,rpcbind,\
                        xfsprogs,e2fsprogs,python3,netbase,util-linux,mount,libnfs-utils";
/// What a machine has whose first process is systemd, and that the package is installed on.
const BOOTED_PACKAGES: &str = "systemd-sysv,dbus,udev,kmod,iproute2,procps,tar,nfs-common,rpcbind,e2fsprogs,netbase,\
                               util-linux,mount,man-db,adduser";
/// What an image begins with: debootstrap wants at least one name, and this one is there anyway.
const BARE_PACKAGES: &str = "passwd";
const RELEASE: &str = "bookworm";
/// Counts changes of the steps below that PACKAGES does not show.
const VERSION: u32 = 1;

const INIT: &str = include_str!("../../guest/init.sh");
const BOOTED_UNIT: &str = include_str!("../../guest/booted.service");

/// The folder of the root, made if it is not there, with the current init script in it.
pub(super) fn prepare(folder: &Path, kernel: &Kernel) -> Result<PathBuf> {
    let root = make(folder, "root", PACKAGES)?;
    kernel.install_modules(&root)?;
    install_init(&root)?;
    install_mount_table(&root)?;
    Ok(root)
}

/// A Debian with nothing but what each has, for an image.
pub(super) fn prepare_bare(folder: &Path) -> Result<PathBuf> {
    make(folder, "bare", BARE_PACKAGES)
}

/// The same of one that systemd boots, and that carries out the script of the shared folder behind everything else.
pub(super) fn prepare_booted(folder: &Path, kernel: &Kernel) -> Result<PathBuf> {
    let root = make(folder, "booted", BOOTED_PACKAGES)?;
    kernel.install_modules(&root)?;
    std::fs::create_dir_all(root.join("media/share"))?;
    std::fs::write(root.join("etc/hostname"), "filer\n")?;
    std::fs::write(root.join("etc/fstab"), "/dev/ubda / ext4 defaults 0 1\n")?;
    std::fs::write(root.join("etc/systemd/system/booted.service"), BOOTED_UNIT)?;
    let enable = ["systemctl", "enable", "--quiet", "booted.service"];
    cargo::step(Command::new("chroot").arg(&root).args(enable).stdin(Stdio::null()))?;
    Ok(root)
}

fn make(folder: &Path, name: &str, packages: &str) -> Result<PathBuf> {
    let root = folder.join(name);
    let stamp = root.with_extension("stamp");
    let wanted = format!("{VERSION} {RELEASE} {packages}\n");
    if std::fs::read_to_string(&stamp).ok().as_deref() != Some(&wanted) {
        build(&root, packages)?;
        std::fs::write(&stamp, wanted)?;
    }
    Ok(root)
}

fn build(root: &Path, packages: &str) -> Result<()> {
    // Made under another name first: a half-made root must never be taken for a whole one.
    let unfinished = root.with_extension("unfinished");
    for folder in [root, &unfinished] {
        if folder.exists() {
            std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
    }
    let mut command = Command::new("debootstrap");
    command
        .args(["--variant=minbase", &format!("--include={packages}"), RELEASE])
        .arg(&unfinished)
        .arg(archive::address(RELEASE)?);
    cargo::step(command.stdin(Stdio::null()).stdout(Stdio::null()))?;
    Ok(std::fs::rename(unfinished, root)?)
}

/// Installs a package that only a benchmark's contender needs. Where it cannot be had, the guest goes without.
pub(super) fn add(root: &Path, package: &str) -> Result<()> {
    let chroot = |words: &[&str]| {
        let mut command = Command::new("chroot");
        command.arg(root).args(["/usr/bin/env", "DEBIAN_FRONTEND=noninteractive"]).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    };
    if chroot(&["dpkg", "--status", package]).stderr(Stdio::null()).status()?.success() {
        return Ok(());
    }
    let install = ["apt-get", "install", "--yes", "--no-install-recommends", package];
    let outcome = cargo::step(&mut chroot(&["apt-get", "update"])).and_then(|()| cargo::step(&mut chroot(&install)));
    if let Err(error) = outcome {
        eprintln!("The guest goes without Debian's {package}: {error:#}");
    }
    Ok(())
}

fn install_init(root: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let path = root.join("usr/sbin/lab-init");
    std::fs::write(&path, INIT)?;
    Ok(std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?)
}

/// What is mounted, where programs looked for it once, and NFS-Ganesha still does.
fn install_mount_table(root: &Path) -> Result<()> {
    let table = root.join("etc/mtab");
    if !table.is_symlink() {
        std::os::unix::fs::symlink("../proc/self/mounts", table)?;
    }
    Ok(())
}
