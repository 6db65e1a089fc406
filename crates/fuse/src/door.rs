//! One request, without its descriptor: what the file system makes of it, and what the answer waits for.
//!
//! *Between the kernel's look and the operation* somebody may have come, over NFS. It has checked the directory, and the object as it was a moment ago; as on any file system. But of a
//! file that was not there it has checked nothing: so a CREATE makes one or fails, and where the name was taken meanwhile the kernel is told that what it knew is stale, looks again,
//! checks what is there and opens that.

mod content;
mod make;
mod ranges;
mod repeated;
mod xattrs;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use foldhash::HashMap;
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;
use tally_base::{FileTime, ObjectId, Promise, Wait};
use tally_vfs::locks::{Range, Watch};
use tally_vfs::{
    Attr, ClientNumber, Cred, Delegation, FsError, ObjectRef, OpCtx, Outcome, ReplyKey, Right, SetAttr, SetTime, Vfs,
};

use crate::errno::errno;
use crate::journal::{Entry, Journal, State};
use crate::locked::Locked;
use crate::opens::{Opens, Way};
use crate::source::{Place, Source};
use crate::under_way::{Job, UnderWay};
use crate::wire::{self, Header, Listing, Op, Plus, RESENT, ROOT, Reply, SetAttrIn};

/// How long somebody may be kept out by what another client was given: longer than one may take that has to be asked twice, and is then taken for gone.
const KEPT_OUT_MAX: Duration = Duration::from_secs(600);

/// How often something is asked again as somebody was in the way who is gone by then: others may have come.
const ATTEMPTS_MAX: u32 = 8;

/// What comes of a request.
pub(crate) enum Step {
    /// Nothing is answered.
    Silent,
    /// This is the answer, and what is so with it.
    Reply(Reply, With),
    /// The same once the promise is kept.
    Wait(Box<dyn Promise>, Reply, With),
    /// It has done nothing, and is run again.
    Again(Until),
}

/// When a request is run again.
pub(crate) enum Until {
    /// In a moment, as nobody says when that would help.
    Moment,
    /// The same, for a range that others may still claim: a signal ends that as it ends each wait for a range.
    Grace,
    /// When this is kept, or broken.
    Kept(Box<dyn Promise>),
    /// When what it awaits is freed ([`UnderWay::awaits`]).
    Freed,
    /// When what a client was given to keep is given back, of which it is told as far as there is room, or in a moment.
    GivenBack,
}

/// What is so from an answer on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum With {
    /// Nothing else.
    Nothing,
    /// A file is open by this number. If nobody hears it, it is closed.
    Opened(ObjectRef, u64),
    /// What was written to a file until it had been written to so often is durable.
    Settled(ObjectId, u64),
}

impl From<Reply> for Step {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply, With::Nothing)
    }
}

impl From<Errno> for Step {
    fn from(errno: Errno) -> Self {
        Reply::from(errno).into()
    }
}

/// The door of one mount.
pub(crate) struct Door {
    source: Arc<dyn Source>,
    opens: Opens,
    locked: Locked,
    under_way: Arc<UnderWay>,
    /// The same, for who tells it of what is freed.
    watch: Weak<dyn Watch>,
    /// In which mount of the dataset all that stands, and by whom it is brought into a newer one: by nobody, while something is closed.
    mounted: AtomicU64,
    anew: RwLock<()>,
    /// Opens that ended while the dataset was away, by their numbers.
    left: Mutex<Vec<(ObjectId, u64)>>,
    has_left: AtomicBool,
    journal: Option<Arc<Journal>>,
    /// What another process had, and its requests that are asked again go by.
    before: Option<State>,
    /// Its opens, by the requests that they were given to.
    opened_before: HashMap<u64, (u64, ObjectRef)>,
}

impl Door {
    /// A mount's; with what is kept of it, and what was before.
    pub(crate) fn new(
        source: Arc<dyn Source>,
        client: ClientNumber,
        under_way: Arc<UnderWay>,
        (journal, before): (Option<Arc<Journal>>, Option<State>),
    ) -> Self {
        let watch: Weak<dyn Watch> = Arc::downgrade(&(Arc::clone(&under_way) as Arc<dyn Watch>));
        let (mounted, anew, left, has_left) = Default::default();
        let (opens, locked) = (Opens::new(client, journal.clone()), Locked::new(client, journal.clone()));
        before.iter().for_each(|before| opens.take_over(before));
        let asked_before = before
            .iter()
            .flat_map(|before| before.opens.iter().map(|(fh, (object, unique))| (*unique, (*fh, *object))));
        let opened_before = asked_before.collect();
        Self { source, opens, locked, under_way, watch, mounted, anew, left, has_left, journal, before, opened_before }
    }

    /// All that another process had open and locked is so here, if the dataset is.
    pub(crate) fn take_over(&self) {
        if let Place::Here(vfs) = self.source.place() {
            let _is_newest = self.is_brought_to(&*vfs);
        }
    }

    /// What groups have made durable since the last time is owed by no commit any more: of files that were not written to meanwhile a commit says so, and writes nothing.
    pub(crate) fn settle(&self) {
        let Place::Here(vfs) = self.source.place() else { return };
        if self.journal.is_none() || self.mounted.load(Ordering::Acquire) != vfs.mount().0 {
            return;
        }
        for (object, writes) in self.opens.unwritten_since_last() {
            let outcome = vfs.commit(OpCtx::of(&Cred::checked(0, 0)), object, 0, 0);
            if let (Ok(verifier), Wait::Ready) = (outcome.result, outcome.wait)
                && self.opens.is_kept(object.id, verifier)
            {
                self.opens.settled(object.id, writes);
            }
        }
    }

    /// Something happens of which whoever comes behind this process has to know.
    pub(crate) fn note(&self, entry: &Entry<'_>) {
        if let Some(journal) = &self.journal {
            journal.note(entry);
        }
    }

    /// What is so with an answer that goes now.
    pub(crate) fn with_answer(&self, unique: u64, with: With) {
        match with {
            With::Nothing => {}
            With::Opened(object, fh) => self.note(&Entry::Opened { unique: unique & !RESENT, object, fh }),
            With::Settled(object, writes) => self.opens.settled(object, writes),
        }
    }

    pub(crate) fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// Ends an open, or does so when the dataset is here again: a claim that nobody has would stay.
    pub(crate) fn release(&self, object: ObjectId, fh: u64) {
        self.note(&Entry::Released { object, fh });
        loop {
            match self.source.place() {
                Place::Here(vfs) => {
                    let _stays = self.anew.read();
                    if self.mounted.load(Ordering::Acquire) <= vfs.mount().0 {
                        return self.released(Some(&*vfs), object, fh);
                    }
                    // Somebody has seen a newer one since, in which that is open by now.
                }
                Place::Gone => return self.released(None, object, fh),
                Place::Away => {
                    self.left.lock().push((object, fh));
                    return self.has_left.store(true, Ordering::Release);
                }
            }
        }
    }

    fn released(&self, vfs: Option<&dyn Vfs>, object: ObjectId, fh: u64) {
        let Some(way) = Way::numbered(fh) else { return };
        let freed = self.locked.release(vfs, object, fh);
        self.opens.close(vfs, object, way);
        if let Some((vfs, object)) = vfs.zip(freed) {
            self.source.freed(vfs, object);
        }
    }

    /// The kernel asks no more.
    pub(crate) fn close_all(&self) {
        let place = self.source.place();
        let vfs = if let Place::Here(vfs) = &place { Some(&**vfs) } else { None };
        let freed = self.locked.release_all(vfs);
        self.opens.close_all(vfs);
        if let Some(vfs) = vfs {
            freed.into_iter().for_each(|object| self.source.freed(vfs, object));
        }
    }

    /// What stands here is brought to this mount of the dataset, which may be another one than before, and what was left open there is closed. False: there is a newer one.
    fn is_brought_to(&self, vfs: &dyn Vfs) -> bool {
        if !self.stands_in(vfs) {
            return false;
        }
        if self.has_left.load(Ordering::Acquire) {
            let _stays = self.anew.read();
            if self.mounted.load(Ordering::Acquire) != vfs.mount().0 {
                return false;
            }
            self.has_left.store(false, Ordering::Release);
            let left = std::mem::take(&mut *self.left.lock());
            left.into_iter().for_each(|(object, fh)| self.released(Some(vfs), object, fh));
        }
        true
    }

    fn stands_in(&self, vfs: &dyn Vfs) -> bool {
        let mount = vfs.mount();
        if self.mounted.load(Ordering::Acquire) == mount.0 {
            return true;
        }
        let one_at_a_time = self.anew.write();
        // One that follows another has a number that was drawn later.
        let before = self.mounted.load(Ordering::Acquire);
        if before >= mount.0 {
            return before == mount.0;
        }
        self.locked.lost_to(mount).into_iter().for_each(|object| self.opens.note_unlocked(object));
        if let (0, Some(_), Some(journal)) = (before, &self.before, &self.journal) {
            // Before anybody else comes, and before a program of this mount does. What was closed meanwhile is not in the journal any more.
            self.opens.claim_all_again(vfs);
            let lost = match journal.state() {
                Some(now) => self.locked.take_over(vfs, &now),
                // Nobody knows what of it is locked still.
                None => self.before.iter().flat_map(|before| before.owners.keys().map(|(object, _)| *object)).collect(),
            };
            lost.into_iter().for_each(|object| self.opens.note_unlocked(object));
        }
        self.mounted.store(mount.0, Ordering::Release);
        drop(one_at_a_time);
        if before > 0 {
            self.opens.claim_all_again(vfs);
        }
        true
    }

    /// Carries a request out.
    pub(crate) fn run(&self, job: &Job) -> Step {
        let request = match wire::decode(&job.message) {
            Ok(request) => request,
            Err(errno) => return errno.into(),
        };
        match request.op {
            Op::Forget => return Step::Silent,
            Op::Destroy | Op::ReleaseDir => return Reply::done().into(),
            // Nothing is remembered of who lists a directory.
            Op::OpenDir => return wire::opened(0).into(),
            Op::Release { fh } => {
                if !self.has_closed(&request.header, fh) {
                    self.release(ObjectId(request.header.node), fh);
                }
                return Reply::done().into();
            }
            Op::Unknown { .. } => return Errno::NOSYS.into(),
            _ => {}
        }
        let vfs = match self.source.place() {
            Place::Here(vfs) => vfs,
            Place::Away => return Step::Again(Until::Moment),
            Place::Gone => return Errno::IO.into(),
        };
        if !self.is_brought_to(&*vfs) {
            return Step::Again(Until::Moment);
        }
        let reply = self.key(&request);
        let asked = Asked { door: self, vfs: &*vfs, header: request.header, job, reply };
        // Before anything that may take longer than is remembered what was done.
        if let Some(step) = asked.repeated(&request.op).transpose() {
            return step.unwrap_or_else(|error| asked.refused(error, Wait::Ready));
        }
        if self.source.awaits_claims(&*vfs) && meets_files(&request.op) {
            return Step::Again(Until::Moment);
        }
        if changes_something(&request.op) && vfs.is_read_only() {
            return Errno::ROFS.into();
        }
        asked.perform(&request.op).unwrap_or_else(|error| asked.refused(error, Wait::Ready))
    }
}

/// Whether it reads or changes what is in a file, or takes one away (rules V27).
fn meets_files(op: &Op<'_>) -> bool {
    matches!(
        op,
        Op::Read { .. }
            | Op::Write { .. }
            | Op::SetAttr(_)
            | Op::Open { .. }
            | Op::Create { .. }
            | Op::Unlink { .. }
            | Op::Rename { .. }
            | Op::Link { .. }
            | Op::Allocate { .. }
            | Op::Seek { .. }
            | Op::SetXattr { .. }
            | Op::RemoveXattr { .. }
    )
}

/// Whether it is refused where a dataset takes no changes. What was changed before is made durable all the same.
fn changes_something(op: &Op<'_>) -> bool {
    matches!(
        op,
        Op::SetAttr(_)
            | Op::Symlink { .. }
            | Op::MkNod { .. }
            | Op::MkDir { .. }
            | Op::Unlink { .. }
            | Op::RmDir { .. }
            | Op::Rename { .. }
            | Op::Link { .. }
            | Op::Create { .. }
            | Op::Write { .. }
            | Op::Allocate { .. }
            | Op::SetXattr { .. }
            | Op::RemoveXattr { .. }
    ) || matches!(op, Op::Open { flags, .. } if flags & make::O_TRUNC != 0)
}

/// A request at the door of its dataset.
struct Asked<'a> {
    door: &'a Door,
    vfs: &'a dyn Vfs,
    header: Header,
    job: &'a Job,
    /// Under which it is remembered that it was carried out.
    reply: Option<ReplyKey>,
}

impl Asked<'_> {
    fn perform(&self, op: &Op<'_>) -> Result<Step, FsError> {
        match *op {
            Op::Lookup { name } => self.lookup(name),
            Op::GetAttr => Ok(wire::attr(&self.known(self.node()?)?).into()),
            Op::SetAttr(set) => self.setattr(&set),
            Op::ReadLink => {
                let (target, _) = self.vfs.readlink(self.node()?)?;
                Ok(Reply::bytes(target).into())
            }
            Op::Symlink { name, target } => self.symlink(name, target),
            Op::MkNod { name, mode, rdev } => self.mknod(name, mode, rdev),
            Op::MkDir { name, mode } => self.mkdir(name, mode),
            Op::Create { name, mode, flags } => self.create(name, mode, flags),
            Op::Link { node, name } => self.link(node, name),
            Op::Unlink { name } => self.change(|ctx, dir| self.vfs.remove(ctx, dir, name)),
            Op::RmDir { name } => self.change(|ctx, dir| self.vfs.rmdir(ctx, dir, name)),
            Op::Rename { name, new_dir, new_name, flags } => self.rename(name, (new_dir, new_name), flags),
            Op::Open { flags, open_flags } => self.open(flags, open_flags),
            Op::Read { fh, offset, size } => self.read(fh, offset, size),
            Op::Write { fh, offset, write_flags, flags, data } => self.write((fh, offset), (write_flags, flags), data),
            Op::Flush { fh, lock_owner } => self.flush(fh, lock_owner),
            Op::GetLk(asked) => self.get_lock(&asked),
            Op::SetLk { asked, waits } => self.set_lock(&asked, waits),
            Op::FSync { fh } => self.fsync(fh),
            Op::FSyncDir => self.fsync_directory(),
            Op::Allocate { fh, offset, length, mode } => self.allocate(fh, offset, length, mode),
            Op::Seek { fh, offset, whence } => self.seek(fh, offset, whence),
            Op::StatFs => Ok(wire::space(&self.vfs.statfs()?).into()),
            Op::ReadDir { offset, size, plus } => self.list(offset, size, if plus { Plus::Yes } else { Plus::No }),
            Op::SetXattr { name, value, flags } => self.set_xattr(name, value, flags),
            Op::GetXattr { name, size } => self.xattr(name, size),
            Op::ListXattr { size } => self.xattrs(size),
            Op::RemoveXattr { name } => self.remove_xattr(name),
            // They have no file system to ask, and are answered before it is.
            Op::Init { .. }
            | Op::Interrupt { .. }
            | Op::Forget
            | Op::Release { .. }
            | Op::Destroy
            | Op::OpenDir
            | Op::ReleaseDir
            | Op::Unknown { .. } => Ok(Errno::NOSYS.into()),
        }
    }

    fn cred(&self) -> Cred {
        Cred::checked(self.header.uid, self.header.gid)
    }

    /// The same of who changes what is in a file. The kernel says when that takes set-id bits away: from whom they are not to be taken, none are.
    fn changer(&self, takes_privileges: bool) -> Cred {
        let uid = match (takes_privileges, self.header.uid) {
            (false, _) => 0,
            // The superuser without the capability that would leave them.
            (true, 0) => u32::MAX,
            (true, uid) => uid,
        };
        Cred::checked(uid, self.header.gid)
    }

    fn ctx<'c>(&self, cred: &'c Cred, right: Right) -> OpCtx<'c> {
        OpCtx { right, client: Some(self.door.opens.client()), reply: self.reply, ..OpCtx::of(cred) }
    }

    /// What the request is about.
    fn node(&self) -> Result<ObjectRef, FsError> {
        self.object(self.header.node)
    }

    fn object(&self, node: u64) -> Result<ObjectRef, FsError> {
        if node == ROOT { Ok(self.vfs.root()) } else { self.vfs.numbered(ObjectId(node)) }
    }

    fn node_of(&self, object: ObjectId) -> u64 {
        if object == self.vfs.root().id { ROOT } else { object.0 }
    }

    fn entry(&self, attr: &Attr) -> Reply {
        wire::entry(self.node_of(attr.object.id), attr)
    }

    /// Attributes. Where a client has the file for writing it may know of newer ones, and is asked to bring them.
    fn known(&self, object: ObjectRef) -> Result<Attr, FsError> {
        self.ask_writer(object)?;
        self.vfs.getattr(object)
    }

    fn ask_writer(&self, object: ObjectRef) -> Result<(), FsError> {
        let is_written = self.vfs.delegated(object).iter().any(|(_, kind)| *kind == Delegation::Write);
        if is_written { Err(FsError::Delegated(object)) } else { Ok(()) }
    }

    /// What an operation came to.
    fn ends<T>(&self, outcome: Outcome<T>, reply: impl FnOnce(T) -> Reply) -> Step {
        match outcome.result {
            Ok(value) => waits(outcome.wait, reply(value), With::Nothing),
            Err(error) => self.refused(error, outcome.wait),
        }
    }

    /// Asks as often as those are gone who were in the way, as their leases were over (rules V20). Gives whether any were.
    fn past_late<T>(&self, ask: impl Fn() -> T, in_the_way: impl Fn(&T) -> Vec<ClientNumber>) -> (T, bool) {
        for attempt in 0..ATTEMPTS_MAX {
            let told = ask();
            let clients = in_the_way(&told);
            if clients.is_empty() || !self.door.source.make_way(&clients) {
                return (told, attempt > 0);
            }
        }
        (ask(), true)
    }

    /// From here on it is made due by what is freed in this range of an object, at whichever door. False: there is no room for one more who waits so.
    fn listens(&self, object: ObjectId, range: Range) -> bool {
        let is_listed = self.door.under_way.awaits(self.job.unique, object, range);
        if is_listed {
            self.vfs.watch(&self.door.watch);
        }
        is_listed
    }

    /// It was not done: that is what is told once it is sure, or it is tried again.
    fn refused(&self, error: FsError, wait: Wait) -> Step {
        match (error, wait) {
            (FsError::Throttled, Wait::On(promise)) => Step::Again(Until::Kept(promise)),
            (FsError::Throttled | FsError::Unavailable, _) => Step::Again(Until::Moment),
            (FsError::Delegated(object), _)
                if self.door.under_way.kept_out(self.job.unique, Instant::now()) < KEPT_OUT_MAX =>
            {
                // Where there is no room for that, or it came back before, he looks again by himself.
                let _is_told = self.listens(object.id, Range::ALL);
                self.door.source.recall(self.vfs, object);
                Step::Again(Until::GivenBack)
            }
            (error, wait) => waits(wait, errno(error).into(), With::Nothing),
        }
    }

    /// A change in the directory that the request is about, of which only the end is told.
    fn change(&self, change: impl FnOnce(OpCtx<'_>, ObjectRef) -> Outcome<()>) -> Result<Step, FsError> {
        let (dir, cred) = (self.node()?, self.cred());
        Ok(self.ends(change(self.ctx(&cred, Right::Mode), dir), |()| Reply::done()))
    }

    fn lookup(&self, name: &[u8]) -> Result<Step, FsError> {
        let (found, _) = self.vfs.lookup(&self.cred(), self.node()?, name)?;
        self.ask_writer(found.object)?;
        Ok(self.entry(&found).into())
    }

    fn rename(&self, name: &[u8], (new_dir, new_name): (u64, &[u8]), flags: u32) -> Result<Step, FsError> {
        const NOREPLACE: u32 = 1;
        let (from, to, cred) = (self.node()?, self.object(new_dir)?, self.cred());
        if self.vfs.is_covered(to) {
            return Err(FsError::ReadOnly);
        }
        let ctx = self.ctx(&cred, Right::Mode);
        let outcome = match flags {
            0 => self.vfs.rename(ctx, from, name, to, new_name),
            NOREPLACE => self.vfs.rename_to_new(ctx, from, name, to, new_name),
            // To exchange two names, and to leave a whiteout.
            _ => return Err(FsError::Invalid),
        };
        Ok(self.ends(outcome, |()| Reply::done()))
    }

    fn setattr(&self, asked: &SetAttrIn) -> Result<Step, FsError> {
        let object = self.node()?;
        let set = changes(asked);
        let cred = if set.size.is_some() { self.changer(asked.valid & KILL_SUIDGID != 0) } else { self.cred() };
        let way = Way::numbered(asked.fh).filter(|way| asked.valid & FH != 0 && set.size.is_some() && way.writes());
        let outcome = match way {
            Some(way) => {
                self.by_open(object, way, |right| self.vfs.setattr(self.ctx(&cred, right), object, &set, None))
            }
            None => self.vfs.setattr(self.ctx(&cred, Right::Mode), object, &set, None),
        };
        let after = outcome.changes.first().and_then(|change| change.after.clone());
        let Outcome { result: Ok(()), wait, .. } = outcome else { return Ok(self.ends(outcome, |()| Reply::done())) };
        let after = after.map_or_else(|| self.vfs.getattr(object), Ok);
        // It is done, whatever there is to say of it.
        Ok(waits(wait, after.map_or_else(|error| errno(error).into(), |after| wire::attr(&after)), With::Nothing))
    }

    fn list(&self, offset: u64, room: u32, plus: Plus) -> Result<Step, FsError> {
        let mut listing = Listing::new(room.min(LISTING_BYTES_MAX), plus);
        let dir = self.node()?;
        let page = self.vfs.readdir(&self.cred(), dir, offset, listing.entries_max(), plus == Plus::Yes)?;
        let is_empty = page.entries.is_empty();
        let all = page.entries.iter().take_while(|entry| listing.add(entry, self.node_of(entry.object))).count();
        // An empty answer is the end of a listing.
        if all == 0 && !is_empty { Err(FsError::Invalid) } else { Ok(listing.into_reply().into()) }
    }
}

/// A listing is answered in parts of at most so many bytes.
const LISTING_BYTES_MAX: u32 = 256 << 10;

fn waits(wait: Wait, reply: Reply, with: With) -> Step {
    match wait {
        Wait::Ready => Step::Reply(reply, with),
        Wait::On(promise) => Step::Wait(promise, reply, with),
    }
}

/// Which fields of SETATTR count.
const MODE: u32 = 1 << 0;
const UID: u32 = 1 << 1;
const GID: u32 = 1 << 2;
const SIZE: u32 = 1 << 3;
const ATIME: u32 = 1 << 4;
const MTIME: u32 = 1 << 5;
const FH: u32 = 1 << 6;
const ATIME_NOW: u32 = 1 << 7;
const MTIME_NOW: u32 = 1 << 8;
const KILL_SUIDGID: u32 = 1 << 11;

fn changes(asked: &SetAttrIn) -> SetAttr {
    let has = |bit: u32| asked.valid & bit != 0;
    let time = |(bit, now): (u32, u32), seconds: i64, ns: u32| match (has(now), has(bit)) {
        (true, _) => Some(SetTime::Server),
        (_, true) => Some(SetTime::Client(FileTime::new(seconds, ns))),
        _ => None,
    };
    SetAttr {
        mode: has(MODE).then_some(asked.mode & 0o7777),
        uid: has(UID).then_some(asked.uid),
        gid: has(GID).then_some(asked.gid),
        size: has(SIZE).then_some(asked.size),
        atime: time((ATIME, ATIME_NOW), asked.atime, asked.atime_ns),
        mtime: time((MTIME, MTIME_NOW), asked.mtime, asked.mtime_ns),
    }
}

/// The whole of a message, of which a part is kept without a copy.
fn part_of(message: &Bytes, part: &[u8]) -> Bytes {
    if part.is_empty() { Bytes::new() } else { message.slice_ref(part) }
}

#[cfg(test)]
mod tests;
