//! What is done next.

use std::sync::Arc;

use tally_base::FileTime;
use tally_store::properties::{LogBias, SyncMode};
use tally_vfs::{Attributes, CreateHow, FileKind, Identity, NodeKind, SetAttr, SetTime, Stability};

use super::{Checked, State, Trouble, reserve};
use crate::chance::{Chance, Stream};
use crate::op::{NAMES, Object, Op};
use crate::oracle::Limits;

/// Longest write where disks refuse requests: a block that cannot be written ahead of its group goes to the log after
/// all, and the oracle does not guess.
pub(super) const REFUSED_WRITE_MAX: u64 = 60_000;
/// Of a hundredth of the steps, one in so many is a burst.
const BURST_ONE_IN: u64 = 2;
/// Longest write of a burst: some ten of them fill the smallest rings.
const BURST_WRITE_MAX: u64 = 192 << 10;
/// Bytes by which writes of a burst differ.
const BURST_WRITE_STEP: u64 = 4096;
/// Most writes of a burst.
pub(super) const BURST_WRITES_MAX: u64 = 20;

/// Blocks of a row; of files with small ones it writes several at once.
const ROW_BLOCK_MIN: u64 = 32 << 10;
const ROW_BLOCK_MAX: u64 = 128 << 10;
/// Most WRITEs of a row: more than the log takes of a file at once, where rings are small.
const ROW_WRITES_MAX: u64 = 10;

/// What is to be done next.
pub(super) enum Act {
    Op(Op),
    Sync,
    RecordSize(u64),
    SyncMode(usize, SyncMode),
    AnswerAll,
    Look,
    /// Reads, through the protocol.
    Read,
    /// A request is sent again.
    Again,
    /// A client loses its connection, and makes another.
    Reconnect,
    /// A client writes a file over and over, durably.
    Burst,
    /// A dataset is made, renamed or destroyed.
    Dataset,
    /// A quota is set, or taken away.
    Quota,
    /// A disk is attached, detached or replaced.
    Disks,
    /// What the log is used for.
    LogBias(usize, LogBias),
    /// A client writes a file in one row, unstably, with COMMITs in it.
    Row,
    /// Something goes wrong.
    Trouble,
}

impl State {
    pub(super) fn choose(&self) -> Act {
        let mut chance = Chance::of(self.plan.seed, Stream::Act, self.step as u64);
        match chance.below(100) {
            0..8 => Act::Sync,
            8..12 => Act::AnswerAll,
            12..14 => Act::Look,
            14 if self.plan.trouble != Trouble::Refusals => Act::RecordSize(chance.pick(&[4096, 16384, 131_072])),
            15 => {
                let part = self.some_part(&mut chance);
                Act::SyncMode(part, chance.pick(&[SyncMode::Standard, SyncMode::Always, SyncMode::Disabled]))
            }
            16..22 => Act::Again,
            22 => Act::Reconnect,
            23..27 => Act::Read,
            27..33 if self.plan.trouble.strikes_off() => Act::Trouble,
            35..65 if self.plan.trouble == Trouble::Disks => Act::Disks,
            35..43 if self.plan.trouble == Trouble::Full => Act::Disks,
            65 if self.plan.trouble.has_quotas() => Act::Quota,
            66 => {
                let part = self.some_part(&mut chance);
                Act::LogBias(part, chance.pick(&[LogBias::Auto, LogBias::Latency, LogBias::Throughput]))
            }
            67 => Act::Row,
            33 if chance.one_in(BURST_ONE_IN) => Act::Burst,
            34 => Act::Dataset,
            _ => Act::Op(self.choose_op(&mut chance)),
        }
    }

    /// The requests of a row: blocks one after the other, some of them in pieces or once more, with COMMITs between.
    pub(super) fn row(&self, chance: &mut Chance) -> Vec<Op> {
        let part = self.some_part(chance);
        let object = self.object(chance, part, Some(FileKind::File));
        let block = self.row_block(&object);
        let mut offset = chance.below(3) * block;
        let mut ops = Vec::new();
        for _ in 0..1 + chance.below(ROW_WRITES_MAX) {
            let length = chance.pick(&[block, block, 2 * block, block / 2]);
            let stability = if chance.one_in(12) { Stability::FileSync } else { Stability::Unstable };
            let (object, fill) = (Arc::clone(&object), chance.next());
            ops.push(Op::Write { object: Arc::clone(&object), offset, length, fill, stability });
            if chance.one_in(6) {
                // What is not in it stays to be done for the next one.
                let (offset, count) = if chance.one_in(2) { (0, 0) } else { (chance.below(3) * block, block as u32) };
                ops.push(Op::Commit { object: Arc::clone(&object), offset, count });
            }
            if chance.one_in(8) {
                let set = SetAttr { size: Some(offset + chance.below(length + 1)), ..SetAttr::default() };
                ops.push(Op::SetAttr { object, set });
            }
            offset = if chance.one_in(6) { chance.below(2) * block } else { offset + length };
        }
        ops.push(Op::Commit { object, offset: 0, count: 0 });
        ops
    }

    fn row_block(&self, object: &Object) -> u64 {
        let most = if self.plan.trouble == Trouble::Refusals { ROW_BLOCK_MIN } else { ROW_BLOCK_MAX };
        object.record_size.clamp(ROW_BLOCK_MIN, most)
    }

    /// An unstable write into a file, of whole blocks as often as not.
    pub(super) fn write_into(&self, chance: &mut Chance, object: &Object) -> Op {
        let block = self.row_block(object);
        let offset = chance.below(4) * block;
        let length = chance.pick(&[block, 2 * block, 1 + chance.clone().below(block)]);
        Op::Write { object: Arc::clone(object), offset, length, fill: chance.next(), stability: Stability::Unstable }
    }

    /// What the log takes of requests to a part.
    pub(super) fn limits(&self, part: usize) -> Limits {
        self.machine.server().limits(&self.parts[part].name)
    }

    /// What the log takes of this request. All parts of a COMMIT go by its bound together, also where somebody has written
    /// over one of them meanwhile.
    pub(super) fn limits_of(&self, op: &Op) -> Checked<Limits> {
        let (limits, filer) = (self.limits(op.dataset()), &self.machine.server().filer);
        let Op::Commit { object, .. } = op else { return Ok(limits) };
        let Some(fs) = filer.by_name(&self.parts[object.dataset].name) else { return Ok(limits) };
        let real = object.real(&filer.pool().roster.config().handle_key)?;
        Ok(Limits { inline_bytes_max: fs.log_bounds_of_commit(real).request_bytes, ..limits })
    }

    /// One write of a burst: as long as the log takes one.
    pub(super) fn burst_write(&self, chance: &mut Chance, object: &Object) -> Op {
        let most = if self.plan.trouble == Trouble::Refusals { REFUSED_WRITE_MAX } else { BURST_WRITE_MAX };
        // With a lane that has ended the log takes nothing.
        let most = most.min(self.limits(object.dataset).inline_bytes_max).max(BURST_WRITE_STEP);
        let offset = 4096 * chance.below(16);
        let length = most - chance.below(BURST_WRITE_STEP);
        Op::Write { object: Arc::clone(object), offset, length, fill: chance.next(), stability: Stability::FileSync }
    }

    fn is_there(&self, object: &Object) -> bool {
        self.parts[object.dataset].oracle.live.getattr(object.model).is_ok()
    }

    pub(super) fn root(&self, part: usize) -> Object {
        let is_root = |object: &&Object| object.dataset == part && object.model == self.parts[part].oracle.live.root();
        Arc::clone(self.objects.iter().find(is_root).expect("the handle of a root is never lost"))
    }

    pub(super) fn directory(&self, chance: &mut Chance, part: usize) -> Object {
        if chance.one_in(40) {
            return chance.pick(&self.objects);
        }
        let fit: Vec<&Object> = self
            .objects
            .iter()
            .filter(|object| object.kind == FileKind::Directory && object.dataset == part)
            .filter(|object| chance.one_in(10) || self.is_there(object))
            .collect();
        if fit.is_empty() || chance.one_in(3) { self.root(part) } else { Arc::clone(chance.pick(&fit)) }
    }

    pub(super) fn object(&self, chance: &mut Chance, part: usize, kind: Option<FileKind>) -> Object {
        let fit: Vec<&Object> = self
            .objects
            .iter()
            .filter(|object| object.dataset == part && object.model != self.parts[part].oracle.live.root())
            .filter(|object| kind.is_none_or(|kind| object.kind == kind))
            .filter(|object| chance.one_in(15) || self.is_there(object))
            .collect();
        if fit.is_empty() || chance.one_in(60) {
            return chance.pick(&self.objects);
        }
        // A few files get most of it, so that their changes meet.
        if chance.one_in(2) {
            Arc::clone(fit[fit.len() - 1 - chance.below(fit.len().min(3) as u64) as usize])
        } else {
            Arc::clone(chance.pick(&fit))
        }
    }

    pub(super) fn choose_op(&self, chance: &mut Chance) -> Op {
        let name = chance.pick(&NAMES);
        let part = self.some_part(chance);
        if self.plan.reserves() && chance.one_in(reserve::ONE_IN) {
            return self.choose_about_reserved(chance, part);
        }
        match chance.below(100) {
            0..14 => Op::Create { dir: self.directory(chance, part), name, how: create_how(chance) },
            14..20 => Op::Mkdir { dir: self.directory(chance, part), name },
            20..22 => Op::Symlink { dir: self.directory(chance, part), name, length: 1 + chance.below(4000) as usize },
            22..24 => {
                let node = chance.pick(&[NodeKind::Fifo, NodeKind::Socket, NodeKind::CharDevice(3, 4)]);
                Op::Mknod { dir: self.directory(chance, part), name, node }
            }
            24..31 => Op::Remove { dir: self.directory(chance, part), name },
            31..34 => Op::Rmdir { dir: self.directory(chance, part), name },
            34..44 => {
                let other = if chance.one_in(15) { self.some_part(chance) } else { part };
                let (from_dir, to_dir) = (self.directory(chance, part), self.directory(chance, other));
                Op::Rename { from_dir, from: name, to_dir, to: chance.pick(&NAMES) }
            }
            44..50 => {
                let kind = if chance.one_in(4) { None } else { Some(FileKind::File) };
                Op::Link { object: self.object(chance, part, kind), dir: self.directory(chance, part), name }
            }
            // Ordinary users find something to do where everybody may write.
            50 => {
                let object = self.directory(chance, part);
                Op::SetAttr { object, set: super::users::opened(chance) }
            }
            51..54 => Op::SetAttr { object: self.object(chance, part, None), set: attributes(chance) },
            54..62 => {
                let object = self.object(chance, part, Some(FileKind::File));
                let size = Some(self.place(chance, &object));
                Op::SetAttr { object, set: SetAttr { size, ..SetAttr::default() } }
            }
            62..90 => {
                let object = self.object(chance, part, Some(FileKind::File));
                let stability =
                    chance.pick(&[Stability::Unstable, Stability::Unstable, Stability::FileSync, Stability::DataSync]);
                let (offset, mut length) = (self.place(chance, &object), length(chance));
                if self.plan.trouble == Trouble::Refusals {
                    length %= REFUSED_WRITE_MAX;
                }
                Op::Write { object, offset, length, fill: chance.next(), stability }
            }
            _ => {
                let object = self.object(chance, part, Some(FileKind::File));
                if chance.one_in(2) {
                    return Op::Commit { object, offset: 0, count: 0 };
                }
                let offset = self.place(chance, &object);
                Op::Commit { object, offset, count: length(chance) as u32 }
            }
        }
    }

    /// An offset that is likely to matter.
    pub(super) fn place(&self, chance: &mut Chance, object: &Object) -> u64 {
        let size = self.parts[object.dataset].oracle.live.getattr(object.model).map_or(0, |attr| attr.size);
        match chance.below(8) {
            0 | 1 => 0,
            2 => size,
            3 => chance.below(size + 1),
            4 => chance.below(size + 1) / 4096 * 4096,
            5 => chance.below(8) * 131_072,
            6 => chance.below(40_000),
            _ => chance.below(700_000),
        }
    }
}

fn create_how(chance: &mut Chance) -> CreateHow {
    let set = SetAttr {
        mode: Some(chance.pick(&[0o600, 0o644, 0o755])),
        size: if chance.one_in(3) { Some(chance.pick(&[0, 0, 1, 5000, 200_000])) } else { None },
        ..SetAttr::default()
    };
    match chance.below(4) {
        0 => CreateHow::Exclusive(chance.below(3)),
        1 => CreateHow::Guarded(set),
        _ => CreateHow::Unchecked(set),
    }
}

fn attributes(chance: &mut Chance) -> SetAttr {
    match chance.below(4) {
        0 => SetAttr::default(),
        1 => SetAttr { mode: Some(chance.below(0o1000) as u32), ..SetAttr::default() },
        2 => SetAttr { uid: Some(chance.below(5) as u32), gid: Some(chance.below(5) as u32), ..SetAttr::default() },
        _ => SetAttr { mtime: Some(SetTime::Client(FileTime(chance.below(1000).cast_signed()))), ..SetAttr::default() },
    }
}

fn length(chance: &mut Chance) -> u64 {
    match chance.below(10) {
        0 | 1 => 1 + chance.below(100),
        2 | 3 => 1 + chance.below(6000),
        4 | 5 => 4096 * (1 + chance.below(8)),
        6 => 131_072 * (1 + chance.below(2)),
        7 => chance.pick(&[4096, 16_384]) - 8 + chance.below(16),
        8 => chance.below(40_000),
        _ => 1 + chance.below(300 << 10),
    }
}
