//! A block has rotted, somebody has met it, and then the disk hangs. `pool status` looks for the paths of what is
//! damaged, which reads directories: it waited for the disk, for ever, and so did every `pool status` after it. Whoever
//! asks what is the matter is answered while it is the matter: with what was met, and a word that nobody could look for
//! its name.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Given, MIB};
use crate::server::{PATIENCE, Place, noise, said, within};

/// Within this time whoever only looks is answered.
const AT_ONCE: Duration = Duration::from_secs(5);
const FOLDERS: u64 = 8;

pub(super) fn run(given: Given<'_>) -> Result<()> {
    let mut place = Place::new(given.binary, &[("a", 256 * MIB)], 1)?;
    place.start()?;
    place.must(&["pool", "create", "p", &place.disk("a")])?;
    let content = noise(1, 100_000);
    let mut client = place.client()?;
    let root = client.root.clone();
    for folder in 0..FOLDERS {
        client.root = client.connection.mkdir(&root, &format!("d{folder}"))?;
        (0..300).try_for_each(|file| client.put(&format!("f{file}"), b"small"))?;
    }
    client.put("rotten", &content)?;
    drop(client);
    place.stop()?;
    let mut whole = std::fs::read(place.below("a"))?;
    let at = whole.windows(64).position(|bytes| *bytes == content[..64]).context("the file is nowhere on the disk")?;
    whole[at] ^= 0x5a;
    std::fs::write(place.below("a"), whole)?;

    place.start()?;
    let mut client = place.client()?;
    client.root = client.connection.lookup(&root, &format!("d{}", FOLDERS - 1))?;
    ensure!(client.get("rotten").is_err(), "the rotten block is read as if it were right");
    place.rule("a read * hang\n")?;
    for words in [&["pool", "status"][..], &["pool", "status", "-v"], &["pool", "status", "--json"]] {
        let child = place.spawn(words)?;
        let output = within(AT_ONCE, move || child.wait_with_output());
        let words = words.join(" ");
        let answer = said(&output.with_context(|| format!("`tally {words}` hangs with the disk"))??);
        ensure!(
            answer.contains("the disks did not answer"),
            "`tally {words}` does not say what it could not find:\n{answer}"
        );
    }
    place.rule("")?;
    let found = within(PATIENCE, move || {
        std::iter::repeat_with(|| place.must(&["pool", "status", "-v"]))
            .find(|answer| answer.as_ref().map_or(true, |answer| answer.contains("/rotten")))
    });
    found.flatten().context("the disk is back, and the file is not named")?.map(drop)
}
