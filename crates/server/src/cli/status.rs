//! `tally pool status`: the state of each pool and disk, in the form that `zpool status` made familiar.

use std::fmt::Write as _;
use std::time::Duration;

use tally_base::Size;

use super::words::harmless;

use crate::control::report::{CopyReport, DamagedObject, Exposure, LaneReport, PoolReport, VdevReport};
use crate::dates::{utc, utc_as_ctime};

/// What is shown beyond the usual.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Detail {
    /// Also the lanes of the intent log, and each place that could not be read
    #[arg(short)]
    pub(super) verbose: bool,
    /// Also how many requests of each disk took a second or longer
    #[arg(short)]
    pub(super) slow: bool,
    /// Exact numbers of errors
    #[arg(short = 'p')]
    pub(super) exact: bool,
    /// Moments without a zone, as those of `zpool` are.
    #[arg(long, hide = true, action = clap::ArgAction::Set, default_value_t = false)]
    as_zpool: bool,
}

/// Scripts read a moment to the end of the line.
pub(super) fn as_zpool(status: clap::Command) -> clap::Command {
    status.mut_arg("as_zpool", |as_zpool| as_zpool.default_value("true"))
}

/// The text for all `pools`, with a blank line between two.
pub(super) fn print(pools: &[PoolReport], detail: Detail) -> String {
    pools.iter().map(|pool| one(pool, detail)).collect::<Vec<_>>().join("\n")
}

fn one(pool: &PoolReport, detail: Detail) -> String {
    let mut text = format!("  pool: {}\n state: {}\n", pool.name, pool.state);
    for message in notices(pool) {
        // Later lines stand below the first.
        text += &format!("status: {}\n", message.replace('\n', "\n        "));
    }
    if !pool.is_imported() {
        return text;
    }
    let scans = scans(pool);
    text += &if detail.as_zpool { scans.replace(" UTC", "") } else { scans };
    text += "config:\n\n";
    text += &tree(pool, detail);
    if detail.verbose {
        text += &lanes(pool);
        text += &losses(pool);
    }
    text + "\nerrors: " + &errors(pool) + "\n" + &damage(pool, detail.verbose)
}

/// What could not be read: how much, or what.
fn damage(pool: &PoolReport, verbose: bool) -> String {
    let mut text = String::new();
    let mut say = |line: std::fmt::Arguments<'_>| text.write_fmt(line).unwrap_or_default();
    if !pool.damage.is_empty() && !verbose {
        let (places, them) = match pool.damage.len() {
            1 => ("1 place".to_owned(), "it"),
            count => (format!("{count} places"), "them"),
        };
        say(format_args!("        {places} could not be read; `tally pool status -v` names {them}\n"));
    } else if !pool.damage.is_empty() {
        say(format_args!("        could not be read:\n\n"));
        for place in &pool.damage {
            say(format_args!("\t{}\n", damage_line(place)));
        }
        if pool.damage_beyond > 0 {
            say(format_args!("\tand more, met {} times\n", pool.damage_beyond));
        }
    }
    if pool.leaks > 0 {
        let (blocks, they_name) = match pool.leaks {
            1 => ("1 block".to_owned(), "it names"),
            count => (format!("{count} blocks"), "they name"),
        };
        say(format_args!(
            "        {blocks} could not be read when what {they_name} was to be given back: that space is lost\n"
        ));
    }
    text
}

/// `tank/home:/mail/inbox, content at 262144`: names may hold anything, so they are made harmless for a terminal.
fn damage_line(place: &DamagedObject) -> String {
    let name = match &place.path {
        Some(path) => {
            path.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
        }
        None => format!("<object {}>", place.object),
    };
    let what = match (place.what.as_str(), place.offset) {
        ("content", Some(offset)) => format!("content at {offset}"),
        ("names", _) => "names in it".into(),
        ("space", _) => "space that was not given back".into(),
        (what, _) => what.to_owned(),
    };
    format!("{}:{name}, {what}", place.dataset)
}

/// What a person should know, the exposure first.
fn notices(pool: &PoolReport) -> Vec<String> {
    let mut notices = Vec::new();
    if pool.exposure.possible {
        let now = match pool.exposure {
            Exposure { bytes: 0, .. } => "Nothing is at risk at this moment.".into(),
            Exposure { bytes, seconds, .. } => {
                format!("A power cut now would lose {} that were acknowledged up to {seconds:.1} s ago.", Size(bytes))
            }
        };
        let what = "some datasets have sync=disabled: clients are told that data is safe when it is not.";
        notices.push(format!("{what}\n{now}"));
    }
    if pool.read_only {
        notices.push("the pool is imported read-only.".into());
    }
    notices.extend(pool.messages.iter().cloned());
    notices
}

/// What runs over whole disks, and what came of it.
fn scans(pool: &PoolReport) -> String {
    let began = pool.scrub.as_ref().map(|scrub| scrub.began);
    let running = pool.copies.iter().map(|copy| scan(copy, began.filter(|_| copy.what == "scrub")));
    let scans: String =
        running.chain(pool.copies_ended.iter().cloned()).map(|line| format!("  scan: {line}\n")).collect();
    let due = pool.scrub_due.filter(|_| !pool.copies.iter().any(|copy| copy.what == "scrub"));
    let due = due.map(|due| format!("   due: scrub on {} UTC (scrub={})\n", utc(due), pool.scrub_every));
    scans + &due.unwrap_or_default()
}

/// A scrub is known to have begun at a moment, also where it was interrupted since.
fn scan(copy: &CopyReport, began: Option<u64>) -> String {
    let percent = u128::from(copy.done_bytes) * 1000 / u128::from(copy.total_bytes.max(1));
    let left =
        copy.seconds_left.map_or_else(|| "no estimated completion time".into(), |left| clock_words(left) + " to go");
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Not negative, and far below.
    let rate = Size(copy.bytes_per_second as u64);
    let of = if copy.device.is_empty() { String::new() } else { format!(" of {}", copy.device) };
    let partial = if copy.partial { "partial " } else { "" };
    let ran = clock_words(copy.seconds);
    let how_long = match began {
        Some(began) => format!("since {} UTC\n        {}, for {ran} so far:", utc_as_ctime(began), copy.phase),
        None => format!("for {ran}: {}\n       ", copy.phase),
    };
    format!(
        "{partial}{}{of} in progress {how_long} {} / {} at {rate}/s, {}.{}% done, {left}",
        copy.what,
        Size(copy.done_bytes),
        Size(copy.total_bytes),
        percent / 10,
        percent % 10,
    )
}

/// A length of time as `zpool status` writes it.
fn clock_words(seconds: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Bounded and not negative.
    let whole = seconds.clamp(0.0, 1e9).round() as u64;
    let (days, rest) = (whole / 86_400, whole % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days > 0 { format!("{days} days {clock}") } else { clock }
}

/// One line of the device tree.
struct Line<'a> {
    name: String,
    state: &'a str,
    /// Errors, and slow requests.
    counts: Option<[u64; 4]>,
    /// What there is to say instead of counts.
    note: String,
}

fn tree(pool: &PoolReport, Detail { slow, exact, .. }: Detail) -> String {
    let mut lines =
        vec![Line { name: pool.name.clone(), state: &pool.state, counts: Some([0; 4]), note: String::new() }];
    for vdev in pool.vdevs.iter().filter(|vdev| vdev.class != "log") {
        add(&mut lines, vdev, 1);
    }
    let mut logs = pool.vdevs.iter().filter(|vdev| vdev.class == "log").peekable();
    if logs.peek().is_some() {
        lines.push(Line { name: "logs".into(), state: "", counts: None, note: String::new() });
    }
    for vdev in logs {
        add(&mut lines, vdev, 1);
    }
    if !pool.spares.is_empty() {
        lines.push(Line { name: "spares".into(), state: "", counts: None, note: String::new() });
    }
    for spare in &pool.spares {
        let for_whom = spare.stands_for.iter().map(|leg| format!("for {leg}"));
        let note = for_whom.chain(spare.why.clone()).collect();
        lines.push(Line { name: format!("  {}", spare.name), state: &spare.state, counts: None, note });
    }
    let name_width = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0).max("NAME".len());
    let state_width = lines.iter().map(|line| line.state.len()).max().unwrap_or(0).max("STATE".len());
    let heading = if slow { "READ WRITE CKSUM  SLOW" } else { "READ WRITE CKSUM" };
    let mut text = format!("\t{:<name_width$}  {:<state_width$}  {heading}\n", "NAME", "STATE");
    for line in &lines {
        let counts = line.counts.map(|counts| counts.map(|value| if exact { value.to_string() } else { count(value) }));
        let counts = counts.map(|[read, write, checksum, late]| {
            let late = if slow { format!(" {late:>5}") } else { String::new() };
            format!("  {read:>4} {write:>5} {checksum:>5}{late}")
        });
        let counts = counts.or_else(|| Some(format!("  {}", line.note)));
        let start = format!("\t{:<name_width$}  {:<state_width$}", line.name, line.state);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", format!("{start}{}", counts.unwrap_or_default()).trim_end());
    }
    text
}

fn add<'a>(lines: &mut Vec<Line<'a>>, vdev: &'a VdevReport, depth: usize) {
    let counts = [vdev.errors.read, vdev.errors.write, vdev.errors.checksum, vdev.slow];
    let name = format!("{}{}", "  ".repeat(depth), harmless(&vdev.name));
    lines.push(Line { name, state: &vdev.state, counts: Some(counts), note: String::new() });
    for child in &vdev.children {
        add(lines, child, depth + 1);
    }
}

/// A count in at most five characters, in thousands: `999`, `1.20K`, `123K`.
pub(super) fn count(value: u64) -> String {
    if value < 1000 {
        return value.to_string();
    }
    #[allow(clippy::cast_precision_loss)] // Three digits are shown.
    let mut scaled = value as f64;
    let mut unit = "";
    for next in ["K", "M", "G", "T", "P"] {
        if scaled < 1e3 {
            break;
        }
        (scaled, unit) = (scaled / 1e3, next);
    }
    let decimals = if scaled < 10.0 { 2 } else { usize::from(scaled < 100.0) };
    format!("{scaled:.decimals$}{unit}")
}

fn lanes(pool: &PoolReport) -> String {
    let mut text = format!("\nlog:    txg {} is on disk\n\n", pool.txg);
    let _ = writeln!(
        text,
        "\t{:<4}  {:>6}  {:>4}  {:>6}  {:>9}  {:>9}  {:>7}  {:>7}  VDEV",
        "LANE", "SIZE", "FILL", "COMMIT", "FRAMES", "RECORDS", "P50", "P99"
    );
    for lane in &pool.lanes {
        let _ = writeln!(text, "\t{}", lane_line(lane));
    }
    text
}

/// What was given up since the pool was made.
fn losses(pool: &PoolReport) -> String {
    let lines: Vec<String> = pool.losses.iter().map(|loss| format!("\t{loss}\n")).collect();
    if lines.is_empty() { String::new() } else { "\nlosses that were accepted:\n\n".to_owned() + &lines.concat() }
}

fn lane_line(lane: &LaneReport) -> String {
    let fill = u128::from(lane.used) * 100 / u128::from(lane.size.max(1));
    let [p50, p99] = [lane.write_ns_p50, lane.write_ns_p99].map(duration);
    format!(
        "{:<4}  {:>6}  {:>3}%  {:>6}  {:>9}  {:>9}  {p50:>7}  {p99:>7}  {}",
        lane.lane,
        Size(lane.size),
        fill,
        Size(lane.commit_bytes).to_string(),
        lane.frames,
        lane.records,
        lane.vdev
    )
}

/// A duration with three digits: `90.1us`, `8.20ms`.
fn duration(ns: u64) -> String {
    if ns == 0 { "-".into() } else { format!("{:.1?}", Duration::from_nanos(ns)).replace('µ', "u") }
}

/// What is known of the data: what no disk has right, what was set right, and what was only an error of a disk.
fn errors(pool: &PoolReport) -> String {
    let vdevs = || pool.vdevs.iter().chain(pool.vdevs.iter().flat_map(|vdev| &vdev.children)).map(|vdev| vdev.errors);
    let repaired: u64 = vdevs().map(|errors| errors.repaired).sum();
    let seen = vdevs().any(|errors| errors.read + errors.write + errors.checksum > 0);
    let set_right = format!("{} repaired from other disks", blocks(repaired));
    // What was met before this import counts as well.
    let of_scrub = pool.scrub.as_ref().map_or(0, |scrub| scrub.errors);
    let known = pool.damage.len() as u64 + u64::from(pool.damage_beyond > 0);
    match (pool.unrepaired.max(known).max(of_scrub), repaired) {
        (0, 0) if seen => "No known data errors; disks have failed requests, see above".into(),
        (0, 0) => "No known data errors".into(),
        (0, _) => format!("No known data errors; {set_right}.\n        {WATCH}"),
        (lost, 0) => format!("{} damaged on every disk: reading gives an I/O error.\n        {RESTORE}", blocks(lost)),
        (lost, _) => format!(
            "{} damaged on every disk: reading gives an I/O error; {set_right}.\n        {RESTORE}",
            blocks(lost)
        ),
    }
}

fn blocks(count: u64) -> String {
    if count == 1 { "1 block was".into() } else { format!("{count} blocks were") }
}

const WATCH: &str = "A disk whose counters go on rising wants to be replaced: `tally pool replace`.";
const RESTORE: &str = "Restore what was there from a backup, or bring back a disk that still has it.";

#[cfg(test)]
mod tests;
