//! The value of a directory entry, as the tree keeps it under [`Class::DirEntry`](tally_store::key::Class::DirEntry)
//! and log records carry it.
//!
//! ```text
//!   0  object  u64        8  kind  u8        9  name, to the end
//! ```

use bytes::Bytes;
use tally_base::ObjectId;
use tally_base::codec::Reader;
use tally_store::key::KEY_BYTES;
use tally_vfs::FileKind;

use crate::inode::kind_of;

// What an entry is charged is what it takes.
const _: () = assert!(tally_vfs::ENTRY_BYTES == 2 * KEY_BYTES as u64 + 9 + 8);

#[must_use]
pub(crate) fn encode_entry(object: ObjectId, kind: FileKind, name: &[u8]) -> Bytes {
    let mut value = Vec::with_capacity(9 + name.len());
    value.extend_from_slice(&object.0.to_le_bytes());
    value.push(kind as u8);
    value.extend_from_slice(name);
    value.into()
}

/// Its object and its name.
pub(crate) fn decode_entry(value: &Bytes) -> Option<(ObjectId, Bytes)> {
    let mut reader = Reader::new(value, "directory entry");
    let object = ObjectId(reader.u64().ok()?);
    kind_of(reader.u8().ok()?)?;
    Some((object, value.slice(9..)))
}
