//! Who takes part, with what, and on which disks.

/// What a server's replies are worth in the configuration in which it runs here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Keeps {
    /// What it said is stable is there after a power cut.
    Word,
    /// It keeps its word in front of a crash of its own, and loses the last seconds with the power: the user said so.
    WordUntilPowerCut,
    /// It answers some or all requests before what they promise is on any disk.
    Nothing,
}

/// Which disks a contender may use. Only contenders on equal disks are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Disks {
    /// The main one.
    One,
    /// The main one, and a fast one for log or journal.
    WithLog,
    /// The main one, and two fast ones that hold the same log.
    WithTwoLogs,
    /// The main one, and memory.
    WithMemory,
}

/// A server in one configuration.
#[derive(Debug)]
pub(super) struct Contender {
    /// What the guest's script calls it.
    pub(super) name: &'static str,
    /// What the tables call it.
    pub(super) title: &'static str,
    pub(super) keeps: Keeps,
    pub(super) disks: Disks,
}

impl Contender {
    /// Whether it is this workspace's server.
    pub(super) fn is_ours(&self) -> bool {
        self.name == "tally" || self.name.starts_with("tally-")
    }

    pub(super) fn find(name: &str) -> Option<&'static Self> {
        CONTENDERS.iter().find(|contender| contender.name == name)
    }
}

const fn contender(name: &'static str, title: &'static str, keeps: Keeps, disks: Disks) -> Contender {
    Contender { name, title, keeps, disks }
}

/// All, in the order in which they run. What stands here of their word is overruled by the referee's verdict.
pub(super) const CONTENDERS: [Contender; 16] = [
    contender("tally", "Tallystick, log in the pool", Keeps::Word, Disks::One),
    contender("knfsd-ext4", "knfsd, ext4", Keeps::Word, Disks::One),
    contender("knfsd-xfs", "knfsd, XFS", Keeps::Word, Disks::One),
    contender("knfsd-btrfs", "knfsd, btrfs", Keeps::Nothing, Disks::One),
    contender("zfs", "knfsd, OpenZFS", Keeps::Word, Disks::One),
    contender("tally-log", "Tallystick, log device", Keeps::Word, Disks::WithLog),
    contender("knfsd-ext4-log", "knfsd, ext4, journal on a log device", Keeps::Word, Disks::WithLog),
    contender("knfsd-xfs-log", "knfsd, XFS, log on a log device", Keeps::Word, Disks::WithLog),
    contender("zfs-log", "knfsd, OpenZFS, log device", Keeps::Word, Disks::WithLog),
    contender("tally-log2", "Tallystick, mirrored log devices", Keeps::Word, Disks::WithTwoLogs),
    contender("tally-memory", "Tallystick, log in memory", Keeps::WordUntilPowerCut, Disks::WithMemory),
    contender("tally-disabled", "Tallystick, sync=disabled", Keeps::Nothing, Disks::One),
    contender("knfsd-ext4-async", "knfsd, ext4, async", Keeps::Nothing, Disks::One),
    contender("knfsd-xfs-async", "knfsd, XFS, async", Keeps::Nothing, Disks::One),
    contender("knfsd-btrfs-async", "knfsd, btrfs, async", Keeps::Nothing, Disks::One),
    contender("ganesha-xfs", "NFS-Ganesha, XFS", Keeps::Nothing, Disks::One),
];
