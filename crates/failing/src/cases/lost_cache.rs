//! The log's ring lies in the pool. A durable write of it fails, and the disk's cache goes with it: data that was
//! written ahead of its group is lost. The next flush succeeded and was believed, COMMIT was answered OK, and after a
//! power cut the file was wrong.

use anyhow::{Result, ensure};
use tally_bench::wire::Stable;

use super::{Given, MIB};
use crate::server::{PATIENCE, Place, noise, within};

const PIECES: u64 = 32;
const PIECE: usize = 1 << 20;

pub(super) fn run(given: Given<'_>) -> Result<()> {
    let mut place = Place::new(given.binary, &[("a", 512 * MIB)], 600)?;
    place.start()?;
    place.must(&["pool", "create", "p", &place.disk("a")])?;
    let (mut writer, mut other) = (place.client()?, place.client()?);
    let file = writer.connection.create(&writer.root, "streamed")?;
    for number in 0..PIECES {
        writer.connection.write(&file, number * PIECE as u64, &noise(number + 1, PIECE), Stable::Unstable)?;
    }
    place.rule("a durable * lose 1")?;
    let root = other.root.clone();
    let _ = within(PATIENCE, move || other.connection.create(&root, "meets").map(drop));
    let committed = within(PATIENCE, move || writer.connection.commit(&file)).is_some_and(|answer| answer.is_ok());
    let status = place.must(&["pool", "status"])?;
    place.kill()?;
    place.rule("")?;
    if !committed {
        return Ok(());
    }
    place.start()?;
    let found = place.client().and_then(|mut client| client.get("streamed"));
    let expected: Vec<u8> = (0..PIECES).flat_map(|number| noise(number + 1, PIECE)).collect();
    let right = found.as_ref().is_ok_and(|data| *data == expected);
    ensure!(
        right,
        "COMMIT was answered OK, and the file is wrong ({}); `pool status` had said:\n{status}",
        found.err().map_or_else(|| "other bytes".to_owned(), |error| format!("{error:#}"))
    );
    Ok(())
}
