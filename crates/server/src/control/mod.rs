//! How the commands talk to the daemon: a Unix socket on which one line of JSON asks and lines of JSON answer.
//!
//! The pools belong to the daemon alone (its lock is on the very files), so a command never touches a disk: it
//! asks. JSON in lines rather than HTTP, because nobody but `tally` itself speaks it, a person can read it with
//! `socat`, and it needs no server. One connection carries any number of requests, one after another, which
//! is how `iostat` comes by its samples.
//!
//! ```text
//!   command                                daemon
//!   {"op":"pool-export","name":"tank"} ->
//!                                      <- "begun"                                                    if it changes something
//!                                      <- {"progress":{"what":"waiting for ...","done":0,"total":0}} any number
//!                                      <- {"done":{"kind":"done","data":["exported pool 'tank'"]}}   or
//!                                      <- {"refused":{"message":"..."}}                              then the end
//! ```
//!
//! **What nobody wants any more is not begun.** Commands wait for each other, and a person who presses Ctrl-C at one that
//! waits means that it should not be. So whoever closes his side, or dies, takes back what has not been begun; he may
//! stay to hear which of the two it is: `"withdrawn"`, or `"begun"` and all that follows. What has been begun is carried
//! out. A peer that is no `tally` must therefore keep its side open until it has its answer.
//!
//! Who may ask: root and the daemon's own user everything, and members of the socket's group what only looks
//! ([`access`]). The kernel tells whose a peer is. The socket is the group's with mode 0660 where there is such a group, and has mode
//! 0600 where there is none; it does not listen before its mode is set. And who is asked: a command speaks to
//! a daemon of root's or of its own user's, and prints control characters of nobody's ([`plain`]).
//!
//! Bounds: a request line is at most [`message::LINE_BYTES_MAX`] long, one of an answer
//! [`message::ANSWER_BYTES_MAX`], and at most [`listener::CONNECTIONS_MAX`] connections of those who may command are open at a
//! time, and [`listener::LOOKERS_MAX`] of others, who so keep no command away.

pub mod access;
pub mod client;
pub mod exports;
pub mod holdings;
pub mod listener;
pub mod load;
pub mod message;
pub mod mounts;
pub mod observation;
mod peer;
mod plain;
pub mod report;
pub mod server;
pub(crate) mod shell;
pub mod smb;
pub mod socket;
pub mod spread;
