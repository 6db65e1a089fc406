//! The suites as data. Each is a shell script that runs in the guest with `library` at hand.

use std::time::Duration;

/// What is run in a guest, and what that guest has.
pub(super) struct Suite {
    /// Its name on the command line.
    pub name: &'static str,
    /// What the guest runs.
    pub script: &'static str,
    /// What it finds beside that: name and content.
    pub files: &'static [(&'static str, &'static str)],
    /// Whether continuous integration runs it.
    pub in_ci: bool,
    /// Memory of the guest that it runs in, MiB.
    pub memory_mib: u32,
    /// Sizes of its disks, from ubda on: the pool's, the log's, and others, where a suite says nothing else.
    pub disks_mib: &'static [u64],
    /// Whether it leaves recordings of its disks, to be looked at here.
    pub records: bool,
    /// A suite of others that it runs: a folder below `--sources`, and Debian's packages which that needs.
    pub of_others: Option<(&'static str, &'static [&'static str])>,
    minutes_max: u64,
}

impl Suite {
    /// When it is given up.
    pub(super) fn time_limit(&self) -> Duration {
        Duration::from_secs(self.minutes_max * 60)
    }
}

/// What every script can use.
pub(super) const LIBRARY: &str = include_str!("../../guest/library.sh");

/// All of them, the shortest first.
pub(super) const SUITES: [Suite; 18] = [
    Suite {
        name: "untar",
        script: include_str!("../../guest/suites/untar.sh"),
        files: &[],
        in_ci: true,
        memory_mib: 2048,
        disks_mib: &[4096, 1024],
        records: false,
        of_others: None,
        minutes_max: 6,
    },
    Suite {
        name: "crash-images",
        script: include_str!("../../guest/suites/crash-images.sh"),
        files: &[],
        in_ci: true,
        memory_mib: 2048,
        disks_mib: &[1024, 1024],
        records: true,
        of_others: None,
        minutes_max: 6,
    },
    Suite {
        name: "semantics",
        script: include_str!("../../guest/suites/semantics.sh"),
        files: &[],
        in_ci: false,
        memory_mib: 2048,
        disks_mib: &[4096, 1024],
        records: false,
        of_others: None,
        minutes_max: 12,
    },
    Suite {
        name: "trees",
        script: include_str!("../../guest/suites/trees.sh"),
        files: &[],
        in_ci: false,
        memory_mib: 2048,
        disks_mib: &[4096, 1024],
        records: false,
        of_others: None,
        minutes_max: 15,
    },
    Suite {
        name: "datasets",
        script: include_str!("../../guest/suites/datasets.sh"),
        files: &[],
        in_ci: false,
        memory_mib: 2048,
        disks_mib: &[4096, 1024],
        records: false,
        of_others: None,
        minutes_max: 5,
    },
    Suite {
        name: "bare",
        script: include_str!("../../guest/suites/bare.sh"),
        files: &[],
        in_ci: false,
        memory_mib: 2048,
        disks_mib: &[4096, 1024],
        records: false,
        of_others: None,
        minutes_max: 5,
    },
    Suite {
        name: "directory",
        script: include_str!("../../guest/suites/directory.sh"),
        files: &[],
        in_ci: false,
        memory_mib: 3072,
        disks_mib: &[4096, 1024],
        records: false,
        of_others: None,
        minutes_max: 30,
    },
    Suite {
        name: "large",
        script: include_str!("../../guest/suites/large.sh"),
        files: &[],
        in_ci: false,
        memory_mib: 3072,
        disks_mib: &[8192, 1024],
        records: false,
        of_others: None,
        minutes_max: 20,
    },
    Suite {
        name: "user",
        script: include_str!("../../guest/suites/user.sh"),
        files: &[],
        in_ci: false,
        memory_mib: 2048,
        disks_mib: &[4096, 1024],
        records: false,
        of_others: None,
        minutes_max: 6,
    },
    Suite {
        name: "holding",
        script: include_str!("../../guest/suites/holding.sh"),
        files: &[],
        in_ci: false,
        memory_mib: 2048,
        disks_mib: &[1024, 256],
        records: false,
        of_others: None,
        minutes_max: 20,
    },
    Suite {
        name: "once",
        script: include_str!("../../guest/suites/once.sh"),
        files: &[],
        in_ci: false,
        memory_mib: 2048,
        disks_mib: &[2048, 256],
        records: false,
        of_others: None,
        minutes_max: 15,
    },
    Suite {
        name: "mirrors",
        script: include_str!("../../guest/suites/mirrors.sh"),
        files: &[],
        in_ci: false,
        memory_mib: 2048,
        disks_mib: &[1024; 8],
        records: false,
        of_others: None,
        minutes_max: 10,
    },
    Suite {
        name: "flaky-legs",
        script: include_str!("../../guest/suites/flaky-legs.sh"),
        files: &[
            ("load.py", include_str!("../../guest/flaky-legs/load.py")),
            ("drive.py", include_str!("../../guest/flaky-legs/drive.py")),
        ],
        in_ci: false,
        memory_mib: 2048,
        disks_mib: &[192, 192, 192, 192, 192, 192, 192, 32, 32, 32],
        records: false,
        of_others: None,
        minutes_max: 20,
    },
    Suite {
        name: "referee",
        script: include_str!("../../guest/suites/referee.sh"),
        files: &[],
        in_ci: false,
        memory_mib: 2048,
        disks_mib: &[4096, 1024, 64],
        records: false,
        of_others: None,
        minutes_max: 15,
    },
    Suite {
        name: "hard-disk",
        script: include_str!("../../guest/suites/hard-disk.sh"),
        files: &[],
        in_ci: false,
        memory_mib: 3072,
        disks_mib: &[1024, 1024],
        records: false,
        of_others: None,
        minutes_max: 25,
    },
    Suite {
        name: "cthon04",
        script: include_str!("../../guest/suites/cthon04.sh"),
        files: &[],
        in_ci: false,
        memory_mib: 3072,
        disks_mib: &[8192, 1024],
        records: false,
        of_others: Some(("cthon04", &["gcc", "libc6-dev", "make", "groff-base", "time"])),
        minutes_max: 30,
    },
    Suite {
        name: "fsx",
        script: include_str!("../../guest/suites/fsx.sh"),
        files: &[],
        in_ci: false,
        memory_mib: 2048,
        disks_mib: &[4096, 1024],
        records: false,
        of_others: Some(("xfstests", &[])),
        minutes_max: 30,
    },
    Suite {
        name: "pjdfstest",
        script: include_str!("../../guest/suites/pjdfstest.sh"),
        files: &[("pjdfstest.known", include_str!("../../guest/pjdfstest.known"))],
        in_ci: false,
        memory_mib: 2048,
        disks_mib: &[4096, 1024],
        records: false,
        of_others: Some(("pjdfstest", &[])),
        minutes_max: 60,
    },
];

/// What `bench peers` runs: no test, so it is in no list of them.
pub(super) const PEERS: Suite = Suite {
    name: "peers",
    script: include_str!("../../guest/suites/peers.sh"),
    files: &[],
    in_ci: false,
    memory_mib: 3072,
    disks_mib: &[1024, 256, 256],
    records: false,
    of_others: None,
    minutes_max: 60,
};
