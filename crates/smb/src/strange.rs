//! What a program of root's looks for before Samba reads a text: lines that [`super::conf::text`] does not write.
//!
//! Samba runs programs as root for who may write `root preexec` into its configuration. The daemon has fewer rights than that, and so a word of its that is not in the list is taken for nobody's. It is a second look at the same lines, by
//! a list of keys of its own; what names and paths may be is judged by the code that writes them.

use std::path::Path;

use super::conf::is_writable;
use super::name::ShareName;

/// Whether a value is one of ours.
type IsGood = fn(&str) -> bool;

/// What a share may have, and with what.
const KEYS: [(&str, IsGood); 22] = [
    ("comment", is_plain),
    ("path", is_path),
    ("available", is_plain),
    ("read only", is_plain),
    ("guest ok", is_plain),
    ("valid users", is_plain),
    ("strict sync", is_plain),
    ("sync always", is_plain),
    ("kernel oplocks", is_plain),
    ("kernel share modes", is_plain),
    ("ea support", is_plain),
    ("store dos attributes", is_plain),
    ("vfs objects", is_modules),
    ("fruit:metadata", is_plain),
    ("fruit:resource", is_plain),
    ("fruit:time machine", is_plain),
    ("fruit:time machine max size", is_plain),
    ("oplocks", is_plain),
    ("level2 oplocks", is_plain),
    ("durable handles", is_plain),
    ("posix locking", is_plain),
    ("kernel change notify", is_plain),
];

/// The first line that is not one of ours, by its number, if there is one.
#[must_use]
pub fn strange_line(text: &str) -> Option<(usize, &str)> {
    // Of none yet, of a share, and of all: there nothing is set.
    enum In {
        Nothing,
        Share,
        Global,
    }
    let mut within = In::Nothing;
    for (line, number) in text.split('\n').zip(1..) {
        // Samba joins a line that ends in a backslash with the next, and goes by other ends of lines, too.
        if line.chars().any(|letter| letter == '\\' || letter.is_control() && letter != '\t') {
            return Some((number, line));
        }
        let is_ours = match (line.strip_prefix('['), line.strip_prefix('\t'), &within) {
            _ if line.is_empty() || line.starts_with('#') => true,
            (Some("global]"), ..) => {
                within = In::Global;
                true
            }
            (Some(name), ..) => {
                within = In::Share;
                name.strip_suffix(']').is_some_and(|name| ShareName::new(name).is_ok())
            }
            (None, Some(set), In::Share) => is_known(set),
            _ => false,
        };
        if !is_ours {
            return Some((number, line));
        }
    }
    None
}

fn is_known(set: &str) -> bool {
    let Some((key, value)) = set.split_once(" = ") else { return false };
    KEYS.iter().any(|(known, is_good)| *known == key && is_good(value))
}

/// Neither other words for a `%`, nor what begins or ends something.
fn is_plain(value: &str) -> bool {
    value.chars().all(|letter| letter.is_alphanumeric() || "-_.:/@ ".contains(letter))
}

fn is_path(value: &str) -> bool {
    is_writable(Path::new(value))
}

fn is_modules(value: &str) -> bool {
    ["catia fruit streams_xattr", "streams_xattr"].contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_written_is_found() {
        let share = "# by tally\n\n[Docs]\n\tpath = /srv/docs\n\tguest ok = no\n";
        assert_eq!(strange_line(share), None);
        assert_eq!(strange_line(&format!("{share}\n[global]\n")), None);
        for (strange, line) in [
            ("\troot preexec = /tmp/x", 6),
            ("\tpreexec = x", 6),
            ("\tpath = /srv/%U", 6),
            ("\tpath = docs", 6),
            ("\tcomment = %(x)", 6),
            ("\tvfs objects = /tmp/x", 6),
            ("\tvfs objects = streams_xattr full_audit", 6),
            ("\tguest ok = yes\\\n\tx = y", 6),
            ("# a\\\nroot preexec = x", 6),
            ("\tguest ok = no\r\troot preexec = x", 6),
            ("guest ok = no", 6),
            ("\tguest ok=no", 6),
            ("  root preexec = x", 6),
            ("; \\\nx", 6),
            ("[homes]", 6),
            ("[Do]cs]", 6),
            ("[Docs", 6),
            ("\n[global]\n\tguest ok = yes", 8),
            ("include = /tmp/x", 6),
        ] {
            let text = format!("{share}{strange}\n");
            assert_eq!(strange_line(&text).map(|(number, _)| number), Some(line), "{strange}");
        }
        assert_eq!(strange_line("\tguest ok = no\n"), Some((1, "\tguest ok = no")), "it is of whatever stands before");
    }
}
