//! Where an OPEN stands while the file system carries it out, between the list of what is open and the file system.

use std::cell::{Cell, RefCell};

use tally_vfs::{Access, FsError, Holder, ObjectRef, Share};

use super::Whose;
use super::asked::Wanted;
use crate::entry::Target;
use crate::exports::Exports;
use crate::v4::compound::{Compound, Stop};
use crate::v4::house::House;
use crate::v4::state::{FileId, Reserved, Stateid};
use crate::v4::status::Status;
use crate::v4::tracking::Given;
use crate::v4::way::{self, Refusable};

/// Where an OPEN is written down while the file system carries it out. Dropped before it is granted, as by a panic, it is open nowhere.
pub(super) struct Ledger<'a> {
    place: &'a Target,
    owner: &'a [u8],
    share: Share,
    house: &'a House,
    exports: &'a dyn Exports,
    minor: u32,
    whose: Whose,
    /// It was opened before, by this very OPEN.
    pub(super) is_again: Cell<bool>,
    /// What the list of clients has to say of it.
    pub(super) given: RefCell<Option<Given>>,
    entry: RefCell<Option<(ObjectRef, Result<Reserved<'a>, Status>)>>,
}

impl<'a> Ledger<'a> {
    pub(super) fn of(compound: &Compound<'a>, place: &'a Target, asked: &Wanted<'a>, whose: Whose) -> Self {
        let (minor, house, exports) = (compound.minor(), compound.scene.house, compound.scene.exports);
        let (owner, share) = (asked.owner, asked.share);
        let (is_again, given, entry) = Default::default();
        Self { place, owner, share, house, exports, minor, whose, is_again, given, entry }
    }

    /// Whose open of that file it becomes.
    pub(super) fn enter(&self, object: ObjectRef) -> Result<Holder, FsError> {
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
        let is_denied = own.and_then(|own| own.share).is_some_and(|own| own.conflicts_with(self.share));
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
    pub(super) fn past_the_late<T: Refusable>(
        &self,
        compound: &Compound<'_>,
        attempt: impl FnMut() -> T,
    ) -> Result<T, Stop> {
        way::past(attempt, |outcome| {
            let is_worth_it = outcome.refused().is_some_and(|error| self.makes_way(error));
            if is_worth_it {
                self.given.replace(Some(compound.may_be_given(self.place)?));
            }
            Ok(is_worth_it)
        })
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
        match self.entry.take() {
            Some((_, Err(status))) => status,
            _ => not_opened(error, self.minor),
        }
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
