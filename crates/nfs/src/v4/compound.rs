//! COMPOUND (RFC 7530 §15.2): operations one after another, up to the first that is not OK.
//!
//! ```text
//!  arguments   tag │ minor version │ count │ number, arguments │ number, arguments │ …
//!  results     status │ tag │ count │ number, status, results │ … │ number, status      the last one's status is the compound's
//! ```
//!
//! An operation decodes its arguments when its turn comes and appends its results: there is no tree of all arguments, and one that cannot be decoded
//! fails alone. What follows an operation that failed is not looked at.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use smallvec::SmallVec;
use tally_base::{Promise, SlotMark, Wait};
use tally_vfs::{Change, FsError, ObjectRef, OpCtx, Opened, Outcome, RememberedReply, Right, Vfs};

use super::house::House;
use super::op::{self, Asked, Op};
use super::ops;
use super::progress::{Held, number_of};
use super::pseudo::{Node, Shut, Tree};
use super::results::{Mark, Owed, Results};
use super::state::bounds::{COPY_BYTES_MAX, MARKS_OF_REQUEST_MAX};
use super::state::{ClientId, FileId, Guard, Mounted, Presence, Special, Stateid};
use super::status::Status;
use super::tracking::Given;
use crate::entry::{Entry, Target};
use crate::exports::Exports;
use crate::link::Link;
use crate::repeats::{Repeated, Repeats};
use crate::rpc::Call;
use crate::stats::{Done, Operation, Stats};
use crate::v3::READ_BYTES_MAX;
use crate::xdr::{Decoder, Encoder, Garbage};

mod speaking;

/// Longest results: a READ of as much as may be asked for, and what stands around it.
const REPLY_BYTES_MAX: usize = READ_BYTES_MAX as usize + (64 << 10);
/// What an operation writes around data, and what a short one behind it may take.
const END_BYTES: usize = 1024;
/// What an operation that changes something answers with at most, and the handle behind it.
const CHANGE_BYTES: usize = 256;
/// Longest results of a compound that changes something outside of sessions: its reply is remembered, in a place that all share.
const REMEMBERED_BYTES_MAX: usize = 16 << 10;
/// Most operations that change something in one compound: the pool remembers so many of a client, and others of it as well.
const CHANGES_MAX: usize = 8;
/// What stands before results: the header of RPC, without the record's mark.
const HEAD_BYTES: usize = 24;

/// Who asks for a compound, and whom it may ask.
pub struct Scene<'a> {
    /// What there is to see.
    pub exports: &'a dyn Exports,
    /// Where it came from.
    pub link: &'a Link,
    /// What was asked, and whom it names.
    pub call: &'a Call,
    /// What all compounds share.
    pub house: &'a House,
    /// Whether it was here before.
    pub repeats: &'a Repeats<'a>,
    /// Where its operations count.
    pub stats: &'a Stats,
}

/// A compound that is carried out.
pub(super) struct Compound<'a> {
    pub(super) entry: Entry<'a>,
    pub(super) scene: &'a Scene<'a>,
    /// What the current handle names, or what is said to who asks for it.
    pub(super) current: Result<Node, Shut>,
    pub(super) saved: Result<Node, Shut>,
    owed: &'a mut Owed,
    head: Head,
    /// The operation that is carried out.
    mark: Option<Mark>,
    /// What it did in a life before, where it is carried out once more.
    performed: Option<RememberedReply>,
    speaker: Option<Arc<Presence>>,
    /// When the next operation began, and how many bytes of files were read or written before.
    counted: (Instant, u64),
}

/// What stands before the operations, and what the first of them has found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) minor: u32,
    pub(super) count: u32,
    /// Whatever follows SEQUENCE is answered so.
    pub(super) next: Option<Status>,
}

/// Why an operation goes no further.
pub(super) enum Stop {
    /// It failed.
    Failed(Status),
    /// Its whole compound stops.
    Halted(Halt),
}

/// Why a compound goes no further in an attempt, and is not at its end.
pub enum Halt {
    /// An operation found no room: it goes on with that one once this is over.
    Waits(Box<dyn Promise>),
    /// It was here before.
    Repeated(Repeated),
    /// It was carried out in its slot, with these results.
    Told(Bytes),
}

impl From<Halt> for Stop {
    fn from(halt: Halt) -> Self {
        Self::Halted(halt)
    }
}

impl From<Status> for Stop {
    fn from(status: Status) -> Self {
        Self::Failed(status)
    }
}

impl From<Garbage> for Stop {
    fn from(garbage: Garbage) -> Self {
        Self::Failed(garbage.into())
    }
}

impl<'a> Compound<'a> {
    /// With these handles, entered under today's rules.
    pub(super) fn new(scene: &'a Scene<'a>, head: Head, owed: &'a mut Owed, [current, saved]: [&Held; 2]) -> Self {
        let entry = Entry::new(scene.exports, scene.link, &scene.call.identity);
        let (client, minor) = (scene.link.peer().ip(), head.minor);
        let tree = Tree { exports: scene.exports, entry: &entry, client, minor };
        let [current, saved] =
            [current, saved].map(|held| tree.of_handle(held.as_ref().map_err(|status| Shut::from(*status))?));
        let counted = (Instant::now(), owed.data_bytes);
        Self { entry, scene, current, saved, owed, head, mark: None, performed: None, speaker: None, counted }
    }

    /// Its handles.
    pub(super) fn held(&self) -> [Held; 2] {
        [&self.current, &self.saved].map(|node| match node {
            Ok(node) => Ok(node.handle()),
            Err(Shut { unseen: Some((handle, ..)), .. }) => Ok(handle.clone()),
            Err(shut) => Err(shut.told),
        })
    }

    /// The next operation. What it wrote before it failed goes.
    pub(super) fn step(&mut self, words: &mut Decoder<'_>, results: &mut Results) -> Result<(), Halt> {
        let number = words.u32();
        let asked = number.map_or(Asked::Illegal, |number| op::asked(self.head.minor, number));
        let mark = results.open(number_of(self.head.minor, number.ok()));
        self.mark = Some(mark);
        let outcome = match asked {
            Asked::For(op) => match self.check_place(op, mark, &results.out) {
                Ok(()) => self.perform_counted(op, words, &mut results.out),
                Err(status) => Err(status.into()),
            },
            Asked::NotSupported if self.is_outside(mark) => Err(Status::OpNotInSession.into()),
            Asked::NotSupported => Err(Status::NotSupp.into()),
            Asked::Illegal if number.is_err() => Err(Status::BadXdr.into()),
            Asked::Illegal => Err(Status::OpIllegal.into()),
        };
        let outcome = outcome.and_then(|status| Ok(self.was_here().map(|()| status)?));
        match outcome {
            // What all operations together may answer (rules V35): this one alone would have had room.
            Ok(status) if results.out.len() <= self.reply_bytes_max() => results.close(mark, status),
            Ok(_) => results.cut(mark, self.too_big()),
            Err(Stop::Failed(status)) => results.cut(mark, status),
            Err(Stop::Halted(halt)) => {
                results.take_back(mark);
                return Err(halt);
            }
        }
        if self.is_again() && results.status() == Status::Delay {
            // Of SEQUENCE, or the client would take its slot for used, and what was done is told to nobody (rules V6).
            results.cut_to_first(Status::Delay);
            self.owed.guard = None;
        }
        self.note_told(mark, results);
        self.count(number.map_or(Operation::ILLEGAL, |number| op::counted(self.head.minor, number)), results.status());
        Ok(())
    }

    /// An operation was told this.
    fn count(&mut self, operation: Operation, status: Status) {
        let (began, before) = std::mem::replace(&mut self.counted, (Instant::now(), self.owed.data_bytes));
        let (ended, bytes) = self.counted;
        let done = Done { ok: status == Status::Ok, data_bytes: bytes - before, work: ended - began };
        self.scene.stats.enter_operation(operation, done);
    }

    /// Whether an operation may stand where it does (RFC 8881 §2.10.6 and §18.46), and whether its answer will fit, which is asked before
    /// something is changed (rules V16).
    fn check_place(&self, op: Op, mark: Mark, out: &Encoder) -> Result<(), Status> {
        let is_first = mark.operation() == 0;
        if self.head.minor > 0 {
            match op {
                Op::Sequence if !is_first => return Err(Status::SequencePos),
                Op::Sequence => {}
                _ if self.is_outside(mark) && !op.stands_alone() => return Err(Status::OpNotInSession),
                _ if self.is_outside(mark) && self.head.count > 1 => return Err(Status::NotOnlyOp),
                _ => {}
            }
        }
        if let Some(status) = self.head.next {
            return Err(status);
        }
        if let Some((_, not_done)) = self.owed.again.filter(|_| !op.only_looks() && !op.leaves_mark()) {
            return Err(not_done);
        }
        if !op.changes() && !op.ends_state() {
            return Ok(());
        }
        let most = if self.head.minor == 0 && op.changes() { REMEMBERED_BYTES_MAX } else { self.reply_bytes_max() };
        if out.len() + CHANGE_BYTES > most {
            return Err(self.too_big());
        }
        if op.changes() && self.head.minor == 0 && self.owed.changes >= CHANGES_MAX {
            return Err(Status::Resource);
        }
        // An OPEN says by itself whether it makes something.
        if op.leaves_mark() && op != Op::Open { self.check_marks() } else { Ok(()) }
    }

    /// Whether the pool remembers one more operation of this request. In a session that is not persistent it is the slot alone that remembers.
    pub(super) fn check_marks(&self) -> Result<(), Status> {
        let is_marked = self.guard().is_some_and(|guard| guard.mark().is_some());
        if is_marked && self.owed.marks >= MARKS_OF_REQUEST_MAX { Err(Status::RepTooBigToCache) } else { Ok(()) }
    }

    /// Once the client has entered an export: whether its compound was here before is asked ahead of all that looks, as that may be otherwise by now.
    fn was_here(&self) -> Result<(), Halt> {
        // In a session its slot has told that.
        if self.head.minor > 0 || self.entry.dataset().is_none() {
            return Ok(());
        }
        self.scene.repeats.begin(self.entry.user()).map_err(Halt::Repeated)
    }

    /// Whether the operation is the first one, where there has to be a session.
    fn is_outside(&self, mark: Mark) -> bool {
        self.head.minor > 0 && mark.operation() == 0
    }

    /// How long the results may become.
    fn reply_bytes_max(&self) -> usize {
        match &self.owed.guard {
            Some(guard) => REPLY_BYTES_MAX.min((guard.reply_bytes_max() as usize).saturating_sub(HEAD_BYTES)),
            None if self.owed.changes > 0 => REMEMBERED_BYTES_MAX,
            None => REPLY_BYTES_MAX,
        }
    }

    /// What is said of results that are longer.
    pub(super) fn too_big(&self) -> Status {
        match &self.owed.guard {
            None => Status::Resource,
            Some(guard) if guard.must_keep() => Status::RepTooBigToCache,
            Some(_) => Status::RepTooBig,
        }
    }

    /// Of RFC 7530, or of RFC 8881 and RFC 7862.
    pub(super) fn minor(&self) -> u32 {
        self.head.minor
    }

    /// How many operations it has.
    pub(super) fn operations(&self) -> u32 {
        self.head.count
    }

    /// Whether nothing follows the operation that is carried out.
    pub(super) fn is_at_last(&self) -> bool {
        self.mark.is_none_or(|mark| mark.operation() + 1 == self.head.count)
    }

    /// The slot that it is carried out in.
    pub(super) fn guard(&self) -> Option<&Guard> {
        self.owed.guard.as_ref()
    }

    /// It is carried out in this slot from now on.
    pub(super) fn hold(&mut self, guard: Guard) {
        self.owed.guard = Some(guard);
    }

    /// Whatever follows is answered so.
    pub(super) fn next_fails_with(&mut self, status: Option<Status>) {
        self.head.next = status;
    }

    /// What changed something has left a mark.
    fn perform_counted(&mut self, op: Op, words: &mut Decoder<'_>, out: &mut Encoder) -> Result<Status, Stop> {
        let begun = self.owed.changes;
        let told = self.perform(op, words, out)?;
        self.owed.marks += usize::from(op.leaves_mark() && self.owed.changes > begun);
        Ok(told)
    }

    /// What it did is told with the status that this gives; of what failed the status alone ([`Results::cut`]).
    fn perform(&mut self, op: Op, words: &mut Decoder<'_>, out: &mut Encoder) -> Result<Status, Stop> {
        if op.leads_elsewhere() {
            self.owed.stateids[0] = None;
        }
        match op {
            Op::PutFh => ops::handle::put(self, words),
            Op::PutRootFh | Op::PutPubFh => ops::handle::put_root(self),
            Op::GetFh => ops::handle::get(self, out),
            Op::SaveFh => ops::handle::save(self),
            Op::RestoreFh => ops::handle::restore(self),
            Op::Lookup => ops::names::lookup(self, words),
            Op::LookupP => ops::names::lookup_parent(self),
            Op::SecInfo => ops::names::security(self, words, out),
            Op::ReadLink => ops::names::read_link(self, out),
            Op::Access => ops::attrs::access(self, words, out),
            Op::GetAttr => ops::attrs::get(self, words, out),
            Op::Verify => ops::attrs::verify(self, words, true),
            Op::NVerify => ops::attrs::verify(self, words, false),
            Op::ReadDir => ops::listing::read(self, words, out),
            Op::SetClientId => {
                let told = ops::clients::introduce(self, words, out);
                self.scene.house.close_for_the_gone(self.scene.exports);
                return Ok(told?);
            }
            Op::SetClientIdConfirm => self.and_close_for_the_gone(|compound| ops::clients::confirm(compound, words)),
            Op::Renew => ops::clients::renew(self, words),
            Op::Read => ops::data::read(self, words, out),
            Op::SecInfoNoName => ops::names::security_without_name(self, words, out),
            Op::ExchangeId => self.and_close_for_the_gone(|compound| ops::sessions::exchange_id(compound, words, out)),
            Op::CreateSession => self.and_close_for_the_gone(|compound| ops::sessions::create(compound, words, out)),
            Op::BackchannelCtl => ops::sessions::change_back(self, words),
            Op::BindConnToSession => ops::sessions::bind(self, words, out),
            Op::DestroySession => self.and_close_for_the_gone(|compound| ops::sessions::destroy(compound, words)),
            Op::DestroyClientId => {
                self.and_close_for_the_gone(|compound| ops::sessions::destroy_client(compound, words))
            }
            Op::ReclaimComplete => ops::sessions::reclaim_complete(self, words),
            Op::Sequence => return ops::sessions::sequence(self, words, out),
            Op::Lock => return ops::lock::lock(self, words, out),
            Op::LockT => return ops::lock::test(self, words, out),
            Op::LockU => return Ok(ops::lock::unlock(self, words, out)?),
            Op::ReleaseLockOwner => ops::lock::release(self, words),
            Op::Close => return Ok(ops::close::close(self, words, out)?),
            Op::OpenDowngrade => return Ok(ops::close::downgrade(self, words, out)?),
            Op::OpenConfirm => return Ok(ops::close::confirm(self, words, out)?),
            Op::TestStateid => ops::close::test(self, words, out),
            Op::FreeStateid => ops::close::free(self, words),
            Op::Open => return ops::open::open(self, words, out),
            Op::SetAttr => return ops::attrs::set(self, words, out),
            Op::Create => return ops::make::create(self, words, out),
            Op::Link => return ops::make::link(self, words, out),
            Op::Remove => return ops::remove::remove(self, words, out),
            Op::Rename => return ops::remove::rename(self, words, out),
            Op::Write => return ops::data::write(self, words, out),
            Op::Commit => return ops::data::commit(self, words, out),
            Op::Seek => ops::sparse::seek(self, words, out),
            Op::IoAdvise => ops::sparse::advise(self, words, out),
            Op::Copy => return ops::copy::copy(self, words, out),
        }?;
        Ok(Status::Ok)
    }

    /// Behind an operation in which clients may have gone: what they had open is closed.
    fn and_close_for_the_gone(&self, perform: impl FnOnce(&Self) -> Result<(), Status>) -> Result<(), Status> {
        self.scene.house.end_with_mounts(self.scene.exports);
        let told = perform(self);
        self.scene.house.close_for_the_gone(self.scene.exports);
        told
    }

    /// How much an operation may answer with, bytes, if it is one that takes what it gets.
    pub(super) fn room(&self, out: &Encoder) -> u32 {
        u32::try_from(self.reply_bytes_max().saturating_sub(out.len() + END_BYTES)).expect("replies are short")
    }

    /// What stands above the exports, as this client sees it.
    pub(super) fn tree(&self) -> Tree<'_> {
        let client = self.scene.link.peer().ip();
        Tree { exports: self.scene.exports, entry: &self.entry, client, minor: self.head.minor }
    }

    /// What the current handle names.
    pub(super) fn current(&self) -> Result<&Node, Status> {
        self.current.as_ref().map_err(|shut| shut.told)
    }

    /// The object that the current handle names, also where the client may not see its dataset any more: to give up what it has of it (rules V36).
    pub(super) fn to_give_up(&self) -> Result<(Arc<dyn Vfs>, ObjectRef), Status> {
        match &self.current {
            Ok(node) => node.target().map(|target| (target.vfs.clone(), target.object)).ok_or(Status::BadStateid),
            Err(shut) => shut.unseen.as_ref().map(|(_, vfs, object)| (vfs.clone(), *object)).ok_or(shut.told),
        }
    }

    /// What the saved handle names, to who needs both.
    pub(super) fn saved(&self) -> Result<&Node, Status> {
        self.saved.as_ref().map_err(|shut| match shut.told {
            Status::RestoreFh => Status::NoFileHandle,
            told => told,
        })
    }

    /// An object that is to be changed.
    pub(super) fn to_change(&self, node: Result<&Node, Status>) -> Result<Target, Stop> {
        // Above the exports nobody changes anything.
        let target = node?.target().ok_or(Status::RoFs)?;
        if target.rule.read_only {
            return Err(Status::RoFs.into());
        }
        Ok(target.clone())
    }

    /// An operation is about to change something, in the pool in which those before it have: of one that waits for two pools nobody can
    /// say which of them it is in doubt of.
    pub(super) fn begin(&mut self, target: &Target) -> Result<(), Stop> {
        // Where it goes on behind a wait nobody has asked in this attempt.
        self.was_here()?;
        let (pool, dataset) = (target.vfs.pool(), target.vfs.dataset());
        let (first, _) = *self.owed.dataset.get_or_insert((pool, dataset));
        if first != pool {
            return Err(if self.head.minor == 0 { Status::Resource } else { Status::NotSupp }.into());
        }
        if let Some(guard) = &mut self.owed.guard {
            guard.note_change(Mounted::of(&*target.vfs));
        }
        if let Some((mark, not_done)) = self.owed.again {
            self.performed = self.of_this_operation(mark).and_then(|mark| target.vfs.performed(&mark));
            if self.performed.is_none() {
                // By now its pool may be suspended, and tells nobody what it knows.
                return Err(if target.vfs.is_waited_for() { Status::Delay } else { not_done }.into());
            }
        }
        self.owed.changes += 1;
        Ok(())
    }

    /// It was not: it will be asked for anew.
    pub(super) fn has_not_begun(&mut self) {
        self.owed.changes -= 1;
    }

    /// Bytes of a file were read or written.
    pub(super) fn note_data(&mut self, bytes: usize) {
        self.owed.data_bytes += bytes as u64;
    }

    /// A WRITE was carried out.
    pub(super) fn note_written(&mut self) {
        self.owed.has_written = true;
    }

    /// Whether one was: it may have come again, and then what was set behind it the first time has to be set again.
    pub(super) fn has_written(&self) -> bool {
        self.owed.has_written
    }

    /// What this very operation was told before a crash or a broken connection, or in an attempt of its compound before this one.
    pub(super) fn remembered(&self, target: &Target) -> Option<RememberedReply> {
        if self.is_again() {
            return self.performed;
        }
        match self.guard().and_then(Guard::mark) {
            Some(mark) => target.vfs.performed(&self.of_this_operation(mark)?),
            None => self.scene.repeats.remembered(&*target.vfs, Some(self.mark?.operation())),
        }
    }

    /// The request goes through once more from here on: what it did is told, and the first operation that was not carried out is told this.
    pub(super) fn go_through_again(&mut self, mark: SlotMark, not_done: Status) {
        self.owed.again = Some((mark, not_done));
    }

    /// What an operation is told then that was not carried out.
    pub(super) fn not_done(&self) -> Status {
        self.owed.again.map_or(Status::ServerFault, |(_, not_done)| not_done)
    }

    /// Whether it is.
    pub(super) fn is_again(&self) -> bool {
        self.owed.again.is_some()
    }

    fn of_this_operation(&self, mark: SlotMark) -> Option<SlotMark> {
        Some(SlotMark { operation: self.mark?.operation(), ..mark })
    }

    /// For an operation whose answer the pool is to remember.
    pub(super) fn ctx<'b>(&self, target: &'b Target) -> OpCtx<'b> {
        let reply = self.mark.map(Mark::operation).and_then(|nth| self.scene.repeats.key(Some(nth)));
        let mark = self.guard().and_then(Guard::mark).and_then(|mark| self.of_this_operation(mark));
        OpCtx { reply, mark, ..OpCtx::of(&target.cred) }
    }

    /// Whose session it is carried out in, or which client of minor version 0 spoke last.
    pub(super) fn presence(&self) -> Result<&Presence, Status> {
        let of_session = self.guard().map(|guard| guard.session().presence());
        of_session.or(self.speaker.as_deref()).ok_or(Status::OpNotInSession)
    }

    /// The stateid of what an operation opened, or closed: those behind it may ask for it as the present one.
    pub(super) fn note_stateid(&mut self, stateid: Stateid) {
        self.owed.stateids[0] = Some(stateid);
    }

    /// SAVEFH keeps it, too (RFC 8881 §16.2.3.1.2).
    pub(super) fn save_stateid(&mut self) {
        self.owed.stateids[1] = self.owed.stateids[0];
    }

    /// RESTOREFH gives it back.
    pub(super) fn restore_stateid(&mut self) {
        self.owed.stateids[0] = self.owed.stateids[1];
    }

    /// What a stateid stands for that may be the present one (RFC 8881 §16.2.3.1.2).
    pub(super) fn present(&self, asked: Stateid) -> Result<Stateid, Status> {
        match asked.special(self.minor())? {
            Some(Special::Current) => self.owed.stateids[0].ok_or(Status::BadStateid),
            _ => Ok(asked),
        }
    }

    /// By what right an operation with this stateid writes the file, or sets its size.
    pub(super) fn right(&self, asked: Stateid, file: &Target) -> Result<Right, Status> {
        self.right_beside(self.owed.stateids[0], asked, file)
    }

    /// The same where this is the present stateid.
    fn right_beside(&self, present: Option<Stateid>, asked: Stateid, file: &Target) -> Result<Right, Status> {
        let asked = match asked.special(self.minor())? {
            // Of a handle that was only looked up the present one is the anonymous one.
            Some(Special::Current) => match present {
                Some(present) => present,
                None => return self.unopened(file),
            },
            Some(Special::Anonymous | Special::ReadBypass) => return self.unopened(file),
            None => asked,
        };
        let client = self.guard().map(|guard| guard.session().presence().client());
        let of = FileId::of(&*file.vfs, file.object);
        let holder = self.scene.house.open_of(&asked, self.minor(), client, &of)?;
        if self.minor() == 0 {
            let house = self.scene.house;
            house.clients().renew(ClientId(holder.client.0), house.heard()).map_err(|_| Status::BadStateid)?;
        }
        Ok(Right::Open(holder))
    }

    /// By none, as long as nobody may claim an open again that forbids it.
    fn unopened(&self, file: &Target) -> Result<Right, Status> {
        if self.scene.house.is_in_grace(&*file.pool) { Err(Status::Grace) } else { Ok(Right::Unopened) }
    }

    /// The same for reading, where one stateid stands for who would read whatever others deny (RFC 8881 §8.2.3).
    pub(super) fn right_to_read(&self, asked: Stateid, file: &Target) -> Result<Right, Status> {
        match asked.special(self.minor())? {
            Some(Special::ReadBypass) => Ok(Right::Mode),
            _ => self.right(asked, file),
        }
    }

    /// The same of the saved handle's file, which has a stateid of its own.
    pub(super) fn right_to_read_saved(&self, asked: Stateid, file: &Target) -> Result<Right, Status> {
        match asked.special(self.minor())? {
            Some(Special::ReadBypass) => Ok(Right::Mode),
            _ => self.right_beside(self.owed.stateids[1], asked, file),
        }
    }

    /// How much of so many bytes a COPY may take over: what all of a compound may together, so that it ends soon. Those behind come again.
    pub(super) fn to_copy(&self, wanted: u64) -> Result<u64, Status> {
        let left = COPY_BYTES_MAX - self.owed.copied_bytes;
        if left == 0 { Err(Status::Delay) } else { Ok(wanted.min(left)) }
    }

    /// So much more was.
    pub(super) fn note_copied(&mut self, bytes: u64) {
        self.owed.copied_bytes += bytes;
    }

    /// A client would be given something that it could claim again: whether it may be, for now.
    pub(super) fn may_be_given(&self, target: &Target) -> Result<Given, Stop> {
        self.scene.house.grant(&*target.pool, self.presence()?)
    }

    /// It was given that: its answer waits until that is written down, and that whoever had it before may not claim it (rules V23 and V24). What was done is not
    /// done again for that (rules V2), unless somebody had to go out of the list meanwhile.
    pub(super) fn was_given(&mut self, target: &Target, given: Given) -> Result<(), Stop> {
        let promise = self.scene.house.given(&*target.pool, self.presence()?, given)?;
        if let (Some(promise), Some(mark)) = (promise, self.mark) {
            self.owed.add(mark, promise);
        }
        Ok(())
    }

    /// A client claims again what it had before a restart of the server.
    pub(super) fn reclaim(&self, target: &Target) -> Result<(), Status> {
        self.scene.house.reclaim(&*target.pool, self.presence()?)
    }

    /// What came of an OPEN that may have made or cut a file, and what is told of it if it failed.
    pub(super) fn opened(&mut self, outcome: Outcome<Opened>, told: Option<Status>) -> Result<(Opened, Changes), Stop> {
        self.changed(outcome).map_err(|stop| match (stop, told) {
            (Stop::Failed(_), Some(told)) => Stop::Failed(told),
            (stop, _) => stop,
        })
    }

    /// What came of an operation that may have changed something. Failures wait as well (rules F9).
    pub(super) fn changed<T>(&mut self, outcome: Outcome<T>) -> Result<(T, Changes), Stop> {
        let Outcome { result, changes, wait } = outcome;
        let (is_throttled, promise) = (matches!(result, Err(FsError::Throttled)), promise_of(wait));
        match (is_throttled, promise, self.mark) {
            (true, Some(promise), _) => {
                self.has_not_begun();
                return Err(Halt::Waits(promise).into());
            }
            (false, Some(promise), Some(mark)) => self.owed.add(mark, promise),
            _ => {}
        }
        let value = result.map_err(Status::from)?;
        self.owed.has_changed = true;
        Ok((value, changes))
    }
}

/// The attributes around an operation.
type Changes = SmallVec<[Change; 2]>;

fn promise_of(wait: Wait) -> Option<Box<dyn Promise>> {
    match wait {
        Wait::Ready => None,
        Wait::On(promise) => Some(promise),
    }
}
