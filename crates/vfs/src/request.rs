//! Who asks, and how a repetition of his request is known.

use smallvec::SmallVec;

use tally_base::SlotMark;

use crate::attributes::ObjectRef;
use crate::opens::{ClientNumber, Right};

/// Who asks, after squashing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cred {
    /// User; 0 is the superuser, who passes every check but `noexec` ones.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: SmallVec<[u32; 16]>,
    /// Whether he may do this was asked already, by who knows more of him: a kernel, of its own program's capabilities and all its groups. Then ids say whose a new object is, and
    /// forbid nothing. No word from a network sets this.
    pub checked: bool,
}

impl Cred {
    /// The superuser.
    #[must_use]
    pub fn root() -> Self {
        Self { uid: 0, gid: 0, groups: SmallVec::new(), checked: false }
    }

    /// Somebody of whom it was asked already whether he may.
    #[must_use]
    pub fn checked(uid: u32, gid: u32) -> Self {
        Self { uid, gid, groups: SmallVec::new(), checked: true }
    }

    /// Whether `gid` is the primary or one of the supplementary groups.
    #[must_use]
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// One request's context.
#[derive(Clone, Copy)]
pub struct OpCtx<'a> {
    /// Who asks.
    pub cred: &'a Cred,
    /// Under which key the reply is to be remembered across crashes; `None` where a repetition does no harm.
    pub reply: Option<ReplyKey>,
    /// As which operation of a session it is to be remembered as long as that one lives; `None` as above.
    pub mark: Option<SlotMark>,
    /// By what right it reads and writes what is in a file.
    pub right: Right,
    /// Which client that is, where clients are known: what is delegated to it is in the way of everybody else.
    pub client: Option<ClientNumber>,
}

impl<'a> OpCtx<'a> {
    /// A request of somebody, by the modes of what it is about, of which nothing is remembered.
    #[must_use]
    pub const fn of(cred: &'a Cred) -> Self {
        Self { cred, reply: None, mark: None, right: Right::Mode, client: None }
    }

    /// Which client acts, by its name or by the right that it has.
    #[must_use]
    pub fn actor(&self) -> Option<ClientNumber> {
        self.client.or(self.right.client())
    }
}

/// What identifies a request across connections and crashes (rules F12): client address without port (16),
/// xid (4), procedure (4), hash of arguments and credentials (8); and a number of whoever sent it (8), as two programs of one
/// client may mean two things by requests that are equal in all the rest. Opaque below the protocol server, but for the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyKey(pub [u8; 40]);

impl ReplyKey {
    /// Bytes in which a request and its repetition are equal. What follows is the number, big-endian.
    pub const COMMON_BYTES: usize = 32;
    /// Where the numbers of operations begin, behind those of procedures.
    const OPERATIONS_FROM: u32 = 0x0400_0000;

    /// What a request and its repetition have in common, whoever sent them.
    #[must_use]
    pub fn common(&self) -> [u8; Self::COMMON_BYTES] {
        *self.0.first_chunk().expect("a key is longer")
    }

    /// Who sent it.
    #[must_use]
    pub fn number(&self) -> u64 {
        u64::from_be_bytes(*self.0.last_chunk().expect("a key is longer than a number"))
    }

    /// The same request, from the sender with that number.
    #[must_use]
    pub fn numbered(mut self, number: u64) -> Self {
        self.0[Self::COMMON_BYTES..].copy_from_slice(&number.to_be_bytes());
        self
    }

    /// The same sender's request to carry out one operation of several: a procedure that there is not.
    #[must_use]
    pub fn of_operation(mut self, operation: u32) -> Self {
        self.0[20..24].copy_from_slice(&(Self::OPERATIONS_FROM + operation).to_be_bytes());
        self
    }

    /// The client's part of the key: its address, by which entries are bounded.
    #[must_use]
    pub fn client(&self) -> [u8; 16] {
        *self.0.first_chunk().expect("a key is longer than an address")
    }
}

/// The remembered first answer to a request that succeeded. Its body is rebuilt from the current state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RememberedReply {
    /// The object that was made or changed, where there is one.
    pub object: Option<ObjectRef>,
}
