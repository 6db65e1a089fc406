//! One sequence, and the states behind it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use nfs3_types::nfs3::{LOOKUP3args, NFS_PROGRAM, nfsstat3};
use tally_base::Promise;
use tally_fs::filer::ImportOptions;
use tally_nfs::service::{Job, Step as Served};
use tally_store::properties::{Property, PropertySet, SyncMode, parse};
use tally_store::tuning::Tuning;
use tally_vfs::model::Model;
use tally_vfs::{Attr, Attributes, CreateHow, Cred, FileKind, Identity, Names, SetAttr, Stability};

use super::Totals;
use super::alphabet::{ALPHABET, Step};
use crate::agree::agree;
use crate::client::{Call, Client, Told, bytes_of, name_in, told};
use crate::disk::{Cuts, Pages, Place};
use crate::machine::{Machine, POOL, Shape};
use crate::op::{Answer, Expected, Known, Object, Op};
use crate::oracle::{Oracle, Promised, new_model};
use crate::same::same;
use crate::sound::sound;

/// Bytes of a disk of data.
const DATA_BYTES: u64 = 16 << 20;
/// Bytes of a log device: 1 MiB of labels, and a ring of 1 MiB.
const LOG_BYTES: u64 = 2 << 20;
/// Bytes of a block.
const RECORD_SIZE: u64 = 16 << 10;
/// Groups that a reply may take.
const GROUPS_MAX: usize = 4;

type Checked<T> = Result<T, String>;

/// A pool that sequences begin with.
pub struct World {
    shape: Shape,
    disks: Vec<Pages>,
    model: Model,
}

/// A request that was carried out.
struct Done {
    number: usize,
    op: Op,
    record: Bytes,
    expected: Expected,
    has_effect: bool,
    told: Option<Told>,
}

/// One that is not answered yet.
struct Waiting {
    /// Its place among those that are done.
    done: usize,
    job: Job,
    promise: Box<dyn Promise>,
    promised: Promised,
}

struct Run<'a> {
    world: &'a World,
    machine: Machine,
    client: Client,
    oracle: Oracle,
    known: Vec<Object>,
    done: Vec<Done>,
    waiting: Vec<Waiting>,
    cuts: Option<Cuts>,
    /// The disks lie about durable writes.
    lies: bool,
    totals: Totals,
}

impl World {
    /// Makes the pool, and what is in it at the beginning of every sequence.
    ///
    /// # Panics
    ///
    /// If the server cannot do so much.
    #[must_use]
    pub fn new(vdevs: &[&str]) -> Self {
        let tuning = Tuning { cache_bytes: 1 << 20, ..Tuning::default() };
        let vdevs = vdevs.iter().map(|word| (*word).to_owned()).collect();
        let shape = Shape { vdevs, data_bytes: DATA_BYTES, log_bytes: LOG_BYTES, tuning };
        let empty = Self { shape: shape.clone(), disks: Vec::new(), model: new_model() };
        let mut machine = Machine::new(shape.clone(), 1);
        let mut properties = PropertySet::new();
        properties.set(parse(Property::RecordSize, &RECORD_SIZE.to_string()).expect("a size"));
        machine.create(properties).expect("empty disks take a pool");
        let mut run = Run::new(&empty, machine).expect("an empty pool");
        let set = |mode| SetAttr { mode: Some(mode), ..SetAttr::default() };
        let prepared = (|| -> Checked<()> {
            let find = |run: &Run<'_>, path: &str| run.find(path).ok_or_else(|| format!("{path} is not there"));
            let root = find(&run, "")?;
            run.request(Op::Create { dir: Arc::clone(&root), name: "a", how: CreateHow::Guarded(set(0o644)) }, true)?;
            run.request(Op::Mkdir { dir: root, name: "d" }, true)?;
            let dir = find(&run, "d")?;
            run.request(Op::Create { dir, name: "b", how: CreateHow::Guarded(set(0o640)) }, true)?;
            for (path, length) in [("a", 6000), ("d/b", 100)] {
                let (object, stability) = (find(&run, path)?, Stability::FileSync);
                run.request(Op::Write { object, offset: 0, length, fill: 3, stability }, true)?;
            }
            run.machine.server().filer.export().map_err(|error| error.to_string())
        })();
        prepared.expect("the pool takes two files and a directory");
        let disks = run.machine.disks().iter().map(|(_, disk)| disk.content()).collect();
        let model = run.oracle.live.fork();
        Self { shape, disks, model }
    }

    /// Runs a sequence, and compares every state that a cut may leave; with `lies` such as the server is not made for.
    pub fn run(&self, letters: &[usize], lies: bool) -> Checked<Totals> {
        let run = || {
            let mut totals = self.one_by_one(letters, lies)?;
            let requests = letters.iter().all(|letter| matches!(ALPHABET[*letter].step, Step::Request(_)));
            if requests && letters.len() > 1 && totals.impossible == 0 {
                totals += self.together(letters, lies)?;
            }
            Ok(totals)
        };
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(format!("panic: {}", text.unwrap_or_default()))
        })
    }

    /// Every request is answered before the next one is sent.
    fn one_by_one(&self, letters: &[usize], lies: bool) -> Checked<Totals> {
        let mut run = Run { lies, ..Run::begin(self)? };
        for (at, letter) in letters.iter().enumerate() {
            if at + 1 == letters.len() {
                run.begin_cuts();
            }
            match ALPHABET[*letter].step {
                Step::Sync => run.sync("in the sync")?,
                Step::Request(op) => {
                    let Some(op) = op(&|path| run.find(path)) else { return Ok(impossible()) };
                    run.request(op, true)?;
                }
            }
        }
        if !letters.last().is_some_and(|letter| matches!(ALPHABET[*letter].step, Step::Sync)) {
            run.sync("in the sync behind the sequence")?;
        }
        run.totals.sequences = 1;
        Ok(run.totals)
    }

    /// All requests are sent, and then the log is written.
    fn together(&self, letters: &[usize], lies: bool) -> Checked<Totals> {
        let mut run = Run { lies, ..Run::begin(self)? };
        for letter in letters {
            let Step::Request(op) = ALPHABET[*letter].step else { unreachable!("the caller has looked") };
            // What is made has no handle yet: later requests about it are none.
            let Some(op) = op(&|path| run.find(path)) else { return Ok(Totals::default()) };
            run.request(op, false)?;
        }
        run.begin_cuts();
        run.answer_all()?;
        Ok(run.totals)
    }

    /// A machine with these disks.
    fn machine(&self, disks: &[Pages], seed: u64) -> Machine {
        Machine::holding(self.shape.clone(), seed, disks)
    }
}

fn impossible() -> Totals {
    Totals { impossible: 1, ..Totals::default() }
}

impl<'a> Run<'a> {
    fn begin(world: &'a World) -> Checked<Self> {
        let mut machine = world.machine(&world.disks, 2);
        machine.import(&ImportOptions::default()).map_err(|error| error.to_string())?;
        Self::new(world, machine)
    }

    fn new(world: &'a World, machine: Machine) -> Checked<Self> {
        let oracle = Oracle::new(world.model.fork(), SyncMode::Standard);
        let mut run = Self {
            world,
            client: Client::new(1, 0, 1),
            oracle,
            known: Vec::new(),
            done: Vec::new(),
            waiting: Vec::new(),
            cuts: None,
            lies: false,
            totals: Totals::default(),
            machine,
        };
        let handle = run.machine.server().root_handle(POOL);
        let model = run.oracle.live.root();
        run.known.push(Arc::new(Known { handle, model, kind: FileKind::Directory, dataset: 0, record_size: 0 }));
        for path in ["a", "d", "d/b"] {
            run.look_up(path)?;
        }
        Ok(run)
    }

    /// Learns the handle of a path, if the model has it.
    fn look_up(&mut self, path: &str) -> Checked<()> {
        let Some(attr) = self.attr(path) else { return Ok(()) };
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let dir = self.find(dir).ok_or("the directory has no handle")?;
        let call = Call::new(NFS_PROGRAM::NFSPROC3_LOOKUP, &LOOKUP3args { what: name_in(&dir.handle, name) });
        let record = self.client.record(&call);
        let server = Arc::clone(self.machine.server());
        let mut job =
            server.service.open(record, self.client.link(), Instant::now()).map_err(|error| format!("{error:?}"))?;
        let Served::Reply(reply) = server.service.run(&mut job) else { return Err("LOOKUP waits".into()) };
        let told = told(call.procedure, &bytes_of(&reply))?;
        let handle = told.handle.ok_or_else(|| format!("LOOKUP of {path} gives {}", told.status))?;
        self.meet(handle, &attr);
        Ok(())
    }

    fn meet(&mut self, handle: Vec<u8>, attr: &Attr) {
        let known = Known { handle, model: attr.object, kind: attr.kind, dataset: 0, record_size: RECORD_SIZE };
        self.known.push(Arc::new(known));
    }

    fn attr(&self, path: &str) -> Option<Attr> {
        let model = &self.oracle.live;
        let mut attr = model.getattr(model.root()).ok()?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            attr = model.lookup(&Cred::root(), attr.object, name.as_bytes()).ok()?.0;
        }
        Some(attr)
    }

    /// What a path names, if its handle is known.
    fn find(&self, path: &str) -> Option<Object> {
        let attr = self.attr(path)?;
        self.known.iter().find(|known| known.model == attr.object).cloned()
    }

    /// Sends a request, and with `waits` waits for its answer.
    fn request(&mut self, op: Op, waits: bool) -> Checked<()> {
        let server = Arc::clone(self.machine.server());
        let limits = server.limits(POOL);
        let record = self.client.record(&op.call());
        let mut job = server
            .service
            .open(record.clone(), self.client.link(), Instant::now())
            .map_err(|refusal| format!("{op:?} is refused: {refusal:?}"))?;
        let before = self.oracle.before(&op, limits);
        let step = server.service.run(&mut job);
        let number = self.done.len() + 1;
        let expected = op.run_on(&self.oracle.live, &Cred::root());
        let (promised, has_effect) = match expected.result {
            Ok(_) => (
                self.oracle.take((&op, &Cred::root()), number, &before, limits),
                self.oracle.has_effect(&op, &before, limits),
            ),
            Err(error) => (self.oracle.refused(&op, error), false),
        };
        self.done.push(Done { number, op, record, expected, has_effect, told: None });
        let done = self.done.len() - 1;
        match step {
            Served::Reply(reply) => {
                server.service.finish(&mut job, &reply);
                self.check("before the reply")?;
                self.answered(done, &bytes_of(&reply), promised)?;
                self.check("behind the reply")
            }
            Served::Wait(promise) => {
                self.waiting.push(Waiting { done, job, promise, promised });
                if waits { self.answer_all() } else { Ok(()) }
            }
            Served::Attached | Served::Again(_) => Err(format!("{:?} is not carried out", self.done[done].op)),
        }
    }

    /// The model must agree with an answer, and what it promises counts from now on.
    fn answered(&mut self, done: usize, reply: &[u8], promised: Promised) -> Checked<()> {
        let done = &mut self.done[done];
        let told = told(done.op.call().procedure, reply)?;
        agree(&done.op, &told, &done.expected).map_err(|what| format!("#{} {:?} {what}", done.number, done.op))?;
        let made = match (&done.expected.result, &told.handle, done.op.makes()) {
            (Ok(Answer::Made(attr)), Some(handle), true) => Some((handle.clone(), attr.clone())),
            _ => None,
        };
        done.told = Some(told);
        if let Some((handle, attr)) = made
            && !self.known.iter().any(|known| known.model == attr.object)
        {
            self.meet(handle, &attr);
        }
        if let Promised::Log(op) = promised {
            // No disk is damaged here, so nobody asks for the round before.
            self.oracle.raise_floor(op, 0);
        }
        Ok(())
    }

    /// Everybody who waits is answered, by the log or by a group.
    fn answer_all(&mut self) -> Checked<()> {
        for group in 0..GROUPS_MAX {
            let server = Arc::clone(self.machine.server());
            let mut answers = Vec::new();
            for mut waiting in std::mem::take(&mut self.waiting) {
                let driven = waiting.promise.drive();
                match driven.or_else(|| waiting.promise.poll()) {
                    None => self.waiting.push(waiting),
                    Some(Err(broken)) => return Err(format!("#{}: {broken}", self.done[waiting.done].number)),
                    Some(Ok(kept)) => {
                        let reply = server.service.reply_after_wait(&mut waiting.job, Ok(kept));
                        server.service.finish(&mut waiting.job, &reply);
                        answers.push((waiting.done, bytes_of(&reply), waiting.promised));
                    }
                }
            }
            // Nobody has seen the answers yet.
            self.check("while the log is written")?;
            for (done, reply, promised) in answers {
                self.answered(done, &reply, promised)?;
            }
            self.check("behind the replies")?;
            if self.waiting.is_empty() {
                return Ok(());
            }
            if group + 1 < GROUPS_MAX {
                self.sync("in the sync that a reply waits for")?;
            }
        }
        Err(format!("a reply was not there after {GROUPS_MAX} groups"))
    }

    fn sync(&mut self, place: &str) -> Checked<()> {
        self.oracle.begin_group(self.done.len());
        self.machine.server().filer.sync().map_err(|error| error.to_string())?;
        self.check(place)?;
        self.oracle.end_group();
        self.check("behind the sync")
    }

    /// From now on, every cut is tried.
    fn begin_cuts(&mut self) {
        self.machine.power().record(true);
        self.cuts = Some(Cuts::of(self.machine.disks().iter().map(|(_, disk)| disk), self.lies));
    }

    /// Tries every cut since it was last called.
    fn check(&mut self, place: &str) -> Checked<()> {
        let Some(mut cuts) = self.cuts.take() else { return Ok(()) };
        let events = self.machine.power().take_events();
        let mut totals = self.totals;
        let outcome = cuts.each(&events, &mut |disks: &[Pages], at: &Place| {
            totals.states += 1;
            self.check_state(disks, &mut totals).map_err(|what| {
                let (event, of) = (at.event, events.len());
                format!("{place}, cut after {event} of {of} writes and flushes with {} kept: {what}", at.kept)
            })
        });
        (self.totals, self.cuts) = (totals, Some(cuts));
        outcome
    }

    /// Imports what a cut has left, and compares it.
    fn check_state(&self, disks: &[Pages], totals: &mut Totals) -> Checked<()> {
        let mut machine = self.world.machine(disks, 3);
        let report =
            machine.import(&ImportOptions::default()).map_err(|error| format!("the import is refused: {error}"))?;
        totals.replayed += report.records_replayed;
        if !report.losses.is_empty() {
            return Err(format!("losses: {:?}", report.losses));
        }
        let server = Arc::clone(machine.server());
        let fs = server.filer.by_name(POOL).ok_or("the dataset is gone")?;
        let found = self.oracle.find(false, |left| same(&*fs, &left.model))?;
        sound(&server.filer)?;
        let mut client = Client::new(1, 0, 1);
        client.reconnect();
        for done in self.done.iter().filter(|done| done.number <= found.ops.0 && done.is_remembered()) {
            let refused = |what: &str| format!("#{} {:?}, sent again, {what}", done.number, done.op);
            let mut job = server
                .service
                .open(done.record.clone(), client.link(), Instant::now())
                .map_err(|_| refused("is refused"))?;
            let Served::Reply(reply) = server.service.run(&mut job) else {
                return Err(refused("is carried out again"));
            };
            server.service.finish(&mut job, &reply);
            let again = told(done.op.call().procedure, &bytes_of(&reply))?;
            if again.status != nfsstat3::NFS3_OK {
                return Err(refused(&format!("is answered with {}", again.status)));
            }
            if done.told.as_ref().is_some_and(|told| told.handle != again.handle) {
                return Err(refused("gives another handle"));
            }
            totals.remembered += 1;
        }
        Ok(())
    }
}

impl Done {
    /// Whether its answer outlives a crash, if its effect does.
    fn is_remembered(&self) -> bool {
        self.expected.result.is_ok() && self.has_effect && !matches!(self.op, Op::Write { .. } | Op::Commit { .. })
    }
}
