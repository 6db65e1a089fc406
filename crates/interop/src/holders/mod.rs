//! Clients of NFSv4.1, and of 4.0 among them, that hold something through the kills of their server: opens, locks, files without a name. Each works without a pause and finds out by
//! itself that the server was killed; then it does what a kernel does: it sends the request that was under way again, in its slot or with its xid, makes another session or introduces itself, claims
//! again what it had, and goes on.
//!
//! What must hold, whenever the kill came:
//!
//! - what a client has is given to nobody else, and every claim of it succeeds, unless it stayed away for longer than a lease: then others may have been given it, and it is told so;
//! - a create, a `mkdir`, a rename, a link, a removal happens once: none is lost, and none is told of what it did itself;
//! - of all that want a name one is told that he made it;
//! - a number that is counted under a lock loses no count;
//! - a file that is open without a name is read on;
//! - the grace ends soon behind the last one that had something to claim, or a lease behind it where some are of 4.0, which has no word for that.
//!
//! - [`session`]: one session, one slot, and what comes of a request when the server goes; [`owners`]: the same in 4.0.
//! - [`belief`]: what a client was told that it has.
//! - [`client`]: what it does with that, and how it comes back; [`steps`]: what each of its steps asks for.
//! - [`truth`]: what all clients together were told.
//! - [`run`]: the kills.

mod belief;
mod client;
mod owners;
pub mod run;
mod session;
mod steps;
mod truth;

/// Why a client does not go on.
#[derive(Debug)]
enum Trouble {
    /// The connection broke: what became of the request is unknown.
    Broken,
    /// The session is not there any more, so that the request was not carried out.
    SessionOver,
    /// A claim was refused to who was away for longer than a lease.
    Late,
    /// The server did or said what it must not.
    Violation(String),
    /// The run is over.
    Enough,
}

type Result<T> = std::result::Result<T, Trouble>;

fn violation<T>(said: impl Into<String>) -> Result<T> {
    Err(Trouble::Violation(said.into()))
}
