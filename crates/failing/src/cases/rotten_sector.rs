//! One sector of a pool without mirror rots, and whatever lies in it is changed above: names made, replaced and
//! removed. Of 200 sectors drawn, 13 kept the pool from being imported for good, with `--readonly` too. What the sector
//! held may be damaged, and is then answered with an error; a pool that nobody gets at any more is a loss of
//! everything. What an import needs has a second place (rules S4), so that no sector keeps the pool from being imported.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::{Given, MIB};
use crate::server::{PATIENCE, Place, noise, within};

const SECTOR: usize = 4096;
const FOLDERS: u64 = 8;
const FILES: u64 = 60;
/// The label at each end.
const LABEL: usize = 256 << 10;

pub(super) fn run(given: Given<'_>) -> Result<()> {
    let mut place = Place::new(given.binary, &[("a", 64 * MIB)], 1)?;
    place.start()?;
    place.must(&["pool", "create", "p", &place.disk("a")])?;
    fill(&place)?;
    place.stop()?;
    let whole = std::fs::read(place.below("a"))?;
    let used: Vec<usize> = (LABEL / SECTOR..(whole.len() - LABEL) / SECTOR)
        .filter(|at| whole[at * SECTOR..(at + 1) * SECTOR].iter().any(|byte| *byte != 0))
        .collect();
    let mut refused = Vec::new();
    let mut state = given.seed | 1;
    for _ in 0..given.draws {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let sector = used[(state >> 33) as usize % used.len()];
        if let Err(error) = one(&mut place, &whole, sector) {
            eprintln!("sector {sector}: {error:#}");
            refused.push(sector);
        }
    }
    ensure!(
        refused.is_empty(),
        "seed {}: {} of {} rotten sectors, of {} in use, are the end of the pool: {refused:?}",
        given.seed,
        refused.len(),
        given.draws,
        used.len()
    );
    Ok(())
}

/// Many names and little data: nearly every sector in use is one that others hang on.
fn fill(place: &Place) -> Result<()> {
    let mut client = place.client()?;
    let root = client.root.clone();
    for folder in 0..FOLDERS {
        client.root = client.connection.mkdir(&root, &format!("d{folder}"))?;
        for file in 0..FILES {
            client.put(&format!("f{file}"), &noise(folder * FILES + file + 1, 200))?;
        }
    }
    Ok(())
}

fn one(place: &mut Place, whole: &[u8], sector: usize) -> Result<()> {
    rot(&place.below("a"), whole, sector)?;
    place.start()?;
    if place.client().is_err() {
        let log = place.log();
        place.kill()?;
        place.forget_log()?;
        bail!("no import:\n{}", tail(&log));
    }
    let changed = change(place);
    place.kill()?;
    place.start()?;
    let back = place.client();
    let log = place.log();
    place.kill()?;
    // Each start is looked at alone.
    place.forget_log()?;
    back.with_context(|| format!("changes ({changed}) above it, and the pool is not imported again:\n{}", tail(&log)))?;
    Ok(())
}

/// Names are made, replaced and removed in every folder, as far as the pool lets anybody; tells how many were.
fn change(place: &Place) -> usize {
    let Ok(mut client) = place.client() else { return 0 };
    within(PATIENCE, move || {
        let root = client.root.clone();
        let mut done = 0;
        for folder in 0..FOLDERS {
            let Ok(folder) = client.connection.lookup(&root, &format!("d{folder}")) else { continue };
            client.root = folder;
            done += usize::from(client.put("new", b"new").is_ok());
            done += usize::from(client.connection.remove(&client.root, "f1").is_ok());
            done += usize::from(client.connection.rename((&client.root, "f2"), (&client.root, "f3")).is_ok());
        }
        done
    })
    .unwrap_or(0)
}

fn rot(disk: &Path, whole: &[u8], sector: usize) -> Result<()> {
    let mut bytes = whole.to_vec();
    bytes[sector * SECTOR..(sector + 1) * SECTOR].iter_mut().for_each(|byte| *byte ^= 0x5a);
    Ok(std::fs::write(disk, bytes)?)
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}
