//! Hostile hosts against the real binary: what a good client notices of them, and what they cost.
//!
//! Each attack stands while a good client works, alone and together with all others, from one address and from five. The
//! good client's requests must stay within [`SLOWER_MAX`] of what they take on the quiet server, or on one beside it
//! that nobody attacks: the attackers run here as well, and take the processors of both. The process must stay within
//! [`BESIDE_ACCOUNT_BYTES_MAX`] of what its own account says (docs/design/0022), a new client must be served, and a
//! second after the attack, and a minute after the last, everything must be as before. `crates/nfs/tests/attacks.rs` is
//! the same in small, without a clock.

pub(crate) mod server;
mod strangers;
mod worker;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Args;
use tally_bench::wire::Connection;

use server::Server;
use strangers::{ALL, Attack};
use worker::{Times, Worker};

/// How much longer a good client's slowest hundredth may take.
const SLOWER_MAX: f64 = 2.0;
/// A request below this is answered at once, whatever the quiet server took: a thread that is not on a processor.
const AT_ONCE: Duration = Duration::from_millis(5);
/// What the process may hold beside what it says that requests and replies hold, and what it had before.
const BESIDE_ACCOUNT_BYTES_MAX: u64 = 64 << 20;
/// Until an attack stands, and until everything is as before.
const PAUSE: Duration = Duration::from_secs(1);
/// After the last attack, until memory has to be back.
const IDLE: Duration = Duration::from_secs(60);
const ADDRESS_COUNTS: [u8; 2] = [1, 5];
/// The servers that the good client works on in turns.
const WHOSE: [&str; 2] = ["the server", "a server beside it that nobody attacks"];
const MIB: u64 = 1 << 20;

/// What `attacks` takes.
#[derive(Args)]
pub struct Options {
    /// Only attacks with one of these words in their names.
    names: Vec<String>,
    /// None of them alone, only all at once.
    #[arg(long)]
    together: bool,
    /// How long the good client works in each phase: of what it does in two seconds, a hundredth is two WRITEs.
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// A `tally` to attack, instead of this tree's release build.
    #[arg(long)]
    binary: Option<std::path::PathBuf>,
}

impl Options {
    /// Runs all, prints a table, and fails if a bar was missed.
    pub fn run(&self) -> Result<()> {
        let chosen = self.chosen()?;
        server::raise_open_files()?;
        let [server, bystander] = [(); 2].map(|()| Server::start(self.binary.as_deref()));
        let (server, bystander) = (server?, bystander?);
        worker::first_in_turn();
        let mut workers = [Worker::begin(&server.target)?, Worker::begin(&bystander.target)?];
        let time = Duration::from_secs(self.seconds);
        worker::work(&mut workers, time)?;
        let quiet = worker::work(&mut workers, time)?;
        let mut bench = Bench { server, _bystander: bystander, workers, time, quiet, missed: Vec::new() };
        let quiet_bytes = bench.server.resident_bytes()?;
        bench.quiet.iter().zip(WHOSE).for_each(|(times, whose)| println!("{:44} {times}", format!("quiet, {whose}")));
        let attacked = bench.attack_all(&chosen, quiet_bytes).and_then(|()| bench.doors());
        if let Err(error) = attacked {
            return Err(error.context(bench.server.last_words()?));
        }
        std::thread::sleep(IDLE);
        let kept = bench.server.resident_bytes()?.saturating_sub(quiet_bytes);
        println!("a minute later {} MiB more than before", kept / MIB);
        bench.expect(kept <= BESIDE_ACCOUNT_BYTES_MAX, || "memory did not go back".into());
        for missed in &bench.missed {
            println!("MISSED: {missed}");
        }
        ensure!(bench.missed.is_empty(), "{} bars were missed", bench.missed.len());
        Ok(())
    }

    /// Each alone, then all at once.
    fn chosen(&self) -> Result<Vec<Vec<Attack>>> {
        let is_known = |word: &&String| ALL.iter().any(|attack| attack.name.contains(word.as_str()));
        if let Some(word) = self.names.iter().find(|word| !is_known(word)) {
            let names: Vec<_> = ALL.iter().map(|attack| attack.name).collect();
            bail!("no attack is called {word:?}; there are: {}. Without a name all are run", names.join(", "));
        }
        let is_chosen = |attack: &&Attack| {
            self.names.is_empty() || self.names.iter().any(|word| attack.name.contains(word.as_str()))
        };
        let chosen: Vec<Attack> = ALL.iter().filter(is_chosen).copied().collect();
        if self.together {
            return Ok(vec![chosen]);
        }
        let together = (chosen.len() > 1).then(|| chosen.clone());
        Ok(chosen.into_iter().map(|attack| vec![attack]).chain(together).collect())
    }
}

struct Bench {
    server: Server,
    /// Attacked by nobody, on the same machine: what its client waits for is the machine's.
    _bystander: Server,
    workers: [Worker; 2],
    time: Duration,
    quiet: [Times; 2],
    missed: Vec<String>,
}

impl Bench {
    fn attack_all(&mut self, chosen: &[Vec<Attack>], quiet_bytes: u64) -> Result<()> {
        for attacks in chosen {
            for addresses in ADDRESS_COUNTS {
                self.attack(attacks, addresses, quiet_bytes)?;
            }
        }
        Ok(())
    }

    fn attack(&mut self, attacks: &[Attack], addresses: u8, quiet_bytes: u64) -> Result<()> {
        let name = if let [attack] = attacks { attack.name } else { "all at once" };
        let label = format!("{name}, {addresses} address(es)");
        let done = AtomicBool::new(false);
        let stage = strangers::Stage::new(&self.server.target, &self.workers[0], addresses);
        let (server, workers, time) = (&self.server, &mut self.workers, self.time);
        let (during, memory) = std::thread::scope(|scope| {
            for attack in attacks {
                scope.spawn(|| stage.keep_up(attack, &done));
            }
            std::thread::sleep(PAUSE);
            let memory = scope.spawn(|| beside_account(server, time));
            let during = worker::work(workers, time).and_then(|times| Ok((times, new_client(server)?)));
            let memory = memory.join().unwrap_or_else(|_| bail!("the watch over the memory panicked"));
            done.store(true, Ordering::Relaxed);
            anyhow::Ok((during?, memory?))
        })?;
        let ([times, beside], newcomer) = during;
        println!(
            "{label:44} {times}  new client {:.1} ms, {} MiB beside the account",
            newcomer.as_secs_f64() * 1000.0,
            memory.saturating_sub(quiet_bytes) / MIB
        );
        println!("{:44} {beside}", format!("  {}", WHOSE[1]));
        let quiet = self.quiet[0].clone();
        self.expect(times.is_like(&[&quiet, &beside]), || {
            format!("{label}: slower than {SLOWER_MAX} times the quiet server and the one beside it")
        });
        self.expect(memory <= quiet_bytes + BESIDE_ACCOUNT_BYTES_MAX, || format!("{label}: memory beside the account"));
        std::thread::sleep(PAUSE);
        let [after, _] = worker::work(&mut self.workers, self.time)?;
        println!("{:44} {after}", "  a second after it");
        self.expect(after.is_like(&[&quiet]), || format!("{label}: not as before a second later"));
        Ok(())
    }

    /// The dashboard and the control socket behind connections that say nothing.
    fn doors(&mut self) -> Result<()> {
        let scrapes = self.server.scrapes_beside_slow_sockets()?;
        let commands = self.server.commands_beside_idle_watchers()?;
        println!("of 20 scrapes {scrapes} were answered, and of 20 commands {commands}");
        self.expect(scrapes == 20 && commands == 20, || "the dashboard or the control socket".into());
        Ok(())
    }

    fn expect(&mut self, kept: bool, what: impl FnOnce() -> String) {
        if !kept {
            self.missed.push(what());
        }
    }
}

/// How long it takes a client that has just come to be answered.
fn new_client(server: &Server) -> Result<Duration> {
    let began = Instant::now();
    Connection::open(server.target.nfs)?.null()?;
    Ok(began.elapsed())
}

/// The least that the process held beside what its account said, of several looks: one may meet what comes between the
/// question for the one and the other.
fn beside_account(server: &Server, time: Duration) -> Result<u64> {
    let mut least = u64::MAX;
    let began = Instant::now();
    while began.elapsed() < time {
        std::thread::sleep(time / 5);
        least = least.min(server.resident_bytes()?.saturating_sub(server.account_bytes()?));
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many attack at once in each phase.
    fn phases(names: &[&str], together: bool) -> Result<Vec<usize>> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let options = Options { names, together, seconds: 1, binary: None };
        Ok(options.chosen()?.iter().map(Vec::len).collect())
    }

    /// Where nobody attacks every bar is met.
    #[test]
    fn somebody_attacks_in_every_phase() {
        assert_eq!(phases(&[], false).unwrap(), [1, 1, 1, 1, 1, 1, 1, ALL.len()]);
        assert_eq!(phases(&[], true).unwrap(), [ALL.len()]);
        assert_eq!(phases(&["idle"], false).unwrap(), [1]);
        assert_eq!(phases(&["idle"], true).unwrap(), [1], "none was run");
        let unknown = phases(&["all"], false).unwrap_err().to_string();
        assert!(unknown.contains("\"all\"") && unknown.contains("refused renames"), "{unknown}");
    }
}
