//! What is claimed of one object.

use smallvec::SmallVec;

use crate::account::{
    DELEGATIONS_OF_OBJECT_MAX, OPENS_OF_OBJECT_AND_CLIENT_MAX, OPENS_OF_OBJECT_MAX, RANGES_OF_OBJECT_MAX,
};
use crate::delegation::{Act, Delegated, Delegation, OthersHave, is_given};
use crate::holder::{ClientNumber, Holder};
use crate::ranges::{Change, Kind, Lock, Range, Ranges};
use crate::refused::{Claim, Counted, Refused, Within};
use crate::share::{Access, Counts, Deny, Opened, Share};

/// The claims of one object.
#[derive(Default)]
pub(crate) struct Claimed {
    /// One for each holder, in their order. Most objects that are open are so once.
    opens: SmallVec<[Open; 1]>,
    /// How many of these have each bit of access, and of what they deny: a READ asks how many there are besides its own.
    counts: Counts,
    ranges: Ranges,
    delegated: Delegated,
    /// Its last name is gone: it goes with the last open.
    is_removed: bool,
}

/// What the bounds in all are reckoned with.
const _: () = assert!(size_of::<Claimed>() <= 168);

/// What counts of opens are kept in.
const _: () = assert!(OPENS_OF_OBJECT_MAX <= u16::MAX as usize);

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
        self.opens.is_empty() && self.ranges.len() == 0 && self.delegated.is_none()
    }

    pub(crate) fn holds(&self, holder: Holder) -> bool {
        self.has_open(holder) || self.has_ranges(holder)
    }

    pub(crate) fn has_open(&self, holder: Holder) -> bool {
        self.at(holder).is_ok()
    }

    /// Where a holder's open is, or would be.
    fn at(&self, holder: Holder) -> Result<usize, usize> {
        self.opens.binary_search_by_key(&holder, |open| open.holder)
    }

    pub(crate) fn has_ranges(&self, holder: Holder) -> bool {
        self.ranges.has_any_of(holder)
    }

    pub(crate) fn seen_ranges(&self, holder: Holder, most: usize) -> Vec<Lock> {
        self.ranges.seen(holder, most)
    }

    pub(crate) fn share_of(&self, holder: Holder) -> Option<Share> {
        self.at(holder).ok().map(|at| self.opens[at].opened.share())
    }

    /// Whether nobody else's open is in the way of that (rows a to e and h to j).
    pub(crate) fn admits(&self, who: Option<Holder>, share: Share) -> Result<(), Refused> {
        let own = who.and_then(|holder| self.share_of(holder));
        if !self.counts.without(own).conflict_with(share) {
            return Ok(());
        }
        let open = self.others_in_the_way(who, share).next().expect("C7");
        Err(Refused::Conflict { with: Claim::Open { holder: open.holder, share: open.opened.share() } })
    }

    /// Whose opens are in the way of that, each client once.
    pub(crate) fn in_the_way(&self, who: Option<Holder>, share: Share) -> Vec<ClientNumber> {
        let mut clients: Vec<_> = self.others_in_the_way(who, share).map(|open| open.holder.client).collect();
        clients.dedup();
        clients
    }

    fn others_in_the_way(&self, who: Option<Holder>, share: Share) -> impl Iterator<Item = &Open> {
        let others = self.opens.iter().filter(move |open| Some(open.holder) != who);
        others.filter(move |open| open.opened.share().conflicts_with(share))
    }

    /// Whether no other client's delegation is in the way of that (table D10).
    pub(crate) fn admits_act(&self, who: Option<ClientNumber>, act: Act) -> Result<(), Refused> {
        let in_the_way = self.delegated.in_the_way(who, act);
        in_the_way.map_or(Ok(()), |(client, kind)| Err(Refused::Conflict { with: Claim::Delegation { client, kind } }))
    }

    pub(crate) fn delegated(&self) -> &Delegated {
        &self.delegated
    }

    pub(crate) fn delegated_mut(&mut self) -> &mut Delegated {
        &mut self.delegated
    }

    /// Whether the client of this owner may be given that by table D9, and there is room in the object.
    pub(crate) fn admits_delegation(&self, holder: Holder, wanted: Delegation) -> Result<bool, Refused> {
        if !is_given(wanted, self.delegated.held(holder.client), self.others_have(holder)) {
            return Ok(false);
        }
        if self.delegated.count() < DELEGATIONS_OF_OBJECT_MAX {
            Ok(true)
        } else {
            Err(Refused::TooMany { what: Counted::Delegations, within: Within::Object })
        }
    }

    /// What others have of it. What its client has locked is below opens, which are this owner's if nobody else has one.
    fn others_have(&self, holder: Holder) -> OthersHave {
        let own = self.share_of(holder);
        let counts = self.counts.without(own);
        let has_ranges = self.ranges.has_any_but_of(holder.client);
        if counts.conflict_with(Share { access: Access::READ, deny: Deny::WRITE })
            || has_ranges && self.ranges.has_write_but_of(holder.client)
        {
            OthersHave::Conflicting
        } else if usize::from(own.is_some()) < self.opens.len() || has_ranges {
            OthersHave::Something
        } else {
            OthersHave::Nothing
        }
    }

    fn opens_of(&self, client: ClientNumber) -> std::ops::Range<usize> {
        let from = self.opens.partition_point(|open| open.holder.client < client);
        let to = self.opens.partition_point(|open| open.holder.client <= client);
        from..to
    }

    /// Whether a client may have one more: there is room for others' beside its own.
    pub(crate) fn room_for_an_open(&self, client: ClientNumber) -> Result<(), Refused> {
        if self.opens_of(client).len() >= OPENS_OF_OBJECT_AND_CLIENT_MAX {
            return Err(Refused::TooMany { what: Counted::Opens, within: Within::Client });
        }
        if self.opens.len() < OPENS_OF_OBJECT_MAX {
            Ok(())
        } else {
            Err(Refused::TooMany { what: Counted::Opens, within: Within::Object })
        }
    }

    /// Opens it, or adds that to the open that the holder has.
    pub(crate) fn open(&mut self, holder: Holder, share: Share) {
        match self.at(holder) {
            Ok(at) => self.becomes(at, self.opens[at].opened.and(share)),
            Err(at) => {
                let opened = Opened::new(share);
                self.counts.add(opened.share());
                self.opens.insert(at, Open { holder, opened });
            }
        }
    }

    pub(crate) fn downgrade(&mut self, holder: Holder, share: Share) -> Result<(), Refused> {
        let at = self.at(holder).map_err(|_| Refused::NotOpened)?;
        let opened = self.opens[at].opened.downgraded(share).ok_or(Refused::Invalid)?;
        self.becomes(at, opened);
        Ok(())
    }

    fn becomes(&mut self, at: usize, opened: Opened) {
        self.counts.remove(self.opens[at].opened.share());
        self.counts.add(opened.share());
        self.opens[at].opened = opened;
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
        let Ok(at) = self.at(holder) else { return AllFreed::new() };
        self.counts.remove(self.opens.remove(at).opened.share());
        let mut freed = self.free_ranges(|_, below| below == Some(holder));
        freed.push(Freed { holder, opens: 1, ranges: 0 });
        freed
    }

    /// Ends all that these holders have, with what was locked below their opens.
    pub(crate) fn release(&mut self, goes: impl Fn(Holder) -> bool) -> AllFreed {
        let mut freed = self.free_ranges(|owner, below| goes(owner) || below.is_some_and(&goes));
        let counts = &mut self.counts;
        self.opens.retain(|open| {
            let goes = goes(open.holder);
            if goes {
                counts.remove(open.opened.share());
                freed.push(Freed { holder: open.holder, opens: 1, ranges: 0 });
            }
            !goes
        });
        freed
    }

    fn free_ranges(&mut self, goes: impl Fn(Holder, Option<Holder>) -> bool) -> AllFreed {
        let freed = self.ranges.free(goes).into_iter();
        freed.map(|(holder, ranges)| Freed { holder, opens: 0, ranges }).collect()
    }
}

#[cfg(test)]
impl Claimed {
    /// What for ranges are locked that are of others.
    pub(crate) fn ranges_but_of(&self, client: ClientNumber) -> Vec<Kind> {
        self.ranges.kinds_but_of(client).collect()
    }

    /// C7.
    pub(crate) fn check(&self) {
        assert!(self.opens.is_sorted_by(|one, next| one.holder < next.holder), "C7");
        let mut counts = Counts::default();
        self.opens.iter().for_each(|open| counts.add(open.opened.share()));
        assert_eq!(self.counts, counts, "C7");
    }
}
