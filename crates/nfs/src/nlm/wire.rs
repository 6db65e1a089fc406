//! How calls of the lock manager and of the status monitor go over the wire: read with bounds, and written.
//!
//! ```text
//!  nlm4_lock   caller_name<1024> │ fh<> │ oh<1024> │ svid: 4 │ l_offset: 8 │ l_len: 8 (0: to the end)
//!  TEST        cookie<32> │ exclusive │ nlm4_lock
//!  LOCK        cookie<32> │ block │ exclusive │ nlm4_lock │ reclaim │ state: 4
//!  CANCEL      cookie<32> │ block │ exclusive │ nlm4_lock
//!  UNLOCK      cookie<32> │ nlm4_lock
//!  GRANTED     cookie<32> │ exclusive │ nlm4_lock              what we say to a client; it answers cookie │ stat
//!  FREE_ALL    caller_name<1024> │ state: 4
//!  SM_NOTIFY   mon_name<1024> │ state: 4
//! ```

use bytes::Bytes;
use tally_vfs::locks::{Kind, Range};

use super::{Verdict, procedure};
use crate::rpc::AcceptError;
use crate::xdr::{Decoder, Encoder, Garbage};

/// Longest name of a host, and of an owner.
pub const NAME_BYTES_MAX: usize = 1024;
/// Longest cookie: nobody sends more than eight bytes.
pub const COOKIE_BYTES_MAX: usize = 32;
/// Longest handle of NFSv3.
const HANDLE_BYTES_MAX: usize = 64;

/// One of a host's processes, by what the host calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Process<'a> {
    pub handle: &'a [u8],
    pub number: u32,
}

/// What somebody asks for: `nlm4_lock`, and what stands around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Asked<'a> {
    pub cookie: &'a [u8],
    pub host: &'a [u8],
    pub file: &'a [u8],
    pub process: Process<'a>,
    /// None: it ends behind the last byte that can be named.
    pub range: Option<Range>,
    pub kind: Kind,
}

/// What LOCK says besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// It waits where another one has the range.
    pub blocks: bool,
    /// It had this before our restart.
    pub is_reclaim: bool,
    /// The number of the host's start, 0 where it has none.
    pub state: u32,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Request<'a> {
    Nothing,
    Test(Asked<'a>),
    Lock(Asked<'a>, How),
    Cancel(Asked<'a>),
    Unlock(Asked<'a>),
    /// A call that is not carried out here, whatever it asks for: what it is told, and whether that is of a share.
    Refused(&'a [u8], Verdict, bool),
    FreeAll {
        state: u32,
    },
}

impl<'a> Request<'a> {
    /// Reads the arguments of a procedure.
    ///
    /// # Errors
    ///
    /// There is no such procedure, or these are no arguments of it.
    pub fn decode(number: u32, words: &mut Decoder<'a>) -> Result<Self, AcceptError> {
        Self::read(number, words)
            .map_err(|Garbage| AcceptError::GarbageArguments)?
            .ok_or(AcceptError::ProcedureUnavailable)
    }

    fn read(number: u32, words: &mut Decoder<'a>) -> Result<Option<Self>, Garbage> {
        Ok(Some(match number {
            procedure::NULL => Self::Nothing,
            procedure::TEST => {
                let (cookie, kind) = (cookie(words)?, kind(words)?);
                Self::Test(asked(words, cookie, kind)?)
            }
            procedure::LOCK | procedure::NM_LOCK => {
                let (cookie, blocks, kind) = (cookie(words)?, words.bool()?, kind(words)?);
                let asked = asked(words, cookie, kind)?;
                Self::Lock(asked, How { blocks, is_reclaim: words.bool()?, state: words.u32()? })
            }
            procedure::CANCEL => {
                let (cookie, _, kind) = (cookie(words)?, words.bool()?, kind(words)?);
                Self::Cancel(asked(words, cookie, kind)?)
            }
            procedure::UNLOCK => {
                let cookie = cookie(words)?;
                Self::Unlock(asked(words, cookie, Kind::Read)?)
            }
            procedure::GRANTED | procedure::SHARE | procedure::UNSHARE => {
                let Some((verdict, is_share)) = refusal(number) else { return Ok(None) };
                Self::Refused(cookie(words)?, verdict, is_share)
            }
            procedure::FREE_ALL => {
                words.opaque(NAME_BYTES_MAX)?;
                Self::FreeAll { state: words.u32()? }
            }
            _ => return Ok(None),
        }))
    }
}

/// What a procedure is told of a server that does not carry it out, and whether it is of a share.
#[must_use]
pub fn refusal(number: u32) -> Option<(Verdict, bool)> {
    Some(match number {
        procedure::TEST | procedure::LOCK | procedure::NM_LOCK => (Verdict::NoLocks, false),
        procedure::CANCEL | procedure::GRANTED => (Verdict::Denied, false),
        procedure::UNLOCK => (Verdict::Granted, false),
        procedure::SHARE => (Verdict::NoLocks, true),
        procedure::UNSHARE => (Verdict::Granted, true),
        _ => return None,
    })
}

/// What stands in front of all that a call asks for.
///
/// # Errors
///
/// It is none.
pub fn cookie<'a>(words: &mut Decoder<'a>) -> Result<&'a [u8], Garbage> {
    words.opaque(COOKIE_BYTES_MAX)
}

fn kind(words: &mut Decoder<'_>) -> Result<Kind, Garbage> {
    Ok(if words.bool()? { Kind::Write } else { Kind::Read })
}

fn asked<'a>(words: &mut Decoder<'a>, cookie: &'a [u8], kind: Kind) -> Result<Asked<'a>, Garbage> {
    let (host, file) = (words.opaque(NAME_BYTES_MAX)?, words.opaque(HANDLE_BYTES_MAX)?);
    let process = Process { handle: words.opaque(NAME_BYTES_MAX)?, number: words.u32()? };
    let range = range(words.u64()?, words.u64()?);
    Ok(Asked { cookie, host, file, process, range, kind })
}

/// Ends are inclusive (rules V31), and a length of 0 is one to the end.
fn range(offset: u64, length: u64) -> Option<Range> {
    let last = length.checked_sub(1).map_or(Some(u64::MAX), |more| offset.checked_add(more))?;
    Range::between(offset, last)
}

/// The length of a range, 0 where it goes to the end.
fn length(range: Range) -> u64 {
    if range.last() == u64::MAX { 0 } else { range.last() - range.first() + 1 }
}

/// `nlm4_res`, and of a share the sequence number that nobody reads.
#[must_use]
pub fn answer(cookie: &[u8], verdict: Verdict, is_share: bool) -> Encoder {
    let mut out = Encoder::new();
    out.opaque(cookie).u32(verdict as u32);
    if is_share {
        out.u32(0);
    }
    out
}

/// `nlm4_testres` of a range that another one has: what, and as what it is known.
#[must_use]
pub fn held(cookie: &[u8], (range, kind): (Range, Kind), by: Process<'_>) -> Encoder {
    let mut out = answer(cookie, Verdict::Denied, false);
    out.bool(kind == Kind::Write).u32(by.number).opaque(by.handle).u64(range.first()).u64(length(range));
    out
}

/// The arguments of GRANTED: what was asked for is had now.
#[must_use]
pub fn granted(cookie: &[u8], host: &[u8], file: &[u8], process: Process<'_>, (range, kind): (Range, Kind)) -> Bytes {
    let mut out = Encoder::new();
    out.opaque(cookie).bool(kind == Kind::Write).opaque(host).opaque(file).opaque(process.handle).u32(process.number);
    out.u64(range.first()).u64(length(range));
    out.into_vec().into()
}

/// What a client says to GRANTED: whether it takes it. Nothing, where that is no answer.
#[must_use]
pub fn is_taken(results: &Bytes) -> Option<bool> {
    let mut words = Decoder::new(results, 0);
    words.opaque(NAME_BYTES_MAX).ok()?;
    Some(words.u32().ok()? == Verdict::Granted as u32)
}

/// The arguments of SM_NOTIFY: the host of this name has started anew, with this number.
#[must_use]
pub fn notice(name: &[u8], state: u32) -> Bytes {
    let mut out = Encoder::new();
    out.opaque(name).u32(state);
    out.into_vec().into()
}

/// The number in such arguments.
///
/// # Errors
///
/// They are none.
pub fn noticed(words: &mut Decoder<'_>) -> Result<u32, Garbage> {
    words.opaque(NAME_BYTES_MAX)?;
    words.u32()
}

#[cfg(test)]
mod tests;
