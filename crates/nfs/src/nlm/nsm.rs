//! The status monitor's protocol, as far as servers and clients speak it with each other: SM_NOTIFY. What a host says of others, or asks to be told of them (SM_MON, SM_SIMU_CRASH), is nothing that
//! we would do for it.

use super::wire;
use crate::rpc::AcceptError;
use crate::xdr::{Decoder, Garbage};

/// RPC program number.
pub const PROGRAM: u32 = 100_024;
/// The only version there is.
pub const VERSION: u32 = 1;
/// The procedure by which a host says that it has started anew.
pub const NOTIFY: u32 = 6;

/// Longest datagram that is looked at: a call with the longest name.
pub const DATAGRAM_BYTES_MAX: usize = 2048;

/// What is asked for: nothing, or that a host has started anew, with this number.
///
/// # Errors
///
/// It is something else.
pub fn decode(procedure: u32, words: &mut Decoder<'_>) -> Result<Option<u32>, AcceptError> {
    match procedure {
        0 => Ok(None),
        NOTIFY => wire::noticed(words).map(Some).map_err(|Garbage| AcceptError::GarbageArguments),
        _ => Err(AcceptError::ProcedureUnavailable),
    }
}
