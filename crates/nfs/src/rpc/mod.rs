//! ONC RPC version 2 (RFC 5531) over TCP's record marking: finding requests in a stream of bytes, reading
//! their headers, writing the headers of replies; and calls in the other direction, with what is replied to them.

mod call;
mod outgoing;
mod record;
mod reply;

pub use call::{Call, Identity, Refusal};
pub(crate) use call::{GROUPS_MAX, MACHINE_NAME_MAX};
pub use outgoing::{Caller, Calls, Matched, Outgoing, Returned, UNMATCHED_MAX, is_reply};
pub use record::{Assembler, RECORD_BYTES_MAX, RecordError};
pub use reply::{AcceptError, AuthProblem, Reply};
