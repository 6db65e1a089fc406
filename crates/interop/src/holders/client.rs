//! One client: how a step of its is carried out, and how it comes back behind a kill.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tally_bench::wire::Connection;
use tally_wire::Told;
use tally_wire::ask::{self, How};
use tally_wire::nfs4::{NfsArgop4, Nfsstat4};

use super::belief::{Belief, Open, box_name};
use super::owners::Owners;
use super::session::{LATER, Session, UnderWay, connect};
use super::truth::Truth;
use super::{Result, Trouble, violation};
use crate::random::Random;

/// How long a server may need until it takes connections, or says another word than "later".
const PATIENCE: Duration = Duration::from_secs(120);

/// What all clients of a run have in common.
pub(super) struct Common {
    pub(super) server: SocketAddr,
    pub(super) truth: Truth,
    /// Nobody begins another step.
    pub(super) is_over: AtomicBool,
    /// Nobody goes on with the one that he is at.
    pub(super) is_broken_off: AtomicBool,
    /// Who does not connect, if anybody: one of them at most.
    pub(super) away: AtomicUsize,
}

/// Of [`Common::away`].
pub(super) const NOBODY: usize = usize::MAX;

impl Common {
    pub(super) fn is_broken_off(&self) -> bool {
        self.is_broken_off.load(Ordering::Relaxed)
    }

    fn check_broken_off(&self) -> Result<()> {
        if self.is_broken_off() { Err(Trouble::Enough) } else { Ok(()) }
    }
}

/// Which version a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Minor {
    /// 4.0.
    Zero,
    /// 4.1.
    One,
}

/// As whom it speaks in one life of the server.
enum Voice {
    Owners(Owners),
    Session(Session),
}

impl Voice {
    fn open(minor: Minor, connection: Connection, name: &str) -> Result<Self> {
        match minor {
            Minor::Zero => Owners::open(connection, name).map(Self::Owners),
            Minor::One => Session::open(connection, name).map(Self::Session),
        }
    }

    fn ask(&mut self, ops: &[NfsArgop4], under_way: &mut Option<UnderWay>) -> Result<Told> {
        match self {
            Self::Owners(owners) => owners.ask(ops, under_way),
            Self::Session(session) => session.ask(ops, under_way),
        }
    }

    /// Whether the connection broke behind what was told.
    fn is_broken(&self) -> bool {
        matches!(self, Self::Owners(owners) if owners.is_broken())
    }
}

/// A client.
pub(super) struct Client<'a> {
    pub(super) number: usize,
    pub(super) common: &'a Common,
    pub(super) random: Random,
    pub(super) belief: Belief,
    /// Handles of the directory that all share, and of its own.
    pub(super) shared: Vec<u8>,
    pub(super) home: Vec<u8>,
    /// Names that it has given so far.
    pub(super) named: u64,
    minor: Minor,
    voice: Option<Voice>,
    under_way: Option<UnderWay>,
    /// The server's, in which it has its session.
    life: u64,
    was_late: bool,
}

/// What came of a step.
pub(super) enum Came {
    Told(Told),
    /// Told of a request that had been carried out before the kill.
    ToldBehind(Told),
    /// What was asked about is gone with its server.
    Gone,
}

impl<'a> Client<'a> {
    pub(super) fn new(number: usize, minor: Minor, common: &'a Common, seed: u64) -> Self {
        let random = Random::new(seed, number as u64);
        let (belief, shared, home, named, voice, under_way, life, was_late) = Default::default();
        Self { number, common, random, belief, shared, home, named, minor, voice, under_way, life, was_late }
    }

    pub(super) fn truth(&self) -> &'a Truth {
        &self.common.truth
    }

    /// Carries out what `ops` makes of what it believes by then, once, whatever becomes of the server meanwhile. `None`: by then there is nothing to ask.
    pub(super) fn carry_out(&mut self, ops: impl Fn(&Belief) -> Option<Vec<NfsArgop4>>) -> Result<Came> {
        let began = Instant::now();
        loop {
            self.come_back()?;
            let Some(ops) = ops(&self.belief) else { return Ok(Came::Gone) };
            match self.ask(&ops) {
                Ok(told) if is_later(&told) => self.waits_since(began, &told)?,
                Ok(told) => {
                    self.truth().count(|counts| counts.answered += 1);
                    if told.stateid().is_some() {
                        self.truth().is_given_something(self.life);
                    }
                    return Ok(Came::Told(told));
                }
                Err(Trouble::Broken) => {
                    if let Some(told) = self.ask_again()? {
                        return Ok(Came::ToldBehind(told));
                    }
                }
                Err(Trouble::SessionOver) => self.is_lost(),
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// Whether it is known in this life of the server.
    pub(super) fn is_there(&self) -> bool {
        self.voice.is_some()
    }

    /// Whether it has ever lost what it had.
    pub(super) fn was_late(&self) -> bool {
        self.was_late
    }

    /// Whether an OPEN that has made its file and comes again behind a kill is known by its verifier alone: minor version 0 has a client id in it, which is another one by then.
    pub(super) fn needs_verifiers(&self) -> bool {
        self.minor == Minor::Zero
    }

    /// Carries out what has no sense behind a restart.
    pub(super) fn once(&mut self, ops: &[NfsArgop4]) -> Result<Came> {
        let began = Instant::now();
        loop {
            match self.ask(ops) {
                Ok(told) if is_later(&told) => self.waits_since(began, &told)?,
                Ok(told) => {
                    self.truth().count(|counts| counts.answered += 1);
                    return Ok(Came::Told(told));
                }
                Err(Trouble::Broken) => return Ok(self.ask_again()?.map_or(Came::Gone, Came::ToldBehind)),
                Err(Trouble::SessionOver) => {
                    self.is_lost();
                    return Ok(Came::Gone);
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }

    fn ask(&mut self, ops: &[NfsArgop4]) -> Result<Told> {
        let voice = self.voice.as_mut().ok_or(Trouble::SessionOver)?;
        let told = voice.ask(ops, &mut self.under_way);
        if voice.is_broken() {
            self.is_lost();
        }
        told
    }

    fn waits_since(&self, began: Instant, told: &Told) -> Result<()> {
        self.common.check_broken_off()?;
        if told.status == Nfsstat4::Nfs4ErrGrace {
            self.truth().is_kept_out_by_grace(self.life)?;
        }
        if began.elapsed() > PATIENCE {
            return violation(format!("{:?} for {PATIENCE:?}", told.status));
        }
        std::thread::sleep(LATER);
        Ok(())
    }

    fn is_lost(&mut self) {
        self.voice = None;
        self.belief.is_lost();
    }

    /// Connects to the server, which may be on its way, unless it is to stay away.
    fn connect(&mut self) -> Result<Connection> {
        while self.common.away.load(Ordering::Relaxed) == self.number {
            self.common.check_broken_off()?;
            std::thread::sleep(LATER);
        }
        let began = Instant::now();
        loop {
            self.common.check_broken_off()?;
            self.life = self.truth().life();
            let connection = connect(self.common.server, address(self.number));
            // A life begins before its server does: in which one this is is sure where none has begun meanwhile.
            if let Some(connection) = connection.filter(|_| self.truth().life() == self.life) {
                return Ok(connection);
            }
            if began.elapsed() > PATIENCE {
                return violation(format!("no connection for {PATIENCE:?}"));
            }
            std::thread::sleep(LATER);
        }
    }

    /// What a request was told that was under way at a kill, if it was carried out before that.
    fn ask_again(&mut self) -> Result<Option<Told>> {
        self.is_lost();
        let Some(under_way) = self.under_way.take() else { return Ok(None) };
        loop {
            let mut connection = self.connect()?;
            match under_way.again(&mut connection) {
                Err(Trouble::Broken) => {}
                Err(Trouble::SessionOver) => {
                    self.truth().count(|counts| counts.not_done += 1);
                    return Ok(None);
                }
                Ok(told) if is_later(&told) => return Ok(None),
                Ok(told) => {
                    self.truth().count(|counts| counts.done_before += 1);
                    return Ok(Some(told));
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// Introduces itself where it is not known, and claims again what it believes to have.
    pub(super) fn come_back(&mut self) -> Result<()> {
        while self.voice.is_none() {
            let connection = self.connect()?;
            let name = format!("holder {}", self.number);
            let came = Voice::open(self.minor, connection, &name).and_then(|voice| {
                self.voice = Some(voice);
                self.claim_all()
            });
            match came {
                Ok(()) => {}
                // It was killed once more.
                Err(Trouble::Broken | Trouble::SessionOver) => {
                    self.under_way = None;
                    self.is_lost();
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    fn claim_all(&mut self) -> Result<()> {
        let mut belief = std::mem::take(&mut self.belief);
        let claimed = belief.opens().try_for_each(|open| self.claim_open(open));
        self.belief = belief;
        let is_late = match claimed {
            Err(Trouble::Late) => {
                self.loses_all();
                true
            }
            claimed => {
                claimed?;
                false
            }
        };
        if self.minor == Minor::One {
            self.claim(&[ask::complete()])?;
        }
        self.truth().is_complete(self.number, self.life);
        if is_late { self.open_boxes() } else { Ok(()) }
    }

    fn claim_open(&mut self, open: &mut Open) -> Result<()> {
        let put = ask::put(&open.handle);
        let told = self.claim(&[put.clone(), ask::open_again()])?;
        open.stateid = told.stateid().cloned();
        let Some(stateid) = &open.stateid else { return violation("an OPEN without a stateid") };
        for part in &open.parts {
            let told = self.claim(&[put.clone(), ask::lock(stateid, part.range(), true)])?;
            self.truth().is_claimed(self.number, *part)?;
            open.locks = told.stateid().cloned();
        }
        Ok(())
    }

    /// It was away for too long: what it had may be others'.
    fn loses_all(&mut self) {
        self.was_late = true;
        self.truth().is_late();
        for part in self.belief.parts() {
            self.truth().loses(self.number, part);
        }
        self.belief.boxes.iter_mut().for_each(|open| *open = Open::new(std::mem::take(&mut open.handle), None));
        (self.belief.made, self.belief.nameless) = Default::default();
    }

    /// Opens anew what all lock. What it could claim of that stays as it is, as one owner has one open of a file.
    fn open_boxes(&mut self) -> Result<()> {
        for number in 0..self.belief.boxes.len() {
            let open = [ask::put(&self.shared), ask::open(How::Make, &box_name(number)), NfsArgop4::OpGetfh];
            let began = Instant::now();
            let told = loop {
                match self.ask(&open)? {
                    told if is_later(&told) => self.waits_since(began, &told)?,
                    told if told.is_ok() => break told,
                    told => return violation(format!("an OPEN is told {:?}", told.status)),
                }
            };
            self.belief.boxes[number].stateid = told.stateid().cloned();
        }
        Ok(())
    }

    /// A claim, that nobody has interfered with, unless the client was away.
    fn claim(&mut self, ops: &[NfsArgop4]) -> Result<Told> {
        let began = Instant::now();
        loop {
            let told = self.ask(ops)?;
            match told.status {
                Nfsstat4::Nfs4Ok => {
                    self.truth().count(|counts| counts.reclaimed += u64::from(ops.len() > 1));
                    return Ok(told);
                }
                Nfsstat4::Nfs4ErrDelay => self.waits_since(began, &told)?,
                Nfsstat4::Nfs4ErrNoGrace if self.truth().may_have_lost(self.number) => return Err(Trouble::Late),
                status => return violation(format!("a claim is told {status:?}: {ops:?}")),
            }
        }
    }
}

/// Of its own: a server remembers requests by it.
fn address(number: usize) -> IpAddr {
    Ipv4Addr::new(127, 0, 1, 1 + number as u8).into()
}

fn is_later(told: &Told) -> bool {
    matches!(told.status, Nfsstat4::Nfs4ErrDelay | Nfsstat4::Nfs4ErrGrace)
}
