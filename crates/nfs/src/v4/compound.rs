//! COMPOUND (RFC 7530 §15.2): operations one after another, up to the first that is not OK.
//!
//! ```text
//!  arguments   tag │ minor version │ count │ number, arguments │ number, arguments │ …
//!  results     status │ tag │ count │ number, status, results │ … │ number, status      the last one's status is the compound's
//! ```
//!
//! An operation decodes its arguments when its turn comes and appends its results: there is no tree of all arguments, and one that cannot be decoded
//! fails alone. What follows an operation that failed is not looked at.

use tally_base::{DatasetId, PoolGuid};

use super::house::House;
use super::op::{self, Asked, Op};
use super::ops;
use super::pseudo::{Node, Tree};
use super::status::Status;
use crate::entry::Entry;
use crate::exports::Exports;
use crate::link::Link;
use crate::rpc::{Call, Identity};
use crate::v3::READ_BYTES_MAX;
use crate::xdr::{Decoder, Encoder, Garbage};

/// Longest tag, bytes.
const TAG_BYTES_MAX: usize = 1024;
/// Most operations in one compound.
const OPS_MAX: u32 = 128;
/// Longest results: a READ of as much as may be asked for, and what stands around it.
const REPLY_BYTES_MAX: usize = READ_BYTES_MAX as usize + (64 << 10);
/// What an operation writes around data, and what a short one behind it may take.
const END_BYTES: usize = 1024;

/// A compound that is carried out.
pub(super) struct Compound<'a> {
    pub(super) entry: Entry<'a>,
    pub(super) exports: &'a dyn Exports,
    pub(super) link: &'a Link,
    pub(super) identity: &'a Identity,
    pub(super) house: &'a House,
    pub(super) current: Option<Node>,
    pub(super) saved: Option<Node>,
}

/// What came of a compound.
pub struct Done {
    /// Its results.
    pub results: Encoder,
    /// The dataset whose rule asks for more than the connection can show: its client is told that it may not, and the reason is in the log.
    pub too_weak: Option<(PoolGuid, DatasetId)>,
}

/// Carries out a COMPOUND.
pub fn run(call: &Call, link: &Link, exports: &dyn Exports, house: &House) -> Result<Done, Garbage> {
    let mut words = call.arguments();
    let tag = words.opaque(TAG_BYTES_MAX)?;
    let (minor, count) = (words.u32()?, words.u32()?);
    let mut out = Encoder::new();
    out.u32(Status::Ok as u32).opaque(tag);
    let count_at = out.len();
    out.u32(0);
    let refused = match (minor, count) {
        (1.., _) => Some(Status::MinorVersMismatch),
        (0, ..=OPS_MAX) => None,
        _ => Some(Status::Resource),
    };
    if let Some(status) = refused {
        out.replace_u32(0, status as u32);
        return Ok(Done { results: out, too_weak: None });
    }
    let entry = Entry::new(exports, link, &call.identity);
    let mut compound = Compound { entry, exports, link, identity: &call.identity, house, current: None, saved: None };
    let (mut done, mut status) = (0, Status::Ok);
    while done < count && status == Status::Ok {
        status = compound.step(&mut words, &mut out);
        done += 1;
    }
    out.replace_u32(0, status as u32).replace_u32(count_at, done);
    Ok(Done { results: out, too_weak: compound.entry.too_weak() })
}

impl Compound<'_> {
    /// The next operation, and its status. What it wrote before it failed goes.
    fn step(&mut self, words: &mut Decoder<'_>, out: &mut Encoder) -> Status {
        let number = words.u32();
        let asked = number.map_or(Asked::Illegal, op::asked);
        out.u32(number.ok().filter(|_| asked != Asked::Illegal).unwrap_or(op::ILLEGAL));
        let status_at = out.len();
        out.u32(Status::Ok as u32);
        let outcome = match asked {
            Asked::For(op) => self.perform(op, words, out),
            Asked::NotSupported => Err(Status::NotSupp),
            Asked::Illegal if number.is_err() => Err(Status::BadXdr),
            Asked::Illegal => Err(Status::OpIllegal),
        };
        match outcome {
            // What all operations together may answer (rules V35): this one alone would have had room.
            Ok(status) if out.len() <= REPLY_BYTES_MAX => {
                out.replace_u32(status_at, status as u32);
                status
            }
            Ok(_) => take_back(out, status_at, Status::Resource),
            Err(status) => take_back(out, status_at, status),
        }
    }

    /// What it did is told with the status that this gives; of what failed the status alone.
    fn perform(&mut self, op: Op, words: &mut Decoder<'_>, out: &mut Encoder) -> Result<Status, Status> {
        match op {
            Op::PutFh => ops::handle::put(self, words),
            Op::PutRootFh | Op::PutPubFh => ops::handle::put_root(self),
            Op::GetFh => ops::handle::get(self, out),
            Op::SaveFh => ops::handle::save(self),
            Op::RestoreFh => ops::handle::restore(self),
            Op::Lookup => ops::names::lookup(self, words),
            Op::LookupP => ops::names::lookup_parent(self),
            Op::SecInfo => ops::names::security(self, words, out),
            Op::ReadLink => ops::names::read_link(self, out),
            Op::Access => ops::attrs::access(self, words, out),
            Op::GetAttr => ops::attrs::get(self, words, out),
            Op::Verify => ops::attrs::verify(self, words, true),
            Op::NVerify => ops::attrs::verify(self, words, false),
            Op::ReadDir => ops::listing::read(self, words, out),
            Op::SetClientId => return ops::clients::introduce(self, words, out),
            Op::SetClientIdConfirm => ops::clients::confirm(self, words),
            Op::Renew => ops::clients::renew(self, words),
            Op::Read => ops::data::read(self, words, out),
        }?;
        Ok(Status::Ok)
    }

    /// How much an operation may answer with, bytes, if it is one that takes what it gets.
    pub(super) fn room(out: &Encoder) -> u32 {
        u32::try_from(REPLY_BYTES_MAX.saturating_sub(out.len() + END_BYTES)).expect("replies are short")
    }

    /// What stands above the exports, as this client sees it.
    pub(super) fn tree(&self) -> Tree<'_> {
        Tree { exports: self.exports, entry: &self.entry, client: self.link.peer().ip() }
    }

    /// What the current handle names.
    pub(super) fn current(&self) -> Result<&Node, Status> {
        self.current.as_ref().ok_or(Status::NoFileHandle)
    }
}

/// An operation failed: its status is all that is told of it.
fn take_back(out: &mut Encoder, status_at: usize, status: Status) -> Status {
    out.truncate(status_at);
    out.u32(status as u32);
    status
}
