//! From XDR's language (RFC 4506 §6), as RFCs print it, to Rust: what rpcgen is for C. `cargo xtask xdr` runs it, and what it writes is
//! committed, so nothing of this is in a build of anything else.
//!
//! ```text
//!  .x ─▶ tokens ─▶ parse: constants and types, in their order ─▶ rust: calls of the macros of `tally-wire`, one a type
//! ```
//!
//! How a struct, an enumeration or a union is encoded is said there, once, by macros; so what is written here is a table that can be read
//! beside the RFC. Crates that read `.x` were looked at: one only decodes, one has needed an abandoned codec since 2017, one says of itself that it does
//! not know all of the language.
//!
//! A text that extends another says in prose what is to be added to an enumeration or a union. Here a definition of one that is
//! there is added to it.

mod names;
mod parse;
mod rust;
mod tokens;

pub use parse::Definitions;
pub use rust::write;
