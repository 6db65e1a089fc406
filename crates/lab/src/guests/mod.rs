//! The lab: a Linux guest whose kernel mounts what the server inside exports from raw block devices.
//!
//! A container shares the host's kernel, which may have no NFS client, and a server that hangs would hang the
//! host's mounts. User-mode Linux is a kernel that runs as an ordinary process, brings client, server, ext4 and
//! XFS as peers, boots in two seconds and needs no rights but those to make its root folder and to enter its own. Its
//! clock is not the real machine's (a round trip between two processes costs several times more there), so the suites
//! check content and count requests, device writes and flushes; times are printed and never judged. Where times are what is
//! asked, [`Emulated`] is a machine whose clock counts instructions.

mod archive;
mod booted;
mod emulated;
mod guest;
mod kernel;
mod recordings;
mod root;
mod suites;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};

use crate::crash_images::Share;
use crate::tally::Tally;
use crate::{cargo, packages};
use booted::Booted;
pub use emulated::Emulated;
use guest::Guest;
pub use guest::Luggage;
use kernel::Kernel;
use suites::{PEERS, SUITES, Suite};

/// What serves in the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Server {
    /// This workspace's server.
    #[default]
    Tally,
    /// The kernel's own server over ext4.
    KnfsdExt4,
    /// The kernel's own server over XFS.
    KnfsdXfs,
}

impl Server {
    fn name(self) -> &'static str {
        match self {
            Self::Tally => "tally",
            Self::KnfsdExt4 => "knfsd-ext4",
            Self::KnfsdXfs => "knfsd-xfs",
        }
    }
}

/// Which protocol is spoken with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Version {
    /// NFSv3.
    #[default]
    #[value(name = "3")]
    Three,
    /// NFSv4.0.
    #[value(name = "4.0")]
    FourZero,
    /// NFSv4.1.
    #[value(name = "4.1")]
    FourOne,
    /// NFSv4.2.
    #[value(name = "4.2")]
    FourTwo,
}

impl Version {
    /// As a mount option has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Three => "3",
            Self::FourZero => "4.0",
            Self::FourOne => "4.1",
            Self::FourTwo => "4.2",
        }
    }
}

/// Which suites are run, and on what.
#[derive(Args, Default)]
pub struct Options {
    /// All suites, not only the one that continuous integration runs.
    #[arg(long)]
    all: bool,
    /// One suite by name; may be repeated.
    #[arg(long)]
    suite: Vec<String>,
    /// Another server in our place, to compare with or to prove the suites themselves.
    #[arg(long, value_enum, default_value_t)]
    peer: Server,
    /// Version of NFS that the guest mounts: 3, 4.0, 4.1 or 4.2.
    #[arg(long, value_enum, default_value_t)]
    nfs: Version,
    /// A folder of suites that others wrote, each built in a folder of its own name (docs/testing.md); they are skipped
    /// where this is not given.
    #[arg(long)]
    sources: Option<PathBuf>,
    /// What of such a suite is run, in its own words.
    #[arg(long)]
    tests: Option<String>,
    /// Keep disks and logs of each guest, and say where.
    #[arg(long)]
    keep: bool,
}

/// Runs the suites one after the other.
pub fn run(options: &Options) -> Result<Tally> {
    let chosen = chosen(options)?;
    let Some((kernel, root)) = ready()? else {
        eprintln!("The lab needs root, its packages and Debian's archive; {} suite(s) skipped.", chosen.len());
        return Ok(Tally { skipped: chosen.len() as u64, ..Tally::default() });
    };
    if options.peer == Server::Tally {
        cargo::run(&["build", "--release", "--package", "tally-server", "--bin", "tally"])?;
    }
    let mut total = Tally::default();
    for suite in chosen {
        let of_others = match suite.of_others {
            None => None,
            Some((name, packages)) => {
                let folder = options.sources.as_ref().map(|sources| sources.join(name));
                let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
                    eprintln!("{} needs {name} in the folder that --sources names; it is skipped.", suite.name);
                    total += Tally::SKIPPED;
                    continue;
                };
                for package in packages {
                    root::add(&root, package)?;
                }
                Some(folder)
            }
        };
        println!("== lab: {} over {}", suite.name, options.peer.name());
        let (server, keep, share) = (options.peer, options.keep, options.share());
        let mut variables = vec![("NFS_VERSION", options.nfs.name().to_owned())];
        variables.extend(options.tests.clone().map(|tests| ("TESTS", tests)));
        let luggage = &Luggage { variables, folder: of_others, ..Luggage::default() };
        let guest = Guest { kernel: &kernel, root: &root, suite, server, keep, share, luggage };
        let tally = guest.run()?;
        println!("== lab: {}: {tally}", suite.name);
        total += tally;
    }
    Ok(total)
}

/// Runs the contenders of `bench peers` in a guest, and gives what its script wrote down of the runs; none where there
/// can be no guest. A run that failed is an error.
pub fn run_peers(luggage: &Luggage, packages: &[&str]) -> Result<Option<String>> {
    let Some((kernel, root)) = ready()? else { return Ok(None) };
    for package in packages {
        root::add(&root, package)?;
    }
    cargo::run(&["build", "--release", "--package", "tally-server", "--bin", "tally"])?;
    let (server, share) = (Server::Tally, Share::SMALL);
    let guest = Guest { kernel: &kernel, root: &root, suite: &PEERS, server, keep: false, share, luggage };
    guest.run_and_look(|folder, tally| {
        let runs = std::fs::read_to_string(folder.join("runs")).unwrap_or_default();
        ensure!(tally.failed == 0, "a contender failed in the guest; of the others it wrote down:\n{runs}");
        Ok(Some(runs))
    })
}

/// Installs a package on a Debian that systemd boots, upgrades it to another one under load, boots again, and purges it. A skip where there can be no guest.
pub fn run_booted(package: &Path, newer: &Path, keep: bool) -> Result<Tally> {
    let Some((kernel, folder)) = ready_kernel()? else { return Ok(Tally::SKIPPED) };
    let root = root::prepare_booted(&folder, &kernel)?;
    Booted { kernel: &kernel, root: &root, package, newer, keep }.run()
}

/// The files of a Debian that has nothing but what each has.
pub(crate) fn bare_root() -> Result<PathBuf> {
    let folder = cargo::target_folder().join("lab");
    std::fs::create_dir_all(&folder)?;
    root::prepare_bare(&folder.canonicalize()?)
}

/// The guest's kernel and files. None where there can be no guest.
fn ready() -> Result<Option<(Kernel, PathBuf)>> {
    let Some((kernel, folder)) = ready_kernel()? else { return Ok(None) };
    let root = root::prepare(&folder, &kernel)?;
    Ok(Some((kernel, root)))
}

/// The kernel, and the folder that everything of the lab is in.
fn ready_kernel() -> Result<Option<(Kernel, PathBuf)>> {
    if !rustix::process::geteuid().is_root() || !packages::ensure(&packages::LAB)? {
        return Ok(None);
    }
    let folder = cargo::target_folder().join("lab");
    std::fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let kernel = Kernel::prepare(&folder)?;
    Ok(kernel.map(|kernel| (kernel, folder)))
}

impl Options {
    /// Whoever asks for the suite wants all of it.
    fn share(&self) -> Share {
        if self.all || !self.suite.is_empty() { Share::WHOLE } else { Share::SMALL }
    }
}

fn chosen(options: &Options) -> Result<Vec<&'static Suite>> {
    for name in &options.suite {
        if !SUITES.iter().any(|suite| suite.name == name) {
            let known: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
            bail!("no suite {name}; there are {}", known.join(", "));
        }
    }
    let wanted = |suite: &&Suite| {
        if options.suite.is_empty() {
            options.all || suite.in_ci
        } else {
            options.suite.iter().any(|n| n == suite.name)
        }
    };
    Ok(SUITES.iter().filter(wanted).collect())
}
