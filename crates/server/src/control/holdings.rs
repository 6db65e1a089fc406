//! What clients of NFSv4 hold, as the daemon tells it. This is also what `--json` prints, so a field is never renamed.
//!
//! Times are by the clock of leases, which stands still while the server could not answer.

use serde::{Deserialize, Serialize};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Held {
    Clients,
    Sessions,
    Opens,
    Locks,
}

/// How much there is of all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldingCounts {
    /// Clients.
    pub clients: u64,
    /// Those of them that keep what they have by courtesy.
    pub courtesy: u64,
    /// Their sessions.
    pub sessions: u64,
    /// Files that they have open, by owner.
    pub opens: u64,
    /// Files that they have locked ranges of, by owner.
    pub locks: u64,
    /// Files that they were given to keep until they are asked for them.
    #[serde(default)]
    pub delegations: u64,
    /// What has happened to those since the start.
    #[serde(default)]
    pub delegations_since: DelegationCounts,
    /// Pools in which clients may claim again what they had open before this start.
    #[serde(default)]
    pub graces: Vec<GraceReport>,
}

/// A pool in its grace: who opens or locks something new there waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraceReport {
    /// Its name.
    pub pool: String,
    /// Clients that had something open before this start.
    pub clients: u64,
    /// Those that have said that they claim nothing more: those of 4.0 have no word for it.
    pub came: u64,
    /// How long the rest is waited for, if nobody claims anything meanwhile.
    pub seconds_left: u64,
}

/// Clients, and pools that wait for others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientList {
    /// Those that were asked for.
    #[serde(flatten)]
    pub page: Page<ClientReport>,
    /// As of [`HoldingCounts`].
    #[serde(default)]
    pub graces: Vec<GraceReport>,
}

/// What has happened to delegations since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegationCounts {
    /// They were given.
    pub granted: u64,
    /// Somebody was kept out by them, and they were asked for.
    pub recalled: u64,
    /// They were given back.
    pub returned: u64,
    /// They were taken.
    pub revoked: u64,
}

/// Some of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    /// Those that were asked for.
    pub shown: Vec<T>,
    /// How many there are besides, at least.
    pub more: u64,
}

/// A client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientReport {
    /// Its id, 16 hexadecimal digits: it gets another one when it starts anew, or was ended.
    pub id: String,
    /// What it calls itself; bytes that cannot be printed as `\x00`.
    pub name: String,
    /// From where it has introduced itself.
    pub address: String,
    /// The user that did it; none for nobody.
    pub uid: Option<u32>,
    /// `4.0`, `4.1` or `4.2`; `4.x` as long as one with sessions has sent nothing in them; `3` of a host that locks by NLM.
    pub version: String,
    /// How long ago it introduced itself.
    pub since_seconds: u64,
    /// How long ago it last said a word.
    pub silent_seconds: u64,
    /// How long it may be silent.
    pub lease_seconds: u64,
    /// Whether its lease is over, and it keeps what it has until somebody is in its way.
    pub courtesy: bool,
    /// Its sessions.
    pub sessions: u64,
    /// Files that it has open, those that were revoked too.
    pub opens: u64,
    /// Files that it has locked ranges of, by owner.
    pub locks: u64,
    /// Files that it was given to keep, those that were taken from it too.
    #[serde(default)]
    pub delegations: u64,
}

/// Whose something is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The client's id; empty if it is gone by now.
    pub client: String,
    /// What that calls itself.
    pub client_name: String,
    /// From where it came.
    pub address: String,
}

/// A session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionReport {
    /// Its id, 32 hexadecimal digits.
    pub id: String,
    /// Whose it is.
    #[serde(flatten)]
    pub owner: Owner,
    /// How many requests it may have at once.
    pub slots: u32,
    /// How many it has.
    pub slots_in_use: u64,
    /// Longest request, bytes.
    pub request_bytes_max: u32,
    /// Longest reply.
    pub reply_bytes_max: u32,
    /// Longest reply that is kept for a repetition.
    pub kept_bytes_max: u32,
    /// Connections that are bound to it.
    pub connections: u64,
    /// Those of them that it may be called back on.
    pub callback_connections: u64,
}

/// A file, as far as it can be told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReport {
    /// The dataset.
    pub dataset: String,
    /// The file's number.
    pub object: u64,
    /// One of its paths in the dataset, of a very long one the end behind `…`; none if it has none any more, or was not looked up.
    pub path: Option<String>,
    /// Whether nobody could say in time what it is called.
    #[serde(default)]
    pub not_looked_up: bool,
}

/// A file that is open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenReport {
    /// Which.
    #[serde(flatten)]
    pub file: FileReport,
    /// Whose it is.
    #[serde(flatten)]
    pub owner: Owner,
    /// `read`, `write` or `both`.
    pub access: String,
    /// What others may not: `none`, `read`, `write` or `both`.
    pub deny: String,
    /// For how long it has been open.
    pub since_seconds: u64,
    /// `expired`, `admin` or `delegation` if it was taken from its client, which has not said that it knows.
    pub revoked: Option<String>,
}

/// A range of a file that is locked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockReport {
    /// Of which.
    #[serde(flatten)]
    pub file: FileReport,
    /// Whose it is.
    #[serde(flatten)]
    pub owner: Owner,
    /// Of the client's processes the one that has it, as it calls that; bytes that cannot be printed as `\x00`.
    pub lock_owner: String,
    /// `read` or `write`; `none` of one who has nothing locked there any more.
    pub kind: String,
    /// The first byte.
    pub first: Option<u64>,
    /// The last one; 2^64 - 1 is the end of the file, however far.
    pub last: Option<u64>,
    /// Another one has it, and its owner waits to be called when it is free.
    #[serde(default)]
    pub waits: bool,
    /// For how long its owner has had something locked in this file, or has waited for this.
    pub since_seconds: u64,
    /// As of [`OpenReport`].
    pub revoked: Option<String>,
}
