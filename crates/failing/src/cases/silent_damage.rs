//! A block has rotted, somebody has met it, and then the disk hangs. `pool status` looks for the paths of what is
//! damaged, which reads directories: it waited for the disk, for ever, and so did every `pool status` after it. Whoever
//! asks what is the matter is answered while it is the matter: with what was met, and a word that nobody could look for
//! its name. That is said of the pool whose disk hangs. A second pool, damaged as well, had been left no time to look
//! by the first, and its disks, which had not been asked, were said not to have answered.
//!
//! A file that knows its name is named without that. So the one that is looked for has lost its newest name, and knows none.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Given, MIB};
use crate::server::{PATIENCE, Place, noise, said, within};

/// Within this time whoever only looks is answered.
const AT_ONCE: Duration = Duration::from_secs(5);
const FOLDERS: u64 = 8;

pub(super) fn run(given: Given<'_>) -> Result<()> {
    let mut place = Place::new(given.binary, &[("a", 256 * MIB), ("b", 64 * MIB)], 1)?;
    place.start()?;
    place.must(&["pool", "create", "p", &place.disk("a")])?;
    place.create_another("q", &[&place.disk("b")])?;
    let [content, other] = [1, 2].map(|number| noise(number, 100_000));
    let mut client = place.client()?;
    let root = client.root.clone();
    for folder in 0..FOLDERS {
        client.root = client.connection.mkdir(&root, &format!("d{folder}"))?;
        (0..300).try_for_each(|file| client.put(&format!("f{file}"), b"small"))?;
    }
    client.put("rotten", &content)?;
    let file = client.connection.lookup(&client.root, "rotten")?;
    client.connection.link(&file, &client.root, "newest")?;
    client.connection.remove(&client.root, "newest")?;
    place.client_of("q")?.put("other-rotten", &other)?;
    drop(client);
    place.stop()?;
    rot(&place, "a", &content)?;
    rot(&place, "b", &other)?;

    place.start()?;
    let mut client = place.client()?;
    client.root = client.connection.lookup(&root, &format!("d{}", FOLDERS - 1))?;
    ensure!(client.get("rotten").is_err(), "the rotten block is read as if it were right");
    ensure!(place.client_of("q")?.get("other-rotten").is_err(), "the other one is");
    place.rule("a read * hang\n")?;
    for words in [&["pool", "status"][..], &["pool", "status", "-v"], &["pool", "status", "--json"]] {
        let child = place.spawn(words)?;
        let output = within(AT_ONCE, move || child.wait_with_output());
        let words = words.join(" ");
        let answer = said(&output.with_context(|| format!("`tally {words}` hangs with the disk"))??);
        ensure!(
            answer.matches("the disks did not answer").count() == 1,
            "`tally {words}` does not say of one pool, and of that alone, that its disks did not answer:\n{answer}"
        );
        let is_named = answer.contains("/other-rotten") || !words.contains(" -");
        ensure!(is_named, "`tally {words}` does not name the file of the pool whose disk answers:\n{answer}");
    }
    place.rule("")?;
    let found = within(PATIENCE, move || {
        std::iter::repeat_with(|| place.must(&["pool", "status", "-v"]))
            .find(|answer| answer.as_ref().map_or(true, |answer| answer.contains("/rotten")))
    });
    found.flatten().context("the disk is back, and the file is not named")?.map(drop)
}

/// A bit of what begins so is another from now on.
fn rot(place: &Place, disk: &str, content: &[u8]) -> Result<()> {
    let mut whole = std::fs::read(place.below(disk))?;
    let at = whole.windows(64).position(|bytes| *bytes == content[..64]).context("the file is nowhere on the disk")?;
    whole[at] ^= 0x5a;
    Ok(std::fs::write(place.below(disk), whole)?)
}
