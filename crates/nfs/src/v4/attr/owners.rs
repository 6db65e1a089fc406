//! Owners as strings (RFC 7530 §5.9, RFC 8881 §5.9): numbers, and names of the machine's users and groups, `name@domain`, where it is said what their domain is.
//!
//! Numbers are always taken, and told of whom the machine has no name for: AUTH_SYS sends numbers as well, so a client that asks by them has the same users. The machine's lists may stand on another machine (LDAP),
//! so what they say is believed for a while.

use std::time::Duration;

use nix::unistd::{Gid, Group, Uid, User};
use quick_cache::sync::Cache;
use tally_base::blocking;

use super::super::status::Status;

/// For how long it is believed that somebody has a name, or has none.
const KNOWN_FOR: Duration = Duration::from_secs(600);
/// Of so many users and groups, and of so many names.
const KNOWN_MAX: usize = 4096;
/// Longest name that is looked for, bytes: there are none.
const NAME_BYTES_MAX: usize = 256;

/// Whose name it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    User,
    Group,
}

/// In which words a client is told of attributes, and sets them.
#[derive(Clone, Copy)]
pub(in super::super) struct Dialect<'a> {
    /// Which attributes there are for it.
    pub(in super::super) minor: u32,
    /// What owners are called, as of this moment.
    pub(in super::super) owners: &'a Owners,
    pub(in super::super) now: Duration,
}

impl Dialect<'_> {
    /// As a client is told an owner.
    pub(super) fn told(&self, kind: Kind, id: u32) -> String {
        self.owners.told(kind, id, self.now)
    }

    /// Whom a client means.
    pub(super) fn id(&self, kind: Kind, said: &[u8]) -> Result<u32, Status> {
        self.owners.id(kind, said, self.now)
    }
}

/// How owners are told and taken.
pub(in super::super) struct Owners(Option<Names>);

struct Names {
    domain: String,
    by_id: Cache<(Kind, u32), (Option<String>, Duration)>,
    by_name: Cache<(Kind, String), (Option<u32>, Duration)>,
}

impl Owners {
    /// By numbers alone.
    pub(in super::super) fn by_number() -> Self {
        Self(None)
    }

    /// By names of this domain as well.
    pub(in super::super) fn of_domain(domain: &str) -> Self {
        let (by_id, by_name) = (Cache::new(KNOWN_MAX), Cache::new(KNOWN_MAX));
        Self(Some(Names { domain: domain.to_owned(), by_id, by_name }))
    }

    fn told(&self, kind: Kind, id: u32, now: Duration) -> String {
        let name = self.0.as_ref().and_then(|names| Some((names.name(kind, id, now)?, &names.domain)));
        name.map_or_else(|| id.to_string(), |(name, domain)| format!("{name}@{domain}"))
    }

    /// Whom a client means. A name that nobody has is nobody's, and what is given to nobody is given away (rules V38).
    ///
    /// # Errors
    ///
    /// `BadOwner` of what is no number and no name of this domain, `Inval` of nothing, `Delay` where the machine cannot say.
    fn id(&self, kind: Kind, said: &[u8], now: Duration) -> Result<u32, Status> {
        if said.is_empty() {
            return Err(Status::Inval);
        }
        let said = std::str::from_utf8(said).map_err(|_| Status::BadOwner)?;
        if said.bytes().all(|byte| byte.is_ascii_digit()) {
            // The highest one stands for none.
            return said.parse().ok().filter(|id| *id != u32::MAX).ok_or(Status::BadOwner);
        }
        let (name, domain) = said.rsplit_once('@').ok_or(Status::BadOwner)?;
        let names = self.0.as_ref().filter(|names| names.domain.eq_ignore_ascii_case(domain));
        let is_one = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains('\0');
        names.filter(|_| is_one).ok_or(Status::BadOwner)?.id(kind, name, now)?.ok_or(Status::BadOwner)
    }
}

impl Names {
    fn name(&self, kind: Kind, id: u32, now: Duration) -> Option<String> {
        if let Some((name, _)) = self.by_id.get(&(kind, id)).filter(|(_, since)| now < *since + KNOWN_FOR) {
            return name;
        }
        // Whom it cannot name now is told as a number, and asked about again.
        let name = blocking(|| match kind {
            Kind::User => User::from_uid(Uid::from_raw(id)).map(|user| user.map(|user| user.name)),
            Kind::Group => Group::from_gid(Gid::from_raw(id)).map(|group| group.map(|group| group.name)),
        });
        // One that would be taken for another one's, or for a number.
        let name = name.ok()?.filter(|name| !name.contains('@') && !name.bytes().all(|byte| byte.is_ascii_digit()));
        self.by_id.insert((kind, id), (name.clone(), now));
        name
    }

    fn id(&self, kind: Kind, name: &str, now: Duration) -> Result<Option<u32>, Status> {
        let key = (kind, name.to_owned());
        if let Some((id, _)) = self.by_name.get(&key).filter(|(_, since)| now < *since + KNOWN_FOR) {
            return Ok(id);
        }
        let id = blocking(|| match kind {
            Kind::User => User::from_name(name).map(|user| user.map(|user| user.uid.as_raw())),
            Kind::Group => Group::from_name(name).map(|group| group.map(|group| group.gid.as_raw())),
        });
        let id = id.map_err(|_| Status::Delay)?;
        self.by_name.insert(key, (id, now));
        Ok(id)
    }
}
