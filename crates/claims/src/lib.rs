//! What clients have claimed of the objects of one mounted dataset: opens, with what each denies to others, and ranges of bytes that are locked.
//!
//! The problem: whether a client may open, read, write or lock goes by what others have claimed, whichever protocol they came by, and a file
//! whose last name is removed lives for as long as somebody has it open. A table in each protocol would know half of that. So there is one below
//! them, which knows no protocol: a claim belongs to a [`Holder`], a client's number and an owner's, or, a delegation, to the client alone, and who these are its protocol knows. One that has
//! two sorts of owners, of opens and of locks, sees to it that no number is of both.
//!
//! ```text
//!  Claims (of a dataset) ─▶ shard, by object ─▶ Claimed: its opens, each with the pairs that were opened (share, table D7)
//!     │      │                                           its ranges, by owner and first byte         (ranges, table D8)
//!     │      │                                           its delegations, by client         (delegation, tables D9, D10)
//!     │      │                                           whether its last name is gone
//!     │      ├─▶ Holdings: which objects a client, or one owner, has claims of
//!     │      └─▶ Watchers: doors that keep somebody waiting, and are told of what was given up
//!     └─▶ Account (of all datasets of a pool together): how many opens, ranges and delegations there are, of each client and in all
//! ```
//!
//! The file system asks under its locks of the object, so that nothing comes between what it has looked up and the claim. That is left to it on purpose: with a
//! lock of its own that lasted from the question to the change, this table would be one more thing to wait for. A question about a dataset of which nobody claims
//! anything is one atomic load.
//!
//! *What is removed.* [`Claims::note_removed`] and the last close of an object are decided under one lock, and exactly one of them is told that the object is free:
//! the first where nobody has it open, a close or release ([`Closed::LastOfRemoved`]) where somebody had. Whoever is told frees it, under the object's lock still,
//! as it could be opened by its handle otherwise. A removed object gets no name any more, and what else is claimed of it goes when it is free.
//!
//! *What a close does to ranges.* RFC 8881 §18.2 leaves it to the server whether it refuses a CLOSE while ranges are locked (LOCKS_HELD) or frees them. They are freed: a
//! client that has gone wrong could not get rid of its open otherwise. Freed is what those owners hold who locked below that open first; they keep
//! that place for as long as they hold anything, so no range outlives it. A downgrade frees nothing: what is locked may always be unlocked. Who locks without an open (NLM, FUSE) holds until it unlocks.
//!
//! *Bounds* are asked before anything changes, of an object and a client before those of all ([`Account`]).
//!
//! *Locks.* A shard's, then one of the holdings' or of the account's, neither of which is held together with the other: all of them are leaves, held over a call to nothing. Watchers are told behind them.
//!
//! *Invariants.* C1: no two holders' opens conflict. C2: the ranges of one owner share no byte, and those of one kind do not touch; of two owners only READ
//! ranges share bytes. C3: who locked below an open has locked below one that is there. C4: a removed object in the table is open. C5: an object in the table has a claim,
//! and its holders are in the holdings. C6: what the account counts is what its tables hold. C7: an object's opens are in the order of their holders, and counted by what
//! they allow and deny, so that who reads or writes looks at none of the others. C8: a Write delegation is beside no other delegation, no other client's open and no
//! other client's range; a Read is beside no other client's open that may write, or that lets nobody read, and no other client's range that is locked for writing.
//!
//! **Deliberately absent:** clocks and leases (whoever ends them calls [`Claims::release_client`]), a queue of those who wait for a range and the walk that finds who waits for himself,
//! callbacks to clients (a delegation that is in the way is told of, and whoever is told sees to it), and ranges that keep others from reading or writing: they are advice, as POSIX has them.

mod account;
mod delegation;
mod holder;
mod holdings;
mod object;
mod ranges;
mod refused;
mod share;
mod table;
mod watchers;

pub use account::{
    Account, Count, DELEGATIONS_MAX, DELEGATIONS_OF_CLIENT_MAX, DELEGATIONS_OF_OBJECT_MAX, OPENS_MAX,
    OPENS_OF_CLIENT_MAX, OPENS_OF_OBJECT_AND_CLIENT_MAX, OPENS_OF_OBJECT_MAX, RANGES_BESIDE_MAX, RANGES_MAX,
    RANGES_OF_CLIENT_BESIDE_MAX, RANGES_OF_CLIENT_MAX, RANGES_OF_OBJECT_MAX,
};
pub use delegation::{Act, Conflict, Delegation, conflict};
pub use holder::{ClientNumber, Holder, OwnerNumber, Series};
pub use ranges::{Kind, Lock, Range};
pub use refused::{Claim, Counted, Refused, Within};
pub use share::{Access, Deny, Share};
pub use table::{Claims, Closed};
pub use watchers::Watch;
