//! READDIR and READDIRPLUS.
//!
//! Cookies come from the file system and are valid for ever, so the cookie verifier is eight zero bytes, is
//! not compared, and BAD_COOKIE is never sent (rules F21).

use tally_vfs::{DirEntry, DirPage, FileKind};

use super::Procedure;
use super::request::{Done, Request};
use super::status::Status;
use super::wire::{self, ATTR_BYTES, Put};
use crate::entry::{Target, may_be_child};
use crate::handle::HANDLE_BYTES;
use crate::xdr::{Decoder, Encoder, Garbage};

/// Largest listing in one reply. More would only hold a worker longer; clients ask for at most 64 KiB or,
/// where they take FSINFO's dtpref, for that.
const LISTING_BYTES_MAX: u32 = 128 << 10;

/// Status, attributes of the directory, verifier; and behind the entries "no more" and "end of directory".
const FRAME_BYTES: usize = 4 + 4 + ATTR_BYTES + 8 + 4 + 4;
/// An entry without its name: "one more", file id, length of the name, cookie.
const ENTRY_BYTES: usize = 4 + 8 + 4 + 8;
/// What READDIRPLUS adds: attributes and handle.
const PLUS_BYTES: usize = 4 + ATTR_BYTES + 4 + 4 + HANDLE_BYTES;
/// Shortest name, padded.
const NAME_BYTES_MIN: usize = 4;

pub(super) fn readdir(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let (handle, cookie, _verifier) = (wire::handle(words)?, words.u64()?, words.u64()?);
    let count = words.u32()?;
    Ok(list(request, Procedure::ReadDir, handle, cookie, &Room::new(u32::MAX, count, false)))
}

pub(super) fn readdirplus(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let (handle, cookie, _verifier) = (wire::handle(words)?, words.u64()?, words.u64()?);
    let (dir_count, max_count) = (words.u32()?, words.u32()?);
    Ok(list(request, Procedure::ReadDirPlus, handle, cookie, &Room::new(dir_count, max_count, true)))
}

/// How much the client takes.
struct Room {
    /// Bytes of names, ids and cookies. The first entry goes out even if it does not fit: refusing it would
    /// only make the client ask again.
    dir_bytes: usize,
    /// Bytes of the whole reply.
    reply_bytes: usize,
    plus: bool,
}

impl Room {
    fn new(dir_count: u32, max_count: u32, plus: bool) -> Self {
        let bytes = |count: u32| count.min(LISTING_BYTES_MAX) as usize;
        Self { dir_bytes: bytes(dir_count), reply_bytes: bytes(max_count), plus }
    }

    /// More entries than can fit are not asked for.
    fn entries_max(&self) -> usize {
        let by_names = self.dir_bytes / (ENTRY_BYTES + NAME_BYTES_MIN);
        let entry = ENTRY_BYTES + NAME_BYTES_MIN + if self.plus { PLUS_BYTES } else { 0 };
        (self.reply_bytes / entry).min(by_names).max(1)
    }
}

fn list(request: &Request<'_>, procedure: Procedure, handle: &[u8], cookie: u64, room: &Room) -> Done {
    let target = match request.target(handle) {
        Ok(target) => target,
        Err(status) => return Done::failure(procedure, status),
    };
    let page = target.vfs.readdir(&target.cred, target.object, cookie, room.entries_max(), room.plus);
    let body = page.map_err(Status::from).and_then(|page| encode(&target, &page, room));
    match body {
        Ok(out) => Done::now(Status::Ok, out),
        Err(status) => {
            let mut out = Encoder::new();
            out.status(status).post_attr(target.vfs.getattr(target.object).ok().as_ref(), target.fsid);
            Done::now(status, out)
        }
    }
}

fn encode(target: &Target, page: &DirPage, room: &Room) -> Result<Encoder, Status> {
    let mut out = Encoder::new();
    out.status(Status::Ok).post_attr(Some(&page.attr), target.fsid).u64(0);
    let (mut reply_bytes, mut dir_bytes, mut count) = (FRAME_BYTES, 0, 0);
    for entry in &page.entries {
        let names = ENTRY_BYTES + entry.name.len().next_multiple_of(4);
        reply_bytes += names + if room.plus { PLUS_BYTES } else { 0 };
        dir_bytes += names;
        if reply_bytes > room.reply_bytes || (dir_bytes > room.dir_bytes && count > 0) {
            break;
        }
        put_entry(target, entry, room.plus, &mut out);
        count += 1;
    }
    if count == 0 && (!page.entries.is_empty() || FRAME_BYTES > room.reply_bytes) {
        return Err(Status::TooSmall);
    }
    out.bool(false).bool(page.eof && count == page.entries.len());
    Ok(out)
}

/// One entry. Where a dataset is mounted the handle is left out, so that the client looks the name up and
/// crosses over; the id stays that of the directory it is mounted on, as getdents(2) has it.
fn put_entry(target: &Target, entry: &DirEntry, plus: bool, out: &mut Encoder) {
    out.bool(true).u64(entry.object.0).opaque(&entry.name).u64(entry.cookie);
    if !plus {
        return;
    }
    let attr = entry
        .attr
        .as_ref()
        .filter(|attr| entry.cookie <= 2 || !may_be_child(attr.kind) || target.child(&entry.name).is_none());
    let handle = attr.map(|attr| target.seal(attr.object));
    let shown = attr.filter(|attr| attr.kind != FileKind::File || !target.has_written(attr.object));
    out.post_attr(shown, target.fsid).post_handle(handle.as_ref());
}
