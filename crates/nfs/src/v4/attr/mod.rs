//! Attributes (RFC 7530 §5, RFC 8881 §5, RFC 7862 §12): which there are, and their values.
//!
//! ```text
//!  bitmap   count │ word 0: attributes 0 to 31 │ word 1: 32 to 63 │ …
//!  fattr4   bitmap │ bytes │ values, in the order of their numbers
//! ```

mod set;
mod settable;
mod values;

pub(super) use set::{
    AttrSet, RDATTR_ERROR, SIZE, TIME_DELEG_ACCESS, TIME_DELEG_MODIFY, check_comparable, check_readable,
};
pub(super) use settable::{Called, Dialect, ToSet, VALUES_BYTES_MAX, given, given_exclusively, kept_time, settable};
pub(super) use values::{Subject, are_values, encode, encode_error};
