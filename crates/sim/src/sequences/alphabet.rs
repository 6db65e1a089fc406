//! What sequences are made of: requests that meet each other over a few names, and the sync of a group.
//!
//! Every sequence begins with a file `a` of 6,000 bytes, a directory `d`, and in it a file `b` of 100 bytes. The name `x` is
//! free.

use tally_base::FileTime;
use tally_vfs::{CreateHow, NodeKind, SetAttr, SetTime, Stability};

use crate::op::{Object, Op};

/// Objects by their paths.
pub(super) type Find<'a> = &'a dyn Fn(&str) -> Option<Object>;

/// A step of a sequence.
pub struct Letter {
    /// What reports call it.
    pub name: &'static str,
    pub(super) step: Step,
}

/// What a letter does.
pub(super) enum Step {
    /// A request. `None`: it is about something that is not there.
    Request(fn(Find<'_>) -> Option<Op>),
    /// A group is synced.
    Sync,
}

const fn request(name: &'static str, op: fn(Find<'_>) -> Option<Op>) -> Letter {
    Letter { name, step: Step::Request(op) }
}

/// All of them.
pub static ALPHABET: [Letter; 31] = [
    request("create-x", |find| create(find, "x", CreateHow::Unchecked(mode(0o644)))),
    request("create-x-guarded", |find| create(find, "x", CreateHow::Guarded(mode(0o600)))),
    request("create-x-exclusive", |find| create(find, "x", CreateHow::Exclusive(77))),
    request("create-a-empty", |find| {
        create(find, "a", CreateHow::Unchecked(SetAttr { size: Some(0), ..SetAttr::default() }))
    }),
    request("mkdir-x", |find| Some(Op::Mkdir { dir: find("")?, name: "x" })),
    request("mkdir-d/c", |find| Some(Op::Mkdir { dir: find("d")?, name: "c" })),
    request("symlink-x", |find| Some(Op::Symlink { dir: find("")?, name: "x", length: 20 })),
    request("mknod-x", |find| Some(Op::Mknod { dir: find("")?, name: "x", node: NodeKind::Fifo })),
    request("remove-a", |find| Some(Op::Remove { dir: find("")?, name: "a" })),
    request("remove-x", |find| Some(Op::Remove { dir: find("")?, name: "x" })),
    request("remove-d/b", |find| Some(Op::Remove { dir: find("d")?, name: "b" })),
    request("rmdir-d", |find| Some(Op::Rmdir { dir: find("")?, name: "d" })),
    request("rmdir-x", |find| Some(Op::Rmdir { dir: find("")?, name: "x" })),
    request("rename-a-x", |find| rename(find, ("", "a"), ("", "x"))),
    request("rename-x-a", |find| rename(find, ("", "x"), ("", "a"))),
    request("rename-a-d/b", |find| rename(find, ("", "a"), ("d", "b"))),
    request("rename-d/b-a", |find| rename(find, ("d", "b"), ("", "a"))),
    request("rename-d-x", |find| rename(find, ("", "d"), ("", "x"))),
    request("link-a-x", |find| Some(Op::Link { object: find("a")?, dir: find("")?, name: "x" })),
    request("link-a-d/c", |find| Some(Op::Link { object: find("a")?, dir: find("d")?, name: "c" })),
    request("chmod-a", |find| set(find, "a", mode(0o4711))),
    request("utimes-d", |find| {
        let times = Some(SetTime::Client(FileTime(1_000_000_000)));
        set(find, "d", SetAttr { atime: times, mtime: times, ..SetAttr::default() })
    }),
    request("cut-a", |find| set(find, "a", SetAttr { size: Some(1000), ..SetAttr::default() })),
    request("extend-a", |find| set(find, "a", SetAttr { size: Some(20_000), ..SetAttr::default() })),
    request("write-a-stable", |find| write(find, "a", 0..4096, 3, Stability::FileSync)),
    request("write-a-unstable", |find| write(find, "a", 3000..9000, 9, Stability::Unstable)),
    request("write-a-far", |find| write(find, "a", 100_000..100_040, 15, Stability::DataSync)),
    request("write-x-long", |find| write(find, "x", 0..70_000, 21, Stability::Unstable)),
    request("commit-a", |find| commit(find, "a")),
    request("commit-x", |find| commit(find, "x")),
    Letter { name: "sync", step: Step::Sync },
];

fn create(find: Find<'_>, name: &'static str, how: CreateHow) -> Option<Op> {
    Some(Op::Create { dir: find("")?, name, how })
}

fn rename(find: Find<'_>, from: (&str, &'static str), to: (&str, &'static str)) -> Option<Op> {
    Some(Op::Rename { from_dir: find(from.0)?, from: from.1, to_dir: find(to.0)?, to: to.1 })
}

fn set(find: Find<'_>, path: &str, set: SetAttr) -> Option<Op> {
    Some(Op::SetAttr { object: find(path)?, set })
}

fn write(find: Find<'_>, path: &str, range: std::ops::Range<u64>, fill: u64, stability: Stability) -> Option<Op> {
    let (object, length) = (find(path)?, range.end - range.start);
    Some(Op::Write { object, offset: range.start, length, fill, stability })
}

fn commit(find: Find<'_>, path: &str) -> Option<Op> {
    Some(Op::Commit { object: find(path)?, offset: 0, count: 0 })
}

fn mode(mode: u32) -> SetAttr {
    SetAttr { mode: Some(mode), ..SetAttr::default() }
}
