//! READDIR (RFC 7530 §16.24).
//!
//! Cookies come from the file system and are valid for ever, so the verifier is eight zero bytes and is not compared (rules F21). Where a
//! dataset is mounted the entry shows its root, as a client sees it that crosses over.

use tally_vfs::{Attr, ClientNumber, DirEntry, FileKind, ObjectRef};

use super::super::attr::{self, AttrSet, RDATTR_ERROR, Subject};
use super::super::compound::{Compound, Stop};
use super::super::pseudo::{Node, Tree};
use super::super::recalls::looks::may_be_newer;
use super::super::status::Status;
use crate::entry::{Target, may_be_child};
use crate::numbers::ACCESS_LOOKUP;
use crate::xdr::{Decoder, Encoder};

/// Largest listing in one reply.
const LISTING_BYTES_MAX: u32 = 128 << 10;
/// Behind the entries: "no more", and "end of directory".
const END_BYTES: usize = 4 + 4;
/// A listing without any: the verifier, and that.
const FRAME_BYTES: usize = 8 + END_BYTES;
/// What an entry takes of the bytes that are asked for in names: its cookie, and a name.
const NAME_BYTES_MIN: usize = 8 + 8;
/// The least that an entry takes: "one more", cookie, name, bitmap, values.
const ENTRY_BYTES_MIN: usize = 4 + 8 + 8 + 4 + 4;
/// Cookies that stand for `.` and `..`, which this listing has not.
const DOTS: u64 = 2;

pub(in super::super) fn read(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let (cookie, _verifier, dir_count, count) = (words.u64()?, words.u64()?, words.u32()?, words.u32()?);
    let wanted = AttrSet::decode(words, compound.minor())?;
    let node = compound.current()?;
    attr::check_readable(&wanted)?;
    if (1..=DOTS).contains(&cookie) {
        return Err(Status::BadCookie.into());
    }
    let left = compound.room(out);
    let room = count.min(LISTING_BYTES_MAX).min(left) as usize;
    if room < FRAME_BYTES {
        return Err(if left < count { compound.too_big() } else { Status::TooSmall }.into());
    }
    let names = if dir_count == 0 { room } else { (dir_count.min(LISTING_BYTES_MAX) as usize).max(ENTRY_BYTES_MIN) };
    let list = List { tree: compound.tree(), who: compound.actor(), wanted, room, names };
    let listed = match node {
        Node::Object(target) => list.directory(target, cookie)?,
        Node::Way(..) | Node::Root => list.above(node, cookie)?,
    };
    let asked = list.tree.names.asked();
    compound.wait_for_names(asked)?;
    out.append(listed);
    Ok(Status::Ok)
}

/// What is asked for.
struct List<'a> {
    tree: Tree<'a>,
    who: Option<ClientNumber>,
    wanted: AttrSet,
    /// Bytes of all results.
    room: usize,
    /// Bytes of cookies and names.
    names: usize,
}

/// Whether an entry is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    All,
    Nothing,
}

/// Entries so far.
struct Page {
    out: Encoder,
    names: usize,
    count: usize,
}

impl List<'_> {
    fn directory(&self, target: &Target, cookie: u64) -> Result<Encoder, Status> {
        if target.vfs.getattr(target.object)?.kind != FileKind::Directory {
            return Err(Status::NotDir);
        }
        let entry_bytes = ENTRY_BYTES_MIN + self.wanted.bytes_min();
        let entries_max = (self.room / entry_bytes).min(self.names / NAME_BYTES_MIN).max(1);
        let plus = self.wanted.needs_attr();
        let page = target.vfs.readdir(&target.cred, target.object, cookie.max(DOTS), entries_max, plus)?;
        let mut listed = Page::new();
        for entry in &page.entries {
            if !self.add(&mut listed, entry.cookie, &entry.name, |out| self.values(target, &page.attr, entry, out))? {
                return Ok(listed.finish(false));
            }
        }
        Ok(listed.finish(page.eof))
    }

    fn above(&self, node: &Node, cookie: u64) -> Result<Encoder, Status> {
        let mut listed = Page::new();
        for (id, name, child) in self.tree.list(node, cookie) {
            let values = |out: &mut Encoder| self.values_of(&child, out);
            if !self.add(&mut listed, id, name.as_bytes(), values)? {
                return Ok(listed.finish(false));
            }
        }
        Ok(listed.finish(true))
    }

    /// Adds an entry if there is room; true if there was. Where it is the first that there is none for, or that fails, the listing does; a later one is
    /// the first of the next.
    fn add(
        &self,
        page: &mut Page,
        cookie: u64,
        name: &[u8],
        values: impl FnOnce(&mut Encoder) -> Result<Told, Status>,
    ) -> Result<bool, Status> {
        let before = page.out.len();
        page.out.bool(true).u64(cookie).opaque(name);
        let names = page.names + page.out.len() - before;
        let outcome = values(&mut page.out).and_then(|told| {
            let has_room = page.out.len() + END_BYTES <= self.room && (names <= self.names || page.count == 0);
            if has_room || told == Told::Nothing { Ok(told) } else { Err(Status::TooSmall) }
        });
        match outcome {
            Ok(Told::All) => {
                (page.names, page.count) = (names, page.count + 1);
                Ok(true)
            }
            Ok(Told::Nothing) => {
                page.out.truncate(before);
                Ok(true)
            }
            Err(_) if page.count > 0 => {
                page.out.truncate(before);
                Ok(false)
            }
            Err(status) => Err(status),
        }
    }

    fn values(&self, dir: &Target, at: &Attr, entry: &DirEntry, out: &mut Encoder) -> Result<Told, Status> {
        let is_directory = entry.attr.as_ref().is_none_or(|attr| may_be_child(attr.kind));
        if is_directory && let Some(child) = self.tree.entry.child(dir, &entry.name) {
            return match child {
                Ok(child) => self.values_of(&Node::Object(child), out),
                Err(closed) => match self.tree.way_to_child(dir, &entry.name) {
                    Some(way) => self.values_of(&way, out),
                    // What is closed to a client is left out, as above the exports, for who has not asked to be told.
                    None if !self.wanted.has(RDATTR_ERROR) => Ok(Told::Nothing),
                    None => self.refused(closed.into(), out),
                },
            };
        }
        let attr = match &entry.attr {
            Some(attr) => attr.clone(),
            // Whoever may list a directory and not search it knows names and ids.
            None if self.wanted.needs_attr() && dir.access(at) & ACCESS_LOOKUP == 0 => {
                return self.refused(Status::Access, out);
            }
            None if self.wanted.needs_attr() => return self.refused(Status::Io, out),
            // Nothing but its id is told.
            None => Attr { object: ObjectRef { id: entry.object, ..at.object }, ..at.clone() },
        };
        // Another client may know better what is in it, and is asked by who looks at this one alone.
        let is_left_out =
            self.wanted.needs_writer() && attr.kind == FileKind::File && may_be_newer(&*dir.vfs, attr.object, self.who);
        let wanted = if is_left_out { self.wanted.without_content() } else { self.wanted };
        let node = Node::Object(Target { object: attr.object, ..dir.clone() });
        self.encode(&wanted, &Subject::new(&node, attr, &self.tree), out)
    }

    fn values_of(&self, node: &Node, out: &mut Encoder) -> Result<Told, Status> {
        match self.tree.attr(node) {
            Ok(attr) => self.encode(&self.wanted, &Subject::new(node, attr, &self.tree), out),
            Err(status) => self.refused(status, out),
        }
    }

    fn encode(&self, wanted: &AttrSet, subject: &Subject<'_>, out: &mut Encoder) -> Result<Told, Status> {
        let before = out.len();
        attr::encode(wanted, subject, out).map(|()| Told::All).or_else(|status| {
            out.truncate(before);
            self.refused(status, out)
        })
    }

    /// One that has no attributes says so, if it was asked to; else the whole listing fails (RFC 7530 §16.24.4).
    fn refused(&self, status: Status, out: &mut Encoder) -> Result<Told, Status> {
        if !self.wanted.has(RDATTR_ERROR) {
            return Err(status);
        }
        attr::encode_error(status, out);
        Ok(Told::All)
    }
}

impl Page {
    fn new() -> Self {
        let mut out = Encoder::new();
        out.u64(0);
        Self { out, names: 0, count: 0 }
    }

    fn finish(mut self, is_end: bool) -> Encoder {
        self.out.bool(false).bool(is_end);
        self.out
    }
}
