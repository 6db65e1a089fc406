//! What log records and tree entries mean: the file system's part of `tally inspect`.
//!
//! The store walks (see [`tally_store::inspect`]) and asks here for words. Nothing is looked up: an entry is explained
//! from its own bytes, because what it refers to may be what is damaged.

use bytes::Bytes;
use tally_base::ObjectId;
use tally_base::codec::{DecodeError, Malformed, Reader};
use tally_intent::RecordHead;
use tally_store::bp::{BLOCK_PTR_BYTES, BlockPtr};
use tally_store::dataset::Schema;
use tally_store::inspect::{Fields, RecordWords, Value, Words, text_of};
use tally_store::key::{Class, Key};
use tally_vfs::FileKind;

use crate::cuts::Cuts;
use crate::entry::decode_entry;
use crate::fold::OrphanKind;
use crate::inode::{Inode, Layout, kind_of};
use crate::record::{self, InodeAfter, Record, RecordKind, SizeRule};
use crate::schema::Files;
use crate::xattr::{First, may_be_part};

/// Bytes of a small file that are shown.
const SMALL_SHOWN_BYTES: usize = 24;

/// Explains what a file system keeps in the store.
#[derive(Clone, Copy, Debug, Default)]
pub struct FsWords;

impl Words for FsWords {
    fn newer(&self, head: &RecordHead) -> Option<String> {
        record::newer(head)
    }

    fn record(&self, head: &RecordHead, body: &Bytes) -> Result<RecordWords, DecodeError> {
        let kind = RecordKind::of(head.kind).ok_or(Malformed("kind of log record"))?;
        let record = Record::decode(head.shape.form, body)?;
        Ok(RecordWords { fields: record_fields(kind, &record), parts: record_parts(&record) })
    }

    fn entry(&self, key: &Key, value: &Bytes) -> Result<Fields, DecodeError> {
        let fields = match key.class {
            Class::Inode => {
                let mut reader = Reader::new(value, "inode");
                let inode = Inode::decode(&mut reader)?;
                reader.end()?;
                Ok(inode_fields(ObjectId(key.object), &inode))
            }
            Class::DirEntry => directory_entry(key, value),
            Class::DirHash => hash_entry(key, value),
            Class::Extent => extent(key, value),
            Class::Small => {
                let shown = value.get(..SMALL_SHOWN_BYTES).unwrap_or(value);
                Ok(vec![object(key), ("bytes", value.len().into()), ("begins", text_of(shown))])
            }
            Class::Orphan => orphan(key, value),
            Class::Xattr => extended_attribute(key, value),
            Class::Dataset | Class::Job | Class::Damage | Class::History | Class::Mark | Class::Event => {
                Err(Malformed("class of a dataset's tree"))
            }
        };
        Ok(fields?)
    }

    fn schema(&self) -> &dyn Schema {
        &Files
    }
}

fn object(key: &Key) -> (&'static str, Value) {
    ("object", key.object.into())
}

fn directory_entry(key: &Key, value: &Bytes) -> Result<Fields, Malformed> {
    let malformed = Malformed("directory entry");
    let (object, name) = decode_entry(value).ok_or(malformed)?;
    let kind = value.get(8).and_then(|kind| kind_of(*kind)).ok_or(malformed)?;
    Ok(vec![
        ("directory", key.object.into()),
        ("id", key.a.into()),
        ("name", text_of(&name)),
        ("object", object.into()),
        ("kind", kind_word(kind).into()),
    ])
}

fn hash_entry(key: &Key, value: &Bytes) -> Result<Fields, Malformed> {
    let mut reader = Reader::new(value, "hash of a directory entry");
    let object = ObjectId(reader.u64()?);
    reader.end()?;
    Ok(vec![
        ("directory", key.object.into()),
        ("hash", Value::Hex(key.a)),
        ("id", key.b.into()),
        ("object", object.into()),
    ])
}

fn extent(key: &Key, value: &Bytes) -> Result<Fields, Malformed> {
    let bytes: &[u8; BLOCK_PTR_BYTES] = value[..].try_into().map_err(|_| Malformed("extent"))?;
    let bp = BlockPtr::decode(bytes)?;
    Ok(vec![
        object(key),
        ("offset", key.a.into()),
        ("at", bp.dva.to_string().into()),
        ("lsize", bp.lsize.into()),
        ("psize", bp.psize.into()),
        ("birth", bp.birth.into()),
        ("written", bp.written.into()),
    ])
}

fn extended_attribute(key: &Key, value: &Bytes) -> Result<Fields, Malformed> {
    let malformed = Malformed("extended attribute");
    let mut fields = vec![object(key), ("hash", Value::Hex(key.a)), ("part", key.b.into())];
    if !may_be_part(key.b, value) {
        return Err(malformed);
    }
    if key.b == 0 {
        let first = First::decode(value).ok_or(malformed)?;
        fields.extend([("name", text_of(&first.name)), ("value_bytes", first.value_bytes.into())]);
    }
    fields.push(("bytes", value.len().into()));
    Ok(fields)
}

fn orphan(key: &Key, value: &Bytes) -> Result<Fields, Malformed> {
    let mut fields = vec![object(key)];
    match OrphanKind::of(key.a).ok_or(Malformed("kind of an orphan"))? {
        OrphanKind::Removed => fields.push(("kind", "removed".into())),
        OrphanKind::Cut => {
            fields.push(("kind", "cut".into()));
            fields.extend(cuts_fields(&Cuts::decode(value)?));
        }
    }
    Ok(fields)
}

fn cuts_fields(cuts: &Cuts) -> Fields {
    let ahead = cuts.ahead();
    vec![("reaped_to", ahead.start.into()), ("cut_end", ahead.end.into()), ("cut_from_before", cuts.shown().into())]
}

fn inode_fields(id: ObjectId, inode: &Inode) -> Fields {
    let mut fields: Fields = vec![
        ("object", id.into()),
        ("kind", kind_word(inode.kind).into()),
        ("mode", Value::Octal(inode.mode)),
        ("nlink", inode.nlink.into()),
        ("uid", inode.uid.into()),
        ("gid", inode.gid.into()),
        ("size", inode.size.into()),
        ("used", inode.used.into()),
        ("mtime", inode.mtime.into()),
        ("ctime", inode.ctime.into()),
        ("birth", inode.birth.into()),
        ("generation", inode.generation.into()),
    ];
    if inode.parent != ObjectId(0) {
        fields.push(("parent", inode.parent.into()));
        fields.push(("entry", inode.entry.into()));
    }
    match inode.kind {
        FileKind::Directory => {}
        FileKind::Symlink => fields.push(("target", text_of(&inode.target))),
        FileKind::BlockDevice | FileKind::CharDevice => {
            fields.push(("rdev", format!("{}:{}", inode.rdev.0, inode.rdev.1).into()));
        }
        FileKind::File => {
            fields.push(("layout", if inode.layout == Layout::Small { "small" } else { "extents" }.into()));
            fields.push(("record_bytes", inode.record_size().into()));
            fields.extend(inode.cuts.as_deref().into_iter().flat_map(cuts_fields));
            if let Some(reserved) = &inode.reserved {
                fields.push(("reserved", reserved.shown().into()));
                fields.push(("reserved_bytes", inode.reserved_bytes().into()));
            }
        }
        FileKind::Fifo | FileKind::Socket => {}
    }
    fields.extend(inode.create_verifier.map(|verifier| ("create_verifier", Value::Hex(verifier))));
    if !inode.xattrs.is_empty() {
        fields.push(("xattrs", inode.xattrs.count.into()));
        fields.push(("xattr_bytes", inode.xattrs.bytes.into()));
    }
    if !inode.sections.is_empty() {
        fields.push(("sections", sections_words(&inode.sections).into()));
    }
    fields
}

/// Each section that stands behind an inode: its id, and how many bytes it has.
fn sections_words(sections: &[u8]) -> String {
    let mut reader = Reader::new(sections, "inode sections");
    let mut words = Vec::new();
    while let (Ok(id), Ok(length)) = (reader.u16(), reader.u16()) {
        if reader.bytes(length.into()).is_err() {
            break;
        }
        words.push(format!("{id}+{length}"));
    }
    words.join(",")
}

const fn kind_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::BlockDevice => "block-device",
        FileKind::CharDevice => "char-device",
    }
}

fn record_fields(kind: RecordKind, record: &Record) -> Fields {
    let objects: Vec<_> = record.inodes.iter().map(|after| after.object.to_string()).collect();
    let mut fields: Fields = vec![("kind", format!("{kind:?}").into())];
    if !objects.is_empty() {
        fields.push(("objects", objects.join(",").into()));
    }
    // The entry that a name operation is about is the first that has a name.
    let name = record.keys.iter().find(|(key, value)| key.class == Class::DirEntry && value.is_some());
    if let Some((_, name)) = name.and_then(|(_, value)| decode_entry(value.as_ref()?)) {
        fields.push(("name", text_of(&name)));
    }
    let xattr = record.keys.iter().find(|(key, _)| key.class == Class::Xattr && key.b == 0);
    if let Some(first) = xattr.and_then(|(_, value)| First::decode(value.as_ref()?)) {
        fields.push(("name", text_of(&first.name)));
    }
    fields.push(("keys", record.keys.len().into()));
    if let Some((_, size)) = record.truncate {
        fields.push(("truncate", size.into()));
    }
    if let Some((_, range)) = &record.punch {
        fields.push(("punch", format!("{}-{}", range.start, range.end).into()));
    }
    if let Some((_, range)) = &record.reserve {
        fields.push(("reserve", format!("{}-{}", range.start, range.end).into()));
    }
    if let Some(data) = &record.data {
        fields.push(("pieces", data.pieces.len().into()));
        fields.push(("data_bytes", data.pieces.iter().map(|(_, bytes)| bytes.len()).sum::<usize>().into()));
    }
    fields.push(("reply", record.reply.is_some().into()));
    if record.mark.is_some() {
        fields.push(("mark", true.into()));
    }
    fields
}

fn record_parts(record: &Record) -> Vec<(&'static str, Fields)> {
    let mut parts = Vec::new();
    if let Some((key, reply)) = &record.reply {
        let key: String = key.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut fields: Fields = vec![("key", key.into())];
        fields.extend(reply.object.map(|object| ("object", object.id.into())));
        parts.push(("record reply", fields));
    }
    if let Some((mark, reply)) = &record.mark {
        let session: String = mark.session.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut fields: Fields = vec![
            ("session", session.into()),
            ("slot", mark.slot.into()),
            ("sequence", mark.sequence.into()),
            ("operation", mark.operation.into()),
        ];
        fields.extend(reply.object.map(|object| ("object", object.id.into())));
        parts.push(("record mark", fields));
    }
    parts.extend(record.inodes.iter().map(|after| ("record inode", inode_after(after))));
    parts.extend(record.keys.iter().map(|(key, value)| ("record key", key_after(key, value.as_ref()))));
    if let Some((object, size)) = record.truncate {
        parts.push(("record truncate", vec![("object", object.into()), ("size", size.into())]));
    }
    if let Some((object, range)) = &record.punch {
        let range = [("from", range.start.into()), ("to", range.end.into())];
        parts.push(("record punch", [("object", (*object).into())].into_iter().chain(range).collect()));
    }
    if let Some(data) = &record.data {
        parts.extend(data.pieces.iter().map(|(offset, bytes)| {
            let fields =
                vec![("object", data.object.into()), ("offset", (*offset).into()), ("bytes", bytes.len().into())];
            ("record data", fields)
        }));
    }
    parts
}

fn inode_after(after: &InodeAfter) -> Fields {
    let Some(inode) = &after.inode else { return vec![("object", after.object.into()), ("gone", true.into())] };
    let mut fields = inode_fields(after.object, inode);
    fields.push(match after.size {
        SizeRule::Exact => ("size_rule", "exact".into()),
        SizeRule::Keep => ("size_rule", "keep".into()),
        SizeRule::AtLeast(end) => ("size_at_least", end.into()),
    });
    fields
}

/// A key of a record, in the words of the tree where they fit.
fn key_after(key: &Key, value: Option<&Bytes>) -> Fields {
    let mut fields: Fields = vec![("class", format!("{:?}", key.class).into())];
    match value.map(|value| FsWords.entry(key, value)) {
        Some(Ok(words)) => fields.extend(words),
        otherwise => {
            fields.extend([object(key), ("a", key.a.into()), ("b", key.b.into())]);
            fields.push((if otherwise.is_some() { "malformed" } else { "gone" }, true.into()));
        }
    }
    fields
}

#[cfg(test)]
mod tests;
