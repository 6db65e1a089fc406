//! Delegations, as a list that is walked, with what the tables D9 and D10 say, said once more in other words.

use smallvec::SmallVec;
use tally_claims::{ClientNumber, Delegation, Holder};

use super::opens::bits;
use super::state::State;
use crate::permission;
use crate::{Attr, Cred, FsError, ObjectRef};

/// What one client holds of one object.
#[derive(Clone, Copy)]
pub(super) struct Given {
    object: ObjectRef,
    client: ClientNumber,
    kind: Delegation,
}

impl State {
    /// Whether nothing that others hold is in the way of who reads an object, or changes it.
    pub(super) fn gate(&self, object: ObjectRef, who: Option<ClientNumber>, changes: bool) -> Result<(), FsError> {
        let is_in_the_way =
            |given: &Given| given.object == object && Some(given.client) != who && (changes || is_write(given));
        if self.given.iter().any(is_in_the_way) { Err(FsError::Delegated(object)) } else { Ok(()) }
    }

    /// Gives who has just opened a file what he wants, if nobody else would be bothered, and he may read it. All that is here is durable.
    pub(super) fn delegate(
        &mut self,
        (object, cred): (ObjectRef, &Cred),
        holder: Holder,
        wants: Option<Delegation>,
    ) -> Option<Delegation> {
        let (kind, client) = (wants?, holder.client);
        let wants_all = kind == Delegation::Write;
        let bothers =
            |given: &Given| given.object == object && (given.client == client || wants_all || is_write(given));
        let mut others = self.opens.iter().filter(|open| open.object == object && open.holder != holder);
        let may_read = |attr: &Attr| {
            permission::owns(attr, cred)
                || permission::granted(attr, cred) & (permission::READ | permission::EXECUTE) != 0
        };
        let is_refused = self.given.iter().any(bothers)
            || self.is_locked_by_another(object, client, !wants_all)
            || wants_all && !self.attr(object).is_ok_and(|attr| may_read(&attr))
            || others.any(|open| {
                let [_, writes, no_reads, _] = bits(open.share);
                wants_all || writes || no_reads
            })
            || self.inode(object).is_ok_and(|inode| inode.attr.nlink == 0);
        if is_refused {
            return None;
        }
        self.given.push(Given { object, client, kind });
        Some(kind)
    }

    pub(super) fn delegated(&self, object: ObjectRef) -> SmallVec<[(ClientNumber, Delegation); 1]> {
        let of_it = self.given.iter().filter(|given| given.object == object);
        let mut all: SmallVec<[_; 1]> = of_it.map(|given| (given.client, given.kind)).collect();
        all.sort_unstable();
        all
    }

    pub(super) fn give_back(&mut self, object: ObjectRef, client: ClientNumber) {
        self.given.retain(|given| (given.object, given.client) != (object, client));
    }

    /// What is gone nobody holds.
    pub(super) fn forget_given(&mut self, object: ObjectRef) {
        self.given.retain(|given| given.object != object);
    }
}

fn is_write(given: &Given) -> bool {
    given.kind == Delegation::Write
}
