//! The grammar of the command line, in the words of `zpool` and `zfs`.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueHint};

use super::advise::AdviseCommand;
use super::arcstat::ArcstatArgs;
use super::bench::BenchCommand;
use super::completion::{CompleteArgs, Shell};
use super::dataset::DatasetCommand;
use super::exports::ExportsArgs;
use super::holdings::{ClientCommand, HeldArgs};
use super::hooks::RunArgs;
use super::init::InitArgs;
use super::inspect::InspectArgs;
use super::man::ManArgs;
use super::mount::{MountArgs, MountProgram, UnmountArgs, UnmountProgram};
use super::nfsstat::NfsstatArgs;
use super::pool::{EventsArgs, PoolCommand, ZPOOL_COLUMNS};
use super::smb::SmbArgs;
use super::stat::StatCommand;
use super::status;
use super::table::TableArgs;
use super::top::TopArgs;
use super::zfs_words::{OfBoth, OfOthers, OfZfs, OfZpool};
use super::zilstat::ZilstatArgs;
use crate::config::ServeArgs;

/// A file server that keeps every promise: a copy-on-write pool, an intent log, NFS.
#[derive(Debug, Parser)]
#[command(name = "tally", version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// The daemon's control socket [default: ./tally-data/tally.sock, then /run/tally/tally.sock]
    #[arg(long, global = true, env = "TALLY_SOCKET", hide_env_values = true, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,

    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

impl Cli {
    /// What to serve with, where that is what to do: the control socket is a flag of all commands.
    #[must_use]
    pub fn to_serve(&self) -> Option<ServeArgs> {
        match &self.command {
            Command::Serve(args) => Some(ServeArgs { socket: self.socket.clone(), ..args.clone() }),
            _ => None,
        }
    }
}

/// Scripts that count columns, or look for one by its head, have those of `zpool` in mind.
fn list_as_zpool(list: clap::Command) -> clap::Command {
    list.mut_arg("columns", |columns| columns.default_value(ZPOOL_COLUMNS))
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve pools over NFS; the first time, make a pool 'tank' in ./tally-data
    Serve(ServeArgs),
    /// Make a pool of disks or files, and a dataset in it that clients can mount
    ///
    /// It asks what it was not told, says which commands that takes, and runs them.
    Init(InitArgs),
    /// Make, import and look after pools
    #[command(subcommand)]
    Pool(PoolCommand),
    /// The same as ZFS calls it, whose list has more columns.
    #[command(
        subcommand,
        hide = true,
        mut_subcommand("list", list_as_zpool),
        mut_subcommand("status", status::as_zpool)
    )]
    Zpool(PoolCommand),
    /// Make datasets and set their properties
    #[command(subcommand, alias = "zfs")]
    Dataset(DatasetCommand),
    /// See and end clients of NFSv4
    #[command(subcommand)]
    Client(ClientCommand),
    /// Show what clients call and what it costs them, and what they hold by NFSv4
    #[command(subcommand)]
    Stat(StatCommand),
    /// Show what is exported, to whom and why, and who has it mounted
    ///
    /// `import` takes over a table of exports.
    #[command(args_conflicts_with_subcommands = true)]
    Exports(ExportsArgs),
    /// Show what Samba is to share, and what keeps it from that; `apply` has it take a new list
    ///
    /// The property sharesmb says which datasets are shared and how, and the daemon writes a part of smb.conf by it, which Samba includes: a program of its own, that speaks SMB. What is shared has to be mounted (`tally mount`).
    #[command(args_conflicts_with_subcommands = true)]
    Smb(SmbArgs),
    /// Mount datasets on this machine, or show what is mounted here
    ///
    /// Its files are there as a directory, for all users of the machine, as modes and owners say; what clients of NFS change is seen at once, and what is changed here by them. A call that makes, renames or removes a name has done so for good when it returns, and what was written to a
    /// file is durable behind `fsync` and behind `close`. `sync` and `syncfs` do not reach the server: `tally pool sync` brings to the disks what is still open. Ranges that programs lock and those of clients keep each other out. A restart of the daemon is not seen where systemd runs it; else a mount ends with its daemon. Datasets with a mountpoint are mounted by themselves (tally-mount.service), and what /etc/fstab says as it says (mount.tally(8)).
    ///
    /// A directory that is missing is made, and one that is not empty is not mounted on.
    Mount(MountArgs),
    /// Unmount datasets, once all of it is on the disks
    ///
    /// What programs have mapped and changed goes to the daemon, a transaction group takes all of it to the disks, and then it is unmounted; what is in use stays. A mount whose daemon is gone is taken away.
    #[command(alias = "umount")]
    Unmount(UnmountArgs),
    /// What mount(8) calls, by the name mount.tally.
    #[command(hide = true)]
    MountProgram(MountProgram),
    /// And umount(8), by the name umount.fuse.tally.
    #[command(hide = true)]
    UnmountProgram(UnmountProgram),
    /// Show ranges of files that NFSv4 clients have locked, and who waits for one
    Locks(HeldArgs),
    /// Show what clients call, as `nfsstat -s` does of the kernel's server
    Nfsstat(NfsstatArgs),
    /// Show how often reads found their blocks in memory, as `arcstat` does
    Arcstat(ArcstatArgs),
    /// What tells all of that at once.
    #[command(name = "arc_summary", hide = true)]
    ArcSummary {
        /// How it is printed.
        #[command(flatten)]
        table: TableArgs,
    },
    /// Show what has happened to pools and disks: the last 1,024 events of each pool
    #[command(args_conflicts_with_subcommands = true)]
    Events {
        /// Or have programs run for them.
        #[command(subcommand)]
        what: Option<EventsCommand>,
        /// What is shown.
        #[command(flatten)]
        args: EventsArgs,
    },
    /// Say what is wrong with this server or will be, and what to do: a line for each check
    ///
    /// Exit status: 0 nothing is, 1 a warning, 2 a failure.
    Doctor,
    /// Watch the server live in this terminal: pool, transaction groups, log, latency, busiest clients
    Top(TopArgs),
    /// Show what the intent log is given and writes, and where requests wait for it
    Zilstat(ZilstatArgs),
    /// Say what another device would bring
    #[command(subcommand)]
    Advise(AdviseCommand),
    /// Measure any NFSv3 server with what real clients send, and see whether it keeps what it promises
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Show what stands on the disks of a pool that is not imported; changes nothing, and goes on after damage
    Inspect(InspectArgs),
    /// Print the configuration file with every key, its meaning and its default
    Config {
        /// Or look at one.
        #[command(subcommand)]
        what: Option<ConfigCommand>,
    },
    /// Print the version of this program
    Version,
    /// What needs a noun.
    #[command(flatten)]
    OfBoth(OfBoth),
    /// What is called something else here.
    #[command(flatten)]
    OfOthers(OfOthers),
    /// What ZFS has, said without its noun.
    #[command(flatten)]
    OfZfs(OfZfs),
    /// The same of its pools.
    #[command(flatten)]
    OfZpool(OfZpool),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Say what could come next on a command line: what the shells' scripts ask
    #[command(hide = true)]
    Complete(CompleteArgs),
    /// Write the pages of the manual, one for each command
    #[command(hide = true)]
    Man(ManArgs),
}

/// What can be done with events.
#[derive(Debug, Subcommand)]
pub enum EventsCommand {
    /// Run the programs of a directory for each event, from now on: what tally-events.service does
    Run(RunArgs),
}

/// What can be done with a configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Read a configuration file, and say what is wrong with it
    Check {
        /// The file
        #[arg(default_value = "/etc/tally/tally.toml", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}
