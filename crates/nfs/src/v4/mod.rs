//! NFS version 4 (RFC 7530, RFC 8881, RFC 7862): one procedure, COMPOUND, which carries out operations one after another on a current handle.
//!
//! So far a client can introduce itself, open sessions, look, and change what needs no OPEN, in the exports and in what stands above them
//! ([`pseudo`]). Nothing can be opened or locked yet, so `tally serve` does not speak it; `cargo run -p tally-nfs --example
//! model_server` does.
//!
//! ```text
//!  call ──▶ compound: tag, minor version, count ──▶ op by op: handle ─ names ─ attrs ─ listing ─ data ─▶ results, up to the first
//!                                                            │   make ─ remove ─ sessions               that is not OK, once
//!                                                            │                                          they are durable
//!                                                            ├─ attr: a bitmap, and values in the order of their numbers
//!                                                            └─ state: clients and their sessions, which all compounds share
//! ```

mod attr;
mod compound;
mod endings;
mod house;
mod op;
mod ops;
mod progress;
mod pseudo;
mod results;
pub mod state;
mod status;
mod tracking;

pub use compound::{Halt, Scene};
pub use house::House;
pub use progress::{Attempt, Progress, refusal};
pub use results::Ended;
pub use status::Status;

/// How long behind the import of a pool somebody may claim again what he had open: never longer.
pub const CLAIMS_END: std::time::Duration = tracking::CLAIMS_END;

/// The only version that is here, of the program of version 3.
pub const VERSION: u32 = 4;
