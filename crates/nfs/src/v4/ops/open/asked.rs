//! What an OPEN asks for, and what can be wrong with that by itself.

use tally_vfs::{Access, CreateHow, Delegation, Deny, SetAttr, Share};

use crate::v4::attr::{self, AttrSet, Called, Dialect, ToSet};
use crate::v4::compound::Compound;
use crate::v4::state::bounds::OWNER_BYTES_MAX;
use crate::v4::state::{ClientId, Keeps, Stateid};
use crate::v4::status::Status;
use crate::xdr::Decoder;

/// Bits of `share_access` that say what the client would have of a delegation, and when (RFC 8881 §18.16.1, RFC 9754).
const WANTS: u32 = 0xFF00;
const SIGNALS: u32 = 0x0003_0000;
/// A delegation under which it sets the file's times itself, and one in the place of an open (RFC 9754 §5 and §4).
const WANTS_TIMES: u32 = 0x0010_0000;
const WANTS_EITHER: u32 = 0x0020_0000;

/// `OPEN4args`.
pub(super) struct Asked<'a> {
    /// Of minor version 0: in its owner's order.
    pub(super) seqid: u32,
    access: u32,
    deny: u32,
    /// Who it is in minor version 0; else his session says.
    pub(super) client: ClientId,
    pub(super) owner: &'a [u8],
    /// An error is no matter of how it is encoded.
    how: Result<How, Status>,
    what: What<'a>,
}

/// The same, of which nothing is wrong by itself.
pub(super) struct Wanted<'a> {
    pub(super) share: Share,
    pub(super) wants: u32,
    /// Whether a delegation is to be one under which its client sets the times, and to stand for the open as well.
    pub(super) wants_times: bool,
    pub(super) wants_either: bool,
    pub(super) owner: &'a [u8],
    pub(super) how: How,
    pub(super) what: What<'a>,
}

/// `openflag4`.
pub(super) enum How {
    Find,
    /// How, which attributes the client names, and whom it calls by name.
    Make(CreateHow, AttrSet, Called),
}

/// `open_claim4`, as far as it opens something.
pub(super) enum What<'a> {
    Name(&'a [u8]),
    /// The current handle's file.
    Handle,
    /// The same, which this owner had open before a restart of the server, and its client was given so to keep.
    Again(Option<Keeps>),
    /// The file of a delegation, which its client has opened without a word: by its name, or the current handle's.
    Kept(Stateid, Option<&'a [u8]>),
    /// None of what there can be: it is told so.
    Nothing(Status),
}

impl<'a> Asked<'a> {
    pub(super) fn decode(words: &mut Decoder<'a>, dialect: Dialect<'_>) -> Result<Self, Status> {
        let minor = dialect.minor;
        let (seqid, access, deny) = (words.u32()?, words.u32()?, words.u32()?);
        let (client, owner) = (ClientId(words.u64()?), words.opaque(OWNER_BYTES_MAX)?);
        let how = match How::decode(words, dialect) {
            Err(Status::BadXdr) => return Err(Status::BadXdr),
            how => how,
        };
        Ok(Self { seqid, access, deny, client, owner, how, what: What::decode(words, minor)? })
    }

    /// What is asked for, if it can be.
    pub(super) fn check(self, minor: u32) -> Result<Wanted<'a>, Status> {
        let Self { access, deny, owner, how, what, .. } = self;
        if let What::Nothing(status) = what {
            return Err(status);
        }
        let known = match minor {
            0 => 0,
            1 => WANTS | SIGNALS,
            _ => WANTS | SIGNALS | WANTS_TIMES | WANTS_EITHER,
        };
        let (share, wants) = (share(access & !known, deny)?, access & known);
        Ok(Wanted {
            share,
            wants: wants & WANTS,
            wants_times: wants & WANTS_TIMES != 0,
            wants_either: wants & WANTS_EITHER != 0,
            owner,
            how: how?,
            what,
        })
    }
}

/// Access, and what is denied to others.
pub(in crate::v4::ops) fn share(access: u32, deny: u32) -> Result<Share, Status> {
    let access = Access::from_bits(access).ok_or(Status::Inval)?;
    Ok(Share { access, deny: Deny::from_bits(deny).ok_or(Status::Inval)? })
}

impl Wanted<'_> {
    /// A persistent session has a better way to make a file once than a verifier alone (RFC 8881 §18.16.3).
    pub(super) fn check_session(&self, compound: &Compound<'_>) -> Result<(), Status> {
        let is_by_verifier = matches!(self.how, How::Make(CreateHow::Exclusive(_), ..));
        let is_persistent = compound.guard().is_some_and(|guard| guard.mark().is_some());
        if is_by_verifier && is_persistent { Err(Status::Inval) } else { Ok(()) }
    }

    /// Which attributes were set: those that the client gave, where the file was made; where it was there, its size if that was to be nothing.
    pub(super) fn attributes_set(&self, is_new: bool) -> AttrSet {
        match &self.how {
            How::Find => AttrSet::default(),
            How::Make(CreateHow::Unchecked(set), names, _) if !is_new => {
                if set.size == Some(0) {
                    names.size_alone()
                } else {
                    AttrSet::default()
                }
            }
            How::Make(_, names, _) => *names,
        }
    }
}

impl How {
    fn decode(words: &mut Decoder<'_>, dialect: Dialect<'_>) -> Result<Self, Status> {
        match words.u32()? {
            0 => return Ok(Self::Find),
            1 => {}
            _ => return Err(Status::BadXdr),
        }
        match words.u32()? {
            0 => Self::given(attr::given(words, dialect)?, CreateHow::Unchecked),
            1 => Self::given(attr::given(words, dialect)?, CreateHow::Guarded),
            2 => Ok(Self::Make(CreateHow::Exclusive(words.u64()?), AttrSet::default(), Called::default())),
            3 if dialect.minor > 0 => {
                let verifier = words.u64()?;
                Self::given(attr::given_exclusively(words, dialect)?, |set| CreateHow::ExclusiveWith(verifier, set))
            }
            _ => Err(Status::BadXdr),
        }
    }

    fn given((names, set, called): ToSet, how: impl FnOnce(SetAttr) -> CreateHow) -> Result<Self, Status> {
        Ok(Self::Make(how(set), names, called))
    }
}

impl<'a> What<'a> {
    fn decode(words: &mut Decoder<'a>, minor: u32) -> Result<Self, Status> {
        Ok(match words.u32()? {
            0 => Self::Name(words.opaque(usize::MAX)?),
            1 => {
                let had = |kind, times| Some(Keeps { kind, times });
                Self::Again(match words.u32()? {
                    1 => had(Delegation::Read, false),
                    2 => had(Delegation::Write, false),
                    4 if minor > 1 => had(Delegation::Read, false),
                    5 if minor > 1 => had(Delegation::Write, true),
                    _ => None,
                })
            }
            2 => {
                let (stateid, name) = (Stateid::from_wire(words.array()?), words.opaque(usize::MAX)?);
                if minor == 0 { Self::Nothing(Status::BadStateid) } else { Self::Kept(stateid, Some(name)) }
            }
            3 => {
                let _name = words.opaque(usize::MAX)?;
                Self::Nothing(Status::NotSupp)
            }
            4.. if minor == 0 => return Err(Status::BadXdr),
            4 => Self::Handle,
            5 => Self::Kept(Stateid::from_wire(words.array()?), None),
            6 => Self::Nothing(Status::NotSupp),
            _ => return Err(Status::BadXdr),
        })
    }
}
