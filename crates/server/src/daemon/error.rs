//! What can be wrong with a command on pools, and what whoever gave it may do about it.
//!
//! The words stand below whoever says them: a command on disks fails in more ways than its own.

mod disk;
mod label;
mod new_file;
mod scrub;

use std::fmt;
use std::path::PathBuf;

use tally_fs::filer::{DatasetError, FilerError};
use tally_members::assemble::ImportError;
use tally_members::grammar::GrammarError;
use tally_members::label::{FIRST_RELEASE, this_release};
use tally_store::pool::OpenError;
use tally_store::properties::PropertyError;

pub use self::disk::DiskError;
pub(super) use self::disk::of_spare;
pub use self::label::LabelClearError;
pub use self::new_file::NewFileError;
pub use self::scrub::ScrubError;

/// How a pool is put away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By `export`.
    Exported,
    /// By `destroy`.
    Destroyed,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exported => "exported",
            Self::Destroyed => "destroyed",
        })
    }
}

/// Why a command on pools or datasets was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum PoolsError {
    /// The pool itself refused.
    #[error(transparent)]
    Filer(Box<FilerError>),
    /// A command on a dataset was refused.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A command on a disk was refused.
    #[error(transparent)]
    Disk(Box<DiskError>),
    /// A label was not erased.
    #[error(transparent)]
    Label(#[from] LabelClearError),
    /// A scrub was not begun, or ended early.
    #[error(transparent)]
    Scrub(#[from] ScrubError),
    /// The words behind a pool's name make no sense.
    #[error(transparent)]
    Grammar(#[from] GrammarError),
    /// A property was not understood.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// A rule of sharenfs was not understood.
    #[error(transparent)]
    Share(#[from] tally_nfs::exports::ShareError),
    /// An option of sharesmb was not understood.
    #[error(transparent)]
    Smb(#[from] tally_smb::ShareError),
    /// Two shares would have one name.
    #[error(
        "the share of '{dataset}' would be called {share}, as that of '{by}' is; give one of them another name: sharesmb=name=NAME"
    )]
    ShareNameTaken {
        /// The name.
        share: String,
        /// Whose it would be.
        dataset: String,
        /// Whose it is.
        by: String,
    },
    /// Macs keep files open that others would change.
    #[error(
        "'{dataset}' would be for backups of Macs (sharesmb=timemachine=…) and exported to other hosts by sharenfs: Macs keep files open over a broken \
         connection, and others would change them meanwhile. Set sharenfs=off on it, or make a dataset for the backups"
    )]
    TimeMachineExported {
        /// Which.
        dataset: String,
    },
    /// A command was carried out, and the list of pools could not be written behind it.
    #[error("{}\nBut {trouble}", done.join("\n"))]
    Unlisted {
        /// What was done.
        done: Vec<String>,
        /// What is wrong with the list, and what that means for the next start.
        trouble: String,
    },
    /// No such pool.
    #[error("no pool '{name}' is imported; `tally pool list` shows those that are")]
    NoPool {
        /// As asked for.
        name: String,
    },
    /// This machine has something of it mounted.
    #[error("'{name}' stays as it is: {dataset} is mounted on {} of this machine. `tally unmount {}`, and do this again", dir.display(), dir.display())]
    Mounted {
        /// What was to go.
        name: String,
        /// The dataset that is mounted.
        dataset: String,
        /// Where.
        dir: PathBuf,
    },
    /// It is mounted on what its new name would take away.
    #[error(
        "'{name}' was not renamed: it is mounted on {0}, the directory that it has in {above} by its name; `tally unmount {0}` first, and mount it anew behind that (`tally mount -a`)",
        dir.display()
    )]
    DirectoryMounted {
        /// What was to have another name.
        name: String,
        /// The dataset in which its directory is.
        above: String,
        /// Where both are mounted.
        dir: PathBuf,
    },
    /// Nothing on the way leads to it any more, and it is used.
    #[error(
        "'{name}' stays as it is: {dataset}, which was mounted on {}, is still in use by a program that had it open when it was taken away there, or by a container that has a mount of its own (lsns -t mnt); it is over when that has ended",
        dir.display()
    )]
    Detached {
        /// What was to go.
        name: String,
        /// The dataset that is served.
        dataset: String,
        /// Where it was.
        dir: PathBuf,
    },
    /// A mount without what it is to be served over.
    #[error("{} is not mounted: {why}", dir.display())]
    NotMounted {
        /// Where it was to be.
        dir: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// What is on its way to a disk may still be written after an export, and nobody would be left to know.
    #[error(
        "{} has owed an answer for {seconds} s, and may still write what it was given: '{name}' stays imported.\n\
         Do this again when the disk answers, or take it out of its mirror with `tally pool detach`, if it is in one.\n\
         The server itself can be stopped all the same: its next start replays what the log has.",
        path.display()
    )]
    Silent {
        /// Which pool.
        name: String,
        /// Which disk.
        path: PathBuf,
        /// How long.
        seconds: u64,
    },
    /// Detaching a disk does not free whoever had asked it for something before.
    #[error(
        "{} is no part of '{name}' any more, but somebody still waits for its answer, for {seconds} s by now: '{name}' \
         stays imported.\n\
         Do this again when the disk answers. The server itself can be stopped all the same: its next start replays \
         what the log has.",
        path.display()
    )]
    Owed {
        /// Which pool.
        name: String,
        /// Which disk.
        path: PathBuf,
        /// How long.
        seconds: u64,
    },
    /// Something of the end of a pool failed, and it is not served any more.
    #[error(
        "pool '{name}' was not {end}: {source}\n\
         It is not served any more: its clients wait, and `tally pool status` shows it as UNAVAIL. Once its disks are well, \
         `tally pool import {name}` takes it up again and replays its log{}.",
        if *end == End::Destroyed { ", with -D if a disk took this in before it failed" } else { "" }
    )]
    NotPutAway {
        /// Which pool.
        name: String,
        /// What was asked for.
        end: End,
        /// What failed.
        source: Box<FilerError>,
    },
    /// Nothing is written to it.
    #[error(
        "pool '{name}' is imported read-only, and stays as it is: `tally pool export {name}`, import it without --readonly, and \
         destroy it then"
    )]
    ReadOnlyDestroy {
        /// Which pool.
        name: String,
    },
    /// Its disks do not answer yet.
    #[error(
        "'{name}' stays suspended: no disk of {} can be used{}\nBring them back, and do this again. Clients wait meanwhile.",
        vdevs.join(", nor any of "),
        refused.iter().map(|why| format!("\n{why}")).collect::<String>()
    )]
    StillGone {
        /// Which pool.
        name: String,
        /// The parts of it without a disk.
        vdevs: Vec<String>,
        /// What was said of disks that cannot be read.
        refused: Vec<String>,
    },
    /// Beside what went wrong there is something to know.
    #[error("{source}\n{}", remarks.join("\n"))]
    WithRemarks {
        /// What went wrong.
        source: Box<PoolsError>,
        /// A line each.
        remarks: Vec<String>,
    },
    /// A command found its disks gone, or something has before it.
    #[error(
        "{source}\nPool '{name}' is suspended: once its disks are well, `tally pool clear {name}` goes on with it."
    )]
    WhileSuspended {
        /// Which pool.
        name: String,
        /// What the command met.
        source: Box<PoolsError>,
    },
    /// A new pool could not be written to its disks.
    #[error(
        "pool '{name}' was not made: {source}\n\
         See to its disks and do this again, with -f as some may say by now that they belong to it."
    )]
    NotMade {
        /// Which pool.
        name: String,
        /// What failed.
        source: Box<FilerError>,
    },
    /// Its root, its log or its first group refused.
    #[error("pool '{name}' was not imported: {source}{}", next_of(source))]
    NotImported {
        /// Which pool: what was asked for.
        name: String,
        /// What failed.
        source: Box<FilerError>,
    },
    /// There is nothing in memory that could go on.
    #[error("pool '{name}' is not imported; once its disks are well, `tally pool import {name}` takes it up")]
    ClearAway {
        /// Which pool.
        name: String,
    },
    /// It was let go to be resumed, and could not be imported.
    #[error(
        "pool '{name}' was not resumed: {source}\n\
         It is not served any more: its clients wait, and `tally pool status` shows it as UNAVAIL. What they were told is on its \
         disks; once those are well, `tally pool import {name}` takes it up."
    )]
    NotResumed {
        /// Which pool.
        name: String,
        /// What failed.
        source: Box<PoolsError>,
    },
    /// Nobody holds anything by NFSv4.
    #[error("this daemon does not speak NFSv4: it was started with --no-nfs4, or its configuration has `nfs4 = false`")]
    NoVersion4,
    /// No such client.
    #[error(
        "there is no client of NFSv4 with the id or the address '{word}'; `tally client list` shows those that are"
    )]
    NoClient {
        /// What was asked for.
        word: String,
    },
    /// An imported pool cannot be forgotten.
    #[error("pool '{name}' is imported; only a pool that is away can be forgotten. `tally pool export` lets go of it")]
    ForgetImported {
        /// Which pool.
        name: String,
    },
    /// Several pools have the name.
    #[error("several pools are called '{name}'; forget one that is away by its guid: {}", guids.join(", "))]
    ForgetWhich {
        /// The name.
        name: String,
        /// Of those that are away.
        guids: Vec<String>,
    },
    /// It holds, and the next start would not know.
    #[error("mountpoints of '{pool}' are taken so from now on, but the next start will not know: {why}")]
    MountpointsUnwritten {
        /// Which pool.
        pool: String,
        /// What is wrong with the list.
        why: String,
    },
    /// Who may mount the dataset would be forgotten.
    #[error(
        "'{from}' was not renamed: an [[export]] of the configuration is for it, and that this one is for '{to}', too, could not \
         be written down: {why}\n\
         Write an [[export]] for '{to}' into the configuration, have it read again (SIGHUP), and rename then."
    )]
    RulesCannotFollow {
        /// Which dataset.
        from: String,
        /// Its new name.
        to: String,
        /// What failed.
        why: String,
    },
    /// Nobody waits for such a pool.
    #[error("no pool '{name}' is away; `tally pool status` shows those that are, as UNAVAIL")]
    NotAway {
        /// As asked for.
        name: String,
    },
    /// One at a time.
    #[error("somebody else records the load already; ask again when that is over")]
    Recording,
    /// No such dataset.
    #[error("there is no dataset '{name}'; `tally dataset list` shows those that are")]
    NoDataset {
        /// As asked for.
        name: String,
    },
    /// A name is in use.
    #[error("a pool '{name}' is imported already; export it first, or choose another name")]
    Imported {
        /// Whose.
        name: String,
    },
    /// Rules are kept in the pool.
    #[error(
        "pool '{pool}' is imported read-only, and rules of sharenfs are kept in it. Until it is exported an [[export]] of the \
         configuration stands above them: write dataset = \"{dataset}\" and rules = \"off\" there, or other rules, and send \
         the daemon SIGHUP"
    )]
    ReadOnlyShare {
        /// Which pool.
        pool: String,
        /// For which dataset.
        dataset: String,
    },
    /// Files for a pool could not be made.
    #[error(transparent)]
    NewFile(#[from] NewFileError),
    /// Not a property of pools.
    #[error("pools have no property '{name}'; `tally pool get all` shows those that they have")]
    NoPoolProperty {
        /// As asked for.
        name: String,
    },
    /// A property of ZFS that cannot be had.
    #[error("{property}={value} cannot be had: {instead}")]
    Foreign {
        /// Which property.
        property: String,
        /// As asked for.
        value: String,
        /// What to do.
        instead: String,
    },
    /// A property of pools that cannot be set so.
    #[error(
        "'{name}={value}' cannot be set: a pool has failmode=wait|continue, scrub=off|weekly|monthly, \
         hang_limit=auto|off|SECONDS, compatibility=off|VERSION, mountpoints=accept|ignore, feature@NAME=enabled and \
         clock=accept, and nothing else that can be changed"
    )]
    BadPoolProperty {
        /// Which property.
        name: String,
        /// As asked for.
        value: String,
    },
    /// Not a feature of this program.
    #[error(
        "{} does not know feature@{name}{}; `tally pool get feature@all` shows what there is",
        concat!("tally ", env!("CARGO_PKG_VERSION")), reserved.map_or_else(String::new, |what| format!(" ({what})"))
    )]
    NoFeature {
        /// As asked for.
        name: String,
        /// What a later version calls so.
        reserved: Option<&'static str>,
    },
    /// Not a limit of features.
    #[error(
        "compatibility={value} cannot be set: 'off', or a version from {FIRST_RELEASE} to {}, whose features are known here",
        this_release()
    )]
    BadCompatibility {
        /// As asked for.
        value: String,
    },
    /// A property that a new pool cannot be given.
    #[error(
        "'{name}={value}' is nothing that a new pool can be given with -o: compatibility=off|VERSION is; -O is for its dataset"
    )]
    BadNewPoolProperty {
        /// Which property.
        name: String,
        /// As asked for.
        value: String,
    },
    /// Nothing is foreseen of this command.
    #[error(
        "-n shows what create, destroy, upgrade, add, remove, attach, detach, replace, offline and online would do, and no other command"
    )]
    NotTried,
    /// Directories to look in cannot be read.
    #[error("cannot look for pools: {0}")]
    Look(#[source] std::io::Error),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
}

impl PoolsError {
    /// Whether the pool was not imported because somebody has a disk of it open.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        let Self::Filer(error) = self else { return false };
        matches!(&**error, FilerError::Import(ImportError::InUse { .. }))
    }

    /// Whether the pool was not imported because it was destroyed.
    #[must_use]
    pub fn is_destroyed(&self) -> bool {
        let Self::Filer(error) = self else { return false };
        matches!(&**error, FilerError::Import(ImportError::Destroyed { .. }))
    }
}

/// What to do about an import that could not write. Whatever else fails says so itself.
fn next_of(error: &FilerError) -> &'static str {
    match error {
        FilerError::Sync(_) | FilerError::Open(OpenError::Sync(_) | OpenError::Roster(_)) => {
            "\nSee to its disks and import it again."
        }
        _ => "",
    }
}

// Boxed, as they are large and rare.
impl From<FilerError> for PoolsError {
    fn from(error: FilerError) -> Self {
        Self::Filer(Box::new(error))
    }
}

impl From<DiskError> for PoolsError {
    fn from(error: DiskError) -> Self {
        Self::Disk(Box::new(error))
    }
}
