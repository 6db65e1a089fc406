//! FSSTAT, FSINFO, PATHCONF.

use tally_vfs::{FILE_SIZE_MAX, LINK_MAX, NAME_MAX, WRITE_BYTES_MAX};

use super::Procedure;
use super::request::{Done, Request};
use super::status::Status;
use super::wire::{self, Put};
use crate::entry::Target;
use crate::rpc::RECORD_BYTES_MAX;
use crate::xdr::{Decoder, Encoder, Garbage};

/// Largest READ. Linux clients ask for what FSINFO offers, and cap it at 1 MiB themselves.
pub const READ_BYTES_MAX: u32 = 1 << 20;
const _: () = assert!(RECORD_BYTES_MAX > WRITE_BYTES_MAX as usize + 4096, "a WRITE and its header fit into a record");

/// Transfers that are a multiple of this touch no block of a file twice.
const TRANSFER_MULTIPLE: u32 = 4096;
/// Listings of this size are answered best.
const LISTING_BYTES: u32 = 64 << 10;
/// Hard links, symbolic links, the same PATHCONF everywhere, and times that can be set.
const PROPERTIES: u32 = 0x01 | 0x02 | 0x08 | 0x10;

pub(super) fn fsstat(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    about(request, words, Procedure::FsStat, |target, out| {
        let space = target.vfs.statfs()?;
        out.u64(space.total_bytes).u64(space.free_bytes).u64(space.available_bytes);
        // The last word: for how many seconds this is not expected to change.
        out.u64(space.total_files).u64(space.free_files).u64(space.free_files).u32(0);
        Ok(())
    })
}

pub(super) fn fsinfo(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    about(request, words, Procedure::FsInfo, |_, out| {
        out.u32(READ_BYTES_MAX).u32(READ_BYTES_MAX).u32(TRANSFER_MULTIPLE);
        out.u32(WRITE_BYTES_MAX).u32(WRITE_BYTES_MAX).u32(TRANSFER_MULTIPLE);
        // Times are kept to the nanosecond.
        out.u32(LISTING_BYTES).u64(FILE_SIZE_MAX).u32(0).u32(1).u32(PROPERTIES);
        Ok(())
    })
}

pub(super) fn pathconf(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    about(request, words, Procedure::PathConf, |_, out| {
        let name_max = u32::try_from(NAME_MAX).expect("a small constant");
        let (no_trunc, chown_restricted, case_insensitive, case_preserving) = (true, true, false, true);
        out.u32(LINK_MAX).u32(name_max).bool(no_trunc).bool(chown_restricted);
        out.bool(case_insensitive).bool(case_preserving);
        Ok(())
    })
}

fn about(
    request: &Request<'_>,
    words: &mut Decoder<'_>,
    procedure: Procedure,
    fill: impl FnOnce(&Target, &mut Encoder) -> Result<(), Status>,
) -> Result<Done, Garbage> {
    let handle = wire::handle(words)?;
    let filled = request.target(handle).and_then(|target| {
        let attr = target.vfs.getattr(target.object)?;
        let mut out = Encoder::new();
        out.status(Status::Ok).post_attr(Some(&attr), target.fsid);
        fill(&target, &mut out)?;
        Ok(out)
    });
    Ok(match filled {
        Ok(out) => Done::now(Status::Ok, out),
        Err(status) => Done::failure(procedure, status),
    })
}
