//! How the commands talk to the daemon: a Unix socket on which one line of JSON asks and lines of JSON answer.
//!
//! The pools belong to the daemon alone (its lock is on the very files), so a command never touches a disk: it
//! asks. JSON in lines rather than HTTP, because nobody but `tally` itself speaks it, a person can read it with
//! `socat`, and it needs no server. One connection carries any number of requests, one after another, which
//! is how `iostat` comes by its samples.
//!
//! ```text
//!   command                               daemon
//!   {"op":"pool-import","name":"tank"} ->
//!                                      <- {"progress":{"what":"replaying","done":10,"total":900}}   any number
//!                                      <- {"done":{"kind":"done","data":["imported tank"]}}         or
//!                                      <- {"refused":{"message":"..."}}                             then the end
//! ```
//!
//! Who may ask: the socket has mode 0600, and the peer's user, which the kernel tells, must be the daemon's own
//! or root. Both, because a socket exists for an instant before its mode is set. And who is asked: a command speaks to
//! a daemon of root's or of its own user's, and prints control characters of nobody's ([`plain`]).
//!
//! Bounds: a request line is at most [`message::LINE_BYTES_MAX`] long, and at most
//! [`listener::CONNECTIONS_MAX`] connections are open at a time.

pub mod client;
pub mod listener;
pub mod load;
pub mod message;
pub mod observation;
mod plain;
pub mod report;
pub mod socket;
pub mod spread;
