//! Whether an OPEN is given a delegation, as far as that is known before the file system is asked (RFC 8881 §10.4 and §18.16; table D9).
//!
//! ```text
//!  D9, asked from above                                        │ asked of the file system
//!  ────────────────────────────────────────────────────────────┼──────────────────────────────────────────────
//!  a  minor version 0                                          │ nothing: there is no way to call its clients
//!  b  the client says NO_DELEG                                 │ nothing, NOT_WANTED
//!  c  the client says CANCEL                                   │ nothing, CANCELLED
//!  d  the dataset gives none of that kind                      │ nothing, RESOURCE
//!  e  the client cannot be called, or does not know yet that   │ nothing, RESOURCE
//!     one was taken from it that it did not give back          │
//!  f  it is opened by a delegation                             │ nothing, NOT_WANTED: there it is
//!  g  it is opened to be written, and one for reading is not   │ one for writing; nothing, RESOURCE, where a client could not write as much as it would be told
//!     what is wanted                                           │ that it may ([`space_limit`]), or it could not be written down that it has one (rules V23)
//!  h  else                                                     │ one for reading
//!     and then, under the file's lock, in this order           │
//!  i  one of that file was recalled in the last 30 s           │ given back, CONTENTION
//!  j  the client has one of that file                          │ stays, NOT_WANTED; NOT_SUPP_UPGRADE where it has the one for reading and would write
//!  k  the client has as many as it may, or all have            │ given back, RESOURCE
//!  l  others have it open to write, or deny to read, or have   │ not given, CONTENTION
//!     it at all where it is to be written; what it shows is    │
//!     not durable (rules V12)                                  │
//!  m  else                                                     │ given
//! ```
//!
//! Rows l and m are the file system's: `claims`, whose table has letters of its own, knows them in more rows (`claims/src/delegation.rs`).
//!
//! *Without a wish.* Most clients, Linux among them, say nothing of what they want and take what they are given. So silence is a yes: what it costs others the property of the dataset says.
//!
//! *Which kind* goes by what the file is opened for, as a client that only reads has no use for the other, and costs others less. To read for who writes is given to who says so: others may
//! read beside it.

use tally_vfs::{Access, Delegation};

/// So much a client may have written and not sent yet when it closes a file: what is less is not worth others' while.
const SPACE_MIN: u64 = 64 << 20;
/// And no more: as much memory as a client may well give one file.
const SPACE_MAX: u64 = 1 << 30;
/// Of what there is room for one file is told so much: others are written beside it.
const SPACE_SHARE: u64 = 8;

/// What a client is told that it may write without asking, bytes, where so many are left by quotas and the pool (`nfs_space_limit4`): always less than that. None where that is too little.
///
/// The text speaks of the size of the file, Linux takes it for what it has not sent yet of it: this holds for both. Nothing is kept for it, so a client may find itself without room all the
/// same, as it would behind a WRITE that was not stable.
#[must_use]
pub fn space_limit(left: u64) -> Option<u64> {
    (left >= 2 * SPACE_MIN).then(|| (left / SPACE_SHARE).clamp(SPACE_MIN, SPACE_MAX))
}

/// What a client says it wants (`OPEN4_SHARE_ACCESS_WANT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing of it.
    Silent,
    /// One for reading.
    Read,
    /// One for writing, or of either kind.
    Some,
    /// None.
    None,
    /// None any more.
    Cancelled,
}

/// Why there is none (`why_no_delegation4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Why {
    /// The client does not want it, or has it.
    NotWanted = 0,
    /// Others use the file.
    Contention = 1,
    /// The server gives none.
    Resource = 2,
    /// It has one for reading.
    NotUpgraded = 5,
    /// The client has taken its wish back.
    Cancelled = 7,
}

/// What decides.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Asking {
    pub minor: u32,
    pub wish: Wish,
    pub access: Access,
    /// Whether the dataset gives such as are for reading, and such as are for writing.
    pub gives_read: bool,
    pub gives_write: bool,
    /// Whether its client can be called.
    pub is_reachable: bool,
    /// Whether one was taken from it of which it does not know yet: who is kept out by another one would wait as long.
    pub has_lost: bool,
    /// Whether it is opened by a delegation that its client has.
    pub is_by_delegation: bool,
}

/// Rows a to h: what the file system is asked for.
pub fn to_ask_for(asking: &Asking) -> Result<Delegation, Why> {
    let (kind, is_on) = match asking.access.has(Access::WRITE) && asking.wish != Wish::Read {
        true => (Delegation::Write, asking.gives_write),
        false => (Delegation::Read, asking.gives_read),
    };
    match asking {
        Asking { minor: 0, .. } => Err(Why::Resource),
        Asking { wish: Wish::None, .. } => Err(Why::NotWanted),
        Asking { wish: Wish::Cancelled, .. } => Err(Why::Cancelled),
        Asking { is_reachable: false, .. } | Asking { has_lost: true, .. } => Err(Why::Resource),
        _ if !is_on => Err(Why::Resource),
        Asking { is_by_delegation: true, .. } => Err(Why::NotWanted),
        _ => Ok(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row() {
        let asking = Asking {
            minor: 1,
            wish: Wish::Silent,
            access: Access::READ,
            gives_read: true,
            gives_write: true,
            is_reachable: true,
            has_lost: false,
            is_by_delegation: false,
        };
        let rows = [
            ("a", Asking { minor: 0, ..asking }, Err(Why::Resource)),
            ("b", Asking { wish: Wish::None, ..asking }, Err(Why::NotWanted)),
            ("c", Asking { wish: Wish::Cancelled, ..asking }, Err(Why::Cancelled)),
            ("d", Asking { gives_read: false, ..asking }, Err(Why::Resource)),
            ("d", Asking { gives_write: false, access: Access::BOTH, ..asking }, Err(Why::Resource)),
            ("e", Asking { is_reachable: false, ..asking }, Err(Why::Resource)),
            ("e", Asking { has_lost: true, ..asking }, Err(Why::Resource)),
            ("f", Asking { is_by_delegation: true, ..asking }, Err(Why::NotWanted)),
            ("g", Asking { access: Access::WRITE, gives_read: false, ..asking }, Ok(Delegation::Write)),
            ("g", Asking { access: Access::BOTH, wish: Wish::Some, ..asking }, Ok(Delegation::Write)),
            ("h", Asking { gives_write: false, ..asking }, Ok(Delegation::Read)),
            ("h", Asking { minor: 2, wish: Wish::Some, ..asking }, Ok(Delegation::Read)),
            ("h", Asking { access: Access::BOTH, wish: Wish::Read, ..asking }, Ok(Delegation::Read)),
            ("b before d", Asking { wish: Wish::None, gives_read: false, ..asking }, Err(Why::NotWanted)),
        ];
        for (row, asking, expected) in rows {
            assert_eq!(to_ask_for(&asking), expected, "{row}");
        }
    }

    #[test]
    fn what_a_client_may_write_is_less_than_what_is_left() {
        const MIB: u64 = 1 << 20;
        let cases = [
            (0, None),
            (128 * MIB - 1, None),
            (128 * MIB, Some(64 * MIB)),
            (512 * MIB, Some(64 * MIB)),
            (800 * MIB, Some(100 * MIB)),
            (u64::MAX, Some(1024 * MIB)),
        ];
        for (left, expected) in cases {
            assert_eq!(space_limit(left), expected, "{left}");
        }
    }
}
