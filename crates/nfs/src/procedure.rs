//! The procedures of NFSv3, and what the server must know of each before it runs it.

/// How many there are.
pub const PROCEDURE_COUNT: usize = 22;

/// A procedure of NFSv3, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
#[repr(u32)]
pub enum Procedure {
    Null,
    GetAttr,
    SetAttr,
    Lookup,
    Access,
    ReadLink,
    Read,
    Write,
    Create,
    MkDir,
    SymLink,
    MkNod,
    Remove,
    RmDir,
    Rename,
    Link,
    ReadDir,
    ReadDirPlus,
    FsStat,
    FsInfo,
    PathConf,
    Commit,
}

impl Procedure {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; PROCEDURE_COUNT] = [
        Self::Null,
        Self::GetAttr,
        Self::SetAttr,
        Self::Lookup,
        Self::Access,
        Self::ReadLink,
        Self::Read,
        Self::Write,
        Self::Create,
        Self::MkDir,
        Self::SymLink,
        Self::MkNod,
        Self::Remove,
        Self::RmDir,
        Self::Rename,
        Self::Link,
        Self::ReadDir,
        Self::ReadDirPlus,
        Self::FsStat,
        Self::FsInfo,
        Self::PathConf,
        Self::Commit,
    ];

    /// The procedure of a number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// As RFC 1813 numbers it, and as calls carry it.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Whether its reply rests on a change, and waits for it.
    #[must_use]
    pub fn modifies(self) -> bool {
        self.is_remembered() || self == Self::Commit
    }

    /// Whether a retransmission gets the first answer instead of being carried out again. WRITE is one of
    /// them because a late repetition would bury newer data; SETATTR because a late truncation would.
    #[must_use]
    pub fn is_remembered(self) -> bool {
        self.outlives_crashes() || self == Self::Write
    }

    /// Whether it reads or changes files that are there: to make a directory or to look is neither.
    #[must_use]
    pub fn meets_files(self) -> bool {
        matches!(
            self,
            Self::Read | Self::Write | Self::SetAttr | Self::Create | Self::Remove | Self::Rename | Self::Link
        )
    }

    /// Whether the first answer is also kept by the file system (rules F12).
    #[must_use]
    pub fn outlives_crashes(self) -> bool {
        matches!(
            self,
            Self::SetAttr
                | Self::Create
                | Self::MkDir
                | Self::SymLink
                | Self::MkNod
                | Self::Remove
                | Self::RmDir
                | Self::Rename
                | Self::Link
        )
    }

    /// Its results when nothing is known but that it failed: the status, and this many words that each say
    /// "no attributes follow".
    #[must_use]
    pub fn absent_words(self) -> usize {
        match self {
            Self::Null | Self::GetAttr => 0,
            Self::Rename => 4,
            Self::Link => 3,
            _ if self.modifies() => 2,
            _ => 1,
        }
    }

    /// Its name in statistics and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::GetAttr => "getattr",
            Self::SetAttr => "setattr",
            Self::Lookup => "lookup",
            Self::Access => "access",
            Self::ReadLink => "readlink",
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
            Self::MkDir => "mkdir",
            Self::SymLink => "symlink",
            Self::MkNod => "mknod",
            Self::Remove => "remove",
            Self::RmDir => "rmdir",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::ReadDir => "readdir",
            Self::ReadDirPlus => "readdirplus",
            Self::FsStat => "fsstat",
            Self::FsInfo => "fsinfo",
            Self::PathConf => "pathconf",
            Self::Commit => "commit",
        }
    }
}
