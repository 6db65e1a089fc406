//! One seed: a machine, its lives, and what is done in them.
//!
//! ```text
//!        ┌──────────── step: an operation, a repetition, a look, a sync, a property ◀──┐
//!  life ─┤                                                                             │
//!        ├─ the power goes (or the pool is exported) ─▶ import, perhaps cut short ─────┤
//!        └─ the pool is suspended ─▶ it goes on ────────────────────────────────────────┘
//!                                                        the state found is one that the oracles explain
//! ```
//!
//! Requests run one after the other, so the order in which they take effect is known; their answers come later, when
//! the device has written, and are compared then. Inside the device writes of a group's sync other requests run too.

mod above;
mod back;
mod choose;
mod disks;
mod lives;
mod look;
mod meanwhile;
mod quota;
mod requests;
mod reserve;
mod rot;
mod run;
mod shrink;
mod spares;
mod standstill;
mod times;
mod trouble;
mod users;
mod waits;
mod world;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::AddAssign;
use std::sync::Arc;

use clap::ValueEnum;
use parking_lot::Mutex;
use tally_base::{DatasetId, Generation, ObjectId};
use tally_store::properties::SyncMode;
use tally_vfs::ObjectRef;

use crate::client::Client;
use crate::machine::Machine;
use crate::op::Object;
use crate::oracle::Oracle;
use back::{OldGroup, WayBack};
use meanwhile::Meanwhile;
use requests::{Attempt, Past, Sent};
use rot::Rotten;
use spares::Spares;

use times::Seen;
use trouble::Troubles;

pub use above::every_block;
pub use run::{Failure, run};
pub use shrink::shrink;
pub use trouble::Trouble;

/// One history, and how far it goes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Everything that happens follows from it.
    pub seed: u64,
    /// Steps in all, over all lives.
    pub steps: usize,
    /// Where groups are synced.
    pub syncs: Syncs,
    /// What goes wrong beside the power.
    pub trouble: Trouble,
    /// Whether clients reserve room, where that is known here.
    pub reserves: bool,
    /// Steps that are left out, to make a trace shorter.
    pub skipped: Vec<usize>,
}

/// Where groups are synced, beside the commands for it in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Syncs {
    /// Between operations.
    Between,
    /// Between operations, and other operations run inside the sync's device writes.
    Around,
    /// In a thread that does nothing else. A seed does not repeat this, so the power is cut only after the thread has
    /// ended and another group was synced.
    Beside,
}

/// What a run has come through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Requests that were carried out.
    pub operations: u64,
    /// Requests that were sent again.
    pub repetitions: u64,
    /// Of these, sent again in a later life, and answered from what the pool remembers.
    pub remembered: u64,
    /// Requests that were dropped with their connections.
    pub dropped: u64,
    /// Lives, from an import to the next cut or export.
    pub lives: u64,
    /// Imports behind which nothing was asked before the next cut or export.
    pub idle_lives: u64,
    /// Of these, the last of three that ended by a cut, an export and a cut, and in the last two of which nothing was asked.
    pub idle_across: u64,
    /// Lives that ended by a cut, as the one before them had, and between the two no group was synced but those of imports.
    pub lives_without_sync: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Of these, during an import.
    pub cuts_in_import: u64,
    /// Of these, in the middle of a write to a label's configuration.
    pub cuts_in_labels: u64,
    /// Of these, while a leg was struck off.
    pub cuts_after_strike: u64,
    /// Syncs of a group.
    pub syncs: u64,
    /// Of these, behind which something that was removed or cut was left to the reaper.
    pub syncs_with_rest: u64,
    /// Attach, detach and replace.
    pub disk_commands: u64,
    /// Power cuts inside of these.
    pub cuts_in_disk_commands: u64,
    /// Disks that were away and got what they had missed.
    pub legs_taken_back: u64,
    /// Legs that were not taken back, as a request that was left had not come home.
    pub legs_not_taken_back: u64,
    /// Disks that joined a vdev while another one joined another.
    pub joins_beside: u64,
    /// Requests between the steps of copies, looks at blocks and scrubs.
    pub requests_beside_walks: u64,
    /// Disks that had hung, were left, and answered at last: what was left with them landed.
    pub late_answers: u64,
    /// Spares that came.
    pub spares_added: u64,
    /// Spares that were removed.
    pub spares_removed: u64,
    /// Spares that were asked for by name.
    pub spares_by_name: u64,
    /// Spares that came into the place of a disk.
    pub spares_taken: u64,
    /// Spares that were given back.
    pub spares_given_back: u64,
    /// Spares that stayed for good in the place of a disk.
    pub spares_kept: u64,
    /// Commands and errands for spares.
    pub spare_commands: u64,
    /// Power cuts inside of these.
    pub cuts_in_spare_commands: u64,
    /// Spares that an import found in the place of a disk.
    pub lives_on_spares: u64,
    /// Scrubs that were interrupted, went on, and came to their end.
    pub scrubs_in_parts: u64,
    /// Those that came to their end in one piece, and judged space.
    pub scrubs_of_space: u64,
    /// Scrubs that came to their end in a life in which the pool was full.
    pub scrubs_when_full: u64,
    /// Copies to disks that joined in such a life, and to such as came back.
    pub copies_when_full: u64,
    /// Those that could not be brought up to date, because they were struck off meanwhile.
    pub legs_that_stayed_away: u64,
    /// Lives that began after a long outage, or with a clock that had jumped.
    pub lives_after_gap: u64,
    /// Lives in which the pool was full.
    pub full: u64,
    /// Datasets made, renamed and destroyed.
    pub dataset_commands: u64,
    /// Pieces of listings with changes between them.
    pub pieces_listed: u64,
    /// Names that another thread has looked up beside changes.
    pub looks_beside: u64,
    /// ACCESS requests of ordinary users.
    pub access_asked: u64,
    /// READ, LOOKUP and READDIR behind these that were denied.
    pub reads_denied: u64,
    /// Changes that were refused for a quota, as they had to be.
    pub over_quota: u64,
    /// Changes that were answered, of an object that could not be read everywhere, since a block of it had rotted.
    pub above_rot: u64,
    /// Parts of COMMITs that others came behind.
    pub parts: u64,
    /// Blocks that a client found since they were fetched ahead of it.
    pub fetched_ahead: u64,
    /// Requests that were told to wait before they began.
    pub throttled: u64,
    /// Log records that imports replayed.
    pub replayed: u64,
    /// Imports that went back to an older group.
    pub rewinds: u64,
    /// Of these, cut short behind the point at which the pool had gone back.
    pub rewinds_cut: u64,
    /// Operations that they gave up.
    pub given_up: u64,
    /// Datasets that were there again.
    pub datasets_back: u64,
    /// Pools that were suspended, and went on by `clear`.
    pub went_on: u64,
    /// `clear` that was refused, since disks did not answer yet.
    pub clears_refused: u64,
    /// Tries to take up a suspended pool that failed: what comes behind the first is an import by command.
    pub resumes_failed: u64,
    /// Power cuts while a pool was suspended, or was taken up again.
    pub cuts_while_suspended: u64,
    /// Changes that were refused while a pool was suspended.
    pub refused_meanwhile: u64,
    /// Requests that waited for a suspended pool, had been carried out, and got their answer from it.
    pub doubts_answered: u64,
    /// Requests that waited for a suspended pool, and were carried out by it.
    pub doubts_carried_out: u64,
    /// Ranges that were reserved.
    pub reserved: u64,
    /// Ranges that were punched.
    pub unreserved: u64,
    /// Reservations for which there was no room, in the pool or below a quota.
    pub reservations_refused: u64,
    /// WRITEs that were promised room, and found it.
    pub promised_writes: u64,
    /// Of these, in a life in which the pool was full.
    pub promised_writes_when_full: u64,
    /// Of these, where a dataset could not grow.
    pub promised_writes_at_quota: u64,
    /// Files of which something was reserved, as imports behind cuts found them.
    pub reserved_behind_cuts: u64,
    /// Reservations and punches that came again in a later life.
    pub reserved_again: u64,
    /// Losses beyond the redundancy that an import has named.
    pub named: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.repetitions += other.repetitions;
        self.remembered += other.remembered;
        self.dropped += other.dropped;
        self.lives += other.lives;
        self.idle_lives += other.idle_lives;
        self.idle_across += other.idle_across;
        self.lives_without_sync += other.lives_without_sync;
        self.cuts += other.cuts;
        self.cuts_in_import += other.cuts_in_import;
        self.cuts_in_labels += other.cuts_in_labels;
        self.cuts_after_strike += other.cuts_after_strike;
        self.syncs += other.syncs;
        self.syncs_with_rest += other.syncs_with_rest;
        self.disk_commands += other.disk_commands;
        self.cuts_in_disk_commands += other.cuts_in_disk_commands;
        self.legs_taken_back += other.legs_taken_back;
        self.legs_not_taken_back += other.legs_not_taken_back;
        self.joins_beside += other.joins_beside;
        self.requests_beside_walks += other.requests_beside_walks;
        self.late_answers += other.late_answers;
        self.spares_added += other.spares_added;
        self.spares_removed += other.spares_removed;
        self.spares_by_name += other.spares_by_name;
        self.spares_taken += other.spares_taken;
        self.spares_given_back += other.spares_given_back;
        self.spares_kept += other.spares_kept;
        self.spare_commands += other.spare_commands;
        self.cuts_in_spare_commands += other.cuts_in_spare_commands;
        self.lives_on_spares += other.lives_on_spares;
        self.scrubs_in_parts += other.scrubs_in_parts;
        self.scrubs_of_space += other.scrubs_of_space;
        self.scrubs_when_full += other.scrubs_when_full;
        self.copies_when_full += other.copies_when_full;
        self.legs_that_stayed_away += other.legs_that_stayed_away;
        self.lives_after_gap += other.lives_after_gap;
        self.full += other.full;
        self.dataset_commands += other.dataset_commands;
        self.pieces_listed += other.pieces_listed;
        self.looks_beside += other.looks_beside;
        self.access_asked += other.access_asked;
        self.reads_denied += other.reads_denied;
        self.over_quota += other.over_quota;
        self.above_rot += other.above_rot;
        self.parts += other.parts;
        self.fetched_ahead += other.fetched_ahead;
        self.throttled += other.throttled;
        self.replayed += other.replayed;
        self.rewinds += other.rewinds;
        self.rewinds_cut += other.rewinds_cut;
        self.given_up += other.given_up;
        self.datasets_back += other.datasets_back;
        self.went_on += other.went_on;
        self.clears_refused += other.clears_refused;
        self.resumes_failed += other.resumes_failed;
        self.cuts_while_suspended += other.cuts_while_suspended;
        self.refused_meanwhile += other.refused_meanwhile;
        self.doubts_answered += other.doubts_answered;
        self.doubts_carried_out += other.doubts_carried_out;
        self.reserved += other.reserved;
        self.unreserved += other.unreserved;
        self.reservations_refused += other.reservations_refused;
        self.promised_writes += other.promised_writes;
        self.promised_writes_when_full += other.promised_writes_when_full;
        self.promised_writes_at_quota += other.promised_writes_at_quota;
        self.reserved_behind_cuts += other.reserved_behind_cuts;
        self.reserved_again += other.reserved_again;
        self.named += other.named;
    }
}

/// `Err` says what was found wrong.
type Checked<T> = Result<T, String>;

/// What was done, line by line.
type Trace = Arc<Mutex<Vec<String>>>;

/// A dataset and what is known of it.
struct Part {
    name: String,
    is_there: bool,
    /// The power went while it was being destroyed.
    doomed: bool,
    /// The power went while it got this name.
    renamed: Option<String>,
    /// What clients were told of its objects.
    seen: Seen,
    oracle: Oracle,
    verifier: Option<u64>,
    old_verifiers: Vec<u64>,
    /// Handles of objects that a cut took away.
    gone: Vec<Object>,
    /// Numbers of all objects whose handles went that way, each with its generation: none of them is drawn again.
    gone_ids: BTreeMap<ObjectId, Generation>,
    /// Bytes of the blocks of each file.
    record_sizes: HashMap<ObjectRef, u64>,
}

/// The state of a run.
struct State {
    plan: Plan,
    trace: Trace,
    totals: Totals,
    machine: Machine,
    troubles: Troubles,
    clients: Vec<Client>,
    parts: Vec<Part>,
    /// The power went while this dataset was being made.
    born: Option<(String, SyncMode)>,
    /// Objects whose handles are known.
    objects: Vec<Object>,
    /// Requests on their way.
    sent: Vec<Sent>,
    /// Requests that wait until a suspended pool goes on.
    in_doubt: Vec<Attempt>,
    /// The pool is suspended.
    stands_still: bool,
    /// Requests that may be sent again.
    past: VecDeque<Past>,
    next_past: u64,
    /// How the last lives ended, newest last: whether by an export, and whether nobody had asked for anything.
    ends: VecDeque<(bool, bool)>,
    /// A group was synced in this life.
    has_synced: bool,
    /// How often those who wait were driven.
    round: u64,
    /// Disks that were bought since the pool was made.
    disks_made: u64,
    /// How long the machine was off, in all.
    time_off_ns: u64,
    op: usize,
    step: usize,
    /// In this life somebody was told that the pool is full.
    is_full: bool,
    /// The operations that the newest durable group has.
    synced_op: usize,
    /// The operations of the group that is being synced, and all before it.
    closed_op: usize,
    /// What the newest groups have, where lives begin with older ones.
    groups: VecDeque<OldGroup>,
    /// What the group has that is being synced, and the group before it.
    closing: Option<OldGroup>,
    /// An import that goes back was cut short.
    may_be_back: Option<WayBack>,
    /// Datasets that were there: none of their numbers is drawn again.
    dataset_ids: BTreeSet<DatasetId>,
    /// The spares of the pool.
    spares: Spares,
    /// What has rotted, and stays so.
    rotten: Option<Rotten>,
    /// What is looked at while requests run.
    meanwhile: Meanwhile,
}

impl State {
    fn note(&self, line: impl std::fmt::Display) {
        self.trace.lock().push(format!("{:4} {line}", self.step));
    }

    /// Whether nothing goes on in this life: the power is gone, or the pool is suspended.
    fn is_off(&self) -> bool {
        self.stands_still || self.machine.power().is_off()
    }

    /// Whether a request may be refused for a reason that the models know nothing of.
    fn is_in_trouble(&self) -> bool {
        self.is_off() || self.troubles.struck
    }

    /// How long the machine was on, in all.
    fn time_on_ns(&self) -> u64 {
        self.machine.clock().passed_ns() - self.time_off_ns
    }

    fn newest_known(&self) -> ObjectId {
        self.objects.iter().map(|object| object.model.id).max().unwrap_or(ObjectId(0))
    }
}
