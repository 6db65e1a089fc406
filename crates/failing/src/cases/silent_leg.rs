//! A leg of a mirrored log hangs: it neither answers nor fails. A CREATE was answered after two minutes, and `status`
//! called the leg ONLINE, with no errors, all the while. Until it is struck off (`hung-leg`) whoever looks is told which leg has
//! been silent, and for how long; and one that answers before that is as good as before.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Given, MIB};
use crate::server::{PATIENCE, Place, within};

/// So long it is silent before anybody looks.
const SILENCE: Duration = Duration::from_secs(7);

pub(super) fn run(given: Given<'_>) -> Result<()> {
    let mut place = Place::new(given.binary, &[("a", 256 * MIB), ("l", 64 * MIB), ("m", 64 * MIB)], 5)?;
    place.start()?;
    let (leg, other, data) = (place.disk("m"), place.disk("l"), place.disk("a"));
    place.must(&["pool", "create", "p", &data, "log", "mirror", &other, &leg])?;
    let mut client = place.client()?;
    client.put("before", b"1")?;
    place.rule("m durable 262144-66846720 hang")?;
    let root = client.root.clone();
    let (sender, created) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(client.connection.create(&root, "during").map(drop)));
    std::thread::sleep(SILENCE);
    let status = within_status(&place)?;
    let log = place.log();
    place.rule("")?;
    let answer = created.recv_timeout(PATIENCE).context("the CREATE is not answered though the leg is back")?;
    answer.context("the leg came back, and the CREATE failed")?;
    ensure!(tells(&status, &leg), "`pool status` does not say that {leg} is silent, and for how long:\n{status}");
    ensure!(!tells(&status, &other), "`pool status` says so of {other}, which is not:\n{status}");
    ensure!(tells(&log, &leg), "the log does not say that {leg} is silent, and for how long:\n{log}");
    Ok(())
}

/// The status, which must not hang with the leg.
fn within_status(place: &Place) -> Result<String> {
    let child = place.spawn(&["pool", "status", "-v"])?;
    let output = within(PATIENCE, move || child.wait_with_output()).context("`pool status` hangs with the leg")??;
    Ok(crate::server::said(&output))
}

/// Whether a line names this leg and a number of seconds, or the line behind it does.
fn tells(text: &str, leg: &str) -> bool {
    let name = leg.rsplit('/').next().unwrap_or(leg);
    let is_long = |count: &str| count.parse::<f64>().is_ok_and(|count| count >= 1.0);
    // For people `3 s`, and in a field of the log `seconds=3`.
    let seconds = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.windows(2).any(|pair| is_long(pair[0]) && pair[1].starts_with('s'))
            || words.iter().filter_map(|word| word.strip_prefix("seconds=")).any(is_long)
    };
    let names = |line: &str| line.contains(leg) || line.contains(&format!("bad/{name}"));
    text.lines().any(|line| names(line) && seconds(line))
}
