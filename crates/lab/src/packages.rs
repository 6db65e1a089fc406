//! Debian packages that some tests need: installed where that is possible, else named and counted as skips.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::cargo;

/// A program, the package that brings it, and what it is for.
#[derive(Clone, Copy)]
pub struct Package {
    program: &'static str,
    name: &'static str,
    purpose: &'static str,
}

impl Package {
    pub(crate) const fn new(program: &'static str, name: &'static str, purpose: &'static str) -> Self {
        Self { program, name, purpose }
    }
}

/// What the lab needs.
pub const LAB: [Package; 1] = [Package { program: "debootstrap", name: "debootstrap", purpose: "the guest's files" }];

/// What a test of the workspace calls, where it is there.
pub const TESTS: [Package; 2] = [
    Package { program: "nfs-ls", name: "libnfs-utils", purpose: "a second NFS client in user space" },
    Package { program: "ip", name: "iproute2", purpose: "a network between a server and a client" },
];

/// What serves a mount by SMB, and asks it.
pub const SAMBA: [Package; 3] = [
    Package { program: "smbd", name: "samba", purpose: "a server of SMB over a mount" },
    Package { program: "smbd", name: "samba-vfs-modules", purpose: "what Macs need of it" },
    Package { program: "smbclient", name: "smbclient", purpose: "a client of SMB" },
];

/// What asks a server of SMB everything.
pub const SMBTORTURE: [Package; 1] =
    [Package { program: "smbtorture", name: "samba-testsuite", purpose: "Samba's own suites" }];

/// Shells for which there is a completion.
pub const SHELLS: [Package; 3] = [
    Package { program: "bash", name: "bash", purpose: "a shell that completes" },
    Package { program: "zsh", name: "zsh", purpose: "a shell that completes" },
    Package { program: "fish", name: "fish", purpose: "a shell that completes" },
];

/// What makes a package, and looks at it.
pub const PACKAGE: [Package; 3] = [
    Package { program: "dh", name: "debhelper", purpose: "what makes Debian's packages" },
    Package { program: "lintian", name: "lintian", purpose: "what looks at Debian's packages" },
    Package { program: "mandoc", name: "mandoc", purpose: "what looks at pages of the manual" },
];

/// What builds and runs the image, makes what it begins with, and writes files over the network.
pub const IMAGE: [Package; 4] = [
    Package { program: "podman", name: "podman", purpose: "what builds an image and runs it" },
    Package { program: "runc", name: "runc", purpose: "what starts a container" },
    LAB[0],
    TESTS[0],
];

/// Chromium's program in Debian.
pub const CHROMIUM: &str = "chromium";

/// What looks at the dashboard.
pub const DASHBOARD: [Package; 1] =
    [Package { program: CHROMIUM, name: "chromium", purpose: "a browser that looks at the dashboard" }];

/// Whether all of them are there, after an attempt to install what is missing.
pub fn ensure(packages: &[Package]) -> Result<bool> {
    let missing: Vec<_> = packages.iter().filter(|package| !present(package.program)).collect();
    if missing.is_empty() {
        return Ok(true);
    }
    for package in &missing {
        eprintln!("Debian package {} is missing: {}.", package.name, package.purpose);
    }
    if !rustix::process::geteuid().is_root() || !present("apt-get") {
        eprintln!("Install them, or run as root on Debian; what needs them is skipped.");
        return Ok(false);
    }
    let names = missing.iter().map(|package| package.name);
    // A fresh machine has no package lists; without a network both fail, and the tests are skipped.
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments).stdin(Stdio::null());
        command
    };
    let installed = apt(&["update"]).status()?.success()
        && apt(&["install", "--yes", "--no-install-recommends"]).args(names).status()?.success();
    Ok(installed && packages.iter().all(|package| present(package.program)))
}

/// The same of packages that bring a service: not where systemd would start it.
pub fn ensure_unstarted(packages: &[Package]) -> Result<bool> {
    let is_there = packages.iter().all(|package| present(package.program));
    if is_there || !Path::new("/run/systemd/system").exists() { ensure(packages) } else { Ok(false) }
}

/// A program of a package that brings a service too, which nobody wants on a machine for its program's sake: from the
/// path, or unpacked below the build products. `None` where the package cannot be had.
pub fn program(name: &str, package: &str) -> Result<Option<PathBuf>> {
    if let Some(installed) = find(name) {
        return Ok(Some(installed));
    }
    let folder = cargo::target_folder().join("tools").join(package);
    let program = folder.join("usr/bin").join(name);
    if !program.is_file() {
        std::fs::create_dir_all(&folder)?;
        // A fresh machine has no package lists, which only root can fetch.
        if !run("apt-get", &["download", package], &folder)? {
            let _ = run("apt-get", &["update"], &folder)?;
            let _ = run("apt-get", &["download", package], &folder)?;
        }
        let archive = std::fs::read_dir(&folder)?.filter_map(|entry| Some(entry.ok()?.path()));
        let archive = archive.filter(|path| path.extension().is_some_and(|is| is == "deb")).last();
        let Some(archive) = archive.as_deref().and_then(Path::to_str) else { return Ok(None) };
        let _ = run("dpkg-deb", &["--extract", archive, "."], &folder)?;
    }
    Ok(program.is_file().then_some(program))
}

/// Whether a command of the packages' succeeds; it does not where there is none.
fn run(program: &str, arguments: &[&str], folder: &Path) -> Result<bool> {
    if find(program).is_none() {
        return Ok(false);
    }
    Ok(Command::new(program).args(arguments).current_dir(folder).stdin(Stdio::null()).status()?.success())
}

/// Whether there is such a program.
pub(crate) fn present(program: &str) -> bool {
    find(program).is_some()
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // debootstrap and its like lie in sbin, which is not in everybody's path.
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}
