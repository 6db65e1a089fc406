//! One client through load, crash and recovery.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::check::check;
use crate::load::{Session, Trouble, choose, is_idempotent, procedure};
use crate::model::{HOME, Model, Operation, SHARED};
use crate::random::Random;
use crate::wire::{Answer, retransmit};

/// Answered requests that a client sends again after a crash, of those answered last.
const REPEATED_MAX: usize = 4;
/// How long a server has to remember an answer, less some room.
const REMEMBERED_FOR: Duration = Duration::from_secs(100);
/// Answers that a server has to remember of one client, less some room.
const REMEMBERED_MAX: usize = 200;

/// Names that all clients try to make: who was told that it made which.
#[derive(Clone, Default)]
pub struct Claims(Arc<Mutex<BTreeMap<String, Option<Vec<u8>>>>>);

impl Claims {
    /// Takes an answer down. Two winners of one name are a violation.
    fn answered(&self, name: &str, status: u32, handle: Option<&Vec<u8>>) -> Result<(), Trouble> {
        const EXIST: u32 = 17;
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match status {
            0 => match claims.insert(name.to_owned(), handle.cloned()) {
                Some(Some(before)) if Some(&before) != handle => {
                    Err(Trouble::Violation(format!("two clients were told that they made {name}")))
                }
                _ => Ok(()),
            },
            EXIST => {
                claims.entry(name.to_owned()).or_default();
                Ok(())
            }
            status => Err(Trouble::Violation(format!("CREATE of {name} is answered with status {status}"))),
        }
    }

    /// Every name of which a client was told that it exists.
    fn known(&self) -> Vec<(String, Option<Vec<u8>>)> {
        let claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        claims.iter().map(|(name, handle)| (name.clone(), handle.clone())).collect()
    }
}

/// A request that was answered.
struct Answered {
    at: Instant,
    operation: Operation,
    request: Vec<u8>,
    answer: Answer,
}

/// What a round brought.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Operations that were answered.
    pub answered: u64,
    /// Requests that were sent again after the crash.
    pub repeated: u64,
    /// Of these, answered more than ten seconds before.
    pub repeated_late: u64,
    /// Objects that were compared.
    pub compared: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.answered += other.answered;
        self.repeated += other.repeated;
        self.repeated_late += other.repeated_late;
        self.compared += other.compared;
    }
}

/// A client.
pub struct Client {
    name: String,
    address: IpAddr,
    server: SocketAddr,
    random: Random,
    model: Model,
    under_way: Option<(Operation, Vec<u8>)>,
    answered: VecDeque<Answered>,
    claims: Claims,
    /// A slow client asks for little and keeps every answer as long as the server has to.
    slow: bool,
    remembers: bool,
}

/// What all clients of a run have in common.
#[derive(Clone)]
pub struct Common {
    /// Where the server listens.
    pub server: SocketAddr,
    /// Where randomness starts.
    pub seed: u64,
    /// Handle of the exported root.
    pub root: Vec<u8>,
    /// Handle of the directory that all share.
    pub shared: Vec<u8>,
    /// Names to fight for.
    pub claims: Claims,
    /// Whether the server is held to its first answers across crashes.
    pub remembers: bool,
}

impl Client {
    /// Client `index`, with a directory of its own.
    pub async fn new(common: &Common, index: u8, slow: bool) -> Result<Self> {
        let address = IpAddr::V4(Ipv4Addr::new(127, 0, 1, index + 1));
        let mut session = Session::open(address, common.server).await?;
        let name = format!("c{index}-");
        let mut model = Model::new(common.root.clone(), common.shared.clone());
        let operation = Operation::MakeDirectory { dir: HOME, name: format!("home-{index}"), id: 0 };
        let made = session.perform(&model, &operation).await.map_err(|trouble| anyhow!("{trouble:?}"))?;
        let home = made.handle.ok_or_else(|| anyhow!("MKDIR is answered with status {}", made.status))?;
        model = Model::new(home, common.shared.clone());
        Ok(Self {
            name,
            address,
            server: common.server,
            random: Random::new(common.seed, u64::from(index)),
            model,
            under_way: None,
            answered: VecDeque::new(),
            claims: common.claims.clone(),
            slow,
            remembers: common.remembers,
        })
    }

    /// Works until the connection breaks. `names` are this round's names to fight for.
    pub async fn work(&mut self, names: &[String]) -> Result<Counts, String> {
        let mut counts = Counts::default();
        // The server may be killed before this connection is made.
        let Ok(mut session) = Session::open(self.address, self.server).await else { return Ok(counts) };
        loop {
            if self.slow {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let operation = choose(&mut self.random, &mut self.model, &self.name, names);
            match session.perform(&self.model, &operation).await {
                Ok(done) => {
                    counts.answered += 1;
                    let told = self.take(&session, &operation, done);
                    told.map_err(|trouble| self.explain(trouble, &operation))?;
                }
                Err(Trouble::Broken) => {
                    self.under_way = Some((operation, session.last().request));
                    return Ok(counts);
                }
                Err(trouble) => return Err(self.explain(trouble, &operation)),
            }
        }
    }

    fn take(&mut self, session: &Session, operation: &Operation, done: crate::load::Done) -> Result<(), Trouble> {
        if let Operation::Claim { name } = operation {
            return self.claims.answered(name, done.status, done.handle.as_ref());
        }
        if done.status != 0 {
            return Err(Trouble::Violation(format!("answered with status {}", done.status)));
        }
        match operation {
            Operation::Write { node, offset, data, .. } => self
                .model
                .written(*node, *offset, data.clone(), done.stable, done.verifier)
                .map_err(Trouble::Violation)?,
            Operation::Commit { node } => {
                self.model.committed(*node, done.verifier).map_err(Trouble::Violation)?;
            }
            Operation::Read { node } => self.compare_read(*node, &done.content)?,
            _ => {
                let answer = Answer { status: done.status, handle: done.handle.clone() };
                self.model.apply(operation, done.handle);
                self.remember(session.last().request, operation, answer);
            }
        }
        Ok(())
    }

    fn compare_read(&self, node: u64, content: &[u8]) -> Result<(), Trouble> {
        let Some(node) = self.model.nodes.get(&node) else { return Ok(()) };
        if node.current() == content {
            return Ok(());
        }
        Err(Trouble::Violation(format!("READ gives {} bytes that are not what was written", content.len())))
    }

    fn remember(&mut self, request: Vec<u8>, operation: &Operation, answer: Answer) {
        self.answered.push_back(Answered { at: Instant::now(), operation: operation.clone(), request, answer });
        let most = if self.slow { REMEMBERED_MAX } else { REPEATED_MAX };
        while self.answered.len() > most {
            self.answered.pop_front();
        }
    }

    /// After the restart: repeats what has to be repeated, then compares everything.
    pub async fn recover(&mut self) -> Result<Counts, String> {
        let mut counts = Counts::default();
        let mut doubtful = None;
        if let Some((operation, request)) = self.under_way.take() {
            if self.remembers && !is_idempotent(&operation) && self.random.chance(60) {
                self.finish(&operation, &request).await.map_err(|trouble| self.explain(trouble, &operation))?;
                counts.repeated += 1;
            } else if let Operation::Write { node, offset, data, .. } = operation {
                self.model.perhaps_written(node, offset, data);
            } else if !is_idempotent(&operation) {
                doubtful = Some(operation);
            }
        }
        if self.remembers {
            self.repeat(&mut counts).await?;
        }
        let session = Session::open(self.address, self.server).await;
        let mut session = session.map_err(|error| format!("no connection after the restart: {error}"))?;
        self.compare(&mut session, doubtful).await?;
        self.compare_claims(&mut session).await?;
        counts.compared += self.model.names.len() as u64;
        Ok(counts)
    }

    /// Sends the request that was under way again, until it is answered: it must have happened exactly once.
    async fn finish(&mut self, operation: &Operation, request: &[u8]) -> Result<(), Trouble> {
        let answer = self.ask_again(operation, request).await?;
        if let Operation::Claim { name } = operation {
            return self.claims.answered(name, answer.status, answer.handle.as_ref());
        }
        if answer.status != 0 {
            let said = format!("sent again after the crash, it is answered with status {}", answer.status);
            return Err(Trouble::Violation(said));
        }
        self.model.apply(operation, answer.handle.clone());
        self.remember(request.to_vec(), operation, answer);
        Ok(())
    }

    async fn repeat(&mut self, counts: &mut Counts) -> Result<(), String> {
        self.answered.retain(|answered| answered.at.elapsed() < REMEMBERED_FOR);
        for answered in &self.answered {
            let again = self.ask_again(&answered.operation, &answered.request).await;
            let again = again.map_err(|trouble| self.explain(trouble, &answered.operation))?;
            let same_handle = again.handle.is_none() || again.handle == answered.answer.handle;
            if again.status != answered.answer.status || !same_handle {
                let said = format!(
                    "answered {:?} ago with {:?}, sent again after the crash it is answered with {again:?}",
                    answered.at.elapsed(),
                    answered.answer
                );
                return Err(self.explain(Trouble::Violation(said), &answered.operation));
            }
            counts.repeated += 1;
            counts.repeated_late += u64::from(answered.at.elapsed() > Duration::from_secs(10));
        }
        Ok(())
    }

    async fn ask_again(&self, operation: &Operation, request: &[u8]) -> Result<Answer, Trouble> {
        let reply = retransmit(self.address, self.server, request).await;
        let answer = reply.and_then(|reply| Answer::parse(procedure(operation), &reply));
        answer.map_err(|error| Trouble::Violation(format!("sent again after the crash: {error:#}")))
    }

    /// Compares the model; with a doubtful operation, one of its two possible outcomes must fit.
    async fn compare(&mut self, session: &mut Session, doubtful: Option<Operation>) -> Result<(), String> {
        let mut candidates = vec![self.model.clone()];
        if let Some(operation) = &doubtful {
            let mut happened = self.model.clone();
            happened.apply(operation, None);
            candidates.push(happened);
        }
        let mut reasons = Vec::new();
        for mut candidate in candidates {
            match check(session, &mut candidate, &self.name).await {
                Ok(()) => {
                    self.model = candidate;
                    return Ok(());
                }
                Err(Trouble::Broken) => return Err("the server went away while it was compared".into()),
                Err(Trouble::Violation(reason)) => reasons.push(reason),
            }
        }
        let doubt = doubtful.map(|operation| format!(" (under way at the kill: {operation:?})")).unwrap_or_default();
        Err(format!("client {}: {}{doubt}", self.name, reasons.join("; or: ")))
    }

    async fn compare_claims(&self, session: &mut Session) -> Result<(), String> {
        let Some(shared) = self.model.handle(SHARED) else { return Ok(()) };
        for (name, handle) in self.claims.known() {
            match session.lookup(shared, &name).await {
                Ok(Ok((found, _))) if handle.as_ref().is_none_or(|handle| *handle == found) => {}
                Ok(Ok(_)) => return Err(format!("{name} is another object than the one that was made")),
                Ok(Err(status)) => return Err(format!("{name} was said to exist and is lost: {status}")),
                Err(trouble) => return Err(format!("{name}: {trouble:?}")),
            }
        }
        Ok(())
    }

    fn explain(&self, trouble: Trouble, operation: &Operation) -> String {
        let mut operation = format!("{operation:?}");
        operation.truncate(300);
        match trouble {
            Trouble::Broken => format!("client {}: the connection broke at {operation}", self.name),
            Trouble::Violation(said) => format!("client {}: {operation}: {said}", self.name),
        }
    }
}
