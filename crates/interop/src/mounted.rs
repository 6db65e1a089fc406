//! The kill ledger over a mount: programs of the same machine work on files through the kernel, and write down what each call that returned has promised (docs/mount.md, "What is promised").
//!
//! A kill ends the mount: what was under way fails, and so does all that comes behind. The server is started, the dataset mounted anew, and what is there compared.

pub mod agreeing;
mod look;
pub mod postgres;
mod worker;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use self::worker::Worker;
use crate::child::Server;
use crate::client::Counts;
use crate::ledger::{Plan, Verdict, kill_by_kill};
use crate::random::Random;

/// Programs that work side by side.
const WORKERS: u8 = 6;
/// Longest load before a kill, most of the time.
const LOAD_MS_MAX: u64 = 900;
/// One round in so many lasts long enough for several transaction groups.
const LONG_ROUND_EVERY: u32 = 16;
/// How long that is.
const LONG_ROUND: Duration = Duration::from_secs(12);

/// How long the server may take until it mounts.
const MOUNT_TIMEOUT: Duration = Duration::from_secs(30);

/// What is mounted, which the server makes by itself.
const DATASET: &str = "tank";

/// Runs a plan in `folder`; `command` is the program `tally`, which mounts. An error is a fault of the surroundings, or of a server that never started.
pub fn run(plan: &Plan, command: &Path, folder: &Path) -> Result<Verdict> {
    let mut server = Server::new(plan.program.clone(), folder)?;
    let mount = Mount::new(command, folder)?;
    mount.first(&mut server)?;
    let mut workers =
        (0..WORKERS).map(|index| Worker::new(plan.seed, index, &mount.dir)).collect::<Result<Vec<_>>>()?;
    kill_by_kill(plan, &mut server, |server, random, round| one_round(server, &mount, &mut workers, random, round))
}

/// One load, kill, restart and comparison. The inner error is a broken promise.
fn one_round(
    server: &mut Server,
    mount: &Mount,
    workers: &mut [Worker],
    random: &mut Random,
    round: u32,
) -> Result<Result<Counts, String>> {
    let long = round.is_multiple_of(LONG_ROUND_EVERY);
    let load = if long { LONG_ROUND } else { Duration::from_millis(20 + random.below(LOAD_MS_MAX)) };
    let (worked, early, alive) = std::thread::scope(|scope| -> Result<_> {
        let working: Vec<_> = workers.iter_mut().map(|worker| scope.spawn(move || worker.work())).collect();
        let started = Instant::now();
        // Whoever comes back before the kill has found something, or the server is gone.
        while started.elapsed() < load && !working.iter().any(|worker| worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let early = started.elapsed() < load;
        let alive = server.runs()?;
        server.kill()?;
        Ok((joined(working)?, early, alive))
    })?;
    let mut counts = Counts::default();
    match worked {
        Ok(_) if !alive => return Ok(Err("the server ended by itself".into())),
        Ok(_) if early => return Ok(Err("the mount ended while the server ran".into())),
        Ok(answered) => counts.answered = answered,
        Err(violation) => return Ok(Err(violation)),
    }
    mount.end()?;
    let restarted = match server.start() {
        Ok(time) => time,
        Err(error) => return Ok(Err(format!("{error:#}"))),
    };
    // A pool that is not there any more has kept nothing.
    if let Err(error) = mount.make() {
        return Ok(Err(format!("{error:#}")));
    }
    let compared = std::thread::scope(|scope| {
        joined(workers.iter_mut().map(|worker| scope.spawn(move || worker.recover())).collect())
    })?;
    match compared {
        Ok(compared) => counts.compared = compared,
        Err(violation) => return Ok(Err(violation)),
    }
    eprintln!(
        "kill {round}: {} operations in {} ms, up again in {} ms, {} names compared",
        counts.answered,
        load.as_millis(),
        restarted.as_millis(),
        counts.compared
    );
    Ok(Ok(counts))
}

type Worked = Result<u64, String>;

fn joined(workers: Vec<std::thread::ScopedJoinHandle<'_, Worked>>) -> Result<Worked> {
    let results = workers.into_iter().map(|worker| worker.join().map_err(|_| anyhow!("a worker panicked")));
    Ok(results.collect::<Result<Vec<_>>>()?.into_iter().sum())
}

/// The dataset's directory on this machine.
struct Mount {
    command: PathBuf,
    folder: PathBuf,
    dir: PathBuf,
}

impl Mount {
    fn new(command: &Path, folder: &Path) -> Result<Self> {
        let mount = Self { command: command.to_owned(), folder: folder.to_owned(), dir: folder.join("mounted") };
        std::fs::create_dir(&mount.dir)?;
        Ok(mount)
    }

    /// Over the second start of a server, whose first one makes the pool.
    fn first(&self, server: &mut Server) -> Result<()> {
        server.start()?;
        self.make().with_context(|| server.messages())?;
        self.end()?;
        server.stop()?;
        server.start()?;
        self.make().with_context(|| server.messages())
    }

    /// The server listens earlier than it has a pool, and takes commands.
    fn make(&self) -> Result<()> {
        let given_up = Instant::now() + MOUNT_TIMEOUT;
        loop {
            match self.tally(&["mount", DATASET, &self.dir.to_string_lossy()]) {
                Err(_) if Instant::now() < given_up => std::thread::sleep(Duration::from_millis(20)),
                outcome => return outcome,
            }
        }
    }

    /// Also of one whose server is gone.
    fn end(&self) -> Result<()> {
        self.tally(&["unmount", &self.dir.to_string_lossy()])
    }

    fn tally(&self, words: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.command);
        command.args(words).arg("--socket").arg(self.folder.join("tally-data/tally.sock")).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("cannot start {}", self.command.display()))?;
        ensure!(output.status.success(), "tally {words:?} says: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Of a run that was broken off; else it is mounted no more, or its server is about to go.
        let _ = rustix::mount::unmount(&self.dir, rustix::mount::UnmountFlags::DETACH);
    }
}
