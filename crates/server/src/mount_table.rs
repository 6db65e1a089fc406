//! What is mounted where, by the kernel's table (proc_pid_mountinfo(5)): it also has what no daemon knows of any more.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// What programs that list mounts show of one of ours.
pub(crate) const KIND: &str = "fuse.tally";

/// Of a file system that is mounted: major and minor number.
pub(crate) type Device = (u32, u32);

/// All that a process sees, in the order in which it was mounted.
pub(crate) struct Table {
    mounts: Vec<Mounted>,
}

/// One line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// By which it is known wherever it is mounted.
    pub(crate) device: Device,
    pub(crate) dir: PathBuf,
    kind: String,
    /// All of the file system is there, and not a directory of it alone.
    is_whole: bool,
    /// Of one of ours: the dataset.
    pub(crate) source: String,
    pub(crate) is_read_only: bool,
}

impl Table {
    /// What this process sees.
    pub(crate) fn read() -> io::Result<Self> {
        Self::read_from("/proc/self/mountinfo")
    }

    /// What the first process of the machine sees, or of the container: it is the one of which services see a copy at most.
    pub(crate) fn of_machine() -> io::Result<Self> {
        Self::read_from("/proc/1/mountinfo")
    }

    fn read_from(file: &str) -> io::Result<Self> {
        // Whatever bytes the names of others have.
        Ok(Self::parse(&String::from_utf8_lossy(&fs::read(file)?)))
    }

    pub(crate) fn parse(text: &str) -> Self {
        Self { mounts: text.lines().filter_map(Mounted::parse).collect() }
    }

    /// What is mounted there. The last one covers those before it.
    pub(crate) fn at(&self, dir: &Path) -> Option<&Mounted> {
        self.mounts.iter().rfind(|mount| mount.dir == dir)
    }

    /// Where a file system is mounted: in this directory, if there, else in the first.
    pub(crate) fn of(&self, device: Device, dir: &Path) -> Option<&Mounted> {
        let mut all = self.mounts.iter().filter(|mount| mount.device == device && mount.is_whole);
        all.clone().find(|mount| mount.dir == dir).or_else(|| all.next())
    }

    /// In what a path lies, whether it is there or not.
    pub(crate) fn around(&self, path: &Path) -> Option<&Mounted> {
        path.ancestors().find_map(|above| self.at(above))
    }

    /// What is mounted below a directory.
    pub(crate) fn below<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = &'a Mounted> {
        self.mounts.iter().filter(move |mount| mount.dir != dir && mount.dir.starts_with(dir))
    }

    /// All datasets that are mounted, served or not.
    pub(crate) fn ours(&self) -> impl Iterator<Item = &Mounted> {
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
            is_whole: *words.get(3)? == "/",
            source: unescaped(behind.next()?),
            is_read_only: words.get(5)?.split(',').any(|option| option == "ro"),
        })
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.kind == KIND
    }

    /// What it is, for whoever is told.
    pub(crate) fn what(&self) -> String {
        if self.is_ours() { self.source.clone() } else { format!("{} ({})", self.source, self.kind) }
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

    /// Whatever covers it, and whatever the directories above it are called by now; and one that was detached is nowhere.
    #[test]
    fn a_file_system_is_found_by_its_number() {
        let table = Table::parse(&format!(
            "{TABLE}40 21 0:45 /sub /part rw - fuse.tally tank/c rw\n41 21 0:43 / /copy rw - fuse.tally tank/b rw\n"
        ));
        for (minor, dir, found) in [
            (43, "/srv/b", Some("/srv/b")),
            (43, "/copy", Some("/copy")),
            (43, "/old", Some("/srv/b")),
            (45, "/part", Some("/srv/my files/c")),
            (46, "/srv/b", None),
        ] {
            let there = table.of((0, minor), Path::new(dir));
            assert_eq!(there.map(|there| &*there.dir), found.map(Path::new), "{minor} {dir}");
        }
    }
}
