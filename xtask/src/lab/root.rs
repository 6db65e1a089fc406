//! The guest's files: a minimal Debian, made once and kept below `target/lab`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo;

/// What the suites use. A change here makes a new root.
const PACKAGES: &str = "kmod,iproute2,procps,tar,rsync,git,sqlite3,nfs-common,nfs-kernel-server,rpcbind,\
                        xfsprogs,e2fsprogs,python3,netbase,util-linux,mount,libnfs-utils";
const RELEASE: &str = "bookworm";
/// Counts changes of the steps below that PACKAGES does not show.
const VERSION: u32 = 1;
/// Where Debian's package puts the guest kernel's modules.
const MODULES: &str = "/usr/lib/uml/modules";

const INIT: &str = include_str!("../../lab/init.sh");

/// The folder of the root, made if it is not there, with the current init script in it.
pub(crate) fn prepare() -> Result<PathBuf> {
    let folder = cargo::target_folder().join("lab");
    std::fs::create_dir_all(&folder)?;
    let root = folder.canonicalize()?.join("root");
    let stamp = folder.join("root.stamp");
    let wanted = format!("{VERSION} {RELEASE} {PACKAGES}\n");
    if std::fs::read_to_string(&stamp).ok().as_deref() != Some(&wanted) {
        build(&root)?;
        std::fs::write(&stamp, wanted)?;
    }
    install_modules(&root)?;
    install_init(&root)?;
    install_mount_table(&root)?;
    Ok(root)
}

fn build(root: &Path) -> Result<()> {
    // Made under another name first: a half-made root must never be taken for a whole one.
    let unfinished = root.with_extension("unfinished");
    for folder in [root, &unfinished] {
        if folder.exists() {
            std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
    }
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", &format!("--include={PACKAGES}"), RELEASE]).arg(&unfinished).arg(archive()?);
    cargo::step(command.stdin(Stdio::null()).stdout(Stdio::null()))?;
    Ok(std::fs::rename(unfinished, root)?)
}

/// Where this machine gets its own packages from, which is where the guest's come from, too. A source of the guest's
/// release is best; an archive of Debian has all of its releases, so any other will do.
fn archive() -> Result<String> {
    let format = "$(RELEASE) $(REPO_URI)";
    let words = ["indextargets", "--format", format, "Identifier: Packages", "Component: main"];
    let output = Command::new("apt-get").args(words).output().context("cannot ask apt for its sources")?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    archive_among(&listed).with_context(|| {
        format!("apt has no source of Debian's packages, which the guest is made of; add one of {RELEASE}")
    })
}

/// Of lines of a release and the address of its archive.
fn archive_among(listed: &str) -> Option<String> {
    let sources = || listed.lines().filter_map(|line| line.split_once(' '));
    let of_release = sources().find(|(release, _)| *release == RELEASE);
    let of_debian = || sources().find(|(_, address)| address.trim_end_matches('/').ends_with("/debian"));
    of_release.or_else(of_debian).map(|(_, address)| address.to_owned())
}

/// Installs a package that only a benchmark's contender needs. Where it cannot be had, the guest goes without.
pub(crate) fn add(root: &Path, package: &str) -> Result<()> {
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

/// The NFS client and server are modules of the guest's kernel; they must fit the kernel that is installed.
fn install_modules(root: &Path) -> Result<()> {
    for version in std::fs::read_dir(MODULES).with_context(|| format!("no kernel modules in {MODULES}"))? {
        let version = version?;
        let target = root.join("usr/lib/modules").join(version.file_name());
        if target.join("modules.dep.bin").exists() {
            continue;
        }
        std::fs::create_dir_all(root.join("usr/lib/modules"))?;
        cargo::step(Command::new("cp").arg("-a").arg("--no-target-directory").arg(version.path()).arg(&target))?;
        cargo::step(Command::new("chroot").arg(root).args(["/sbin/depmod"]).arg(version.file_name()))?;
    }
    if root.join("usr/lib/modules").read_dir()?.next().is_none() {
        bail!("{MODULES} is empty: the package user-mode-linux is not complete");
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

#[cfg(test)]
mod tests;
