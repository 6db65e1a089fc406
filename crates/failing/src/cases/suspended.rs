//! The disk of the data refuses flushes for a while. The pool was suspended for good: its clients waited until somebody had
//! exported it, which ended with an error, and imported it. `pool clear` goes on when the disk is well again. What was
//! acknowledged is there, also after a crash behind it; and whoever wrote unstably hears by the verifier that it is gone, as the
//! flush that failed says nothing of what lay before it.

use anyhow::{Context, Result, ensure};
use tally_bench::wire::Stable;

use super::{Given, MIB};
use crate::server::{Place, noise, said};

const FILES: u64 = 20;

pub(super) fn run(given: Given<'_>) -> Result<()> {
    let mut place = Place::new(given.binary, &[("a", 256 * MIB), ("l", 64 * MIB)], 600)?;
    place.start()?;
    place.must(&["pool", "create", "p", &place.disk("a"), "log", &place.disk("l")])?;
    let mut client = place.client()?;
    (0..FILES).try_for_each(|number| client.put(&format!("f{number}"), &noise(number + 1, 30_000)))?;
    let unstable = client.connection.create(&client.root, "unstable")?;
    let written = client.connection.write(&unstable, 0, &noise(99, 50_000), Stable::Unstable)?;

    place.rule("a flush * lose")?;
    let refused = place.tally(&["dataset", "create", "p/x"])?;
    ensure!(!refused.status.success(), "a group is durable though its flush failed");
    let status = place.must(&["pool", "status"])?;
    ensure!(status.contains("SUSPENDED") && status.contains("pool clear p"), "it does not say what to do:\n{status}");
    place.rule("")?;
    let answer = said(&place.tally(&["pool", "clear", "p"])?);
    ensure!(answer.contains("pool 'p' goes on"), "it does not go on: {answer}");

    let verifier = client.connection.commit(&unstable)?;
    ensure!(verifier != written.verifier, "COMMIT says that what was unstable is durable");
    client.put("later", b"later")?;
    place.kill()?;
    place.start()?;
    let mut client = place.client()?;
    for number in 0..FILES {
        let name = format!("f{number}");
        let found = client.get(&name).with_context(|| format!("{name} was acknowledged, and is gone"))?;
        ensure!(found == noise(number + 1, 30_000), "{name} has other bytes");
    }
    ensure!(client.get("later")? == b"later", "what was acknowledged behind the resume is not there");
    Ok(())
}
