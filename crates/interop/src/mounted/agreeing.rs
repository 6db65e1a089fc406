//! A mount and a client of version 3 on the same files, in one history: what one has changed and was answered, the other sees with its next look, and so does who has the file open since long before.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context, Result, anyhow};

use super::Mount;
use super::look::look;
use super::worker::{VERIFIER, Worker};
use crate::check::check;
use crate::child::Server;
use crate::client::Counts;
use crate::ledger::{EXPORT, Plan, Verdict, block_on};
use crate::load::{Session, Trouble, choose};
use crate::model::{HOME, Id, Kind, Operation};
use crate::random::Random;

/// Between two looks at everything.
const ALL_EVERY: u64 = 200;
/// More than any file holds.
const READ_BYTES: usize = 256 << 10;

/// So many operations in `folder`, of a seed; `command` is the program `tally`, which mounts. An error is a fault of the surroundings.
pub fn run(plan: &Plan, command: &Path, folder: &Path, operations: u64) -> Result<Verdict> {
    let mut server = Server::new(plan.program.clone(), folder)?;
    let mount = Mount::new(command, folder)?;
    mount.first(&mut server)?;
    let worker = Worker::new(plan.seed, 0, &mount.dir)?;
    // A connection lives as long as what drives it.
    block_on(both(plan, worker, server.address(), operations))?
}

async fn both(plan: &Plan, worker: Worker, server: SocketAddr, operations: u64) -> Result<Verdict> {
    let from = IpAddr::V4(Ipv4Addr::new(127, 0, 1, 1));
    let root = Session::mount(from, server, EXPORT).await?;
    let mut session = Session::open(from, server).await?;
    let found = session.lookup(&root, "home-0").await.map_err(|trouble| anyhow!("{trouble:?}"))?;
    let (home, _) = found.map_err(|status| anyhow!("home-0 is not there for the client: {status}"))?;
    let mut two = Two { worker, session, held: BTreeMap::new(), random: Random::new(plan.seed, 1000) };
    two.worker.model.nodes.get_mut(&HOME).context("no home")?.handle = Some(home);
    let mut verdict = Verdict { kills: 0, counts: Counts::default(), violation: None };
    for step in 1..=operations {
        if let Err(violation) = two.step(step.is_multiple_of(ALL_EVERY)).await {
            verdict.violation = Some(format!("operation {step}: {violation}"));
            break;
        }
        verdict.counts.answered = step;
    }
    verdict.counts.compared = two.worker.model.names.len() as u64;
    Ok(verdict)
}

/// Both, and what they know together.
struct Two {
    worker: Worker,
    session: Session,
    /// Opened to be read, some time ago.
    held: BTreeMap<Id, File>,
    random: Random,
}

impl Two {
    async fn step(&mut self, all: bool) -> Result<(), String> {
        let operation = choose(&mut self.random, &mut self.worker.model, "", &[]);
        let by_client = self.random.chance(50);
        let by = if by_client { "the client" } else { "the mount" };
        let said = |what: String| format!("{operation:?} by {by}: {what}");
        if by_client {
            self.ask(&operation).await.map_err(said)?;
        } else {
            self.worker.perform(&operation).map_err(|trouble| said(trouble.into()))?;
        }
        self.learn(&operation).await.map_err(said)?;
        self.held.retain(|id, _| self.worker.model.nodes.contains_key(id));
        if let Some(id) = touched(&operation) {
            self.seen_by_both(id).await.map_err(said)?;
        }
        // And something else, which nobody has touched just now.
        let others: Vec<_> = self.worker.model.files();
        if let Some(id) = self.random.pick(&others).copied() {
            self.seen_by_both(id).await.map_err(said)?;
            self.hold(id).map_err(said)?;
        }
        if all {
            let mut model = self.worker.model.clone();
            // What was open has gone a moment after it was closed, as the kernel waits for no RELEASE.
            model.graves.clear();
            look(&mut model, &self.worker.home).map_err(said)?;
            check(&mut self.session, &mut model, "").await.map_err(|trouble| said(trouble.into()))?;
            // That committed everything.
            self.worker.open.clear();
            self.worker.model = model;
        }
        Ok(())
    }

    /// The client's way.
    async fn ask(&mut self, operation: &Operation) -> Result<(), String> {
        let done = self.session.perform(&self.worker.model, operation).await.map_err(String::from)?;
        if done.status != 0 {
            return Err(format!("answered with status {}", done.status));
        }
        let model = &mut self.worker.model;
        match operation {
            Operation::Read { node } => match model.nodes.get(node) {
                Some(known) if known.current() != done.content => Err("not what was written".to_owned()),
                _ => Ok(()),
            },
            Operation::Write { node, offset, data, .. } => {
                model.written(*node, *offset, data.clone(), done.stable, VERIFIER)
            }
            Operation::Commit { node } => {
                self.worker.open.remove(node);
                model.committed(*node, VERIFIER)
            }
            changing => {
                model.apply(changing, done.handle);
                Ok(())
            }
        }
    }

    /// What the mount has made has a handle, too.
    async fn learn(&mut self, operation: &Operation) -> Result<(), String> {
        let made = match operation {
            Operation::Create { dir, name, id, .. }
            | Operation::MakeDirectory { dir, name, id }
            | Operation::Symlink { dir, name, id, .. } => (*dir, name, *id),
            _ => return Ok(()),
        };
        let (dir, name, id) = made;
        let parent = self.worker.model.handle(dir).unwrap_or_default().to_vec();
        let found = self.session.lookup(&parent, name).await.map_err(String::from)?;
        let (handle, _) = found.map_err(|status| format!("the client does not find {name}: {status}"))?;
        let node = self.worker.model.nodes.get_mut(&id).ok_or("the ledger has lost what was made")?;
        node.handle = Some(handle);
        Ok(())
    }

    /// What is known of it is what each sees.
    async fn seen_by_both(&mut self, id: Id) -> Result<(), String> {
        let Some(node) = self.worker.model.nodes.get(&id) else { return Ok(()) };
        if node.kind != Kind::File {
            return Ok(());
        }
        let (content, links) = (node.current(), self.worker.model.link_count(id));
        let handle = node.handle.clone().ok_or("the ledger has no handle of that")?;
        let (mode, mtime) = (node.mode, node.mtime);
        let path = self.worker.model.path(&self.worker.home, id).ok_or("the ledger has no name of that")?;
        let client = self.session.attributes(&handle).await.map_err(String::from)?;
        let client = client.map_err(|status| format!("the client is told {status} of file {id}"))?;
        let here = Seen::of(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let there = Seen {
            size: client.size,
            links: u64::from(client.nlink),
            mode: client.mode & 0o7777,
            mtime: (i64::from(client.mtime.seconds), i64::from(client.mtime.nseconds)),
        };
        let known = Seen {
            size: content.len() as u64,
            links: links as u64,
            mode: mode.unwrap_or(there.mode),
            mtime: mtime.map_or(there.mtime, |(seconds, nanoseconds)| (seconds.into(), nanoseconds.into())),
        };
        if here != known || there != known {
            return Err(format!("file {id} is {known:?}; the mount sees {here:?}, the client {there:?}"));
        }
        let read = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if read != content {
            return Err(format!("the mount reads file {id} as it is not"));
        }
        if let Some(file) = self.held.get(&id) {
            let mut held = vec![0; READ_BYTES];
            let length = file.read_at(&mut held, 0).map_err(|error| format!("{}: {error}", path.display()))?;
            if held.get(..length) != Some(&*content) {
                return Err(format!("who has file {id} open reads it as it is not"));
            }
        }
        let done = self.session.perform(&self.worker.model, &Operation::Read { node: id }).await;
        let done = done.map_err(String::from)?;
        if done.content == content { Ok(()) } else { Err(format!("the client reads file {id} as it is not")) }
    }

    /// It stays open from here on, or is closed.
    fn hold(&mut self, id: Id) -> Result<(), String> {
        if self.held.remove(&id).is_none() {
            let path = self.worker.model.path(&self.worker.home, id).ok_or("the ledger has no name of that")?;
            let file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            self.held.insert(id, file);
        }
        Ok(())
    }
}

/// What both can see of a file.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    size: u64,
    links: u64,
    mode: u32,
    mtime: (i64, i64),
}

impl Seen {
    fn of(path: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let found = std::fs::symlink_metadata(path)?;
        let mtime = (found.mtime(), found.mtime_nsec());
        Ok(Self { size: found.size(), links: found.nlink(), mode: found.mode() & 0o7777, mtime })
    }
}

/// What it is about, where that is a file that may be there behind it.
fn touched(operation: &Operation) -> Option<Id> {
    match operation {
        Operation::Create { id, .. } => Some(*id),
        Operation::Link { node, .. }
        | Operation::Write { node, .. }
        | Operation::Commit { node }
        | Operation::Mode { node, .. }
        | Operation::ModificationTime { node, .. }
        | Operation::Truncate { node, .. }
        | Operation::Read { node } => Some(*node),
        _ => None,
    }
}

impl From<super::worker::Trouble> for String {
    fn from(trouble: super::worker::Trouble) -> Self {
        match trouble {
            super::worker::Trouble::Gone => "the mount is gone".into(),
            super::worker::Trouble::Violation(text) => text,
        }
    }
}

impl From<Trouble> for String {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Broken => "the connection is broken".into(),
            Trouble::Violation(text) => text,
        }
    }
}
