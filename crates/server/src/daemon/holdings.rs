//! Who holds what by NFSv4, with names for people: clients, sessions, opens and locks; and ending a client.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tally_base::{DatasetId, ObjectId, PoolGuid};
use tally_nfs::v4::holdings::{
    ClientSeen, Counts, DelegationsSince, GraceSeen, Holdings, LockSeen, Page as Seen, SessionSeen,
};
use tally_nfs::v4::state::{ClientId, FileId, Known, Principal, Revoked, SeenOpen, Which, printable};
use tally_vfs::locks::Kind;

use super::error::PoolsError;
use super::patience;
use super::pools::Pools;
use crate::control::holdings::{
    ClientList, ClientReport, DelegationCounts, FileReport, GraceReport, Held, HoldingCounts, LockReport, OpenReport,
    Owner, Page, SessionReport,
};
use crate::control::message::Reply;

/// Most that one answer has of anything.
const SHOWN_MAX: usize = 10_000;

/// How long it may take to look for the names of files: one may stand on a disk that hangs.
const LOOK_MAX: Duration = Duration::from_secs(3);

/// How long whoever evicts clients waits until it is durable that they may not claim anything again.
const WRITE_MAX: Duration = Duration::from_secs(10);

/// As much of a path as is told: its end.
const PATH_BYTES_MAX: usize = 4096;

/// Who asks for what clients hold.
pub(super) struct Register<'a> {
    pub(super) pools: &'a Arc<Pools>,
    /// Nothing, where version 4 is not spoken.
    pub(super) holdings: Option<Holdings<'a>>,
}

impl Register<'_> {
    /// What was asked for: of all clients, or of those that `client` names by id or address.
    pub(super) fn held(&self, what: Held, client: Option<&str>, most: u64) -> Result<Reply, PoolsError> {
        let most = usize::try_from(most).unwrap_or(SHOWN_MAX).min(SHOWN_MAX);
        let asked = match client {
            Some(word) => self.named(word)?.into_iter().map(Some).collect(),
            None => vec![None],
        };
        let Some(holdings) = &self.holdings else { return Err(PoolsError::NoVersion4) };
        Ok(match what {
            Held::Clients => {
                let page = page(&all(&asked, most, |which| holdings.clients(which)), client_report);
                Reply::Clients(ClientList { page, graces: graces(holdings) })
            }
            Held::Sessions => {
                let (seen, whose) = (all(&asked, most, |which| holdings.sessions(which)), self.whose());
                Reply::Sessions(page(&seen, |one, _| session_report(one, &whose)))
            }
            Held::Opens => {
                let (seen, whose) = (all(&asked, most, |which| holdings.opens(which)), self.whose());
                let files = self.files(seen.shown.iter().map(|seen| seen.open.file));
                Reply::Opens(page(&seen, |one, now| open_report(one, now, &files, &whose)))
            }
            Held::Locks => {
                let (seen, whose) = (all(&asked, most, |which| holdings.locks(which)), self.whose());
                let files = self.files(seen.shown.iter().map(|seen| seen.file));
                Reply::Locks(page(&seen, |one, now| lock_report(one, now, &files, &whose)))
            }
        })
    }

    /// Ends these clients, by their ids, and says what each of them had.
    pub(super) fn evict(&self, ids: &[String]) -> Result<Reply, PoolsError> {
        let Some(holdings) = &self.holdings else { return Err(PoolsError::NoVersion4) };
        let mut said = Vec::new();
        for id in ids {
            let client = parse(id).ok_or_else(|| PoolsError::NoClient { word: id.clone() })?;
            said.push(match holdings.evict(client) {
                Some(ClientSeen { known, opens, locks, .. }) => format!(
                    "ended client {id} ('{}' from {}): {opens} opens and {locks} locks are free",
                    printable(&known.name),
                    known.address
                ),
                None => format!("client {id} was gone already"),
            });
        }
        if !holdings.are_out_of_the_lists(WRITE_MAX) {
            said.push(
                "that they may not claim it again is not on the disks of all pools yet: until it is nobody is given \
                 what was theirs, and behind a crash they may claim it"
                    .into(),
            );
        }
        Ok(Reply::Done(said))
    }

    /// The clients with this id, or from this address.
    fn named(&self, word: &str) -> Result<Vec<ClientId>, PoolsError> {
        let known = self.known();
        let of_address = word.parse::<IpAddr>().ok();
        let is_meant = |known: &&Known| match of_address {
            Some(address) => known.address.to_canonical() == address.to_canonical(),
            None => Some(known.client) == parse(word),
        };
        let found: Vec<_> = known.iter().filter(is_meant).map(|known| known.client).collect();
        if found.is_empty() { Err(PoolsError::NoClient { word: word.into() }) } else { Ok(found) }
    }

    fn known(&self) -> Vec<Known> {
        let which = Which { client: None, most: usize::MAX };
        let seen = self.holdings.as_ref().map(|holdings| holdings.clients(which).shown);
        seen.into_iter().flatten().map(|seen| seen.known).collect()
    }

    fn whose(&self) -> Whose {
        Whose(self.known().into_iter().map(|known| (known.client, known)).collect())
    }

    /// What these files are called, as far as that is found in time. Names stand on disks, so whoever asks does not wait for them for ever.
    fn files(&self, files: impl Iterator<Item = FileId>) -> Files {
        let wanted: BTreeSet<_> = files.map(|file| (file.of.pool, file.of.dataset, file.object.id)).collect();
        let pools = Arc::clone(self.pools);
        let paths = patience::found_within(LOOK_MAX, wanted, move |wanted| path(&pools, wanted));
        Files { paths, pools: Arc::clone(self.pools) }
    }
}

/// How much there is of all of it.
pub(super) fn counts(holdings: &Holdings<'_>) -> HoldingCounts {
    let Counts { clients, late, sessions, opens, locks, delegations, .. } = holdings.counts();
    let [clients, courtesy, sessions, opens, locks, delegations] =
        [clients, late, sessions, opens, locks, delegations].map(|count| count as u64);
    let DelegationsSince { granted, recalled, returned, revoked, .. } = holdings.delegations_since();
    let delegations_since = DelegationCounts { granted, recalled, returned, revoked };
    let graces = graces(holdings);
    HoldingCounts { clients, courtesy, sessions, opens, locks, delegations, delegations_since, graces }
}

fn graces(holdings: &Holdings<'_>) -> Vec<GraceReport> {
    let report = |(pool, GraceSeen { listed, came, left })| {
        let [clients, came] = [listed, came].map(|count| count as u64);
        GraceReport { pool, clients, came, seconds_left: left.as_secs() }
    };
    holdings.graces().into_iter().map(report).collect()
}

type Place = (PoolGuid, DatasetId, ObjectId);

fn path(pools: &Pools, (pool, dataset, object): Place) -> Option<String> {
    let served = pools.all().into_iter().find(|served| served.guid() == pool)?;
    served.filer.filesystem(dataset)?.path_of(object).map(end_of)
}

/// As much of a path as is told.
fn end_of(path: String) -> String {
    let Some(over) = path.len().checked_sub(PATH_BYTES_MAX).filter(|over| *over > 0) else { return path };
    let start = (over..=path.len()).find(|at| path.is_char_boundary(*at)).unwrap_or(path.len());
    format!("…{}", &path[start..])
}

/// What files are called, of those that were looked for in time.
struct Files {
    paths: HashMap<Place, Option<String>>,
    pools: Arc<Pools>,
}

impl Files {
    fn report(&self, file: &FileId) -> FileReport {
        let served = self.pools.all().into_iter().find(|served| served.guid() == file.of.pool);
        let name = served.and_then(|served| Some(served.filer.filesystem(file.of.dataset)?.name()));
        let path = self.paths.get(&(file.of.pool, file.of.dataset, file.object.id));
        FileReport {
            dataset: name.unwrap_or_else(|| format!("a dataset that is not here any more ({})", file.of.dataset)),
            object: file.object.id.0,
            not_looked_up: path.is_none(),
            path: path.cloned().flatten(),
        }
    }
}

/// Clients by their ids.
struct Whose(HashMap<ClientId, Known>);

impl Whose {
    fn owner(&self, client: ClientId) -> Owner {
        match self.0.get(&client) {
            Some(known) => Owner {
                client: id(client),
                client_name: printable(&known.name),
                address: known.address.to_canonical().to_string(),
            },
            None => Owner { client: id(client), ..Owner::default() },
        }
    }
}

/// The pages of these clients as one.
fn all<T>(asked: &[Option<ClientId>], most: usize, look: impl Fn(Which) -> Seen<T>) -> Seen<T> {
    let mut sum = Seen { now: Duration::ZERO, shown: Vec::new(), more: 0 };
    for client in asked {
        let Seen { now, shown, more } = look(Which { client: *client, most: most - sum.shown.len() });
        sum.now = now;
        sum.shown.extend(shown);
        sum.more += more;
    }
    sum
}

fn page<T, R>(seen: &Seen<T>, report: impl Fn(&T, Duration) -> R) -> Page<R> {
    Page { shown: seen.shown.iter().map(|one| report(one, seen.now)).collect(), more: seen.more as u64 }
}

fn id(client: ClientId) -> String {
    format!("{:016x}", client.0)
}

fn parse(id: &str) -> Option<ClientId> {
    Some(id).filter(|id| id.len() == 16).and_then(|id| u64::from_str_radix(id, 16).ok()).map(ClientId)
}

fn seconds(now: Duration, then: Duration) -> u64 {
    // What is heard counts as of the next look at the clock.
    now.saturating_sub(then).as_secs()
}

fn client_report(
    ClientSeen { known, is_host, is_late, opens, locks, delegations }: &ClientSeen,
    now: Duration,
) -> ClientReport {
    ClientReport {
        id: id(known.client),
        name: printable(&known.name),
        address: known.address.to_canonical().to_string(),
        uid: match known.principal {
            Principal::Nobody => None,
            Principal::User(uid) => Some(uid),
        },
        version: if *is_host { "3".into() } else { version(known) },
        since_seconds: seconds(now, known.since),
        silent_seconds: seconds(now, known.heard),
        lease_seconds: known.lease.as_secs(),
        courtesy: *is_late,
        sessions: known.sessions.len() as u64,
        opens: *opens as u64,
        locks: *locks as u64,
        delegations: *delegations as u64,
    }
}

fn version(known: &Known) -> String {
    known.minor.map_or_else(|| "4.x".into(), |minor| format!("4.{minor}"))
}

fn session_report(seen: &SessionSeen, whose: &Whose) -> SessionReport {
    SessionReport {
        id: seen.session.0.iter().map(|byte| format!("{byte:02x}")).collect(),
        owner: whose.owner(seen.client),
        slots: seen.fore.slots,
        slots_in_use: seen.in_use as u64,
        request_bytes_max: seen.fore.request_bytes,
        reply_bytes_max: seen.fore.reply_bytes,
        kept_bytes_max: seen.fore.cached_bytes,
        connections: seen.connections as u64,
        callback_connections: seen.back as u64,
    }
}

fn open_report(seen: &SeenOpen, now: Duration, files: &Files, whose: &Whose) -> OpenReport {
    OpenReport {
        file: files.report(&seen.open.file),
        owner: whose.owner(seen.open.client),
        access: ways(seen.open.share.map_or(0, |share| share.access.bits())).into(),
        deny: ways(seen.open.share.map_or(0, |share| share.deny.bits())).into(),
        since_seconds: seconds(now, seen.since),
        revoked: revoked(seen.open.revoked),
    }
}

fn lock_report(seen: &LockSeen, now: Duration, files: &Files, whose: &Whose) -> LockReport {
    LockReport {
        file: files.report(&seen.file),
        owner: whose.owner(seen.client),
        lock_owner: seen.owner.as_ref().map(|name| printable(name)).unwrap_or_default(),
        kind: match seen.range {
            Some((_, Kind::Read)) => "read",
            Some((_, Kind::Write)) => "write",
            None => "none",
        }
        .into(),
        first: seen.range.map(|(range, _)| range.first()),
        last: seen.range.map(|(range, _)| range.last()),
        waits: seen.waits,
        since_seconds: seconds(now, seen.since),
        revoked: revoked(seen.revoked),
    }
}

/// `OPEN4_SHARE_ACCESS_*` and `OPEN4_SHARE_DENY_*`, which have the same numbers.
const fn ways(bits: u32) -> &'static str {
    match bits & 3 {
        0 => "none",
        1 => "read",
        2 => "write",
        _ => "both",
    }
}

fn revoked(why: Option<Revoked>) -> Option<String> {
    let word = |why| match why {
        Revoked::Expired => "expired",
        Revoked::Admin => "admin",
        Revoked::Recalled => "delegation",
    };
    why.map(|why| word(why).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_path_the_end_is_told() {
        let short = "/a".repeat(PATH_BYTES_MAX / 2);
        assert_eq!(end_of(short.clone()), short);
        let long = end_of("/ä".repeat(PATH_BYTES_MAX));
        assert!(long.starts_with("…") && long.ends_with("/ä") && long.len() <= PATH_BYTES_MAX + "…".len());
    }
}
