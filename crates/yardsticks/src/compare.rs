//! One load on several servers, run alternately: this workspace's, the bare floor, a peer, a running one.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use tally_bench::wire::Target;

use crate::figures::{Bar, Figures};
use crate::floor::Floor;
use crate::load::{self, Load};
use crate::prepared;
use crate::report::Report;
use crate::server::Server;
use tally_lab::cargo;

/// What these benchmarks take.
#[derive(Args)]
pub struct Options {
    /// Connections, each with its own thread; several numbers, as in 1,16, are run alternately and compared.
    #[arg(long, default_value = "1", value_delimiter = ',')]
    connections: Vec<usize>,
    /// Items in all: files or requests.
    #[arg(long, default_value_t = 4096)]
    items: u64,
    /// Runs of each contender.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Run the bare floor alternately and print the ratio.
    #[arg(long)]
    floor: bool,
    /// Run Debian's NFS-Ganesha alternately (packages nfs-ganesha, nfs-ganesha-vfs).
    #[arg(long)]
    ganesha: bool,
    /// Leave this workspace's own server out.
    #[arg(long)]
    no_tally: bool,
    /// A server that runs already: HOST:PORT:/EXPORT, an address in numbers.
    #[arg(long)]
    server: Option<String>,
    /// Where pools and the floor's file are made; a folder on a disk.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Size of the pool that is made.
    #[arg(long, default_value = "8G")]
    size: String,
}

/// Runs every load on the floor alone.
pub(crate) fn floor_alone(options: &Options) -> Result<()> {
    let folder = folder(options)?;
    let floor = Floor::start(&folder)?;
    for (name, load) in [("lone", Load::Lone), ("untar", Load::Untar), ("mixed", Load::Mixed)] {
        let mut report = Report::default();
        for _ in 0..options.runs {
            for connections in [1, 16, 64] {
                let contender = format!("floor × {connections}");
                report.add(&contender, load::run(&floor.target(), load, connections, options.items)?);
            }
        }
        report.finish(&format!("floor {name}"), load.item())?;
    }
    Ok(())
}

/// Runs all contenders of a load alternately.
pub(crate) fn compare(options: &Options, load: Load, name: &str) -> Result<()> {
    let folder = folder(options)?;
    let floor = options.floor.then(|| Floor::start(&folder)).transpose()?;
    let servers = contenders(options, &folder)?;
    let mut targets: Vec<(&str, Target)> = servers.iter().map(|(name, s)| (*name, s.target().clone())).collect();
    targets.extend(options.server.as_deref().map(|s| parse_target(s).map(|t| ("server", t))).transpose()?);
    targets.extend(floor.as_ref().map(|floor| ("floor", floor.target())));
    let mut report = Report::default();
    for _ in 0..options.runs {
        for &connections in &options.connections {
            for (contender, target) in &targets {
                let measured = load::run(target, load, connections, options.items)?;
                report.add(&at(contender, connections), measured);
            }
        }
    }
    let numbers: Vec<String> = options.connections.iter().map(usize::to_string).collect();
    report.finish(&format!("{name} x{}", numbers.join(",")), load.item())?;
    println!("{} requests for each of the {}", load.requests_per_item(), load.item());
    let names: Vec<&str> = targets.iter().map(|(name, _)| *name).collect();
    ratios(&report, load, &names, &options.connections).finish(&format!("{name} ratios"))
}

fn at(contender: &str, connections: usize) -> String {
    format!("{contender} × {connections}")
}

/// What the table in `docs/benchmarks.md` asks of a load, run by run, as far as the contenders for it were there.
fn ratios(report: &Report, load: Load, contenders: &[&str], connections: &[usize]) -> Figures {
    let mut figures = Figures::default();
    let mut rows = Vec::new();
    let mut compare = |what: String, above: &str, below: &str, bar: Bar| {
        let (above, below) = (report.rates(above), report.rates(below));
        above.iter().zip(&below).for_each(|(above, below)| figures.add(&what, "", above / below));
        rows.push((what, bar));
    };
    for &contender in contenders.iter().filter(|contender| **contender != "floor") {
        for &number in connections {
            let (own, floor) = (at(contender, number), at("floor", number));
            let (slower, share) = match (load, number) {
                (Load::Untar, 1) => (Bar::AtMost(1.5), Bar::Stated),
                (Load::Mixed, 1) => (Bar::Stated, Bar::AtLeast(0.7)),
                _ => (Bar::Stated, Bar::Stated),
            };
            compare(format!("{load:?}, {own}: time against the floor's"), &floor, &own, slower);
            compare(format!("{load:?}, {own}: rate against the floor's"), &own, &floor, share);
            if contender == "tally" {
                let ganesha = at("ganesha", number);
                compare(format!("{load:?}, {own}: rate against Ganesha's"), &own, &ganesha, Bar::AtLeast(1.0));
            }
        }
        if let [first, .., last] = connections {
            let (few, many) = (at(contender, *first), at(contender, *last));
            let bar = if (load, *first, *last) == (Load::Mixed, 1, 16) { Bar::AtLeast(2.4) } else { Bar::Stated };
            compare(format!("{load:?}, {many}: rate against its own × {first}"), &many, &few, bar);
        }
    }
    let command = format!("bench {}", format!("{load:?}").to_lowercase());
    rows.iter().for_each(|(what, bar)| figures.row(&command, what, *bar));
    figures
}

fn contenders(options: &Options, folder: &Path) -> Result<Vec<(&'static str, Server)>> {
    let mut servers = Vec::new();
    if !options.no_tally && options.server.is_none() {
        servers.push(("tally", Server::tally(&cargo::build_tally()?, folder, &options.size)?));
    }
    if options.ganesha {
        servers.push(("ganesha", Server::ganesha(folder)?));
    }
    Ok(servers)
}

fn folder(options: &Options) -> Result<PathBuf> {
    prepared(options.folder.as_deref())
}

fn parse_target(text: &str) -> Result<Target> {
    let Some((address, export)) = text.split_once(":/") else { bail!("{text} is not HOST:PORT:/EXPORT") };
    let address = address.parse().with_context(|| format!("{address} is no address and port"))?;
    Ok(Target { nfs: address, mount: address, export: format!("/{export}") })
}
