//! Where a dataset is mounted on the machine that serves it, and whether that happens by itself.

use std::fmt;

/// Longest `mountpoint`, bytes: with a dataset's name behind it, it is far from the longest path that Linux takes.
pub const MOUNTPOINT_BYTES_MAX: usize = 512;

/// Where a dataset is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Mountpoint {
    /// Nowhere by itself.
    #[default]
    None,
    /// Where /etc/fstab says.
    Legacy,
    /// In this directory: absolute, without `.`, `..` and what stands twice, and not the root.
    At(String),
}

impl Mountpoint {
    /// Reads one as typed, and writes a path as short as it can be written.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "none" => return Some(Self::None),
            "legacy" => return Some(Self::Legacy),
            _ => {}
        }
        // A line of text: it stands in lists, and in what is generated for other programs.
        if text.len() > MOUNTPOINT_BYTES_MAX || text.chars().any(char::is_control) {
            return None;
        }
        let names: Vec<&str> = text.strip_prefix('/')?.split('/').filter(|name| !name.is_empty()).collect();
        let is_path = !names.is_empty() && names.iter().all(|name| !matches!(*name, "." | ".."));
        is_path.then(|| Self::At(format!("/{}", names.join("/"))))
    }

    /// What it is for the dataset of this name, as many names below the one on which it was set. Names that would lead out of there lead nowhere.
    #[must_use]
    pub fn below(&self, name: &str, depth: usize) -> Self {
        match self {
            Self::At(path) if depth > 0 => {
                let names: Vec<&str> = name.split('/').collect();
                let below = names.get(names.len().saturating_sub(depth)..).unwrap_or_default();
                if below.iter().any(|name| matches!(*name, "" | "." | "..") || name.chars().any(char::is_control)) {
                    return Self::None;
                }
                Self::At(format!("{path}/{}", below.join("/")))
            }
            set => set.clone(),
        }
    }
}

impl fmt::Display for Mountpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Legacy => "legacy",
            Self::At(path) => path,
        })
    }
}

/// Whether a dataset is mounted by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CanMount {
    /// Where it has a mountpoint.
    #[default]
    On,
    /// Not at all: it is there to have others below it.
    Off,
    /// When somebody asks for it.
    NoAuto,
}
