//! The structs as they are in memory.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! structs {
    ($($(#[$doc:meta])* $name:ident[$bytes:literal] { $($field:ident: $kind:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        #[allow(missing_docs)] // The header that they are from has these names.
        pub struct $name { $(pub $field: $kind),* }

        const _: () = assert!(size_of::<$name>() == $bytes);
    )*};
}

structs! {
    /// What each request begins with.
    InHeader[40] { len: u32, opcode: u32, unique: u64, node: u64, uid: u32, gid: u32, pid: u32, extension_words: u16, padding: u16 }
    /// What each reply begins with.
    OutHeader[16] { len: u32, error: i32, unique: u64 }
    /// INIT, as far as every kernel sends it.
    InitIn[16] { major: u32, minor: u32, max_readahead: u32, flags: u32 }
    /// What follows from 7.36 on.
    InitMore[48] { flags2: u32, unused: [u32; 11] }
    /// Its answer.
    InitOut[64] {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16, max_write: u32, time_gran: u32, max_pages: u16,
        map_alignment: u16, flags2: u32, unused: [u32; 7],
    }
    Attr[88] {
        ino: u64, size: u64, blocks: u64, atime: i64, mtime: i64, ctime: i64, atime_ns: u32, mtime_ns: u32, ctime_ns: u32, mode: u32, nlink: u32, uid: u32, gid: u32,
        rdev: u32, blksize: u32, flags: u32,
    }
    EntryOut[128] { node: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_ns: u32, attr_valid_ns: u32, attr: Attr }
    AttrOut[104] { attr_valid: u64, attr_valid_ns: u32, padding: u32, attr: Attr }
    OpenOut[16] { fh: u64, open_flags: u32, padding: u32 }
    WriteOut[8] { size: u32, padding: u32 }
    SizeOut[8] { size: u32, padding: u32 }
    SeekOut[8] { offset: u64 }
    StatFsOut[80] {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32, frsize: u32, padding: u32, spare: [u32; 6],
    }
    Dirent[24] { ino: u64, off: u64, namelen: u32, kind: u32 }

    /// SETATTR.
    SetAttrIn[88] {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: i64, mtime: i64, ctime: i64, atime_ns: u32, mtime_ns: u32, ctime_ns: u32, mode: u32,
        unused: u32, uid: u32, gid: u32, unused_too: u32,
    }
    MkNodIn[16] { mode: u32, rdev: u32, umask: u32, padding: u32 }
    MkDirIn[8] { mode: u32, umask: u32 }
    RenameIn[8] { new_dir: u64 }
    Rename2In[16] { new_dir: u64, flags: u32, padding: u32 }
    LinkIn[8] { node: u64 }
    OpenIn[8] { flags: u32, open_flags: u32 }
    CreateIn[16] { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    /// READ, READDIR and READDIRPLUS.
    ReadIn[40] { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    WriteIn[40] { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    FlushIn[24] { fh: u64, unused: u32, padding: u32, lock_owner: u64 }
    ReleaseIn[24] { fh: u64, flags: u32, release_flags: u32, lock_owner: u64 }
    /// GETLK, SETLK and SETLKW: a range from its first to its last byte.
    LkIn[48] { fh: u64, owner: u64, first: u64, last: u64, kind: u32, pid: u32, lk_flags: u32, padding: u32 }
    LkOut[24] { first: u64, last: u64, kind: u32, pid: u32 }
    FSyncIn[16] { fh: u64, flags: u32, padding: u32 }
    SetXattrIn[8] { size: u32, flags: u32 }
    GetXattrIn[8] { size: u32, padding: u32 }
    InterruptIn[8] { unique: u64 }
    AllocateIn[32] { fh: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    SeekIn[24] { fh: u64, offset: u64, whence: u32, padding: u32 }
}
