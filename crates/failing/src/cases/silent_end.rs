//! A disk hangs, and somebody wants the pool exported or the server to end. `pool export` waited for the disk without a
//! word, with the daemon's only thread for commands, so that SIGTERM was not even seen; and after SIGTERM nothing was
//! said and nothing ended. Whoever looks is answered at once; an export is refused by a sentence that names the disk;
//! SIGTERM says what it waits for, and ends by itself when the disk has been silent for too long. A second one ends at
//! once. All of it over a leg of the log and over the disk of the data, and what was acknowledged is there afterwards.
//!
//! The half minute after which the server leaves is for the disk that keeps the end from going on. Where the export of
//! one pool took as long, over disks that answer, a disk of another pool that hung beside it cut that export off: the
//! next start replayed, and what datasets with `sync=disabled` had been told was lost with disks that had nothing.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{Given, MIB};
use crate::server::{PATIENCE, Place, said, within};

/// So long a disk is silent before anybody does anything: more than after which it is called silent.
pub(super) const SILENCE: Duration = Duration::from_secs(5);
/// Within this time whoever only looks is answered.
const AT_ONCE: Duration = Duration::from_secs(3);
/// Behind its last words the process is no more than what hangs in the kernel.
const LEFT: Duration = Duration::from_secs(1);
/// How long a server that was told to end waits for a disk that is silent, and some more for a busy machine.
pub(super) const END: Duration = Duration::from_secs(45);

/// The disk answers, late; an export has some flushes and durable writes, one after the other.
const SLOW: &str = "slow flush * sleep:5000\nslow durable * sleep:3000\n";
/// How long such an export may take, and what comes after it.
const SLOW_END: Duration = Duration::from_secs(60);
/// No group is synced by the time that has passed.
pub(super) const TXG_SECONDS_NEVER: u32 = 600;

/// A leg of the log, and the disk of the data: each of them as disks hang, with whatever they are asked.
const HANGS: [&str; 2] = ["m", "a"];

/// Commands, and two SIGTERMs.
pub(super) fn run(given: Given<'_>) -> Result<()> {
    let mut place = place(given)?;
    for hang in HANGS {
        let story = commands(&place, hang).and_then(|()| leaves_at_once(&mut place, hang));
        story.with_context(|| format!("while {hang} hangs"))?;
    }
    Ok(())
}

/// One SIGTERM, while the daemon's own thread is at an export that had begun before the disk was called silent.
pub(super) fn run_with_one_signal(given: Given<'_>) -> Result<()> {
    let mut place = place(given)?;
    let hang = HANGS[0];
    place.client()?.put(&format!("kept-{hang}"), hang.as_bytes())?;
    place.rule(&rules(hang))?;
    let _export = place.spawn(&["pool", "export", "p"])?;
    std::thread::sleep(SILENCE);
    place.terminate()?;
    leaves(&mut place, END)?;
    comes_back(&mut place, hang)
}

/// One SIGTERM, and the pool that is exported first takes its time, while a disk of the other one hangs.
pub(super) fn run_beside_a_slow_export(given: Given<'_>) -> Result<()> {
    let disks = [("slow", 64 * MIB), ("b", 64 * MIB), ("l", 64 * MIB), ("m", 64 * MIB)];
    let mut place = Place::new(given.binary, &disks, TXG_SECONDS_NEVER)?;
    place.start()?;
    let [slow, data, one, other] = ["slow", "b", "l", "m"].map(|name| place.disk(name));
    place.must(&["pool", "create", "p", &slow])?;
    place.must(&["dataset", "set", "sync=disabled", "p"])?;
    place.create_another("q", &[&data, "log", "mirror", &one, &other])?;
    place.must(&["pool", "set", "hang_limit=off", "q"])?;
    place.client()?.put("in-memory", b"told, and on no disk")?;
    place.rule(&(rules("m") + SLOW))?;
    let mut client = place.client_of("q")?;
    std::thread::spawn(move || client.put("cut-off", b""));
    std::thread::sleep(SILENCE);
    place.terminate()?;
    leaves(&mut place, SLOW_END)?;
    let log = place.log();
    ensure!(log.contains("Pool 'q' was not exported"), "a pool whose disk hangs was exported, it seems:\n{log}");
    ensure!(!log.contains("Pool 'p'"), "a pool whose disks answer was not exported:\n{log}");
    place.start()?;
    ensure!(place.client()?.get("in-memory")? == b"told, and on no disk", "what 'p' had in memory is lost");
    Ok(())
}

fn place(given: Given<'_>) -> Result<Place> {
    let mut place = Place::new(given.binary, &[("a", 256 * MIB), ("l", 64 * MIB), ("m", 64 * MIB)], 1)?;
    place.start()?;
    let [data, one, other] = ["a", "l", "m"].map(|name| place.disk(name));
    place.must(&["pool", "create", "p", &data, "log", "mirror", &one, &other])?;
    // The end has to be left also where nobody leaves the disk.
    place.must(&["pool", "set", "hang_limit=off", "p"])?;
    place.client()?.put("before", b"before")?;
    Ok(place)
}

/// Whoever looks is answered, an export is refused, and when the disk is back everything goes on.
fn commands(place: &Place, hang: &str) -> Result<()> {
    let created = silence(place, hang, "looked")?;
    for words in [&["pool", "status"][..], &["pool", "status", "-v"], &["pool", "list"], &["dataset", "list"]] {
        let child = place.spawn(words)?;
        let output = within(AT_ONCE, move || child.wait_with_output());
        output.with_context(|| format!("`tally {}` hangs with the disk", words.join(" ")))??;
    }
    let child = place.spawn(&["pool", "export", "p"])?;
    let export = within(PATIENCE, move || child.wait_with_output()).context("`pool export` hangs with the disk")??;
    let words = said(&export);
    ensure!(!export.status.success(), "`pool export` says that it has exported over a disk that hangs:\n{words}");
    let disk = place.disk(hang);
    ensure!(words.contains(&disk), "`pool export` does not say that it is for {disk}:\n{words}");
    place.rule("")?;
    answered(&created)?;
    ensure!(place.client()?.get("before")? == b"before", "the pool is not served any more after a refused export");
    Ok(())
}

/// Two SIGTERMs.
fn leaves_at_once(place: &mut Place, hang: &str) -> Result<()> {
    place.client()?.put(&format!("kept-{}", hang), hang.as_bytes())?;
    place.forget_log()?;
    let _created = silence(place, hang, "cut-off")?;
    place.terminate()?;
    std::thread::sleep(SILENCE);
    let (log, disk) = (place.log(), place.disk(hang));
    ensure!(log.contains("waiting for") && log.contains(&disk), "nobody says what the end waits for:\n{log}");
    place.terminate()?;
    leaves(place, AT_ONCE)?;
    comes_back(place, hang)
}

/// The server leaves in time, and says so. Its process ends when the disk answers and no sooner: what hangs in the
/// kernel cannot be ended, and keeps it.
pub(super) fn leaves(place: &mut Place, patience: Duration) -> Result<()> {
    let began = Instant::now();
    while !place.log().contains("leaving at once") {
        ensure!(began.elapsed() < patience, "the server does not leave within {patience:?}:\n{}", place.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(LEFT);
    place.rule("")?;
    let status = place.ended(AT_ONCE)?.context("the server said that it leaves, and did not")?;
    ensure!(!status.success(), "the server says that it ended well, without the export");
    let log = place.log();
    ensure!(log.contains("next start replays"), "the last words do not say what the next start does:\n{log}");
    Ok(())
}

/// The next start replays.
fn comes_back(place: &mut Place, hang: &str) -> Result<()> {
    place.start()?;
    let mut client = place.client()?;
    ensure!(client.get("before")? == b"before", "a file of before the hang is not as it was");
    let kept = client.get(&format!("kept-{}", hang))?;
    ensure!(kept == hang.as_bytes(), "an acknowledged file is not as it was");
    Ok(())
}

pub(super) fn rules(disk: &str) -> String {
    ["read", "write", "flush"].map(|request| format!("{disk} {request} * hang\n")).concat()
}

/// Makes the disk hang, over a CREATE whose answer is given back, and waits.
fn silence(place: &Place, hang: &str, name: &str) -> Result<Receiver<Result<()>>> {
    let mut client = place.client()?;
    place.rule(&rules(hang))?;
    let (sender, created) = channel();
    let name = format!("{name}-{}", hang);
    std::thread::spawn(move || sender.send(client.connection.create(&client.root, &name).map(drop)));
    std::thread::sleep(SILENCE);
    Ok(created)
}

fn answered(created: &Receiver<Result<()>>) -> Result<()> {
    let answer = created.recv_timeout(PATIENCE).context("the CREATE is not answered though the disk is back")?;
    answer.context("the disk came back, and the CREATE failed")
}
