//! Commands that ZFS has and we have not (yet): each is answered with what to do instead, and with exit status 2. They are in no help and in no completion.

use clap::{Args, Subcommand};

/// Whatever stands behind such a command.
#[derive(Clone, Debug, Args)]
pub struct AnyWords {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _words: Vec<String>,
}

/// Those of `zfs`.
#[derive(Clone, Debug, Subcommand)]
#[allow(missing_docs)] // They are what they are called.
pub enum OfZfs {
    #[command(hide = true, alias = "snap")]
    Snapshot(AnyWords),
    #[command(hide = true)]
    Rollback(AnyWords),
    #[command(hide = true)]
    Clone(AnyWords),
    #[command(hide = true)]
    Promote(AnyWords),
    #[command(hide = true)]
    Diff(AnyWords),
    #[command(hide = true)]
    Hold(AnyWords),
    #[command(hide = true)]
    Holds(AnyWords),
    #[command(hide = true)]
    Release(AnyWords),
    #[command(hide = true)]
    Bookmark(AnyWords),
    #[command(hide = true)]
    Send(AnyWords),
    #[command(hide = true, alias = "recv")]
    Receive(AnyWords),
    #[command(hide = true)]
    Unshare(AnyWords),
    #[command(hide = true)]
    Userspace(AnyWords),
    #[command(hide = true)]
    Groupspace(AnyWords),
    #[command(hide = true)]
    Projectspace(AnyWords),
    #[command(hide = true)]
    Allow(AnyWords),
    #[command(hide = true)]
    Unallow(AnyWords),
    #[command(hide = true)]
    LoadKey(AnyWords),
    #[command(hide = true)]
    UnloadKey(AnyWords),
    #[command(hide = true)]
    ChangeKey(AnyWords),
}

impl OfZfs {
    /// What to do instead.
    pub(super) const fn instead(&self) -> &'static str {
        match self {
            Self::Snapshot(_)
            | Self::Rollback(_)
            | Self::Clone(_)
            | Self::Promote(_)
            | Self::Diff(_)
            | Self::Hold(_)
            | Self::Holds(_)
            | Self::Release(_)
            | Self::Bookmark(_) => "there are no snapshots yet: back up with what reads files (rsync -a, restic, borg)",
            Self::Send(_) | Self::Receive(_) => {
                "datasets are not sent yet: copy with what reads files (rsync -a, cp -a) between two mounts"
            }
            Self::Unshare(_) => {
                "what is exported is what sharenfs says, from the next request on: `tally dataset set sharenfs=off DATASET` ends it, and RULES or on bring it back"
            }
            Self::Userspace(_) | Self::Groupspace(_) | Self::Projectspace(_) => {
                "there are no quotas of users yet: give each a dataset with a quota"
            }
            Self::Allow(_) | Self::Unallow(_) => "commands are root's, and of the user who runs the daemon",
            Self::LoadKey(_) | Self::UnloadKey(_) | Self::ChangeKey(_) => {
                "nothing is encrypted: use dm-crypt (LUKS) below the pool"
            }
        }
    }
}

/// Those of `zpool`.
#[derive(Clone, Debug, Subcommand)]
#[allow(missing_docs)] // They are what they are called.
pub enum OfZpool {
    #[command(hide = true)]
    Split(AnyWords),
    #[command(hide = true)]
    Checkpoint(AnyWords),
    #[command(hide = true)]
    Trim(AnyWords),
    #[command(hide = true)]
    Initialize(AnyWords),
    #[command(hide = true)]
    Reguid(AnyWords),
    #[command(hide = true)]
    Resilver(AnyWords),
    #[command(hide = true)]
    Ddtprune(AnyWords),
    #[command(hide = true)]
    Prefetch(AnyWords),
}

impl OfZpool {
    /// What to do instead.
    pub(super) const fn instead(&self) -> &'static str {
        match self {
            Self::Split(_) => {
                "a mirror is not split: `tally pool detach` takes a disk out of one, and its content with it"
            }
            Self::Checkpoint(_) => {
                "there are no checkpoints: `tally pool import --rewind` goes back to one of the newest groups that can still be read"
            }
            Self::Trim(_) => "disks are not trimmed yet",
            Self::Initialize(_) => "disks need not be written over before: `tally pool scrub` reads all that is in use",
            Self::Reguid(_) => "a pool keeps its guid: clients' handles have it",
            Self::Resilver(_) => {
                "a disk that has missed changes gets them by itself; `tally pool reopen` looks for those that are back"
            }
            Self::Ddtprune(_) => "equal blocks are not looked for",
            Self::Prefetch(_) => "what a pool stands on is read at its import",
        }
    }
}

/// Tools that stand beside `zpool`, `zfs` and the kernel's NFS server: what is called otherwise here.
#[derive(Clone, Debug, Subcommand)]
#[allow(missing_docs)] // They are what they are called.
pub enum OfOthers {
    #[command(hide = true)]
    Zdb(AnyWords),
    #[command(hide = true)]
    Zed(AnyWords),
    #[command(hide = true)]
    Exportfs(AnyWords),
    #[command(hide = true)]
    Nfsdclnts(AnyWords),
}

impl OfOthers {
    /// What it is called here.
    pub(super) const fn instead(&self) -> &'static str {
        match self {
            Self::Zdb(_) => "`tally inspect` shows what stands on the disks of a pool that is not imported",
            Self::Zed(_) => {
                "tally-events.service runs the programs of /etc/tally/events.d for what happens, and a mail is one of them: `ln -s /usr/share/tally/events.d/mail /etc/tally/events.d/` (tally-events(7)); `tally events -f` shows it"
            }
            Self::Exportfs(_) => {
                "`tally exports -v` shows what is exported; sharenfs says what is (tally dataset set sharenfs=...)"
            }
            Self::Nfsdclnts(_) => {
                "`tally client list` shows clients, `tally stat opens` what they have open, and `tally locks` what they have locked"
            }
        }
    }
}

/// Words that are said of pools and of datasets: which of them is meant has to be said.
#[derive(Clone, Debug, Subcommand)]
#[allow(missing_docs)] // They are what they are called.
pub enum OfBoth {
    #[command(hide = true)]
    List(AnyWords),
    #[command(hide = true)]
    Get(AnyWords),
    #[command(hide = true)]
    Set(AnyWords),
    #[command(hide = true)]
    Create(AnyWords),
    #[command(hide = true)]
    Destroy(AnyWords),
    #[command(hide = true)]
    Status(AnyWords),
    #[command(hide = true)]
    Iostat(AnyWords),
    #[command(hide = true)]
    Scrub(AnyWords),
    #[command(hide = true)]
    Import(AnyWords),
    #[command(hide = true)]
    Export(AnyWords),
    #[command(hide = true)]
    History(AnyWords),
}

impl OfBoth {
    /// What to type.
    pub(super) const fn instead(&self) -> &'static str {
        match self {
            Self::List(_) => "`tally pool list` or `tally dataset list`?",
            Self::Get(_) => "`tally pool get` or `tally dataset get`?",
            Self::Set(_) => "`tally pool set` or `tally dataset set`?",
            Self::Create(_) => "`tally pool create` or `tally dataset create`?",
            Self::Destroy(_) => "`tally pool destroy` or `tally dataset destroy`?",
            Self::Status(_) => "`tally pool status`",
            Self::Iostat(_) => "`tally pool iostat`",
            Self::Scrub(_) => "`tally pool scrub`",
            Self::Import(_) => "`tally pool import`",
            Self::Export(_) => "`tally pool export`",
            Self::History(_) => "`tally pool history`",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Command;

    use super::*;

    /// Whoever comes from there looks it up once, and believes the page.
    #[test]
    fn each_stands_in_the_page() {
        let page = include_str!("../../../../packaging/man/tally-from-zfs.7");
        // In prose `list` and `mount` stand anyway.
        let lines = page.lines().filter(|line| line.starts_with(".It ") || line.starts_with(".Ic "));
        let words: BTreeSet<&str> = lines.flat_map(str::split_whitespace).collect();
        let tables: [fn(Command) -> Command; 4] = [
            OfZfs::augment_subcommands,
            OfZpool::augment_subcommands,
            OfBoth::augment_subcommands,
            OfOthers::augment_subcommands,
        ];
        let mut count = 0;
        for table in tables {
            for command in table(Command::new("tally")).get_subcommands() {
                for word in std::iter::once(command.get_name()).chain(command.get_all_aliases()) {
                    assert!(words.contains(word), "tally-from-zfs(7) does not say what comes of {word}");
                    count += 1;
                }
            }
        }
        assert!(count > 42, "{count} words");
    }
}
