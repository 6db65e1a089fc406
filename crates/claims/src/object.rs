//! What is claimed of one object.

use smallvec::SmallVec;

use crate::account::{OPENS_OF_OBJECT_MAX, RANGES_OF_OBJECT_MAX};
use crate::holder::Holder;
use crate::ranges::{Change, Kind, Lock, Range, Ranges};
use crate::refused::{Claim, Counted, Refused, Within};
use crate::share::{Opened, Share};

/// The claims of one object.
#[derive(Default)]
pub(crate) struct Claimed {
    /// One for each holder. Most objects that are open are so once.
    opens: SmallVec<[Open; 1]>,
    ranges: Ranges,
    /// Its last name is gone: it goes with the last open.
    is_removed: bool,
}

/// What the bounds in all are reckoned with.
const _: () = assert!(size_of::<Claimed>() <= 136);

struct Open {
    holder: Holder,
    opened: Opened,
}

/// What somebody has claimed no more.
pub(crate) struct Freed {
    pub(crate) holder: Holder,
    pub(crate) opens: usize,
    pub(crate) ranges: usize,
}

pub(crate) type AllFreed = SmallVec<[Freed; 2]>;

impl Claimed {
    pub(crate) fn is_open(&self) -> bool {
        !self.opens.is_empty()
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.opens.is_empty() && self.ranges.len() == 0
    }

    pub(crate) fn holds(&self, holder: Holder) -> bool {
        self.has_open(holder) || self.has_ranges(holder)
    }

    pub(crate) fn has_open(&self, holder: Holder) -> bool {
        self.opens.iter().any(|open| open.holder == holder)
    }

    pub(crate) fn has_ranges(&self, holder: Holder) -> bool {
        self.ranges.has_any_of(holder)
    }

    pub(crate) fn share_of(&self, holder: Holder) -> Option<Share> {
        self.opens.iter().find(|open| open.holder == holder).map(|open| open.opened.share())
    }

    /// Whether nobody else's open is in the way of that (rows a to e and h to j).
    pub(crate) fn admits(&self, who: Option<Holder>, share: Share) -> Result<(), Refused> {
        let mut others = self.opens.iter().filter(|open| Some(open.holder) != who);
        match others.find(|open| open.opened.share().conflicts_with(share)) {
            Some(open) => {
                Err(Refused::Conflict { with: Claim::Open { holder: open.holder, share: open.opened.share() } })
            }
            None => Ok(()),
        }
    }

    pub(crate) fn room_for_an_open(&self) -> Result<(), Refused> {
        if self.opens.len() < OPENS_OF_OBJECT_MAX {
            Ok(())
        } else {
            Err(Refused::TooMany { what: Counted::Opens, within: Within::Object })
        }
    }

    /// Opens it, or adds that to the open that the holder has.
    pub(crate) fn open(&mut self, holder: Holder, share: Share) {
        match self.opens.iter_mut().find(|open| open.holder == holder) {
            Some(open) => open.opened = open.opened.and(share),
            None => self.opens.push(Open { holder, opened: Opened::new(share) }),
        }
    }

    pub(crate) fn downgrade(&mut self, holder: Holder, share: Share) -> Result<(), Refused> {
        let open = self.opens.iter_mut().find(|open| open.holder == holder).ok_or(Refused::NotOpened)?;
        open.opened = open.opened.downgraded(share).ok_or(Refused::Invalid)?;
        Ok(())
    }

    /// Whether no other owner's range is in the way of that.
    pub(crate) fn admits_lock(&self, wanted: Lock) -> Result<(), Refused> {
        let conflict = self.ranges.conflict(wanted);
        conflict.map_or(Ok(()), |held| Err(Refused::Conflict { with: Claim::Lock(held) }))
    }

    /// What locking or unlocking that comes to, if there is room in the object.
    pub(crate) fn plan(&self, holder: Holder, range: Range, kind: Option<Kind>) -> Result<Change, Refused> {
        let change = self.ranges.plan(holder, range, kind);
        let (more, _) = change.growth();
        if more > 0 && self.ranges.len() + more > RANGES_OF_OBJECT_MAX {
            return Err(Refused::TooMany { what: Counted::Ranges, within: Within::Object });
        }
        Ok(change)
    }

    pub(crate) fn apply(&mut self, change: Change, below: Option<Holder>) {
        self.ranges.apply(change, below);
    }

    /// The last name is gone.
    pub(crate) fn note_removed(&mut self) {
        self.is_removed = true;
    }

    /// Ends a holder's open, with what was locked below it.
    pub(crate) fn close(&mut self, holder: Holder) -> AllFreed {
        let Some(at) = self.opens.iter().position(|open| open.holder == holder) else { return AllFreed::new() };
        self.opens.swap_remove(at);
        let mut freed = self.free_ranges(|_, below| below == Some(holder));
        freed.push(Freed { holder, opens: 1, ranges: 0 });
        freed
    }

    /// Ends all that these holders have, with what was locked below their opens.
    pub(crate) fn release(&mut self, goes: impl Fn(Holder) -> bool) -> AllFreed {
        let mut freed = self.free_ranges(|owner, below| goes(owner) || below.is_some_and(&goes));
        let closed = self.opens.iter().filter(|open| goes(open.holder));
        freed.extend(closed.map(|open| Freed { holder: open.holder, opens: 1, ranges: 0 }));
        self.opens.retain(|open| !goes(open.holder));
        freed
    }

    fn free_ranges(&mut self, goes: impl Fn(Holder, Option<Holder>) -> bool) -> AllFreed {
        let freed = self.ranges.free(goes).into_iter();
        freed.map(|(holder, ranges)| Freed { holder, opens: 0, ranges }).collect()
    }
}
