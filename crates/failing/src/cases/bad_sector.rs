//! A disk begins to fail: one sector cannot be read. The right thing to do is `pool replace`, and it was told that the
//! disk was replaced: a MiB around the sector was missing on the new one, eight files of 200, and the old one's labels
//! were erased. One sector may cost what lies in it, and nothing more; and what knows the rest is not given up.

use anyhow::{Context, Result, ensure};

use super::{Given, MIB};
use crate::server::{Place, noise, said};

const FILES: u64 = 200;
const FILE_BYTES: usize = 128 << 10;
const SECTOR: usize = 4096;

pub(super) fn run(given: Given<'_>) -> Result<()> {
    let mut place = Place::new(given.binary, &[("a", 256 * MIB), ("b", 256 * MIB)], 5)?;
    place.start()?;
    let (old, new) = (place.disk("a"), place.disk("b"));
    place.must(&["pool", "create", "p", &old])?;
    let mut client = place.client()?;
    for number in 0..FILES {
        client.put(&format!("f{number}"), &noise(number + 1, FILE_BYTES))?;
    }
    // Everything is in its place, and nothing in memory.
    place.stop()?;
    let sector = find_sector(&place, FILES / 2)?;
    place.rule(&format!("a read {sector}-{} fail", sector + SECTOR as u64))?;
    place.start()?;
    let before = readable(&place)?;
    ensure!(before.len() as u64 >= FILES - 1, "one sector holds {} files", FILES - before.len() as u64);
    let output = place.tally(&["pool", "replace", "p", &old, &new])?;
    let status = place.must(&["pool", "status", "-v"])?;
    place.stop()?;
    place.start()?;
    let after = readable(&place)?;
    let lost: Vec<_> = before.iter().filter(|name| !after.contains(name)).collect();
    ensure!(
        lost.is_empty(),
        "{} files cannot be read any more: {lost:?}; `replace` said: {}",
        lost.len(),
        said(&output)
    );
    ensure!(!output.status.success(), "`replace` succeeds with a sector unread: {}\n{status}", said(&output));
    ensure!(status.contains(&old) && status.contains(&new), "not both legs are in the pool:\n{status}");
    ensure!(!status.contains("repaired from other disks"), "no other disk had it:\n{status}");
    ensure!(status.contains("damaged on every disk"), "what is lost is not told:\n{status}");
    // What is not on the new disk is on the old one, which knows where it belongs.
    let labels = std::fs::read(place.below("a"))?;
    ensure!(labels.windows(8).any(|bytes| bytes == b"TALLYLBL"), "the source is erased");
    Ok(())
}

/// Where a sector of this file's content lies on the disk.
fn find_sector(place: &Place, number: u64) -> Result<u64> {
    let (content, disk) = (noise(number + 1, FILE_BYTES), std::fs::read(place.below("a"))?);
    let wanted = &content[FILE_BYTES / 2..FILE_BYTES / 2 + SECTOR];
    let at =
        disk.chunks(SECTOR).position(|sector| sector == wanted).context("the file's content is not on the disk")?;
    Ok((at * SECTOR) as u64)
}

fn readable(place: &Place) -> Result<Vec<String>> {
    let mut client = place.client()?;
    let right =
        |number: &u64| client.get(&format!("f{number}")).is_ok_and(|data| data == noise(number + 1, FILE_BYTES));
    Ok((0..FILES).filter(right).map(|number| format!("f{number}")).collect())
}
