//! Servers against their peers, in one run: this workspace's in each of its configurations, the kernel's own over ext4,
//! XFS and btrfs, NFS-Ganesha, OpenZFS. In the lab's guest, by the kernel's client, alternately, on the same disks.
//!
//! A guest is unfair to a server in user space (docs/peers.md says how much), so on its fast disks counts are compared
//! and no times. Where the main disk takes 8 ms for a durable write the disk decides, and times are compared too, among
//! those who keep their word on equal disks. Who does is not taken on trust: the referee of `tally bench` is asked.

mod bars;
mod by_time;
mod charts;
mod contenders;
mod page;
mod runs;
mod settings;
mod svg;
mod tables;

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use super::server;
use contenders::{CONTENDERS, Contender};
use runs::{Book, Heard, Part};
use settings::{SETTINGS, Setting, WORKLOADS, Workload};
use tally_lab::guests::{self as lab, Luggage, Version};

/// Debian's packages that only contenders need.
const PACKAGES: [&str; 3] = ["btrfs-progs", "nfs-ganesha", "nfs-ganesha-vfs"];
/// The word for the referee among those of `--only`.
const REFEREE: &str = "referee";
/// Where NFS-Ganesha serves in the guest, and on which ports; the guest's script says the same.
const GANESHA: (&str, u16, u16) = ("/mnt/served", 2050, 2051);

/// What `peers` takes.
#[derive(Args)]
pub struct Peers {
    /// Rounds: in each, every contender runs each workload once.
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Only these: settings (hard-disk, log-device, two-hard-disks, fast, referee), workloads (untar, copy, library,
    /// loop, create), contenders. What has run before stays on the page. Where contenders are left out nothing is kept.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Version of NFS that the client speaks. Figures of another one than 3 are printed, and not kept.
    #[arg(long, value_enum, default_value_t)]
    nfs: Version,
    /// By time instead, on fast disks, in a machine whose clock counts instructions: versions 3 and 4.2, as root and as a
    /// user. `--only` takes versions (v3, v4.2), users (root, user), disks (through, back), workloads (untar, copy,
    /// library, remove) and contenders (tally, tally-on, knfsd-xfs, knfsd-ext4, zfs); what has run before stays on the page.
    #[arg(long)]
    by_time: bool,
    /// Files of each workload by time.
    #[arg(long, default_value_t = 20_000, requires = "by_time")]
    files: u32,
    /// Run nothing, and write the page of what is there.
    #[arg(long)]
    page: bool,
}

impl Peers {
    /// Runs what is chosen, and writes the page.
    pub fn run(&self) -> Result<()> {
        if self.by_time {
            return if self.page { by_time::write_page() } else { by_time::run(&self.only, self.files) };
        }
        // Runs of one version say nothing of another one's.
        let mut book = if self.nfs == Version::Three { Book::open()? } else { Book::default() };
        if self.page {
            return page::write(&book);
        }
        let choice = Choice::of(&self.only)?;
        for (setting, judged) in choice.boots() {
            println!("== {}{}", setting.title, if judged { ", with the referee" } else { "" });
            let Some(heard) = self.boot(setting, judged, &choice)? else {
                eprintln!("The guest needs root and its packages; nothing was measured.");
                return Ok(());
            };
            enter(&mut book, setting, &choice, heard)?;
            if self.kept(&choice) {
                // What is measured is kept, whatever happens to the next guest.
                book.save()?;
            }
        }
        print!("{}", page::section(&book));
        if self.kept(&choice) { page::write(&book) } else { Ok(()) }
    }

    /// Whether what was measured goes to the page.
    fn kept(&self, choice: &Choice) -> bool {
        choice.everybody() && self.nfs == Version::Three
    }

    fn boot(&self, setting: &Setting, judged: bool, choice: &Choice) -> Result<Option<Heard>> {
        let contenders = choice.contenders.iter().filter(|contender| setting.takes(contender));
        let contenders: Vec<_> = contenders.map(|contender| contender.name).collect();
        let workloads = choice.workloads.iter().filter(|workload| setting.has(workload));
        let workloads: Vec<_> = workloads.map(|workload| workload.name).collect();
        let rounds = if choice.settings.iter().any(|chosen| chosen.name == setting.name) { self.runs } else { 0 };
        let mut variables = vec![
            ("NFS_VERSION", self.nfs.name().to_owned()),
            ("DISK", setting.disks.to_owned()),
            ("CONTENDERS", contenders.join(" ")),
            ("WORKLOADS", workloads.join(" ")),
            ("ROUNDS", rounds.to_string()),
            ("JUDGED", if judged { "yes" } else { "no" }.to_owned()),
        ];
        variables.extend(setting.variables());
        let (served, nfs, mount) = GANESHA;
        let ganesha = server::ganesha_configuration(Path::new(served), nfs, mount);
        let luggage = Luggage { variables, files: vec![("ganesha.conf", ganesha)], folder: None };
        lab::run_peers(&luggage, &PACKAGES)?.map(|text| Heard::parse(&text)).transpose()
    }
}

/// Puts what was heard into the book, workload by workload.
fn enter(book: &mut Book, setting: &Setting, choice: &Choice, heard: Heard) -> Result<()> {
    let date = date()?;
    for workload in &choice.workloads {
        let runs: Vec<_> = heard.runs.iter().filter(|run| run.workload == workload.name).cloned().collect();
        if !runs.is_empty() {
            book.put(Part {
                setting: setting.name.to_owned(),
                workload: workload.name.to_owned(),
                date: date.clone(),
                skipped: heard.skipped.clone(),
                dsync_us: heard.dsync_us.clone(),
                unit: heard.unit,
                runs,
            });
        }
    }
    book.verdicts.extend(heard.verdicts);
    book.machine = machine(&heard.kernel)?;
    Ok(())
}

fn date() -> Result<String> {
    let output = Command::new("date").args(["--utc", "+%Y-%m-%d"]).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The machine in one sentence.
fn machine(guest_kernel: &str) -> Result<String> {
    let processors = std::fs::read_to_string("/proc/cpuinfo")?;
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("of an unknown kind");
    let count = processors.lines().filter(|line| line.starts_with("processor")).count();
    let memory = std::fs::read_to_string("/proc/meminfo")?;
    let kib: u64 = memory.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(format!(
        "{count} processors ({}), {} GiB, Linux {}; the guest is User Mode Linux {guest_kernel} with one processor.",
        model.trim_start_matches([' ', '\t', ':']),
        kib.div_ceil(1 << 20),
        // What follows the version says who built it.
        kernel.trim().split('-').next().unwrap_or_default(),
    ))
}

/// What of everything is run.
struct Choice {
    settings: Vec<&'static Setting>,
    workloads: Vec<&'static Workload>,
    contenders: Vec<&'static Contender>,
    judged: bool,
}

impl Choice {
    /// Of the words of `--only`. Whoever names none of a kind wants all of it; the referee counts among settings.
    fn of(words: &[String]) -> Result<Self> {
        let named = |name: &str| words.iter().any(|word| word == name);
        let unknown = |word: &&String| {
            *word != REFEREE
                && Setting::find(word).is_none()
                && Contender::find(word).is_none()
                && !WORKLOADS.iter().any(|workload| workload.name == **word)
        };
        if let Some(word) = words.iter().find(unknown) {
            bail!("{word} is no setting, workload or contender");
        }
        let places = SETTINGS.iter().any(|setting| named(setting.name)) || named(REFEREE);
        let all_workloads = !WORKLOADS.iter().any(|workload| named(workload.name));
        let all_contenders = !CONTENDERS.iter().any(|contender| named(contender.name));
        Ok(Self {
            settings: SETTINGS.iter().filter(|setting| !places || named(setting.name)).collect(),
            workloads: WORKLOADS.iter().filter(|workload| all_workloads || named(workload.name)).collect(),
            contenders: CONTENDERS.iter().filter(|contender| all_contenders || named(contender.name)).collect(),
            judged: !places || named(REFEREE),
        })
    }

    fn everybody(&self) -> bool {
        self.contenders.len() == CONTENDERS.len()
    }

    /// The guests to be booted, and whether the referee is asked in each: on fast disks, also if nobody else runs
    /// there.
    fn boots(&self) -> Vec<(&'static Setting, bool)> {
        let fast = |setting: &Setting| setting.name == "fast";
        let mut boots: Vec<_> = self.settings.iter().map(|setting| (*setting, self.judged && fast(setting))).collect();
        if self.judged && !boots.iter().any(|(_, judged)| *judged) {
            boots.extend(SETTINGS.iter().find(|setting| fast(setting)).map(|setting| (setting, true)));
        }
        boots
    }
}

#[cfg(test)]
mod tests;
