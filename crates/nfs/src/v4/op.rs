//! The operations, by number (RFC 7530 §16).

/// Lowest number of an operation.
const FIRST: u32 = 3;
/// Highest number in minor version 0; a higher one is illegal there.
const LAST_OF_0: u32 = 39;

/// An operation that is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Access,
    Commit,
    Create,
    GetAttr,
    GetFh,
    Link,
    Lookup,
    LookupP,
    NVerify,
    PutFh,
    PutPubFh,
    PutRootFh,
    Read,
    ReadDir,
    ReadLink,
    Remove,
    Rename,
    Renew,
    RestoreFh,
    SaveFh,
    SecInfo,
    SetAttr,
    SetClientId,
    SetClientIdConfirm,
    Verify,
    Write,
}

impl Op {
    /// Whether it may change something that is kept.
    pub(super) fn changes(self) -> bool {
        matches!(
            self,
            Self::Commit | Self::Create | Self::Link | Self::Remove | Self::Rename | Self::SetAttr | Self::Write
        )
    }
}

/// What a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// An operation that is carried out.
    For(Op),
    /// One that the protocol has, and this server has not yet.
    NotSupported,
    /// None.
    Illegal,
}

/// What an operation's number stands for in minor version 0.
pub(super) fn asked(number: u32) -> Asked {
    Asked::For(match number {
        3 => Op::Access,
        5 => Op::Commit,
        6 => Op::Create,
        9 => Op::GetAttr,
        10 => Op::GetFh,
        11 => Op::Link,
        15 => Op::Lookup,
        16 => Op::LookupP,
        17 => Op::NVerify,
        22 => Op::PutFh,
        23 => Op::PutPubFh,
        24 => Op::PutRootFh,
        25 => Op::Read,
        26 => Op::ReadDir,
        27 => Op::ReadLink,
        28 => Op::Remove,
        29 => Op::Rename,
        30 => Op::Renew,
        31 => Op::RestoreFh,
        32 => Op::SaveFh,
        33 => Op::SecInfo,
        34 => Op::SetAttr,
        35 => Op::SetClientId,
        36 => Op::SetClientIdConfirm,
        37 => Op::Verify,
        38 => Op::Write,
        other if (FIRST..=LAST_OF_0).contains(&other) => return Asked::NotSupported,
        _ => return Asked::Illegal,
    })
}
