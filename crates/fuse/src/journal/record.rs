//! Records, as they are in memory.

use tally_base::{Generation, ObjectId};
use tally_vfs::ObjectRef;
use tally_vfs::locks::{Kind, Range};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::REST_BYTES_MAX;

/// The head of each, in the order of this machine.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    /// With what follows, bytes.
    len: u32,
    kind: u32,
    words: [u64; 7],
}

const RAW_BYTES: usize = size_of::<Raw>();
const _: () = assert!(RAW_BYTES == 64);

/// Who locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Locker {
    /// As the kernel names it.
    pub(crate) owner: u64,
    /// Through which open.
    pub(crate) fh: u64,
    /// As which process it is shown.
    pub(crate) pid: u32,
}

/// What of an open file the next commit has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    /// This verifier.
    Verifier(u64),
    /// Nothing helps: something may be lost.
    Lost,
    /// The same, and nothing is read or written there: something of it is another's by now, or not what was told.
    Gone,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// Whose it is, first of all.
    Mount { id: [u8; 16], about: &'a [u8] },
    /// What was agreed upon with the kernel.
    Agreed { can_resend: bool },
    /// Every number of an open is below this one.
    Numbered { next: u64 },
    /// A file was opened for this request, by this number.
    Opened { unique: u64, object: ObjectRef, fh: u64 },
    /// It is closed.
    Released { object: ObjectId, fh: u64 },
    /// A range was locked.
    Locked { object: ObjectRef, by: Locker, range: Range, kind: Kind },
    /// It is unlocked.
    Unlocked { object: ObjectId, owner: u64, range: Range },
    /// Something was written to an open file that a commit has to keep.
    Due { object: ObjectId, gives: Gives },
    /// A commit has kept all of it.
    Settled { object: ObjectId },
    /// All of all files is kept, and each request that was read is answered or left.
    EndsWell,
    /// A request appends here.
    Appends { unique: u64, offset: u64 },
    /// A request that was read and not carried out.
    Left { message: &'a [u8] },
    /// They are carried out by whoever reads this.
    TakenUp,
}

impl<'a> Entry<'a> {
    fn raw(&self) -> (u32, [u64; 7], &'a [u8]) {
        let words = |first: &[u64]| {
            let mut all = [0; 7];
            all.iter_mut().zip(first).for_each(|(to, from)| *to = *from);
            all
        };
        match *self {
            Self::Mount { id, about } => {
                let [high, low] = zerocopy::transmute!(id);
                (1, words(&[high, low]), about)
            }
            Self::Agreed { can_resend } => (2, words(&[can_resend.into()]), &[]),
            Self::Numbered { next } => (3, words(&[next]), &[]),
            Self::Opened { unique, object, fh } => (4, words(&[object.id.0, object.generation.0, fh, unique]), &[]),
            Self::Released { object, fh } => (5, words(&[object.0, fh]), &[]),
            Self::Locked { object, by, range, kind } => {
                let bits = u64::from(by.pid) << 1 | u64::from(kind == Kind::Write);
                let range = (range.first(), range.last());
                (6, words(&[object.id.0, object.generation.0, by.fh, by.owner, range.0, range.1, bits]), &[])
            }
            Self::Unlocked { object, owner, range } => (7, words(&[object.0, owner, range.first(), range.last()]), &[]),
            Self::Due { object, gives } => {
                let (how, verifier) = match gives {
                    Gives::Verifier(verifier) => (0, verifier),
                    Gives::Lost => (1, 0),
                    Gives::Gone => (2, 0),
                };
                (8, words(&[object.0, how, verifier]), &[])
            }
            Self::Settled { object } => (9, words(&[object.0]), &[]),
            Self::EndsWell => (10, words(&[]), &[]),
            Self::Appends { unique, offset } => (11, words(&[unique, offset]), &[]),
            Self::Left { message } => (12, words(&[]), message),
            Self::TakenUp => (13, words(&[]), &[]),
        }
    }

    pub(super) fn encoded(&self) -> Vec<u8> {
        let (kind, words, rest) = self.raw();
        let raw = Raw { len: (RAW_BYTES + rest.len()) as u32, kind, words };
        [raw.as_bytes(), rest].concat()
    }

    /// The first of those, and how long it is. Nothing: that is the end. One that is whole and not known is an error.
    pub(super) fn first(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, Unknown> {
        let Ok((raw, rest)) = Raw::read_from_prefix(bytes) else { return Ok(None) };
        if raw.len == 0 {
            // Room that nothing was written into.
            return Ok(None);
        }
        let rest_bytes = (raw.len as usize).checked_sub(RAW_BYTES).filter(|bytes| *bytes <= REST_BYTES_MAX);
        let Some(rest) = rest.get(..rest_bytes.ok_or(Unknown)?) else { return Ok(None) };
        Self::decode(raw, rest).map(|entry| Some((entry, raw.len as usize))).ok_or(Unknown)
    }

    fn decode(Raw { kind, words, .. }: Raw, rest: &'a [u8]) -> Option<Self> {
        let [a, b, c, d, e, f, bits] = words;
        let object = ObjectRef { id: ObjectId(a), generation: Generation(b) };
        let entry = match kind {
            1 => Self::Mount { id: zerocopy::transmute!([a, b]), about: rest },
            2 => Self::Agreed { can_resend: a != 0 },
            3 => Self::Numbered { next: a },
            4 => Self::Opened { unique: d, object, fh: c },
            5 => Self::Released { object: ObjectId(a), fh: b },
            6 => Self::Locked {
                object,
                by: Locker { owner: d, fh: c, pid: u32::try_from(bits >> 1).ok()? },
                range: Range::between(e, f)?,
                kind: if bits & 1 == 1 { Kind::Write } else { Kind::Read },
            },
            7 => Self::Unlocked { object: ObjectId(a), owner: b, range: Range::between(c, d)? },
            8 => {
                let gives = match b {
                    0 => Gives::Verifier(c),
                    1 => Gives::Lost,
                    _ => Gives::Gone,
                };
                Self::Due { object: ObjectId(a), gives }
            }
            9 => Self::Settled { object: ObjectId(a) },
            10 => Self::EndsWell,
            11 => Self::Appends { unique: a, offset: b },
            12 => Self::Left { message: rest },
            13 => Self::TakenUp,
            _ => return None,
        };
        Some(entry)
    }
}

/// A record of another version, or none.
#[derive(Debug, thiserror::Error)]
#[error("a record is not known")]
pub(super) struct Unknown;
