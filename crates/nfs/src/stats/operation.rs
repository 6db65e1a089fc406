//! What an operation of a compound is to the statistics: its number in the protocol, whichever of them the server carries out.

/// Lowest number of an operation.
const FIRST: u32 = 3;

/// The names of all that there are, from [`FIRST`] on, in small letters as RFC 7530, RFC 8881, RFC 7862 and RFC 8276 have them.
const NAMES: [&str; 73] = [
    "access",
    "close",
    "commit",
    "create",
    "delegpurge",
    "delegreturn",
    "getattr",
    "getfh",
    "link",
    "lock",
    "lockt",
    "locku",
    "lookup",
    "lookupp",
    "nverify",
    "open",
    "openattr",
    "open_confirm",
    "open_downgrade",
    "putfh",
    "putpubfh",
    "putrootfh",
    "read",
    "readdir",
    "readlink",
    "remove",
    "rename",
    "renew",
    "restorefh",
    "savefh",
    "secinfo",
    "setattr",
    "setclientid",
    "setclientid_confirm",
    "verify",
    "write",
    "release_lockowner",
    "backchannel_ctl",
    "bind_conn_to_session",
    "exchange_id",
    "create_session",
    "destroy_session",
    "free_stateid",
    "get_dir_delegation",
    "getdeviceinfo",
    "getdevicelist",
    "layoutcommit",
    "layoutget",
    "layoutreturn",
    "secinfo_no_name",
    "sequence",
    "set_ssv",
    "test_stateid",
    "want_delegation",
    "destroy_clientid",
    "reclaim_complete",
    "allocate",
    "copy",
    "copy_notify",
    "deallocate",
    "io_advise",
    "layouterror",
    "layoutstats",
    "offload_cancel",
    "offload_status",
    "read_plus",
    "seek",
    "write_same",
    "clone",
    "getxattr",
    "setxattr",
    "listxattrs",
    "removexattr",
];

/// How many are told apart: each that the protocol has, and all numbers that stand for none.
pub(super) const OPERATION_COUNT: usize = NAMES.len() + 1;

/// An operation of version 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation(usize);

impl Operation {
    /// What has a number that stands for none.
    pub(crate) const ILLEGAL: Self = Self(NAMES.len());
    /// The highest number.
    pub(crate) const LAST: u32 = FIRST + NAMES.len() as u32 - 1;

    /// The one of a number.
    #[must_use]
    pub fn of(number: u32) -> Self {
        let place = number.checked_sub(FIRST).map(|place| place as usize);
        place.filter(|place| *place < NAMES.len()).map_or(Self::ILLEGAL, Self)
    }

    /// All of them, in the order of their numbers, and behind them what is none.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..OPERATION_COUNT).map(Self)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.get(self.0).copied().unwrap_or("illegal")
    }

    /// Its place among [`OPERATION_COUNT`].
    pub(super) fn index(self) -> usize {
        self.0
    }
}
