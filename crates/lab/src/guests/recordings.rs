//! What a guest recorded of its disks, kept below `target/` and checked on the host.

use std::path::Path;

use anyhow::{Context, Result};

use crate::cargo;
use crate::crash_images::{self, Options, Share};
use crate::tally::Tally;

/// The archive that the guest's client unpacked.
const ARCHIVE: &str = "source.tar";
/// What it recorded meanwhile, and who can lie in each.
const RECORDINGS: [(&str, &[&str]); 2] =
    [("one-disk.recording", &["pool", "server"]), ("two-disks.recording", &["pool", "log", "server"])];

/// Checks a part of each recording; then all of it as if somebody had lied, until that is noticed.
pub(super) fn check(share: &Path, part: Share) -> Result<Tally> {
    // They outlive the guest: a failure is looked at again without it.
    let folder = cargo::target_folder().join("crash-images");
    std::fs::create_dir_all(&folder)?;
    for name in RECORDINGS.iter().map(|(name, _)| name).chain([&ARCHIVE]) {
        std::fs::copy(share.join(name), folder.join(name)).with_context(|| format!("the guest left no {name}"))?;
    }
    let mut tally = Tally::default();
    for (name, liars) in RECORDINGS {
        let options = |part, liar| Options::of(folder.join(name), folder.join(ARCHIVE), part, liar);
        let honest = crash_images::run(&options(part, None))?;
        tally += honest;
        // What is broken already would be taken for a lie noticed.
        for liar in liars.iter().filter(|_| honest.failed == 0) {
            tally += crash_images::run(&options(Share::WHOLE, Some(liar)))?;
        }
    }
    Ok(tally)
}
