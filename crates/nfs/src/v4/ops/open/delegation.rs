//! What an OPEN says of a delegation.

use crate::xdr::Encoder;

/// Bits of `share_access`: what the client would have of one.
const WANTS_NONE: u32 = 0x0400;
const WANTS_CANCELLED: u32 = 0x0500;

/// `open_delegation_type4`.
const NO_DELEGATION: u32 = 0;
const NO_DELEGATION_AND_WHY: u32 = 3;
/// `why_no_delegation4`.
const NOT_WANTED: u32 = 0;
const NO_RESOURCE: u32 = 2;
const CANCELLED: u32 = 7;

/// `open_delegation4`: none, and why, if the client would have had one or said that it would not (RFC 8881 §18.16.3).
pub(super) fn put_none(wants: u32, out: &mut Encoder) {
    match wants {
        0 => out.u32(NO_DELEGATION),
        WANTS_NONE => out.u32(NO_DELEGATION_AND_WHY).u32(NOT_WANTED),
        WANTS_CANCELLED => out.u32(NO_DELEGATION_AND_WHY).u32(CANCELLED),
        // And the client will not be told when there is one.
        _ => out.u32(NO_DELEGATION_AND_WHY).u32(NO_RESOURCE).bool(false),
    };
}
