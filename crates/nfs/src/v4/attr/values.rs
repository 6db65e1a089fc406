//! The values, and who is asked for them.

use std::cell::OnceCell;

use bytes::Bytes;
use tally_base::FileTime;
use tally_vfs::{Attr, FILE_SIZE_MAX, FsStat, LINK_MAX, NAME_MAX, WRITE_BYTES_MAX};

use super::super::naming::Kind;
use super::super::pseudo::{Handle, Node, Tree, way_id};
use super::super::status::Status;
use super::set::{AttrSet, OWNER, OWNER_GROUP, RDATTR_ERROR, READABLE, WRITE_ONLY};
use super::settable::{SETTABLE, VALUES_BYTES_MAX};
use crate::numbers::kind_number;
use crate::v3::READ_BYTES_MAX;
use crate::xdr::{Decoder, Encoder};

/// The file system of what stands above the exports.
const ABOVE: (u64, u64) = (0, 1);
/// `NFS4_CHANGE_TYPE_IS_MONOTONIC_INCR` (RFC 7862 §12.2.3): it rises with every change, though not by one, and never falls.
const RISES: u32 = 0;

/// `open_arguments4` (RFC 9754 §3), what an OPEN may ask for: access, and what is denied, of each also both; any delegation, none, none any more, one that keeps times, or one in an open's place; claims, but for those of delegations of
/// before; and all ways to make a file.
const OPEN_ARGUMENTS: [u32; 5] = [0b1110, 0b1111, 0x0030_0038, 0b11_0111, 0b1111];

/// An object whose attributes are told.
pub(in super::super) struct Subject<'a> {
    node: &'a Node,
    attr: Attr,
    tree: &'a Tree<'a>,
    space: OnceCell<FsStat>,
}

impl<'a> Subject<'a> {
    /// The object, and what one look at it gave.
    pub(in super::super) fn new(node: &'a Node, attr: Attr, tree: &'a Tree<'a>) -> Self {
        Self { node, attr, tree, space: OnceCell::new() }
    }

    /// Of its file system; what stands above the exports has no room for anything.
    fn space(&self) -> Result<FsStat, Status> {
        if let Some(space) = self.space.get() {
            return Ok(*space);
        }
        let nothing = FsStat { total_bytes: 0, free_bytes: 0, available_bytes: 0, total_files: 0, free_files: 0 };
        let space = self.node.target().map_or(Ok(nothing), |target| target.vfs.statfs())?;
        Ok(*self.space.get_or_init(|| space))
    }

    fn fsid(&self) -> (u64, u64) {
        self.node.target().map_or(ABOVE, |target| (target.vfs.pool().0, target.vfs.dataset().0))
    }

    /// These, as far as its client's minor version has them.
    fn known(&self, numbers: &[u32]) -> AttrSet {
        AttrSet::of(numbers).known_in(self.tree.minor)
    }

    /// As it is told (RFC 7530 §5.9). What stands above the exports anybody may look at: nobody is asked for who that belongs to.
    fn owner(&self, kind: Kind, id: u32) -> String {
        match self.node.target() {
            Some(_) => self.tree.names.told(kind, id),
            None => id.to_string(),
        }
    }

    /// Where a value that begins these bytes is an owner, and one with that number, what is behind it.
    fn behind_same_owner<'b>(&self, number: u32, values: &'b [u8]) -> Option<&'b [u8]> {
        self.node.target()?;
        let (kind, id) = match number {
            OWNER => (Kind::User, self.attr.uid),
            OWNER_GROUP => (Kind::Group, self.attr.gid),
            _ => return None,
        };
        let words = Bytes::copy_from_slice(values);
        let mut words = Decoder::new(&words, 0);
        let said = words.opaque(VALUES_BYTES_MAX).ok()?;
        if self.tree.names.is(kind, id, said) { values.get(words.position()..) } else { None }
    }

    fn handle(&self) -> Handle {
        self.node.handle()
    }

    /// The id of what it is mounted on, where it is a file system's root (RFC 7530 §5.8.2.23).
    fn mounted_on(&self) -> u64 {
        match self.node.target().filter(|target| target.is_root()) {
            Some(target) => self.tree.mounted_on(target).unwrap_or_else(|| way_id(&*target.pool, target.vfs.dataset())),
            None => self.attr.object.id.0,
        }
    }
}

/// Appends those of the wanted attributes that there are, with which they are.
pub(in super::super) fn encode(wanted: &AttrSet, subject: &Subject<'_>, out: &mut Encoder) -> Result<(), Status> {
    let told = wanted.and(&AttrSet::of(&READABLE));
    told.encode(out);
    let at = out.len();
    out.u32(0);
    encode_values(&told, subject, out)?;
    let bytes = u32::try_from(out.len() - at - 4).expect("attributes are short");
    out.replace_u32(at, bytes);
    Ok(())
}

/// Instead of attributes, why there are none.
pub(in super::super) fn encode_error(status: Status, out: &mut Encoder) {
    AttrSet::of(&[RDATTR_ERROR]).encode(out);
    out.u32(4).u32(status as u32);
}

/// Appends the values alone.
fn encode_values(told: &AttrSet, subject: &Subject<'_>, out: &mut Encoder) -> Result<(), Status> {
    READABLE.into_iter().filter(|number| told.has(*number)).try_for_each(|number| value(number, subject, out))
}

/// Whether these are the values of those attributes: an owner by whom it names, everything else byte by byte.
pub(in super::super) fn are_values(told: &AttrSet, subject: &Subject<'_>, values: &[u8]) -> Result<bool, Status> {
    let mut left = values;
    for number in READABLE.into_iter().filter(|number| told.has(*number)) {
        let mut own = Encoder::new();
        value(number, subject, &mut own)?;
        match left.strip_prefix(&own.into_vec()[..]).or_else(|| subject.behind_same_owner(number, left)) {
            Some(behind) => left = behind,
            None => return Ok(false),
        }
    }
    Ok(left.is_empty())
}

/// One value (RFC 7530 §5.6 and §5.7, RFC 8881 §5.8.1.14, RFC 7862 §12.2, RFC 8276 §8.2).
fn value(number: u32, subject: &Subject<'_>, out: &mut Encoder) -> Result<(), Status> {
    let attr = &subject.attr;
    match number {
        // supported_attrs
        0 => subject.known(&READABLE).or(&subject.known(&WRITE_ONLY)).encode(out),
        // type
        1 => _ = out.u32(kind_number(attr.kind)),
        // fh_expire_type: persistent; rdattr_error: none; aclsupport: none
        2 | 11 | 13 => _ = out.u32(0),
        // change
        3 => _ = out.u64(attr.change.0),
        4 => _ = out.u64(attr.size),
        // link_support, symlink_support, unique_handles, cansettime, case_preserving, chown_restricted, homogeneous, no_trunc
        5 | 6 | 9 | 15 | 17 | 18 | 26 | 34 => _ = out.bool(true),
        // named_attr, case_insensitive
        7 | 16 => _ = out.bool(false),
        8 => {
            let (major, minor) = subject.fsid();
            out.u64(major).u64(minor);
        }
        10 => _ = out.u32(subject.tree.lease.as_secs() as u32),
        19 => _ = out.opaque(&subject.handle()),
        20 => _ = out.u64(attr.object.id.0),
        // files_avail, files_free, files_total
        21 | 22 => _ = out.u64(subject.space()?.free_files),
        23 => _ = out.u64(subject.space()?.total_files),
        27 => _ = out.u64(FILE_SIZE_MAX),
        28 => _ = out.u32(LINK_MAX),
        29 => _ = out.u32(NAME_MAX as u32),
        30 => _ = out.u64(READ_BYTES_MAX.into()),
        31 => _ = out.u64(WRITE_BYTES_MAX.into()),
        33 => _ = out.u32(attr.mode),
        35 => _ = out.u32(attr.nlink),
        OWNER => _ = out.opaque(subject.owner(Kind::User, attr.uid).as_bytes()),
        OWNER_GROUP => _ = out.opaque(subject.owner(Kind::Group, attr.gid).as_bytes()),
        // quota_avail_hard, quota_avail_soft, space_avail
        38 | 39 | 42 => _ = out.u64(subject.space()?.available_bytes),
        // quota_used
        40 => {
            let space = subject.space()?;
            out.u64(space.total_bytes.saturating_sub(space.free_bytes));
        }
        41 => _ = out.u32(attr.rdev.0).u32(attr.rdev.1),
        43 => _ = out.u64(subject.space()?.free_bytes),
        44 => _ = out.u64(subject.space()?.total_bytes),
        45 => _ = out.u64(attr.used),
        47 => time(attr.atime, out),
        // time_delta: to the nanosecond
        51 => _ = out.u64(0).u32(1),
        52 => time(attr.ctime, out),
        53 => time(attr.mtime, out),
        55 => _ = out.u64(subject.mounted_on()),
        // suppattr_exclcreat
        75 => subject.known(&SETTABLE).encode(out),
        // change_attr_type
        79 => _ = out.u32(RISES),
        // xattr_support: of its file system
        82 => _ = out.bool(subject.node.target().is_some()),
        86 => OPEN_ARGUMENTS.iter().for_each(|bits| _ = out.u32(1).u32(*bits)),
        number => unreachable!("attribute {number} is told and has no value"),
    }
    Ok(())
}

/// `nfstime4`.
fn time(time: impl Into<FileTime>, out: &mut Encoder) {
    let time = time.into();
    out.u64(time.seconds().cast_unsigned()).u32(time.subsec_nanos());
}
