//! From the ids that a client claims to those that the file system is asked with.

use smallvec::SmallVec;
use tally_vfs::Cred;

use crate::exports::{Rule, Squash};
use crate::link::Link;
use crate::local::Owner;
use crate::rpc::Identity;

/// A rule asks for more than a connection can show: AUTH_TOOWEAK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooWeak;

/// Whose requests a connection carries under a rule, if not theirs whom they name: under `secure` only a privileged
/// port, or a socket of this machine's superuser, is believed.
pub fn known_user<'a>(link: &'a Link, rule: &Rule) -> Result<Option<&'a Cred>, TooWeak> {
    if !rule.secure || link.is_privileged() {
        return Ok(None);
    }
    match link.owner() {
        Owner::Root => Ok(None),
        Owner::User(cred) => Ok(Some(cred)),
        Owner::Unknown => Err(TooWeak),
    }
}

/// Who asks, by name or as is known, after the export rule has had its say. Who names nobody stays nobody.
#[must_use]
pub fn caller(identity: &Identity, known: Option<&Cred>, rule: &Rule) -> Cred {
    match (identity, known) {
        (Identity::Unix(_), Some(user)) => squash(&Identity::Unix(user.clone()), rule),
        _ => squash(identity, rule),
    }
}

/// The id that stands for none. To whom it belonged nobody could give or take anything again.
const NO_ID: u32 = u32::MAX;

/// Who asks, after the export rule has had its say. AUTH_NONE is always anonymous, and so is who names an id that is none.
#[must_use]
pub fn squash(identity: &Identity, rule: &Rule) -> Cred {
    let Identity::Unix(claimed) = identity else { return anonymous(rule) };
    if claimed.uid == NO_ID || claimed.gid == NO_ID {
        return anonymous(rule);
    }
    match rule.squash {
        Squash::None => claimed.clone(),
        Squash::All => anonymous(rule),
        Squash::Root => Cred {
            uid: if claimed.uid == 0 { rule.anon_uid } else { claimed.uid },
            gid: squash_group(claimed.gid, rule),
            groups: claimed.groups.iter().map(|gid| squash_group(*gid, rule)).collect(),
            checked: false,
        },
    }
}

fn squash_group(gid: u32, rule: &Rule) -> u32 {
    if gid == 0 { rule.anon_gid } else { gid }
}

fn anonymous(rule: &Rule) -> Cred {
    Cred { uid: rule.anon_uid, gid: rule.anon_gid, groups: SmallVec::new(), checked: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cred(uid: u32, gid: u32, groups: &[u32]) -> Cred {
        Cred { uid, gid, groups: SmallVec::from_slice(groups), checked: false }
    }

    #[test]
    fn every_rule_and_every_claim() {
        let cases = [
            (Squash::None, cred(0, 0, &[0, 5]), cred(0, 0, &[0, 5])),
            (Squash::Root, cred(0, 0, &[0, 5]), cred(1, 2, &[2, 5])),
            (Squash::Root, cred(7, 0, &[5]), cred(7, 2, &[5])),
            (Squash::Root, cred(7, 8, &[0]), cred(7, 8, &[2])),
            (Squash::All, cred(7, 8, &[9]), cred(1, 2, &[])),
            // These made files of a user that is none.
            (Squash::None, cred(u32::MAX, 8, &[9]), cred(1, 2, &[])),
            (Squash::Root, cred(7, u32::MAX, &[9]), cred(1, 2, &[])),
        ];
        for (squash_rule, claimed, expected) in cases {
            let rule = Rule { read_only: false, squash: squash_rule, anon_uid: 1, anon_gid: 2, secure: false };
            assert_eq!(squash(&Identity::Unix(claimed.clone()), &rule), expected, "{squash_rule:?} {claimed:?}");
            assert_eq!(squash(&Identity::Nobody, &rule), cred(1, 2, &[]), "AUTH_NONE under {squash_rule:?}");
        }
    }
}
