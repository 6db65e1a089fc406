//! Whether an OPEN is given a delegation, as far as that is not the file system's to say, and what it is told of it (RFC 8881 §18.16; table D9).

use tally_vfs::Delegation;

use super::asked::{Wanted, What};
use crate::entry::Target;
use crate::v4::compound::Compound;
use crate::v4::state::{AskingForDelegation, Delegated, WhyNone, Wish, to_ask_for};
use crate::xdr::Encoder;

/// Bits of `share_access`: what the client would have of one.
const WANTS_NONE: u32 = 0x0400;
const WANTS_CANCELLED: u32 = 0x0500;

/// `open_delegation_type4`.
const NO_DELEGATION: u32 = 0;
const READ: u32 = 1;
const NO_DELEGATION_AND_WHY: u32 = 3;

/// What there is of one behind an OPEN: one, or why not.
pub(super) type Told = Result<Delegated, WhyNone>;

impl Wanted<'_> {
    /// What the file system is asked for: rows a to h of table D9.
    pub(super) fn delegation(&self, compound: &Compound<'_>, place: &Target) -> Result<Delegation, WhyNone> {
        let presence = compound.guard().map(|guard| guard.session().presence());
        let asking = AskingForDelegation {
            minor: compound.minor(),
            wish: match self.wants {
                0 => Wish::Silent,
                WANTS_NONE => Wish::None,
                WANTS_CANCELLED => Wish::Cancelled,
                _ => Wish::Some,
            },
            access: self.share.access,
            is_on: place.vfs.gives(Delegation::Read),
            is_reachable: presence.is_some_and(|presence| presence.is_reachable()),
            has_lost: presence.is_some_and(|presence| presence.has_lost()),
            is_by_delegation: matches!(self.what, What::Kept(..)),
        };
        match self.what {
            // What it had before a restart it has no more than once more: what it has kept of the file is to be looked at (rules V27).
            What::Again(Some(Delegation::Read)) if asking.is_on && asking.is_reachable => Ok(Delegation::Read),
            What::Again(_) => Err(WhyNone::Resource),
            _ => to_ask_for(&asking),
        }
    }
}

/// `open_delegation4`: one, which is asked for already if it was claimed again; or none, and why, if the client would have had one or said that it would not (RFC 8881 §18.16.3).
pub(super) fn put(told: &Told, is_claimed: bool, wants: u32, out: &mut Encoder) {
    match (told, wants) {
        (Ok(delegated), _) => {
            debug_assert_eq!(delegated.kind, Delegation::Read, "no other one is asked for (row g of D9)");
            out.u32(READ).raw(&delegated.stateid.to_wire()).bool(is_claimed);
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
