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

use std::path::{Path, PathBuf};

pub use main_conf::{has_share, includes};
pub use name::{NAME_CHARS_MAX, ShareName};
pub use share::{Share, ShareError, parse_sharesmb};

/// The file beside one that Samba includes: what is to take its place, once Samba has nothing to say of it.
#[must_use]
pub fn unchecked(include: &Path) -> PathBuf {
    let mut name = include.as_os_str().to_owned();
    name.push(".new");
    name.into()
}
