//! A client of version 4.1, or 4.0: its session, its slots, and what it believes to have. It knows what it was told, and no more.

use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use tally_nfs::link::Link;
use tally_nfs::v4::state::CallId;
use tally_wire::nfs4::{CbSequence4Args, CreateSession4Res, ExchangeId4Res, NfsResop4, Nfsstat4, Sessionid4, Stateid4};

use super::Checked;
use super::OLDER;
use super::kept::Kept;
use super::ledger::BYTES;
use super::older::{Older, Turns};
use super::world::{Begun, POOLS, Parked, World};
use crate::client::bytes_of;
use crate::words::{self, InSlot, Op, Told};

/// Slots of a session, and one more for what it does about a call of the server.
const SLOTS: usize = 3;
pub(super) const SLOT_OF_CALLS: usize = SLOTS;

/// A client.
pub(super) struct Caller {
    pub(super) number: usize,
    /// Another one each time it starts.
    start: u64,
    link: Arc<Link>,
    next_link: u64,
    next_xid: u32,
    pub(super) session: Option<Session>,
    /// It has said that it claims nothing more.
    pub(super) is_complete: bool,
    /// It says nothing of its own accord.
    pub(super) is_silent: bool,
    /// What it believes to have open.
    pub(super) opens: Vec<Believed>,
    /// What it was given to keep.
    pub(super) kept: Vec<Kept>,
    /// Stateids of sessions that are over.
    pub(super) old: Vec<(Vec<u8>, Stateid4)>,
    /// Calls over its connection that it has not answered.
    pub(super) unanswered: Vec<(CallId, CbSequence4Args)>,
    /// The server may call it over its connection.
    pub(super) is_reachable: bool,
    /// It asks for sessions that outlive the server.
    pub(super) would_last: bool,
    /// What it knows if it is of minor version 0.
    pub(super) older: Older,
}

/// A session with the next sequence of each slot.
pub(super) struct Session {
    id: Sessionid4,
    next: [u32; SLOTS + 1],
    /// The last request of each slot, and its results, whether or not the client got them.
    last: [Option<(Vec<Op>, Vec<u8>)>; SLOTS + 1],
    /// As which calls they were made last.
    xids: [u32; SLOTS + 1],
    /// It outlives the server.
    is_lasting: bool,
}

/// An open that a client believes to have.
#[derive(Clone, Debug)]
pub(super) struct Believed {
    pub(super) pool: usize,
    pub(super) file: Vec<u8>,
    pub(super) owner: u8,
    /// Each access and deny that was opened.
    pub(super) shares: Vec<(u32, u32)>,
    /// Of this session; none: it is to be claimed again.
    pub(super) stateid: Option<Stateid4>,
    /// What it has locked below, and whether for writing.
    pub(super) bytes: [Option<bool>; BYTES],
    pub(super) locks: Option<Stateid4>,
    /// Of these which are to be claimed again.
    pub(super) lost: [bool; BYTES],
    /// It was claimed again.
    pub(super) is_claimed: bool,
}

impl Believed {
    /// An open that is to be claimed.
    pub(super) fn to_claim((pool, file): (usize, &[u8]), owner: u8, access: u32) -> Self {
        let (bytes, locks, lost) = ([None; BYTES], None, [false; BYTES]);
        Self {
            pool,
            file: file.to_vec(),
            owner,
            shares: vec![(access, 0)],
            stateid: None,
            bytes,
            locks,
            lost,
            is_claimed: false,
        }
    }

    pub(super) fn share(&self) -> (u32, u32) {
        self.shares.iter().fold((0, 0), |all, one| (all.0 | one.0, all.1 | one.1))
    }

    /// The first bytes of one kind, one after the other, that are to be claimed again.
    pub(super) fn lost_run(&self) -> Option<(usize, usize, bool)> {
        let from = self.lost.iter().position(|lost| *lost)?;
        let kind = self.bytes[from]?;
        let is_in = |at: &usize| self.lost[*at] && self.bytes[*at] == Some(kind);
        let count = (from..BYTES).take_while(is_in).count();
        Some((from, count, kind))
    }
}

/// A request that was sent.
struct Going {
    ops: Vec<Op>,
    slot: usize,
    way: Way,
    turns: Turns,
}

/// A request that waits for what another client keeps.
pub(super) struct OnItsWay {
    going: Going,
    parked: Parked,
}

impl OnItsWay {
    pub(super) fn is_woken(&self) -> bool {
        self.parked.is_woken()
    }
}

/// What came of a request.
pub(super) enum Came {
    Told(Told),
    Parked(OnItsWay),
    /// The session is over.
    SessionOver,
    /// The power went.
    Lost,
}

/// How a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Plain,
    /// The reply is lost, and the request is sent again, over another connection.
    ReplyLost,
    /// It is sent again while it waits, and behind its end. In minor version 0: it comes with another seqid first.
    Twice,
}

impl Caller {
    /// All of them, and the one for calls.
    pub(super) const SLOTS: usize = SLOTS + 1;

    pub(super) fn new(number: usize) -> Self {
        Self {
            number,
            start: 1,
            link: Self::link(number, 0),
            next_link: 0,
            next_xid: 1,
            session: None,
            is_complete: false,
            is_silent: false,
            opens: Vec::new(),
            kept: Vec::new(),
            old: Vec::new(),
            unanswered: Vec::new(),
            is_reachable: false,
            would_last: false,
            older: Older::default(),
        }
    }

    fn link(number: usize, at: u64) -> Arc<Link> {
        let address = Ipv4Addr::new(127, 2, 0, number as u8 + 1);
        Arc::new(Link::new((number as u64 + 1) << 32 | at, (address, 900).into()))
    }

    /// Its connection is closed, and it has another one, over which nobody calls it before it says that he may.
    pub(super) fn reconnect(&mut self, world: &World) {
        let unanswered: Vec<_> = self.unanswered.drain(..).map(|(id, _)| id).collect();
        world.disconnected(&self.link, &unanswered);
        self.next_link += 1;
        self.link = Self::link(self.number, self.next_link);
        self.is_reachable = false;
    }

    /// The server may call it over its connection from now on. False: the power went, or there is no such session.
    pub(super) fn bind(&mut self, world: &World) -> Checked<bool> {
        if self.is_older() {
            return Ok(false);
        }
        let Some(session) = self.session.as_ref().map(|session| session.id) else { return Ok(false) };
        let told = self.outside(world, words::bind(session))?;
        self.is_reachable = told.is_some_and(|told| told.is_ok());
        Ok(self.is_reachable)
    }

    /// Whether its connection is this one.
    pub(super) fn is_on(&self, link: u64) -> bool {
        self.link.id() == link && self.link.is_open()
    }

    /// It is of minor version 0.
    pub(super) fn is_older(&self) -> bool {
        self.number == OLDER
    }

    pub(super) fn name(&self) -> Vec<u8> {
        format!("client {}", self.number).into_bytes()
    }

    /// Which of its starts this is.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    fn record(&self, xid: u32, ops: &[Op]) -> Bytes {
        words::record(u32::from(!self.is_older()), xid, ops)
    }

    /// The owner's name, of opens and of locks.
    pub(super) fn owner(owner: u8) -> Vec<u8> {
        vec![b'o', owner]
    }

    pub(super) fn believed(&mut self, file: &[u8], owner: u8) -> Option<&mut Believed> {
        self.opens.iter_mut().find(|open| open.file == file && open.owner == owner)
    }

    /// It starts anew, and has nothing.
    pub(super) fn start_anew(&mut self, world: &World) {
        self.start += 1;
        self.opens.clear();
        self.kept.clear();
        self.session_is_over();
        self.reconnect(world);
    }

    /// What it has is to be claimed again.
    pub(super) fn session_is_over(&mut self) {
        (self.session, self.is_complete, self.is_reachable) = (None, false, false);
        self.unanswered.clear();
        self.kept.retain_mut(Kept::session_is_over);
        for open in &mut self.opens {
            if let Some(stateid) = open.stateid.take() {
                self.old.push((open.file.clone(), stateid));
            }
            open.locks = None;
            open.lost = open.bytes.map(|kind| kind.is_some());
        }
        let too_many = self.old.len().saturating_sub(4);
        self.old.drain(..too_many);
    }

    pub(super) fn outside(&mut self, world: &World, ask: Op) -> Checked<Option<Told>> {
        self.next_xid += 1;
        let ops = [ask];
        let Some(reply) = world.carry_out(self.record(self.next_xid, &ops), &self.link)? else { return Ok(None) };
        Ok(Some(words::results(&words::results_in(&bytes_of(&reply))?, &ops)?))
    }

    /// EXCHANGE_ID and CREATE_SESSION. False: the power went.
    pub(super) fn connect(&mut self, world: &World) -> Checked<bool> {
        let new = |id, is_lasting| {
            let (next, last, xids) = ([1; SLOTS + 1], Default::default(), [0; SLOTS + 1]);
            Session { id, next, last, xids, is_lasting }
        };
        if self.is_older() {
            self.session = self.connect_older(world)?.then(|| new(Default::default(), false));
            return Ok(self.session.is_some());
        }
        let Some(mut known) = self.outside(world, words::exchange_id(&self.name(), self.start))? else {
            return Ok(false);
        };
        let Some(NfsResop4::OpExchangeId(ExchangeId4Res::Nfs4Ok(known))) = known.results.pop() else {
            return Err(format!("EXCHANGE_ID: {:?}", known.status));
        };
        let ask = words::create_session(known.eir_clientid, known.eir_sequenceid, self.would_last);
        let Some(mut made) = self.outside(world, ask)? else { return Ok(false) };
        let Some(NfsResop4::OpCreateSession(CreateSession4Res::Nfs4Ok(made))) = made.results.pop() else {
            return Err(format!("CREATE_SESSION: {:?}", made.status));
        };
        let is_lasting = made.csr_flags & words::PERSISTS != 0;
        if is_lasting != self.would_last {
            return Err(format!("a session is asked to last: {}, and does: {is_lasting}", self.would_last));
        }
        self.session = Some(new(made.csr_sessionid, is_lasting));
        self.is_reachable = true;
        Ok(true)
    }

    /// A compound in its session, behind SEQUENCE.
    pub(super) fn ask(&mut self, world: &World, ops: &[Op], (slot, way): (usize, Way)) -> Checked<Came> {
        if way == Way::Twice && self.is_older() && !self.ask_out_of_turn(world, ops)? {
            return Ok(Came::Lost);
        }
        let (ops, turns) = self.compound(ops, slot)?;
        self.next_xid += 1;
        let xid = self.next_xid;
        let session = self.session.as_mut().ok_or("a client without a session asks")?;
        // Until it is answered.
        (session.last[slot], session.xids[slot]) = (Some((ops.clone(), Vec::new())), xid);
        let begun = world.begin(self.record(xid, &ops), &self.link)?;
        if way == Way::Twice && !self.is_older() && matches!(begun, Begun::Parked(_)) {
            self.ask_beside(world, &ops)?;
        }
        self.came(world, Going { ops, slot, way, turns }, begun)
    }

    /// What it is to ask, in its words, and whose turn it is then.
    fn compound(&mut self, ops: &[Op], slot: usize) -> Checked<(Vec<Op>, Turns)> {
        if self.is_older() {
            return self.in_older_words(ops, 0);
        }
        let session = self.session.as_mut().ok_or("a client without a session asks")?;
        let in_slot = InSlot { session: session.id, slot: slot as u32, sequence: session.next[slot] };
        session.next[slot] += 1;
        Ok(([&[words::sequence(in_slot)], ops].concat(), Turns::new()))
    }

    /// One that was parked goes on.
    pub(super) fn go_on(&mut self, world: &World, OnItsWay { going, parked }: OnItsWay) -> Checked<Came> {
        let begun = world.go_on(parked)?;
        self.came(world, going, begun)
    }

    fn came(&mut self, world: &World, going: Going, begun: Begun) -> Checked<Came> {
        let Going { ops, slot, way, turns } = going;
        let reply = match begun {
            Begun::Lost => None,
            Begun::Answered(reply) => Some(reply),
            // Its connection breaks while it waits: nothing is lost, and it comes again over another one (rules V2).
            Begun::Parked(parked) if way == Way::ReplyLost && !self.is_older() => {
                world.give_up(parked);
                self.reconnect(world);
                self.next_xid += 1;
                world.carry_out(self.record(self.next_xid, &ops), &self.link)?
            }
            Begun::Parked(parked) => {
                return Ok(Came::Parked(OnItsWay { going: Going { ops, slot, way, turns }, parked }));
            }
            Begun::Waits(waiting) => {
                if way == Way::Twice && !self.is_older() {
                    self.ask_beside(world, &ops)?;
                }
                world.end(waiting)?
            }
        };
        let Some(reply) = reply else { return Ok(Came::Lost) };
        let bytes = words::results_in(&bytes_of(&reply))?;
        let mut told = words::results(&bytes, &ops)?;
        if told.is_refused_at_sequence() {
            return match told.status {
                Nfsstat4::Nfs4ErrBadsession => Ok(Came::SessionOver),
                Nfsstat4::Nfs4ErrStaleClientid | Nfsstat4::Nfs4ErrExpired if self.is_older() => Ok(Came::SessionOver),
                Nfsstat4::Nfs4ErrDeadsession if self.has_lasting_session() => Ok(Came::SessionOver),
                // As a pool that is not there yet may know what it has done: this client does not wait for that, and asks for another session.
                Nfsstat4::Nfs4ErrDelay if (0..POOLS).any(|pool| !world.is_here(pool)) => Ok(Came::SessionOver),
                status => Err(format!("SEQUENCE of slot {slot} is told {status:?}")),
            };
        }
        self.session.as_mut().expect("it asks").last[slot] = Some((ops, bytes));
        self.older.told(&turns, &told);
        // What nobody has a turn for is carried out once more in minor version 0.
        if way == Way::ReplyLost && (!self.is_older() || !turns.is_empty()) || way == Way::Twice && !self.is_older() {
            self.reconnect(world);
            if !self.repeat(world, slot)? {
                return Ok(Came::Lost);
            }
        }
        if self.is_older() && !self.confirm(world, &turns, &mut told)? {
            return Ok(Came::Lost);
        }
        Ok(Came::Told(told))
    }

    /// The same request, while the first waits: it is told to come again, and nothing else happens.
    fn ask_beside(&mut self, world: &World, ops: &[Op]) -> Checked<()> {
        self.next_xid += 1;
        let beside = match world.begin(self.record(self.next_xid, ops), &self.link)? {
            Begun::Lost => return Ok(()),
            Begun::Answered(reply) => reply,
            Begun::Waits(_) | Begun::Parked(_) => return Err("a request that waits is carried out once more".into()),
        };
        match words::results(&words::results_in(&bytes_of(&beside))?, ops)? {
            told if told.status == Nfsstat4::Nfs4ErrDelay && told.is_refused_at_sequence() => Ok(()),
            told => Err(format!("a request that waits is told {:?} beside", told.status)),
        }
    }

    /// The last request of a slot comes again, and is told the same bytes. False: the power went.
    pub(super) fn repeat(&mut self, world: &World, slot: usize) -> Checked<bool> {
        let last = self.session.as_ref().and_then(|session| session.last[slot].clone());
        let Some((ops, bytes)) = last.filter(|(_, bytes)| !bytes.is_empty()) else { return Ok(true) };
        self.next_xid += 1;
        // Slots tell a request by its sequence; in minor version 0 it is the call itself that comes again, or another one with the seqid of the first.
        let is_itself = self.is_older() && self.next_xid.is_multiple_of(2);
        let xid = if is_itself { self.session.as_ref().expect("it asked").xids[slot] } else { self.next_xid };
        let Some(reply) = world.carry_out(self.record(xid, &ops), &self.link)? else { return Ok(false) };
        let again = words::results_in(&bytes_of(&reply))?;
        if again == bytes {
            return Ok(true);
        }
        let [first, second] = [bytes, again].map(|bytes| words::results(&bytes, &ops).map(|told| told.status));
        Err(format!("a request of slot {slot} that comes again is told {second:?}, and was told {first:?}"))
    }

    /// The first session's slot with another request than its last one's. None: there was none, or the power went.
    pub(super) fn repeat_falsely(&mut self, world: &World, slot: usize) -> Checked<Option<Nfsstat4>> {
        let last = self.session.as_ref().and_then(|session| session.last[slot].clone());
        let Some((ops, _)) = last.filter(|(_, bytes)| !bytes.is_empty()) else { return Ok(None) };
        let other = [&ops[..1], &[words::put(b"another"), words::get_handle(), words::get_handle()]].concat();
        self.next_xid += 1;
        let Some(reply) = world.carry_out(self.record(self.next_xid, &other), &self.link)? else { return Ok(None) };
        Ok(Some(words::results(&words::results_in(&bytes_of(&reply))?, &other)?.status))
    }

    pub(super) fn has_lasting_session(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_lasting)
    }

    /// Whether it has asked anything in a slot.
    pub(super) fn has_asked(&self, slot: usize) -> bool {
        self.session.as_ref().is_some_and(|session| session.last[slot].is_some())
    }

    /// The last request of a slot comes again, in a session that may be dead. None: the power went.
    pub(super) fn retry(&mut self, world: &World, slot: usize) -> Checked<Option<Told>> {
        let last = self.session.as_ref().and_then(|session| session.last[slot].clone());
        let (ops, _) = last.ok_or("nothing was asked")?;
        self.ask_anew(world, &ops)
    }

    /// Another one with its slot and sequence.
    pub(super) fn retry_falsely(&mut self, world: &World, slot: usize, other: &[Op]) -> Checked<Option<Told>> {
        let last = self.session.as_ref().and_then(|session| session.last[slot].clone());
        let (ops, _) = last.ok_or("nothing was asked")?;
        self.ask_anew(world, &[&ops[..1], other].concat())
    }

    pub(super) fn ask_anew(&mut self, world: &World, ops: &[Op]) -> Checked<Option<Told>> {
        self.next_xid += 1;
        let Some(reply) = world.carry_out(self.record(self.next_xid, ops), &self.link)? else { return Ok(None) };
        Ok(Some(words::results(&words::results_in(&bytes_of(&reply))?, ops)?))
    }

    /// A slot of three.
    pub(super) const fn slots() -> usize {
        SLOTS
    }
}
