//! Options of a mount, in the words of mount(8).

use std::path::PathBuf;

use rustix::mount::MountFlags;

/// What was asked for, beside what each mount has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) flags: MountFlags,
    /// The daemon's, where one of several is meant.
    pub(super) socket: Option<PathBuf>,
    /// What is mounted there gets these flags, and nothing is mounted.
    pub(super) again: bool,
}

impl Default for Options {
    /// Devices and programs of other users are what a directory of files does not bring along by itself.
    fn default() -> Self {
        Self { flags: MountFlags::NODEV | MountFlags::NOSUID, socket: None, again: false }
    }
}

/// What mount(8) and systemd go by, some with more words behind it, and what is so anyway: the last of these stand in the kernel's table, from where they come back to mount again.
const OF_OTHERS: [&str; 32] = [
    "_netdev",
    "async",
    "atime",
    "auto",
    "comment",
    "defaults",
    "diratime",
    "group",
    "lazytime",
    "loud",
    "noatime",
    "noauto",
    "nodiratime",
    "nofail",
    "nogroup",
    "nolazytime",
    "noowner",
    "norelatime",
    "nostrictatime",
    "nouser",
    "nousers",
    "owner",
    "relatime",
    "silent",
    "strictatime",
    "user",
    "users",
    "allow_other",
    "default_permissions",
    "group_id",
    "max_read",
    "user_id",
];

impl Options {
    /// Reads what stands behind `-o`; where it may be, also what is not known.
    pub(super) fn parse(words: &[String], is_sloppy: bool) -> Result<Self, String> {
        let mut options = Self::default();
        for word in words.iter().flat_map(|words| words.split(',')).filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            let is_for_others = OF_OTHERS.contains(&name) || name.starts_with("x-") || name.starts_with("X-");
            match (name, value) {
                ("socket", Some(path)) => options.socket = Some(path.into()),
                ("remount", None) => options.again = true,
                ("ro", None) => options.flags |= MountFlags::RDONLY,
                ("rw", None) => options.flags -= MountFlags::RDONLY,
                ("nodev", None) => options.flags |= MountFlags::NODEV,
                ("dev", None) => options.flags -= MountFlags::NODEV,
                ("nosuid", None) => options.flags |= MountFlags::NOSUID,
                ("suid", None) => options.flags -= MountFlags::NOSUID,
                ("noexec", None) => options.flags |= MountFlags::NOEXEC,
                ("exec", None) => options.flags -= MountFlags::NOEXEC,
                ("sync", None) => options.flags |= MountFlags::SYNCHRONOUS,
                ("dirsync", None) => options.flags |= MountFlags::DIRSYNC,
                _ if is_for_others || is_sloppy => {}
                _ => {
                    return Err(format!(
                        "'{word}' is no option of such a mount: it has ro, rw, dev, nodev, suid, nosuid, exec, noexec, sync, dirsync, remount and socket=PATH"
                    ));
                }
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts_and_words_for_others_change_nothing() {
        let read = |words: &str| Options::parse(&[words.to_owned()], false).map(|options| options.flags);
        let usual = MountFlags::NODEV | MountFlags::NOSUID;
        for (words, flags) in [
            ("", usual),
            ("defaults,_netdev,nofail,noauto,user=ann,x-systemd.after=tally.service,comment=mine,relatime", usual),
            ("ro", usual | MountFlags::RDONLY),
            ("ro,rw", usual),
            ("rw,nosuid,nodev,relatime,user_id=0,group_id=0,default_permissions,allow_other", usual),
            ("dev,suid,noexec", MountFlags::NOEXEC),
            ("dev,suid,nodev,nosuid", usual),
        ] {
            assert_eq!(read(words), Ok(flags), "{words}");
        }
        for wrong in ["colour=red", "ro=1", "socket", "compress"] {
            assert!(read(wrong).unwrap_err().contains(wrong), "{wrong}");
            assert_eq!(Options::parse(&[wrong.to_owned()], true), Ok(Options::default()), "{wrong}");
        }
    }
}
