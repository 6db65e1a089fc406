//! Whether an OPEN is given a delegation, as far as that is known before the file system is asked (RFC 8881 §10.4 and §18.16; table D9).
//!
//! ```text
//!  D9, asked from above                                        │ asked of the file system
//!  ────────────────────────────────────────────────────────────┼──────────────────────────────────────────────
//!  a  minor version 0                                          │ nothing: there is no way to call its clients
//!  b  the client says NO_DELEG                                 │ nothing, NOT_WANTED
//!  c  the client says CANCEL                                   │ nothing, CANCELLED
//!  d  the dataset gives none                                   │ nothing, RESOURCE
//!  e  the client cannot be called                              │ nothing, RESOURCE
//!  f  it is opened by a delegation                             │ nothing, NOT_WANTED: there it is
//!  g  it is opened to be written                               │ nothing, RESOURCE: those for writing are not given yet
//!  h  else                                                     │ one for reading
//!     and then, under the file's lock, in this order           │
//!  i  one of that file was recalled in the last 30 s           │ given back, CONTENTION
//!  j  the client has as many as it may, or all have            │ given back, RESOURCE
//!  k  the client has one of that file                          │ stays, NOT_WANTED
//!  l  others have it open to write, or deny to read;           │ not given, CONTENTION
//!     what it shows is not durable (rules V12)                 │
//!  m  else                                                     │ given
//! ```
//!
//! Rows l and m are the file system's: `claims`, whose table has letters of its own, knows them in more rows (`claims/src/delegation.rs`).
//!
//! *Without a wish.* Most clients, Linux among them, say nothing of what they want and take what they are given. So silence is a yes where a delegation costs little: a file that is opened to be read.

use tally_vfs::{Access, Delegation};

/// What a client says it wants (`OPEN4_SHARE_ACCESS_WANT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing of it.
    Silent,
    /// One of some kind.
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
    /// Whether the dataset gives any.
    pub is_on: bool,
    /// Whether its client can be called.
    pub is_reachable: bool,
    /// Whether it is opened by a delegation that its client has.
    pub is_by_delegation: bool,
}

/// Rows a to h: what the file system is asked for.
pub fn to_ask_for(asking: &Asking) -> Result<Delegation, Why> {
    match asking {
        Asking { minor: 0, .. } => Err(Why::Resource),
        Asking { wish: Wish::None, .. } => Err(Why::NotWanted),
        Asking { wish: Wish::Cancelled, .. } => Err(Why::Cancelled),
        Asking { is_on: false, .. } | Asking { is_reachable: false, .. } => Err(Why::Resource),
        Asking { is_by_delegation: true, .. } => Err(Why::NotWanted),
        asking if asking.access.has(Access::WRITE) => Err(Why::Resource),
        _ => Ok(Delegation::Read),
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
            is_on: true,
            is_reachable: true,
            is_by_delegation: false,
        };
        let rows = [
            ("a", Asking { minor: 0, ..asking }, Err(Why::Resource)),
            ("b", Asking { wish: Wish::None, ..asking }, Err(Why::NotWanted)),
            ("c", Asking { wish: Wish::Cancelled, ..asking }, Err(Why::Cancelled)),
            ("d", Asking { is_on: false, ..asking }, Err(Why::Resource)),
            ("e", Asking { is_reachable: false, ..asking }, Err(Why::Resource)),
            ("f", Asking { is_by_delegation: true, ..asking }, Err(Why::NotWanted)),
            ("g", Asking { access: Access::WRITE, ..asking }, Err(Why::Resource)),
            ("g", Asking { access: Access::BOTH, wish: Wish::Some, ..asking }, Err(Why::Resource)),
            ("h", asking, Ok(Delegation::Read)),
            ("h", Asking { minor: 2, wish: Wish::Some, ..asking }, Ok(Delegation::Read)),
            ("b before d", Asking { wish: Wish::None, is_on: false, ..asking }, Err(Why::NotWanted)),
        ];
        for (row, asking, expected) in rows {
            assert_eq!(to_ask_for(&asking), expected, "{row}");
        }
    }
}
