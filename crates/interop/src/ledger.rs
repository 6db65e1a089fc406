//! The run: load, kill, restart, compare; again and again, over one pool.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use crate::child::{Program, Server};
use crate::client::{Claims, Client, Common, Counts};
use crate::load::Session;
use crate::model::{HOME, Model, Operation};
use crate::random::Random;

/// Clients at full speed; one slow one comes on top.
const CLIENTS: u8 = 8;
/// Longest load before a kill, most of the time.
const LOAD_MS_MAX: u64 = 900;
/// One round in so many lasts long enough for several transaction groups.
const LONG_ROUND_EVERY: u32 = 8;
/// How long that is.
const LONG_ROUND: Duration = Duration::from_secs(12);
/// Names to fight for, each round.
const CLAIMS_PER_ROUND: u32 = 20;

/// What the server exports by itself.
pub(crate) const EXPORT: &str = "/tank";

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The server.
    pub program: Program,
    /// How often it is killed.
    pub kills: u32,
    /// Where randomness starts.
    pub seed: u64,
    /// Whether requests are sent again across crashes: the server must give its first answer.
    pub remembers: bool,
}

/// How a run ended.
#[derive(Debug)]
pub struct Verdict {
    /// Kills that were survived.
    pub kills: u32,
    /// Everything that was done.
    pub counts: Counts,
    /// The first broken promise.
    pub violation: Option<String>,
}

/// Runs a plan in `folder`. An error is a fault of the surroundings, or of a server that never started.
pub fn run(plan: &Plan, folder: &Path) -> Result<Verdict> {
    let mut server = Server::new(plan.program.clone(), folder)?;
    server.start()?;
    let asker = IpAddr::V4(Ipv4Addr::new(127, 0, 1, 100));
    block_on(Session::mount(asker, server.address(), EXPORT))?.with_context(|| server.messages())?;
    server.stop()?;
    server.start()?;
    let common = prepare(plan, &server).with_context(|| format!("the server said:\n{}", server.messages()))?;
    let mut clients = Vec::new();
    for index in 0..=CLIENTS {
        clients.push(block_on(Client::new(&common, index, index == CLIENTS))??);
    }
    kill_by_kill(plan, &mut server, |server, random, round| one_round(server, &mut clients, random, round))
}

/// Round after round, up to the first broken promise, which is the inner error of one.
pub(crate) fn kill_by_kill(
    plan: &Plan,
    server: &mut Server,
    mut one_round: impl FnMut(&mut Server, &mut Random, u32) -> Result<Result<Counts, String>>,
) -> Result<Verdict> {
    let mut random = Random::new(plan.seed, 1000);
    let mut verdict = Verdict { kills: 0, counts: Counts::default(), violation: None };
    for round in 1..=plan.kills {
        match one_round(server, &mut random, round)? {
            Ok(counts) => {
                verdict.kills += 1;
                verdict.counts += counts;
            }
            Err(violation) => {
                let said = server.messages();
                verdict.violation = Some(format!("round {round}: {violation}\nthe server said last:\n{said}"));
                break;
            }
        }
    }
    Ok(verdict)
}

fn prepare(plan: &Plan, server: &Server) -> Result<Common> {
    let from = IpAddr::V4(Ipv4Addr::new(127, 0, 1, 100));
    let root = block_on(Session::mount(from, server.address(), EXPORT))??;
    let shared = block_on(async {
        let mut session = Session::open(from, server.address()).await?;
        let model = Model::new(root.clone(), Vec::new());
        let operation = Operation::MakeDirectory { dir: HOME, name: "shared".into(), id: 0 };
        let made = session.perform(&model, &operation).await.map_err(|trouble| anyhow!("{trouble:?}"))?;
        made.handle.ok_or_else(|| anyhow!("MKDIR is answered with status {}", made.status))
    })??;
    let claims = Claims::default();
    Ok(Common { server: server.address(), seed: plan.seed, root, shared, claims, remembers: plan.remembers })
}

/// One load, kill, restart and comparison. The inner error is a broken promise.
fn one_round(
    server: &mut Server,
    clients: &mut [Client],
    random: &mut Random,
    round: u32,
) -> Result<Result<Counts, String>> {
    let names: Vec<_> = (0..CLAIMS_PER_ROUND).map(|index| format!("claim-{round}-{index}")).collect();
    let long = round.is_multiple_of(LONG_ROUND_EVERY);
    let load = if long { LONG_ROUND } else { Duration::from_millis(20 + random.below(LOAD_MS_MAX)) };
    let worked = std::thread::scope(|scope| -> Result<_> {
        let names = &names;
        let workers: Vec<_> =
            clients.iter_mut().map(|client| scope.spawn(move || block_on(client.work(names)))).collect();
        let started = Instant::now();
        // Whoever comes back before the kill has found something, or the server is gone.
        while started.elapsed() < load && !workers.iter().any(|worker| worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let early = started.elapsed() < load;
        let alive = server.runs()?;
        server.kill()?;
        let results: Vec<_> = workers.into_iter().map(join).collect::<Result<_>>()?;
        Ok((sum(results), early, alive))
    })?;
    let (counts, early, alive) = worked;
    let mut counts = match counts {
        Ok(_) if !alive => return Ok(Err("the server ended by itself".into())),
        Ok(_) if early => return Ok(Err("the server closed a connection while it ran".into())),
        Ok(counts) => counts,
        Err(violation) => return Ok(Err(violation)),
    };
    let restarted = match server.start() {
        Ok(time) => time,
        Err(error) => return Ok(Err(format!("{error:#}"))),
    };
    match compare(clients)? {
        Ok(compared) => counts += compared,
        Err(violation) => return Ok(Err(violation)),
    }
    eprintln!(
        "kill {round}: {} operations in {} ms, up again in {} ms, {} requests repeated ({} of them after 10 s), {} names compared",
        counts.answered,
        load.as_millis(),
        restarted.as_millis(),
        counts.repeated,
        counts.repeated_late,
        counts.compared
    );
    Ok(Ok(counts))
}

fn compare(clients: &mut [Client]) -> Result<Result<Counts, String>> {
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            clients.iter_mut().map(|client| scope.spawn(move || block_on(client.recover()))).collect();
        let results: Vec<_> = workers.into_iter().map(join).collect::<Result<_>>()?;
        Ok(sum(results))
    })
}

type Worked = Result<Counts, String>;

fn join(worker: std::thread::ScopedJoinHandle<'_, Result<Worked>>) -> Result<Worked> {
    worker.join().map_err(|_| anyhow!("a client thread panicked"))?
}

fn sum(results: Vec<Worked>) -> Worked {
    let mut total = Counts::default();
    for result in results {
        total += result?;
    }
    Ok(total)
}

pub(crate) fn block_on<F: Future>(future: F) -> Result<F::Output> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}
