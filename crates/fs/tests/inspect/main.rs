//! What `tally inspect` says of a pool, whole and damaged, and the golden images of each format version.

mod damage;
mod golden;
mod image;
mod labels;
mod places;
