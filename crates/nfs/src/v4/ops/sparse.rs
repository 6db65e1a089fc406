//! SEEK, IO_ADVISE, ALLOCATE and DEALLOCATE (RFC 7862 §15.11, §15.5, §15.1 and §15.4).

use tally_vfs::{Access, OpCtx, Outcome, Right, Sought};

use super::super::compound::{Compound, Stop};
use super::super::status::Status;
use super::data::{check_file, to_read};
use super::stateid;
use crate::entry::Target;
use crate::xdr::{Decoder, Encoder};

/// Longest bitmap of hints that is read, words.
const HINT_WORDS_MAX: u32 = 64;

/// A hole at its end is every file's; where content is looked for and there is none, that end is told.
pub(in super::super) fn seek(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let (stateid, offset, what) = (stateid(words)?, words.u64()?, words.u32()?);
    let (target, right) = to_read(compound, stateid)?;
    let what = match what {
        0 => Sought::Data,
        1 => Sought::Hole,
        _ => return Err(Status::UnionNotSupp.into()),
    };
    let look = || target.vfs.seek(compound.plain_ctx(&target, right), target.object, offset, what);
    let found = compound.past_the_late(&target, Access::READ, look);
    let found = compound.found(&target, found)?;
    out.bool(found.is_end).u64(found.offset);
    Ok(Status::Ok)
}

/// Who reads is known better by what he reads: no hint is taken, and he is told so.
pub(in super::super) fn advise(
    compound: &Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<(), Status> {
    let (stateid, _offset, _count) = (stateid(words)?, words.u64()?, words.u64()?);
    let hints = words.u32()?;
    if hints > HINT_WORDS_MAX {
        return Err(Status::BadXdr);
    }
    for _ in 0..hints {
        let _hint = words.u32()?;
    }
    to_read(compound, stateid)?;
    out.u32(0);
    Ok(())
}

/// Each WRITE into the range finds room from then on, which is kept in the pool as the answer leaves, and a file that is shorter grows to its end. Refused with NOSPC, DQUOT or FBIG, it
/// changes nothing (RFC 7862 §15.1.3, rules V42).
pub(in super::super) fn allocate(compound: &mut Compound<'_>, words: &mut Decoder<'_>) -> Result<Status, Stop> {
    change_range(compound, words, |target, ctx, (offset, length)| {
        target.vfs.allocate(ctx, target.object, offset, length)
    })
}

/// Nothing is told but that it is done, and that is stable (RFC 7862 §15.4.3).
pub(in super::super) fn deallocate(compound: &mut Compound<'_>, words: &mut Decoder<'_>) -> Result<Status, Stop> {
    change_range(compound, words, |target, ctx, (offset, length)| {
        target.vfs.deallocate(ctx, target.object, offset, length)
    })
}

/// What is done to `offset` and `length` of a file by who may write it.
fn change_range(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    change: impl Fn(&Target, OpCtx<'_>, (u64, u64)) -> Outcome<()>,
) -> Result<Status, Stop> {
    let (stateid, range) = (stateid(words)?, (words.u64()?, words.u64()?));
    let target = compound.to_change(compound.current())?;
    let right = if compound.is_again() { Right::Unopened } else { compound.right(stateid, &target)? };
    check_file(&target, compound.minor())?;
    compound.begin(&target)?;
    if compound.has_written() || compound.remembered(&target).is_none() {
        let ctx = OpCtx { right, ..compound.ctx(&target) };
        let outcome = compound.past_the_late(&target, Access::WRITE, || change(&target, ctx, range));
        compound.changed(outcome)?;
    }
    Ok(Status::Ok)
}
