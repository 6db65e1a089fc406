//! The options of a rule: those that mean something here, those of exports(5) and of ZFS that say what is so anyway, and what is said of the others.

use super::seam::{Rule, Squash};
use super::sharenfs::ShareError;

/// The ids of `nobody` where no `anonuid=` or `anongid=` says otherwise, as everywhere on Linux.
const NOBODY: u32 = 65_534;

/// What exports(5) has and is so anyway, and what for.
const SO_ANYWAY: [&str; 14] = [
    // An export is a dataset, and nothing in it is outside of that.
    "subtree_check",
    // A dataset is seen in the one above it, wherever its own rule lets a client.
    "crossmnt",
    "nohide",
    // Who locks something over version 4 is known by his credentials, and over version 3 nobody can.
    "insecure_locks",
    "secure_locks",
    "no_auth_nlm",
    "auth_nlm",
    // What is not there is not exported.
    "mountpoint",
    "mp",
    "no_acl",
    "no_pnfs",
    "no_security_label",
    // Connections are in clear, and who a client is he says himself.
    "xprtsec=none",
    "sec=sys",
];

/// What others have, and what to do instead. A name with `=` behind it is one with any value.
const NOT_BUILT: [(&str, &str); 19] = [
    (
        "hide",
        "a dataset is seen in the one above it wherever its own rule lets a client; set sharenfs=off on what is to be hidden",
    ),
    ("sec=", "who a client is cannot be proven yet (Kerberos); write sec=sys, and the hosts that may"),
    ("xprtsec=", "connections are not encrypted yet; use WireGuard or IPsec between the hosts, and leave it out"),
    ("mountpoint=", "a dataset that is not there is not exported, and nothing else has to be; leave it out"),
    ("mp=", "a dataset that is not there is not exported, and nothing else has to be; leave it out"),
    ("refer=", "clients are not sent to other servers; have them mount from there"),
    ("replicas=", "clients are not sent to other servers; have them mount from there"),
    ("pnfs", "there is no pNFS; leave it out"),
    ("security_label", "labels of files are not kept; leave it out"),
    ("acl", "there are no access control lists yet; leave it out"),
    ("aclok", "there are no access control lists yet; leave it out"),
    ("nordirplus", "clients mount with that option where they want it"),
    ("nosuid", "clients mount with that option where they want it"),
    ("nosub", "clients mount what is below a dataset, too; make a dataset of what is to be mounted alone"),
    ("public", "there is no public handle; clients mount by path"),
    ("index=", "there is no WebNFS; leave it out"),
    ("log=", "what clients do is counted (`tally stat clients`), and not logged; leave it out"),
    ("none=", "who is not named has no access; leave it out"),
    ("ttl=", "clients are not told how long a path holds; leave it out"),
];

/// What the words of a rule have said so far. Of two words about the same thing the last one counts, as in exports(5);
/// `all_squash` and `root_squash` are about two things.
#[derive(Clone)]
pub(super) struct Said {
    rule: Rule,
    pub(super) read_only: Option<bool>,
    pub(super) root_squash: bool,
    all_squash: bool,
    /// There was a word that programs did not always know.
    pub(super) in_other_words: bool,
}

/// The rule where nothing is said.
pub(super) fn default_rule() -> Rule {
    Rule { read_only: false, squash: Squash::Root, anon_uid: NOBODY, anon_gid: NOBODY, secure: true }
}

/// The options that say the same.
pub(super) fn spell(rule: &Rule) -> String {
    let mut words = vec![if rule.read_only { "ro".to_owned() } else { "rw".to_owned() }];
    match rule.squash {
        Squash::None => words.push("no_root_squash".into()),
        Squash::Root => {}
        Squash::All => words.push("all_squash".into()),
    }
    let id = |name: &str, id: u32| (id != NOBODY).then(|| format!("{name}={id}"));
    words.extend(id("anonuid", rule.anon_uid));
    words.extend(id("anongid", rule.anon_gid));
    words.extend((!rule.secure).then(|| "insecure".to_owned()));
    words.join(",")
}

/// All that a rule says, as `exportfs -v` tells it.
pub(super) fn spell_in_full(rule: &Rule) -> String {
    let word = |is_so: bool, yes: &'static str, no: &'static str| if is_so { yes } else { no };
    let words = [
        word(rule.read_only, "ro", "rw"),
        "sync",
        "sec=sys",
        word(rule.secure, "secure", "insecure"),
        word(rule.squash == Squash::None, "no_root_squash", "root_squash"),
        word(rule.squash == Squash::All, "all_squash", "no_all_squash"),
    ];
    format!("{},anonuid={},anongid={}", words.join(","), rule.anon_uid, rule.anon_gid)
}

impl Said {
    /// Nothing yet.
    pub(super) fn nothing() -> Self {
        Self { rule: default_rule(), read_only: None, root_squash: true, all_squash: false, in_other_words: false }
    }

    /// What stands in a list.
    pub(super) fn in_list(options: &str) -> Result<Self, ShareError> {
        let mut said = Self::nothing();
        said.take_list(options)?;
        Ok(said)
    }

    /// Takes each word of a list.
    pub(super) fn take_list(&mut self, options: &str) -> Result<(), ShareError> {
        let mut words = options.split(',').map(str::trim).filter(|option| !option.is_empty());
        words.try_for_each(|word| self.take(word))
    }

    /// Takes one.
    pub(super) fn take(&mut self, word: &str) -> Result<(), ShareError> {
        match (word, word.split_once('=')) {
            (_, Some(("anonuid", id))) => self.rule.anon_uid = parse_id(word, id)?,
            (_, Some(("anongid", id))) => self.rule.anon_gid = parse_id(word, id)?,
            (_, Some(("anon", id))) => {
                (self.rule.anon_uid, self.in_other_words) = (parse_id(word, id)?, true);
            }
            (_, Some(("fsid", _))) => self.in_other_words = true,
            ("ro", _) => self.read_only = Some(true),
            ("rw", _) => self.read_only = Some(false),
            ("root_squash", _) => self.root_squash = true,
            ("no_root_squash", _) => self.root_squash = false,
            ("all_squash", _) => self.all_squash = true,
            ("no_all_squash", _) => self.all_squash = false,
            ("secure", _) => self.rule.secure = true,
            ("insecure", _) => self.rule.secure = false,
            // What is so anyway, and was known to the first programs.
            ("sync" | "no_subtree_check" | "wdelay" | "no_wdelay", _) => {}
            ("async", _) => return Err(ShareError::Async),
            _ if SO_ANYWAY.contains(&word) => self.in_other_words = true,
            (_, value) => {
                let is_it = |name: &str| match name.strip_suffix('=') {
                    Some(name) => value.is_some_and(|(word, _)| word == name),
                    None => name == word,
                };
                let known = NOT_BUILT.iter().find(|(name, _)| is_it(name));
                return Err(known.map_or_else(
                    || ShareError::Option(word.into()),
                    |(_, instead)| ShareError::NotBuilt(word.into(), instead),
                ));
            }
        }
        Ok(())
    }

    /// The rule. Where neither `ro` nor `rw` was said, it is as `unsaid` has it; without that, what stands there, `of`, does not say enough.
    pub(super) fn rule(&self, unsaid: Option<bool>, of: &str) -> Result<Rule, ShareError> {
        let squash = match (self.all_squash, self.root_squash) {
            (true, _) => Squash::All,
            (false, true) => Squash::Root,
            (false, false) => Squash::None,
        };
        let read_only = self.read_only.or(unsaid).ok_or_else(|| ShareError::Access(of.into()))?;
        Ok(Rule { read_only, squash, ..self.rule.clone() })
    }
}

fn parse_id(option: &str, id: &str) -> Result<u32, ShareError> {
    id.parse().map_err(|_| ShareError::Id(option.into()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Whoever brings a line along looks it up once, and believes the page.
    #[test]
    fn each_word_of_others_stands_in_the_page() {
        let page = include_str!("../../../../packaging/man/tally-exports.5");
        let words: BTreeSet<&str> = page.split(|letter: char| letter.is_whitespace() || letter == ',').collect();
        for word in SO_ANYWAY.iter().chain(NOT_BUILT.iter().map(|(word, _)| word)) {
            assert!(words.contains(word), "tally-exports(5) does not say what comes of {word}");
        }
    }

    #[test]
    fn none_of_them_means_something_here() {
        for word in SO_ANYWAY {
            assert_eq!(Said::in_list(word).map(|said| said.in_other_words), Ok(true), "{word}");
            let told = spell(&Said::in_list(&format!("rw,{word}")).and_then(|said| said.rule(None, "")).expect(word));
            assert_eq!(told, "rw", "{word}");
        }
        for (word, instead) in NOT_BUILT {
            let typed = if word.ends_with('=') { format!("{word}x") } else { word.to_owned() };
            assert_eq!(Said::in_list(&typed).map(|_| ()), Err(ShareError::NotBuilt(typed, instead)));
        }
    }
}
