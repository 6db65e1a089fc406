//! The text that Samba includes: a section for each share, and which datasets have none and why.
//!
//! | a share has | why |
//! |---|---|
//! | `strict sync = yes`, `sync always = no` | a flush of SMB2, and a write with write-through, becomes `fsync`, and that the log. Closing waits for the data anyway |
//! | `kernel oplocks = no`, `kernel share modes = no` | FUSE has neither |
//! | `ea support`, `store dos attributes` | attributes of users are there |
//! | `vfs objects = catia fruit streams_xattr` | what Macs expect; resource forks are longer than an attribute may be, so they are files |
//! | *alone:* oplocks and leases, `durable handles = yes`, `posix locking = no` | nobody but Samba changes a file, so clients may keep it |
//! | *alone:* `kernel change notify = no` | Samba knows by itself what it changes. Through the kernel it hears of nothing that comes while it has the kernel watch a directory, and that takes several requests over FUSE: a client that was told to wait, and made a directory at once, waited for ever |
//! | *mixed:* none of these, `posix locking = yes`, `kernel change notify = yes` | clients of NFS, or programs of this machine, change files, too |
//!
//! Mixed is a dataset that another host reaches by NFS, or in whose directory such a one is mounted; `exclusive=` says otherwise. A dataset that is not mounted has
//! `available = no`: what Samba would share is the directory beneath.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::name::ShareName;
use super::share::{Share, ShareError};

/// A dataset for which a share is asked, and what holds for it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its name.
    pub dataset: String,
    /// What is asked for.
    pub share: Share,
    /// On which dataset that was set: this one, or one above it.
    pub set_on: String,
    /// Where it is mounted, or is to be.
    pub dir: Option<PathBuf>,
    /// Whether it is.
    pub is_mounted: bool,
    /// Whether it says itself where that is to be.
    pub has_place: bool,
    /// Whether it takes no changes.
    pub is_read_only: bool,
    /// Most bytes that it may have.
    pub refquota: Option<u64>,
    /// Whether other hosts reach it by NFS.
    pub is_exported: bool,
    /// Whether this machine has accepted what the dataset's pool shares.
    pub is_accepted: bool,
}

/// A dataset that is mounted.
#[derive(Clone, Debug)]
pub struct Place {
    /// Where.
    pub dir: PathBuf,
    /// Whether other hosts reach it by NFS.
    pub is_exported: bool,
}

/// Who else changes what a share has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Nobody.
    Alone,
    /// Clients of NFS, or programs of this machine.
    Mixed,
}

/// What becomes of a share.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Of which dataset it is.
    pub dataset: String,
    /// Its name, if it can have one.
    pub name: Option<ShareName>,
    /// Where its files are.
    pub dir: Option<PathBuf>,
    /// Who else changes them.
    pub used: Use,
    /// Why clients find nothing there, if so, and what to do.
    pub problem: Option<Problem>,
    asked: Asked,
}

/// Why a share is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It has no name.
    #[error(transparent)]
    Name(#[from] ShareError),
    /// Somebody else has made its pool.
    #[error(
        "this machine has not accepted what '{0}' shares; `tally pool set mountpoints=accept {0}` accepts it, with where it is mounted"
    )]
    NotAccepted(String),
    /// Another one has it.
    #[error("the share of {0} has the same name; set sharesmb=name=NAME on one of them")]
    Taken(String),
    /// There is nothing to share.
    #[error("it is not mounted; `tally mount {dataset}{}` mounts it", if *has_place { "" } else { " DIR" })]
    NotMounted {
        /// Which dataset.
        dataset: String,
        /// Whether it says itself where.
        has_place: bool,
    },
    /// Its directory cannot be written into smb.conf.
    #[error(
        "its directory has a control character, a %, a quote, a backslash, two blanks side by side or one at the end, which smb.conf cannot have, or is no \
         UTF-8; mount it in another one"
    )]
    Path,
    /// Macs would keep files open that others change.
    #[error(
        "timemachine= needs the dataset for itself, and other hosts reach it, or what is mounted in it, by NFS; take it out of sharenfs"
    )]
    TimeMachineExported,
}

impl Problem {
    /// Whether the share is in the text all the same, as one that is away.
    const fn is_away(&self) -> bool {
        matches!(self, Self::NotMounted { .. } | Self::TimeMachineExported)
    }
}

/// What becomes of each, in the order of their datasets: of two with one name the first has it.
#[must_use]
pub fn plan(asked: Vec<Asked>, mounted: &[Place]) -> Vec<Planned> {
    let mut taken: BTreeMap<String, String> = BTreeMap::new();
    let mut planned = |asked: Asked| {
        let below = |dir: &Path| mounted.iter().any(|place| place.is_exported && place.dir.starts_with(dir));
        let is_exported = asked.is_exported || asked.dir.as_deref().is_some_and(below);
        let name = asked.share.name_of(&asked.dataset, &asked.set_on);
        let problem = match &name {
            _ if !asked.is_accepted => Some(Problem::NotAccepted(pool_of(&asked.dataset).into())),
            Err(error) => Some(error.clone().into()),
            Ok(name) if taken.contains_key(&name.key()) => taken.get(&name.key()).cloned().map(Problem::Taken),
            Ok(_) if asked.dir.as_deref().is_some_and(|dir| !is_writable(dir)) => Some(Problem::Path),
            Ok(_) if asked.share.time_machine.is_some() && is_exported => Some(Problem::TimeMachineExported),
            Ok(_) if asked.dir.is_none() || !asked.is_mounted => {
                Some(Problem::NotMounted { dataset: asked.dataset.clone(), has_place: asked.has_place })
            }
            Ok(_) => None,
        };
        let is_mixed = asked.share.exclusive.map_or(is_exported, |is_exclusive| !is_exclusive);
        let used = if is_mixed { Use::Mixed } else { Use::Alone };
        // What is not shared keeps its name from nobody who was here before.
        if let Ok(name) = &name
            && asked.is_accepted
        {
            taken.entry(name.key()).or_insert_with(|| asked.dataset.clone());
        }
        Planned { dataset: asked.dataset.clone(), name: name.ok(), dir: asked.dir.clone(), used, problem, asked }
    };
    asked.into_iter().map(&mut planned).collect()
}

fn pool_of(dataset: &str) -> &str {
    dataset.split('/').next().unwrap_or(dataset)
}

/// A directory that smb.conf can name: Samba has no way to write what is left out here, puts other words for what stands behind a `%`, takes blanks off the ends and
/// makes one of two.
pub(super) fn is_writable(dir: &Path) -> bool {
    let Some(text) = dir.to_str() else { return false };
    let is_good = |letter: char| !letter.is_control() && !"%\"\\".contains(letter);
    dir.is_absolute() && !text.ends_with(' ') && !text.contains("  ") && text.chars().all(is_good)
}

/// Behind the sections stands `[global]`, so that lines of smb.conf behind the one that includes this are of no share.
const END: &str = "\n[global]\n";
const HEAD: &str = "\
# Written by tally, from the property sharesmb of its datasets, and anew when they or their mounts change: nothing is to be changed here.
# Samba reads it by a line in smb.conf: include = ";

/// The text for Samba, which reads it by the name of `file`.
#[must_use]
pub fn text(planned: &[Planned], file: &Path) -> String {
    let mut text = if is_writable(file) { format!("{HEAD}{}\n", file.display()) } else { format!("{HEAD}FILE\n") };
    for share in planned {
        let (Some(name), None | Some(true)) = (&share.name, share.problem.as_ref().map(Problem::is_away)) else {
            continue;
        };
        text.push_str(&section(name, share));
    }
    text + END
}

fn section(name: &ShareName, Planned { dataset, dir, used, problem, asked, .. }: &Planned) -> String {
    let share = &asked.share;
    let mut text = format!("\n[{name}]\n");
    let mut set = |key: &str, value: &str| _ = writeln!(text, "\t{key} = {value}");
    let yes = |is_it: bool| if is_it { "yes" } else { "no" };
    // It may come from a pool that somebody else has made.
    if dataset.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:/".contains(c)) {
        set("comment", dataset);
    }
    // A section without one has /tmp.
    set("path", dir.as_deref().and_then(Path::to_str).unwrap_or("/nonexistent"));
    set("available", yes(problem.is_none()));
    set("read only", yes(asked.is_read_only));
    set("guest ok", yes(share.guest));
    if !share.users.is_empty() {
        set("valid users", &share.users.join(" "));
    }
    set("strict sync", "yes");
    set("sync always", "no");
    set("kernel oplocks", "no");
    set("kernel share modes", "no");
    set("ea support", "yes");
    set("store dos attributes", "yes");
    if share.macos {
        set("vfs objects", "catia fruit streams_xattr");
        set("fruit:metadata", "stream");
        set("fruit:resource", "file");
    } else {
        set("vfs objects", "streams_xattr");
    }
    let is_alone = *used == Use::Alone;
    set("oplocks", yes(is_alone));
    set("level2 oplocks", yes(is_alone));
    set("durable handles", yes(is_alone));
    set("posix locking", yes(!is_alone));
    set("kernel change notify", yes(!is_alone));
    if let Some(bytes) = share.time_machine {
        set("fruit:time machine", "yes");
        set("fruit:time machine max size", &asked.refquota.map_or(bytes, |most| most.min(bytes)).to_string());
    }
    text
}

#[cfg(test)]
mod tests;
