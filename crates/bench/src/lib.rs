//! Benchmarks of any NFSv3 server, with the requests that real clients send, and a referee who watches the disks.
//!
//! A fast server is easily made: it answers before it has written. So no figure stands here without the physical work
//! that it caused, and without a verdict on whether the server keeps what its replies promise ([`referee`]). The client
//! is a small one of our own ([`wire`]), so that neither a mount nor root is needed, and its cost is next to
//! nothing; a mounted directory can be measured as well.
//!
//! - [`target`]: which export, and how it is found. [`client`]: who works on it. [`wire`]: the protocol.
//! - [`case`]: what is done. [`stage`]: one run of it, measured. [`run`]: all runs, from probe to clean-up.
//! - [`work`]: what the disks did meanwhile. [`referee`]: what follows from it.
//! - [`report`]: what remains, and how reports compare.
//!
//! It knows no server, not even ours: whoever has a server's own counters implements [`work::Watch`].

pub mod case;
pub mod client;
pub mod meter;
pub mod promise;
pub mod random;
pub mod referee;
pub mod report;
pub mod run;
pub mod stage;
pub mod target;
pub mod wire;
pub mod witness;
pub mod work;
