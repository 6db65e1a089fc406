//! A leg hangs for good: it neither answers nor fails. Every change waited for it as long as that took. After the limit it is
//! struck off, a client has only waited, and whoever looks is told why. It is not taken back before it has answered. Where there
//! is no limit, one is set because it hangs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::silent_end::rules;
use super::{Given, MIB};
use crate::server::{PATIENCE, Place, said, within};

/// The data's own mirror, which has the log too, and a log device of two legs; which of them hangs, and whether there is a limit
/// before.
const POOLS: [(&[&str], &str, bool); 2] =
    [(&["mirror", "a", "b"], "b", true), (&["a", "log", "mirror", "l", "m"], "m", false)];

/// Long enough to see that somebody waits.
const WHILE: Duration = Duration::from_millis(1500);

pub(super) fn run(given: Given<'_>) -> Result<()> {
    for (vdevs, hangs, is_limited) in POOLS {
        one_pool(given, vdevs, hangs, is_limited).with_context(|| format!("in a pool of {}", vdevs.join(" ")))?;
    }
    Ok(())
}

fn one_pool(given: Given<'_>, vdevs: &[&str], hangs: &str, is_limited: bool) -> Result<()> {
    let disks: Vec<(&str, u64)> = vdevs.iter().filter(|word| word.len() == 1).map(|name| (*name, 128 * MIB)).collect();
    let mut place = Place::new(given.binary, &disks, 2)?;
    place.start()?;
    let words = vdevs.iter().map(|word| if word.len() == 1 { place.disk(word) } else { (*word).to_owned() });
    let words: Vec<String> = ["pool", "create", "p"].map(str::to_owned).into_iter().chain(words).collect();
    place.must(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
    place.client()?.put("before", b"before")?;
    if !is_limited {
        place.must(&["pool", "set", "hang_limit=off", "p"])?;
    }
    place.rule(&rules(hangs))?;
    let mut client = place.client()?;
    let (sender, created) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(client.put("during", b"during")));
    if !is_limited {
        ensure!(created.recv_timeout(WHILE).is_err(), "a client was answered while a leg hung, without a limit");
        let set = answer(&place, &["pool", "set", "hang_limit=1", "p"])?;
        ensure!(set.0, "a limit cannot be set while a leg hangs:\n{}", set.1);
    }
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
        std::thread::sleep(Duration::from_millis(200));
    }
    let began = Instant::now();
    while !place.must(&["pool", "status", "-x"])?.contains("healthy") {
        ensure!(began.elapsed() < PATIENCE, "it is not well again:\n{}", place.must(&["pool", "status", "-v"])?);
        std::thread::sleep(Duration::from_millis(200));
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
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn answer(place: &Place, words: &[&str]) -> Result<(bool, String)> {
    let child = place.spawn(words)?;
    let output = within(PATIENCE, move || child.wait_with_output());
    let output = output.with_context(|| format!("`tally {}` hangs with the leg", words.join(" ")))??;
    Ok((output.status.success(), said(&output)))
}
