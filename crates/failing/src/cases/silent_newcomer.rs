//! A disk hangs before it is part of an imported pool: one that the start looks at, and one that is being attached.
//! Nobody has such a disk on a list, so nobody called it silent, and after SIGTERM nothing was said and nothing ended:
//! the start's own thread, or the end behind the copy that it had told to stop, waited for ever. The start was even
//! deaf, as it was the process's first thread that slept in the kernel, which signals go to. And the end waited for the
//! copy before it exported other pools. The server says that it waits, exports what it can, and leaves by itself.

use anyhow::{Context, Result, bail, ensure};

use super::silent_end::{END, SILENCE, TXG_SECONDS_NEVER, leaves, rules};
use super::{Given, MIB};
use crate::server::Place;

/// Both at once: each waits for half a minute.
pub(super) fn run(given: Given<'_>) -> Result<()> {
    let (start, attach) = std::thread::scope(|scope| {
        let start = scope.spawn(|| during_the_start(given).context("while the start looks at the disk"));
        let attach = attached(given).context("while the disk is attached");
        (start.join().expect("a case does not panic"), attach)
    });
    match (start, attach) {
        (Err(start), Err(attach)) => bail!("{start:#}\n{attach:#}"),
        (start, attach) => start.and(attach),
    }
}

fn during_the_start(given: Given<'_>) -> Result<()> {
    let mut place = Place::new(given.binary, &[("a", 64 * MIB)], 1)?;
    place.start()?;
    place.must(&["pool", "create", "p", &place.disk("a")])?;
    place.client()?.put("kept", b"kept")?;
    place.stop()?;
    place.rule(&rules("a"))?;
    place.start()?;
    place.terminate()?;
    ends_with_a_word(&mut place)?;
    place.start()?;
    ensure!(place.client()?.get("kept")? == b"kept", "the file is not as it was");
    Ok(())
}

fn attached(given: Given<'_>) -> Result<()> {
    let mut place =
        Place::new(given.binary, &[("a", 64 * MIB), ("new", 64 * MIB), ("b", 64 * MIB)], TXG_SECONDS_NEVER)?;
    place.start()?;
    let [data, new, other] = ["a", "new", "b"].map(|name| place.disk(name));
    place.must(&["pool", "create", "p", &data])?;
    place.create_another("q", &[&other])?;
    place.must(&["dataset", "set", "sync=disabled", "q"])?;
    place.client()?.put("kept", b"kept")?;
    place.client_of("q")?.put("in-memory", b"told, and on no disk")?;
    place.rule(&rules("new"))?;
    let _attach = place.spawn(&["pool", "attach", "p", &data, &new])?;
    std::thread::sleep(SILENCE);
    place.terminate()?;
    ends_with_a_word(&mut place)?;
    let log = place.log();
    ensure!(!log.contains("Pool 'q'"), "a pool that no copy runs on was not exported:\n{log}");
    place.start()?;
    ensure!(place.client()?.get("kept")? == b"kept", "the file is not as it was");
    ensure!(place.client_of("q")?.get("in-memory")? == b"told, and on no disk", "what 'q' had in memory is lost");
    Ok(())
}

/// The server leaves in time, and has said before that it waits.
fn ends_with_a_word(place: &mut Place) -> Result<()> {
    leaves(place, END)?;
    let log = place.log();
    ensure!(log.contains("tally: waiting for"), "nobody says that the end waits for something:\n{log}");
    Ok(())
}
