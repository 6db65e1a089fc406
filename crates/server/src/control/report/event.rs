//! What has happened: one event as it is told, the words for what kind of thing it is, and the text of a disk's errors.

use serde::{Deserialize, Serialize};

/// Something that has happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventReport {
    /// Counted from the start of the daemon.
    pub number: u64,
    /// When, in ns since 1970.
    pub time_ns: u64,
    /// To which pool.
    pub pool: String,
    /// What kind of thing, by [`EventClass::word`]. A pool may remember one that only a newer program has a word for.
    pub class: String,
    /// In words.
    pub text: String,
}

impl EventReport {
    /// Whether it is of this class.
    #[must_use]
    pub fn is(&self, class: EventClass) -> bool {
        self.class == class.word()
    }

    /// Whose errors it tells of.
    #[must_use]
    pub fn disk_with_errors(&self) -> Option<&str> {
        // There are colons in names of disks, but none in what is said of their errors.
        let (disk, _) = self.text.rsplit_once(ERRORS_OF)?;
        self.is(EventClass::Errors).then_some(disk)
    }
}

/// The text of [`EventClass::Errors`]: so many more are known of this disk.
pub(crate) fn errors_of(disk: &str, [read, write, checksum]: [u64; 3]) -> String {
    format!("{disk}{ERRORS_OF}{read} read, {write} write and {checksum} checksum errors more")
}

/// Stands between a disk and how many errors it has.
const ERRORS_OF: &str = ": ";

macro_rules! classes {
    ($($(#[$doc:meta])* $class:ident = $word:literal,)*) => {
        /// What kind of thing has happened. Its word stands in pools, and in programs that are run for events: none is ever changed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EventClass {
            $($(#[$doc])* $class,)*
        }

        impl EventClass {
            /// Each of them.
            pub const ALL: &[Self] = &[$(Self::$class,)*];

            /// As it is told, kept and read.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$class => $word,)*
                }
            }
        }
    };
}

classes! {
    /// A pool is served from now on.
    PoolImport = "pool_import",
    /// It was let go of, or could not be.
    PoolExport = "pool_export",
    /// It was destroyed, or could not be.
    PoolDestroy = "pool_destroy",
    /// It takes no changes any more: too many of its disks have failed.
    PoolSuspended = "pool_suspended",
    /// It goes on.
    PoolResumed = "pool_resumed",
    /// A disk is in another state.
    StateChange = "statechange",
    /// A disk has more errors.
    Errors = "errors",
    /// A disk has come into a mirror.
    VdevAttach = "vdev_attach",
    /// A disk has left the pool.
    VdevRemove = "vdev_remove",
    /// A scrub has found space that two own, or nobody.
    SpaceAlarm = "space_alarm",
    /// A scrub has begun.
    ScrubStart = "scrub_start",
    /// It has ended.
    ScrubFinish = "scrub_finish",
    /// A copy to a disk has begun.
    ResilverStart = "resilver_start",
    /// A copy, or the look at every block before a disk leaves, has ended.
    ResilverFinish = "resilver_finish",
    /// The look at every block before a disk leaves has begun.
    CheckStart = "check_start",
    /// The same before a disk is put away.
    OfflineStart = "offline_start",
    /// A spare is taken for a disk that is away.
    SpareTake = "spare_take",
    /// It stands in for that, or was given back.
    Spare = "spare",
    /// It could not be taken or given back.
    SpareFailed = "spare_failed",
    /// A disk that joined or came back has gone on with that by itself.
    Join = "join",
    /// It could not.
    JoinFailed = "join_failed",
    /// There were too many: what runs programs for events tells so, and of the others later.
    Flood = "flood",
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Whoever writes a program for events writes `case $TALLY_CLASS`, and goes by the page.
    #[test]
    fn each_class_stands_in_the_page_and_no_other() {
        let page = include_str!("../../../../../packaging/man/tally-events.7");
        let (_, classes) = page.split_once(".Sh CLASSES\n").expect("a list of classes");
        let (classes, _) = classes.split_once(".Sh ").expect("a section behind it");
        let told: Vec<&str> = classes.lines().filter_map(|line| line.strip_prefix(".It Cm ")).collect();
        let ours: Vec<&str> = EventClass::ALL.iter().map(|class| class.word()).collect();
        let sorted = |words: &[&'static str]| words.iter().copied().collect::<BTreeSet<_>>();
        assert_eq!(sorted(&told), sorted(&ours));
        assert_eq!((sorted(&ours).len(), told.len()), (ours.len(), ours.len()), "each once");
    }

    #[test]
    fn a_disk_with_errors_is_read_out_of_what_is_told_of_them() {
        let errors = |disk| EventReport {
            class: EventClass::Errors.word().into(),
            text: errors_of(disk, [1, 0, 2]),
            ..EventReport::default()
        };
        for disk in ["/dev/sda", "/dev/disk/by-path/pci-0000:00:1f.2: ata: 1", ""] {
            assert_eq!(errors(disk).disk_with_errors(), Some(disk));
        }
        assert_eq!(errors("/dev/sda").text, "/dev/sda: 1 read, 0 write and 2 checksum errors more");
        let other = EventReport { class: EventClass::StateChange.word().into(), ..errors("/dev/sda") };
        assert_eq!(other.disk_with_errors(), None);
        assert_eq!(EventReport { text: "nothing of a disk".into(), ..errors("") }.disk_with_errors(), None);
    }

    /// The daemon may be newer than whoever asks, and a pool have been with one that is.
    #[test]
    fn a_class_of_a_newer_daemon_is_read_and_told_on() {
        let line = r#"{"number":1,"time_ns":2,"pool":"tank","class":"snapshot_lost","text":"x","later":[]}"#;
        let event: EventReport = serde_json::from_str(line).unwrap();
        assert_eq!(event.class, "snapshot_lost");
        assert!(!EventClass::ALL.iter().any(|class| event.is(*class)));
    }
}
