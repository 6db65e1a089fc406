//! `tally pool import` without a name.

use super::words;
use crate::control::report::{Found, FoundPool, RefusedDisk};

/// The pools, one below the other, and below them the disks of which none is made.
pub(super) fn print(Found { pools, refused }: &Found) -> String {
    let pool = |pool: &FoundPool| {
        let mut text = format!("   pool: {}\n     id: {}\n  state: {}\n", pool.name, pool.guid, pool.state);
        for message in &pool.messages {
            text += &format!(" status: {message}\n");
        }
        // Where several have the name, only the guid tells which one.
        let is_only = pools.iter().filter(|other| other.name == pool.name).count() == 1;
        let word = if is_only { &pool.name } else { &pool.guid };
        text += &format!(" action: import it with `{}`\n config:\n\n", pool.import_command(word));
        for path in &pool.paths {
            text += &format!("\t{path}\n");
        }
        text
    };
    // What stands on a disk, and what a file is called, others chose.
    let disk = |RefusedDisk { path, reason }: &RefusedDisk| {
        format!("   disk: {}\n status: {}\n", words::harmless(path), words::harmless(reason))
    };
    pools.iter().map(pool).chain(refused.iter().map(disk)).collect::<Vec<_>>().join("\n")
}
