//! A reply, ready for the socket: record mark, header, results.
//!
//! ```text
//!  byte 0      4     8       12          16                24       28
//!  ┌──────┬─────┬───────┬──────────┬─────────────────┬────────┬─────────
//!  │ mark │ xid │ REPLY │ ACCEPTED │ verifier: 0, 0  │ status │ results      accepted
//!  ├──────┼─────┼───────┼──────────┼────────┬────────┴────────┴─────────
//!  │ mark │ xid │ REPLY │ DENIED   │ reason │ details                      denied
//!  └──────┴─────┴───────┴──────────┴────────┴───────────────────────────
//! ```

use std::io::IoSlice;

use bytes::Bytes;

use crate::xdr::{Encoder, Shared};

const REPLY: u32 = 1;
const ACCEPTED: u32 = 0;
const DENIED: u32 = 1;
const LAST_FRAGMENT: u32 = 1 << 31;
/// What stands before the results of a call that was carried out.
const HEAD_BYTES: usize = 28;
/// The largest block that a piece of data can be a part of.
const BLOCK_BYTES_MAX: usize = 1 << 20;
/// Data below this is copied where its reply has to wait: a READ of one byte would hold a block.
const COPIED_BYTES_MAX: usize = 64 << 10;
/// A reply where it waits, in a queue that may have twice the room it needs, and what its pieces cost the allocator.
const PLACE_BYTES: usize = 2 * size_of::<Reply>() + 64;

/// Why an accepted call was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptError {
    /// We do not have this program.
    ProgramUnavailable,
    /// We have it in these versions.
    ProgramMismatch {
        /// Lowest version.
        low: u32,
        /// Highest version.
        high: u32,
    },
    /// The program has no such procedure.
    ProcedureUnavailable,
    /// The arguments cannot be decoded.
    GarbageArguments,
    /// Something of ours broke.
    SystemError,
}

/// Why a credential was not accepted (RFC 5531 §9, `auth_stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthProblem {
    /// It cannot be decoded.
    BadCredential = 1,
    /// A flavor we do not speak.
    RejectedCredential = 2,
    /// The verifier cannot be decoded.
    BadVerifier = 3,
    /// It asks for more trust than there is in where it comes from.
    TooWeak = 5,
}

/// Bytes for the socket. Cloning shares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    words: Bytes,
    /// Where between the words bytes of files stand.
    shared: Shared,
    /// It holds no block for a small part of it.
    has_let_go: bool,
    /// It is a call of ours.
    is_call: bool,
}

impl Reply {
    /// The results of a procedure that was carried out, whatever its own status says.
    #[must_use]
    pub fn success(xid: u32, results: Encoder) -> Self {
        let bytes = results.len();
        let (own, mut shared) = results.into_parts();
        let mut words = Encoder::with_capacity(HEAD_BYTES + own.len());
        words.u32(mark(HEAD_BYTES - 4 + bytes));
        words.u32(xid).u32(REPLY).u32(ACCEPTED).u64(0).u32(0).raw(&own);
        shared.iter_mut().for_each(|(at, _)| *at += HEAD_BYTES);
        Self { words: words.into_vec().into(), shared, has_let_go: false, is_call: false }
    }

    /// A call that was understood and not carried out.
    #[must_use]
    pub fn accept_error(xid: u32, error: AcceptError) -> Self {
        Self::from_words(xid, |words| {
            words.u32(ACCEPTED).u64(0);
            match error {
                AcceptError::ProgramUnavailable => words.u32(1),
                AcceptError::ProgramMismatch { low, high } => words.u32(2).u32(low).u32(high),
                AcceptError::ProcedureUnavailable => words.u32(3),
                AcceptError::GarbageArguments => words.u32(4),
                AcceptError::SystemError => words.u32(5),
            };
        })
    }

    /// Another version of RPC itself: we speak 2.
    #[must_use]
    pub fn rpc_mismatch(xid: u32) -> Self {
        Self::from_words(xid, |words| {
            words.u32(DENIED).u32(0).u32(2).u32(2);
        })
    }

    /// A credential that is not accepted.
    #[must_use]
    pub fn auth_error(xid: u32, problem: AuthProblem) -> Self {
        Self::from_words(xid, |words| {
            words.u32(DENIED).u32(1).u32(problem as u32);
        })
    }

    fn from_words(xid: u32, fill: impl FnOnce(&mut Encoder)) -> Self {
        let mut words = Encoder::new();
        words.u32(xid).u32(REPLY);
        fill(&mut words);
        Self::marked(words)
    }

    /// A call of ours: it goes the way that replies go.
    pub(super) fn of_call(words: Encoder) -> Self {
        Self { is_call: true, ..Self::marked(words) }
    }

    fn marked(words: Encoder) -> Self {
        let mut marked = Encoder::with_capacity(4 + words.len());
        marked.u32(mark(words.len())).raw(&words.into_vec());
        Self { words: marked.into_vec().into(), shared: Shared::new(), has_let_go: true, is_call: false }
    }

    /// Whether it is a call of ours, and no reply.
    #[must_use]
    pub fn is_call(&self) -> bool {
        self.is_call
    }

    /// Bytes on the wire, the mark included.
    #[must_use]
    pub fn wire_bytes(&self) -> usize {
        self.words.len() + self.shared_bytes()
    }

    fn shared_bytes(&self) -> usize {
        self.shared.iter().map(|(_, piece)| piece.len()).sum()
    }

    /// Bytes of memory that it holds, at most: the words, the reply itself where it waits, its data, and the blocks that
    /// the data's ends are parts of.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let pinned = self.shared.iter().any(|(_, piece)| piece.len() >= COPIED_BYTES_MAX);
        let pinned = if pinned { 2 * BLOCK_BYTES_MAX } else { 0 };
        PLACE_BYTES + self.words.len() * 5 / 4 + self.shared_bytes() + pinned
    }

    /// It will have to wait for its client: lets go of the blocks that it holds for a small part of them.
    pub fn let_go_of_blocks(&mut self) {
        if std::mem::replace(&mut self.has_let_go, true) {
            return;
        }
        for (_, piece) in self.shared.iter_mut().filter(|(_, piece)| piece.len() < COPIED_BYTES_MAX) {
            *piece = Bytes::copy_from_slice(piece);
        }
    }

    /// Whether no bytes of a file are in it: such replies are small and may be remembered.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.shared.is_empty()
    }

    /// The pieces from byte `skip` on, for a gathered write.
    pub fn slices<'a>(&'a self, mut skip: usize, into: &mut Vec<IoSlice<'a>>) {
        let mut add = |piece: &'a [u8]| {
            let rest = piece.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(piece.len());
            if !rest.is_empty() {
                into.push(IoSlice::new(rest));
            }
        };
        let mut from = 0;
        for (at, piece) in &self.shared {
            add(&self.words[from..*at]);
            add(piece);
            from = *at;
        }
        add(&self.words[from..]);
    }
}

/// A record's mark: one fragment. Replies are bounded by what READ and READDIR may ask for.
fn mark(bytes: usize) -> u32 {
    u32::try_from(bytes).ok().filter(|bytes| *bytes < LAST_FRAGMENT).expect("replies stay far below 2 GiB")
        | LAST_FRAGMENT
}

#[cfg(test)]
mod tests;
