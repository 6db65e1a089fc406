//! Pages of the manual: what they have to have, and that their examples run.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tally_fakes::MemOpener;
use tally_store::properties::Property;

use crate::running::{Running, tally};

/// Those that are written by hand.
fn pages() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/man");
    let page = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(path).expect("a page"))
    };
    fs::read_dir(folder).expect("the pages").map(page).collect()
}

/// The commands of its section EXAMPLES.
fn examples(page: &str) -> Vec<&str> {
    page.lines().filter_map(|line| line.strip_prefix(".Dl ")).collect()
}

#[test]
fn every_example_runs() {
    let (dir, opener) = (tempfile::tempdir().expect("a directory"), Arc::new(MemOpener::default()));
    let daemon = Running::start(dir.path(), &opener);
    assert!(tally(dir.path(), &["dataset", "create", "tank/home"]).0);
    let program = Path::new(env!("CARGO_BIN_EXE_tally"));
    let path =
        format!("{}:{}", program.parent().expect("a folder").display(), std::env::var("PATH").unwrap_or_default());
    for (name, page) in pages() {
        let examples = examples(&page);
        assert!(!examples.is_empty(), "{name} has no example");
        for example in examples {
            // As a shell reads it, which is who it is for.
            let mut shell = Command::new("sh");
            shell.args(["-c", example]).env("PATH", &path).env("TALLY_SOCKET", dir.path().join("tally.sock"));
            let ran = shell.output().expect("a shell");
            assert!(ran.status.success(), "{name}: `{example}`: {}", String::from_utf8_lossy(&ran.stderr));
        }
    }
    daemon.stop();
}

#[test]
fn every_property_stands_in_its_page() {
    let pages = pages();
    let page = pages.iter().find(|(name, _)| name == "tally-properties.7").map(|(_, page)| page).expect("the page");
    // Not in prose, where `size` and `sync` stand anyway.
    let lines = page.lines().filter(|line| line.starts_with(".It Cm ") || line.starts_with(".Cm "));
    let words: BTreeSet<_> =
        lines.flat_map(|line| line.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_')).collect();
    for property in Property::ALL {
        assert!(words.contains(property.name()), "{property} of datasets");
    }
    let (dir, opener) = (tempfile::tempdir().expect("a directory"), Arc::new(MemOpener::default()));
    let daemon = Running::start(dir.path(), &opener);
    for noun in ["pool", "dataset"] {
        let (went_well, all) = tally(dir.path(), &[noun, "get", "-H", "-o", "property", "all", "tank"]);
        assert!(went_well, "{all}");
        for property in all.lines() {
            let property = property.split('@').next().expect("a name");
            assert!(words.contains(property), "{property} of a {noun}");
        }
    }
    daemon.stop();
}

/// Where `man` would look for it.
#[test]
fn metrics_have_a_page() {
    let dir = tempfile::tempdir().expect("a directory");
    let folder = dir.path().join("man");
    assert!(tally(dir.path(), &["man", folder.to_str().expect("a path")]).0);
    let metrics = fs::read_to_string(folder.join("tally-metrics.7")).expect("the page").replace('\\', "");
    let rows = include_str!("../../../../docs/monitoring.md").lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.filter_map(|line| line.split(['`', '{']).next());
    let names: Vec<_> = names.filter(|name| name.starts_with("tally_") || name.starts_with("process_")).collect();
    assert!(names.iter().all(|name| metrics.contains(name)), "{metrics}");
    assert_eq!(metrics.matches(".TP\n").count(), names.len());
}
