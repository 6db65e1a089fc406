//! What Samba is to share: what `tally smb` prints, and its `--json`, so a field is never renamed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// All shares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmbReport {
    /// The file that smb.conf is to include.
    pub include: PathBuf,
    /// In the order of their datasets.
    pub shares: Vec<SmbShare>,
}

/// One.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmbShare {
    /// What clients call it, if it can have a name.
    pub name: Option<String>,
    /// Whose files it has.
    pub dataset: String,
    /// Where they are mounted.
    pub dir: Option<PathBuf>,
    /// Whether others change them, too: clients of NFS, or programs of this machine.
    pub is_mixed: bool,
    /// Why clients find nothing, if so, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
