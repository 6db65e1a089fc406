//! The guest's kernel: user-mode Linux of Debian's newest suite, with the C library that it was linked with, unpacked
//! once below `target/lab` and run in there.
//!
//! Why not the one of the machine's own release: with 6.1 (Debian 12) and 6.12 (13) init dies before its first
//! instruction on a processor with AMX, whose registers do not fit into the buffer by which these kernels put a
//! process' registers back. Newer ones ask for the size. They also run their processes by seccomp instead of ptrace,
//! which makes a system call half as dear.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::archive;
use crate::cargo;

const SUITE: &str = "sid";
const PACKAGES: [&str; 2] = ["user-mode-linux", "libc6"];
/// Where the package has its modules.
const MODULES: &str = "usr/lib/uml/modules";
/// In a namespace of its own: what the kernel sees of the host, laid into its folder, and the kernel there.
const ENTER: &str = r#"
    set -e; folder=$1 lab=$2; shift 2
    mount --rbind /proc "$folder/proc"; mount --rbind /dev "$folder/dev"; mount --bind "$lab" "$folder$lab"
    exec chroot "$folder" /usr/bin/linux.uml seccomp=on "$@""#;

/// An unpacked kernel.
pub(super) struct Kernel {
    folder: PathBuf,
    /// The folder that holds the guest's files and its disks, at the same path inside.
    lab: PathBuf,
}

impl Kernel {
    /// The kernel below `lab`, fetched if it is not there. None where the archive cannot be reached, which is said.
    pub(super) fn prepare(lab: &Path) -> Result<Option<Self>> {
        let kernel = Self { folder: lab.join("kernel"), lab: lab.to_owned() };
        if !kernel.folder.exists() {
            // Made under another name first: half a kernel must never be taken for a whole one.
            let unfinished = kernel.folder.with_extension("unfinished");
            if unfinished.exists() {
                std::fs::remove_dir_all(&unfinished)?;
            }
            if let Err(error) = fetch(&unfinished) {
                eprintln!("The guest's kernel, {} of Debian {SUITE}, cannot be had: {error:#}.", PACKAGES[0]);
                return Ok(None);
            }
            std::fs::rename(unfinished, &kernel.folder)?;
        }
        for inside in [Path::new("/proc"), Path::new("/dev"), Path::new("/root"), lab] {
            std::fs::create_dir_all(kernel.folder.join(inside.strip_prefix("/").context("a relative path")?))?;
        }
        Ok(Some(kernel))
    }

    /// The command that boots it; its arguments are the kernel's.
    pub(super) fn command(&self) -> Result<Command> {
        // Each system call in the guest is a switch between two processes of the host. On one processor that takes a
        // fifth of the time that it takes across two: untar with `sync=disabled` 0.6 s instead of 3.0.
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", &last_processor()?.to_string()]);
        command.args(["unshare", "--mount", "sh", "-c", ENTER, "sh"]).arg(&self.folder).arg(&self.lab);
        // It keeps its console's socket there.
        command.env("HOME", "/root");
        Ok(command)
    }

    /// The NFS client and server are modules, which have to lie in the guest's own files.
    pub(super) fn install_modules(&self, root: &Path) -> Result<()> {
        let modules = self.folder.join(MODULES);
        let versions = std::fs::read_dir(&modules).with_context(|| format!("no modules in {}", modules.display()))?;
        let versions = versions.collect::<Result<Vec<_>, _>>()?;
        if versions.is_empty() {
            bail!("{} is empty: the package {} is not complete", modules.display(), PACKAGES[0]);
        }
        for version in versions {
            let target = root.join("usr/lib/modules").join(version.file_name());
            if target.join("modules.dep.bin").exists() {
                continue;
            }
            std::fs::create_dir_all(root.join("usr/lib/modules"))?;
            cargo::step(Command::new("cp").arg("-a").arg("--no-target-directory").arg(version.path()).arg(&target))?;
            cargo::step(Command::new("chroot").arg(root).args(["/sbin/depmod"]).arg(version.file_name()))?;
        }
        Ok(())
    }
}

/// Asks the archive for the suite's packages, beside the machine's own lists, and unpacks them into `folder`.
fn fetch(folder: &Path) -> Result<()> {
    let apt = folder.join("apt");
    for part in ["lists/partial", "cache/archives/partial", "packages"] {
        std::fs::create_dir_all(apt.join(part))?;
    }
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let source = format!("deb [signed-by={keys} target=Packages] {} {SUITE} main\n", archive::address(SUITE)?);
    std::fs::write(apt.join("sources.list"), source)?;
    let settings = [
        format!("Dir::Etc::SourceList={}", apt.join("sources.list").display()),
        "Dir::Etc::SourceParts=-".to_owned(),
        format!("Dir::State::Lists={}", apt.join("lists").display()),
        format!("Dir::Cache={}", apt.join("cache").display()),
        // The folder belongs to whoever runs this, and apt's own user cannot enter it.
        "APT::Sandbox::User=root".to_owned(),
    ];
    let apt_get = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(settings.iter().flat_map(|setting| ["--option", setting]));
        command.current_dir(apt.join("packages")).args(words).stdin(Stdio::null()).stdout(Stdio::null());
        cargo::step(&mut command)
    };
    apt_get(&["update"])?;
    apt_get(&[&["download"][..], &PACKAGES].concat())?;
    for package in std::fs::read_dir(apt.join("packages"))? {
        cargo::step(Command::new("dpkg-deb").arg("--extract").arg(package?.path()).arg(folder))?;
    }
    // Since a suite's libraries lie in /usr alone, their old places are links, which no package has.
    for (link, place) in [("lib", "usr/lib"), ("lib64", "usr/lib64")] {
        if !folder.join(link).exists() && folder.join(place).exists() {
            std::os::unix::fs::symlink(place, folder.join(link))?;
        }
    }
    Ok(std::fs::remove_dir_all(apt)?)
}

/// The last processor that this process may use; on the first, others do their chores.
fn last_processor() -> Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let last = list.and_then(|list| list.rsplit([',', '-']).next()).context("the kernel tells no processors")?;
    Ok(last.trim().parse()?)
}
