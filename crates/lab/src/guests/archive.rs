//! Where Debian's packages come from: the tree names no mirror, a machine without a way to the one that it would name
//! has its own.

use std::process::Command;

use anyhow::{Context, Result};

/// The address of an archive that has Debian's releases: of this machine's own sources one of `release` is best; an
/// archive of Debian has all of its releases, so any other will do.
pub(super) fn address(release: &str) -> Result<String> {
    let format = "$(RELEASE) $(REPO_URI)";
    let words = ["indextargets", "--format", format, "Identifier: Packages", "Component: main"];
    let output = Command::new("apt-get").args(words).output().context("cannot ask apt for its sources")?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    address_among(&listed, release).with_context(|| {
        format!("apt has no source of Debian's packages, which the guest is made of; add one of {release}")
    })
}

/// Of lines of a release and the address of its archive.
fn address_among(listed: &str, release: &str) -> Option<String> {
    let sources = || listed.lines().filter_map(|line| line.split_once(' '));
    let of_release = sources().find(|(name, _)| *name == release);
    let of_debian = || sources().find(|(_, address)| address.trim_end_matches('/').ends_with("/debian"));
    of_release.or_else(of_debian).map(|(_, address)| address.to_owned())
}

#[cfg(test)]
mod tests;
