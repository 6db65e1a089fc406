//! Who asks, and how a repetition of his request is known.

use smallvec::SmallVec;

use crate::attributes::ObjectRef;

/// Who asks, after squashing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cred {
    /// User; 0 is the superuser, who passes every check but `noexec` ones.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: SmallVec<[u32; 16]>,
}

impl Cred {
    /// The superuser.
    #[must_use]
    pub fn root() -> Self {
        Self { uid: 0, gid: 0, groups: SmallVec::new() }
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
}

/// What identifies a request across connections and crashes (rules F12): client address without port (16),
/// xid (4), procedure (4), hash of arguments and credentials (16). Opaque below the protocol server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplyKey(pub [u8; 40]);

impl ReplyKey {
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
