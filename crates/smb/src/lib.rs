//! What Samba is told of datasets. SMB is spoken by Samba, a program of its own, over datasets that are mounted on this machine; this crate makes the part of its
//! configuration that has the shares, and nothing else.
//!
//! ```text
//!   sharesmb=name=Docs,users=@staff ──parse──▶ Share ─┐
//!   mounts, sharenfs, readonly, refquota ─────────────┴─plan──▶ Planned, one a share ──text──▶ [Docs] path = /srv/docs …
//! ```
//!
//! **The danger** is that smb.conf is lines: a name with a line end in it, or a bracket, begins a section of somebody else's making, and what stands in one may run programs
//! as root (`root preexec`). So there is no quoting here, of which Samba has no whole form. What a name, a user or a path may have is a list, everything else is
//! refused or left out, and a test reads the text back and finds what was put in ([`conf`]).
//!
//! Nothing here reads or writes a file, and no word of Samba's code is in it.

pub mod conf;
mod main_conf;
mod name;
mod share;
mod strange;

use std::path::{Path, PathBuf};

pub use main_conf::{has_share, includes};
pub use name::{NAME_CHARS_MAX, ShareName};
pub use share::{Share, ShareError, parse_sharesmb};
pub use strange::strange_line;

/// The file beside one that Samba includes: what is to take its place, once Samba has nothing to say of it.
#[must_use]
pub fn unchecked(include: &Path) -> PathBuf {
    beside(include, ".new")
}

/// The same while it is looked at.
#[must_use]
pub fn looked_at(include: &Path) -> PathBuf {
    beside(include, ".checked")
}

/// And what was refused then.
#[must_use]
pub fn refused(include: &Path) -> PathBuf {
    beside(include, ".refused")
}

fn beside(include: &Path, ending: &str) -> PathBuf {
    let mut name = include.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
