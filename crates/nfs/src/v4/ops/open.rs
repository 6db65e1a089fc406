//! OPEN (RFC 8881 §18.16): a file by its name, or by its handle, is found or made, and somebody has it open from then on.
//!
//! The order: what can be wrong with the request; the bounds of what is kept of it; the file system, which decides (rules V29); then the stateid, that
//! stands for what it has decided. No delegation is given yet, and nothing is reclaimed: no open outlives a start of the server.

use tally_vfs::{
    Access, Change, CreateHow, Deny, FsError, ObjectRef, Opened, Opening, Outcome, SetAttr, Share, ToOpen,
};

use super::super::attr::{self, AttrSet};
use super::super::compound::{Compound, Stop};
use super::super::pseudo::Node;
use super::super::state::bounds::OWNER_BYTES_MAX;
use super::super::state::{FileId, Granted, Opener, Stateid};
use super::super::status::Status;
use super::names::check_name;
use super::put_change;
use crate::entry::Target;
use crate::xdr::{Decoder, Encoder};

/// `OPEN4_RESULT_LOCKTYPE_POSIX`.
const LOCKS_AS_POSIX: u32 = 4;

/// Bits of `share_access` that say what the client would have of a delegation, and when (RFC 8881 §18.16.1, RFC 9754).
const WANTS: u32 = 0xFF00;
const SIGNALS: u32 = 0x0003_0000;
const WANTS_OF_MINOR_2: u32 = 0x0030_0000;
const WANTS_NONE: u32 = 0x0400;
const WANTS_CANCELLED: u32 = 0x0500;

/// `open_delegation_type4`.
const NO_DELEGATION: u32 = 0;
const NO_DELEGATION_AND_WHY: u32 = 3;
/// `why_no_delegation4`.
const NOT_WANTED: u32 = 0;
const NO_RESOURCE: u32 = 2;
const CANCELLED: u32 = 7;

/// How often an open is registered anew since its owner has closed files meanwhile, before the client is told to come again.
const LOOKS_MAX: u32 = 8;

/// `OPEN4args`.
struct Asked<'a> {
    share: Share,
    wants: u32,
    owner: &'a [u8],
    how: How,
    what: What<'a>,
}

/// `openflag4`.
enum How {
    Find,
    /// How, and which attributes the client names.
    Make(CreateHow, AttrSet),
}

/// `open_claim4`, as far as it opens something.
enum What<'a> {
    Name(&'a [u8]),
    /// The current handle's file.
    Handle,
    /// None of what there can be: it is told so.
    Nothing(Status),
}

impl<'a> Asked<'a> {
    fn decode(words: &mut Decoder<'a>, minor: u32) -> Result<Self, Status> {
        let _seqid = words.u32()?;
        let (access, deny) = (words.u32()?, words.u32()?);
        // Whose it is its session says.
        let (_client, owner) = (words.u64()?, words.opaque(OWNER_BYTES_MAX)?);
        let how = How::decode(words)?;
        let what = What::decode(words)?;
        let known = WANTS | SIGNALS | if minor > 1 { WANTS_OF_MINOR_2 } else { 0 };
        let share = share(access & !known, deny)?;
        Ok(Self { share, wants: access & WANTS, owner, how, what })
    }
}

/// Access, and what is denied to others.
pub(super) fn share(access: u32, deny: u32) -> Result<Share, Status> {
    let access = Access::from_bits(access).ok_or(Status::Inval)?;
    Ok(Share { access, deny: Deny::from_bits(deny).ok_or(Status::Inval)? })
}

impl How {
    fn decode(words: &mut Decoder<'_>) -> Result<Self, Status> {
        match words.u32()? {
            0 => return Ok(Self::Find),
            1 => {}
            _ => return Err(Status::BadXdr),
        }
        let none = AttrSet::default();
        Ok(match words.u32()? {
            0 => attr::settable(words).map(|(names, set)| Self::Make(CreateHow::Unchecked(set), names))?,
            1 => attr::settable(words).map(|(names, set)| Self::Make(CreateHow::Guarded(set), names))?,
            2 => Self::Make(CreateHow::Exclusive(words.u64()?), none),
            3 => {
                let verifier = words.u64()?;
                let (names, set) = attr::settable(words)?;
                Self::Make(CreateHow::ExclusiveWith(verifier, set), names)
            }
            _ => return Err(Status::BadXdr),
        })
    }
}

impl<'a> What<'a> {
    fn decode(words: &mut Decoder<'a>) -> Result<Self, Status> {
        Ok(match words.u32()? {
            0 => Self::Name(words.opaque(usize::MAX)?),
            // Nothing was there before this start that could be claimed again.
            1 => {
                let _delegation = words.u32()?;
                Self::Nothing(Status::NoGrace)
            }
            2 => {
                let (_stateid, _name) = (words.array::<16>()?, words.opaque(usize::MAX)?);
                Self::Nothing(Status::BadStateid)
            }
            3 => {
                let _name = words.opaque(usize::MAX)?;
                Self::Nothing(Status::NotSupp)
            }
            4 => Self::Handle,
            5 => {
                let _stateid = words.array::<16>()?;
                Self::Nothing(Status::BadStateid)
            }
            6 => Self::Nothing(Status::NotSupp),
            _ => return Err(Status::BadXdr),
        })
    }
}

pub(in super::super) fn open(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let asked = Asked::decode(words, compound.minor())?;
    let presence = compound.presence()?;
    if let What::Nothing(status) = asked.what {
        return Err(status.into());
    }
    // Who has not said that he reclaims nothing more asks for nothing new (RFC 8881 §18.51.3).
    if !presence.has_reclaimed() {
        return Err(Status::Grace.into());
    }
    let place = place_of(compound, &asked)?;
    let opens = compound.scene.house.opens();
    let mut opener = opens.opener(presence.client(), asked.owner)?;
    let opening = Opening { holder: opener.holder(), share: asked.share };
    let (opened, change) = carry_out(compound, &place, &asked, opening)?;
    let file = Target { object: opened.attr.object, ..place };
    let stateid = register(&file, &mut opener, opening)?;
    out.u32(stateid.seqid).raw(&stateid.other);
    put_change(out, change.as_ref());
    out.u32(LOCKS_AS_POSIX);
    attributes_set(&asked, &opened).encode(out);
    put_no_delegation(asked.wants, out);
    compound.current = Ok(Node::Object(file));
    compound.note_stateid(stateid);
    Ok(Status::Ok)
}

/// The directory, or the file itself.
fn place_of(compound: &Compound<'_>, asked: &Asked<'_>) -> Result<Target, Stop> {
    let node = compound.current()?;
    let name = match (&asked.what, &asked.how) {
        (What::Name(name), _) => {
            check_name(name)?;
            Some(*name)
        }
        (_, How::Find) => None,
        // A file that has a handle is there.
        (_, How::Make(..)) => return Err(Status::Inval.into()),
    };
    let changes = matches!(asked.how, How::Make(..)) || asked.share.access.has(Access::WRITE);
    let Some(target) = node.target() else {
        // Above the exports there are directories alone.
        return Err(match name {
            Some(name) if !changes => compound.tree().below(node, name).map_or_else(|status| status, |_| Status::IsDir),
            Some(_) => Status::RoFs,
            None => Status::IsDir,
        }
        .into());
    };
    if changes && target.rule.read_only {
        return Err(Status::RoFs.into());
    }
    // What a dataset is mounted on is a directory.
    if name.is_some_and(|name| target.child(name).is_some()) {
        return Err(Status::IsDir.into());
    }
    Ok(target.clone())
}

/// Asks the file system. With what it changed, or saw, of the directory.
fn carry_out(
    compound: &mut Compound<'_>,
    place: &Target,
    asked: &Asked<'_>,
    opening: Opening,
) -> Result<(Opened, Option<Change>), Stop> {
    let ctx = compound.ctx(place);
    let what = match (&asked.what, &asked.how) {
        (What::Name(name), How::Make(how, _)) => {
            compound.begin(place)?;
            let outcome = place.vfs.open(ctx, ToOpen::Made(place.object, name, how), opening);
            let (opened, changes) = compound.changed(as_told(compound, outcome))?;
            return Ok((opened, changes.into_iter().next()));
        }
        (What::Name(name), How::Find) => ToOpen::Named(place.object, name),
        _ => ToOpen::Itself(place.object),
    };
    // Nothing is changed, and nobody waits.
    let Outcome { result, changes, .. } = place.vfs.open(ctx, what, opening);
    Ok((result.map_err(|error| not_opened(error, compound.minor()))?, changes.into_iter().next()))
}
