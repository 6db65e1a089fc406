//! The grammar of the property `sharesmb`: `off`, `on`, or options between commas.
//!
//! ```text
//! off                                           no share
//! on                                            one by the dataset's name, tank_home of tank/home
//! name=Docs,users=@staff:ann                    by this name, for these users and groups of Samba's
//! guest=yes,macos=off,exclusive=off             see docs/smb.md
//! timemachine=500G                              for backups of Macs
//! ```

use std::fmt;

use tally_base::Size;

use super::name::{NAME_CHARS_MAX, ShareName};

/// Most users and groups of one share: what is longer is a group.
const USERS_MAX: usize = 64;
/// Longest name of one: what Linux takes.
const USER_BYTES_MAX: usize = 64;
/// Least room for backups of Macs: less is a unit that was forgotten.
const TIME_MACHINE_BYTES_MIN: u64 = 1 << 30;

/// Why a `sharesmb` value was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// Not an option we know.
    #[error(
        "sharesmb: `{0}` is no option; known are name=NAME, guest=yes|no, users=USER:@GROUP, macos=on|off, timemachine=SIZE and \
         exclusive=on|off, with commas between, or the words on and off alone"
    )]
    Option(String),
    /// An option twice.
    #[error("sharesmb: `{0}` stands twice; keep one of them")]
    Twice(String),
    /// A value that its option does not have.
    #[error("sharesmb: {option} is {expected}, and not `{value}`")]
    Value {
        /// Which option.
        option: &'static str,
        /// As it was given.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
    /// A name of no length, or too long.
    #[error(
        "sharesmb: a share's name has from 1 to {NAME_CHARS_MAX} letters, and '{name}' has {chars}; write name=NAME with a shorter one"
    )]
    NameLength {
        /// The name.
        name: String,
        /// Its length.
        chars: usize,
    },
    /// A name with a letter that smb.conf or a client would take for something else.
    #[error(
        "sharesmb: no share can be called {name:?}, as {letter:?} means something to smb.conf or to clients; write name=NAME with letters, digits, \
         blanks, - _ . and a $ at the end"
    )]
    NameLetter {
        /// The name.
        name: String,
        /// The letter.
        letter: char,
    },
    /// A name whose ends or blanks would be changed.
    #[error(
        "sharesmb: no share can be called {0:?}: begin with a letter, a digit or _, and write one blank at a time, none at the ends"
    )]
    NameForm(String),
    /// A name that is taken for ever.
    #[error("sharesmb: '{0}' is a name that Samba or Windows has for itself; write name=NAME with another one")]
    Reserved(String),
    /// No user's or group's name.
    #[error(
        "sharesmb: {0:?} is no user or group: write users=ann:@staff, with letters, digits, - _ . and @ in a name and an @ before a group; \
         who has another name can be in a group that has none"
    )]
    User(String),
    /// A list that should be a group.
    #[error("sharesmb: users= has more than {USERS_MAX} names; make a group of them, and write users=@GROUP")]
    TooManyUsers,
    /// Everybody, and only some.
    #[error("sharesmb: guest=yes lets in everybody, and users= only some; keep one of them")]
    GuestAndUsers,
    /// A backup of a Mac without what Macs need.
    #[error("sharesmb: timemachine= is for Macs, and macos=off leaves out what they need; keep one of them")]
    TimeMachineWithoutMacs,
    /// A backup of a Mac that others may write to.
    #[error(
        "sharesmb: timemachine= needs the dataset for itself, as Macs keep files open over a broken connection, and exclusive=off says that others use it; \
         keep one of them, or make a dataset for the backups"
    )]
    TimeMachineShared,
}

/// What a share is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    name: Option<ShareName>,
    /// Whether everybody is let in, without a password.
    pub(super) guest: bool,
    /// Who is let in; nobody is named: who has a password.
    pub(super) users: Vec<String>,
    /// Whether Macs find what they expect.
    pub(super) macos: bool,
    /// Bytes for backups of Macs.
    pub(super) time_machine: Option<u64>,
    /// Whether nobody else uses the dataset, where somebody has said so.
    pub(super) exclusive: Option<bool>,
}

impl Default for Share {
    fn default() -> Self {
        Self { name: None, guest: false, users: Vec::new(), macos: true, time_machine: None, exclusive: None }
    }
}

/// Parses a value; `None` is `off`.
pub fn parse_sharesmb(value: &str) -> Result<Option<Share>, ShareError> {
    match value.trim() {
        "off" => return Ok(None),
        "on" => return Ok(Some(Share::default())),
        _ => {}
    }
    let (mut share, mut seen) = (Share::default(), Vec::new());
    for word in value.trim().split(',') {
        let (option, value) = word.split_once('=').ok_or_else(|| ShareError::Option(word.to_owned()))?;
        if seen.contains(&option) {
            return Err(ShareError::Twice(option.to_owned()));
        }
        seen.push(option);
        match option {
            "name" => share.name = Some(ShareName::new(value)?),
            "guest" => share.guest = switch("guest", value, "yes or no")?,
            "users" => share.users = users(value)?,
            "macos" => share.macos = switch("macos", value, "on or off")?,
            "timemachine" => share.time_machine = Some(time_machine(value)?),
            "exclusive" => share.exclusive = Some(switch("exclusive", value, "on or off")?),
            _ => return Err(ShareError::Option(word.to_owned())),
        }
    }
    share.check().map(|()| Some(share))
}

impl Share {
    /// What cannot be said together.
    fn check(&self) -> Result<(), ShareError> {
        if self.guest && !self.users.is_empty() {
            return Err(ShareError::GuestAndUsers);
        }
        match self.time_machine {
            Some(_) if !self.macos => Err(ShareError::TimeMachineWithoutMacs),
            Some(_) if self.exclusive == Some(false) => Err(ShareError::TimeMachineShared),
            _ => Ok(()),
        }
    }

    /// The name of the share of `dataset`, for which a value holds that was set on `set_on`: it or one above it.
    pub fn name_of(&self, dataset: &str, set_on: &str) -> Result<ShareName, ShareError> {
        let below = dataset.strip_prefix(set_on).and_then(|rest| rest.strip_prefix('/'));
        match (&self.name, below) {
            (None, _) => ShareName::of_dataset(dataset),
            (Some(name), None) => Ok(name.clone()),
            (Some(name), Some(below)) => name.below(below),
        }
    }

    /// Whether it takes backups of Macs.
    #[must_use]
    pub const fn is_for_time_machine(&self) -> bool {
        self.time_machine.is_some()
    }
}

/// As it is kept: each option once, in one order, and none that says what holds anyway.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        words.extend(self.name.as_ref().map(|name| format!("name={name}")));
        words.extend(self.guest.then(|| "guest=yes".to_owned()));
        if !self.users.is_empty() {
            words.push(format!("users={}", self.users.join(":")));
        }
        words.extend((!self.macos).then(|| "macos=off".to_owned()));
        words.extend(self.time_machine.map(|bytes| format!("timemachine={}", exact(bytes))));
        words.extend(self.exclusive.map(|is_it| format!("exclusive={}", if is_it { "on" } else { "off" })));
        if words.is_empty() { f.pad("on") } else { f.pad(&words.join(",")) }
    }
}

/// Of a size, what is read as the same one.
fn exact(bytes: u64) -> String {
    let short = Size(bytes).to_string();
    if short.parse() == Ok(Size(bytes)) { short } else { bytes.to_string() }
}

fn switch(option: &'static str, value: &str, expected: &'static str) -> Result<bool, ShareError> {
    match value {
        "yes" | "on" => Ok(true),
        "no" | "off" => Ok(false),
        _ => Err(ShareError::Value { option, value: value.to_owned(), expected }),
    }
}

fn time_machine(value: &str) -> Result<u64, ShareError> {
    let size = value.parse().ok().filter(|Size(bytes)| *bytes >= TIME_MACHINE_BYTES_MIN);
    size.map(|Size(bytes)| bytes).ok_or_else(|| ShareError::Value {
        option: "timemachine",
        value: value.to_owned(),
        expected: "a size from 1G on, like 500G",
    })
}

fn users(value: &str) -> Result<Vec<String>, ShareError> {
    let mut users: Vec<String> = Vec::new();
    for word in value.split(':') {
        if !is_user(word.strip_prefix('@').unwrap_or(word)) {
            return Err(ShareError::User(word.to_owned()));
        }
        if !users.iter().any(|other| other == word) {
            users.push(word.to_owned());
        }
    }
    if users.len() > USERS_MAX { Err(ShareError::TooManyUsers) } else { Ok(users) }
}

/// Begins with what no list of Samba's takes for a kind of name, as it does `+` and `&`.
fn is_user(name: &str) -> bool {
    let is_inner = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.' | '@');
    name.len() <= USER_BYTES_MAX
        && name.starts_with(|first: char| first.is_alphanumeric() || first == '_')
        && name.chars().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_in_its_own_words() {
        for (typed, kept) in [
            ("on", "on"),
            (" on ", "on"),
            ("guest=no,macos=on", "on"),
            ("name=Docs,guest=no,users=@staff,macos=on,timemachine=500G", "name=Docs,users=@staff,timemachine=500G"),
            ("exclusive=off,users=ann:@staff:ann:bob@example.org", "users=ann:@staff:bob@example.org,exclusive=off"),
            ("name=my files,guest=yes,macos=off", "name=my files,guest=yes,macos=off"),
            ("timemachine=1234567890123", "timemachine=1234567890123"),
            ("exclusive=on", "exclusive=on"),
        ] {
            let share = parse_sharesmb(typed).unwrap().unwrap();
            assert_eq!(share.to_string(), kept, "{typed}");
            assert_eq!(parse_sharesmb(kept), Ok(Some(share)), "{kept}");
        }
        assert_eq!(parse_sharesmb("off"), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_told_with_what_to_write() {
        let long = format!("users={}", "x".repeat(70));
        let many = format!("users={}", (0..65).map(|nth| format!("u{nth}")).collect::<Vec<_>>().join(":"));
        for (typed, told) in [
            ("", "is no option; known are name=NAME"),
            ("yes", "`yes` is no option"),
            ("on,guest=yes", "`on` is no option"),
            ("Name=x", "`Name=x` is no option"),
            ("root preexec=sh", "is no option"),
            ("name=a,name=b", "`name` stands twice"),
            ("name=", "from 1 to 80 letters, and '' has 0"),
            ("name=a=b", "'=' means something"),
            ("name=a]", "']' means something"),
            ("name=global", "that Samba or Windows has for itself"),
            ("name= a", "one blank at a time"),
            ("guest=maybe", "guest is yes or no, and not `maybe`"),
            ("macos=", "macos is on or off, and not ``"),
            ("exclusive=auto", "exclusive is on or off"),
            ("users=", "\"\" is no user or group"),
            ("users=a b", "is no user or group"),
            ("users=@", "is no user or group"),
            ("users=+wheel", "is no user or group"),
            ("users=&wheel", "is no user or group"),
            ("users=@@wheel", "is no user or group"),
            ("users=DOM\\ann", "is no user or group"),
            ("users=%U", "is no user or group"),
            ("users=\"ann\"", "is no user or group"),
            ("users=a;b", "is no user or group"),
            ("users=a#b", "is no user or group"),
            ("users=a\n[x]", "is no user or group"),
            (&long, "is no user or group"),
            (&many, "more than 64 names"),
            ("timemachine=on", "a size from 1G on"),
            ("timemachine=500", "a size from 1G on"),
            ("timemachine=none", "a size from 1G on"),
            ("guest=yes,users=ann", "only some"),
            ("timemachine=1T,macos=off", "is for Macs"),
            ("timemachine=1T,exclusive=off", "make a dataset for the backups"),
        ] {
            let error = parse_sharesmb(typed).expect_err(typed).to_string();
            assert!(error.starts_with("sharesmb: ") && error.contains(told), "{typed}: {error}");
        }
    }

    #[test]
    fn a_name_comes_down_with_the_names_below_it() {
        let name = |value: &str, dataset: &str, set_on: &str| {
            parse_sharesmb(value).unwrap().unwrap().name_of(dataset, set_on).map(|name| name.to_string())
        };
        let good = |text: &str| Ok(text.to_owned());
        assert_eq!(name("on", "tank/home/ann", "tank"), good("tank_home_ann"));
        assert_eq!(name("on", "tank/a:b", "tank/a:b"), good("tank_a_b"));
        assert_eq!(name("name=Docs", "tank/docs", "tank/docs"), good("Docs"));
        assert_eq!(name("name=Docs", "tank/docs/a/b", "tank/docs"), good("Docs_a_b"));
        assert_eq!(name("name=Docs$", "tank/docs/a", "tank/docs"), good("Docs_a$"));
        assert_eq!(name("on", "global", "global"), Err(ShareError::Reserved("global".into())));
        assert!(matches!(name("on", &format!("tank/{}", "x".repeat(100)), "tank"), Err(ShareError::NameLength { .. })));
    }
}
