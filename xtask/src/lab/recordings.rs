//! What a guest recorded of its disks, kept below `target/` and checked on the host.

use std::path::Path;

use anyhow::{Context, Result};

use crate::cargo;
use crate::crash_images::{self, Options, Share};
use crate::tally::Tally;

/// The archive that the guest's client unpacked.
const ARCHIVE: &str = "source.tar";
/// What it recorded meanwhile, and the disks of each.
const RECORDINGS: [(&str, &[&str]); 2] = [("one-disk.recording", &["pool"]), ("two-disks.recording", &["pool", "log"])];

/// Checks a part of each recording; then all of it as if one of the disks had lied, until that is noticed.
pub(super) fn check(share: &Path, part: Share) -> Result<Tally> {
    // They outlive the guest: a failure is looked at again without it.
    let folder = cargo::target_folder().join("crash-images");
    std::fs::create_dir_all(&folder)?;
    for name in RECORDINGS.iter().map(|(name, _)| name).chain([&ARCHIVE]) {
        std::fs::copy(share.join(name), folder.join(name)).with_context(|| format!("the guest left no {name}"))?;
    }
    let mut tally = Tally::default();
    for (name, disks) in RECORDINGS {
        let options = |part, liar| Options::of(folder.join(name), folder.join(ARCHIVE), part, liar);
        tally += crash_images::run(&options(part, None))?;
        for disk in disks {
            tally += crash_images::run(&options(Share::WHOLE, Some(disk)))?;
        }
    }
    Ok(tally)
}
