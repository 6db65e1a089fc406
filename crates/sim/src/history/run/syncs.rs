//! Groups that are synced, and what happens between their writes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tally_fs::filer::Filer;
use tally_store::properties::{Property, SyncMode, parse};

use super::{History, TRIES_BESIDE_MAX};
use crate::chance::{Chance, Stream};
use crate::disk::Fault;
use crate::history::lives::shown;
use crate::history::meanwhile::look_beside;
use crate::history::requests::Next;
use crate::history::{Checked, State, Syncs};

impl History {
    /// Does `work` while another thread syncs one group after the other.
    pub(super) fn beside_syncs(&self, work: impl FnOnce() -> Checked<()>) -> Checked<()> {
        let server = Arc::clone(self.0.lock().machine.server());
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let syncing = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    server.filer.sync().map_err(|error| format!("sync beside: {error}"))?;
                }
                Ok(())
            });
            let looking = scope.spawn(|| look_beside(&self.0, &server, &over));
            let worked = catch_unwind(AssertUnwindSafe(work));
            over.store(true, Ordering::Relaxed);
            let synced = syncing.join().unwrap_or_else(|_| Err("the syncing thread panicked".into()));
            let looked = looking.join().unwrap_or_else(|_| Err("the looking thread panicked".into()));
            match worked {
                Ok(worked) => worked.and(synced).and(looked),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    pub(in crate::history) fn sync_group(&self) -> Checked<()> {
        self.sync(true, |filer| filer.sync().map(|_| ()).map_err(|error| error.to_string()))
    }

    /// Syncs by `how`; requests may run inside its device writes.
    pub(in crate::history) fn sync(
        &self,
        interludes: bool,
        how: impl FnOnce(&Filer) -> Result<(), String>,
    ) -> Checked<()> {
        let (server, power) = {
            let mut state = self.0.lock();
            state.begin_sync();
            if !interludes {
                // What a command changes itself is in its group, and not in the models yet.
                state.closing = None;
            }
            (Arc::clone(state.machine.server()), Arc::clone(state.machine.power()))
        };
        let faults = Arc::<Mutex<Option<String>>>::default();
        if interludes && self.0.lock().plan.syncs == Syncs::Around {
            let (state, faults) = (Arc::clone(&self.0), Arc::clone(&faults));
            if state.lock().plan.strikes_off() {
                power.spare_labels();
            }
            power.set_hook(Some(Box::new(move || {
                // While a request itself writes, the state is taken: nothing runs inside a request.
                let Some(mut state) = state.try_lock() else { return };
                if let Err(fault) = state.interlude() {
                    faults.lock().get_or_insert(fault);
                }
            })));
        }
        let outcome = how(&server.filer);
        power.set_hook(None);
        if let Some(fault) = faults.lock().take() {
            return Err(fault);
        }
        self.0.lock().end_sync(outcome)
    }

    /// The switch takes effect with a group, and the command returns when it is durable (rules F13).
    pub(super) fn set_sync(&self, part: usize, mode: SyncMode) -> Checked<()> {
        if self.0.lock().is_beside() {
            return Ok(());
        }
        let name = {
            let state = self.0.lock();
            let name = state.parts[part].name.clone();
            state.note(format!("sync={} on {name}", shown(mode)));
            name
        };
        let value = parse(Property::Sync, shown(mode)).expect("a mode");
        self.sync(false, move |filer| filer.set_property(&name, value).map_err(|error| error.to_string()))?;
        let mut state = self.0.lock();
        if !state.is_off() {
            state.take_sync_modes();
        }
        Ok(())
    }

    /// Everybody who waits is answered, by the log or by a group.
    pub(in crate::history) fn answer_all(&self) -> Checked<()> {
        if self.0.lock().drive_sent()? {
            return Ok(());
        }
        if self.0.lock().is_beside() {
            return self.answer_all_beside();
        }
        self.sync_group()?;
        let mut state = self.0.lock();
        // What began inside of that sync belongs to the next group.
        let closed_op = state.closed_op;
        if state.drive_sent()? || state.is_off() || state.sent.iter().all(|sent| sent.taken.number > closed_op) {
            return Ok(());
        }
        Err("a wait was not over after its group was synced".into())
    }

    /// The other thread is at it, or its last sync was behind everything that waits.
    fn answer_all_beside(&self) -> Checked<()> {
        for _ in 0..TRIES_BESIDE_MAX {
            std::thread::yield_now();
            if self.0.lock().drive_sent()? {
                return Ok(());
            }
        }
        Err("a wait does not end, and no disk does anything".into())
    }
}

impl State {
    fn take_sync_modes(&mut self) {
        let datasets = self.machine.server().filer.datasets();
        for part in self.parts.iter_mut().filter(|part| part.is_there) {
            let info = datasets.iter().find(|info| info.name == part.name).expect("it is there");
            part.oracle.sync = info.effective.sync;
        }
    }

    /// A few requests inside a device write of a sync.
    fn interlude(&mut self) -> Checked<()> {
        let mut chance = Chance::of(self.plan.seed, Stream::Interlude, self.machine.power().events());
        if self.is_off() || self.troubles.is_outage || !chance.one_in(4) {
            return Ok(());
        }
        // What one leg refuses to read and another has is repaired with writers kept out: here the writer, which is this very
        // thread, would wait for itself.
        if self.machine.disks().iter().any(|(_, disk)| disk.faults().refuses(Fault::Read)) {
            return Ok(());
        }
        self.meanwhile(&mut Chance::of(self.plan.seed, Stream::ListingInSync, self.machine.power().events()))?;
        let mut ahead = Chance::of(self.plan.seed, Stream::AheadInSync, self.machine.power().events());
        self.fetch_ahead(ahead.below(3));
        for _ in 0..1 + chance.below(3) {
            let op = self.choose_op(&mut chance);
            let attempt = self.attempt(&op, &mut chance)?;
            if let Next::AnswerAll = self.carry_out(attempt, &mut chance)? {
                self.drive_sent()?;
            }
            if self.is_off() {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn begin_sync(&mut self) {
        self.note("sync");
        self.totals.syncs += 1;
        let op = self.op;
        self.close_old_group();
        self.parts.iter_mut().for_each(|part| part.oracle.begin_group(op));
        self.closed_op = op;
    }

    pub(super) fn end_sync(&mut self, outcome: Result<(), String>) -> Checked<()> {
        match outcome {
            Ok(()) => {
                self.note("synced");
                self.parts.iter_mut().for_each(|part| part.oracle.end_group());
                self.keep_old_group();
                self.synced_op = self.closed_op;
                self.has_synced = true;
                self.totals.syncs_with_rest += u64::from(self.has_orphans());
                Ok(())
            }
            // After a failed sync the pool stands still: nobody believes it until it is imported again.
            Err(error) if self.is_in_trouble() => {
                self.note(format!("sync failed: {error}"));
                if !self.comes_to_a_standstill() {
                    self.machine.power().cut();
                }
                Ok(())
            }
            Err(error) => Err(format!("sync: {error}")),
        }
    }
}
