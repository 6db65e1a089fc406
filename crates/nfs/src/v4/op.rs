//! The operations, by number (RFC 7530 §16).

/// Lowest number of an operation.
const FIRST: u32 = 3;
/// Highest number in minor version 0; a higher one is illegal there.
const LAST_OF_0: u32 = 39;

/// An operation that is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(u32)]
pub(super) enum Op {
    Access = 3,
    GetAttr = 9,
    GetFh = 10,
    Lookup = 15,
    LookupP = 16,
    NVerify = 17,
    PutFh = 22,
    PutPubFh = 23,
    PutRootFh = 24,
    Read = 25,
    ReadDir = 26,
    ReadLink = 27,
    Renew = 30,
    RestoreFh = 31,
    SaveFh = 32,
    SecInfo = 33,
    SetClientId = 35,
    SetClientIdConfirm = 36,
    Verify = 37,
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
    use Op::{
        Access, GetAttr, GetFh, Lookup, LookupP, NVerify, PutFh, PutPubFh, PutRootFh, Read, ReadDir, ReadLink, Renew,
        RestoreFh, SaveFh, SecInfo, SetClientId, SetClientIdConfirm, Verify,
    };
    let all = [
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
    ];
    match all.into_iter().find(|op| *op as u32 == number) {
        Some(op) => Asked::For(op),
        None if (FIRST..=LAST_OF_0).contains(&number) => Asked::NotSupported,
        None => Asked::Illegal,
    }
}
