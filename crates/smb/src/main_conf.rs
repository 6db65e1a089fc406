//! What an administrator's own smb.conf says of ours: whether it includes it, and which shares it has.

use std::path::Path;

/// Whether it has the line that includes this file.
#[must_use]
pub fn includes(smb_conf: &str, file: &Path) -> bool {
    let is_it = |line: &str| {
        let (word, value) = line.split_once('=')?;
        let value = value.trim().trim_matches('"');
        Some(word.trim().eq_ignore_ascii_case("include") && Path::new(value) == file)
    };
    lines(smb_conf).any(|line| is_it(line) == Some(true))
}

/// Whether it has a share of its own with a name that is one to Samba ([`super::ShareName::key`]).
#[must_use]
pub fn has_share(smb_conf: &str, key: &str) -> bool {
    let name = |line: &str| {
        let name = line.strip_prefix('[')?.split_once(']')?.0;
        Some(name.chars().filter(|letter| !letter.is_whitespace()).flat_map(char::to_lowercase).collect::<String>())
    };
    lines(smb_conf).any(|line| name(line).as_deref() == Some(key))
}

/// Its lines, but for those that are said to be none.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found_however_it_is_written() {
        let file = Path::new("/run/tally/smb.conf");
        for there in [
            "[global]\n  workgroup = A\n  include = /run/tally/smb.conf\n",
            "INCLUDE=/run/tally/smb.conf",
            "\tinclude\t=\t\"/run/tally/smb.conf\"\r\n",
            "include = /etc/samba/other.conf\ninclude = /run/tally/smb.conf",
        ] {
            assert!(includes(there, file), "{there}");
        }
        for missing in [
            "",
            "# include = /run/tally/smb.conf",
            "  ; include = /run/tally/smb.conf",
            "include = /run/tally/smb.conf.new",
            "included = /run/tally/smb.conf",
            "include /run/tally/smb.conf",
        ] {
            assert!(!includes(missing, file), "{missing}");
        }
    }

    #[test]
    fn a_share_of_somebody_else_is_found_as_samba_finds_it() {
        let text = "[global]\n[ My Files ]\n;[Docs]\npath = [x]\n";
        assert!(has_share(text, "myfiles") && has_share(text, "global"));
        assert!(!has_share(text, "docs") && !has_share(text, "x"));
    }
}
