//! One request on its way: from a handle to a dataset under the client's rule, and from the file system's
//! outcome to an answer.

use std::cell::Cell;
use std::sync::Arc;

use tally_base::{DatasetId, PoolGuid, Wait};
use tally_vfs::{
    Change, Cred, FileKind, FsError, ObjectRef, OpCtx, Outcome, RememberedReply, ReplyKey, Stability, Vfs,
};

use super::Procedure;
use super::status::Status;
use super::wire::Put;
use crate::cred::{TooWeak, caller, known_user};
use crate::exports::{Exports, Place, PoolExports, Rule};
use crate::handle::{Handle, HandleBytes};
use crate::link::Link;
use crate::rpc::{Call, Reply};
use crate::senders::Senders;
use crate::xdr::{Body, Encoder};

/// A call to NFSv3, and what it needs.
pub struct Request<'a> {
    /// Header and arguments, as they came.
    pub call: &'a Call,
    /// Where it came from.
    pub link: &'a Link,
    /// Who may see what.
    pub exports: &'a dyn Exports,
    begin: &'a Begin<'a>,
    /// Who else has sent something.
    senders: &'a Senders,
    memo: Cell<Memo>,
    /// The user as whom it is carried out, if not as whom it names.
    user: Cell<Option<u32>>,
    /// The dataset whose rule asks for more than its connection can show.
    too_weak: Cell<Option<(PoolGuid, DatasetId)>>,
    /// Noted on the way.
    pub about: Cell<About>,
}

/// Tells whether a request was here before, from whom it names, or from this user.
type Begin<'a> = dyn Fn(Option<u32>) -> Result<Memo, Repeated> + 'a;

/// What is known of a request that is carried out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memo {
    /// Under which key the file system remembers the answer.
    pub key: Option<ReplyKey>,
    /// Whether only an answer of its own sender counts: it was carried out already, or runs beside another connection's.
    pub is_own: bool,
}

/// Why a request is not carried out.
#[derive(Clone, Debug)]
pub enum Repeated {
    /// It was, and this was the answer.
    Answered(Reply),
    /// It is being carried out; its answer will go to this connection too.
    UnderWay,
}

/// What a request turned out to be about, for the statistics.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The dataset of its (first) handle, if the client may see it.
    pub dataset: Option<(PoolGuid, DatasetId)>,
    /// What a WRITE asked for.
    pub stability: Stability,
    /// Bytes of file content that it brought or took.
    pub data_bytes: u64,
}

impl Default for About {
    fn default() -> Self {
        Self { dataset: None, stability: Stability::Unstable, data_bytes: 0 }
    }
}

/// What became of a request.
pub enum Done {
    /// It has an answer.
    Answer(Answer),
    /// Admission was refused for now, or a part of it was done: run it again once this is over.
    Again(Wait),
    /// It was here before.
    Repeated(Repeated),
}

/// An answer, and what it waits for.
pub struct Answer {
    /// Its status, for the statistics.
    pub status: Status,
    /// The results, status included.
    pub body: Body,
    /// Only after this may it leave.
    pub wait: Wait,
}

/// An object of a dataset that the client may see.
pub(super) struct Target {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) object: ObjectRef,
    pub(super) cred: Cred,
    pub(super) rule: Rule,
    pub(super) fsid: u64,
    pool: Arc<dyn PoolExports>,
}

/// Why a dataset is closed to a request.
enum Locked {
    /// No rule lets it in.
    Out,
    /// One does, from elsewhere.
    TooWeak,
}

impl<'a> Request<'a> {
    /// A call. `begin` tells whether it was here before.
    #[must_use]
    pub fn new(
        call: &'a Call,
        (link, senders): (&'a Link, &'a Senders),
        exports: &'a dyn Exports,
        begin: &'a Begin<'a>,
    ) -> Self {
        let (memo, about, user, too_weak) = Default::default();
        Self { call, link, exports, begin, senders, memo, user, too_weak, about }
    }

    /// The dataset for which it is refused as too weak, whatever else was made of it.
    #[must_use]
    pub fn too_weak(&self) -> Option<(PoolGuid, DatasetId)> {
        self.too_weak.get()
    }

    /// The object of a handle, if the handle is ours and the client may see the dataset.
    pub(super) fn target(&self, handle: &[u8]) -> Result<Target, Status> {
        let unchecked = Handle::parse(handle).ok_or(Status::BadHandle)?;
        let pool = self.exports.pool(unchecked.pool()).ok_or(Status::Stale)?;
        let Handle { dataset, object, .. } = unchecked.verify(pool.handle_key()).ok_or(Status::BadHandle)?;
        match pool.place(dataset) {
            Place::Here(vfs) => self.enter(vfs, object, pool).map_err(|locked| match locked {
                Locked::Out => Status::Acces,
                Locked::TooWeak => {
                    self.too_weak.set(Some((unchecked.pool(), dataset)));
                    Status::Acces
                }
            }),
            Place::Unknown => Err(Status::Stale),
            Place::Away => Err(Status::JukeBox),
        }
    }

    /// The same for a request that changes something.
    pub(super) fn target_to_change(&self, handle: &[u8]) -> Result<Target, Status> {
        let target = self.target(handle)?;
        if target.rule.read_only { Err(Status::RoFs) } else { Ok(target) }
    }

    fn enter(&self, vfs: Arc<dyn Vfs>, object: ObjectRef, pool: Arc<dyn PoolExports>) -> Result<Target, Locked> {
        let (guid, dataset) = (vfs.pool(), vfs.dataset());
        let rule = pool.rule(dataset, self.link.peer().ip()).ok_or(Locked::Out)?;
        let known = known_user(self.link, &rule).map_err(|TooWeak| Locked::TooWeak)?;
        let about = self.about.get();
        self.about.set(About { dataset: about.dataset.or(Some((guid, dataset))), ..about });
        self.user.set(known.map(|user| user.uid));
        let cred = caller(&self.call.identity, known, &rule);
        Ok(Target { fsid: fsid(guid, dataset), vfs, object, cred, rule, pool })
    }

    /// Notes what a READ took or a WRITE brought.
    pub(super) fn note_data(&self, bytes: usize, stability: Stability) {
        self.about.set(About { data_bytes: bytes as u64, stability, ..self.about.get() });
    }

    /// The root of the dataset that is mounted on `name` in the directory `target`, if there is one.
    pub(super) fn child(&self, target: &Target, name: &[u8]) -> Option<Result<Target, Status>> {
        match target.pool.place(target.child(name)?) {
            Place::Here(child) => {
                let root = child.root();
                Some(self.enter(child, root, Arc::clone(&target.pool)).map_err(|_| Status::Acces))
            }
            Place::Unknown => None,
            Place::Away => Some(Err(Status::JukeBox)),
        }
    }

    /// Every request that is remembered asks this once its targets are found, and before anything is done: what to say if
    /// it was here before. Who gets no target gets nobody's answer either, and leaves nothing behind (rules F12).
    pub(super) fn repeated(&self) -> Option<Done> {
        (self.begin)(self.user.get()).map(|memo| self.memo.set(memo)).err().map(Done::Repeated)
    }

    /// The first answer to this very request, given before a crash or a broken connection.
    pub(super) fn remembered(&self, target: &Target) -> Option<RememberedReply> {
        let Memo { key, is_own } = self.memo.get();
        let key = &key?;
        let is_own_number = |number| number == key.number() || self.senders.is(self.link, number);
        let own = target.vfs.remembered_of(key, &is_own_number);
        // What was answered on another connection that lives is another request.
        let of_the_dead = || target.vfs.remembered_of(key, &|number| !self.senders.is_alive(number));
        if is_own { own } else { own.or_else(of_the_dead) }
    }
}

impl Target {
    /// The dataset that is mounted on `name`. They stand in root directories only, so most requests ask nobody.
    pub(super) fn child(&self, name: &[u8]) -> Option<DatasetId> {
        if self.object != self.vfs.root() {
            return None;
        }
        self.pool.child(self.vfs.dataset(), self.object, name)
    }

    pub(super) fn ctx(&self, request: &Request<'_>) -> OpCtx<'_> {
        OpCtx { cred: &self.cred, reply: request.memo.get().key }
    }

    /// A handle of another object of the same dataset.
    pub(super) fn seal(&self, object: ObjectRef) -> HandleBytes {
        Handle { pool: self.vfs.pool(), dataset: self.vfs.dataset(), object }.seal(self.pool.handle_key())
    }

    /// The change of a remembered answer: current attributes, and nothing from before (rules F12).
    pub(super) fn unchanged(&self, object: ObjectRef) -> Change {
        Change { before: None, after: self.vfs.getattr(object).ok() }
    }

    /// Whether both are of one dataset.
    pub(super) fn shares_dataset(&self, other: &Self) -> bool {
        self.vfs.pool() == other.vfs.pool() && self.vfs.dataset() == other.vfs.dataset()
    }
}

impl Done {
    /// A reply that waits for nothing.
    pub(super) fn now(status: Status, body: impl Into<Body>) -> Self {
        Self::Answer(Answer { status, body: body.into(), wait: Wait::Ready })
    }

    /// The reply of NULL.
    pub(super) fn null() -> Self {
        Self::now(Status::Ok, Encoder::default())
    }

    /// A failure of which nothing but the status is known.
    pub(crate) fn failure(procedure: Procedure, status: Status) -> Self {
        Self::now(status, failure_body(procedure, status))
    }

    /// The answer to a modifying operation: `fill` encodes what follows the status.
    pub(super) fn modified<T>(outcome: Outcome<T>, fill: impl FnOnce(&mut Encoder, Option<T>, &[Change])) -> Self {
        let Outcome { result, changes, wait } = outcome;
        let (status, value) = match result {
            Err(FsError::Throttled) if matches!(wait, Wait::On(_)) => return Self::Again(wait),
            Err(error) => (Status::from(error), None),
            Ok(value) => (Status::Ok, Some(value)),
        };
        let mut words = Encoder::new();
        words.status(status);
        fill(&mut words, value, &changes);
        Self::Answer(Answer { status, body: words.into(), wait })
    }
}

/// The results of a procedure that failed before it reached anything.
pub(crate) fn failure_body(procedure: Procedure, status: Status) -> Body {
    let mut words = Encoder::new();
    words.status(status);
    for _ in 0..procedure.absent_words() {
        words.bool(false);
    }
    words.into()
}

/// Checks a name before the file system sees it. To no name, and to one with bytes that no name has, the answer is
/// ACCES (RFC 1813 §3.2, general comments on filenames).
pub(super) fn check_name(name: &[u8]) -> Result<(), Status> {
    if name.len() > tally_vfs::NAME_MAX {
        return Err(Status::NameTooLong);
    }
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) { Err(Status::Acces) } else { Ok(()) }
}

/// Whether an entry may be a dataset's mount point at all.
pub(super) fn may_be_child(kind: FileKind) -> bool {
    kind == FileKind::Directory
}

/// The file system id that clients see: the same for ever, another one for each dataset. Pool guids are
/// random, so mixing is enough to keep datasets of several pools apart.
fn fsid(pool: PoolGuid, dataset: DatasetId) -> u64 {
    let mixed = pool.0 ^ dataset.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}
