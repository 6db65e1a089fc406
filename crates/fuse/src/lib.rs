//! A dataset as a file system of this machine: the kernel's FUSE requests, answered by a [`Vfs`](tally_vfs::Vfs).
//!
//! ```text
//!  program ─ system call ─▶ kernel ─ /dev/fuse ─▶ session: threads that read ─▶ wire: what is asked ─▶ door: the Vfs does it
//!                             ▲                      │                                                   │
//!                             │                      │◀── reply, and what it waits for ──────────────────┘
//!                             │                      ├── nothing to wait for ─────────────▶ answered here
//!                             └──────────────────────┼── a promise ── kept, or broken ───▶ answered by who keeps it; EIO
//!                                                    └── not let in, kept out by others ─▶ parked, and run again (under_way)
//! ```
//!
//! *What is promised* is what NFS promises: whoever has made, renamed or removed a name and has his answer finds it so behind a crash, and so does who has closed a file that he
//! wrote. A program has `sync` instead, but the kernel tells a FUSE server nothing of it. docs/mount.md has the table, docs/design/0085 the reasons.
//!
//! *No thread waits* for a promise: its keeper answers. But for one: where a single request is under way its thread writes the log itself, as that is what it would wait for.
//!
//! *Nodes* are objects' numbers, and the root's is 1. Nothing is remembered of those that the kernel knows: who comes behind this process understands every one.
//!
//! *The kernel has checked* whether the program may (`default_permissions`): it knows its capabilities and all its groups. So whoever asks here was
//! asked already ([`Cred::checked`](tally_vfs::Cred)); what came between the kernel's look and the operation is told apart where that matters (see `door::make`).
//!
//! *Nothing is cached on time*: attributes and names are asked for at each use, as NFS clients change the same files. What is cached of their content is dropped when a file is opened,
//! and when its size or time has changed.
//!
//! *Ranges that programs lock* are in the table where those of clients are (`locked`); whoever is refused one waits without a thread, and is woken by whatever frees it, at whichever door.
//!
//! *Behind this process* another one goes on, by the mount's descriptor and what is kept beside it (`journal`; docs/design/0088).
//!
//! **Deliberately absent:** mount(2), which is for whoever has the right to it; the kernel's write-back cache; whole files that are locked (`flock`), which the kernel keeps among its own programs; and the
//! pool, of which [`Source`] tells what has to be known.

mod door;
mod errno;
mod journal;
mod keeping;
mod locked;
mod opens;
mod session;
mod signals;
mod source;
mod under_way;
pub mod wire;

pub use journal::NotKept;
pub use keeping::Keeping;
pub use session::{Session, Started};
pub use source::{Place, Source};
