//! Names of shares: what clients type, and what stands in brackets in smb.conf.

use std::fmt;

use super::share::ShareError;

/// Longest name, characters: what Windows takes.
pub const NAME_CHARS_MAX: usize = 80;

/// Names that mean something else in smb.conf or to clients, as [`ShareName::key`] has them.
const RESERVED: [&str; 9] =
    ["global", "globals", "homes", "printers", "print$", "ipc$", "admin$", "netlogon", "sysvol"];

/// A name that a share can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareName(String);

impl ShareName {
    /// Takes letters and digits of any script, `-`, `_`, `.`, single blanks between them, and a `$` at the end, by which Windows hides a share.
    pub fn new(text: &str) -> Result<Self, ShareError> {
        let name = || text.to_owned();
        let chars = text.chars().count();
        if chars == 0 || chars > NAME_CHARS_MAX {
            return Err(ShareError::NameLength { name: name(), chars });
        }
        let plain = text.strip_suffix('$').unwrap_or(text);
        let is_inner = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.' | ' ');
        if let Some(wrong) = plain.chars().find(|letter| !is_inner(*letter)) {
            return Err(ShareError::NameLetter { name: name(), letter: wrong });
        }
        let begins_well = plain.starts_with(|first: char| first.is_alphanumeric() || first == '_');
        // Samba makes one blank of several, and none of those at the ends.
        if !begins_well || plain.ends_with(' ') || plain.contains("  ") {
            return Err(ShareError::NameForm(name()));
        }
        let it = Self(text.to_owned());
        if RESERVED.contains(&&*it.key()) { Err(ShareError::Reserved(name())) } else { Ok(it) }
    }

    /// The name of a dataset's share that was given none: the dataset's, as ZFS has it.
    pub(super) fn of_dataset(dataset: &str) -> Result<Self, ShareError> {
        Self::new(&joined(dataset))
    }

    /// That of a dataset below the one that has this, by the names between.
    pub(super) fn below(&self, names: &str) -> Result<Self, ShareError> {
        let (plain, hidden) = self.0.strip_suffix('$').map_or((&*self.0, ""), |plain| (plain, "$"));
        Self::new(&format!("{plain}_{}{hidden}", joined(names)))
    }

    /// By which two names are one to Samba, which sees neither case nor blanks.
    #[must_use]
    pub fn key(&self) -> String {
        self.0.chars().filter(|letter| *letter != ' ').flat_map(char::to_lowercase).collect()
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ShareName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What of a dataset's name no share's can have.
fn joined(dataset: &str) -> String {
    dataset.replace(['/', ':'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_list_of_letters_and_nothing_more() {
        for good in ["Docs", "a", "my files", "Öffentlich", "文档", "a-b_c.d", "_x", "secret$", "9", &"x".repeat(80)]
        {
            assert_eq!(ShareName::new(good).map(|name| name.to_string()), Ok(good.to_owned()));
        }
        // Each byte that there is, in each place of a name.
        for byte in 0..=127_u8 {
            let letter = char::from(byte);
            for text in [format!("{letter}Docs"), format!("Do{letter}cs"), format!("Docs{letter}")] {
                let is_good = letter.is_ascii_alphanumeric()
                    || letter == '_'
                    || (matches!(letter, '-' | '.') && !text.starts_with(letter))
                    || (letter == ' ' && text.starts_with("Do "))
                    || (letter == '$' && text.ends_with('$'));
                assert_eq!(ShareName::new(&text).is_ok(), is_good, "{text:?}");
            }
        }
        for wrong in [
            "",
            " ",
            "$",
            "a  b",
            "a\u{a0}b",
            "a\u{2028}b",
            "a\u{7f}",
            "a\u{85}",
            "a\u{301}",
            "a\u{feff}",
            "x$y$",
            &"x".repeat(81),
        ] {
            assert!(ShareName::new(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_samba_calls_so_is_nobodys() {
        for reserved in [
            "global", "GLOBAL", "glo bal", "Globals", "homes", "Printers", "print$", "IPC$", "ADMIN$", "NetLogon",
            "SYSVOL",
        ] {
            assert!(matches!(ShareName::new(reserved), Err(ShareError::Reserved(_))), "{reserved}");
        }
        for other in ["global1", "home", "print", "ipc", "admin"] {
            assert!(ShareName::new(other).is_ok(), "{other}");
        }
    }

    #[test]
    fn two_names_are_one_where_samba_finds_one() {
        let key = |text: &str| ShareName::new(text).unwrap().key();
        assert_eq!((key("My Files"), key("ÖL")), (key("myfiles"), key("öl")));
        assert_ne!(key("Docs"), key("Docs$"));
    }
}
