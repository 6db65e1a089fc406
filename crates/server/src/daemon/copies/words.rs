//! What came of a copy or a scrub, in the lines of `status` and of whoever asked for it.

use std::path::Path;
use std::time::Duration;

use tally_base::Size;
use tally_store::pool::{SecureReport, SpaceFound};

/// The line that is kept of a copy that ended.
pub(in crate::daemon) fn outcome_words(
    path: &Path,
    copied: u64,
    elapsed: Duration,
    repaired: u64,
    lost: u64,
) -> String {
    let (path, size, seconds) = (path.display(), Size(copied), elapsed.as_secs_f64());
    let mut words = format!("resilvered {size} to {path} in {seconds:.0} s");
    if repaired > 0 {
        words += &format!("; {} taken from disks that had them right", blocks(repaired));
    }
    if lost > 0 {
        words += &format!("; {} right on no disk", blocks(lost));
    }
    words
}

/// The line that is kept of a scrub that ended, as `zpool status` has it.
pub(in crate::daemon) fn scrub_words(secured: &SecureReport, elapsed: Duration, ended: &str) -> String {
    let (repaired, seconds) = (blocks(secured.repaired_count), elapsed.as_secs_f64());
    let lost = secured.lost_count + secured.given_up_count;
    let errors = if lost == 1 { "1 error".to_owned() } else { format!("{lost} errors") };
    let space = space_words(secured).map_or_else(String::new, |words| format!("\n        {words}"));
    format!("scrub repaired {repaired} in {seconds:.0} s with {errors} on {ended}{space}")
}

/// What a scrub has found out of space, if there is anything to say.
fn space_words(secured: &SecureReport) -> Option<String> {
    let Some(SpaceFound { leaked_bytes, hidden, given_bytes, alarm_count }) = secured.space else {
        return Some(
            "what is in use and named by nothing was not looked for: only a scrub in one piece does that".into(),
        );
    };
    match (alarm_count, leaked_bytes, given_bytes) {
        (0, 0, _) => None,
        (1, ..) => Some("1 place is in use twice, or was in use and free, see above; nothing was given back".into()),
        (places, ..) if places > 1 => Some(format!(
            "{places} places are in use twice, or were in use and free, see above; nothing was given back"
        )),
        _ if hidden => Some(format!(
            "{} are in use and were not met: something that cannot be read may name them, and they stay as they are",
            Size(leaked_bytes)
        )),
        _ if given_bytes == leaked_bytes => Some(format!("{}, which nothing named, are free again", Size(given_bytes))),
        _ => Some(format!(
            "{} of {}, which nothing named, are free again: the next scrub gives back more",
            Size(given_bytes),
            Size(leaked_bytes)
        )),
    }
}

fn blocks(count: u64) -> String {
    if count == 1 { "1 block".into() } else { format!("{count} blocks") }
}

/// That something was so.
fn blocks_were(count: u64) -> String {
    format!("{} {}", blocks(count), if count == 1 { "was" } else { "were" })
}

/// What a look at every block has to say.
pub(in crate::daemon) fn remarks_of(secured: &SecureReport) -> Vec<String> {
    let mut remarks = Vec::new();
    if secured.repaired_count > 0 {
        remarks.push(format!(
            "note: {} damaged on a disk and right on another, and repaired from there",
            blocks_were(secured.repaired_count)
        ));
    }
    if let Some(first) = secured.lost.first() {
        remarks.push(format!(
            "note: {} found right on no disk, and not before; the first of them: {first}. What was there has to come from a \
             backup",
            blocks_were(secured.lost_count)
        ));
    }
    remarks
}

#[cfg(test)]
mod tests;
