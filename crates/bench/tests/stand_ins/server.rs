//! A small NFSv3 server that keeps nothing, and does to its disk what it is told: before a reply, behind it, or never.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tally_bench::referee::Kind;

use super::disk::Disk;

/// When the disk gets what a reply promises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Habit {
    /// Before it: honest.
    Before,
    /// Before it, by a thread that flushes for everybody who waits: honest.
    Together,
    /// Before it, on the other disk: honest, if one looks there.
    Elsewhere,
    /// So much behind it.
    After(Duration),
    /// When a clock strikes.
    Hourly(Duration),
    /// The bytes before it, and no flush.
    Unflushed,
    /// A flush before it, of something else; the bytes some time.
    Beside,
    /// The bytes some time, and no flush.
    Lazily,
    /// Never: in memory.
    Nowhere,
}

/// A server's habits.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    pub(crate) most: Habit,
    /// Kinds that have another one.
    pub(crate) but: HashMap<Kind, Habit>,
    /// Kinds that are answered with a status.
    pub(crate) refused: HashMap<Kind, u32>,
    /// Whether an UNSTABLE WRITE is flushed right behind its reply, so that COMMIT has nothing left to do.
    pub(crate) eager: bool,
    /// Whether every WRITE is said to be stable.
    pub(crate) told_stable: bool,
}

impl Habits {
    pub(crate) fn new(most: Habit) -> Self {
        Self { most, but: HashMap::new(), refused: HashMap::new(), eager: false, told_stable: false }
    }

    pub(crate) fn but(mut self, kinds: &[Kind], habit: Habit) -> Self {
        self.but.extend(kinds.iter().map(|kind| (*kind, habit)));
        self
    }

    pub(crate) fn refusing(mut self, kind: Kind, status: u32) -> Self {
        self.refused.insert(kind, status);
        self
    }

    fn of(&self, kind: Kind) -> Habit {
        self.but.get(&kind).copied().unwrap_or(self.most)
    }
}

/// The server, until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

struct State {
    habits: Habits,
    disk: Arc<Disk>,
    other: Arc<Disk>,
    /// Who makes it durable keeps it locked meanwhile.
    dirty: Mutex<Dirty>,
    later: Mutex<Sender<(Duration, Later)>>,
    handles: AtomicU64,
    ended: AtomicBool,
}

/// What is not durable yet.
#[derive(Default)]
struct Dirty {
    /// Bytes that are on no disk.
    bytes: u64,
    /// Whether others are, behind no flush.
    unflushed: bool,
}

enum Later {
    Flush,
    /// For those who wait.
    FlushFor(Sender<()>),
    Write,
}

impl Server {
    pub(crate) fn start(habits: Habits, disk: Arc<Disk>, other: Arc<Disk>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (later, jobs) = channel::<(Duration, Later)>();
        let (dirty, handles, ended) = (Mutex::default(), AtomicU64::new(1), AtomicBool::new(false));
        let state = Arc::new(State { habits, disk, other, dirty, later: Mutex::new(later), handles, ended });
        let worker = Arc::downgrade(&state);
        thread::spawn(move || {
            for (wait, job) in jobs {
                thread::sleep(wait);
                let Some(state) = worker.upgrade() else { return };
                match job {
                    Later::Flush => state.make_durable(&state.disk),
                    Later::FlushFor(waiting) => {
                        state.make_durable(&state.disk);
                        let _ = waiting.send(());
                    }
                    Later::Write => state.write_out(state.home()),
                }
            }
        });
        if let Habit::Hourly(period) = state.habits.most {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                while !state.ended.load(Relaxed) {
                    thread::sleep(period);
                    state.make_durable(&state.disk);
                }
            });
        }
        let accepting = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.ended.load(Relaxed) {
                    return;
                }
                let (stream, state) = (stream.unwrap(), Arc::clone(&accepting));
                thread::spawn(move || state.serve(stream));
            }
        });
        Self { address, state }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.ended.store(true, Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    /// Until the client goes.
    fn serve(&self, mut stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut mark = [0; 4];
        while stream.read_exact(&mut mark).is_ok() {
            let mut call = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
            if stream.read_exact(&mut call).is_err() {
                return;
            }
            let (reply, kind) = self.answer(&mut Call(&call));
            let mut message = (u32::try_from(reply.len()).unwrap() | 1 << 31).to_be_bytes().to_vec();
            message.extend(reply);
            if stream.write_all(&message).is_err() {
                return;
            }
            if let Some(kind) = kind {
                self.behind(kind);
            }
        }
    }

    /// The reply, and what it promises by.
    fn answer(&self, call: &mut Call<'_>) -> (Vec<u8>, Option<Kind>) {
        let xid = call.number();
        let [_call, _rpc, program, _version, procedure] = [(); 5].map(|()| call.number());
        for _credential_then_verifier in 0..2 {
            call.number();
            call.opaque();
        }
        let mut reply = Reply(Vec::new());
        [xid, 1, 0, 0, 0, 0].into_iter().for_each(|number| reply.number(number));
        if program != 100_003 {
            reply.number(0);
            reply.handle(self);
            [1, 1].into_iter().for_each(|number| reply.number(number));
            return (reply.0, None);
        }
        let (mut length, mut stable) = (0, 0);
        let kind = match procedure {
            2 => Some(Kind::SetAttr),
            7 => {
                call.opaque();
                let [_offset, _its_rest, count, asked] = [(); 4].map(|()| call.number());
                length = count;
                stable = if self.habits.told_stable { 2 } else { asked };
                match (asked, stable) {
                    (0, 0) => None,
                    (0, _) => Some(Kind::WriteToldStable),
                    (1, _) => Some(Kind::WriteDataSync),
                    _ => Some(Kind::WriteFileSync),
                }
            }
            8 => {
                call.opaque();
                call.opaque();
                Some(if call.number() == 2 { Kind::CreateExclusive } else { Kind::Create })
            }
            9 => Some(Kind::MkDir),
            10 => Some(Kind::SymLink),
            11 => Some(Kind::MkNod),
            12 => Some(Kind::Remove),
            13 => Some(Kind::RmDir),
            14 => Some(Kind::Rename),
            15 => Some(Kind::Link),
            21 => Some(Kind::Commit),
            _ => None,
        };
        if let Some(&status) = kind.and_then(|kind| self.habits.refused.get(&kind)) {
            reply.number(status);
            [0, 0].into_iter().for_each(|number| reply.number(number));
            return (reply.0, None);
        }
        self.dirty.lock().unwrap().bytes += match procedure {
            7 => length.into(),
            21 => 0,
            _ if kind.is_some() => 4096,
            _ => 0,
        };
        if let Some(kind) = kind {
            self.before(kind);
        }
        reply.number(0);
        let none = |reply: &mut Reply, count: usize| (0..count).for_each(|_| reply.number(0));
        match procedure {
            3 => {
                reply.handle(self);
                none(&mut reply, 2);
            }
            7 => {
                none(&mut reply, 2);
                [length, stable, 0, 1].into_iter().for_each(|number| reply.number(number));
                if stable == 0 {
                    self.later(Duration::ZERO, if self.habits.eager { Later::Flush } else { Later::Write });
                }
            }
            8..=11 => {
                reply.number(1);
                reply.handle(self);
                none(&mut reply, 3);
            }
            15 => none(&mut reply, 3),
            14 => none(&mut reply, 4),
            17 => {
                none(&mut reply, 4);
                reply.number(1);
            }
            19 => {
                reply.number(0);
                (0..7).for_each(|_| reply.number(1 << 20));
                none(&mut reply, 5);
            }
            21 => [0, 0, 0, 1].into_iter().for_each(|number| reply.number(number)),
            _ => none(&mut reply, 2),
        }
        (reply.0, kind)
    }

    fn before(&self, kind: Kind) {
        match self.habits.of(kind) {
            Habit::Before => self.make_durable(&self.disk),
            Habit::Elsewhere => self.make_durable(&self.other),
            Habit::Together => {
                let (ready, wait) = channel();
                self.later(Duration::from_micros(100), Later::FlushFor(ready));
                wait.recv().unwrap();
            }
            Habit::Unflushed => self.write_out(&self.disk),
            Habit::Beside => self.disk.flush(),
            Habit::After(_) | Habit::Hourly(_) | Habit::Lazily | Habit::Nowhere => {}
        }
    }

    fn behind(&self, kind: Kind) {
        match self.habits.of(kind) {
            Habit::After(wait) => self.later(wait, Later::Flush),
            Habit::Beside | Habit::Lazily => self.later(Duration::from_millis(2), Later::Write),
            _ => {}
        }
    }

    /// Where the bytes go in the end.
    fn home(&self) -> &Disk {
        if self.habits.most == Habit::Elsewhere { &self.other } else { &self.disk }
    }

    /// Nobody waits for it; a server that keeps all in memory never does it.
    fn later(&self, wait: Duration, job: Later) {
        let memory = self.habits.most == Habit::Nowhere;
        if !memory {
            self.later.lock().unwrap().send((wait, job)).unwrap();
        }
    }

    /// Writes and flushes what is not durable yet, if anything.
    fn make_durable(&self, disk: &Disk) {
        let mut dirty = self.dirty.lock().unwrap();
        let Dirty { bytes, unflushed } = *dirty;
        if bytes > 0 {
            disk.write(bytes);
        }
        if bytes > 0 || unflushed {
            disk.flush();
        }
        *dirty = Dirty::default();
    }

    fn write_out(&self, disk: &Disk) {
        let mut dirty = self.dirty.lock().unwrap();
        if dirty.bytes > 0 {
            disk.write(dirty.bytes);
            *dirty = Dirty { bytes: 0, unflushed: true };
        }
    }
}

/// What is left of a call.
struct Call<'a>(&'a [u8]);

impl Call<'_> {
    fn number(&mut self) -> u32 {
        let (number, rest) = self.0.split_first_chunk().unwrap();
        self.0 = rest;
        u32::from_be_bytes(*number)
    }

    fn opaque(&mut self) {
        let length = self.number() as usize;
        self.0 = &self.0[length.next_multiple_of(4)..];
    }
}

struct Reply(Vec<u8>);

impl Reply {
    fn number(&mut self, number: u32) {
        self.0.extend(number.to_be_bytes());
    }

    /// A handle that nobody had before.
    fn handle(&mut self, state: &State) {
        self.number(8);
        self.0.extend(state.handles.fetch_add(1, Relaxed).to_be_bytes());
    }
}
