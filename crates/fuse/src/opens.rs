//! What the programs of a mount have open.
//!
//! Below, a file is open once for each way in which it is (to read, to write, or both): the kernel asks for one number an open, and gets the way behind a number of the open's own, so that opens are counted here and
//! claimed once. A library that a thousand programs have mapped is one claim. By its own number is known what was locked through an open (`locked`).
//!
//! A count and its claim change together, under one lock of the file's shard, or a last close could take what an open beside it has just been given. Which shard that is of a file that is
//! just made is known under the file system's own locks, where nothing may be waited for; so who makes a file has it open in a way of his own, which nobody else counts.
//!
//! *What was written and may be lost.* A pool that was suspended is taken up anew as behind a crash, and what had not been committed is gone; the kernel does not know of that. So of each open file the verifier of what
//! was written first is kept here (rules F16): a commit that gives another one has not kept it. That is told from then on to all who have the file open, as nobody knows who has heard of it, and until it is closed by all.
//! Where a range was locked in such a file, another one may have had it meanwhile: nothing is read or written there any more until then.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use foldhash::HashMap;
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use tally_base::ObjectId;
use tally_vfs::{
    Access, Attr, ClientNumber, CreateHow, Cred, FsError, Holder, ObjectRef, OpCtx, Opened, Opening, Outcome,
    OwnerNumber, Share, ToOpen, Vfs,
};

use crate::journal::{Entry, Gives, Journal, State};

/// Files whose numbers fall together wait for each other where they are opened and closed.
const SHARDS: usize = 64;

/// The way in which a file is open, as the kernel names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    access: Access,
    /// By who has made it.
    is_maker: bool,
}

impl Way {
    /// By the flags of open(2).
    pub(crate) const fn of(flags: u32) -> Self {
        let access = match flags & O_ACCMODE {
            O_WRONLY => Access::WRITE,
            O_RDWR => Access::BOTH,
            _ => Access::READ,
        };
        Self { access, is_maker: false }
    }

    /// The same, of who makes the file.
    pub(crate) const fn making(flags: u32) -> Self {
        Self { is_maker: true, ..Self::of(flags) }
    }

    /// By the number of an open; nothing, where it is none of ours.
    pub(crate) fn numbered(fh: u64) -> Option<Self> {
        let bits = (fh % WAYS) as u32;
        Some(Self { access: Access::from_bits(bits & !MAKER)?, is_maker: bits & MAKER != 0 })
    }

    const fn number(self) -> u64 {
        (self.access.bits() | if self.is_maker { MAKER } else { 0 }) as u64
    }

    pub(crate) const fn access(self) -> Access {
        self.access
    }

    pub(crate) const fn writes(self) -> bool {
        self.access.has(Access::WRITE)
    }
}

/// Behind the bits of [`Access`].
const MAKER: u32 = 4;
/// Numbers of ways are below.
const WAYS: u64 = 2 * MAKER as u64;
const O_ACCMODE: u32 = 3;
const O_WRONLY: u32 = 1;
const O_RDWR: u32 = 2;

/// Files by their numbers, each with the number of a way, and how often it is open so.
type Counts = HashMap<(ObjectId, u64), (ObjectRef, u32)>;
type Shard = Mutex<Counts>;

/// Of files that are open and were written: what the file system was then.
type Written = Mutex<HashMap<ObjectId, Due>>;

/// What a commit has to say, and whether that is in the journal.
#[derive(Clone, Copy)]
struct Due {
    gives: Gives,
    /// How often the file was written to, modulo 2^64.
    writes: u64,
    /// And had been when that was looked at last.
    before: u64,
    is_noted: bool,
}

impl Due {
    fn noted() -> Self {
        Self { gives: Gives::Gone, writes: 0, before: 0, is_noted: true }
    }
}

fn is_open_at_all(counts: &Counts, object: ObjectId) -> bool {
    (0..WAYS).any(|way| counts.contains_key(&(object, way)))
}

fn place(object: ObjectId) -> usize {
    FixedState::with_seed(0).hash_one(object) as usize % SHARDS
}

/// How many of each.
pub(crate) struct Opens {
    client: ClientNumber,
    shards: Vec<Shard>,
    written: Vec<Written>,
    /// The next open's own number.
    next: AtomicU64,
    journal: Option<Arc<Journal>>,
    /// Whether any file was ever found unlocked.
    has_gone: AtomicBool,
}

impl Opens {
    /// None, of this client.
    pub(crate) fn new(client: ClientNumber, journal: Option<Arc<Journal>>) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let written = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { client, shards, written, next: AtomicU64::new(0), journal, has_gone: AtomicBool::new(false) }
    }

    /// What another process had open, of which nothing is claimed here yet.
    pub(crate) fn take_over(&self, before: &State) {
        self.next.store(before.next / WAYS + 1, Relaxed);
        for (fh, (object, _)) in &before.opens {
            let key = (object.id, fh % WAYS);
            self.shard(object.id).lock().entry(key).or_insert((*object, 0)).1 += 1;
        }
        for (object, gives) in &before.due {
            // What that process would have had to commit went with it: nobody goes on as if it were there.
            let gives = if matches!(gives, Gives::Verifier(_)) { Gives::Gone } else { *gives };
            if gives == Gives::Gone {
                self.has_gone.store(true, Release);
            }
            self.note(&Entry::Due { object: *object, gives });
            self.written[place(*object)].lock().insert(*object, Due { gives, ..Due::noted() });
        }
    }

    /// A number for one more open of this way.
    pub(crate) fn number(&self, way: Way) -> u64 {
        // Two of one number would take 2^61 opens.
        self.next.fetch_add(1, Relaxed).wrapping_mul(WAYS) | way.number()
    }

    pub(crate) const fn client(&self) -> ClientNumber {
        self.client
    }

    /// Who has it open so.
    pub(crate) const fn holder(&self, way: Way) -> Holder {
        Holder { client: self.client, owner: OwnerNumber(way.number()) }
    }

    /// Files are apart by numbers that follow each other.
    fn shard(&self, object: ObjectId) -> &Shard {
        &self.shards[place(object)]
    }

    /// Something was written to an open file, and is not durable yet.
    pub(crate) fn note_written(&self, object: ObjectId, verifier: u64) {
        let mut written = self.written[place(object)].lock();
        let gives = Gives::Verifier(verifier);
        let due = written.entry(object).or_insert(Due { gives, is_noted: false, ..Due::noted() });
        due.writes = due.writes.wrapping_add(1);
        match due.gives {
            // All that was written before is kept.
            Gives::Verifier(_) if !due.is_noted => due.gives = gives,
            Gives::Verifier(since) if since != verifier => {
                *due = Due { gives: Gives::Lost, is_noted: false, ..*due };
            }
            _ => {}
        }
        if !due.is_noted {
            due.is_noted = true;
            self.note(&Entry::Due { object, gives: due.gives });
        }
    }

    /// Whether something that was written to a file is to be answered for.
    pub(crate) fn is_due(&self, object: ObjectId) -> bool {
        let written = self.written[place(object)].lock();
        written.get(&object).is_some_and(|due| due.is_noted || !matches!(due.gives, Gives::Verifier(_)))
    }

    /// Files of which something is due and that were not written to since this was asked last, and how often they were.
    pub(crate) fn unwritten_since_last(&self) -> Vec<(ObjectRef, u64)> {
        let mut still = Vec::new();
        for shard in &self.shards {
            let counts = shard.lock();
            for (object, _) in counts.values() {
                let mut written = self.written[place(object.id)].lock();
                let Some(due) = written.get_mut(&object.id) else { continue };
                let is_owed = due.is_noted && matches!(due.gives, Gives::Verifier(_));
                if is_owed && std::mem::replace(&mut due.before, due.writes) == due.writes {
                    still.push((*object, due.writes));
                }
            }
        }
        still
    }

    fn note(&self, entry: &Entry<'_>) {
        if let Some(journal) = &self.journal {
            journal.note(entry);
        }
    }

    /// How often an open file was written to until now.
    pub(crate) fn writes(&self, object: ObjectId) -> u64 {
        self.written[place(object)].lock().get(&object).map_or(0, |due| due.writes)
    }

    /// All that was written until then is durable.
    pub(crate) fn settled(&self, object: ObjectId, writes: u64) {
        let mut written = self.written[place(object)].lock();
        let Some(due) = written.get_mut(&object) else { return };
        if due.is_noted && due.writes == writes && matches!(due.gives, Gives::Verifier(_)) {
            due.is_noted = false;
            self.note(&Entry::Settled { object });
        }
    }

    /// A commit gives this verifier: whether all that was written to the file is durable with it.
    pub(crate) fn is_kept(&self, object: ObjectId, verifier: u64) -> bool {
        let mut written = self.written[place(object)].lock();
        let Some(due) = written.get_mut(&object) else { return true };
        match due.gives {
            Gives::Verifier(since) if since == verifier => true,
            Gives::Verifier(_) if !due.is_noted => true,
            Gives::Gone => false,
            _ => {
                due.gives = Gives::Lost;
                self.note(&Entry::Due { object, gives: Gives::Lost });
                false
            }
        }
    }

    /// What was locked of a file that is open here is locked no more. Who opens it when it was closed by all is told nothing of that, also where that is just now.
    pub(crate) fn note_unlocked(&self, object: ObjectId) {
        let counts = self.shard(object).lock();
        if is_open_at_all(&counts, object) {
            self.has_gone.store(true, Release);
            self.written[place(object)].lock().insert(object, Due::noted());
            self.note(&Entry::Due { object, gives: Gives::Gone });
        }
    }

    /// Whether a file is nobody's to read or write, as it was unlocked.
    pub(crate) fn is_gone(&self, object: ObjectId) -> bool {
        self.has_gone.load(Acquire)
            && self.written[place(object)].lock().get(&object).is_some_and(|due| due.gives == Gives::Gone)
    }

    /// Whether a file is open so.
    pub(crate) fn is_open(&self, object: ObjectId, way: Way) -> bool {
        self.shard(object).lock().contains_key(&(object, way.number()))
    }

    /// Opens a file that is there. What there is to read of it is read before others of its shard wait for that: a disk may hang.
    pub(crate) fn open(&self, vfs: &dyn Vfs, cred: &Cred, object: ObjectRef, way: Way) -> Result<Attr, FsError> {
        vfs.getattr(object)?;
        let mut counts = self.shard(object.id).lock();
        let opened = self.claim(vfs, OpCtx::of(cred), ToOpen::Itself(object), way).result?;
        counts.entry((object.id, way.number())).or_insert((object, 0)).1 += 1;
        Ok(opened.attr)
    }

    /// Makes a file, which nobody else has open.
    pub(crate) fn make(
        &self,
        vfs: &dyn Vfs,
        ctx: OpCtx<'_>,
        (dir, name): (ObjectRef, &[u8]),
        how: &CreateHow,
        way: Way,
    ) -> Outcome<Opened> {
        let outcome = self.claim(vfs, ctx, ToOpen::Made(dir, name, how), way);
        if let Ok(opened) = &outcome.result {
            let object = opened.attr.object;
            self.shard(object.id).lock().insert((object.id, way.number()), (object, 1));
        }
        outcome
    }

    fn claim(&self, vfs: &dyn Vfs, ctx: OpCtx<'_>, what: ToOpen<'_>, way: Way) -> Outcome<Opened> {
        let holder = self.holder(way);
        let opening = Opening { share: Share::only(way.access), by: &|_| Ok(holder), wants: None };
        vfs.open(OpCtx { client: Some(self.client), ..ctx }, what, opening)
    }

    /// The file system has lost what was open, as its pool was taken up anew: opens it again. Nothing, where it is not open so.
    pub(crate) fn claim_again(&self, vfs: &dyn Vfs, object: ObjectRef, way: Way) -> Option<Outcome<Opened>> {
        if !self.is_open(object.id, way) {
            return None;
        }
        // As with who opens it first, what there is to read is read before.
        let _there = vfs.getattr(object);
        let counts = self.shard(object.id).lock();
        let is_open = counts.contains_key(&(object.id, way.number()));
        is_open.then(|| self.claim(vfs, OpCtx::of(&Cred::checked(0, 0)), ToOpen::Itself(object), way))
    }

    /// The same of all that are open. What cannot be for now is opened when a program comes to it.
    pub(crate) fn claim_all_again(&self, vfs: &dyn Vfs) {
        for shard in &self.shards {
            let open: Vec<_> = shard.lock().iter().map(|((_, number), (object, _))| (*object, *number)).collect();
            for (object, way) in open.into_iter().filter_map(|(object, number)| Some((object, Way::numbered(number)?)))
            {
                drop(self.claim_again(vfs, object, way));
            }
        }
    }

    /// One of them is closed, of the object with this number: the kernel says so once, and whether it can be looked at or not it is closed. Where the dataset is away nothing is claimed of it.
    pub(crate) fn close(&self, vfs: Option<&dyn Vfs>, object: ObjectId, way: Way) {
        let mut counts = self.shard(object).lock();
        let Some((_, count)) = counts.get_mut(&(object, way.number())) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        if let (Some((object, _)), Some(vfs)) = (counts.remove(&(object, way.number())), vfs) {
            vfs.close(object, self.holder(way));
        }
        // Who opens it from here on has been promised nothing of it.
        if !is_open_at_all(&counts, object) {
            self.written[place(object)].lock().remove(&object);
        }
    }

    /// All are.
    pub(crate) fn close_all(&self, vfs: Option<&dyn Vfs>) {
        for shard in &self.shards {
            for ((_, number), (object, _)) in shard.lock().drain() {
                if let (Some(vfs), Some(way)) = (vfs, Way::numbered(number)) {
                    vfs.close(object, self.holder(way));
                }
            }
        }
    }
}
