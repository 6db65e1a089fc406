//! On which disks, and how much is done there.

use super::contenders::{Contender, Disks};

/// A kind of disks.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The guest's script's word for such disks.
    pub(super) disks: &'static str,
    /// What a durable write takes on its slow disks; 0 where it has none.
    pub(super) durable_us: u32,
    /// Who runs there.
    who: Who,
    /// How many of the workloads are run there; the others would say of slow disks what these say.
    workloads: usize,
    sizes: Sizes,
}

/// Whose figures say something on some disks.
#[derive(Debug)]
enum Who {
    All,
    /// One of those that are exported `async`: where disks are slow all that wait for none are alike.
    OneAsync,
    /// Those with a log device.
    WithLog,
    /// Ours, where the log device decides how quick it is.
    OurLog,
}

/// Files of untar, of the copied tree and of the library, rounds of the loop, and empty files that are made.
#[derive(Debug)]
struct Sizes {
    files: u32,
    copied: u32,
    library: u32,
    loops: u32,
    creates: u32,
}

pub(super) const SETTINGS: [Setting; 4] = [
    Setting {
        name: "hard-disk",
        title: "hard disk (8 ms a durable write), fast log device",
        disks: "hard-disk",
        durable_us: 8000,
        who: Who::OneAsync,
        workloads: 3,
        sizes: Sizes { files: 512, copied: 100, library: 200, loops: 100, creates: 200 },
    },
    Setting {
        name: "log-device",
        title: "hard disk (8 ms a durable write), fast log device, more files",
        disks: "hard-disk",
        durable_us: 8000,
        who: Who::OurLog,
        workloads: 3,
        sizes: Sizes { files: 2048, copied: 1500, library: 3000, loops: 1000, creates: 1000 },
    },
    Setting {
        name: "two-hard-disks",
        title: "two hard disks (8 ms a durable write), one of them for the log",
        disks: "two-hard-disks",
        durable_us: 8000,
        who: Who::WithLog,
        workloads: 3,
        sizes: Sizes { files: 256, copied: 100, library: 200, loops: 100, creates: 200 },
    },
    Setting {
        name: "fast",
        title: "fast disks",
        disks: "fast",
        durable_us: 0,
        who: Who::All,
        workloads: WORKLOADS.len(),
        sizes: Sizes { files: 512, copied: 300, library: 500, loops: 1000, creates: 1000 },
    },
];

impl Setting {
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// Whether a contender runs there.
    pub(super) fn takes(&self, contender: &Contender) -> bool {
        match self.who {
            Who::All => true,
            Who::OneAsync => !["knfsd-xfs-async", "knfsd-btrfs-async"].contains(&contender.name),
            Who::WithLog => contender.disks == Disks::WithLog,
            Who::OurLog => ["tally-log", "tally-disabled"].contains(&contender.name),
        }
    }

    /// Whether a workload is run there.
    pub(super) fn has(&self, workload: &Workload) -> bool {
        WORKLOADS[..self.workloads].iter().any(|own| own.name == workload.name)
    }

    /// The sizes as the guest's script knows them.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        let Sizes { files, copied, library, loops, creates } = self.sizes;
        let numbers = [
            ("FILES", files),
            ("COPIED", copied),
            ("LIBRARY_FILES", library),
            ("LOOPS", loops),
            ("CREATES", creates),
            ("DURABLE_US", self.durable_us),
            ("WRITE_US", 0),
        ];
        numbers.into_iter().map(|(name, number)| (name, number.to_string())).collect()
    }
}

/// What the kernel's client is made to do.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) item: &'static str,
}

pub(super) const WORKLOADS: [Workload; 5] = [
    Workload { name: "untar", title: "`tar -x` as root, files of 4 KiB", item: "file" },
    Workload { name: "copy", title: "`cp -a` of a home directory", item: "file" },
    Workload { name: "library", title: "`cp -r` of files of 1 to 8 KiB", item: "file" },
    Workload { name: "loop", title: "one small file, overwritten over and over", item: "round" },
    Workload { name: "create", title: "empty files", item: "file" },
];
