//! Stateids: by which name a client asks for what it holds, and whether it may (RFC 8881 §8.2, RFC 7530 §9.1.4; rules V19).
//!
//! ```text
//!  byte 0        4        8        12       16
//!  ┌────────┬────────┬────────┬────────┐
//!  │ seqid  │ boot   │ index  │ tag    │
//!  └────────┴────────┴────────┴────────┘
//! ```
//!
//! Numbers are big-endian. The seqid is 1 at first, and one more with each change; behind the last comes 1 again, as 0 says "the present one" in
//! sessions. The index is a place in a table, so nothing has to be looked for. Places are used again: the tag is a keyed hash of the place and of how
//! often it was used, so that a stateid of who had the place before names nothing, and a guess succeeds once in 2^32. It keeps nobody out by itself: the
//! client is asked for as well.
//!
//! ```text
//!  D6, asked from above                               │ 4.0                          │ in sessions
//!  ───────────────────────────────────────────────────┼──────────────────────────────┼──────────────────────────────
//!  a  bytes 4..16 all zero or all one: see `special`  │ BAD_STATEID                  │ BAD_STATEID
//!  b  of another start of the server                  │ STALE_STATEID                │ BAD_STATEID
//!  c  nothing at that place, or with another tag      │ BAD_STATEID                  │ BAD_STATEID
//!     which is that of one whose client is gone, the  │ EXPIRED                      │ BAD_STATEID
//!     last one there of which that is so              │                              │
//!  d  of the other minor versions                     │ BAD_STATEID                  │ BAD_STATEID
//!  e  of another client than the session's            │ no session: not asked        │ BAD_STATEID
//!  f  of another file than the current handle's       │ BAD_STATEID                  │ BAD_STATEID
//!  g  of another type than the operation's            │ BAD_STATEID                  │ BAD_STATEID
//!  h  revoked                                         │ EXPIRED, ADMIN_REVOKED, DELEG_REVOKED
//!     of a mount that is over (rules V37)             │ ADMIN_REVOKED, as it is about to be
//!  i  with seqid 0                                    │ OLD_STATEID                  │ what it names, as it is
//!  j  with an older seqid                             │ OLD_STATEID                  │ OLD_STATEID
//!  k  with a newer one                                │ BAD_STATEID                  │ BAD_STATEID
//!  l  with the present one                            │ what it names                │ what it names
//! ```

use tally_base::{DatasetId, PoolGuid, Rng};
use tally_vfs::{MountNumber, ObjectRef, Vfs};

use super::places::Places;
use super::{BootId, ClientId};
use crate::v4::status::Status;

/// `stateid4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Stateid {
    pub seqid: u32,
    pub other: [u8; 12],
}

/// What a stateid says that names no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Nobody has opened anything: by mode, and as denies allow.
    Anonymous,
    /// The same, and a READ goes past denies if the server likes.
    ReadBypass,
    /// In sessions: the one that the last operation of this compound gave.
    Current,
}

impl Stateid {
    /// Its length on the wire.
    pub const BYTES: usize = 16;
    /// What CLOSE gives in sessions: no operation takes it (RFC 8881 §18.2.4).
    pub const INVALID: Self = Self { seqid: u32::MAX, other: [0; 12] };

    /// Of no start of the server: what an OPEN of a session that is dead is answered with.
    pub const OF_THE_DEAD: Self = Self { seqid: 1, other: [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0] };

    /// Decodes it.
    #[must_use]
    pub fn from_wire(bytes: [u8; Self::BYTES]) -> Self {
        let [a, b, c, d, other @ ..] = bytes;
        Self { seqid: u32::from_be_bytes([a, b, c, d]), other }
    }

    /// Encodes it.
    #[must_use]
    pub fn to_wire(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.seqid.to_be_bytes());
        bytes[4..].copy_from_slice(&self.other);
        bytes
    }

    /// What it says if it names no state; none if it may name one. Of those that could say something the others are BAD_STATEID, whoever is asked
    /// (RFC 8881 §8.2.3, RFC 7530 §9.1.4.3).
    pub fn special(self, minor: u32) -> Result<Option<Special>, Status> {
        match (self.seqid, self.is_reserved(), minor) {
            (_, false, _) => Ok(None),
            (0, ..) if self.other == [0; 12] => Ok(Some(Special::Anonymous)),
            (u32::MAX, ..) if self.other == [0xff; 12] => Ok(Some(Special::ReadBypass)),
            (1, _, 1..) if self.other == [0; 12] => Ok(Some(Special::Current)),
            _ => Err(Status::BadStateid),
        }
    }

    fn is_reserved(self) -> bool {
        self.other == [0; 12] || self.other == [0xff; 12]
    }

    fn word(self, at: usize) -> u32 {
        u32::from_be_bytes(self.other[at..at + 4].try_into().expect("four bytes of twelve"))
    }

    /// Of which start of the server it is.
    fn boot(self) -> BootId {
        BootId(self.word(0))
    }

    /// Where to look for what it names.
    pub(super) fn index(self) -> u32 {
        self.word(4)
    }

    fn tag(self) -> u32 {
        self.word(8)
    }
}

/// The seqid behind this one.
pub(super) fn next_seqid(seqid: u32) -> u32 {
    seqid.checked_add(1).unwrap_or(1)
}

/// A dataset for as long as it is mounted: what clients have open of it ends with that, as the file system knows nothing of it behind that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Mounted {
    pub pool: PoolGuid,
    pub dataset: DatasetId,
    pub mount: MountNumber,
}

impl Mounted {
    /// This one.
    #[must_use]
    pub fn of(vfs: &dyn Vfs) -> Self {
        Self { pool: vfs.pool(), dataset: vfs.dataset(), mount: vfs.mount() }
    }
}

/// A file, wherever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct FileId {
    pub of: Mounted,
    pub object: ObjectRef,
}

impl FileId {
    /// An object of this dataset.
    #[must_use]
    pub fn of(vfs: &dyn Vfs, object: ObjectRef) -> Self {
        Self { of: Mounted::of(vfs), object }
    }

    /// Whether both are one file, also where it was mounted anew between.
    fn is_same(&self, other: &Self) -> bool {
        (self.of.pool, self.of.dataset, self.object) == (other.of.pool, other.of.dataset, other.object)
    }
}

/// Why state was taken from a client that had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// Its lease was over, and it was in somebody's way: EXPIRED.
    Expired,
    /// Whoever runs the server wanted it so: ADMIN_REVOKED.
    Admin,
    /// A delegation that did not come back: DELEG_REVOKED.
    Recalled,
}

impl Revoked {
    /// How many reasons there are.
    pub(super) const COUNT: usize = 3;

    /// What SEQUENCE says for as long as a client has something left of that which it has not freed: of some of its state, and of all.
    pub(super) const FLAGS: [[u32; 2]; Self::COUNT] = [[0x10, 0x08], [0x20; 2], [0x40; 2]];

    pub(super) fn status(self) -> Status {
        match self {
            Self::Expired => Status::Expired,
            Self::Admin => Status::AdminRevoked,
            Self::Recalled => Status::DelegRevoked,
        }
    }
}

/// What makes stateids of this start of the server that nobody else can make.
pub(super) struct Seal {
    boot: BootId,
    key: [u8; 32],
}

impl Seal {
    pub(super) fn new(boot: BootId, rng: &dyn Rng) -> Self {
        let mut key = [0; 32];
        rng.fill(&mut key);
        Self { boot, key }
    }

    /// The tag of a place in one of its turns, which the number tells ([`super::places`]).
    pub(super) fn tag(&self, number: u64) -> u32 {
        let (index, generation) = (number as u32, (number >> 32) as u32);
        let hash = blake3::keyed_hash(&self.key, &[index.to_be_bytes(), generation.to_be_bytes()].concat());
        u32::from_be_bytes(*hash.as_bytes().first_chunk().expect("a hash is longer"))
    }

    /// The stateid of a place with that tag.
    pub(super) fn stateid(&self, index: u32, tag: u32, seqid: u32) -> Stateid {
        let mut other = [0; 12];
        other[..4].copy_from_slice(&self.boot.0.to_be_bytes());
        other[4..8].copy_from_slice(&index.to_be_bytes());
        other[8..].copy_from_slice(&tag.to_be_bytes());
        Stateid { seqid, other }
    }
}

/// Who asks for a stateid, and on what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    pub(super) minor: u32,
    /// The session's client.
    pub(super) client: Option<ClientId>,
    /// The current handle's.
    pub(super) file: Option<&'a FileId>,
}

/// What there is at the place that a stateid names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) tag: u32,
    pub(super) client: ClientId,
    pub(super) is_of_minor_0: bool,
    pub(super) file: &'a FileId,
    pub(super) revoked: Option<Revoked>,
    pub(super) seqid: u32,
}

/// What stateids name.
pub(super) trait Named {
    /// It, as the table asks for it.
    fn place(&self) -> Place<'_>;
}

impl<T: Named> Places<T> {
    /// What a client was told of at that place.
    fn told_at(&self, index: u32) -> Option<(u64, &T)> {
        self.at(index).filter(|(_, value)| value.place().seqid > 0)
    }

    /// Table D6.
    pub(super) fn look(&self, seal: &Seal, asked: Stateid, asker: &Asker<'_>) -> Result<u64, Status> {
        let told = self.told_at(asked.index());
        let looked = seal.look(asked, asker, told.map(|(_, value)| value.place()));
        looked.map_err(|refused| self.or_gone(seal, asked, asker, refused))?;
        Ok(told.expect("there is one").0)
    }

    /// What a stateid of minor version 0 names, whatever its seqid, and be it revoked: rows a to d.
    pub(super) fn look_past_revoked(&self, seal: &Seal, asked: Stateid) -> Result<&T, Status> {
        let told = self.told_at(asked.index());
        let asker = Asker { minor: 0, client: None, file: None };
        let met = seal.meet(asked, &asker, told.map(|(_, value)| value.place()));
        met.map_err(|refused| self.or_gone(seal, asked, &asker, refused))?;
        Ok(told.expect("there is one").1)
    }

    /// Row c: why a stateid is refused that names nothing, or what its client had before it was ended.
    fn or_gone(&self, seal: &Seal, asked: Stateid, asker: &Asker<'_>, refused: Status) -> Status {
        let is_gone = || self.gone_at(asked.index()).is_some_and(|number| seal.tag(number) == asked.tag());
        if asker.minor == 0 && refused == Status::BadStateid && is_gone() { Status::Expired } else { refused }
    }
}

impl Seal {
    /// Table D6.
    pub(super) fn look(&self, asked: Stateid, asker: &Asker<'_>, place: Option<Place<'_>>) -> Result<(), Status> {
        let (is_minor_0, place) = (asker.minor == 0, self.meet(asked, asker, place)?);
        if let Some(revoked) = place.revoked {
            return Err(revoked.status());
        }
        if asker.file.is_some_and(|file| file.of != place.file.of) {
            return Err(Revoked::Admin.status());
        }
        // Seqids begin again behind the last, so that half of all are older than each.
        match asked.seqid.wrapping_sub(place.seqid) as i32 {
            _ if asked.seqid == 0 => {
                if is_minor_0 {
                    Err(Status::OldStateid)
                } else {
                    Ok(())
                }
            }
            0 => Ok(()),
            ..0 => Err(Status::OldStateid),
            1.. => Err(Status::BadStateid),
        }
    }

    /// Rows a to g.
    fn meet<'a>(&self, asked: Stateid, asker: &Asker<'_>, place: Option<Place<'a>>) -> Result<Place<'a>, Status> {
        let is_minor_0 = asker.minor == 0;
        if asked.is_reserved() {
            return Err(Status::BadStateid);
        }
        if asked.boot() != self.boot {
            return Err(if is_minor_0 { Status::StaleStateid } else { Status::BadStateid });
        }
        let place = place.filter(|place| place.tag == asked.tag()).ok_or(Status::BadStateid)?;
        let is_others = asker.client.is_some_and(|client| client != place.client);
        let is_elsewhere = asker.file.is_some_and(|file| !file.is_same(place.file));
        if is_minor_0 != place.is_of_minor_0 || is_others || is_elsewhere {
            return Err(Status::BadStateid);
        }
        Ok(place)
    }
}

#[cfg(test)]
mod tests;
