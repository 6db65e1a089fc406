//! ONC RPC, MOUNT, NFSv3, NFSv4, and locks for version 3, over any [`tally_vfs::Vfs`].
//!
//! ```text
//!  serve/    sockets, workers, waiting, sending          (the only module that knows a socket)
//!  service   one request: which program, remembered or not, run, answered
//!  rpc/      records, call and reply headers             mount/   the MOUNT protocol
//!  xdr/      words and opaque data                       v3/      the 22 procedures of NFSv3
//!  v4/       compounds of NFSv4
//!  entry     from a handle to an object, under a rule
//!  handle    what a client holds for an object           replies  answers to retransmissions
//!  exports/  who may see what                            cred     whose ids count
//!  local/    whose a connection from this machine is        senders  which connections live that a pool's answers are of
//!  nlm       the lock manager's protocol                 rpcbind  telling where we listen
//!  repeats   whether a request was here before
//! ```

pub mod cred;
mod entry;
pub mod exports;
pub mod handle;
pub mod link;
pub mod local;
pub mod mount;
pub mod nlm;
mod numbers;
mod procedure;
pub mod repeats;
pub mod replies;
pub mod rpc;
pub mod rpcbind;
pub mod senders;
pub mod serve;
pub mod service;
pub mod stats;
pub mod v3;
pub mod v4;
pub mod xdr;
