//! What the server knows of clients, for as long as it runs. Nothing here owns a thread, a socket or a clock: time and randomness are arguments, so
//! that a simulation can own them.

pub mod bounds;
mod clients;

pub use clients::{BootId, ClientId, Clients, Introduced, Introduction, LEASE, Principal, Unknown};
