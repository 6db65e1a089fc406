//! Looking at a pool that nobody has imported: everything that stands on its devices, said with its place.
//!
//! The problem: when an import refuses a pool, or a server says that a block is damaged, somebody must be able to see
//! what is there. The code that imports is no help: it stops at the first thing that it cannot believe, and it
//! shows only what it has decided.
//!
//! The idea: the same decoders, walked by somebody who decides nothing. An inspection opens devices for reading, takes
//! no lock, and gives one [`Fact`] after the other: what, where it was read, and whether it is sound. Behind damage it
//! goes on with whatever can still be reached: another slot, another leg, an older uberblock, the next leaf, the next
//! frame. Every leg of a mirror is read, so that rot shows which a read through the vdev would have covered.
//!
//! Why not print right away: people want lines and scripts want JSON, and tests want to ask. The price is a small
//! vocabulary ([`Value`]) in between.
//!
//! Records and tree entries belong to the file system above, which explains them through [`Words`].
//!
//! What it cannot see: a pool that is in use changes while it is looked at. The facts of such a pool may contradict
//! each other, and the inspection says so when it has noticed.

mod devices;
mod fact;
mod kept;
mod labels;
mod log;
mod space;
mod trees;
mod view;

use std::io;

use bytes::Bytes;
use tally_base::codec::DecodeError;
use tally_disk::Opener;
use tally_intent::RecordHead;
use tally_members::discover::ImportSource;

use crate::dataset::Schema;
use crate::key::Key;
use devices::{Device, Opened};
pub use fact::{Fact, Fields, Part, Source, Standing, Value, text_of};
use view::PoolView;

/// What is to be looked at. Without any part: all of them, as a summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Every slot of every label.
    pub labels: bool,
    /// Every uberblock.
    pub uberblocks: bool,
    /// Every live frame and record of the intent log.
    pub log: bool,
    /// Every entry of these datasets' trees.
    pub trees: Vec<String>,
    /// Every space map.
    pub space: bool,
    /// Read and check the blocks of files, too.
    pub data: bool,
    /// One step more detail.
    pub verbose: bool,
}

/// How far into the detail a fact lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    Summary,
    Lines,
    Verbose,
}

impl Plan {
    fn detail(&self, part: Part) -> Option<Detail> {
        let is_summary = !(self.labels || self.uberblocks || self.log || self.space || !self.trees.is_empty());
        let is_chosen = match part {
            Part::Pool => return Some(Detail::Summary),
            Part::Labels => self.labels,
            Part::Uberblocks => self.uberblocks,
            Part::Log => self.log,
            Part::Trees => !self.trees.is_empty(),
            Part::Space => self.space,
        };
        match (is_summary, is_chosen, self.verbose) {
            (true, _, false) => Some(Detail::Summary),
            (true, _, true) | (false, true, false) => Some(Detail::Lines),
            (false, true, true) => Some(Detail::Verbose),
            (false, false, _) => None,
        }
    }

    fn wants(&self, part: Part) -> bool {
        self.detail(part).is_some()
    }

    /// Whether a dataset's tree is to be walked.
    fn wants_tree(&self, name: &str) -> bool {
        self.wants(Part::Trees) && (self.trees.is_empty() || self.trees.iter().any(|wanted| wanted == name))
    }
}

/// What bytes mean that the store only keeps.
pub trait Words {
    /// What of a log record only newer programs know.
    fn newer(&self, head: &RecordHead) -> Option<String>;

    /// A log record with this head.
    fn record(&self, head: &RecordHead, body: &Bytes) -> Result<RecordWords, DecodeError>;

    /// An entry of a dataset's tree.
    fn entry(&self, key: &Key, value: &Bytes) -> Result<Fields, DecodeError>;

    /// Which entries name blocks.
    fn schema(&self) -> &dyn Schema;
}

/// A record in words.
#[derive(Clone, Debug, Default)]
pub struct RecordWords {
    /// In one line.
    pub fields: Fields,
    /// Its parts, a line each.
    pub parts: Vec<(&'static str, Fields)>,
}

/// What an inspection has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Pools that were found.
    pub pool_count: usize,
    /// Damaged places that were found.
    pub damage_count: u64,
    /// Datasets that were asked for and are in none of these pools.
    pub absent: Vec<String>,
}

/// Takes the facts.
struct Report<'a> {
    plan: &'a Plan,
    out: &'a mut dyn FnMut(&Fact),
    damage_count: u64,
    trees_found: Vec<String>,
}

impl Report<'_> {
    /// Damage is always said, whatever was asked for.
    fn say(&mut self, detail: Detail, fact: &Fact) {
        if fact.is_damage() {
            self.damage_count += 1;
        }
        if fact.is_damage() || self.shows(fact.part, detail) {
            (self.out)(fact);
        }
    }

    /// Whether facts of this part and detail are wanted: for those that take work to make.
    fn shows(&self, part: Part, detail: Detail) -> bool {
        self.plan.detail(part).is_some_and(|wanted| wanted >= detail)
    }
}

/// Looks at all pools of these devices. Fails only if a directory cannot be listed.
pub fn inspect(
    opener: &dyn Opener,
    source: &ImportSource,
    plan: &Plan,
    words: &dyn Words,
    out: &mut dyn FnMut(&Fact),
) -> io::Result<Outcome> {
    let Opened { devices, refused } = devices::open_all(opener, source)?;
    let mut report = Report { plan, out, damage_count: 0, trees_found: Vec::new() };
    for (path, is_named, error) in &refused {
        let fact = Fact::new(Part::Pool, "device").at(Source::new(path, 0));
        let why = format!("it cannot be opened: {error}");
        report.say(Detail::Summary, &if *is_named { fact.damaged(why) } else { fact.note(why) });
    }
    for device in devices.iter().filter(|device| device.pool().is_none()) {
        labels::say_stranger(&mut report, device);
    }
    let mut pools: Vec<_> = devices.iter().filter_map(Device::pool).collect();
    pools.sort();
    pools.dedup();
    for pool in &pools {
        let members = devices.iter().filter(|device| device.pool() == Some(*pool));
        let (around, legs): (Vec<_>, Vec<_>) = members.partition(|device| device.is_around_leg(&devices));
        for device in &around {
            let begins = device.leg_inside().map_or_else(String::new, |start| format!(" that begins at byte {start}"));
            let why = format!(
                "it is not the leg whose label stands at its end: that is a partition{begins}, and ends where it ends"
            );
            report.say(Detail::Summary, &Fact::new(Part::Pool, "device").at(device.at(0)).note(why));
        }
        // With nothing better there, what is there is shown.
        let members = if legs.is_empty() { around } else { legs };
        inspect_pool(&mut report, &PoolView::new(*pool, members), words);
    }
    let absent = plan.trees.iter().filter(|name| !report.trees_found.contains(name)).cloned().collect();
    Ok(Outcome { pool_count: pools.len(), damage_count: report.damage_count, absent })
}

fn inspect_pool(report: &mut Report<'_>, view: &PoolView<'_>, words: &dyn Words) {
    labels::say_pool(report, view);
    labels::say_labels(report, view);
    labels::say_uberblocks(report, view);
    let root = if [Part::Log, Part::Trees, Part::Space].into_iter().any(|part| report.plan.wants(part)) {
        trees::read_root(report, view)
    } else {
        None
    };
    if report.plan.wants(Part::Log) {
        log::say_log(report, view, root.as_ref(), words);
    }
    if let Some(root) = &root {
        if report.plan.wants(Part::Trees) {
            trees::say_trees(report, view, root, words);
        }
        if report.plan.wants(Part::Space) {
            space::say_space(report, view, root);
        }
    }
    view.say_faults(report, Part::Space);
    labels::say_movement(report, view);
}
