//! What a client may claim again, or is given that it could: asked of the lists of the pools ([`super::tracking`]) with who it is and what time it is.

use std::time::Duration;

use tally_base::{DatasetId, PoolGuid, Time, Wait};
use tally_vfs::{ObjectRef, Vfs};

use super::compound::{Halt, Stop};
use super::house::House;
use super::parking::KeptOut;
use super::state::{FileId, Mounted, Presence};
use super::status::Status;
use super::tracking::{Asker, Given, GraceSeen, Noted, Where};
use crate::exports::{Exports, PoolExports};

impl House {
    /// A client is about to be given something that it could claim again, in this dataset perhaps for writing: whether it may be.
    pub(super) fn grant(
        &self,
        pool: &dyn PoolExports,
        presence: &Presence,
        writes: Option<DatasetId>,
    ) -> Result<Given, Stop> {
        presence.note_owns_key();
        self.tracking.grant(pool, self.asker(presence), writes)
    }

    /// The same for who waits for no disk.
    pub(super) fn grant_or_not_now(&self, pool: &dyn PoolExports, presence: &Presence) -> Result<Given, Stop> {
        presence.note_owns_key();
        self.tracking.grant_or_not_now(pool, self.asker(presence))
    }

    /// It was given that: what its answer waits for, and whether that may be something for writing. Where somebody has gone meanwhile whose it was, it is asked for anew.
    pub(super) fn given(&self, pool: &dyn PoolExports, presence: &Presence, mut given: Given) -> Result<Noted, Stop> {
        loop {
            match self.tracking.given(pool.guid(), given) {
                Ok(noted) => return Ok(noted),
                Err(writes) => given = self.grant(pool, presence, writes)?,
            }
        }
    }

    /// Programs of this machine were given something in a pool: what their answer waits for, or when that is to be asked anew, as it cannot be written down for now.
    pub(crate) fn given_here(&self, pool: &dyn PoolExports) -> Result<Wait, Wait> {
        match self.tracking.given_here(pool, self.now()) {
            Ok(promise) => Ok(promise.map_or(Wait::Ready, Wait::On)),
            Err(Stop::Halted(Halt::Waits(promise))) => Err(Wait::On(promise)),
            Err(_) => Err(Wait::Ready),
        }
    }

    /// A client claims something again.
    pub(super) fn reclaim(&self, pool: &dyn PoolExports, presence: &Presence) -> Result<(), Status> {
        presence.note_owns_key();
        self.tracking.reclaim(pool, self.asker(presence))
    }

    /// The same of a host that locks by NLM: nothing, as long as nobody knows.
    pub(super) fn host_may_reclaim(&self, pool: &dyn PoolExports, presence: &Presence) -> Option<bool> {
        self.tracking.host_may_reclaim(pool, self.asker(presence))
    }

    /// A client that claims something again had it for writing: whether it may have had.
    pub(super) fn reclaim_write(&self, pool: &dyn PoolExports, presence: &Presence, dataset: DatasetId) -> bool {
        self.tracking.reclaim_write(pool, self.asker(presence), dataset)
    }

    /// A client claims nothing more.
    pub(super) fn reclaim_complete(&self, presence: &Presence) -> Result<(), Status> {
        presence.reclaim_complete()?;
        if presence.owns_key() {
            self.tracking.complete(presence);
        }
        Ok(())
    }

    /// Whether files of a dataset are nobody's to read or change for now but this client's, if it is one: another one may still claim what it has written and not sent (rules V27).
    pub(crate) fn awaits_claims(
        &self,
        exports: &dyn Exports,
        pool: &dyn PoolExports,
        dataset: DatasetId,
        who: Option<&Presence>,
    ) -> bool {
        self.tracking.awaits_claims(exports, (pool, dataset), who.map(Presence::key), self.now())
    }

    /// Whether it is known that none are, as of this state of the exports.
    pub(crate) fn is_open_to_all(&self, changed: Time) -> bool {
        self.tracking.is_open_to_all(changed)
    }

    /// Once in a while: who has had nothing for writing for a while may claim none behind a restart.
    pub(super) fn forget_idle_writes(&self) {
        let holds = |client, pool: PoolGuid, place: Where| {
            let is_there = |of: &Mounted| match place {
                Where::In(dataset) => (of.pool, of.dataset) == (pool, dataset),
                Where::Anywhere => of.pool == pool,
            };
            self.delegations().may_write(client, &is_there)
        };
        self.tracking.forget_idle(self.now(), &holds);
    }

    /// The grace of a pool, as far as it is known.
    pub(super) fn grace(&self, pool: PoolGuid) -> Option<GraceSeen> {
        self.tracking.grace(pool, self.now())
    }

    /// Whether something in this pool may still be claimed again.
    pub(crate) fn is_in_grace(&self, pool: &dyn PoolExports) -> bool {
        self.tracking.is_in_grace(pool, self.now())
    }

    /// The same for who does not wait for it to be known.
    pub(crate) fn may_be_in_grace(&self, pool: &dyn PoolExports) -> bool {
        self.tracking.may_be_in_grace(pool, self.now())
    }

    /// When the grace of a pool is over at the latest, or now: what is claimed again in it is given back behind it, as until then nothing is opened or locked for that.
    pub(super) fn end_of_grace(&self, pool: &dyn PoolExports) -> Duration {
        self.tracking.end_of_grace(pool.guid()).map_or(self.now(), |end| end.max(self.now()))
    }

    /// Whether who is no client has to come again, as files of the dataset of this object are still claimed by others (rules V27): he waits for a moment before, if he may.
    pub(crate) fn keeps_waiting(
        &self,
        exports: &dyn Exports,
        pool: &dyn PoolExports,
        (vfs, object): (&dyn Vfs, ObjectRef),
        may_wait: bool,
    ) -> Option<KeptOut> {
        if !self.awaits_claims(exports, pool, vfs.dataset(), None) {
            return None;
        }
        let parked = may_wait.then(|| self.parking.park(FileId::of(vfs, object))).flatten();
        Some(parked.map_or(KeptOut::ComesAgain, |parked| KeptOut::Waits(Box::new(parked))))
    }

    fn asker<'a>(&self, presence: &'a Presence) -> Asker<'a> {
        Asker { presence, now: self.now() }
    }
}
