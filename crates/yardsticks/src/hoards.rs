//! Clients of NFSv4 that take as much state as they are given (rules V35), against the real binary: what they are told, what the server holds for them, and what an
//! honest client notices.
//!
//! Each hoard has a server of its own, and asks a million times from one address, over several connections, for something that it never gives back. An
//! honest client with another address makes its durable requests beside it, at its own pace. What it waits for is held against what it waits for beside as many who ask
//! for nothing that is kept, as attackers and server share this machine's processors. Memory may grow by [`GROWN_BYTES_MAX`]; and whoever asks for more than there is has to be told an error that
//! says so.

mod honest;
mod ways;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use tally_bench::wire::{Connection, Target};

use crate::attacks::server::Server;
use honest::{Honest, Times};
use ways::{HARMLESS, Hoarder, WAYS, Way};

/// What a hoard may make the process hold.
const GROWN_BYTES_MAX: u64 = 64 << 20;
/// How much longer an honest client's slowest hundredth may take.
const SLOWER_MAX: f64 = 2.0;
/// Between two looks at the memory.
const LOOK: Duration = Duration::from_millis(50);
/// Where they come from.
const HOARDERS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// More than takes a thread of any priority, as nice(2) counts it, to where it runs when nobody else wants to.
const LAST_IN_TURN: i32 = 39;
const MIB: u64 = 1 << 20;

/// What `hoards` takes.
#[derive(Args)]
pub struct Options {
    /// Only those with one of these words in their names.
    names: Vec<String>,
    /// How often each asks.
    #[arg(long, default_value_t = 1_000_000)]
    requests: u64,
    /// Over how many connections.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// A `tally` to ask, instead of this tree's release build.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// What came of one.
struct Outcome {
    time: Duration,
    told: BTreeMap<u32, u64>,
    grown_bytes: u64,
    honest: Times,
}

impl Options {
    /// Runs all, prints a table, and fails if a bar was missed.
    pub fn run(&self) -> Result<()> {
        let chosen = self.chosen()?;
        let control = self.hoard(&HARMLESS)?;
        tell(HARMLESS.name, &control);
        let mut missed = Vec::new();
        for way in chosen {
            let without_bytes = way.beside.map(|beside| self.grown_bytes(beside)).transpose()?.unwrap_or_default();
            let outcome = self.hoard(way)?;
            tell(way.name, &outcome);
            let held_bytes = outcome.grown_bytes.saturating_sub(without_bytes);
            if held_bytes > GROWN_BYTES_MAX {
                missed.push(format!("{}: {} MiB", way.name, held_bytes / MIB));
            }
            if !outcome.honest.is_like(&control.honest, SLOWER_MAX) {
                missed.push(format!("{}: slower than {SLOWER_MAX} times beside who asks for nothing", way.name));
            }
            let refusals = outcome.told.keys().filter(|status| **status != 0).count();
            if refusals == 0 && way.is_refused {
                missed.push(format!("{}: nothing was refused", way.name));
            }
        }
        missed.iter().for_each(|missed| println!("MISSED: {missed}"));
        ensure!(missed.is_empty(), "{} bars were missed", missed.len());
        Ok(())
    }

    /// What a server has grown by.
    fn grown_bytes(&self, way: &Way) -> Result<u64> {
        let outcome = self.hoard(way)?;
        tell(way.name, &outcome);
        Ok(outcome.grown_bytes)
    }

    fn chosen(&self) -> Result<Vec<&'static Way>> {
        let is_chosen =
            |way: &&Way| self.names.is_empty() || self.names.iter().any(|word| way.name.contains(word.as_str()));
        let chosen: Vec<_> = WAYS.iter().filter(is_chosen).collect();
        if chosen.is_empty() {
            bail!("there are: {}", WAYS.map(|way| way.name).join(", "));
        }
        Ok(chosen)
    }

    fn hoard(&self, way: &Way) -> Result<Outcome> {
        let mut server = Server::start(self.binary.as_deref())?;
        self.hoard_of(way, &server).map_err(|error| match server.last_words() {
            Ok(words) => error.context(words),
            Err(_) => error,
        })
    }

    fn hoard_of(&self, way: &Way, server: &Server) -> Result<Outcome> {
        let mut honest = Honest::begin(&server.target)?;
        let before = server.resident_bytes()?;
        let (done, peak) = (AtomicBool::new(false), AtomicU64::new(before));
        let began = Instant::now();
        let (told, honest) = std::thread::scope(|scope| {
            let works = scope.spawn(|| honest.work(&done));
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    peak.fetch_max(server.resident_bytes().unwrap_or_default(), Ordering::Relaxed);
                    std::thread::sleep(LOOK);
                }
            });
            let told = self.ask(way, &server.target);
            done.store(true, Ordering::Relaxed);
            let honest = works.join().unwrap_or_else(|_| bail!("the honest client panicked"));
            anyhow::Ok((told?, honest?))
        })?;
        peak.fetch_max(server.resident_bytes()?, Ordering::Relaxed);
        let grown_bytes = peak.into_inner().saturating_sub(before);
        Ok(Outcome { time: began.elapsed(), told, grown_bytes, honest })
    }

    /// How often they were told what.
    fn ask(&self, way: &Way, target: &Target) -> Result<BTreeMap<u32, u64>> {
        let (next, all) = (AtomicU64::new(0), Mutex::new(BTreeMap::new()));
        let shared = ways::Shared::new(target)?;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.connections)
                .map(|_| {
                    scope.spawn(|| {
                        // They have machines of their own; here they take what the server and the honest client leave of this one.
                        let _ = rustix::process::nice(LAST_IN_TURN);
                        let mut hoarder = Hoarder::new(Connection::open_from(target.nfs, HOARDERS)?, &shared)?;
                        let mut told = BTreeMap::<u32, u64>::new();
                        loop {
                            let number = next.fetch_add(1, Ordering::Relaxed);
                            if number >= self.requests / way.fewer {
                                break;
                            }
                            *told.entry((way.ask)(&mut hoarder, number)?).or_default() += 1;
                        }
                        let mut all = all.lock().ok().context("another one panicked")?;
                        told.into_iter().for_each(|(status, count)| *all.entry(status).or_default() += count);
                        anyhow::Ok(())
                    })
                })
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| bail!("a hoarder panicked")))
        })?;
        all.into_inner().ok().context("a hoarder panicked")
    }
}

fn tell(name: &str, outcome: &Outcome) {
    let total: u64 = outcome.told.values().sum();
    println!(
        "{name:24} {total:9} in {:6.1} s, {:4} MiB more, {}",
        outcome.time.as_secs_f64(),
        outcome.grown_bytes / MIB,
        outcome.honest
    );
    let told: Vec<_> = outcome.told.iter().map(|(status, count)| format!("{} {count}", ways::named(*status))).collect();
    println!("{:24} told: {}", "", told.join(", "));
}
