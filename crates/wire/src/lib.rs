//! NFSv4.0, 4.1 and 4.2 as they go over the wire, for tests: owned types with encoders and decoders, generated from the XDR that the RFCs print
//! and, where they print none, from ours ([x/](../x)), by `cargo xtask xdr`.
//!
//! The server's codec is written by hand, since it borrows, and decodes an operation when its turn comes. What a hand gets wrong once it
//! gets wrong in the tests as well, if they are by the same hand; so tests ask here.
//!
//! ```text
//!  nfs4        the types, a call of one of three macros each: generated, and not to be touched
//!  macros      how a struct, an enumeration, a union is encoded, decoded, drawn
//!  codec       the same of numbers, opaque data, lists
//!  attributes  bitmaps, and `fattr4`, of which XDR knows only that it is opaque
//!  check       what must hold of every type
//!  dice        where random values come from
//!  ask         operations in short words
//!  told        what is looked at of their results
//! ```
//!
//! Decoding is strict: bounds, padding, booleans, members of enumerations; [`decode`] lets nothing be left over. **Encoding is not**: a test may
//! send what is too long.

pub mod ask;
mod attributes;
mod check;
mod codec;
mod dice;
mod macros;
#[rustfmt::skip]
#[allow(missing_docs, clippy::enum_variant_names, clippy::large_enum_variant)]
pub mod nfs4;
mod told;

pub use attributes::{bitmap, numbers};
pub use check::Kind;
pub use codec::{List, Opaque, Undecodable, Xdr, decode, encode};
pub use dice::Dice;
pub use told::{Cookie, Told};
