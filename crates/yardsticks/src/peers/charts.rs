//! Which parts are drawn, and from what.

use std::path::Path;

use anyhow::Result;

use super::contenders::{Contender, Keeps};
use super::runs::{Book, Part, Run};
use super::settings::{Setting, WORKLOADS, Workload};
use super::svg::{Bar, Chart, Fill};
use super::tables::{group, keeps, ranked};
use crate::report::{median, spread};

/// Whether a part has a chart: of times where slow disks decide them, and one of flushes on fast disks.
pub(super) fn has(setting: &Setting, workload: &Workload) -> bool {
    match setting.name {
        "hard-disk" | "two-hard-disks" => true,
        "fast" => workload.name == "untar",
        _ => false,
    }
}

fn name(setting: &Setting, workload: &Workload) -> String {
    format!("{}-{}.svg", setting.name, workload.name)
}

/// A chart's file, as the page names it.
pub(super) fn file(setting: &Setting, workload: &Workload) -> String {
    format!("charts/{}", name(setting, workload))
}

pub(super) fn title(setting: &Setting, workload: &Workload) -> String {
    format!("{}, {}", workload.title.replace('`', ""), setting.title)
}

/// Draws all of them into a folder.
pub(super) fn draw(book: &Book, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for part in &book.parts {
        let workload = WORKLOADS.iter().find(|workload| workload.name == part.workload);
        let (Some(setting), Some(workload)) = (Setting::find(&part.setting), workload) else { continue };
        if has(setting, workload) {
            std::fs::write(folder.join(name(setting, workload)), drawn(book, setting, workload, part))?;
        }
    }
    Ok(())
}

fn drawn(book: &Book, setting: &Setting, workload: &Workload, part: &Part) -> String {
    let flushes = |run: &Run| run.of_all_disks("flushes");
    let (figure, scale): (&dyn Fn(&Run) -> f64, String) = if setting.durable_us > 0 {
        (&Run::seconds, format!("seconds for {} {}s", part.runs.first().map_or(0.0, Run::items), workload.item))
    } else {
        (&flushes, format!("flushes of all disks for each {} until the last reply", workload.item))
    };
    let ranked = ranked(book, part);
    let mut groups: Vec<Vec<Bar>> = Vec::new();
    for neighbours in ranked.chunk_by(|one, next| group(book, one) == group(book, next)) {
        groups.push(neighbours.iter().map(|contender| bar(book, part, contender, figure)).collect());
    }
    Chart { title: &title(setting, workload), scale: &scale, groups: &groups }.svg()
}

fn bar(book: &Book, part: &Part, contender: &Contender, figure: &dyn Fn(&Run) -> f64) -> Bar {
    let values = part.values(contender.name, figure);
    let (low, high) = spread(&values);
    let fill = match keeps(book, contender) {
        Keeps::Word if contender.is_ours() => Fill::Ours,
        Keeps::Word => Fill::Peer,
        Keeps::WordUntilPowerCut | Keeps::Nothing => Fill::Unranked,
    };
    Bar { label: contender.title.to_owned(), median: median(values), low, high, fill }
}
