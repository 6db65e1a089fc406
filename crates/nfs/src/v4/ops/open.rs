//! OPEN (RFC 8881 §18.16, RFC 7530 §16.16): a file by its name, or by its handle, is found or made, and somebody has it open from then on.
//!
//! The order: what can be wrong with the request; the bounds of what is kept of it; the file system, which decides (rules V29); then the stateid, that
//! stands for what it has decided. No delegation is given yet. What was open before a restart is claimed again by its handle, without a look at its mode (rules V26).

use std::cell::{Cell, RefCell};

use tally_vfs::{
    Access, Change, CreateHow, Deny, FsError, Holder, ObjectRef, OpCtx, Opened, Opening, Outcome, Share, ToOpen,
};

use super::super::attr::{self, AttrSet};
use super::super::compound::{Compound, Stop};
use super::super::house::House;
use super::super::pseudo::Node;
use super::super::state::bounds::OWNER_BYTES_MAX;
use super::super::state::{Brought, ClientId, FileId, OwnerKey, Reserved, SessionId, Stateid};
use super::super::status::Status;
use super::super::tracking::Given;
use super::names::check_name;
use super::order::{self, Turn};
use super::{put_change, put_change_of_before};
use crate::entry::Target;
use crate::exports::Exports;
use crate::xdr::{Decoder, Encoder};

/// `OPEN4_RESULT_LOCKTYPE_POSIX`.
const LOCKS_AS_POSIX: u32 = 4;
/// `OPEN4_RESULT_PRESERVE_UNLINKED`, which minor version 0 does not know: what is open outlives its last name (rules V28), so that a client need not give
/// it another one.
const STAYS_WITHOUT_A_NAME: u32 = 8;
/// `OPEN4_RESULT_MAY_NOTIFY_LOCK`: who waits for a lock may be told when it is free.
const LOCKS_ARE_TOLD: u32 = 0x20;
/// `OPEN4_RESULT_CONFIRM`.
const TO_BE_CONFIRMED: u32 = 2;

/// Bits of `share_access` that say what the client would have of a delegation, and when (RFC 8881 §18.16.1, RFC 9754).
const WANTS: u32 = 0xFF00;
const SIGNALS: u32 = 0x0003_0000;
const WANTS_OF_MINOR_2: u32 = 0x0030_0000;
const WANTS_NONE: u32 = 0x0400;
const WANTS_CANCELLED: u32 = 0x0500;

/// `open_delegation_type4`.
const NO_DELEGATION: u32 = 0;
const NO_DELEGATION_AND_WHY: u32 = 3;
/// `why_no_delegation4`.
const NOT_WANTED: u32 = 0;
const NO_RESOURCE: u32 = 2;
const CANCELLED: u32 = 7;

/// How often a name is looked up anew as something else has it by then, before the client is told to come again.
const LOOKS_MAX: u32 = 8;

/// `OPEN4args`.
struct Asked<'a> {
    /// Of minor version 0: in its owner's order.
    seqid: u32,
    access: u32,
    deny: u32,
    /// Who it is in minor version 0; else his session says.
    client: ClientId,
    owner: &'a [u8],
    /// An error is no matter of how it is encoded.
    how: Result<How, Status>,
    what: What<'a>,
}

/// The same, of which nothing is wrong by itself.
struct Wanted<'a> {
    share: Share,
    wants: u32,
    owner: &'a [u8],
    how: How,
    what: What<'a>,
}

/// `openflag4`.
enum How {
    Find,
    /// How, and which attributes the client names.
    Make(CreateHow, AttrSet),
}

/// `open_claim4`, as far as it opens something.
enum What<'a> {
    Name(&'a [u8]),
    /// The current handle's file.
    Handle,
    /// The same, which this owner had open before a restart of the server.
    Again,
    /// None of what there can be: it is told so.
    Nothing(Status),
}

impl<'a> Asked<'a> {
    fn decode(words: &mut Decoder<'a>, minor: u32) -> Result<Self, Status> {
        let (seqid, access, deny) = (words.u32()?, words.u32()?, words.u32()?);
        let (client, owner) = (ClientId(words.u64()?), words.opaque(OWNER_BYTES_MAX)?);
        let how = match How::decode(words, minor) {
            Err(Status::BadXdr) => return Err(Status::BadXdr),
            how => how,
        };
        Ok(Self { seqid, access, deny, client, owner, how, what: What::decode(words, minor)? })
    }

    /// What is asked for, if it can be.
    fn check(self, minor: u32) -> Result<Wanted<'a>, Status> {
        let Self { access, deny, owner, how, what, .. } = self;
        if let What::Nothing(status) = what {
            return Err(status);
        }
        let known = match minor {
            0 => 0,
            1 => WANTS | SIGNALS,
            _ => WANTS | SIGNALS | WANTS_OF_MINOR_2,
        };
        Ok(Wanted { share: share(access & !known, deny)?, wants: access & known & WANTS, owner, how: how?, what })
    }
}

/// Access, and what is denied to others.
pub(super) fn share(access: u32, deny: u32) -> Result<Share, Status> {
    let access = Access::from_bits(access).ok_or(Status::Inval)?;
    Ok(Share { access, deny: Deny::from_bits(deny).ok_or(Status::Inval)? })
}

impl How {
    fn decode(words: &mut Decoder<'_>, minor: u32) -> Result<Self, Status> {
        match words.u32()? {
            0 => return Ok(Self::Find),
            1 => {}
            _ => return Err(Status::BadXdr),
        }
        let none = AttrSet::default();
        Ok(match words.u32()? {
            0 => attr::given(words, minor).map(|(names, set)| Self::Make(CreateHow::Unchecked(set), names))?,
            1 => attr::given(words, minor).map(|(names, set)| Self::Make(CreateHow::Guarded(set), names))?,
            2 => Self::Make(CreateHow::Exclusive(words.u64()?), none),
            3 if minor > 0 => {
                let verifier = words.u64()?;
                let (names, set) = attr::given_exclusively(words, minor)?;
                Self::Make(CreateHow::ExclusiveWith(verifier, set), names)
            }
            _ => return Err(Status::BadXdr),
        })
    }
}

impl<'a> What<'a> {
    fn decode(words: &mut Decoder<'a>, minor: u32) -> Result<Self, Status> {
        Ok(match words.u32()? {
            0 => Self::Name(words.opaque(usize::MAX)?),
            // Of what kind its delegation was: there was none.
            1 => {
                let _delegation = words.u32()?;
                Self::Again
            }
            2 => {
                let (_stateid, _name) = (words.array::<16>()?, words.opaque(usize::MAX)?);
                Self::Nothing(Status::BadStateid)
            }
            3 => {
                let _name = words.opaque(usize::MAX)?;
                Self::Nothing(Status::NotSupp)
            }
            4.. if minor == 0 => return Err(Status::BadXdr),
            4 => Self::Handle,
            5 => {
                let _stateid = words.array::<16>()?;
                Self::Nothing(Status::BadStateid)
            }
            6 => Self::Nothing(Status::NotSupp),
            _ => return Err(Status::BadXdr),
        })
    }
}

pub(in super::super) fn open(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let at = words.position();
    let asked = Asked::decode(words, compound.minor())?;
    if compound.is_again() {
        return again(compound, asked, out);
    }
    let mut whose = match compound.minor() {
        0 => match turn(compound, &asked, words.since(at))? {
            Turn::Of(owner, is_confirmed) => {
                Whose { client: owner.client, session: None, owner: Some(owner), is_confirmed }
            }
            Turn::Told(told) => return Ok(order::tell(compound, &told, out)?),
        },
        _ => of_session(compound)?,
    };
    let asked = asked.check(compound.minor())?;
    asked.check_session(compound)?;
    let is_claimed = matches!(asked.what, What::Again);
    // Who has not said that he claims nothing more again asks for nothing new (RFC 8881 §18.51.3).
    if !is_claimed && compound.minor() > 0 && !compound.presence()?.has_reclaimed() {
        return Err(Status::Grace.into());
    }
    let place = place_of(compound, &asked)?;
    let given = if is_claimed {
        compound.reclaim(&place)?;
        // Nobody has to confirm that (RFC 7530 §9.1.11).
        whose.is_confirmed = true;
        None
    } else {
        Some(compound.may_be_given(&place)?)
    };
    let Done { file, stateid, is_new, dir } = carry_out(compound, &place, &asked, whose, given)?;
    if let (true, Some(owner)) = (is_claimed, whose.owner) {
        compound.scene.house.orders().confirm(&owner);
    }
    out.raw(&stateid.to_wire());
    put_change(out, dir.as_ref());
    let to_be_confirmed = if whose.is_confirmed { 0 } else { TO_BE_CONFIRMED };
    let stays = if compound.minor() == 0 { 0 } else { STAYS_WITHOUT_A_NAME };
    // Who can be called: Linux asks less often then for what it waits for.
    let is_told = compound.guard().is_some_and(|guard| guard.session().presence().is_reachable());
    let told = if is_told { LOCKS_ARE_TOLD } else { 0 };
    out.u32(LOCKS_AS_POSIX | to_be_confirmed | stays | told);
    asked.attributes_set(is_new).encode(out);
    put_no_delegation(asked.wants, out);
    compound.current = Ok(Node::Object(file));
    compound.note_stateid(stateid);
    Ok(Status::Ok)
}

/// An OPEN of a dead session that has made its file, or cut it (rules V6): the file is the current one, and its stateid is as dead as all of that life, so that its
/// client claims it again. One that did neither has left no mark.
fn again(compound: &mut Compound<'_>, asked: Asked<'_>, out: &mut Encoder) -> Result<Status, Stop> {
    let asked = asked.check(compound.minor())?;
    if !matches!((&asked.what, &asked.how), (What::Name(_), How::Make(..))) {
        return Err(compound.not_done().into());
    }
    let place = place_of(compound, &asked)?;
    compound.begin(&place)?;
    let object = compound.remembered(&place).and_then(|first| first.object).ok_or(Status::ServerFault)?;
    out.raw(&Stateid::OF_THE_DEAD.to_wire());
    put_change_of_before(out, compound, &place);
    out.u32(LOCKS_AS_POSIX | STAYS_WITHOUT_A_NAME);
    // What was there before nobody knows any more, but a file with a verifier, or under a new name, was made.
    let is_new = !matches!(asked.how, How::Make(CreateHow::Unchecked(_), _));
    asked.attributes_set(is_new).encode(out);
    put_no_delegation(asked.wants, out);
    compound.current = Ok(Node::Object(Target { object, ..place }));
    compound.note_stateid(Stateid::OF_THE_DEAD);
    Ok(Status::Ok)
}

/// Whose an open becomes.
#[derive(Clone, Copy)]
struct Whose {
    client: ClientId,
    session: Option<SessionId>,
    owner: Option<OwnerKey>,
    /// Of an owner who is not what it opens is provisional.
    is_confirmed: bool,
}

/// Whose turn it is, in minor version 0.
fn turn(compound: &mut Compound<'_>, asked: &Asked<'_>, arguments: &[u8]) -> Result<Turn, Status> {
    compound.current()?;
    compound.hear(asked.client)?;
    let owner = OwnerKey { client: asked.client, name: compound.scene.house.opens().name(asked.owner) };
    order::take(compound, owner, order::Asked { brought: Brought::Open, seqid: asked.seqid, arguments })
}

fn of_session(compound: &Compound<'_>) -> Result<Whose, Status> {
    let session = compound.guard().ok_or(Status::OpNotInSession)?.session();
    Ok(Whose { client: session.presence().client(), session: Some(session.id()), owner: None, is_confirmed: true })
}

/// The directory, or the file itself.
fn place_of(compound: &Compound<'_>, asked: &Wanted<'_>) -> Result<Target, Stop> {
    let node = compound.current()?;
    let name = match (&asked.what, &asked.how) {
        (What::Name(name), _) => {
            check_name(name)?;
            Some(*name)
        }
        (_, How::Find) => None,
        // A file that has a handle is there.
        (_, How::Make(..)) => return Err(Status::Inval.into()),
    };
    let changes = matches!(asked.how, How::Make(..)) || asked.share.access.has(Access::WRITE);
    let Some(target) = node.target() else {
        // Above the exports there are directories alone.
        let told = match name {
            Some(_) if changes => Status::RoFs,
            Some(name) => compound.tree().below(node, name).err().unwrap_or(Status::IsDir),
            None => Status::IsDir,
        };
        return Err(told.into());
    };
    if changes && target.rule.read_only {
        return Err(Status::RoFs.into());
    }
    // What a dataset is mounted on is a directory.
    if name.is_some_and(|name| target.child(name).is_some()) {
        return Err(Status::IsDir.into());
    }
    Ok(target.clone())
}

/// What an OPEN came to.
struct Done {
    file: Target,
    stateid: Stateid,
    is_new: bool,
    dir: Option<Change>,
}

/// Lets the file system decide, which asks under the file's lock whose open of it that would be.
fn carry_out(
    compound: &mut Compound<'_>,
    place: &Target,
    asked: &Wanted<'_>,
    whose: Whose,
    given: Option<Given>,
) -> Result<Done, Stop> {
    let ledger = Ledger::of(compound, place, asked, whose);
    ledger.given.replace(given);
    let by = |object| ledger.enter(object);
    let opening = Opening { share: asked.share, by: &by };
    let (opened, dir) = match (&asked.what, &asked.how) {
        (What::Name(name), How::Make(how, _)) => {
            compound.check_marks()?;
            compound.begin(place)?;
            let remembered = compound.remembered(place).and_then(|first| first.object);
            let made = |compound: &Compound<'_>| match remembered {
                // It was made, or cut, behind which nobody was told: whoever asked then might open it, and may have.
                Some(object) => {
                    ledger.is_again.set(true);
                    place.vfs.open(OpCtx::of(&place.cred), ToOpen::Again(object), opening)
                }
                None => place.vfs.open(compound.ctx(place), ToOpen::Made(place.object, name, how), opening),
            };
            let outcome = ledger.past_the_late(compound, made, Outcome::error);
            let outcome = outcome.inspect_err(|_| compound.has_not_begun())?;
            let told = outcome.error().map(|error| ledger.told(error));
            let (opened, changes) = compound.opened(outcome, told)?;
            (opened, changes.into_iter().next())
        }
        (What::Name(name), How::Find) => {
            let find = |_: &Compound<'_>| find(place, name, opening);
            let found = ledger.past_the_late(compound, find, |found| found.as_ref().err().copied())?;
            found.map_err(|error| ledger.told(error))?
        }
        (What::Again, _) => {
            let outcome = place.vfs.open(OpCtx::of(&place.cred), ToOpen::Again(place.object), opening);
            let told = |error| match ledger.told(error) {
                Status::ShareDenied => Status::ReclaimConflict,
                status => status,
            };
            (outcome.result.map_err(told)?, None)
        }
        _ => {
            let open =
                |_: &Compound<'_>| place.vfs.open(OpCtx::of(&place.cred), ToOpen::Itself(place.object), opening).result;
            let opened = ledger.past_the_late(compound, open, |opened| opened.as_ref().err().copied())?;
            (opened.map_err(|error| ledger.told(error))?, None)
        }
    };
    if let Some(given) = ledger.given.take() {
        compound.was_given(place, given)?;
    }
    let file = Target { object: opened.attr.object, ..place.clone() };
    Ok(Done { stateid: ledger.granted(&file, asked.share)?, file, is_new: opened.is_new, dir })
}

/// Opens what has the name. That it may be gone by then is seen, and looked for again; that it has another name is not: it is what had the name a moment ago.
fn find(place: &Target, name: &[u8], opening: Opening<'_>) -> Result<(Opened, Option<Change>), FsError> {
    for _ in 0..LOOKS_MAX {
        let (found, dir) = place.vfs.look(&place.cred, place.object, name);
        let dir = dir.map(|attr| Change { before: Some((&attr).into()), after: Some(attr) });
        let outcome = place.vfs.open(OpCtx::of(&place.cred), ToOpen::Itself(found?.object), opening);
        match outcome.result {
            Err(FsError::Stale) => {}
            result => return result.map(|opened| (opened, dir)),
        }
    }
    Err(FsError::Unavailable)
}

/// Where an OPEN is written down while the file system carries it out. Dropped before it is granted, as by a panic, it is open nowhere.
struct Ledger<'a> {
    place: &'a Target,
    owner: &'a [u8],
    share: Share,
    house: &'a House,
    exports: &'a dyn Exports,
    minor: u32,
    whose: Whose,
    /// It was opened before, by this very OPEN.
    is_again: Cell<bool>,
    /// What the list of clients has to say of it.
    given: RefCell<Option<Given>>,
    entry: RefCell<Option<(ObjectRef, Result<Reserved<'a>, Status>)>>,
}

impl<'a> Ledger<'a> {
    fn of(compound: &Compound<'a>, place: &'a Target, asked: &Wanted<'a>, whose: Whose) -> Self {
        let (minor, house, exports) = (compound.minor(), compound.scene.house, compound.scene.exports);
        let (owner, share) = (asked.owner, asked.share);
        let (is_again, given, entry) = Default::default();
        Self { place, owner, share, house, exports, minor, whose, is_again, given, entry }
    }

    /// Whose open of that file it becomes.
    fn enter(&self, object: ObjectRef) -> Result<Holder, FsError> {
        // What an attempt before this one has entered is let go of first: it may be the same.
        self.entry.take();
        let file = FileId::of(&*self.place.vfs, object);
        let reserved = self.house.opens().reserve(self.minor, self.whose.client, self.owner, file);
        let reserved = reserved.and_then(|reserved| {
            // Whoever goes from here on is told by what was reserved; who has gone before would have it kept for nobody. So it is with a mount.
            self.check_there()?;
            self.check_own(&reserved)?;
            let has_room = reserved.is_upgrade() || self.house.has_less_than_half(self.whose.client);
            if !has_room || !self.house.is_of_today(self.exports, &file) {
                return Err(Status::Delay);
            }
            Ok(if self.whose.is_confirmed { reserved } else { reserved.is_provisional() })
        });
        let holder = reserved.as_ref().map(Reserved::holder).map_err(|_| FsError::Unavailable);
        *self.entry.borrow_mut() = Some((object, reserved));
        holder
    }

    /// In sessions an owner's own open is not in his way: the answer to the first OPEN may have been lost (rules V29). In minor version 0 he would be told that
    /// answer again, and what is denied is denied to him as well (RFC 7530 §9.9).
    fn check_own(&self, reserved: &Reserved<'_>) -> Result<(), Status> {
        let own = self.house.opens().by_number(reserved.number()).filter(|_| self.minor == 0 && !self.is_again.get());
        let (access, deny) = own.map_or((0, 0), |own| (own.access, own.deny));
        let is_denied = self.share.access.bits() & deny | self.share.deny.bits() & access != 0;
        if is_denied { Err(Status::ShareDenied) } else { Ok(()) }
    }

    /// Whether there is who asks.
    fn check_there(&self) -> Result<(), Status> {
        match self.whose.session {
            Some(session) => self.house.sessions().find(session).map(drop).ok_or(Status::BadSession),
            None => Ok(self.house.clients().renew(self.whose.client, self.house.heard())?),
        }
    }

    /// Tries it as often as those who were in the way are gone, as their leases were over. What is given then is given once it is written down that they may not claim
    /// it again (rules V24).
    fn past_the_late<T>(
        &self,
        compound: &mut Compound<'_>,
        attempt: impl Fn(&Compound<'_>) -> T,
        refused: impl Fn(&T) -> Option<FsError>,
    ) -> Result<T, Stop> {
        for _ in 0..LOOKS_MAX {
            let outcome = attempt(compound);
            if refused(&outcome).is_none_or(|error| !self.makes_way(error)) {
                return Ok(outcome);
            }
            self.given.replace(Some(compound.may_be_given(self.place)?));
        }
        Ok(attempt(compound))
    }

    fn makes_way(&self, error: FsError) -> bool {
        let who = self
            .entry
            .borrow()
            .as_ref()
            .map(|(object, reserved)| (*object, reserved.as_ref().map(Reserved::holder).ok()));
        match (error, who) {
            (FsError::ShareDenied, Some((object, holder))) => {
                let in_the_way = |share| self.place.vfs.in_the_way(object, holder, share);
                let mut clients = in_the_way(self.share);
                if clients.is_empty() {
                    // It would be cut.
                    clients = in_the_way(Share::only(Access::WRITE));
                }
                self.house.end_late(self.exports, &clients)
            }
            (FsError::Unavailable, Some((_, None))) => self.house.make_room_for(self.exports, self.whose.client),
            _ => false,
        }
    }

    /// What is said of an open that the file system refused, for a reason of its own or because of this.
    fn told(&self, error: FsError) -> Status {
        match self.entry.take() {
            Some((_, Err(status))) => status,
            _ => not_opened(error, self.minor),
        }
    }

    /// It is open.
    fn granted(&self, file: &Target, share: Share) -> Result<Stateid, Status> {
        let (object, reserved) = self.entry.take().expect("the file system asked whose it becomes");
        let reserved = reserved?;
        let holder = reserved.holder();
        reserved.granted(share.access.bits(), share.deny.bits()).map_err(|status| {
            // The client has gone, or lost the open, while it was opened; or its dataset was mounted anew, where it can be opened.
            file.vfs.close(object, holder);
            if self.house.is_of_today(self.exports, &FileId::of(&*file.vfs, object)) { status } else { Status::Delay }
        })
    }
}

impl Drop for Ledger<'_> {
    /// What nobody has a stateid of would be kept for nobody.
    fn drop(&mut self) {
        if let Some((object, Ok(reserved))) = self.entry.take()
            && let Some(holder) = reserved.withdrawn()
        {
            self.place.vfs.close(object, holder);
        }
    }
}

/// What is said of a file that cannot be opened.
fn not_opened(error: FsError, minor: u32) -> Status {
    match error {
        // RFC 7530 §16.16.4 knows no other word for what is no file.
        FsError::BadType if minor > 0 => Status::WrongType,
        FsError::BadType | FsError::IsSymlink => Status::Symlink,
        FsError::TooManyClaims if minor == 0 => Status::Resource,
        error => error.into(),
    }
}

impl Wanted<'_> {
    /// A persistent session has a better way to make a file once than a verifier alone (RFC 8881 §18.16.3).
    fn check_session(&self, compound: &Compound<'_>) -> Result<(), Status> {
        let is_by_verifier = matches!(self.how, How::Make(CreateHow::Exclusive(_), _));
        let is_persistent = compound.guard().is_some_and(|guard| guard.mark().is_some());
        if is_by_verifier && is_persistent { Err(Status::Inval) } else { Ok(()) }
    }

    /// Which attributes were set: those that the client gave, where the file was made; where it was there, its size if that was to be nothing.
    fn attributes_set(&self, is_new: bool) -> AttrSet {
        match &self.how {
            How::Find => AttrSet::default(),
            How::Make(CreateHow::Unchecked(set), names) if !is_new => {
                if set.size == Some(0) {
                    names.size_alone()
                } else {
                    AttrSet::default()
                }
            }
            How::Make(_, names) => *names,
        }
    }
}

/// `open_delegation4`: none, and why, if the client would have had one or said that it would not (RFC 8881 §18.16.3).
fn put_no_delegation(wants: u32, out: &mut Encoder) {
    match wants {
        0 => out.u32(NO_DELEGATION),
        WANTS_NONE => out.u32(NO_DELEGATION_AND_WHY).u32(NOT_WANTED),
        WANTS_CANCELLED => out.u32(NO_DELEGATION_AND_WHY).u32(CANCELLED),
        // And the client will not be told when there is one.
        _ => out.u32(NO_DELEGATION_AND_WHY).u32(NO_RESOURCE).bool(false),
    };
}
