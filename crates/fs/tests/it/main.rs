//! The file system from outside, over memory disks that can lose their power.
//!
//! One program, as each would link all below it: `cargo test -p tally-fs --test it rot::` runs one file of it. Beside it stand what counts its heap (`memory`), and two that have
//! files of their own (`cells`, `inspect`).

#[path = "../../../sim/src/same.rs"]
#[allow(dead_code, unreachable_pub)]
mod same;
#[path = "../../../sim/src/sound.rs"]
#[allow(dead_code, unreachable_pub)]
mod sound;
mod world;

mod access;
mod ahead;
mod away;
mod brim;
mod bulk;
mod clients;
mod clocks;
mod committed;
mod content;
mod copies;
mod crowd;
mod cursor;
mod cuts;
mod deep;
mod delegations;
mod edges;
mod failing;
mod gathered;
mod going_on;
mod handed_over;
mod hang_limit;
mod held;
mod holes;
mod hung;
mod idle;
mod joining;
mod lies;
mod lifecycle;
mod lives;
mod long_root;
mod loss;
mod lost_order;
mod many;
mod marks;
mod mount_points;
mod names;
mod punching;
mod quota;
mod reserving;
mod rewind;
mod rot;
mod rotten_top;
mod rows;
mod sealed;
mod seams;
mod shared;
mod slope;
mod space;
mod suite;
mod xattrs;
