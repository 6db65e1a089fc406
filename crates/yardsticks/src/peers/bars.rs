//! What is promised of these figures: two bars of our own, and a place ahead of the best peer that keeps its word.

use super::contenders::{CONTENDERS, Contender, Disks, Keeps};
use super::runs::{Book, Part, Run};
use super::settings::{SETTINGS, Setting, WORKLOADS, Workload};
use super::tables::{keeps, wrapped};
use crate::figures::{Bar, shown};
use crate::report::median;

/// Times are compared where the disks' turns make up at least so much of them; the rest is the guest's processor, which
/// serves programs slower than the kernel, and no real machine's.
const DEVICE_SHARE_MIN: f64 = 0.7;

/// A row of a table of bars.
struct Row {
    what: String,
    bar: Bar,
    values: Vec<f64>,
}

impl Row {
    fn line(&self) -> String {
        let (bar, kept) = self.bar.judge(median(self.values.clone()));
        format!("| {} | {bar} | {} | {kept} |\n", self.what, shown(&self.values))
    }
}

/// What a hard disk is promised, with a fast log device and without.
pub(super) fn promised(book: &Book) -> String {
    let mut rows = Vec::new();
    for workload in &WORKLOADS {
        rows.extend(book.part("log-device", workload.name).and_then(|part| fast_log(workload, part)));
    }
    for workload in &WORKLOADS {
        let Some(part) = book.part("hard-disk", workload.name) else { continue };
        rows.extend(one_write_a_promise(workload, part));
        rows.extend(ahead_by_turns(workload, part));
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut text =
        "## Bars\n\nAll on the hard disk of 8 ms a durable write; a figure is a median (lowest … highest).\n\n\
                    | what | bar | figure | kept |\n|---|---|---|---|\n"
            .to_owned();
    rows.iter().for_each(|row| text += &row.line());
    text + "\n"
}

/// Runs of two contenders that were taken in the same round.
fn pairs<'a>(part: &'a Part, one: &'a str, other: &'a str) -> impl Iterator<Item = (&'a Run, &'a Run)> {
    part.runs_of(one).zip(part.runs_of(other))
}

/// With a fast log device a promise costs that device's write and little else.
fn fast_log(workload: &Workload, part: &Part) -> Option<Row> {
    let dsync_seconds = median(part.dsync_us.clone()) / 1e6;
    let ratio = |(log, disabled): (&Run, &Run)| log.seconds() / (disabled.seconds() + log.durable() * dsync_seconds);
    let values: Vec<_> = pairs(part, "tally-log", "tally-disabled").map(ratio).collect();
    let what = format!(
        "{}, log device: time against that under `sync=disabled` and {:.0} µs for each promise, what the device takes",
        workload.name,
        dsync_seconds * 1e6
    );
    (!values.is_empty()).then_some(Row { what, bar: Bar::AtMost(1.3), values })
}

fn one_write_a_promise(workload: &Workload, part: &Part) -> Vec<Row> {
    let frames = |run: &Run| run.until_reply("frames") / run.durable();
    let turns = |run: &Run| run.until_reply("main.turns") / run.durable();
    let row =
        |what: &str, bar, values| Row { what: format!("{}, log in the pool: {what}", workload.name), bar, values };
    let (frames, turns) = (part.values("tally", frames), part.values("tally", turns));
    if frames.is_empty() {
        return Vec::new();
    }
    vec![
        row("durable writes of the log for each promise", Bar::AtMost(1.02), frames),
        row("turns of the disk for each promise", Bar::Stated, turns),
    ]
}

/// Without a log device: ahead of a peer by as much as it makes the disk turn more often.
fn ahead_by_turns(workload: &Workload, part: &Part) -> Vec<Row> {
    let of = |peer: &str, title: &str| {
        // Files per second × turns per file: turns per second, of which both should get as many out of one disk.
        let turning = |run: &Run| run.turns().unwrap_or(f64::NAN) * run.items_per_second();
        let values: Vec<_> = pairs(part, "tally", peer).map(|(ours, theirs)| turning(ours) / turning(theirs)).collect();
        let what =
            format!("{}, log in the pool: rate against {title}'s × its turns for each file ÷ ours", workload.name);
        (!values.is_empty()).then_some(Row { what, bar: Bar::AtLeast(0.9), values })
    };
    [of("knfsd-ext4", "knfsd on ext4"), of("knfsd-xfs", "knfsd on XFS")].into_iter().flatten().collect()
}

/// How two contenders are compared.
enum Measure {
    /// By time: in both the disks' turns make up most of it.
    Time,
    /// By turns and flushes that each file costs.
    Counts,
}

/// For each workload on each set of disks: ours against the best peer that keeps its word.
pub(super) fn best_peers(book: &Book) -> String {
    let mut text = "## Against the best peer that keeps its word\n\n".to_owned();
    text += &wrapped(&format!(
        "On equal disks. Times are compared where the slow disks' turns make up {:.0} % of both, else the flushes that \
         all disks get for each file until the last reply: what a promise costs where nothing but the disks counts. A \
         rate is good above 1, a count below. *Level* is a ratio within 5 % of 1.",
        DEVICE_SHARE_MIN * 100.0
    ));
    text += "\n| disks | workload | ours | best peer | compared | ours ÷ theirs | at least as good |\n";
    text += "|---|---|---|---|---|---|---|\n";
    for setting in &SETTINGS {
        for workload in &WORKLOADS {
            let Some(part) = book.part(setting.name, workload.name) else { continue };
            for (ours, disks) in [("tally", Disks::One), ("tally-log", Disks::WithLog)] {
                text += &best_peer(book, setting, part, ours, disks).unwrap_or_default();
            }
        }
    }
    text + "\n"
}

fn best_peer(book: &Book, setting: &Setting, part: &Part, ours: &str, disks: Disks) -> Option<String> {
    let own = Contender::find(ours).filter(|_| part.runs_of(ours).next().is_some())?;
    let peers = || {
        let honest = |peer: &&Contender| !peer.is_ours() && peer.disks == disks && keeps(book, peer) == Keeps::Word;
        CONTENDERS.iter().filter(honest).filter(|peer| part.runs_of(peer.name).next().is_some())
    };
    let time = |peer: &Contender| median(part.values(peer.name, Run::seconds));
    let flushes = |run: &Run| run.of_all_disks("flushes");
    let quickest = peers().min_by(|a, b| time(a).total_cmp(&time(b)))?;
    let (peer, measure) = if device_decides(setting, part, own) && device_decides(setting, part, quickest) {
        (quickest, Measure::Time)
    } else {
        let count = |peer: &Contender| median(part.values(peer.name, flushes));
        (peers().min_by(|a, b| count(a).total_cmp(&count(b)))?, Measure::Counts)
    };
    let ratio = |(ours, theirs): (&Run, &Run)| match measure {
        Measure::Time => ours.items_per_second() / theirs.items_per_second(),
        Measure::Counts => flushes(ours) / flushes(theirs),
    };
    let values: Vec<_> = pairs(part, ours, peer.name).map(ratio).collect();
    let (compared, advantage) = match measure {
        Measure::Time => ("rate", median(values.clone())),
        Measure::Counts => ("flushes", 1.0 / median(values.clone())),
    };
    let verdict = match advantage {
        ahead if ahead > 1.05 => "yes",
        level if level >= 0.95 => "level",
        _ => "**no**",
    };
    let (disks, workload) = (setting.name, &part.workload);
    Some(format!(
        "| {disks} | {workload} | {} | {} | {compared} | {} | {verdict} |\n",
        own.title,
        peer.title,
        shown(&values)
    ))
}

/// Whether a contender's time is mostly that of slow disks.
fn device_decides(setting: &Setting, part: &Part, contender: &Contender) -> bool {
    let turning = |run: &Run| run.turns().unwrap_or(0.0) * run.items() * f64::from(setting.durable_us) / 1e6;
    let shares = part.values(contender.name, |run| turning(run) / run.seconds());
    median(shares) >= DEVICE_SHARE_MIN
}
