//! `tally pool import` without a name.

use crate::control::report::FoundPool;

/// The pools, one below the other.
pub(super) fn print(pools: &[FoundPool]) -> String {
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
    pools.iter().map(pool).collect::<Vec<_>>().join("\n")
}
