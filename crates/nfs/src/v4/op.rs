//! The operations, by number (RFC 7530 §16, RFC 8881 §18, RFC 7862 §15, RFC 8276 §8.4).

use crate::stats::Operation;

/// Lowest number of an operation.
const FIRST: u32 = 3;
/// Highest numbers in each minor version; a higher one is illegal there (of 2, with those of RFC 8276).
const LAST: [u32; 3] = [39, 58, 75];
// Statistics tell apart whatever there is.
const _: () = assert!(LAST[2] == Operation::LAST);
/// The highest minor version.
pub(super) const MINOR_MAX: u32 = LAST.len() as u32 - 1;

/// An operation that is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Access,
    Allocate,
    BackchannelCtl,
    BindConnToSession,
    Close,
    Commit,
    Copy,
    Create,
    CreateSession,
    Deallocate,
    DelegReturn,
    DestroyClientId,
    DestroySession,
    ExchangeId,
    FreeStateid,
    GetAttr,
    GetFh,
    GetXattr,
    IoAdvise,
    Link,
    ListXattrs,
    Lock,
    LockT,
    LockU,
    Lookup,
    LookupP,
    NVerify,
    Open,
    OpenConfirm,
    OpenDowngrade,
    PutFh,
    PutPubFh,
    PutRootFh,
    Read,
    ReadDir,
    ReadLink,
    ReclaimComplete,
    ReleaseLockOwner,
    Remove,
    RemoveXattr,
    Rename,
    Renew,
    RestoreFh,
    SaveFh,
    SecInfo,
    SecInfoNoName,
    Seek,
    Sequence,
    SetAttr,
    SetClientId,
    SetClientIdConfirm,
    SetXattr,
    TestStateid,
    Verify,
    Write,
}

impl Op {
    /// Whether it may stand alone where no session is (RFC 8881 §2.10.6.5 and §18).
    pub(super) fn stands_alone(self) -> bool {
        matches!(
            self,
            Self::BindConnToSession
                | Self::CreateSession
                | Self::DestroyClientId
                | Self::DestroySession
                | Self::ExchangeId
        )
    }

    /// Whether the current handle becomes another one, of which the compound has no stateid.
    pub(super) fn leads_elsewhere(self) -> bool {
        matches!(self, Self::Create | Self::Lookup | Self::LookupP | Self::PutFh | Self::PutPubFh | Self::PutRootFh)
    }

    /// Whether it ends or changes what the server knows of a client, so that it must not be told that it failed where it did not.
    pub(super) fn ends_state(self) -> bool {
        matches!(
            self,
            Self::Close
                | Self::DelegReturn
                | Self::FreeStateid
                | Self::Lock
                | Self::LockU
                | Self::OpenConfirm
                | Self::OpenDowngrade
                | Self::ReclaimComplete
                | Self::ReleaseLockOwner
        )
    }

    /// Whether it looks at what is there by the handles of its compound, and changes nothing that anybody else sees.
    pub(super) fn only_looks(self) -> bool {
        matches!(
            self,
            Self::Access
                | Self::GetAttr
                | Self::GetFh
                | Self::GetXattr
                | Self::ListXattrs
                | Self::Lookup
                | Self::LookupP
                | Self::NVerify
                | Self::PutFh
                | Self::PutPubFh
                | Self::PutRootFh
                | Self::ReadDir
                | Self::ReadLink
                | Self::RestoreFh
                | Self::SaveFh
                | Self::SecInfo
                | Self::SecInfoNoName
                | Self::Verify
        )
    }

    /// Whether what it changes is remembered, in a persistent session.
    pub(super) fn leaves_mark(self) -> bool {
        self.changes() && !matches!(self, Self::Commit | Self::Copy | Self::Write)
    }

    /// Whether it may change something that is kept.
    pub(super) fn changes(self) -> bool {
        matches!(
            self,
            Self::Allocate
                | Self::Commit
                | Self::Copy
                | Self::Create
                | Self::Deallocate
                | Self::Link
                | Self::Open
                | Self::Remove
                | Self::RemoveXattr
                | Self::Rename
                | Self::SetAttr
                | Self::SetXattr
                | Self::Write
        )
    }
}

/// What a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// An operation that is carried out.
    For(Op),
    /// One that the protocol has, and this server has not yet.
    NotSupported,
    /// None.
    Illegal,
}

/// What an operation's number stands for in a minor version.
pub(super) fn asked(minor: u32, number: u32) -> Meaning {
    let last = LAST.get(minor as usize).copied().unwrap_or(0);
    if !(FIRST..=last).contains(&number) {
        return Meaning::Illegal;
    }
    Meaning::For(match number {
        // By sessions these have become needless (RFC 8881 §8.8 and §18).
        20 | 30 | 35 | 36 | 39 if minor > 0 => return Meaning::NotSupported,
        3 => Op::Access,
        4 => Op::Close,
        5 => Op::Commit,
        6 => Op::Create,
        8 if minor > 0 => Op::DelegReturn,
        9 => Op::GetAttr,
        10 => Op::GetFh,
        11 => Op::Link,
        12 => Op::Lock,
        13 => Op::LockT,
        14 => Op::LockU,
        15 => Op::Lookup,
        16 => Op::LookupP,
        17 => Op::NVerify,
        18 => Op::Open,
        20 => Op::OpenConfirm,
        21 => Op::OpenDowngrade,
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
        39 => Op::ReleaseLockOwner,
        40 => Op::BackchannelCtl,
        41 => Op::BindConnToSession,
        42 => Op::ExchangeId,
        43 => Op::CreateSession,
        44 => Op::DestroySession,
        45 => Op::FreeStateid,
        52 => Op::SecInfoNoName,
        53 => Op::Sequence,
        55 => Op::TestStateid,
        57 => Op::DestroyClientId,
        58 => Op::ReclaimComplete,
        59 => Op::Allocate,
        60 => Op::Copy,
        62 => Op::Deallocate,
        63 => Op::IoAdvise,
        69 => Op::Seek,
        72 => Op::GetXattr,
        73 => Op::SetXattr,
        74 => Op::ListXattrs,
        75 => Op::RemoveXattr,
        _ => return Meaning::NotSupported,
    })
}

/// What an operation's number stands for in statistics.
pub(super) fn counted(minor: u32, number: u32) -> Operation {
    match asked(minor, number) {
        Meaning::Illegal => Operation::ILLEGAL,
        Meaning::For(_) | Meaning::NotSupported => Operation::of(number),
    }
}
