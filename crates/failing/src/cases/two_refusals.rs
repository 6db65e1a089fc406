//! A log mirror of two. Leg m refuses one uberblock, and the labels strike it off; the lane was not told. Hours later
//! leg l refuses one frame: the lane went on alone on m, which the labels disown, and acknowledged. After a power cut
//! 200 of 300 acknowledged files were gone, and no loss was named.

use anyhow::{Result, ensure};

use super::{Given, MIB};
use crate::server::Place;

/// Where a label's uberblocks lie.
const UBERBLOCKS: &str = "131072-196608";
const FILES: usize = 300;
/// So many are made before l refuses.
const BEFORE: usize = 100;

pub(super) fn run(given: Given<'_>) -> Result<()> {
    // Nobody but this case asks for a group.
    let mut place = Place::new(given.binary, &[("a", 256 * MIB), ("l", 64 * MIB), ("m", 64 * MIB)], 600)?;
    place.start()?;
    place.must(&["pool", "create", "p", &place.disk("a"), "log", "mirror", &place.disk("l"), &place.disk("m")])?;
    place.rule(&format!("m durable {UBERBLOCKS} fail 1\nm write {UBERBLOCKS} fail 1"))?;
    // A group, and with it an uberblock on every leg.
    place.must(&["dataset", "create", "p/child"])?;
    let mut client = place.client()?;
    let mut acknowledged = Vec::new();
    for number in 0..FILES {
        if number == BEFORE {
            place.rule("l durable 262144-66846720 fail 1")?;
        }
        let name = format!("f{number}");
        if client.put(&name, name.as_bytes()).is_ok() {
            acknowledged.push(name);
        }
    }
    ensure!(acknowledged.len() >= BEFORE, "{} files are made while only one leg is gone", acknowledged.len());
    place.kill()?;
    place.rule("")?;
    place.start()?;
    let list = place.must(&["pool", "list"])?;
    let log = place.log();
    let Ok(mut client) = place.client() else {
        // Refused: nothing is lost silently, and somebody has to look.
        ensure!(
            log.contains("loss") || log.contains("missing") || log.contains("refus"),
            "no pool, and no reason:\n{list}\n{log}"
        );
        return Ok(());
    };
    let gone = acknowledged.iter().filter(|name| client.get(name).ok().as_deref() != Some(name.as_bytes())).count();
    let status = place.must(&["pool", "status", "-v"])?;
    let named = status.contains("lost") || log.contains("acknowledged changes are lost");
    ensure!(
        gone == 0 || named,
        "{gone} of {} acknowledged files are gone, and nobody says so:\n{status}\n{log}",
        acknowledged.len()
    );
    Ok(())
}
