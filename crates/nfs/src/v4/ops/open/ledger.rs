//! Where an OPEN stands while the file system carries it out, between the list of what is open and the file system.

use std::cell::{Cell, RefCell};

use bytes::Bytes;
use tally_vfs::{Access, CreateHow, Delegation, FsError, Holder, ObjectRef, Share};

use super::Whose;
use super::asked::{How, Wanted, What};
use super::delegation::WishFor;
use crate::entry::Target;
use crate::exports::Exports;
use crate::stats::count;
use crate::v4::compound::{Compound, Stop};
use crate::v4::house::House;
use crate::v4::pseudo::Node;
use crate::v4::state::{Delegated, FileId, Keeps, OwnerKey, Referred, Reserved, Reserving, Stateid, WhyNone};
use crate::v4::status::Status;
use crate::v4::tracking::Given;
use crate::v4::way::{self, Refusable};

/// Where an OPEN is written down while the file system carries it out. Dropped before it is granted, as by a panic, it is open nowhere.
pub(super) struct Ledger<'a> {
    place: &'a Target,
    owner: &'a [u8],
    share: Share,
    /// For which it counts to others of its client: it may be cut.
    acts: Share,
    house: &'a House,
    exports: &'a dyn Exports,
    minor: u32,
    whose: Whose,
    /// Whether its client has the file to keep, and says so, or has it open since before a restart: what was given to another of its owners is not in the way of that.
    is_kept: bool,
    /// It was opened before, by this very OPEN.
    pub(super) is_again: Cell<bool>,
    /// What the list of clients has to say of it.
    pub(super) given: RefCell<Option<Given>>,
    entry: RefCell<Option<(ObjectRef, Result<Reserved<'a>, Status>)>>,
    /// What the file system is asked to give besides, and with which request.
    pub(super) wants: Result<Keeps, WhyNone>,
    referred: Option<Referred>,
    reserving: RefCell<Option<Result<Reserving<'a>, WhyNone>>>,
}

impl<'a> Ledger<'a> {
    pub(super) fn of(
        compound: &Compound<'a>,
        place: &'a Target,
        asked: &Wanted<'a>,
        (whose, wish): (Whose, WishFor),
    ) -> Self {
        let (minor, house, exports) = (compound.minor(), compound.scene.house, compound.scene.exports);
        let (owner, share) = (asked.owner, asked.share);
        let is_kept = matches!(asked.what, What::Kept(..) | What::Again(_));
        let cuts = matches!(&asked.how, How::Make(CreateHow::Unchecked(set), ..) if set.size == Some(0));
        let acts = if cuts { Share::only(Access::WRITE) } else { share };
        let (is_again, given, entry, reserving) = Default::default();
        let (wants, referred) = (wish.keeps, compound.referred());
        Self {
            place,
            owner,
            share,
            acts,
            house,
            exports,
            minor,
            whose,
            is_kept,
            is_again,
            given,
            entry,
            wants,
            referred,
            reserving,
        }
    }

    /// Whose open of that file it becomes.
    pub(super) fn enter(&self, object: ObjectRef) -> Result<Holder, FsError> {
        // What an attempt before this one has entered is let go of first: it may be the same.
        self.entry.take();
        // Nothing was given there, as nothing was opened.
        self.reserving.take();
        let file = FileId::of(&*self.place.vfs, object);
        let owner = OwnerKey { client: self.whose.client, name: self.house.opens().name(self.owner) };
        if !self.is_kept && self.house.delegations().is_in_the_way_of(owner, &file, self.acts) {
            return Err(FsError::Delegated(object));
        }
        let reserved = self.house.opens().reserve(self.minor, self.whose.client, self.owner, file);
        let reserved = reserved.and_then(|reserved| {
            // Whoever goes from here on is told by what was reserved; who has gone before would have it kept for nobody. So it is with a mount.
            self.house.check_there(self.whose.session, self.whose.client)?;
            self.check_own(&reserved)?;
            // What is opened by a delegation was open before, and is bounded by those.
            let is_bounded = reserved.is_upgrade() || self.is_kept;
            let has_room = is_bounded || self.house.has_room_at_its_address(self.whose.client);
            if !has_room || !self.house.is_of_today(self.exports, &file) {
                return Err(Status::Delay);
            }
            Ok(if self.whose.is_confirmed { reserved } else { reserved.is_provisional() })
        });
        let holder = reserved.as_ref().map(Reserved::holder).map_err(|_| FsError::Unavailable);
        if let (Ok(_), Ok(keeps)) = (&holder, self.wants) {
            let (delegations, now) = (self.house.delegations(), self.house.now());
            let reserving = delegations.reserve(keeps, (owner, file), self.referred, now);
            *self.reserving.borrow_mut() = Some(reserving);
        }
        *self.entry.borrow_mut() = Some((object, reserved));
        holder
    }

    /// In sessions an owner's own open is not in his way: the answer to the first OPEN may have been lost (rules V29). In minor version 0 he would be told that
    /// answer again, and what is denied is denied to him as well (RFC 7530 §9.9).
    fn check_own(&self, reserved: &Reserved<'_>) -> Result<(), Status> {
        let own = self.house.opens().by_number(reserved.number()).filter(|_| self.minor == 0 && !self.is_again.get());
        let is_denied = own.and_then(|own| own.share).is_some_and(|own| own.conflicts_with(self.share));
        if is_denied { Err(Status::ShareDenied) } else { Ok(()) }
    }

    /// Tries it as often as those who were in the way are gone, as their leases were over. What is given then is given once it is written down that they may not claim
    /// it again (rules V24).
    pub(super) fn past_the_late<T: Refusable>(
        &self,
        compound: &Compound<'_>,
        attempt: impl FnMut() -> T,
    ) -> Result<T, Stop> {
        way::past(attempt, |outcome| {
            let is_worth_it = outcome.refused().is_some_and(|error| self.makes_way(error));
            if is_worth_it {
                let to_write = self.wants.is_ok_and(|keeps| keeps.kind == Delegation::Write);
                self.given.replace(Some(compound.may_be_given(self.place, to_write)?));
            }
            Ok(is_worth_it)
        })
    }

    /// Another client keeps the file.
    pub(super) fn kept_out(&self, compound: &mut Compound<'_>, object: ObjectRef) -> Stop {
        self.reserving.take();
        compound.kept_out(&*self.place.vfs, object)
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
    pub(super) fn told(&self, error: FsError) -> Status {
        // Nothing was given, and nobody who is parked goes on for that: he may be this one.
        self.reserving.take();
        match self.entry.take() {
            Some((_, Err(status))) => status,
            _ => not_opened(error, self.minor),
        }
    }

    /// It is open, and this was given besides, if anything was, with that change of the file. `is_claimed`: its client is told at once to give it back. `may_write`: it is written down that it may have something for writing.
    pub(super) fn delegated(
        &self,
        file: &Target,
        (given, change): (Option<Delegation>, u64),
        (is_claimed, may_write): (bool, bool),
    ) -> Result<Delegated, WhyNone> {
        let wanted = self.wants?;
        self.house.ask_for_fewer(self.whose.client);
        let reserving = self.reserving.take().unwrap_or(Err(WhyNone::Resource));
        match (given, reserving) {
            (Some(Delegation::Write), Ok(reserving)) if !may_write => {
                self.house.withdraw_delegation(&*file.vfs, reserving.ending());
                Err(WhyNone::Resource)
            }
            (Some(kind), Ok(reserving)) => {
                let handle = Bytes::copy_from_slice(Node::Object(file.clone()).handle().as_slice());
                debug_assert_eq!(kind, wanted.kind);
                match reserving
                    .granted((handle, change), is_claimed.then(|| self.house.end_of_grace(&*self.place.pool)))
                {
                    Ok(delegated) => {
                        count(&self.house.delegated.granted);
                        Ok(delegated)
                    }
                    // Somebody is kept out by it, or the client has gone.
                    Err(ending) => {
                        self.house.withdraw_delegation(&*file.vfs, ending);
                        Err(WhyNone::Contention)
                    }
                }
            }
            // Another OPEN of this client may have been given it, which has found this one here and no place.
            (None, Ok(reserving)) => {
                self.house.withdraw_delegation(&*file.vfs, reserving.ending());
                Err(WhyNone::Contention)
            }
            (Some(_), Err(why)) => {
                self.house.give_up_unknown(&*file.vfs, self.whose.client, file.object);
                Err(why)
            }
            (None, Err(why)) => Err(why),
        }
    }

    /// What its client was given stands for the open as well, unless somebody else was told of it. Whether it is gone.
    pub(super) fn let_go(&self, file: &Target, stateid: &Stateid) -> bool {
        let of = FileId::of(&*file.vfs, file.object);
        if stateid.seqid != 1 {
            return false;
        }
        let Ok(changing) = self.house.opens().change(stateid, self.minor, Some(self.whose.client), Some(&of)) else {
            return false;
        };
        file.vfs.close(file.object, changing.found().holder());
        let _of_none = changing.closed();
        true
    }

    /// It is open.
    pub(super) fn granted(&self, file: &Target, share: Share) -> Result<Stateid, Status> {
        let (object, reserved) = self.entry.take().expect("the file system asked whose it becomes");
        let reserved = reserved?;
        let holder = reserved.holder();
        reserved.granted(share).map_err(|status| {
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
        // So is what nobody was told that he was given.
        if let Some(Ok(reserving)) = self.reserving.take() {
            self.house.withdraw_delegation(&*self.place.vfs, reserving.ending());
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
