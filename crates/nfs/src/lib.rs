//! ONC RPC, MOUNT and NFSv3 over any [`tally_fs::vfs::Vfs`].

pub mod exports;
