//! The lab: what the proofs and measurements of the server stand on that is not the server.
//!
//! `guests` are Linux kernels as processes, with their own clients and servers; `recording` and `slow_disk` are block devices for
//! them, over `nbd`; `image` is a container with a server in it; `smb` is Samba over a mount, under Samba's own suites; `crash_images` turns a recording into what power cuts would have left, and has the server import it.
//! `cargo`, `packages`, `port` and `tally` are what every tool for developers needs: builds, Debian's packages, ports of
//! loopback, and the count of what passed. **Must not know** how anything inside the server works.

pub mod cargo;
pub mod crash_images;
pub mod guests;
pub mod image;
mod nbd;
pub mod packages;
pub mod port;
pub mod recording;
pub mod slow_disk;
pub mod smb;
pub mod tally;
