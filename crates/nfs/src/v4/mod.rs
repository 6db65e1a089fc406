//! NFS version 4 (RFC 7530, RFC 8881, RFC 7862, RFC 8275, RFC 8276, RFC 9754): one procedure, COMPOUND, which carries out operations one after another on a current handle.
//!
//! What is there, and what is not yet, stands in docs/nfs4.md. `tally serve` speaks it beside version 3.
//!
//! ```text
//!  call ──▶ compound: tag, minor version, count ──▶ op by op: handle ─ names ─ attrs ─ listing ─ data ─▶ results, up to the first
//!                                                            │   make ─ remove ─ copy ─ sparse ─ xattr  that is not OK, once
//!                                                            │   open ─ close ─ order ─ lock            they are durable
//!                                                            │   delegation ─ clients ─ sessions
//!                                                            ├─ progress: what of a compound outlives an attempt to carry it out
//!                                                            ├─ results: what it has to say, cut where an operation turns out not to have been
//!                                                            ├─ pseudo: what a handle names, and what stands above the exports
//!                                                            ├─ attr: a bitmap, and values in the order of their numbers
//!                                                            ├─ house: what all compounds share: state (clients, sessions, opens, locks, delegations)
//!                                                            ├─ stateids: what one names
//!                                                            ├─ naming: who owners are by name
//!                                                            ├─ callbacks: calls to clients, and what came of them
//!                                                            ├─ parking: who waits without a worker, for a moment
//!                                                            ├─ waiting: who waits for a lock is called when it is free
//!                                                            ├─ hosts: who locks by NLM, as clients of version 3 do
//!                                                            ├─ recalls: what is delegated and in somebody's way is called back
//!                                                            ├─ v3_use: which datasets NFSv3 uses: `auto` gives nothing of them for writing
//!                                                            ├─ claiming, tracking: who may claim again what, behind a restart
//!                                                            ├─ past: what a persistent session has done in a life before
//!                                                            ├─ below: where the claims of a file are
//!                                                            ├─ endings: what ends state that its client has not given up
//!                                                            ├─ way: what is in the way of an operation, and goes out of it
//!                                                            └─ holdings: who holds what, for who administers the server
//! ```

mod attr;
mod below;
mod callbacks;
mod claiming;
mod compound;
mod endings;
pub mod holdings;
mod hosts;
mod house;
pub mod naming;
mod op;
mod ops;
mod parking;
mod past;
mod progress;
mod pseudo;
mod recalls;
mod results;
pub mod state;
mod stateids;
mod status;
mod tracking;
mod v3_use;
mod waiting;
mod way;

pub use compound::{Halt, Scene};
pub use hosts::{Asks, Heard, HostCall, LockTold};
pub use house::House;
pub use parking::{Holding, KeptOut, PARKED};
pub use progress::{Attempt, Progress, refusal};
pub use recalls::looks::Seen;
pub use results::Ended;
pub use status::Status;

/// The version, of the program of version 3.
pub const VERSION: u32 = 4;
