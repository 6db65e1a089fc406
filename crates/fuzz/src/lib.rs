//! What the fuzz targets do with their bytes.
//!
//! The problem: whatever comes from the network or stands on a disk may be anything, and no such bytes may bring a panic,
//! a loop without an end, or more memory than a stated bound. Tests with damaged bytes try what somebody thought of.
//!
//! The idea: one function for each family of bytes that we did not write ourselves just now. It takes any bytes, leads
//! them through the public door of the decoder, and does with what was believed what the server would do. Where a
//! checksum or a MAC guards the bytes it is set right first, because what a checksum keeps out is rot; faulty software
//! and whoever can write to a disk get behind it. `fuzz/` feeds these functions from libFuzzer, with a nightly compiler;
//! the tests of this crate replay the inputs that were kept, with the stable one.
//!
//! Every body checks three things: that nothing panics (libFuzzer ends the process at once, also where the server would
//! have caught it), that the heap stays within [`heap`]'s bound, and what must hold of bytes that were believed: what was
//! read can be written, and reads the same. Its answer is whether they were believed, by which a test sees that the
//! first inputs ([`seeds`]) still get through.

mod attributes;
mod blocks;
mod callback;
mod frame;
mod fuse;
mod golden;
mod heap;
mod house;
mod image;
mod input;
mod label;
mod locking;
mod node;
mod record;
mod rpc;
pub mod seeds;
mod space;
mod state;
mod target;
mod told;
mod uberblock;
mod world;

pub use target::{TARGETS, Target, run};
