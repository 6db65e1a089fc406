//! What every [`Vfs`] must do, as a suite that runs against any of them: the model in memory and the real
//! file system alike. A failed assertion names the case.
//!
//! Each case gets an empty file system of its own, whose root directory belongs to the superuser with mode
//! 0755, and waits for every promise it is given.

mod content;
mod delegating;
mod listing;
mod locking;
mod making;
mod moving;
mod opening;
mod permissions;
mod sparse;
mod world;
mod xattrs;

use std::sync::Arc;

use crate::Vfs;

/// One case: its name and what it does.
type Case = (&'static str, fn(&world::World));

/// Runs every case, each against a file system from `make`.
///
/// # Panics
///
/// Where the file system under test breaks a rule.
pub fn run_all(make: &dyn Fn() -> Arc<dyn Vfs>) {
    let families: [&[Case]; 10] = [
        making::CASES,
        content::CASES,
        listing::CASES,
        moving::CASES,
        opening::CASES,
        delegating::CASES,
        locking::CASES,
        permissions::CASES,
        sparse::CASES,
        xattrs::CASES,
    ];
    for (name, case) in families.into_iter().flatten() {
        println!("vfs suite: {name}");
        case(&world::World::new(make()));
    }
}
