//! Room that is promised (docs/design/0075): ALLOCATE and DEALLOCATE of version 4.2, and WRITEs where room was promised.
//!
//! In some histories each client has a session beside its other requests, which outlives the server in half of them. By the
//! oracle's own account of what was promised (`oracle/reserved.rs`):
//!
//! - What was answered is promised behind a cut, and nothing is that nobody asked for: by block, in each state that an import
//!   may find.
//! - A WRITE into it is never refused for want of room, nor for a quota, however full the pool is.
//! - It counts against quotas, and goes with a punch, a cut, or its file (`quota.rs`).
//! - A request that comes again is told the same, or that its slot is at work; behind a crash, in a session that lasts, what it
//!   has done is not done again, and what it has not done is told to be asked for in another session.
//!
//! Where something rots, and stays so, nobody knows what is promised; and while a pool is suspended compounds are told other
//! things than requests of version 3. There nothing is reserved.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use nfs3_types::nfs3::nfsstat3;
use tally_base::DatasetId;
use tally_base::codec::Reader;
use tally_fs::filer::Filer;
use tally_fs::inode::Inode;
use tally_nfs::service::Step;
use tally_store::key::Class;
use tally_store::tree::Visit;
use tally_vfs::{Attributes, CreateHow, FileKind, ObjectRef, SetAttr, Stability};

use super::choose::REFUSED_WRITE_MAX;
use super::requests::{Attempt, Fate};
use super::run::History;
use super::{Checked, Plan, State, Syncs, Trouble};
use crate::chance::{Chance, Stream};
use crate::client::bytes_of;
use crate::newer;
use crate::op::{Object, Op};
use crate::oracle::Left;

/// Of the requests of such a history one in so many is about what is promised.
pub(super) const ONE_IN: u64 = 4;
/// Longest WRITE into it.
const WRITE_BYTES_MAX: u64 = 300 << 10;
/// Most that is promised of a file before a pool is filled.
const FIRST_BYTES_MAX: u64 = 3 << 17;

impl Plan {
    /// Whether something is reserved.
    pub(super) fn reserves(&self) -> bool {
        self.reserves && self.trouble != Trouble::Rot && self.syncs != Syncs::Beside && !self.suspends()
    }

    /// Whether sessions outlive the server.
    fn has_lasting_sessions(&self) -> bool {
        Chance::of(self.seed, Stream::Reserve, 0).one_in(2)
    }
}

impl History {
    /// Something is reserved before a pool is filled: behind that there is room for little.
    pub(super) fn first_reservations(&self, chance: &mut Chance) -> Checked<()> {
        for name in ["a", "b", "c", "d"] {
            let dir = self.0.lock().root(0);
            let how = CreateHow::Guarded(SetAttr { mode: Some(0o666), ..SetAttr::default() });
            self.ask_as_root(&Op::Create { dir, name, how }, chance)?;
            let file = self.0.lock().objects.last().cloned().ok_or("a file was made, and nobody has its handle")?;
            let (offset, length) = (4096 * chance.below(40), 1 + chance.below(FIRST_BYTES_MAX));
            self.ask_as_root(&Op::Allocate { object: file, offset, length }, chance)?;
        }
        Ok(())
    }

    fn ask_as_root(&self, op: &Op, chance: &mut Chance) -> Checked<()> {
        let attempt = self.0.lock().attempt_by(0, op)?;
        self.carry_out(attempt, chance)?;
        self.answer_all()
    }
}

impl State {
    /// What is promised, or goes, or is written there.
    pub(super) fn choose_about_reserved(&self, chance: &mut Chance, part: usize) -> Op {
        let promised = self.some_promised(chance);
        // With the last promise a pool is not full any more: what was kept free for its sake is anybody's.
        let keeps = self.plan.trouble == Trouble::Full && !chance.one_in(4);
        match (chance.below(10), promised) {
            (8..10, Some(object)) if keeps => self.write_into_promised(chance, object),
            (3..8, Some(object)) => self.write_into_promised(chance, object),
            (8, Some(object)) => {
                let (offset, length) = (self.place(chance, &object), Self::length_to_reserve(chance));
                Op::Deallocate { object, offset, length }
            }
            (9, Some(object)) => {
                let size = Some(self.place(chance, &object));
                Op::SetAttr { object, set: SetAttr { size, ..SetAttr::default() } }
            }
            _ => {
                let object = self.object(chance, part, Some(FileKind::File));
                let (offset, length) = (self.place(chance, &object), Self::length_to_reserve(chance));
                if object.kind != FileKind::File || object.record_size == 0 {
                    return Op::Commit { object, offset: 0, count: 0 };
                }
                Op::Allocate { object, offset, length }
            }
        }
    }

    fn length_to_reserve(chance: &mut Chance) -> u64 {
        match chance.below(4) {
            0 => 1 + chance.below(100),
            1 => 4096 * (1 + chance.below(16)),
            2 => 131_072 * (1 + chance.below(3)),
            _ => 1 + chance.below(500 << 10),
        }
    }

    /// A file of which something is promised.
    fn some_promised(&self, chance: &mut Chance) -> Option<Object> {
        let is_there = |object: &&Object| {
            let oracle = &self.parts[object.dataset].oracle;
            !oracle.reserved.ranges(object.model.id).is_empty() && oracle.live.getattr(object.model).is_ok()
        };
        let all: Vec<&Object> = self.objects.iter().filter(is_there).collect();
        (!all.is_empty()).then(|| Arc::clone(chance.pick(&all)))
    }

    fn write_into_promised(&self, chance: &mut Chance, object: Object) -> Op {
        let oracle = &self.parts[object.dataset].oracle;
        let size = oracle.live.getattr(object.model).map_or(0, |attr| attr.size);
        let range = chance.pick(oracle.reserved.ranges(object.model.id));
        let end = range.end.min(size).max(range.start + 1);
        let mut offset = range.start + chance.below(end - range.start);
        if chance.one_in(2) {
            offset = range.start.max(offset / object.record_size * object.record_size);
        }
        let most = if self.plan.trouble == Trouble::Refusals { REFUSED_WRITE_MAX } else { WRITE_BYTES_MAX };
        let left = end.saturating_sub(offset).clamp(1, most);
        let length = if chance.one_in(2) { left } else { 1 + chance.below(left) };
        let stability =
            chance.pick(&[Stability::Unstable, Stability::Unstable, Stability::FileSync, Stability::DataSync]);
        Op::Write { object, offset, length, fill: chance.next(), stability }
    }

    // ---- version 4.2 ----

    /// A request in a slot of its client; none if all slots are taken.
    pub(super) fn newer_attempt(&mut self, client: usize, op: &Op) -> Checked<Option<Attempt>> {
        if self.clients[client].session.is_none() {
            self.connect(client)?;
        }
        let asked = op.newer().ok_or("version 3 has a word for it")?;
        let Some((record, slot)) = self.clients[client].newer_record(&asked) else { return Ok(None) };
        // What stood there before is known to nobody any more.
        self.past.retain(|past| !past.is_in_slot(client, Some(slot.slot)));
        let cred = self.clients[client].cred();
        let attempt = self.open(op.clone(), (client, cred), record, None)?;
        Ok(Some(Attempt { slot: Some(slot), ..attempt }))
    }

    /// EXCHANGE_ID and CREATE_SESSION.
    fn connect(&mut self, client: usize) -> Checked<()> {
        let (xids, name) = ([(); 2].map(|()| self.clients[client].new_xid()), self.clients[client].name());
        let known = newer::client_of(&self.ask_outside(client, newer::exchange_id(xids[0], &name))?)?;
        let ask = newer::create_session(xids[1], known, self.plan.has_lasting_sessions());
        let session = newer::session_of(&self.ask_outside(client, ask)?)?;
        self.note(format!("client {client} has a session"));
        self.clients[client].session = Some(session);
        Ok(())
    }

    fn ask_outside(&self, client: usize, record: Bytes) -> Checked<Vec<u8>> {
        let service = &self.machine.server().service;
        let opened = service.open(record, self.clients[client].link(), Instant::now());
        let mut job = opened.map_err(|refusal| format!("a client is refused: {refusal:?}"))?;
        let Step::Reply(reply) = service.run(&mut job) else { return Err("a client waits to be known".into()) };
        service.finish(&mut job, &reply);
        Ok(bytes_of(&reply))
    }

    /// The session of a client is over, and what it has asked in that is known to nobody.
    pub(super) fn session_is_over(&mut self, client: usize) {
        self.clients[client].session = None;
        self.past.retain(|past| !past.is_in_slot(client, None));
    }

    /// A request comes again. Gives what its client asks for instead, if its session is over.
    pub(super) fn repeat_newer(&mut self, mut attempt: Attempt, id: u64) -> Checked<Option<Attempt>> {
        let server = Arc::clone(&self.machine.server().service);
        let Step::Reply(reply) = server.run(&mut attempt.job) else {
            return Err(format!("a repetition of {:?} is carried out", attempt.op));
        };
        server.finish(&mut attempt.job, &reply);
        let bytes = bytes_of(&reply);
        let told = attempt.op.told(&bytes)?;
        let at = self.past.iter().position(|past| past.id == id).ok_or("the caller has found it")?;
        let past = &self.past[at];
        match (past.fate, &past.reply) {
            _ if self.is_in_trouble() => return Ok(None),
            (Fate::Here, Some(first)) if *first == bytes => return Ok(None),
            (Fate::Here, None) if told.is_of_slot && told.status == nfsstat3::NFS3ERR_JUKEBOX => return Ok(None),
            (Fate::Survived, _) if self.plan.has_lasting_sessions() && told.status == nfsstat3::NFS3_OK => {
                self.totals.remembered += 1;
                self.totals.reserved_again += 1;
                self.past.remove(at);
                return Ok(None);
            }
            (Fate::Survived, _) if self.plan.has_lasting_sessions() => {}
            (Fate::Survived | Fate::Lost, _) if told.is_over => {
                self.past.remove(at);
                self.totals.reserved_again += 1;
                self.clients[attempt.client].act_as(attempt.cred.clone());
                return self.newer_attempt(attempt.client, &attempt.op);
            }
            _ => {}
        }
        Err(format!(
            "a repetition of #{} ({:?}) is told {told:?}, and was told {:?}",
            past.number, past.fate, past.reply
        ))
    }

    /// The slot of a request says no. That is only so while a pool is not there for it.
    pub(super) fn check_slot(&mut self, attempt: &Attempt, is_refused: bool) -> Checked<bool> {
        if !is_refused {
            return Ok(false);
        }
        if !self.is_in_trouble() {
            return Err(format!("the slot of {:?} refuses it", attempt.op));
        }
        self.session_is_over(attempt.client);
        Ok(true)
    }

    /// A request was carried out.
    pub(super) fn count_reserved(&mut self, op: &Op, is_promised: bool) {
        match op {
            Op::Allocate { .. } => self.totals.reserved += 1,
            Op::Deallocate { .. } => self.totals.unreserved += 1,
            Op::Write { .. } if is_promised => {
                self.totals.promised_writes += 1;
                self.totals.promised_writes_when_full += u64::from(self.is_full);
                self.totals.promised_writes_at_quota += u64::from(self.is_at_quota(op.dataset()));
            }
            _ => {}
        }
    }
}

/// The files of a dataset of which something is reserved, as the newest group has them.
pub(super) fn reserved_files(filer: &Filer, dataset: DatasetId) -> BTreeMap<u64, Inode> {
    let (pool, mut found) = (filer.pool(), BTreeMap::new());
    for of in pool.datasets().into_iter().filter(|of| of.birth.id == dataset) {
        of.root().tree.check(&pool.io, &mut |visit| {
            if let Visit::Entry { key, value } = visit
                && key.class == Class::Inode
                && let Ok(inode) = Inode::decode(&mut Reader::new(value, "inode"))
                && inode.reserved.is_some()
            {
                found.insert(key.object, inode);
            }
        });
    }
    found
}

/// What is reserved of files that clients know is what they were promised.
pub(super) fn same_reserved(
    found: &BTreeMap<u64, Inode>,
    Left { model, reserved, .. }: &Left,
    known: &[(ObjectRef, ObjectRef)],
    record_sizes: impl Fn(ObjectRef) -> Option<u64>,
) -> Checked<()> {
    for (real, of_model) in known.iter().filter(|(_, of_model)| model.getattr(*of_model).is_ok()) {
        let (inode, ranges) = (found.get(&real.id.0), reserved.ranges(of_model.id));
        let Some(record_size) = record_sizes(*of_model) else { continue };
        let end = ranges.last().map_or(0, |range| range.end).max(inode.map_or(0, |inode| inode.size));
        for at in (0..end.next_multiple_of(record_size) + record_size).step_by(record_size as usize) {
            let (is, has_to) =
                (inode.is_some_and(|inode| inode.is_reserved(at)), reserved.covers(of_model.id, &(at..at + 1)));
            if is != has_to && (has_to || !reserved.is_at_bound(of_model.id)) {
                return Err(format!("block {at} of {} is reserved: {is}, and is promised: {has_to}", of_model.id));
            }
        }
    }
    Ok(())
}
