//! The archive that the client unpacked: names, attributes and content of what must be found.
//!
//! ```text
//! header   0 name 100 | 100 mode 8 | 108 uid 8 | 116 gid 8 | 124 size 12 | 136 mtime 12 | 148 checksum 8 | 156 type 1
//! ```
//!
//! Numbers are octal digits. A header fills 512 bytes, and so do the pieces of a file's content behind it; a header of
//! zeroes ends the archive.

use std::path::Path;

use anyhow::{Context, Result, bail};

const BLOCK: usize = 512;

/// A file or folder of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// From the archive's root, without a slash at either end.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
    pub(super) mtime: u32,
    /// None of a folder.
    pub(super) content: Option<Vec<u8>>,
}

/// All of them, in the archive's order.
pub(super) fn read(path: &Path) -> Result<Vec<Member>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&bytes).with_context(|| format!("archive {}", path.display()))
}

fn parse(bytes: &[u8]) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    let mut rest = bytes;
    loop {
        let (header, behind) = rest.split_at_checked(BLOCK).context("it has no end")?;
        if header.iter().all(|byte| *byte == 0) {
            return Ok(members);
        }
        let size = usize::try_from(number(header, 124, 12)?)?;
        let content = behind.get(..size).context("it is cut off")?;
        let folder = match header[156] {
            b'0' => false,
            b'5' => true,
            other => bail!("a member of type {:?}", char::from(other)),
        };
        members.push(Member {
            path: text(header, 0, 100)?.trim_end_matches('/').to_owned(),
            mode: number(header, 100, 8)? as u32,
            owner: (number(header, 108, 8)? as u32, number(header, 116, 8)? as u32),
            mtime: u32::try_from(number(header, 136, 12)?)?,
            content: (!folder).then(|| content.to_vec()),
        });
        rest = behind.get(size.next_multiple_of(BLOCK)..).context("it is cut off")?;
    }
}

fn number(header: &[u8], at: usize, length: usize) -> Result<u64> {
    let digits = text(header, at, length)?;
    u64::from_str_radix(digits.trim(), 8).with_context(|| format!("{digits:?} is no octal number"))
}

fn text(header: &[u8], at: usize, length: usize) -> Result<&str> {
    let field = &header[at..at + length];
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(length);
    Ok(std::str::from_utf8(&field[..end])?)
}

#[cfg(test)]
mod tests;
