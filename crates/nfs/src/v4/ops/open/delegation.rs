//! Whether an OPEN is given a delegation, as far as that is not the file system's to say, and what it is told of it (RFC 8881 §18.16; table D9).

use tally_vfs::{Access, Delegation, Gives};

use super::asked::{Wanted, What};
use crate::entry::Target;
use crate::v4::compound::Compound;
use crate::v4::state::{AskingForDelegation, Delegated, Keeps, Presence, WhyNone, Wish, space_limit, to_ask_for};
use crate::xdr::Encoder;

/// Bits of `share_access`: what the client would have of one.
const WANTS_READ: u32 = 0x0100;
const WANTS_NONE: u32 = 0x0400;
const WANTS_CANCELLED: u32 = 0x0500;

/// `open_delegation_type4`.
const NO_DELEGATION: u32 = 0;
const READ: u32 = 1;
const WRITE: u32 = 2;
const NO_DELEGATION_AND_WHY: u32 = 3;
const WRITE_WITH_TIMES: u32 = 5;
/// `limit_by4`: bytes.
const LIMIT_SIZE: u32 = 1;

/// What there is of one behind an OPEN: one, or why not.
pub(super) type Besides = Result<Delegated, WhyNone>;

/// What the file system is asked for besides.
#[derive(Clone, Copy)]
pub(super) struct WishFor {
    pub(super) keeps: Result<Keeps, WhyNone>,
    /// What a client is told that it may have written and not sent.
    pub(super) space: u64,
}

impl WishFor {
    pub(super) fn is_to_write(&self) -> bool {
        self.keeps.is_ok_and(|keeps| keeps.kind == Delegation::Write)
    }

    /// One for writing it cannot be: where it is to be that it is none.
    pub(super) fn is_not_to_write(&mut self) {
        if self.is_to_write() {
            self.keeps = Err(WhyNone::Resource);
        }
    }
}

impl Wanted<'_> {
    /// What the file system is asked for: rows a to h of table D9.
    pub(super) fn delegation(&self, compound: &Compound<'_>, place: &Target) -> WishFor {
        let presence = compound.guard().map(|guard| guard.session().presence());
        let mut wish = WishFor { keeps: self.keeps(compound, place, presence), space: 0 };
        if wish.is_to_write() {
            let left = place.vfs.statfs().map_or(0, |stat| stat.available_bytes);
            match space_limit(left) {
                Some(space) => wish.space = space,
                // What was written under it may be sent as long as there is room.
                None if matches!(self.what, What::Again(_)) => {}
                None => wish.is_not_to_write(),
            }
        }
        wish
    }

    fn keeps(&self, compound: &Compound<'_>, place: &Target, presence: Option<&Presence>) -> Result<Keeps, WhyNone> {
        let gives = |kind| place.vfs.gives(kind);
        let is_among_clients = || !compound.scene.house.is_used_by_v3(&*place.vfs);
        let asking = AskingForDelegation {
            minor: compound.minor(),
            wish: match self.wants {
                0 => Wish::Silent,
                WANTS_READ => Wish::Read,
                WANTS_NONE => Wish::None,
                WANTS_CANCELLED => Wish::Cancelled,
                _ => Wish::Some,
            },
            access: self.share.access,
            gives_read: gives(Delegation::Read) != Gives::No,
            gives_write: self.share.access.has(Access::WRITE)
                && match gives(Delegation::Write) {
                    Gives::No => false,
                    Gives::AmongClients => is_among_clients(),
                    Gives::Yes => true,
                },
            is_reachable: presence.is_some_and(|presence| presence.is_reachable()),
            has_lost: presence.is_some_and(|presence| presence.has_lost()),
            is_by_delegation: matches!(self.what, What::Kept(..)),
        };
        match self.what {
            // What it had before a restart it has no more than once more: what it has kept of the file is to be looked at, and what it has written to be sent (rules V27).
            What::Again(Some(keeps)) if asking.is_reachable && gives(keeps.kind) != Gives::No => match keeps.kind {
                Delegation::Write if !compound.reclaim_write(place) => Err(WhyNone::Resource),
                _ => Ok(keeps),
            },
            What::Again(_) => Err(WhyNone::Resource),
            // Of one for reading nobody says times: when it was read last is not worth a call. Nor where nobody has said that it may be: behind a crash a client may forget them.
            _ => to_ask_for(&asking).map(|kind| {
                let may_keep = kind == Delegation::Write && gives(kind) == Gives::Yes;
                Keeps { kind, times: self.wants_times && may_keep }
            }),
        }
    }
}

/// `open_delegation4`: one, which is asked for already if it was claimed again; or none, and why, if the client would have had one or said that it would not (RFC 8881 §18.16.3).
pub(super) fn put(besides: &Besides, (is_claimed, space): (bool, u64), wants: u32, out: &mut Encoder) {
    match (besides, wants) {
        (Ok(delegated), _) => {
            let is_to_write = delegated.keeps.kind == Delegation::Write;
            let number = match delegated.keeps {
                Keeps { kind: Delegation::Read, .. } => READ,
                Keeps { times: false, .. } => WRITE,
                Keeps { times: true, .. } => WRITE_WITH_TIMES,
            };
            out.u32(number).raw(&delegated.stateid.to_wire()).bool(is_claimed);
            if is_to_write {
                out.u32(LIMIT_SIZE).u64(space);
            }
            // `nfsace4`: who may open it without asking the server whether he may: nobody.
            out.u32(0).u32(0).u32(0).opaque(b"");
        }
        (Err(_), 0) => drop(out.u32(NO_DELEGATION)),
        (Err(why), _) => {
            out.u32(NO_DELEGATION_AND_WHY).u32(*why as u32);
            if matches!(why, WhyNone::Contention | WhyNone::Resource) {
                // And the client will not be told when there is one.
                out.bool(false);
            }
        }
    }
}
