//! Whose work the program is linked with, and on which terms: the texts that these ask to be passed on.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tally_lab::cargo;

/// How files with terms begin.
const BEGINNINGS: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// One that cargo knows; those of this workspace have no source.
#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
}

/// All that is linked into the program, each with its terms, and each text once.
pub(super) fn text() -> Result<String> {
    let linked =
        lines(&["tree", "--package", "tally-server", "--edges", "normal", "--prefix", "none", "--format", "{p}"])?;
    let metadata = said(&["metadata", "--format-version", "1"])?;
    let metadata: Metadata =
        serde_json::from_str(&metadata).context("cargo metadata says nothing that is understood")?;
    let is_linked = |package: &Package| {
        let name = format!("{} v{}", package.name, package.version);
        linked.iter().any(|line| *line == name || line.starts_with(&format!("{name} ")))
    };
    let mut packages: Vec<_> =
        metadata.packages.into_iter().filter(|package| package.source.is_some() && is_linked(package)).collect();
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    ensure!(!packages.is_empty(), "the program is linked with nothing, which cannot be");
    let mut list = String::from("The program is linked with these libraries; the terms of each follow.\n\n");
    let mut texts = BTreeMap::<String, Vec<String>>::new();
    for Package { name, version, license, manifest_path, .. } in &packages {
        let terms = license.as_deref().unwrap_or("see its text");
        writeln!(list, "{name} {version}: {terms}")?;
        for text in terms_in(manifest_path.parent().context("a manifest lies in a folder")?)? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    for (text, of) in texts {
        write!(list, "\n{}\n{}\n\n{}\n", "-".repeat(72), of.join(", "), text.trim_end())?;
    }
    Ok(list)
}

fn terms_in(folder: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_uppercase();
        if path.is_file() && BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) {
            files.push(path);
        }
    }
    files.sort();
    files.iter().map(|path| Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())).collect()
}

fn lines(words: &[&str]) -> Result<Vec<String>> {
    Ok(said(words)?.lines().map(str::to_owned).collect())
}

fn said(words: &[&str]) -> Result<String> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(words)
        .current_dir(cargo::workspace())
        .output()?;
    if !output.status.success() {
        bail!("cargo {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
