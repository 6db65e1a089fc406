//! What a reply promises durability by.

use serde::{Deserialize, Serialize};

/// Kinds of requests whose reply promises durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// CREATE, UNCHECKED; on a mounted directory, as its kernel sends it.
    Create,
    /// CREATE, EXCLUSIVE.
    CreateExclusive,
    /// SETATTR of mode, times and size in turns.
    SetAttr,
    /// WRITE that asks for FILE_SYNC.
    WriteFileSync,
    /// WRITE that asks for DATA_SYNC.
    WriteDataSync,
    /// WRITE that asks for UNSTABLE and is told that it is stable.
    WriteToldStable,
    /// An UNSTABLE WRITE and, right behind it, its COMMIT.
    Commit,
    /// `write` and `close` on a mounted directory: a WRITE, or a COMMIT.
    WriteAndClose,
    /// `write` and `fsync` on a mounted directory.
    WriteAndFsync,
    /// MKDIR.
    MkDir,
    /// SYMLINK.
    SymLink,
    /// MKNOD of a named pipe.
    MkNod,
    /// LINK.
    Link,
    /// RENAME.
    Rename,
    /// REMOVE.
    Remove,
    /// RMDIR.
    RmDir,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Create,
        Self::CreateExclusive,
        Self::SetAttr,
        Self::WriteFileSync,
        Self::WriteDataSync,
        Self::WriteToldStable,
        Self::Commit,
        Self::WriteAndClose,
        Self::WriteAndFsync,
        Self::MkDir,
        Self::SymLink,
        Self::MkNod,
        Self::Link,
        Self::Rename,
        Self::Remove,
        Self::RmDir,
    ];

    /// As RFC 1813 calls it, or system calls.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::CreateExclusive => "CREATE EXCLUSIVE",
            Self::SetAttr => "SETATTR",
            Self::WriteFileSync => "WRITE FILE_SYNC",
            Self::WriteDataSync => "WRITE DATA_SYNC",
            Self::WriteToldStable => "WRITE UNSTABLE told stable",
            Self::Commit => "COMMIT",
            Self::WriteAndClose => "write+close",
            Self::WriteAndFsync => "write+fsync",
            Self::MkDir => "MKDIR",
            Self::SymLink => "SYMLINK",
            Self::MkNod => "MKNOD",
            Self::Link => "LINK",
            Self::Rename => "RENAME",
            Self::Remove => "REMOVE",
            Self::RmDir => "RMDIR",
        }
    }
}
