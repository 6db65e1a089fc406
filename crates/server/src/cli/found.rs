//! `tally pool import` without a name.

use super::words;
use crate::control::report::{Found, FoundPool, RefusedDisk};

/// The pools, one below the other, and below them the disks of which none is made.
pub(super) fn print(Found { pools, refused }: &Found) -> String {
    // What stands on a disk, and what a file is called, others chose.
    let pool = |pool: &FoundPool| {
        let name = words::harmless(&pool.name);
        let mut text = format!("   pool: {name}\n     id: {}\n  state: {}\n", pool.guid, pool.state);
        for message in &pool.messages {
            text += &format!(" status: {}\n", words::harmless(message));
        }
        // Where several have the name, only the guid tells which one.
        let is_only = pools.iter().filter(|other| other.name == pool.name).count() == 1;
        let word = if is_only { &pool.name } else { &pool.guid };
        text += &format!(" action: import it with `{}`\n config:\n\n", words::harmless(&pool.import_command(word)));
        for path in &pool.paths {
            text += &format!("\t{}\n", words::harmless(path));
        }
        text
    };
    let disk = |RefusedDisk { path, reason }: &RefusedDisk| {
        format!("   disk: {}\n status: {}\n", words::harmless(path), words::harmless(reason))
    };
    pools.iter().map(pool).chain(refused.iter().map(disk)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `create` checks a pool's name, and whoever writes a label with a program of his own does not.
    #[test]
    fn what_a_label_says_is_no_command_for_a_terminal_or_a_shell() {
        let name = "a\u{1b}[2J; x";
        let pool = FoundPool {
            name: name.into(),
            guid: "00ab".into(),
            state: "ONLINE".into(),
            exported: true,
            paths: vec!["/d/\u{7}".into()],
            messages: vec!["It was last in use on \u{1b}c.".into()],
        };
        let text = print(&Found { pools: vec![pool], refused: Vec::new() });
        assert!(text.chars().all(|letter| letter == '\n' || letter == '\t' || !letter.is_control()), "{text:?}");
        assert!(text.contains("import -d /d 'a\\u{1b}[2J; x'`"), "{text}");
    }
}
