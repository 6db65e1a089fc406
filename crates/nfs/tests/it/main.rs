//! The protocol from outside: a server over models in memory, and clients that send whatever they are told to.
//!
//! One program, as each would link all of the server: `cargo test -p tally-nfs --test it exported::` runs one file of it. `attacks.rs` has one of its own,
//! as it looks at the memory of the process.

mod support;

mod accounts;
mod bad_input;
mod bad_state;
mod borders;
mod calling_hosts;
mod changing;
mod chaos;
mod claiming_for_3;
mod copying;
mod counting;
mod decisions;
mod delegating;
mod ending;
mod exported;
mod flow;
mod granting_for_3;
mod holdings;
mod hostile;
mod lasting;
mod locking;
mod locking_for_3;
mod locking_in_order;
mod looking;
mod looking_beside;
mod minor_2;
mod mounting;
mod naming;
mod neighbours;
mod nlm;
mod numbers;
mod opening;
mod owners;
mod protocol;
mod punched;
mod recalling;
mod reclaiming;
mod repeating;
mod reserved;
mod seams;
mod sessions;
mod stalled;
mod strangers;
mod taken_up;
mod times_kept;
mod twins;
mod vanishing;
mod waking;
mod written_alone;
mod xattrs;
