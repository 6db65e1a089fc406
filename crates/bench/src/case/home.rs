//! A home directory of 85 MB, the same in every run: what lies in one, by number and by weight.
//!
//! | files | bytes of each | what they are |
//! |---|---|---|
//! | 2,000 | 200 to 4,096 | settings, dotfiles, sources |
//! | 700 | 4 to 32 KiB | texts, code, icons |
//! | 120 | 32 to 256 KiB | documents, pictures of web pages |
//! | 16 | 1 to 4 MiB | photographs |
//! | 1 | what is missing to 85,000,000 | a mailbox |
//!
//! In 97 folders: one for each class, and 92 below the first two, into which their files fall at random.

use anyhow::Result;

use super::SIZES_SEED;
use crate::client::{Client, Site, Tool};
use crate::random::Random;
use crate::stage::{Phase, Stage};

/// Bytes of all files together.
pub const HOME_BYTES: u64 = 85_000_000;

/// A class: files, least and greatest size, folders below its own.
const CLASSES: [(&str, usize, (usize, usize), usize); 4] = [
    ("settings", 2000, (200, 4096), 60),
    ("projects", 700, (4 << 10, 32 << 10), 32),
    ("documents", 120, (32 << 10, 256 << 10), 0),
    ("pictures", 16, (1 << 20, 4 << 20), 0),
];
const MAIL: &str = "mail";

/// A file: its folder, the folder below that, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HomeFile {
    folder: &'static str,
    below: Option<usize>,
    bytes: usize,
}

/// All files, folder by folder.
pub(super) fn home() -> Vec<HomeFile> {
    let mut random = Random::new(SIZES_SEED, 0);
    let mut files = Vec::new();
    for (folder, count, (least, greatest), folders) in CLASSES {
        for _ in 0..count {
            let below = (folders > 0).then(|| random.below(folders));
            files.push(HomeFile { folder, below, bytes: least + random.below(greatest - least + 1) });
        }
    }
    files.sort();
    let sum: usize = files.iter().map(|file| file.bytes).sum();
    let missing = usize::try_from(HOME_BYTES).unwrap_or(0).saturating_sub(sum);
    files.push(HomeFile { folder: MAIL, below: None, bytes: missing });
    files
}

/// Copies it as `cp -a` does: folders get their attributes when all is in them, the inner ones first.
pub(super) fn copy<S: Site>(stage: &mut Stage<'_, S>) -> Result<Phase> {
    let (root, seed, files) = (stage.folder().clone(), stage.seed()?, home());
    stage.phase("copy", "files", files.len() as u64, 1, |_, client, tick| {
        let mut random = Random::new(seed, 0);
        for class in files.chunk_by(|a, b| a.folder == b.folder) {
            let folder = client.make_folder(&root, class[0].folder)?;
            for inner in class.chunk_by(|a, b| a.below == b.below) {
                let below = inner[0].below.map(|number| client.make_folder(&folder, &format!("d{number:02}")));
                let below = below.transpose()?;
                for (number, file) in inner.iter().enumerate() {
                    let place = below.as_ref().unwrap_or(&folder);
                    client.add_file(place, &format!("f{number:04}"), &random.bytes(file.bytes), Tool::CpArchive)?;
                    tick.done(1)?;
                }
                below.iter().try_for_each(|below| client.finish_folder(below, Tool::CpArchive))?;
            }
            client.finish_folder(&folder, Tool::CpArchive)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_home_directory_has_85_mb_and_is_always_the_same() {
        let files = home();
        assert_eq!(files.iter().map(|file| file.bytes as u64).sum::<u64>(), HOME_BYTES);
        assert_eq!((files.len(), &files), (2837, &home()));
        let folders: BTreeSet<_> = files.iter().map(|file| (file.folder, file.below)).collect();
        assert_eq!(folders.iter().filter(|(_, below)| below.is_some()).count(), 92);
        let mail = files.last().map_or(0, |file| file.bytes);
        assert!((2 << 20..20 << 20).contains(&mail), "a mailbox of {mail} bytes");
    }
}
