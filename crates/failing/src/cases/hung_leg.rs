//! A leg hangs for good: it neither answers nor fails. Every change waited for it as long as that took. After the limit it is
//! struck off, a client has only waited, and whoever looks is told why. It is not taken back before it has answered.

use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::silent_end::rules;
use super::{Given, MIB};
use crate::server::{PATIENCE, Place, said, within};

/// The data's own mirror, which has the log too, and a log device of two legs.
const POOLS: [(&[&str], &str); 2] = [(&["mirror", "a", "b"], "b"), (&["a", "log", "mirror", "l", "m"], "m")];

pub(super) fn run(given: Given<'_>) -> Result<()> {
    for (vdevs, hangs) in POOLS {
        one_pool(given, vdevs, hangs).with_context(|| format!("in a pool of {}", vdevs.join(" ")))?;
    }
    Ok(())
}

fn one_pool(given: Given<'_>, vdevs: &[&str], hangs: &str) -> Result<()> {
    let disks: Vec<(&str, u64)> = vdevs.iter().filter(|word| word.len() == 1).map(|name| (*name, 128 * MIB)).collect();
    let mut place = Place::new(given.binary, &disks, 2)?;
    place.start()?;
    let words = vdevs.iter().map(|word| if word.len() == 1 { place.disk(word) } else { (*word).to_owned() });
    let words: Vec<String> = ["pool", "create", "p"].map(str::to_owned).into_iter().chain(words).collect();
    place.must(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
    place.client()?.put("before", b"before")?;
    place.rule(&rules(hangs))?;
    let mut client = place.client()?;
    let (sender, created) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(client.put("during", b"during")));
    created.recv_timeout(PATIENCE).context("a client waits for the leg that hangs")??;
    place.client()?.put("after", b"after")?;
    let leg = place.disk(hangs);
    tells(&place, &leg)?;
    let refused = answer(&place, &["pool", "online", "p", &leg])?;
    ensure!(!refused.0, "a leg that owes an answer was taken back:\n{}", refused.1);
    ensure!(refused.1.contains("still has a request of before to answer"), "it is not said why not:\n{}", refused.1);
    place.rule("")?;
    let began = Instant::now();
    loop {
        let taken_back = answer(&place, &["pool", "online", "p", &leg])?;
        if taken_back.0 {
            break;
        }
        ensure!(began.elapsed() < PATIENCE, "a leg that answers again is not taken back:\n{}", taken_back.1);
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let began = Instant::now();
    while !place.must(&["pool", "status", "-x"])?.contains("healthy") {
        ensure!(began.elapsed() < PATIENCE, "it is not well again:\n{}", place.must(&["pool", "status", "-v"])?);
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    place.stop()?;
    place.start()?;
    for name in ["before", "during", "after"] {
        ensure!(place.client()?.get(name)? == name.as_bytes(), "'{name}' is not as it was");
    }
    Ok(())
}

/// `status` and `events` name the leg and say why it is out, and neither hangs with it.
fn tells(place: &Place, leg: &str) -> Result<()> {
    let why = "has not answered for 1";
    let (_, status) = answer(place, &["pool", "status", "-v"])?;
    ensure!(status.contains("FAULTED"), "`pool status` calls it well:\n{status}");
    ensure!(status.contains(&format!("{leg} {why}")), "`pool status` does not say why {leg} is out:\n{status}");
    let began = Instant::now();
    loop {
        let (_, events) = answer(place, &["events"])?;
        if events.lines().any(|line| line.contains(leg) && line.contains(why)) {
            return Ok(());
        }
        ensure!(began.elapsed() < PATIENCE, "no event tells why {leg} is out:\n{events}");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
}

fn answer(place: &Place, words: &[&str]) -> Result<(bool, String)> {
    let child = place.spawn(words)?;
    let output = within(PATIENCE, move || child.wait_with_output());
    let output = output.with_context(|| format!("`tally {}` hangs with the leg", words.join(" ")))??;
    Ok((output.status.success(), said(&output)))
}
