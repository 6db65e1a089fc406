//! The decision table of recovery (rules F7). S is the last good frame (or the frame before the tail), S+1 the place
//! where the next one belongs, and W the highest `durable_lsn` of any header seen or of the uberblock: every
//! record up to W was durable on every leg of the set, so what is missing there is **loss**, and what is missing
//! above it is a **tail** that nobody was promised. A loss is never taken for a tail (I5).
//!
//! | case | what is on disk | decision | where |
//! |---|---|---|---|
//! | a empty | nothing valid at the tail, nothing in the window, W < tail | empty | [`ending`] |
//! | b torn or unwritten tail | chain valid to S; S+1 invalid or unreadable on every leg; nothing in the window, of which something can be read; W < S+1 | cut at S | [`ending`] |
//! | c reordered | S+1 invalid, later ones valid, W < S+1 | cut at S, drop the others | [`ending`] |
//! | d lost | S+1 invalid on every leg, W ≥ its first LSN | loss; go on behind it | [`ending`] |
//! | e one leg bad | S+1 valid on some leg of the set | take it; if ≤ W, count it as rot of the other leg | [`choose`], scan |
//! | f union | S only on one leg, S+1 only on another | take both | [`choose`] |
//! | g both valid, different | same epoch and position, other bytes | stop: two writers | [`choose`] |
//! | h stale leg | a leg outside the set | repair source for witnessed frames of its generations, never more | scan |
//! | i set absent | no leg of the set | missing | scan |
//! | j stale lap or epoch | position, epoch, pool or lane wrong | as unwritten | leg |
//! | k payload bad | header good | invalid, but its witness counts | [`choose`], [`ending`] |
//! | l chain break | S+1 valid, but it names another S | ≤ W: loss; above: cut, with a remark | [`ending`] |
//! | m tail frame gone | the first live frame invalid, later ones witness it | loss, as d (the usual sign of a rolled-back uberblock) | [`ending`] |
//! | n rolled-back pool | a frame's `synced_txg` is newer than the chosen uberblock, whatever its epoch | the pool refuses; [`max_synced_txg`](super::LaneScan) is the witness | scan |
//! | o failed lane | the continuation is in another lane | merge by dseq, equal duplicates dropped | merge |
//! | p crash in recovery | the old uberblock | the same procedure; cursors skip what was synced | merge |
//! | q two epochs live | a frame of another epoch continues the chain | loss of what is from there on: cannot happen | [`choose`] |
//! | r header damaged in the last, unwitnessed frames of a lane with one leg | looks like b | cut: a stated limit; a mirror or a seal narrows it | [`ending`] |
//! | s seal gone | S+1 invalid, and the next valid frame begins with the very LSN that S+1 would | nothing is missing: go on there, with a remark | [`ending`] |
//! | t misnumbered | a sound header whose number or LSN does not follow from those before it | loss of what is from there on: cannot happen | [`choose`], [`ending`] |
//! | u records malformed | both checksums good, and no records | loss of that frame: cannot happen | scan |
//! | v disowned leg | a leg outside the set has the next frame, of a generation to which it did not belong | loss: the lane went on there without the labels' word | scan |
//! | w unreadable end | nothing of S+1 and the window can be read on any leg of the set, and the pool was not exported | loss of what may be there: a cut tears K frames at most, so it is the disks, which may answer again | [`ending`] |
//!
//! In case s frames without records are in the chain, but no record is lost with them. Nothing but two writers or a
//! defect leads to g, q, t, u and v. They are errors and losses and no panics, because disks can say anything. In g
//! either leg may be the right one, which is for a person to say; in the others there is nothing to choose.

use tally_base::Lsn;

use super::leg::AtPlace;
use crate::frame::FrameHeader;

/// What the next frame must say of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) pos: u64,
    pub(super) seq: u64,
    pub(super) prev: u64,
    pub(super) lsn: Lsn,
}

/// What all legs of the set together say about one place.
#[derive(Clone, Debug)]
pub(super) enum Here {
    /// A frame that continues the chain, on this leg (an index) at least.
    Frame(usize),
    /// A frame or a header that is there, but cannot be taken.
    Damaged(FrameHeader, u64, Damage),
    /// Nothing.
    Absent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    Payload,
    Chain,
}

/// Rows of the table that cannot happen unless two writers had the ring, or the code is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Impossible {
    TwoWriters,
    TwoEpochs,
    Misnumbered,
}

/// Judges one place by what each leg of the set has there.
pub(super) fn choose(probes: &[AtPlace], expected: &Expected) -> Result<Here, Impossible> {
    let mut seen: Option<(FrameHeader, u64)> = None;
    let mut sound = None;
    for (index, probe) in probes.iter().enumerate() {
        let (header, hash) = match probe {
            AtPlace::Sound(header, hash, _) => {
                sound = sound.or(Some(index));
                (*header, *hash)
            }
            AtPlace::PayloadBad(header, hash) => (*header, *hash),
            AtPlace::OtherEpoch(header) if header.prev == expected.prev && header.seq == expected.seq => {
                return Err(Impossible::TwoEpochs);
            }
            AtPlace::OtherEpoch(_) | AtPlace::Absent => continue,
        };
        if seen.is_some_and(|(other, _)| other != header) {
            return Err(Impossible::TwoWriters);
        }
        seen = Some((header, hash));
    }
    let Some((header, hash)) = seen else { return Ok(Here::Absent) };
    // In one epoch each position is written once, so even a frame that breaks the chain has this number.
    if header.seq != expected.seq || header.first_lsn < expected.lsn {
        return Err(Impossible::Misnumbered);
    }
    match sound {
        None => Ok(Here::Damaged(header, hash, Damage::Payload)),
        Some(_) if header.prev != expected.prev => Ok(Here::Damaged(header, hash, Damage::Chain)),
        Some(_) if header.first_lsn != expected.lsn => Err(Impossible::Misnumbered),
        Some(index) => Ok(Here::Frame(index)),
    }
}

/// Everything that is known when no frame can be taken at the expected place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    pub(super) expected: Expected,
    /// A frame or header at the expected place that cannot be taken.
    pub(super) damaged: Option<(FrameHeader, u64)>,
    /// The first sound header behind it.
    pub(super) later: Option<FrameHeader>,
    /// W of the table: every record up to here was durable, somebody has written so.
    pub(super) witness: Lsn,
    /// Whether a frame was taken before.
    pub(super) has_begun: bool,
    /// Nothing of that place and of the window can be read, of a pool that was not exported.
    pub(super) is_unread: bool,
}

/// How the log goes on, or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Nothing was ever live.
    Empty,
    /// A tail ends here.
    Cut,
    /// Nobody knows what is here: the disks do not answer.
    Unread,
    /// Nothing is missing; go on at a later frame.
    Bridge(Expected),
    /// These records were acknowledged and are gone. Go on behind them, if there is anything.
    Lost { first: Lsn, last: Lsn, go_on: Option<Resume> },
}

/// Where to go on after a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resume {
    /// At a frame whose header was seen.
    At(Expected),
    /// Behind a damaged frame, whose place in the chain is known.
    Behind(Expected),
}

/// Rows a to d, k to m, s, and w.
pub(super) fn ending(evidence: &Evidence) -> Result<Ending, Impossible> {
    let first = evidence.expected.lsn;
    let later = evidence.later.map(|header| Expected {
        pos: header.pos,
        seq: header.seq,
        prev: header.prev,
        lsn: header.first_lsn,
    });
    if later.is_some_and(|later| later.lsn < first || later.seq <= evidence.expected.seq) {
        return Err(Impossible::Misnumbered);
    }
    if let (None, Some(later)) = (evidence.damaged, later)
        && later.lsn == first
    {
        return Ok(Ending::Bridge(later));
    }
    if evidence.is_unread {
        return Ok(Ending::Unread);
    }
    if evidence.witness < first {
        let is_empty = !evidence.has_begun && later.is_none() && evidence.damaged.is_none();
        return Ok(if is_empty { Ending::Empty } else { Ending::Cut });
    }
    Ok(match (evidence.damaged, later) {
        (Some((header, hash)), _) => {
            let behind = Expected {
                pos: header.pos + header.frame_bytes(),
                seq: header.seq + 1,
                prev: hash,
                lsn: header.lsn_end(),
            };
            let last = Lsn(header.lsn_end().0.saturating_sub(1)).max(first);
            Ending::Lost { first, last, go_on: Some(Resume::Behind(behind)) }
        }
        (None, Some(later)) => Ending::Lost { first, last: Lsn(later.lsn.0 - 1), go_on: Some(Resume::At(later)) },
        (None, None) => Ending::Lost { first, last: evidence.witness, go_on: None },
    })
}
