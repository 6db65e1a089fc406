//! Trees of folders with files of real sizes, the same in every run, copied as `cp -a` copies them.
//!
//! | `home`: share of 20,000 files | bytes of each | what they are |
//! |---|---|---|
//! | 60 % | 128 to 4,096 | settings, dotfiles, sources |
//! | 30 % | 4 to 128 KiB | texts, code, icons |
//! | 9 % | 128 KiB to 2 MiB | documents, pictures of web pages, objects of builds |
//! | 1 % | 2 to 50 MiB | photographs, archives, a mailbox |
//!
//! | `library --scale`: share of 306,000 files | bytes of each | what they are |
//! |---|---|---|
//! | 25 % | 2 to 32 KiB | covers, playlists, what programs write beside photographs |
//! | 55 % | 1 to 8 MiB | photographs |
//! | 18.5 % | 2 to 16 MiB | music |
//! | 1.5 % | 16 to 64 MiB | photographs as the camera took them, music without loss |
//!
//! Within a class each doubling of size is as frequent as any other, and within a doubling each size. Files of all classes
//! are mixed and fall into folders at random; a folder is in any of those before it. In a home one file of 40 has a
//! symbolic link beside it, and one of 200 a second name.

use anyhow::Result;

use super::SIZES_SEED;
use crate::client::{As, Client, Site, Tool};
use crate::random::Random;
use crate::stage::{Phase, Stage, Tick};

/// What kind of tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    classes: [Class; 4],
    /// Files in a folder on average.
    folder_files: u64,
    /// Every so many files one has a symbolic link, or another name; 0 for none.
    symlink_each: usize,
    link_each: usize,
}

/// Files of a class: how many of a thousand, and their least and greatest size.
#[derive(Clone, Copy, Debug)]
struct Class {
    of_thousand: u64,
    bytes: (usize, usize),
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Files of a whole home.
pub const HOME_FILES: u64 = 20_000;
/// Files of a whole library.
pub const MEDIA_FILES: u64 = 306_000;

pub(super) const HOME: Tree = Tree {
    classes: [
        class(600, 128, 4 * KIB),
        class(300, 4 * KIB, 128 * KIB),
        class(90, 128 * KIB, 2 * MIB),
        class(10, 2 * MIB, 50 * MIB),
    ],
    folder_files: 16,
    symlink_each: 40,
    link_each: 200,
};

pub(super) const MEDIA: Tree = Tree {
    classes: [
        class(250, 2 * KIB, 32 * KIB),
        class(550, MIB, 8 * MIB),
        class(185, 2 * MIB, 16 * MIB),
        class(15, 16 * MIB, 64 * MIB),
    ],
    folder_files: 40,
    symlink_each: 0,
    link_each: 0,
};

const fn class(of_thousand: u64, least: usize, greatest: usize) -> Class {
    Class { of_thousand, bytes: (least, greatest) }
}

impl Class {
    fn draw(&self, random: &mut Random) -> usize {
        let (least, greatest) = self.bytes;
        let doublings = (greatest / least).next_power_of_two().ilog2().max(1);
        let from = least << random.below(doublings as usize);
        from + random.below((2 * from).min(greatest) - from + 1)
    }
}

/// A folder: those in it by number, and the sizes of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Folder {
    inner: Vec<usize>,
    files: Vec<usize>,
}

impl Tree {
    /// Bytes of so many files together.
    pub(super) fn bytes(&self, files: u64) -> u64 {
        self.sizes(files).iter().map(|bytes| *bytes as u64).sum()
    }

    /// Sizes of so many files, class by class; the first has what rounding leaves over.
    fn sizes(&self, files: u64) -> Vec<usize> {
        let mut random = Random::new(SIZES_SEED, 1);
        let of_class = |class: &Class| (files * class.of_thousand + 500) / 1000;
        let others: u64 = self.classes[1..].iter().map(of_class).sum();
        let counts = self.classes.iter().enumerate().map(|(number, class)| match number {
            0 => (class, files.saturating_sub(others)),
            _ => (class, of_class(class)),
        });
        counts.flat_map(|(class, count)| (0..count).map(move |_| class)).map(|class| class.draw(&mut random)).collect()
    }

    /// All folders, of which the first is the one that is copied.
    fn folders(&self, files: u64) -> Vec<Folder> {
        let mut random = Random::new(SIZES_SEED, 2);
        let count = usize::try_from(files / self.folder_files).unwrap_or(usize::MAX).saturating_add(1);
        let mut folders = vec![Folder::default(); count];
        for number in 1..count {
            folders[random.below(number)].inner.push(number);
        }
        for bytes in self.sizes(files) {
            folders[random.below(count)].files.push(bytes);
        }
        folders.iter_mut().for_each(|folder| random.shuffle(&mut folder.files));
        folders
    }

    /// Copies so many files of it.
    pub(super) fn copy<S: Site>(&self, stage: &mut Stage<'_, S>, name: &str, files: u64) -> Result<Phase> {
        let tool = if stage.whose() == As::Root { Tool::CpArchiveAsRoot } else { Tool::CpArchive };
        let (root, seed, folders) = (stage.folder().clone(), stage.seed()?, self.folders(files));
        stage.phase(name, "files", files, 1, |_, client, tick| {
            let mut walk =
                Walk { tree: self, folders: &folders, tool, random: Random::new(seed, 0), made: 0, client, tick };
            walk.folder(&root, 0)
        })
    }
}

/// A copy under way.
struct Walk<'a, C: Client> {
    tree: &'a Tree,
    folders: &'a [Folder],
    tool: Tool,
    random: Random,
    made: usize,
    client: &'a mut C,
    tick: &'a Tick<'a>,
}

impl<C: Client> Walk<'_, C> {
    /// A folder gets its attributes when all is in it.
    fn folder(&mut self, parent: &C::Node, number: usize) -> Result<()> {
        let folder = self.client.make_folder(parent, &format!("d{number:05}"))?;
        let folders = self.folders;
        folders[number].files.iter().try_for_each(|bytes| self.file(&folder, *bytes))?;
        folders[number].inner.iter().try_for_each(|inner| self.folder(&folder, *inner))?;
        self.client.finish_folder(&folder, self.tool)
    }

    fn file(&mut self, folder: &C::Node, bytes: usize) -> Result<()> {
        self.made += 1;
        let name = format!("f{:06}", self.made);
        let file = self.client.add_file(folder, &name, &self.random.bytes(bytes), self.tool)?;
        let is_due = |each: usize| each > 0 && self.made.is_multiple_of(each);
        if is_due(self.tree.symlink_each) {
            self.client.add_symlink(folder, &format!("s{:06}", self.made), &name, self.tool)?;
        }
        if is_due(self.tree.link_each) {
            self.client.link(&file, folder, &format!("h{:06}", self.made))?;
        }
        self.tick.done(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of files that are larger than so much.
    fn above(sizes: &[usize], bytes: usize) -> f64 {
        sizes.iter().filter(|size| **size > bytes).count() as f64 / sizes.len() as f64
    }

    #[test]
    fn a_home_has_the_sizes_that_it_says_and_they_are_always_the_same() {
        let sizes = HOME.sizes(HOME_FILES);
        assert_eq!((sizes.len() as u64, &sizes), (HOME_FILES, &HOME.sizes(HOME_FILES)));
        assert!(sizes.iter().all(|bytes| (128..=50 * MIB).contains(bytes)));
        for (bytes, share) in [(4 * KIB, 0.4), (128 * KIB, 0.1), (2 * MIB, 0.01)] {
            // A size upon a border belongs to both classes.
            assert!((above(&sizes, bytes) - share).abs() < 0.0005, "above {bytes}: {}", above(&sizes, bytes));
        }
        // Half of the smallest class lies below the middle of its third doubling of five.
        let small = sizes.iter().filter(|bytes| **bytes <= 768).count();
        assert!((5_700..6_300).contains(&small), "{small} of 12,000");
        let sum = HOME.bytes(HOME_FILES);
        assert!((4_u64 << 30..6 << 30).contains(&sum), "{sum}");
        assert!(sizes.iter().any(|bytes| *bytes > 40 * MIB), "the largest come up to 50 MiB");
    }

    #[test]
    fn a_library_has_photographs_and_music() {
        let sizes = MEDIA.sizes(MEDIA_FILES / 100);
        assert_eq!(sizes.len(), 3060);
        for (bytes, share) in [(32 * KIB, 0.75), (16 * MIB, 0.015)] {
            assert!((above(&sizes, bytes) - share).abs() < 0.0015, "above {bytes}: {}", above(&sizes, bytes));
        }
    }

    #[test]
    fn every_folder_is_in_one_and_every_file_too() {
        let folders = HOME.folders(2000);
        let mut inner: Vec<_> = folders.iter().flat_map(|folder| folder.inner.iter().copied()).collect();
        inner.sort_unstable();
        assert_eq!(inner, (1..folders.len()).collect::<Vec<_>>());
        assert!(folders.iter().enumerate().all(|(number, folder)| folder.inner.iter().all(|inner| *inner > number)));
        let mut sizes: Vec<_> = folders.iter().flat_map(|folder| folder.files.iter().copied()).collect();
        sizes.sort_unstable();
        let mut all = HOME.sizes(2000);
        all.sort_unstable();
        assert!(sizes == all && folders == HOME.folders(2000));
    }

    #[test]
    fn few_files_are_a_tree_too() {
        for files in 1..20 {
            assert_eq!(HOME.sizes(files).len() as u64, files);
        }
    }
}
