//! What is exported, to whom, and why: what `tally exports` prints, and its `--json`, so a field is never renamed.

use serde::{Deserialize, Serialize};

/// A dataset that has rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportReport {
    /// As clients name it.
    pub path: String,
    /// Its name.
    pub dataset: String,
    /// The rules as they are written.
    pub rules: String,
    /// From where they are: `local`, `inherited from DATASET`, or `[[export]] of DATASET` of the configuration.
    pub source: String,
    /// Each of them with all that it says, the one first that counts where several name a host.
    pub clients: Vec<ExportedTo>,
    /// Why nobody has access, if the rules are not understood.
    pub problem: Option<String>,
    /// Who has it mounted.
    pub mounted: Vec<MountedBy>,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedTo {
    /// An address, a network, or `*`.
    pub hosts: String,
    /// All its options.
    pub options: String,
}

/// A client that has something mounted, as far as that is known: one of version 3 has said so, and may have gone without a word; one of version 4 has a lease and
/// has asked for something there.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MountedBy {
    /// Its address.
    pub client: String,
    /// `3` or `4`.
    pub version: String,
}
