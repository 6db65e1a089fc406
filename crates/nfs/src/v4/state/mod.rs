//! What the server knows of clients, for as long as it runs. Nothing here owns a thread, a socket or a clock: time and randomness are arguments, so
//! that a simulation can own them.
//!
//! ```text
//!  clients    who there is: the register, under one lock        (tables D3, D4 and D14)
//!  key        who a client is behind restarts
//!  lease      the time by which leases run
//!  presence   what each request asks of its client, lock-free
//!  sessions   what requests come in, found without the register
//!  slots      a request is carried out once                     (table D2)
//!  backchannel  calls to a client, in slots of ours
//!  opens      which owner of which client has what open
//!  locks      and what it has locked below that
//!  delegations  which client has which file to keep, and is asked for it   (table D9)
//!  waiters    who waits for a range that another one has locked
//!  places     where each of these stands that a stateid names
//!  shards     whose state is where, and how much there is of all
//!  names      what is kept of an owner's name
//!  stateid    by which name that is asked for, and by whom      (table D6)
//!  owners     the order of an owner of minor version 0          (table D1)
//!  orders     all such owners, and what compounds have of them under way
//!  bounds     how much of all that there may be
//! ```

mod backchannel;
pub mod bounds;
mod clients;
mod delegations;
mod key;
mod lease;
mod locks;
mod names;
mod opens;
mod orders;
mod owners;
mod places;
mod presence;
mod sessions;
mod shards;
mod slots;
mod stateid;
mod waiters;

pub use backchannel::{CallId, Callback, Calling, Errand, Lost, Terms, Verdict};
pub use clients::{
    BootId, COURTESY, ClientId, Clients, Created, Exchanged, Gone, Introduced, Introduction, Known, LEASE_DEFAULT,
    LEASE_MAX, LEASE_MIN, Principal, Proof, Protection, Sender, Unknown, Wanted, Which, Why, printable,
};
pub use delegations::{
    Answer, Asking as AskingForDelegation, Attributes, Delegated, DelegationNumber, Delegations, Ending, Keeps,
    LookTicket, Looked, Next, Noted as NotedLook, Recalled, Referred, Reserving, WhyNone, Wish, space_limit,
    to_ask_for,
};
pub use key::ClientKey;
pub use lease::LeaseClock;
pub use locks::{Freeing, Locked, Locking, Locks, SeenLock};
pub use names::{OwnerKey, OwnerName};
pub use opens::{Changing, Closing, Found, OpenNumber, Opens, Reserved, SeenOpen};
pub use orders::{Asking, Came, Orders, Turns};
pub use owners::{Brought, OwnerOrder, Told, Turn, moves};
pub use presence::Presence;
pub use sessions::{
    BACK, BACKCHANNEL_FAULT, BOTH, Begun, CB_PATH_DOWN, CB_PATH_DOWN_SESSION, Channel, Direction, FORE,
    RESTART_RECLAIM_NEEDED, Sequence, Session, SessionId, Sessions, Shown,
};
pub use slots::Guard;
pub use stateid::{FileId, Mounted, Revoked, Special, Stateid};
pub use waiters::{COME, FRESH, LockOwner, LockWait, Queued, Waiters};
