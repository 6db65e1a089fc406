//! How much clients may make the server remember (rules V35). Each bound is asked before anything is allocated, and a client's own before those of
//! all, so that who has no measure meets his own.

/// Most confirmed clients, of all minor versions together.
pub const CLIENTS_MAX: usize = 4096;
/// Most introductions that wait to be confirmed.
pub const WAITING_MAX: usize = 1024;
/// Most of either from one address.
pub const OF_ADDRESS_MAX: usize = 64;
