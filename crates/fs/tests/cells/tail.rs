//! The end of the log: a frame that arrived in part, and frames of the past behind the last one.

use tally_base::Txg;
use tally_fs::filer::Filer;
use tally_fs::record::RecordKind;
use tally_intent::FrameHeader;
use tally_vfs::{Cred, Stability, Vfs};

use crate::cuts::PIECE;
use crate::shapes::{Shape, at, pattern};
use crate::story::{Expected, Log, SECTOR, Story, import};
use crate::world::{World, ctx, done, mode, vfs};

/// Of a longer frame so many pieces at each end, and as many between, are looked at one by one.
const PIECES_AT_AN_END: usize = 6;
/// Where a frame's records begin.
const HEADER_BYTES: usize = 136;

/// The operation's frame arrives in part, and nobody was told that it is there.
pub(crate) fn torn(kind: RecordKind, shape: &Shape) -> Result<u64, String> {
    let story = Story::tell(kind, shape, Log::OneLeg);
    let (start, frame) = story.frame("/disks/slog");
    let (header, _) = FrameHeader::decode(&frame).expect("it is a frame");
    let meant = HEADER_BYTES + header.payload_bytes as usize;
    let mut seen = [0, 0];
    for piece in [PIECE, SECTOR] {
        for arrived in tears(frame.len() / piece) {
            let world = story.before.cut();
            let pieces = frame.chunks(piece).zip(&arrived).enumerate().filter(|(_, (_, arrived))| **arrived);
            pieces.for_each(|(index, (bytes, _))| world.poke("/disks/slog", start + (index * piece) as u64, bytes));
            let there = world.content_of("/disks/slog")[start as usize..][..meant] == frame[..meant];
            seen[usize::from(there)] += 1;
            check_tail(&world, &story, there).map_err(|why| format!("{arrived:?} of {piece} bytes: {why}"))?;
        }
    }
    if seen.contains(&0) {
        return Err(format!("{seen:?} tails were gone and there"));
    }
    Ok(seen.iter().sum())
}

/// The record is there as a whole or gone as a whole, and stays so when the log is used again.
fn check_tail(world: &World, story: &Story, there: bool) -> Result<(), String> {
    let (filer, report) = import(world)?;
    if report.records_replayed != 1 + u64::from(there) {
        return Err(format!("{} records were replayed", report.records_replayed));
    }
    let expected = if there { &story.with } else { &story.without };
    expected.check(&filer)?;
    later(&*vfs(&filer));
    let (filer, _) = import(&world.cut())?;
    expected.and(later).check(&filer).map_err(|why| format!("used again: {why}"))
}

/// A change whose frame is one sector, as the bystander's is.
pub(crate) fn later(fs: &dyn Vfs) {
    done(fs.mkdir(ctx(&Cred::root()), fs.root(), b"later", &mode(0o700))).unwrap();
}

/// Which pieces have arrived: the first ones, all but one, only one.
fn tears(count: usize) -> Vec<Vec<bool>> {
    let is_chosen = |index: &usize| {
        let from_end = (*index).min(count - index);
        from_end <= PIECES_AT_AN_END || index.is_multiple_of(count.div_ceil(PIECES_AT_AN_END))
    };
    let chosen: Vec<usize> = (0..=count).filter(is_chosen).collect();
    let mut tears: Vec<Vec<bool>> = chosen.iter().map(|end| (0..count).map(|index| index < *end).collect()).collect();
    for one in chosen.into_iter().filter(|one| *one < count && count > 1) {
        tears.push((0..count).map(|index| index == one).collect());
        tears.push((0..count).map(|index| index != one).collect());
    }
    tears
}

/// Sound frames that are not of now stand right behind the tail.
pub(crate) fn stale(kind: RecordKind, shape: &Shape) -> Result<u64, String> {
    let story = Story::tell(kind, shape, Log::OneLeg);
    stale_epoch(&story).map_err(|why| format!("of the life before: {why}"))?;
    stale_lap(&story).map_err(|why| format!("of the lap before: {why}"))?;
    Ok(2)
}

/// A frame of the life before stands where the next frame of the present life will be, and its operation was never
/// acknowledged.
fn stale_epoch(story: &Story) -> Result<(), String> {
    let (start, frame) = story.frame("/disks/slog");
    let world = story.before.cut();
    let (filer, _) = import(&world)?;
    later(&*vfs(&filer));
    assert_eq!(head(&filer), SECTOR as u64, "the tail is where the frame was in its own life");
    let world = world.cut();
    world.poke("/disks/slog", start, &frame);
    expect_one(&world, &story.without.and(later))
}

/// The operation is in the pool, and the ring has come round to its frame.
fn stale_lap(story: &Story) -> Result<(), String> {
    let (start, frame) = story.frame("/disks/slog");
    let (world, filer) = &story.live;
    let fs = vfs(filer);
    let geometry = filer.pool().lanes()[0].geometry();
    filer.sync().unwrap();
    while geometry.size - head(filer) >= u64::from(geometry.frame_bytes_max) {
        fill(&*fs);
        filer.sync().unwrap();
    }
    later(&*fs);
    assert_eq!(head(filer), geometry.size + SECTOR as u64, "the tail is where the frame was in the lap before");
    let world = world.cut();
    assert!(world.content_of("/disks/slog")[start as usize..].starts_with(&frame), "and the frame is still there");
    let expected = story.going_on.and(|fs| {
        fill(fs);
        later(fs);
    });
    expect_one(&world, &expected)
}

/// A change that takes much of the log.
fn fill(fs: &dyn Vfs) {
    let file = at(fs, "other/nothing");
    done(fs.write(ctx(&Cred::root()), file, 0, pattern(100_000, 5), Stability::FileSync)).unwrap();
}

/// Where the log's next frame belongs.
fn head(filer: &Filer) -> u64 {
    filer.pool().lanes()[0].checkpoint(Txg(u64::MAX)).tail_pos
}

/// Only the newest record is replayed, and nothing is worth a remark.
fn expect_one(world: &World, expected: &Expected) -> Result<(), String> {
    let (filer, report) = import(world)?;
    if report.records_replayed != 1 || !report.remarks.is_empty() {
        return Err(format!("{} records were replayed: {:?}", report.records_replayed, report.remarks));
    }
    expected.check(&filer)
}
