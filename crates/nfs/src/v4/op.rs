//! The operations, by number (RFC 7530 §16).

/// Lowest number of an operation.
const FIRST: u32 = 3;
/// Highest number in minor version 0; a higher one is illegal there.
const LAST_OF_0: u32 = 39;

/// An operation that is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Access,
    GetAttr,
    GetFh,
    Lookup,
    LookupP,
    NVerify,
    PutFh,
    PutPubFh,
    PutRootFh,
    Read,
    ReadDir,
    ReadLink,
    Renew,
    RestoreFh,
    SaveFh,
    SecInfo,
    SetClientId,
    SetClientIdConfirm,
    Verify,
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

/// The number of the result of an operation that there is not.
pub(super) const ILLEGAL: u32 = 10_044;

/// What an operation's number stands for in minor version 0.
pub(super) fn asked(number: u32) -> Asked {
    Asked::For(match number {
        3 => Op::Access,
        9 => Op::GetAttr,
        10 => Op::GetFh,
        15 => Op::Lookup,
        16 => Op::LookupP,
        17 => Op::NVerify,
        22 => Op::PutFh,
        23 => Op::PutPubFh,
        24 => Op::PutRootFh,
        25 => Op::Read,
        26 => Op::ReadDir,
        27 => Op::ReadLink,
        30 => Op::Renew,
        31 => Op::RestoreFh,
        32 => Op::SaveFh,
        33 => Op::SecInfo,
        35 => Op::SetClientId,
        36 => Op::SetClientIdConfirm,
        37 => Op::Verify,
        other if (FIRST..=LAST_OF_0).contains(&other) => return Asked::NotSupported,
        _ => return Asked::Illegal,
    })
}
