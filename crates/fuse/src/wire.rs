//! What the kernel and a FUSE server say to each other (`linux/fuse.h`), version 7.
//!
//! ```text
//!  request:  0 ┌──────────────┬──────────────┬─────────────────────────────┐  every number in the order of this machine
//!              │ length u32   │ opcode u32   │ unique u64                  │
//!           16 ├──────────────┴──────────────┼──────────────┬──────────────┤
//!              │ node u64                    │ uid u32      │ gid u32      │
//!           32 ├──────────────┬──────┬───────┼──────────────┴──────────────┤
//!              │ pid u32      │ ext. │ –     │ the operation's struct, names with their NUL, data …
//!              └──────────────┴──────┴───────┴─────────────────────────────┘
//!  reply:    0 ┌──────────────┬──────────────┬─────────────────────────────┬──
//!              │ length u32   │ -errno i32   │ unique u64                  │ the operation's struct, data …
//!              └──────────────┴──────────────┴─────────────────────────────┴──
//! ```
//!
//! The structs are fixed, and read and written by `zerocopy`, which checks lengths and wants no `unsafe` of ours. [`decode`] is pure: bytes in, a request that borrows from
//! them or the errno that answers them. A kernel is believed more than a network, but what it hands on are a program's words, and a descriptor may be anybody's; so nothing here
//! panics, and what is too short, too long or without its NUL is `EINVAL`.

pub mod raw;
mod reply;
mod request;

pub use raw::{InitIn, LkIn, LkOut, SetAttrIn};
pub use reply::{Listing, Plus};
pub use reply::{Reply, ask_again, attr, entry, init, opened, space};
pub use request::{Header, Op, Request, decode, header};

/// What the version is that this speaks. A kernel with another major one is refused.
pub const MAJOR: u32 = 7;
/// The newest minor version that this knows. Replies have its form where the kernel's is as new.
pub const MINOR: u32 = 40;
/// The oldest one that is spoken: Linux 5.4. Older ones have replies of other lengths.
pub const MINOR_MIN: u32 = 31;

/// The node of the root.
pub const ROOT: u64 = 1;
/// Of a request's number: it was read before, by whoever did not answer it.
pub const RESENT: u64 = 1 << 63;
/// What may stand before the data of a WRITE; the kernel wants no less.
pub const HEAD_BYTES_MAX: usize = 4096;

/// Bits of INIT.
pub mod can {
    /// Several reads of one file at a time.
    pub const ASYNC_READ: u32 = 1 << 0;
    /// Ranges that programs lock are asked for here, and not kept by the kernel. Whole files (`flock`) it keeps: Linux takes the two for different locks.
    pub const POSIX_LOCKS: u32 = 1 << 1;
    /// `open` with `O_TRUNC` is one request.
    pub const ATOMIC_O_TRUNC: u32 = 1 << 3;
    /// `.` and `..` can be looked up, for who has a node's number alone.
    pub const EXPORT_SUPPORT: u32 = 1 << 4;
    /// A write may be longer than a page.
    pub const BIG_WRITES: u32 = 1 << 5;
    /// What is cached is dropped when a file's size or time has changed.
    pub const AUTO_INVAL_DATA: u32 = 1 << 12;
    /// Listings may come with attributes.
    pub const DO_READDIRPLUS: u32 = 1 << 13;
    /// The kernel chooses.
    pub const READDIRPLUS_AUTO: u32 = 1 << 14;
    /// Lookups and listings of one directory go beside each other.
    pub const PARALLEL_DIROPS: u32 = 1 << 18;
    /// `max_pages` of the reply counts.
    pub const MAX_PAGES: u32 = 1 << 22;
    /// The server takes set-id bits away, and is told when.
    pub const HANDLE_KILLPRIV_V2: u32 = 1 << 28;
    /// More bits follow.
    pub const INIT_EXT: u32 = 1 << 30;
    /// Of those: what was read and not answered can be asked for again (Linux 6.9).
    pub const HAS_RESEND: u32 = 1 << 7;
}

#[cfg(test)]
mod tests;
