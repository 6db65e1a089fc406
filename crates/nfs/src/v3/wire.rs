//! The structures that many procedures share (RFC 1813 §2.5 and §2.6).

use tally_base::{FileTime, Time};
use tally_vfs::{Attr, Change, PreAttr, SetAttr, SetTime};

use super::status::Status;
use crate::handle::HandleBytes;
use crate::numbers::kind_number;
use crate::xdr::{Decoder, Encoder, Garbage};

/// Longest handle that a client may send.
const HANDLE_BYTES_MAX: usize = 64;

/// Size of `fattr3`.
pub(super) const ATTR_BYTES: usize = 84;

/// A file handle: opaque, 64 bytes at most (RFC 1813, `NFS3_FHSIZE`).
pub(super) fn handle<'a>(words: &mut Decoder<'a>) -> Result<&'a [u8], Garbage> {
    words.opaque(HANDLE_BYTES_MAX)
}

/// A directory's handle and a name in it. The name's length is judged by its status, not by its shape.
pub(super) fn handle_and_name<'a>(words: &mut Decoder<'a>) -> Result<(&'a [u8], &'a [u8]), Garbage> {
    Ok((handle(words)?, words.opaque(usize::MAX)?))
}

/// The id that stands for none: who sends it changes no owner, as with the field's servers.
const NO_ID: u32 = u32::MAX;

/// `sattr3`. Nanoseconds beyond a second are garbage.
pub(super) fn settable(words: &mut Decoder<'_>) -> Result<SetAttr, Garbage> {
    fn option<T>(
        words: &mut Decoder<'_>,
        read: impl FnOnce(&mut Decoder<'_>) -> Result<T, Garbage>,
    ) -> Result<Option<T>, Garbage> {
        if words.bool()? { read(words).map(Some) } else { Ok(None) }
    }
    Ok(SetAttr {
        mode: option(words, |words| words.u32())?,
        uid: option(words, |words| words.u32())?.filter(|id| *id != NO_ID),
        gid: option(words, |words| words.u32())?.filter(|id| *id != NO_ID),
        size: option(words, |words| words.u64())?,
        atime: set_time(words)?,
        mtime: set_time(words)?,
    })
}

fn set_time(words: &mut Decoder<'_>) -> Result<Option<SetTime>, Garbage> {
    match words.u32()? {
        0 => Ok(None),
        1 => Ok(Some(SetTime::Server)),
        2 => time(words).map(|time| Some(SetTime::Client(time.into()))),
        _ => Err(Garbage),
    }
}

/// `nfstime3`.
pub(super) fn time(words: &mut Decoder<'_>) -> Result<Time, Garbage> {
    let (seconds, nanoseconds) = (words.u32()?, words.u32()?);
    if nanoseconds < 1_000_000_000 { Ok(Time::new(u64::from(seconds), nanoseconds)) } else { Err(Garbage) }
}

/// What replies are made of.
pub(super) trait Put {
    fn status(&mut self, status: Status) -> &mut Self;
    fn time(&mut self, time: impl Into<FileTime>) -> &mut Self;
    fn attr(&mut self, attr: &Attr, fsid: u64) -> &mut Self;
    fn post_attr(&mut self, attr: Option<&Attr>, fsid: u64) -> &mut Self;
    fn post_handle(&mut self, handle: Option<&HandleBytes>) -> &mut Self;
    fn wcc(&mut self, change: Option<&Change>, fsid: u64) -> &mut Self;
}

impl Put for Encoder {
    fn status(&mut self, status: Status) -> &mut Self {
        self.u32(status as u32)
    }

    /// Seconds are 32 bits wide here, and taken as unsigned: they begin with 1970 and last until 2106, and whatever is beyond is shown as
    /// the nearest that there is.
    fn time(&mut self, time: impl Into<FileTime>) -> &mut Self {
        let time = time.into().clamp(FileTime(0), FileTime::new(u32::MAX.into(), 999_999_999));
        self.u32(time.seconds() as u32).u32(time.subsec_nanos())
    }

    fn attr(&mut self, attr: &Attr, fsid: u64) -> &mut Self {
        self.u32(kind_number(attr.kind)).u32(attr.mode).u32(attr.nlink).u32(attr.uid).u32(attr.gid);
        self.u64(attr.size).u64(attr.used).u32(attr.rdev.0).u32(attr.rdev.1);
        self.u64(fsid).u64(attr.object.id.0);
        self.time(attr.atime).time(attr.mtime).time(attr.ctime)
    }

    fn post_attr(&mut self, attr: Option<&Attr>, fsid: u64) -> &mut Self {
        match attr {
            Some(attr) => self.bool(true).attr(attr, fsid),
            None => self.bool(false),
        }
    }

    fn post_handle(&mut self, handle: Option<&HandleBytes>) -> &mut Self {
        match handle {
            Some(handle) => self.bool(true).opaque(handle),
            None => self.bool(false),
        }
    }

    fn wcc(&mut self, change: Option<&Change>, fsid: u64) -> &mut Self {
        match change.and_then(|change| change.before) {
            Some(PreAttr { size, mtime, ctime, .. }) => self.bool(true).u64(size).time(mtime).time(ctime),
            None => self.bool(false),
        };
        self.post_attr(change.and_then(|change| change.after.as_ref()), fsid)
    }
}
