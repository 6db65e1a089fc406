//! Labels, uberblocks, frames and records: from the golden image, and from a pool that is made here and written to.

use std::sync::Arc;

use bytes::Bytes;
use tally_disk::{Helpers, Host, Platform, SerialFanout};
use tally_fakes::{MemDisk, MemOpener};
use tally_fs::Filer;
use tally_fs::filer::CreateOptions;
use tally_members::grammar::parse_vdev_args;
use tally_members::label;
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, NodeKind, OpCtx, Outcome, ReplyKey, SetAttr, SetXattr, Stability, Vfs};

use super::{Seed, put_blob, trimmed};
use crate::frame::{self, CONTINUES, FIELD_BYTES, HEADER_BYTES};
use crate::golden::{Golden, PartKind};
use crate::image::RECORD;
use crate::world::{Counted, Ticks};

const LABEL: &[u8] = include_bytes!("../../../members/tests/golden/label-v2.bin");
const LABEL_OF_VERSION_1: &[u8] = include_bytes!("../../../members/tests/golden/label-v1.bin");
const RECORD_HEAD_BYTES: usize = 32;
const MIB: u64 = 1 << 20;

pub(super) fn seeds() -> Vec<Seed> {
    let written = written_frames();
    let golden = Golden::open();
    let mut seeds = labels(golden);
    let uberblocks = golden.parts.iter().filter(|part| part.kind == PartKind::Uberblock);
    // Both labels hold the same.
    seeds.extend(uberblocks.step_by(2).zip(0..).map(|(part, number)| {
        Seed::new("uberblock", format!("golden-{number}"), trimmed(&part.content[..4088]).to_vec())
    }));
    let golden_frames = golden.parts.iter().filter(|part| part.kind == PartKind::Frame);
    let frames: Vec<Vec<u8>> = golden_frames.map(|part| part.content.clone()).chain(written).collect();
    seeds.extend(rings(&frames));
    let records: Vec<(u8, Vec<u8>)> = frames.iter().flat_map(|frame| records_of(frame)).collect();
    for (number, (kind, body)) in records.iter().enumerate() {
        seeds.push(Seed::new("record", format!("kind-{kind}-{number}"), [&[*kind], &body[..]].concat()));
    }
    seeds.extend(images(golden, &records));
    seeds
}

fn labels(golden: &Golden) -> Vec<Seed> {
    let slots = golden.parts.iter().filter(|part| part.kind == PartKind::Label);
    let mut seeds = Vec::new();
    for (number, part) in slots.enumerate() {
        seeds.push(Seed::new("label", format!("golden-{number}"), [&[1], &part.content[..]].concat()));
    }
    // With a supplement, missed groups, and a section that nobody knows.
    seeds.push(Seed::new("label", "with-all-sections", [&[0], trimmed(LABEL)].concat()));
    let mut carried = label::decode(LABEL).expect("the golden label is sound");
    carried.config.carried[0].must_be_known = true;
    let slot = label::encode(carried.leg, &carried.config).expect("it is small");
    seeds.push(Seed::new("label", "to-be-read-only", [&[0], trimmed(&slot)].concat()));
    seeds.push(Seed::new("label", "of-version-1", [&[0], trimmed(LABEL_OF_VERSION_1)].concat()).refused());
    seeds.push(Seed::new("label", "of-a-newer-format", [&[0], &slot[..8], &[9], &slot[9..200]].concat()).refused());
    seeds
}

/// Frames one after the other in a ring, with a control byte each.
fn rings(frames: &[Vec<u8>]) -> Vec<Seed> {
    let whole = |head: [u8; 3], controls: &[u8]| {
        let mut bytes = head.to_vec();
        for (frame, control) in frames.iter().filter(|frame| frame.len() < 1000).zip(controls) {
            bytes.push(*control);
            let mut fields = frame[..FIELD_BYTES].to_vec();
            // What was durable must be below the frame's own records, which are numbered anew.
            frame::put(&mut fields, frame::at::DURABLE_LSN, &7_u64.to_le_bytes());
            bytes.extend_from_slice(&fields);
            put_blob(&mut bytes, &frame[HEADER_BYTES..]);
        }
        bytes
    };
    let go_on = [CONTINUES; 6];
    vec![
        Seed::new("frame", "one-leg", whole([0, 0, 0], &go_on)),
        Seed::new("frame", "two-legs", whole([1 | 128, 2, 0], &go_on)),
        Seed::new("frame", "around-the-end", whole([0, 13, 0], &go_on)),
        Seed::new("frame", "each-leg-lacks-one", whole([1, 0, 0], &[1, 1 | 8, 1 | 16, 1])),
        Seed::new("frame", "repaired-by-a-leg-that-left", whole([2 | 31 << 3, 0, 12], &[1, 1 | 8, 1, 1])),
        Seed::new("frame", "lost", whole([0, 0, 12], &[1, 1, 1 | 32, 1, 1])),
        Seed::new("frame", "cut", whole([0, 0, 0], &[1, 1, 1 | 32, 1])),
        Seed::new("frame", "payload-damaged", whole([1, 0, 0], &[1, 1, 1 | 2, 1])),
        Seed::new("frame", "header-damaged", whole([128, 0, 0], &[1, 1, 1 | 4, 1])),
        Seed::new("frame", "of-another-ring", whole([0, 0, 0], &[0, 0])).refused(),
    ]
}

/// The records of a frame: kind and body.
fn records_of(frame: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut records = Vec::new();
    let mut rest = &frame[HEADER_BYTES..];
    while let Some((head, behind)) = rest.split_at_checked(RECORD_HEAD_BYTES) {
        let length = u32::from_le_bytes(*head.first_chunk().expect("four bytes")) as usize;
        records.push((head[4], behind[..length].to_vec()));
        rest = &behind[length.next_multiple_of(8)..];
    }
    records
}

/// A change in a part of each kind, and records behind the log.
fn images(golden: &Golden, records: &[(u8, Vec<u8>)]) -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut add = |name: String, bytes: Vec<u8>, is_believed: bool| {
        for target in ["import", "inspect"] {
            let seed = Seed::new(target, name.clone(), bytes.clone());
            seeds.push(if is_believed { seed } else { seed.refused() });
        }
    };
    for (name, flags) in [("unchanged", 0), ("to-be-read", 16)] {
        add(name.into(), vec![flags], true);
    }
    for (number, part) in golden.parts.iter().enumerate() {
        // The same bytes again: the pool is as it was, but it was sealed anew.
        let offset = part.content.len() / 2;
        let same = &part.content[offset..part.content.len().min(offset + 8)];
        let mut bytes = vec![0];
        put_change(&mut bytes, number as u16, offset as u16, same);
        add(format!("part-{number}"), bytes, true);
    }
    for (number, (kind, body)) in records.iter().filter(|(_, body)| body.len() < 1000).enumerate() {
        let mut bytes = vec![1];
        bytes.extend(RECORD.to_le_bytes());
        bytes.extend([*kind, 0, 0]);
        put_blob(&mut bytes, body);
        add(format!("record-{kind}-{number}"), bytes, true);
    }
    seeds.push(Seed::new("import", "of-format-1", of_format_1(golden, |_| true)).refused());
    seeds.push(Seed::new("import", "a-log-device-of-format-1", of_format_1(golden, |disk| disk == 1)).refused());
    seeds
}

/// Labels of some disks say that a program of the first format wrote them.
fn of_format_1(golden: &Golden, is_old: impl Fn(usize) -> bool) -> Vec<u8> {
    const VERSION_AT: u16 = 8;
    let mut bytes = vec![0];
    let labels = golden.parts.iter().enumerate().filter(|(_, part)| part.kind == PartKind::Label && is_old(part.disk));
    for (number, _) in labels {
        put_change(&mut bytes, number as u16, VERSION_AT, &1_u32.to_le_bytes());
    }
    bytes
}

fn put_change(out: &mut Vec<u8>, part: u16, offset: u16, bytes: &[u8]) {
    out.extend(part.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

/// What a pool's log holds after one operation of each kind.
fn written_frames() -> Vec<Vec<u8>> {
    let opener = Arc::new(MemOpener::default());
    let slog = Arc::new(MemDisk::new(2 * MIB));
    opener.put("/disks/data", Arc::new(MemDisk::new(16 * MIB)));
    opener.put("/disks/slog", Arc::clone(&slog) as _);
    let platform = Platform {
        clock: Arc::new(Ticks::new()),
        rng: Arc::new(Counted::new()),
        opener,
        fanout: Arc::new(SerialFanout),
        helpers: Helpers::Serial,
        host: Host { id: 1, name: "fuzz".into() },
    };
    let tuning = Tuning { cache_bytes: 4 * MIB, ..Tuning::default() };
    let vdevs = ["/disks/data", "log", "/disks/slog"].map(str::to_owned);
    let vdevs = parse_vdev_args(&vdevs).expect("good words");
    let filer = Filer::create(&platform, &tuning, "tank", &vdevs, &CreateOptions::default()).expect("a new pool");
    let fs = filer.by_name("tank").expect("a pool has a root dataset");
    one_of_each(&*fs);
    let content = slog.content();
    let sectors = content.chunks(4096).zip((0..).step_by(4096)).filter(|(sector, _)| sector.starts_with(b"tallyfrm"));
    let frame = |(sector, at): (&[u8], usize)| {
        let length = sector[frame::at::PAYLOAD_BYTES..].first_chunk().expect("four bytes");
        content[at..at + HEADER_BYTES + u32::from_le_bytes(*length) as usize].to_vec()
    };
    sectors.map(frame).collect()
}

fn done<T>(outcome: Outcome<T>) -> T {
    outcome.wait.block().expect("the log works");
    outcome.result.expect("there is room")
}

fn one_of_each(fs: &dyn Vfs) {
    let cred = Cred::root();
    let ctx = OpCtx::of(&cred);
    let asked = OpCtx { reply: Some(ReplyKey([8; 40])), ..OpCtx::of(&cred) };
    let set = SetAttr { mode: Some(0o755), ..SetAttr::default() };
    let root = fs.root();
    let dir = done(fs.mkdir(asked, root, b"dir", &set)).object;
    let file = done(fs.create(ctx, dir, b"file", &CreateHow::Guarded(set.clone()))).object;
    done(fs.symlink(ctx, root, b"soft", b"dir/file", &set));
    done(fs.mknod(ctx, root, b"pipe", NodeKind::Fifo, &set));
    done(fs.link(ctx, file, root, b"hard"));
    done(fs.rename(ctx, root, b"hard", dir, b"moved"));
    done(fs.write(ctx, file, 100, Bytes::from_static(b"some bytes"), Stability::FileSync));
    done(fs.write(ctx, file, 5000, Bytes::from_static(b"late"), Stability::Unstable));
    done(fs.commit(ctx, file, 0, 0));
    done(fs.setattr(ctx, file, &SetAttr { size: Some(50), ..SetAttr::default() }, None));
    done(fs.setattr(ctx, file, &set, None));
    done(fs.set_xattr(ctx, file, b"user.note", b"a value", SetXattr::Either));
    done(fs.remove_xattr(ctx, file, b"user.note"));
    done(fs.remove(ctx, dir, b"moved"));
    done(fs.mkdir(ctx, root, b"gone", &set));
    done(fs.rmdir(ctx, root, b"gone"));
    done(fs.remove(ctx, dir, b"file"));
}
