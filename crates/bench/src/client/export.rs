//! An export, worked on by the small client of [`crate::wire`] with the requests that Linux' client sends.
//!
//! A file that fits into one WRITE (wtmax, from FSINFO) is written FILE_SYNC; a longer one as UNSTABLE WRITEs with
//! several under way, and a COMMIT, and if the verifier then is another one, the server has lost them and the run
//! fails.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::{As, Client, Pieces, Setting, Site, TIME_SECONDS, Tool, USER};
use crate::meter::{Meter, Promise};
use crate::promise::Kind;
use crate::random::Random;
use crate::target::{Url, find};
use crate::wire::{
    Attributes, Caller, Connection, Handle, Limits, Refused, Stable, Target, Written, random_u32, status,
};
use crate::witness::{Probed, Witness};

mod probe;

/// READs and WRITEs of a long file that are under way at once.
const DEPTH: usize = 8;

/// Kinds that promise something over the wire.
const KINDS: [Kind; 13] = [
    Kind::Create,
    Kind::CreateExclusive,
    Kind::SetAttr,
    Kind::WriteFileSync,
    Kind::WriteDataSync,
    Kind::Commit,
    Kind::MkDir,
    Kind::SymLink,
    Kind::MkNod,
    Kind::Link,
    Kind::Rename,
    Kind::Remove,
    Kind::RmDir,
];

/// An export that was found and mounted.
pub struct Export {
    target: Target,
    root: Handle,
    limits: Limits,
    caller: Caller,
}

impl Export {
    /// Finds the server and mounts the export.
    pub fn mount(url: &Url, whose: As) -> Result<Self> {
        let (uid, gid) = if whose == As::Root { (0, 0) } else { USER };
        let caller = Caller { uid: url.uid.unwrap_or(uid), gid: url.gid.unwrap_or(gid), reserved_port: true };
        let (target, root) = find(url, caller)?;
        let limits = Connection::open_as(target.nfs, caller)?.limits(&root)?;
        Ok(Self { target, root, limits, caller })
    }

    /// Longest READ and WRITE of the server, as far as this client goes along.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    fn connect(&self, caller: Caller) -> Result<Connection> {
        Connection::open_as(self.target.nfs, caller)
    }
}

impl Site for Export {
    type Client = Requests;

    fn client(&self, meter: &Arc<Meter>) -> Result<Requests> {
        let connection = self.connect(self.caller)?;
        let noise = Random::new(random_u32()?.into(), 0);
        Ok(Requests { connection, limits: self.limits, meter: Arc::clone(meter), verifier: 0, noise })
    }

    /// As an ordinary user, who may not be allowed to make it himself: then root makes it and gives it to him.
    fn make_run(&self, name: &str) -> Result<Handle> {
        let made = self.connect(self.caller)?.mkdir(&self.root, name);
        let denied = |error: &anyhow::Error| {
            let status = error.downcast_ref::<Refused>().map(|refused| refused.status);
            matches!(status, Some(status::ACCES | status::PERM))
        };
        match made {
            Err(error) if denied(&error) && self.caller.uid != 0 => {
                let owner = Some((self.caller.uid, self.caller.gid));
                let mut root = self.connect(Caller { uid: 0, gid: 0, ..self.caller })?;
                let folder = root.mkdir(&self.root, name).map_err(|_| error.context("neither user nor root may make a folder there: give the user a folder of his own and name that, as in nfs://HOST/EXPORT/FOLDER, or choose another one with ?uid=UID&gid=GID"))?;
                root.set_attributes(&folder, Attributes { owner, ..Attributes::default() })?;
                Ok(folder)
            }
            Err(error) if denied(&error) => {
                Err(error.context("root may not make a folder there: export it with no_root_squash, or work --as user"))
            }
            made => made,
        }
    }

    fn remove_run(&self, name: &str, gone: &mut dyn FnMut(u64)) -> Result<()> {
        let mut count = 0;
        let remove = |caller: Caller, gone: &mut dyn FnMut(u64), count: &mut u64| {
            let mut connection = self.connect(caller)?;
            let folder = connection.lookup(&self.root, name)?;
            empty(&mut connection, &folder, gone, count)?;
            connection.rmdir(&self.root, name)
        };
        match remove(self.caller, gone, &mut count) {
            // Who could not make it himself cannot remove it himself.
            Err(error) if error.is::<Refused>() && self.caller.uid != 0 => {
                remove(Caller { uid: 0, gid: 0, ..self.caller }, gone, &mut count)
            }
            removed => removed,
        }
    }

    fn piece_bytes(&self, wanted: usize) -> usize {
        let most = wanted.min(self.limits.read_bytes as usize).min(self.limits.write_bytes as usize);
        1 << most.max(4096).ilog2()
    }

    fn kinds(&self) -> &'static [Kind] {
        &KINDS
    }

    fn beyond_judgement(&self) -> Option<String> {
        None
    }
}

/// Removes all that is in a folder.
fn empty(connection: &mut Connection, folder: &Handle, gone: &mut dyn FnMut(u64), count: &mut u64) -> Result<()> {
    const FOLDER: u32 = 2;
    let mut names = Vec::new();
    connection.entries(folder, |entry| {
        if !matches!(entry.name, b"." | b"..") {
            let name = String::from_utf8(entry.name.to_vec()).context("a name that is not ours")?;
            names.push((name, entry.status.is_some_and(|status| status.kind == FOLDER)));
        }
        Ok(())
    })?;
    for (name, is_folder) in names {
        if is_folder {
            let inside = connection.lookup(folder, &name)?;
            empty(connection, &inside, gone, count)?;
            connection.rmdir(folder, &name)?;
        } else {
            connection.remove(folder, &name)?;
        }
        *count += 1;
        gone(*count);
    }
    Ok(())
}

/// A connection that works.
pub struct Requests {
    connection: Connection,
    limits: Limits,
    meter: Arc<Meter>,
    /// Makes each exclusive CREATE another one.
    verifier: u64,
    /// What is written for the referee.
    noise: Random,
}

impl Requests {
    /// One request whose reply promises durability.
    fn change<T>(&mut self, kind: Kind, bytes: u64, request: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let connection = &mut self.connection;
        self.meter.time(Promise::Durable(kind, bytes), || request(connection))
    }

    fn next_verifier(&mut self) -> u64 {
        self.verifier += 1;
        self.verifier
    }

    fn set(&mut self, node: &Handle, attributes: Attributes) -> Result<()> {
        self.change(Kind::SetAttr, 0, |connection| connection.set_attributes(node, attributes))
    }

    fn settings(&mut self, node: &Handle, tool: Tool, mode: u32) -> Result<()> {
        self.set_all(node, tool.settings().iter(), mode)
    }

    fn set_all<'a>(&mut self, node: &Handle, settings: impl Iterator<Item = &'a Setting>, mode: u32) -> Result<()> {
        for setting in settings {
            let attributes = Attributes {
                mode: (*setting == Setting::Mode).then_some(mode),
                owner: (*setting == Setting::Owner).then_some(USER),
                times: (*setting == Setting::Times).then_some((TIME_SECONDS, 0)),
                size: None,
            };
            self.set(node, attributes)?;
        }
        Ok(())
    }

    /// All of a file's content, durable in the end.
    fn content(&mut self, file: &Handle, data: &[u8]) -> Result<()> {
        let length = self.limits.write_bytes as usize;
        if data.len() <= length {
            let bytes = data.len() as u64;
            let write = |connection: &mut Connection| connection.write(file, 0, data, Stable::FileSync);
            return self.change(Kind::WriteFileSync, bytes, write).map(drop);
        }
        let mut stream = Stream::default();
        for (index, piece) in data.chunks(length).enumerate() {
            stream.send(self, file, (index * length) as u64, piece)?;
        }
        stream.commit(self, file)
    }
}

/// UNSTABLE WRITEs under way, and what is owed for them.
#[derive(Default)]
struct Stream {
    /// When each was sent. Replies may overtake each other, so which of them a reply belongs to is not looked at; what
    /// they took must be right in sum.
    under_way: VecDeque<Instant>,
    verifier: Option<u64>,
    /// Whether the server has left any of it for the COMMIT to make durable.
    has_unstable: bool,
    bytes_sent: u64,
    bytes_taken: u64,
}

impl Stream {
    fn send(&mut self, client: &mut Requests, file: &Handle, offset: u64, piece: &[u8]) -> Result<()> {
        if self.under_way.len() >= DEPTH {
            self.receive(client)?;
        }
        client.connection.send_write(file, offset, piece, Stable::Unstable)?;
        self.under_way.push_back(Instant::now());
        self.bytes_sent += piece.len() as u64;
        Ok(())
    }

    fn receive(&mut self, client: &mut Requests) -> Result<()> {
        let Some(sent) = self.under_way.pop_front() else { return Ok(()) };
        let Written { count, verifier, committed, .. } = client.connection.receive_any_write(Stable::Unstable)?;
        self.has_unstable |= committed == Stable::Unstable;
        client.meter.answered(Promise::Nothing, sent.elapsed());
        self.bytes_taken += count as u64;
        ensure!(*self.verifier.get_or_insert(verifier) == verifier, LOST);
        Ok(())
    }

    fn commit(mut self, client: &mut Requests, file: &Handle) -> Result<()> {
        while !self.under_way.is_empty() {
            self.receive(client)?;
        }
        let (sent, taken) = (self.bytes_sent, self.bytes_taken);
        ensure!(sent == taken, "WRITEs of {sent} bytes took {taken}");
        // Whose WRITEs were all stable at once has nothing left for a COMMIT to promise.
        let kind = if self.has_unstable { Kind::Commit } else { Kind::WriteToldStable };
        let verifier = client.change(kind, taken, |connection| connection.commit(file))?;
        ensure!(self.verifier.is_none_or(|before| before == verifier), LOST);
        Ok(())
    }
}

const LOST: &str = "the server was restarted in the middle, and says that it may have lost unstable data";

impl Client for Requests {
    type Node = Handle;

    fn make_folder(&mut self, parent: &Handle, name: &str) -> Result<Handle> {
        self.change(Kind::MkDir, 0, |connection| connection.mkdir(parent, name))
    }

    fn find(&mut self, folder: &Handle, name: &str) -> Result<Handle> {
        self.connection.lookup(folder, name)
    }

    fn finish_folder(&mut self, folder: &Handle, tool: Tool) -> Result<()> {
        self.settings(folder, tool, 0o755)
    }

    fn add_file(&mut self, folder: &Handle, name: &str, data: &[u8], tool: Tool) -> Result<Handle> {
        let verifier = self.next_verifier();
        let make = |connection: &mut Connection| connection.create_exclusive(folder, name, verifier);
        let file = self.change(Kind::CreateExclusive, 0, make)?;
        // CREATE EXCLUSIVE has no room for attributes, so they follow.
        self.set(&file, Attributes { mode: Some(0o600), ..Attributes::default() })?;
        self.content(&file, data)?;
        self.settings(&file, tool, 0o644)?;
        Ok(file)
    }

    /// A link's mode is nobody's to set.
    fn add_symlink(&mut self, folder: &Handle, name: &str, to: &str, tool: Tool) -> Result<()> {
        let link = self.change(Kind::SymLink, 0, |connection| connection.symlink(folder, name, to))?;
        self.set_all(&link, tool.settings().iter().filter(|setting| **setting != Setting::Mode), 0)
    }

    fn link(&mut self, file: &Handle, folder: &Handle, name: &str) -> Result<()> {
        self.change(Kind::Link, 0, |connection| connection.link(file, folder, name))
    }

    fn create(&mut self, folder: &Handle, name: &str) -> Result<Handle> {
        self.change(Kind::Create, 0, |connection| connection.create(folder, name))
    }

    fn overwrite(&mut self, file: &Handle, data: &[u8]) -> Result<()> {
        self.set(file, Attributes { size: Some(0), ..Attributes::default() })?;
        self.content(file, data)
    }

    fn write_long(&mut self, file: &Handle, pieces: &mut Pieces<'_>) -> Result<()> {
        let mut stream = Stream::default();
        for index in 0..pieces.count {
            let offset = index * pieces.bytes() as u64;
            stream.send(self, file, offset, pieces.piece(index))?;
            pieces.done()?;
        }
        stream.commit(self, file)
    }

    fn read_long(&mut self, file: &Handle, pieces: &mut Pieces<'_>) -> Result<()> {
        let length = pieces.bytes();
        let mut under_way = VecDeque::new();
        let mut next = 0;
        while next < pieces.count || !under_way.is_empty() {
            if next < pieces.count && under_way.len() < DEPTH {
                self.connection.send_read(file, next * length as u64, u32::try_from(length)?)?;
                under_way.push_back(Instant::now());
                next += 1;
                continue;
            }
            let data = self.connection.receive_data()?;
            let sent = under_way.pop_front();
            self.meter.answered(Promise::Nothing, sent.map_or_else(Default::default, |sent| sent.elapsed()));
            pieces.check(data)?;
        }
        Ok(())
    }

    fn list(&mut self, folder: &Handle) -> Result<u64> {
        let connection = &mut self.connection;
        self.meter.time(Promise::Nothing, || connection.list(folder))
    }

    fn probe(&mut self, folder: &Handle, kind: Kind, number: u64, witness: &mut Witness<'_>) -> Result<Probed> {
        probe::one(self, folder, kind, number, witness)
    }
}
