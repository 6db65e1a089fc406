//! Disks of this machine, and what is known of them: by lsblk and wipefs of util-linux, which know every signature that there is, and are on
//! each machine that has disks.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use tally_base::Size;
use tally_disk::{Access, FileDisk};
use tally_members::label::{self, PoolState, Unreadable};

use crate::cli::console::printed_by;
use crate::control::shell::quoted;

/// A disk, or a file that stands for one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) model: String,
    /// Where it is mounted, or a part of it, or what it is part of.
    pub(super) uses: Vec<String>,
    /// What is known to be on it: `ext4 'data'`, `gpt`.
    pub(super) contents: Vec<String>,
    pub(super) is_read_only: bool,
    /// It has to be waited for until it has turned, as the kernel has it.
    pub(super) turns: bool,
    /// It is a file, and not there yet.
    pub(super) is_to_be_made: bool,
}

/// What lsblk prints.
#[derive(Deserialize)]
struct Listed {
    blockdevices: Vec<Block>,
}

#[derive(Deserialize)]
struct Block {
    name: String,
    path: PathBuf,
    size: Option<u64>,
    model: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    mountpoints: Vec<Option<String>>,
    ro: bool,
    #[serde(default)]
    rota: bool,
    #[serde(default)]
    children: Vec<Block>,
}

/// What wipefs prints.
#[derive(Deserialize)]
struct Signatures {
    signatures: Vec<Signature>,
}

#[derive(Deserialize)]
struct Signature {
    #[serde(rename = "type")]
    kind: String,
    label: Option<String>,
}

/// All disks that could hold something, by the names that they keep.
pub(super) fn all() -> Result<Vec<Candidate>, String> {
    let listed = lsblk(&[])?;
    let disks = listed.into_iter().filter(|block| block.kind == "disk" && block.size.is_some_and(|size| size > 0));
    // One that cannot be looked at is listed, and not to be had.
    Ok(disks.map(|block| Candidate::of(&block, lasting_name(&block.path))).collect())
}

/// Loop devices that stand on this file: what is mounted of it, or in a pool, is so by them.
fn loops_over(file: &Path) -> Vec<String> {
    let Ok(file) = fs::canonicalize(file) else { return Vec::new() };
    let devices = fs::read_dir("/sys/block").into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let backs = |device: &PathBuf| {
        let backing = fs::read_to_string(device.join("loop/backing_file")).unwrap_or_default();
        Path::new(backing.trim_end_matches('\n')) == file
    };
    let name = |device: PathBuf| Some(format!("is the device /dev/{}", device.file_name()?.to_string_lossy()));
    devices.filter(backs).filter_map(name).collect()
}

impl Candidate {
    /// What is at this path; a file that is to be made, if nothing is.
    pub(super) fn at(path: &Path) -> Result<Self, String> {
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !path.starts_with("/dev") => {
                return Ok(Self { path: path.into(), is_to_be_made: true, ..Self::default() });
            }
            Err(error) => return Err(format!("cannot look at {}: {error}", path.display())),
        };
        if metadata.is_file() {
            let contents = signatures(path)?;
            let uses = loops_over(path).into_iter().chain(pool_of(path)).collect();
            return Ok(Self { path: path.into(), size: metadata.len(), contents, uses, ..Self::default() });
        }
        if !metadata.file_type().is_block_device() {
            return Err(format!("{} is neither a disk nor a file", path.display()));
        }
        match lsblk(&[path])?.first() {
            Some(block) => Ok(Self::of(block, path.into())),
            None => Err(format!("lsblk knows no disk {}", path.display())),
        }
    }

    fn of(block: &Block, path: PathBuf) -> Self {
        let mut uses = Vec::new();
        collect_uses(block, block, &mut uses);
        let contents = signatures(&block.path).unwrap_or_else(|error| {
            uses.push(error);
            Vec::new()
        });
        uses.extend(pool_of(&block.path));
        Self {
            contents,
            path,
            size: block.size.unwrap_or(0),
            model: block.model.clone().unwrap_or_default().trim().to_owned(),
            uses,
            is_read_only: block.ro,
            turns: block.rota,
            is_to_be_made: false,
        }
    }

    /// What it is called, without the folder.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// For the list of all.
    pub(super) fn words(&self) -> String {
        let holds = if self.contents.is_empty() { "nothing that is known".into() } else { self.contents.join(", ") };
        let used = if self.uses.is_empty() { String::new() } else { format!(" ({})", self.uses.join(", ")) };
        let kind = if self.turns { "hard disk" } else { "flash" };
        format!("{}  {}  {kind}  {}  {holds}{used}", self.path.display(), Size(self.size), self.model)
    }

    /// Why it is not used, whatever is said.
    pub(super) fn objection(&self) -> Option<String> {
        let path = self.path.display();
        if !self.uses.is_empty() {
            return Some(format!(
                "{path} cannot be used: {}. Nothing was done; take it out of use, or name another disk",
                self.uses.join(", ")
            ));
        }
        self.is_read_only.then(|| format!("{path} can only be read. Nothing was done; name another disk"))
    }
}

/// Mounts of a disk and of its parts, and what else is made of them.
fn collect_uses(disk: &Block, block: &Block, uses: &mut Vec<String>) {
    uses.extend(block.mountpoints.iter().flatten().map(|at| match at.as_str() {
        "[SWAP]" => format!("{} is swap", block.name),
        at => format!("{} is mounted at {at}", block.name),
    }));
    for child in &block.children {
        // A partition by itself is content, which the table of partitions tells of.
        if child.kind != "part" {
            uses.push(format!("{} is part of {}", disk.name, child.name));
        }
        collect_uses(disk, child, uses);
    }
}

/// The name of a disk that it keeps behind a restart, if it has one.
fn lasting_name(path: &Path) -> PathBuf {
    let links = fs::read_dir("/dev/disk/by-id").into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut names: Vec<PathBuf> = links.filter(|link| fs::canonicalize(link).is_ok_and(|to| to == path)).collect();
    // Those that say a model before those that are numbers alone.
    names.sort_by_key(|name| {
        let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name.starts_with("wwn-") || name.starts_with("nvme-eui."), name.len(), name)
    });
    names.into_iter().next().unwrap_or_else(|| path.into())
}

fn lsblk(paths: &[&Path]) -> Result<Vec<Block>, String> {
    let mut command = Command::new("lsblk");
    command.args(["--json", "--bytes", "--output", "NAME,PATH,SIZE,MODEL,TYPE,MOUNTPOINTS,RO,ROTA"]);
    command.arg("--").args(paths);
    let listed: Listed = json(command)?;
    Ok(listed.blockdevices)
}

/// Whose it is, if it is a pool's of ours. wipefs does not know our labels, and finds within a pool what its clients have written: to wipe that damages the pool.
fn pool_of(path: &Path) -> Option<String> {
    let disk = match FileDisk::open(path, Access::ReadOnly) {
        Ok(disk) => disk,
        Err(error) => return Some(format!("cannot be read: {error}")),
    };
    let (whose, state) = match label::read(&disk) {
        Ok(label) => match label.config.state {
            PoolState::Active => (label.config.name, "in use, or its machine crashed"),
            PoolState::Exported => (label.config.name, "exported"),
            PoolState::Destroyed => return None,
        },
        Err(Unreadable::NoLabel) => return None,
        Err(why) => return Some(format!("has labels of a pool: {why}")),
    };
    let path = quoted(&path.to_string_lossy());
    Some(format!("belongs to pool {whose} ({state}), which `tally pool labelclear -f {path}` would give up"))
}

/// What is known to be on it. What nobody knows is found blank.
fn signatures(path: &Path) -> Result<Vec<String>, String> {
    let mut command = Command::new("wipefs");
    command.args(["--json", "--no-act", "--"]).arg(path);
    let found: Signatures = json(command)?;
    let words = |Signature { kind, label }: &Signature| match label.as_deref() {
        Some(label) if !label.is_empty() => format!("{kind} '{}'", super::words::harmless(label)),
        _ => kind.clone(),
    };
    let mut contents: Vec<_> = found.signatures.iter().map(words).collect();
    contents.dedup();
    Ok(contents)
}

/// What a program of util-linux says.
fn json<T: for<'a> Deserialize<'a>>(command: Command) -> Result<T, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        printed_by(command).map_err(|error| format!("cannot run {program}, which is of util-linux: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} cannot tell what is there: {}", super::words::harmless(said.trim())));
    }
    // Of a blank disk wipefs says nothing at all.
    let text = if output.stdout.trim_ascii().is_empty() { b"{\"signatures\":[]}" } else { &*output.stdout };
    serde_json::from_slice(text).map_err(|error| format!("{program} says something else than it should: {error}"))
}

#[cfg(test)]
mod tests;
