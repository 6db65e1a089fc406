//! What stands behind `tally pool create NAME`: devices, and the words between them, in `zpool`'s grammar.
//!
//! ```text
//!  vdevs  = { vdev } { "log" vdev { vdev } }
//!  vdev   = DEVICE | "mirror" DEVICE DEVICE { DEVICE }
//! ```

use std::path::{Path, PathBuf};

use crate::label::{VdevClass, VdevKind};

/// One vdev as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VdevSpec {
    /// What it is for.
    pub class: VdevClass,
    /// How it is made.
    pub kind: VdevKind,
    /// Its devices: one, or two and more for a mirror.
    pub paths: Vec<PathBuf>,
}

/// What is wrong with the words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum GrammarError {
    /// Nothing but the pool's name, or log devices alone.
    #[error("a pool needs at least one device for data; usage: NAME [mirror] DEVICE... [log [mirror] DEVICE...]")]
    NoData,
    /// A mirror of one or none.
    #[error("invalid vdev specification: mirror needs at least two devices, and got {count}")]
    MirrorTooSmall {
        /// Devices behind the word.
        count: usize,
    },
    /// `log` at the end.
    #[error("invalid vdev specification: log needs at least one device")]
    EmptyLog,
    /// Spares for a pool that is not there yet.
    #[error(
        "a pool gets its spares when it is there: make it without them, and then `tally pool add POOL spare DEVICE...`"
    )]
    SparesLater,
    /// `spare` without a disk.
    #[error("invalid vdev specification: spare needs at least one device")]
    EmptySpare,
    /// Something else than spares for a pool that is there.
    #[error(
        "a pool that is there takes spares, by `tally pool add POOL spare DEVICE...`, and further disks of its mirrors, by \
         `tally pool attach`; other vdevs only come with `tally pool create`"
    )]
    OnlySpares,
    /// A word of `zpool` that is not there yet.
    #[error("{word} vdevs are not there yet: use single devices, mirrors and log devices")]
    NotYet { word: String },
    /// The same device twice.
    #[error("invalid vdev specification: {} is named twice", path.display())]
    Twice { path: PathBuf },
    /// An empty word or an option among the devices.
    #[error("{word:?} is not a device")]
    NotADevice { word: String },
}

/// Words of `zpool` that name kinds and classes of vdevs we do not have.
const NOT_YET: [&str; 7] = ["raidz", "draid", "spare", "cache", "special", "dedup", "replacing"];

/// Reads the words behind the pool's name.
pub fn parse_vdev_args(words: &[String]) -> Result<Vec<VdevSpec>, GrammarError> {
    let specs = group(words)?;
    if let Some(spec) = specs.iter().find(|spec| spec.kind == VdevKind::Mirror && spec.paths.len() < 2) {
        return Err(GrammarError::MirrorTooSmall { count: spec.paths.len() });
    }
    if !specs.iter().any(|spec| spec.class == VdevClass::Data) {
        return Err(GrammarError::NoData);
    }
    let mut paths: Vec<&Path> = specs.iter().flat_map(|spec| &spec.paths).map(PathBuf::as_path).collect();
    paths.sort_unstable();
    match paths.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(GrammarError::Twice { path: pair[0].to_owned() }),
        None => Ok(specs),
    }
}

/// Reads the words behind `tally pool add POOL`: spares, so far.
pub fn parse_spare_args(words: &[String]) -> Result<Vec<PathBuf>, GrammarError> {
    let Some((word, devices)) = words.split_first().filter(|(word, _)| *word == "spare") else {
        return Err(GrammarError::OnlySpares);
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    for device in devices {
        if is_word(device) {
            return Err(if device == word { GrammarError::EmptySpare } else { GrammarError::OnlySpares });
        }
        if device.is_empty() || device.starts_with('-') {
            return Err(GrammarError::NotADevice { word: device.clone() });
        }
        let path = normal(Path::new(device));
        if paths.contains(&path) {
            return Err(GrammarError::Twice { path });
        }
        paths.push(path);
    }
    if paths.is_empty() { Err(GrammarError::EmptySpare) } else { Ok(paths) }
}

/// Splits the words at the keywords; how many devices each vdev has is checked afterwards.
fn group(words: &[String]) -> Result<Vec<VdevSpec>, GrammarError> {
    let mut specs: Vec<VdevSpec> = Vec::new();
    let mut class = VdevClass::Data;
    let (mut in_mirror, mut log_is_empty) = (false, false);
    for word in words {
        match word.as_str() {
            "mirror" => {
                specs.push(VdevSpec { class, kind: VdevKind::Mirror, paths: Vec::new() });
                (in_mirror, log_is_empty) = (true, false);
            }
            "log" if log_is_empty => return Err(GrammarError::EmptyLog),
            "log" => (class, in_mirror, log_is_empty) = (VdevClass::Log, false, true),
            "spare" => return Err(GrammarError::SparesLater),
            other if is_not_yet(other) => return Err(GrammarError::NotYet { word: other.to_owned() }),
            other if other.is_empty() || other.starts_with('-') => {
                return Err(GrammarError::NotADevice { word: other.to_owned() });
            }
            device => {
                let path = normal(Path::new(device));
                match specs.last_mut().filter(|_| in_mirror) {
                    Some(mirror) => mirror.paths.push(path),
                    None => specs.push(VdevSpec { class, kind: VdevKind::Disk, paths: vec![path] }),
                }
                log_is_empty = false;
            }
        }
    }
    if log_is_empty { Err(GrammarError::EmptyLog) } else { Ok(specs) }
}

/// Whether a word belongs to the grammar, and is no device: also where we do not have yet what it means.
#[must_use]
pub fn is_word(word: &str) -> bool {
    matches!(word, "mirror" | "log") || is_not_yet(word)
}

/// `raidz2` and `draid2:4d` belong to their families; a path with a slash is always a device.
fn is_not_yet(word: &str) -> bool {
    NOT_YET.iter().any(|known| {
        let rest = word.strip_prefix(known);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit() || c == ':'))
    })
}

/// `./a`, `a` and `b/../a` stay what they are called, but `./a` and `a` are one device.
fn normal(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
}

#[cfg(test)]
mod tests;
