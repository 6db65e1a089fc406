//! The record types, each in the shapes that an operation can give it.
//!
//! A shape is run on the real file system and on the model: what the model says afterwards is what replay must come to.

use bytes::Bytes;
use tally_base::FileTime;
use tally_fs::record::RecordKind;
use tally_vfs::{
    CreateHow, Cred, NodeKind, ObjectRef, OpCtx, SetAttr, SetTime, SetXattr, Stability, Vfs, XATTR_VALUE_MAX,
};

use crate::world::{ctx, done, mode};

/// One operation that leaves one record.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    /// What happens before without a record.
    pub(crate) late: Late,
    pub(crate) op: fn(&dyn Vfs, OpCtx<'_>),
}

/// Unstable writes before the operation, which no record carries.
pub(crate) enum Late {
    None,
    /// The operation's record does not save them: they are gone with the power.
    Lost(fn(&dyn Vfs)),
    /// The operation's record has them.
    Saved(fn(&dyn Vfs)),
}

impl Late {
    pub(crate) fn write(&self) -> Option<fn(&dyn Vfs)> {
        match self {
            Self::None => None,
            Self::Lost(write) | Self::Saved(write) => Some(*write),
        }
    }
}

/// What every story begins with, in the pool and no longer in the log. Nothing of it needs a transaction group to end.
pub(crate) fn furnish(fs: &dyn Vfs) {
    let root = Cred::root();
    let file = |dir: ObjectRef, name: &[u8], length: usize| {
        let how = CreateHow::Guarded(SetAttr { uid: Some(1000), gid: Some(100), ..mode(0o640) });
        let file = done(fs.create(ctx(&root), dir, name, &how)).unwrap().object;
        if length > 0 {
            done(fs.write(ctx(&root), file, 0, pattern(length, 1), Stability::Unstable)).unwrap();
        }
        file
    };
    let dir = done(fs.mkdir(ctx(&root), fs.root(), b"dir", &mode(0o755))).unwrap().object;
    let other = done(fs.mkdir(ctx(&root), fs.root(), b"other", &mode(0o2775))).unwrap().object;
    done(fs.mkdir(ctx(&root), dir, b"sub", &mode(0o700))).unwrap();
    done(fs.mkdir(ctx(&root), other, b"empty", &mode(0o700))).unwrap();
    file(dir, b"small", SMALL_BYTES);
    file(dir, b"large", LARGE_BYTES);
    file(other, b"large", LARGE_BYTES);
    let twice = file(dir, b"twice", 100);
    done(fs.link(ctx(&root), twice, other, b"again")).unwrap();
    file(other, b"nothing", 0);
    done(fs.symlink(ctx(&root), dir, b"link", b"small", &SetAttr::default())).unwrap();
    // What is moved, removed, or replaced has some as well.
    set_xattr(fs, ctx(&root), "dir/small", "user.short", 20);
    set_xattr(fs, ctx(&root), "dir/small", "user.parts", 40_000);
    for path in ["dir/sub", "other/large", "other"] {
        set_xattr(fs, ctx(&root), path, "user.short", 20);
    }
}

/// Stays under one key of the tree, also with 500 bytes more at its end; 3,000 more take it into blocks.
const SMALL_BYTES: usize = 3000;
/// Three blocks of a file, the last one not full.
const LARGE_BYTES: usize = 300_000;
/// More than a block, and less than what one record takes.
const LONG_WRITE_BYTES: usize = 150_000;

/// Bytes that repeat nowhere near each other.
pub(crate) fn pattern(length: usize, seed: u8) -> Bytes {
    (0..length).map(|at| ((at * 31) ^ (at >> 8)) as u8 ^ seed).collect()
}

/// What has this path.
pub(crate) fn at(fs: &dyn Vfs, path: &str) -> ObjectRef {
    let root = Cred::root();
    path.split('/').fold(fs.root(), |dir, name| fs.lookup(&root, dir, name.as_bytes()).unwrap().0.object)
}

fn size(size: u64) -> SetAttr {
    SetAttr { size: Some(size), ..SetAttr::default() }
}

fn resize(fs: &dyn Vfs, ctx: OpCtx<'_>, path: &str, bytes: u64) {
    done(fs.setattr(ctx, at(fs, path), &size(bytes), None)).unwrap();
}

fn write(fs: &dyn Vfs, ctx: OpCtx<'_>, path: &str, offset: u64, length: usize) {
    done(fs.write(ctx, at(fs, path), offset, pattern(length, 2), Stability::FileSync)).unwrap();
}

fn unstable(fs: &dyn Vfs, path: &str, offset: u64, length: usize) {
    let root = Cred::root();
    done(fs.write(ctx(&root), at(fs, path), offset, pattern(length, 3), Stability::Unstable)).unwrap();
}

fn commit(fs: &dyn Vfs, ctx: OpCtx<'_>, path: &str) {
    done(fs.commit(ctx, at(fs, path), 0, 0)).unwrap();
}

fn punch(fs: &dyn Vfs, ctx: OpCtx<'_>, path: &str, offset: u64, length: u64) {
    done(fs.deallocate(ctx, at(fs, path), offset, length)).unwrap();
}

fn reserve(fs: &dyn Vfs, ctx: OpCtx<'_>, path: &str, offset: u64, length: u64) {
    done(fs.allocate(ctx, at(fs, path), offset, length)).unwrap();
}

fn set_xattr(fs: &dyn Vfs, ctx: OpCtx<'_>, path: &str, name: &str, length: usize) {
    let value = pattern(length, 4);
    done(fs.set_xattr(ctx, at(fs, path), name.as_bytes(), &value, SetXattr::Either)).unwrap();
}

fn remove_xattr(fs: &dyn Vfs, ctx: OpCtx<'_>, path: &str, name: &str) {
    done(fs.remove_xattr(ctx, at(fs, path), name.as_bytes())).unwrap();
}

fn rename(fs: &dyn Vfs, ctx: OpCtx<'_>, from: (&str, &str), to: (&str, &str)) {
    let renamed = fs.rename(ctx, at(fs, from.0), from.1.as_bytes(), at(fs, to.0), to.1.as_bytes());
    done(renamed).unwrap();
}

const fn shape(name: &'static str, op: fn(&dyn Vfs, OpCtx<'_>)) -> Shape {
    Shape { name, late: Late::None, op }
}

/// Every shape of a type. A type that is not here does not compile.
pub(crate) const fn shapes(kind: RecordKind) -> &'static [Shape] {
    match kind {
        RecordKind::Create => CREATE,
        RecordKind::Mkdir => MKDIR,
        RecordKind::Symlink => SYMLINK,
        RecordKind::Mknod => MKNOD,
        RecordKind::Remove => REMOVE,
        RecordKind::Rmdir => RMDIR,
        RecordKind::Rename => RENAME,
        RecordKind::Link => LINK,
        RecordKind::SetAttr => SET_ATTR,
        RecordKind::Truncate => TRUNCATE,
        RecordKind::Write => WRITE,
        RecordKind::CommitData => COMMIT_DATA,
        RecordKind::Punch => PUNCH,
        RecordKind::Reserve => RESERVE,
        RecordKind::SetXattr => SET_XATTR,
        RecordKind::RemoveXattr => REMOVE_XATTR,
    }
}

const CREATE: &[Shape] = &[
    shape("guarded", |fs, ctx| {
        done(fs.create(ctx, at(fs, "dir"), b"new", &CreateHow::Guarded(mode(0o644)))).unwrap();
    }),
    shape("exclusive, with the longest name", |fs, ctx| {
        done(fs.create(ctx, at(fs, "dir"), &[b'n'; 255], &CreateHow::Exclusive(77))).unwrap();
    }),
    shape("unchecked, with a size, in a directory that gives its group", |fs, ctx| {
        done(fs.create(ctx, at(fs, "other"), b"new", &CreateHow::Unchecked(size(200_000)))).unwrap();
    }),
];

const MKDIR: &[Shape] = &[shape("in a directory that gives its group", |fs, ctx| {
    done(fs.mkdir(ctx, at(fs, "other"), b"new", &mode(0o750))).unwrap();
})];

const SYMLINK: &[Shape] = &[
    shape("short", |fs, ctx| {
        done(fs.symlink(ctx, at(fs, "dir"), b"new", b"small", &SetAttr::default())).unwrap();
    }),
    shape("the longest, in a frame of two sectors", |fs, ctx| {
        done(fs.symlink(ctx, at(fs, "dir"), b"new", &[b't'; 4095], &SetAttr::default())).unwrap();
    }),
];

const MKNOD: &[Shape] = &[
    shape("a pipe", |fs, ctx| {
        done(fs.mknod(ctx, at(fs, "dir"), b"new", NodeKind::Fifo, &mode(0o600))).unwrap();
    }),
    shape("a device", |fs, ctx| {
        done(fs.mknod(ctx, at(fs, "dir"), b"new", NodeKind::CharDevice(7, 300_000), &mode(0o600))).unwrap();
    }),
];

const REMOVE: &[Shape] = &[
    shape("the only name of a small file", |fs, ctx| {
        done(fs.remove(ctx, at(fs, "dir"), b"small")).unwrap();
    }),
    shape("the only name of a large file", |fs, ctx| {
        done(fs.remove(ctx, at(fs, "dir"), b"large")).unwrap();
    }),
    shape("one of two names", |fs, ctx| {
        done(fs.remove(ctx, at(fs, "dir"), b"twice")).unwrap();
    }),
    Shape {
        name: "of a file with unstable data",
        late: Late::Lost(|fs| unstable(fs, "dir/small", 2000, 9000)),
        op: |fs, ctx| done(fs.remove(ctx, at(fs, "dir"), b"small")).unwrap(),
    },
];

const RMDIR: &[Shape] = &[shape("empty", |fs, ctx| {
    done(fs.rmdir(ctx, at(fs, "dir"), b"sub")).unwrap();
})];

const RENAME: &[Shape] = &[
    shape("in its directory", |fs, ctx| rename(fs, ctx, ("dir", "small"), ("dir", "moved"))),
    shape("a directory into another one", |fs, ctx| rename(fs, ctx, ("dir", "sub"), ("other", "moved"))),
    shape("a directory over an empty one", |fs, ctx| rename(fs, ctx, ("dir", "sub"), ("other", "empty"))),
    shape("over a large file", |fs, ctx| rename(fs, ctx, ("dir", "small"), ("other", "large"))),
    shape("over one name of two", |fs, ctx| rename(fs, ctx, ("dir", "small"), ("other", "again"))),
];

const LINK: &[Shape] = &[
    shape("a second name", |fs, ctx| {
        done(fs.link(ctx, at(fs, "dir/small"), at(fs, "other"), b"new")).unwrap();
    }),
    shape("a third name", |fs, ctx| {
        done(fs.link(ctx, at(fs, "dir/twice"), at(fs, "dir"), b"new")).unwrap();
    }),
];

const SET_ATTR: &[Shape] = &[
    shape("mode and times of a file", |fs, ctx| {
        let atime = Some(SetTime::Client(FileTime::new(1_000_000_000, 1)));
        let set = SetAttr { atime, mtime: Some(SetTime::Client(FileTime::new(900_000_000, 2))), ..mode(0o4755) };
        done(fs.setattr(ctx, at(fs, "dir/small"), &set, None)).unwrap();
    }),
    shape("owner of a directory", |fs, ctx| {
        let set = SetAttr { uid: Some(7), gid: Some(8), ..SetAttr::default() };
        done(fs.setattr(ctx, at(fs, "dir"), &set, None)).unwrap();
    }),
    shape("owner of a symbolic link", |fs, ctx| {
        let set = SetAttr { uid: Some(7), ..SetAttr::default() };
        done(fs.setattr(ctx, at(fs, "dir/link"), &set, None)).unwrap();
    }),
    // Its inode says a size that the file has only as long as the data is there.
    Shape {
        name: "mode of a file that unstable data has made longer",
        late: Late::Lost(|fs| unstable(fs, "dir/small", 2000, 9000)),
        op: |fs, ctx| done(fs.setattr(ctx, at(fs, "dir/small"), &mode(0o600), None)).unwrap(),
    },
];

const TRUNCATE: &[Shape] = &[
    shape("a small file", |fs, ctx| resize(fs, ctx, "dir/small", 10)),
    shape("a large file within a block", |fs, ctx| resize(fs, ctx, "dir/large", 140_000)),
    shape("to nothing", |fs, ctx| resize(fs, ctx, "dir/large", 0)),
    shape("to a longer file", |fs, ctx| resize(fs, ctx, "dir/small", 700_000)),
    shape("by a CREATE of what is there", |fs, ctx| {
        done(fs.create(ctx, at(fs, "dir"), b"small", &CreateHow::Unchecked(size(0)))).unwrap();
    }),
    Shape {
        name: "a file that unstable data has made longer",
        late: Late::Lost(|fs| unstable(fs, "dir/small", 2900, 9000)),
        op: |fs, ctx| resize(fs, ctx, "dir/small", 2800),
    },
];

const WRITE: &[Shape] = &[
    shape("into a small file", |fs, ctx| write(fs, ctx, "dir/small", 2990, 500)),
    shape("into a small file, which outgrows its key", |fs, ctx| write(fs, ctx, "dir/small", 2990, 3000)),
    shape("the first bytes of a file, of more than a block", |fs, ctx| {
        write(fs, ctx, "other/nothing", 0, LONG_WRITE_BYTES);
    }),
    shape("across blocks of a large file", |fs, ctx| write(fs, ctx, "dir/large", 130_000, 5000)),
    shape("far behind the end", |fs, ctx| write(fs, ctx, "dir/large", 1_000_000, 100)),
    Shape {
        name: "in the middle of unstable data",
        late: Late::Lost(|fs| unstable(fs, "dir/large", 299_000, 9000)),
        op: |fs, ctx| write(fs, ctx, "dir/large", 298_000, 1000),
    },
];

const COMMIT_DATA: &[Shape] = &[
    Shape {
        name: "of a small file",
        late: Late::Saved(|fs| unstable(fs, "dir/small", 2990, 500)),
        op: |fs, ctx| commit(fs, ctx, "dir/small"),
    },
    Shape {
        name: "of a small file, which outgrows its key",
        late: Late::Saved(|fs| unstable(fs, "dir/small", 2990, 3000)),
        op: |fs, ctx| commit(fs, ctx, "dir/small"),
    },
    Shape {
        name: "of several pieces",
        late: Late::Saved(|fs| {
            unstable(fs, "dir/large", 10, 100);
            unstable(fs, "dir/large", 130_000, 5000);
            unstable(fs, "dir/large", 400_000, 300);
            unstable(fs, "dir/large", 130_500, 50);
        }),
        op: |fs, ctx| commit(fs, ctx, "dir/large"),
    },
    Shape {
        name: "of the first bytes of a file, more than a block",
        late: Late::Saved(|fs| unstable(fs, "other/nothing", 0, 100_000)),
        op: |fs, ctx| commit(fs, ctx, "other/nothing"),
    },
];

const RESERVE: &[Shape] = &[
    shape("of a small file", |fs, ctx| reserve(fs, ctx, "dir/small", 0, 100)),
    shape("behind the end of a small file", |fs, ctx| reserve(fs, ctx, "dir/small", 1000, 300_000)),
    shape("over a large file and behind its end", |fs, ctx| reserve(fs, ctx, "dir/large", 100_000, 900_000)),
    Shape {
        name: "above unstable data",
        late: Late::Lost(|fs| unstable(fs, "dir/small", 2000, 9000)),
        op: |fs, ctx| reserve(fs, ctx, "dir/small", 0, 20_000),
    },
];

const PUNCH: &[Shape] = &[
    shape("in a small file", |fs, ctx| punch(fs, ctx, "dir/small", 100, 1000)),
    shape("within a block", |fs, ctx| punch(fs, ctx, "dir/large", 1000, 100)),
    shape("across blocks, one of them whole", |fs, ctx| punch(fs, ctx, "dir/large", 100_000, 170_000)),
    shape("all there is, and far behind it", |fs, ctx| punch(fs, ctx, "dir/large", 0, 1 << 63)),
    Shape {
        // One that goes behind the end that the file had brings that along (`punching`: what_was_committed_is_as_long_as_it_was).
        name: "of unstable data",
        late: Late::Lost(|fs| unstable(fs, "dir/small", 2000, 9000)),
        op: |fs, ctx| punch(fs, ctx, "dir/small", 1000, 1500),
    },
];

const SET_XATTR: &[Shape] = &[
    shape("the first of a file", |fs, ctx| set_xattr(fs, ctx, "dir/large", "user.new", 100)),
    shape("one more of a directory", |fs, ctx| set_xattr(fs, ctx, "other", "user.new", 0)),
    shape("the longest, in place of a short one", |fs, ctx| {
        set_xattr(fs, ctx, "dir/small", "user.short", XATTR_VALUE_MAX);
    }),
    shape("a short one, in place of one of two parts", |fs, ctx| set_xattr(fs, ctx, "dir/small", "user.parts", 7)),
    // Its inode says a size that the file has only as long as the data is there.
    Shape {
        name: "of a file that unstable data has made longer",
        late: Late::Lost(|fs| unstable(fs, "dir/small", 2000, 9000)),
        op: |fs, ctx| set_xattr(fs, ctx, "dir/small", "user.new", 100),
    },
];

const REMOVE_XATTR: &[Shape] = &[
    shape("the only one of a directory", |fs, ctx| remove_xattr(fs, ctx, "other", "user.short")),
    shape("one of two parts", |fs, ctx| remove_xattr(fs, ctx, "dir/small", "user.parts")),
];
