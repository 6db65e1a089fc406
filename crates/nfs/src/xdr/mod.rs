//! XDR (RFC 4506): big-endian words, opaque data padded to four bytes. The decoder never trusts a length.

mod decode;
mod encode;

pub use decode::{Decoder, Garbage};
pub use encode::{Encoder, Shared};
