//! A world that one seed owns: disks, clock, randomness, clients, and the whole server between them, from the bytes
//! of an RPC call to the bytes of a device write.
//!
//! A promise is only worth what its test is. A test that kills a process spares the page cache and the device's cache;
//! one that runs threads cannot be repeated. Here everything happens in one thread: a request runs until its reply
//! waits for the device, the device is a map of pages, and the power goes off at a write that the seed has chosen. What
//! comes up again must be a state that an oracle explains, and a seed that fails fails again.
//!
//! ```text
//!  sweep       many seeds, and a shorter history for one that fails (`bin/sim`)
//!    history/  one seed: what is done, in which order, and what must be found     oracle/  what a power cut may leave
//!    holding/  one seed of what clients of version 4 have open and locked: who was given what, over all lives
//!  sequences/  all short sequences, and every cut in them (`bin/cuts`)            same     this state against that one
//!  op          what clients ask                                                   agree    a reply against the model's
//!  client      calls and replies as bytes, by a codec that is not ours            sound    a walk over everything
//!  newer       their sessions of version 4.2                                      words    compounds of version 4
//!  machine     disks, engine and protocol, switched on and off                    clock    time, and who sets it wrong
//!  disk/       disks that lose, tear, rot and fail; all states that a cut may leave  chance   numbers that a seed repeats
//!  panics      where one was, for the trace
//!  planted/    patches that break a promise each: what all this must catch
//! ```
//!
//! Production code carries no hook for any of it: the engine is given its disks, its clock and its randomness, and the
//! protocol is the same [`tally_nfs::service::Service`] that the sockets feed.

pub mod agree;
pub mod chance;
pub mod client;
pub mod clock;
pub mod disk;
pub mod history;
pub mod holding;
pub mod machine;
pub mod newer;
pub mod op;
pub mod oracle;
mod panics;
pub mod same;
pub mod sequences;
pub mod sound;
pub mod sweep;
mod words;
