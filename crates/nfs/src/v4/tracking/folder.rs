//! The list of one pool, and the folder of that pool in which it is kept: who comes is in it before he is answered (rules V23), who is gone is out of it before another one has what was his (rules V24),
//! and who did not come before anybody is given something new (rules V25).

use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tally_base::{DatasetId, PoolGuid, Promise, Wait, blocking};
use tally_vfs::{Cred, FsError, MountNumber, OpCtx, SetAttr, Vfs};

use super::Asker;
use super::list::{Entry, List};
use crate::v4::compound::{Halt, Stop};
use crate::v4::state::LEASE_DEFAULT;
use crate::v4::status::Status;

/// A name that nobody has: to remove it changes nothing, and waits for what was changed before.
const NOBODY: &[u8] = b"nobody";
/// What stands in a client's link. Its name says who it is.
const CONTENT: &[u8] = b"had something open";
/// So many hosts are named in one line.
const HOSTS_NAMED_MAX: usize = 8;
/// Entries that are read at once.
const ENTRIES_MAX: usize = 256;

/// That of one pool, by one mount, which may outlive an export.
pub(super) struct Tracked {
    lease: Duration,
    /// Which mount it is; another one has another list.
    pub(super) mount: MountNumber,
    pub(super) pool: PoolGuid,
    /// As it is mounted now: behind an export it is the same mount where what clients have goes on.
    folder: Mutex<Weak<dyn Vfs>>,
    pub(super) work: Mutex<()>,
    pub(super) list: Mutex<Option<List>>,
    /// When it could not be read, the first time.
    unread: Mutex<Option<Duration>>,
}

impl Tracked {
    /// Of a pool that has come, for clients with leases of this length; nobody has looked at it yet.
    pub(super) fn new(lease: Duration, pool: PoolGuid, folder: &Arc<dyn Vfs>) -> Self {
        let (work, list, unread) = Default::default();
        Self { lease, mount: folder.mount(), pool, folder: Mutex::new(Arc::downgrade(folder)), work, list, unread }
    }

    /// Nothing, while the pool is away.
    pub(super) fn folder(&self) -> Option<Arc<dyn Vfs>> {
        self.folder.lock().upgrade()
    }

    /// Whether the pool is not.
    pub(super) fn is_here(&self) -> bool {
        self.folder.lock().strong_count() > 0
    }

    /// The pool was away, and has come back with what clients had in it: so has the list. Nobody could claim anything meanwhile, so a grace begins anew. Who comes late, with the folder from before, must not put
    /// that back: it changes only where that is gone.
    pub(super) fn comes_back(&self, folder: &Arc<dyn Vfs>, now: Duration) {
        let mut known = self.folder.lock();
        if known.strong_count() > 0 {
            return;
        }
        *known = Arc::downgrade(folder);
        drop(known);
        *self.unread.lock() = None;
        if let Some(list) = &mut *self.list.lock() {
            list.goes_on(now);
        }
    }

    /// For whoever looks at the folder or changes it, which may take as long as its disks.
    pub(super) fn work(&self) -> MutexGuard<'_, ()> {
        self.work.try_lock().unwrap_or_else(|| blocking(|| self.work.lock()))
    }

    pub(super) fn with<T>(&self, act: impl FnOnce(&mut List) -> T) -> T {
        act(self.list.lock().as_mut().expect("it was read in"))
    }

    /// Reads the list, the first time: the server looks soon behind an import. While it cannot be read nobody is given anything, as whatever that is may be
    /// somebody else's.
    pub(super) fn read_in(&self, folder: &dyn Vfs, now: Duration) -> Result<(), Status> {
        if self.list.lock().is_some() {
            return Ok(());
        }
        let entries = entries(folder).map_err(|error| {
            let mut unread = self.unread.lock();
            // Said once: each request of its files asks.
            if unread.is_none() {
                tracing::error!(pool = %folder.pool(), %error, "who had what open before cannot be read: nobody can open anything by NFSv4 until it can, nor, for {} seconds, read or change files by NFSv3", self.late_in().as_secs());
            }
            unread.get_or_insert(now);
            Status::Delay
        })?;
        let clients = entries.iter().filter(|entry| matches!(entry, Entry::Client(_))).count();
        let mut list = List::new(&entries, now, self.lease);
        let hosts = list.to_notify().len();
        if hosts > 0 {
            tracing::info!(pool = %folder.pool(), "{}", waits_for(list.to_notify(), list.grace()));
        }
        if clients > hosts {
            tracing::info!(
                pool = %folder.pool(), clients = clients - hosts,
                "clients of NFSv4 had something open here, and may claim it again: others that open or lock something wait for them, \
                 {} seconds at least if one does not come", list.grace().as_secs()
            );
        }
        if self.is_late(now) {
            list.forget_writes();
        }
        *self.list.lock() = Some(list);
        if clients > 0 {
            // Who claims something has it under this lease. What fails here is tried again before the first grant.
            let _later = self.note_lease(folder);
        }
        Ok(())
    }

    /// How long a lease of this life is stands in the list before anybody who has one.
    fn note_lease(&self, folder: &dyn Vfs) -> Result<bool, Stop> {
        let Some(entry) = self.with(|list| list.lease_to_note()) else { return Ok(true) };
        let is_there = self.write_down(folder, entry)?;
        if is_there {
            self.with(List::lease_is_noted);
        }
        Ok(is_there)
    }

    /// Whether the list could not be read for as long as a grace may last. What clients had for writing others may have read and changed since, so that nobody claims any.
    pub(super) fn is_late(&self, now: Duration) -> bool {
        self.unread.lock().is_some_and(|since| since + self.late_in() <= now)
    }

    /// How long a grace may last, as far as is known without the list.
    fn late_in(&self) -> Duration {
        2 * self.lease.max(LEASE_DEFAULT)
    }

    /// These go out of the list.
    pub(super) fn let_go(&self, folder: &dyn Vfs, doomed: Vec<Entry>) -> Result<(), Stop> {
        if let Err(stop) = self.note_lease(folder) {
            self.with(|list| list.doom(doomed.into_iter()));
            return Err(stop);
        }
        let cred = Cred::root();
        let mut left = doomed.into_iter();
        while let Some(entry) = left.next() {
            let outcome = folder.remove(OpCtx::of(&cred), folder.root(), entry.to_string().as_bytes());
            match outcome.result {
                Ok(()) | Err(FsError::NotFound) => self.with(List::unsettle),
                Err(error) => {
                    self.with(|list| list.doom([entry].into_iter().chain(left)));
                    return Err(not_now(error, outcome.wait));
                }
            }
        }
        Ok(())
    }

    /// A client goes into the list. Where there is no room it is given what it asks for, and will not be able to claim it again.
    ///
    /// It may be ended meanwhile, and what it had be others': so it is in the list before it is in the folder, where whoever ends it finds it, and those others wait until
    /// it is out of both (rules V24).
    ///
    /// What it had for writing before it lost something else it still has: behind a crash others wait for that as well (rules V27).
    pub(super) fn note(&self, folder: &dyn Vfs, Asker { presence, now }: Asker<'_>) -> Result<(), Stop> {
        let key = presence.key();
        let is_noted = self.with(|list| {
            presence.check_not_ended()?;
            let may = !presence.has_lost();
            if may {
                list.note(key);
            }
            Ok::<_, Status>(may)
        })?;
        if !is_noted {
            return Ok(());
        }
        let beside = self.note_lease(folder);
        let flags = self.with(|list| list.to_note_again(key));
        let mut entries = [Entry::Client(key)].into_iter().chain(flags.iter().copied().map(Entry::Writes));
        let all = |is_there: bool| {
            entries.try_fold(is_there, |is_there, entry| Ok(is_there && self.write_down(folder, entry)?))
        };
        let is_there = beside.and_then(all);
        let is_there = is_there.inspect_err(|_| self.with(|list| list.is_not_noted(key)))?;
        if is_there {
            self.with(|list| list.are_noted_again(&flags, (key, presence.client()), now));
        } else {
            tracing::warn!(pool = %folder.pool(), client = %key, "its opens cannot be claimed again behind a restart: there is no room to write it down");
        }
        Ok(presence.check_not_ended()?)
    }

    /// The same of where it may have something for writing. False where that cannot be written down: then it may not.
    pub(super) fn note_write(
        &self,
        folder: &dyn Vfs,
        Asker { presence, now }: Asker<'_>,
        dataset: DatasetId,
    ) -> Result<bool, Stop> {
        let whose = (presence.key(), presence.client());
        let flag = self.with(|list| {
            presence.check_not_ended()?;
            let may = list.has(whose.0) && !presence.has_lost();
            let flag = |list: &mut List| match list.may_write(whose, dataset, now) {
                true => None,
                false => Some(list.note_write(whose, dataset, now)),
            };
            Ok::<_, Status>(may.then(|| flag(list)))
        })?;
        let flag = match flag {
            None => return Ok(false),
            Some(None) => return Ok(true),
            Some(Some(flag)) => flag,
        };
        // Beside its client, for which there may have been no room: without that it says nothing.
        let beside = self.write_down(folder, Entry::Client(whose.0));
        let is_there = beside.and_then(|is_there| Ok(is_there && self.write_down(folder, Entry::Writes(flag))?));
        if !matches!(is_there, Ok(true)) {
            self.with(|list| list.is_not_noted_to_write(flag));
        }
        is_there
    }

    /// Whether there is room.
    fn write_down(&self, folder: &dyn Vfs, entry: Entry) -> Result<bool, Stop> {
        let (cred, name) = (Cred::root(), entry.to_string());
        let set = SetAttr { mode: Some(0o777), ..SetAttr::default() };
        let outcome = folder.symlink(OpCtx::of(&cred), folder.root(), name.as_bytes(), CONTENT, &set);
        match outcome.result {
            Ok(_) | Err(FsError::Exists) => Ok(true),
            Err(FsError::NoSpace | FsError::Quota) => Ok(false),
            Err(error) => Err(not_now(error, outcome.wait)),
        }
    }

    /// If the grace is about to be over, this writes it down. Whether that is durable by now, or has failed for as long as a grace may last: version 3 is not kept out for ever by a
    /// damaged folder.
    pub(super) fn ends_grace(&self, folder: &dyn Vfs, now: Duration) -> bool {
        let Some(since) = self.list.lock().as_ref().and_then(List::ending_since) else { return false };
        // Who is beside another one who does comes again.
        let Some(_one_at_a_time) = self.work.try_lock() else { return false };
        let doomed = self.with(List::take_doomed);
        match self.let_go(folder, doomed).and_then(|()| self.settle(folder)) {
            Ok(None) => true,
            Ok(Some(promise)) => match promise.drive() {
                Some(fate) => fate.is_ok() && matches!(self.settle(folder), Ok(None)),
                None => {
                    // Somebody has to want it, or it is written with what others want.
                    promise.then(Box::new(|_| ()));
                    false
                }
            },
            Err(_) if since + self.late_in() <= now => {
                tracing::error!(
                    pool = %folder.pool(),
                    "it cannot be written down that nobody may claim any more what he had open before the restart: behind another one he may, over what others have changed since"
                );
                self.with(List::give_up_ending);
                true
            }
            Err(_) => false,
        }
    }

    /// The same, for who is given nothing. An error where somebody is still to go out of the list, or nobody has read it yet.
    pub(super) fn newest_change(&self) -> Result<Option<Box<dyn Promise>>, Stop> {
        let Some(folder) = self.folder() else {
            // What was changed before it went away is durable by that.
            let has_doomed = self.list.lock().as_ref().is_some_and(List::has_doomed);
            return if has_doomed { Err(Status::Delay.into()) } else { Ok(None) };
        };
        let _one_at_a_time = self.work();
        let is_done = self.list.lock().as_ref().is_some_and(|list| !list.has_doomed());
        if is_done { self.settle(&*folder) } else { Err(Status::Delay.into()) }
    }

    /// The promise of all that was changed, as long as it may not be durable.
    pub(super) fn settle(&self, folder: &dyn Vfs) -> Result<Option<Box<dyn Promise>>, Stop> {
        if self.with(|list| list.is_settled()) {
            return Ok(None);
        }
        let cred = Cred::root();
        let outcome = folder.remove(OpCtx::of(&cred), folder.root(), NOBODY);
        match (outcome.result, outcome.wait) {
            (Err(FsError::NotFound), Wait::On(promise)) => Ok(Some(promise)),
            (Err(FsError::NotFound), Wait::Ready) => {
                self.with(List::settle);
                Ok(None)
            }
            (Ok(()), _) => Err(Status::Delay.into()),
            (Err(error), wait) => Err(not_now(error, wait)),
        }
    }
}

/// That a pool waits for hosts at its start, for how long, and for which: whoever wonders why nothing can be locked may know that one of them is gone, and unlock for it.
fn waits_for(hosts: &[IpAddr], grace: Duration) -> String {
    let named: Vec<_> = hosts.iter().take(HOSTS_NAMED_MAX).map(IpAddr::to_string).collect();
    let more = match hosts.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "waits {} s for hosts of NFSv3: {}{more}. They had locked something here and may claim it again, and have no word for having done so: \
         until then others open nothing by NFSv4 and lock nothing",
        grace.as_secs(),
        named.join(", ")
    )
}

/// The folder cannot be changed: when it can, where that is known.
fn not_now(error: FsError, wait: Wait) -> Stop {
    match (error, wait) {
        (FsError::Throttled, Wait::On(promise)) => Halt::Waits(promise).into(),
        _ => Status::Delay.into(),
    }
}

/// What is in the list.
fn entries(folder: &dyn Vfs) -> Result<Vec<Entry>, FsError> {
    let (cred, mut cookie, mut entries) = (Cred::root(), 0, Vec::new());
    loop {
        let page = folder.readdir(&cred, folder.root(), cookie, ENTRIES_MAX, false)?;
        entries.extend(page.entries.iter().filter_map(|entry| Entry::parse(&entry.name)));
        match page.entries.last() {
            Some(last) if !page.eof => cookie = last.cookie,
            _ => return Ok(entries),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_waited_for_are_named_and_how_long_that_takes() {
        let hosts: Vec<_> = (1..=10).map(|number| IpAddr::from([10, 0, 0, number])).collect();
        let told = |count: usize| waits_for(&hosts[..count], Duration::from_secs(90));
        assert!(told(2).starts_with("waits 90 s for hosts of NFSv3: 10.0.0.1, 10.0.0.2. They"), "{}", told(2));
        assert!(told(10).contains("10.0.0.7, 10.0.0.8 and 2 more. They"), "{}", told(10));
    }
}
