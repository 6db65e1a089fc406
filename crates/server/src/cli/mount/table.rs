//! What is mounted where, by the kernel's table (proc_pid_mountinfo(5)): it also has what no daemon knows of any more.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rustix::io::Errno;

use super::KIND;
use crate::cli::console::soon;

/// How long a directory may take to say that nobody serves it. One that is served may wait for a disk, and is not dead.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// All that this process sees, in the order in which it was mounted.
pub(in crate::cli) struct Table {
    mounts: Vec<Mounted>,
}

/// One line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Mounted {
    /// Of the file system that is mounted: major and minor number.
    pub(in crate::cli) device: (u32, u32),
    pub(in crate::cli) dir: PathBuf,
    kind: String,
    /// Of one of ours: the dataset.
    pub(in crate::cli) source: String,
    pub(in crate::cli) is_read_only: bool,
}

impl Table {
    pub(in crate::cli) fn read() -> io::Result<Self> {
        // Whatever bytes the names of others have.
        Ok(Self::parse(&String::from_utf8_lossy(&fs::read("/proc/self/mountinfo")?)))
    }

    pub(super) fn parse(text: &str) -> Self {
        Self { mounts: text.lines().filter_map(Mounted::parse).collect() }
    }

    /// What is mounted there. The last one covers those before it.
    pub(in crate::cli) fn at(&self, dir: &Path) -> Option<&Mounted> {
        self.mounts.iter().rfind(|mount| mount.dir == dir)
    }

    /// In what a path lies, whether it is there or not.
    pub(super) fn around(&self, path: &Path) -> Option<&Mounted> {
        path.ancestors().find_map(|above| self.at(above))
    }

    /// What is mounted below a directory.
    pub(super) fn below<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = &'a Mounted> {
        self.mounts.iter().filter(move |mount| mount.dir != dir && mount.dir.starts_with(dir))
    }

    /// All datasets that are mounted, served or not.
    pub(in crate::cli) fn ours(&self) -> impl Iterator<Item = &Mounted> {
        self.mounts.iter().filter(|mount| mount.is_ours())
    }
}

impl Mounted {
    fn parse(line: &str) -> Option<Self> {
        let (before, behind) = line.split_once(" - ")?;
        let words: Vec<&str> = before.split(' ').collect();
        let (major, minor) = words.get(2)?.split_once(':')?;
        let mut behind = behind.split(' ');
        Some(Self {
            device: (major.parse().ok()?, minor.parse().ok()?),
            dir: PathBuf::from(unescaped(words.get(4)?)),
            kind: behind.next()?.into(),
            source: unescaped(behind.next()?),
            is_read_only: words.get(5)?.split(',').any(|option| option == "ro"),
        })
    }

    pub(in crate::cli) fn is_ours(&self) -> bool {
        self.kind == KIND
    }

    /// What it is, for whoever is told.
    pub(super) fn what(&self) -> String {
        if self.is_ours() { self.source.clone() } else { format!("{} ({})", self.source, self.kind) }
    }

    /// Whether nobody serves it any more.
    pub(in crate::cli) fn is_dead(&self) -> bool {
        let dir = self.dir.clone();
        let looked = soon(LOOK_MAX, move || fs::metadata(dir).map(drop));
        matches!(looked, Some(Err(error)) if Errno::from_io_error(&error) == Some(Errno::NOTCONN))
    }
}

/// Blanks and such stand there in octal.
fn unescaped(word: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\043", "#"), ("\\134", "\\")]
        .iter()
        .fold(word.to_owned(), |word, (code, letter)| word.replace(code, letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                         36 21 0:42 / /srv/my\\040files ro,nosuid shared:3 - fuse.tally tank/a rw\n\
                         37 21 0:43 / /srv/b rw - fuse.tally tank/b rw\n\
                         38 37 0:44 / /srv/b rw - tmpfs none rw\n\
                         39 36 0:45 / /srv/my\\040files/c rw - fuse.tally tank/c rw\n";

    #[test]
    fn what_is_mounted_last_on_a_directory_is_what_is_there() {
        let table = Table::parse(TABLE);
        let at = |dir: &str| table.at(Path::new(dir)).filter(|mount| mount.is_ours());
        let files = at("/srv/my files").unwrap();
        assert_eq!((files.device, files.source.as_str(), files.is_read_only), ((0, 42), "tank/a", true));
        assert!(at("/srv/b").is_none(), "something else covers it");
        assert!(at("/srv/d").is_none());
        assert_eq!(table.ours().count(), 3);
    }

    #[test]
    fn a_path_lies_in_what_is_mounted_closest_above_it() {
        let table = Table::parse(TABLE);
        for (path, dir) in [
            ("/srv/my files/c/d/e", "/srv/my files/c"),
            ("/srv/my files/cc", "/srv/my files"),
            ("/srv/my files", "/srv/my files"),
            ("/srv/my file", "/"),
        ] {
            assert_eq!(table.around(Path::new(path)).unwrap().dir, Path::new(dir), "{path}");
        }
        let below: Vec<_> = table.below(Path::new("/srv/my files")).map(Mounted::what).collect();
        assert_eq!(below, ["tank/c"]);
    }
}
