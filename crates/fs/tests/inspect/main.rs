//! What `tally inspect` says of a pool, whole and damaged, and the golden images of each format version.

mod damage;
mod golden;
mod image;
mod kept;
mod labels;
mod places;
#[path = "../world/mod.rs"]
mod world;
