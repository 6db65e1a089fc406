//! Marks of slots: what a request of a session has changed, so that its client is told that behind a crash, and it is not done again
//! (persistent sessions, RFC 8881 §2.10.6.5; rules V5 to V7).
//!
//! **The problem.** The reply cache ([`crate::replies`]) forgets by age and number, which is good enough for a client that only hopes. A client whose
//! session is persistent relies on it: it makes files with O_EXCL by asking for them and being told EXIST, and a mark that is gone is a file of its own that it
//! takes for another's.
//!
//! **The idea.** A client has one request in a slot at a time, so of each slot only the last request counts: what comes next in it takes the place of what is
//! there, and nothing has to age as long as the session lives. Whoever grants sessions grants no more of them than there is room for, and
//! says when one is over; those of a life before go as their hour is over, or as room is needed.
//!
//! A mark comes with the record of its change and is written with its group, as an entry of the catalog, like all that the pool remembers
//! ([`crate::pool`]): what changed of them is written, and no more. One of a group that is still open is not written with an older one: its change may be lost, and it must
//! be lost with it. That the one before it is gone by then does no harm: its client has had the answer, or it would not have used the slot again.
//!
//! ```text
//! A node with marks that cannot be read keeps its pool from nobody ([`LostMarks`]): sessions of which one may have been there are forgotten as a whole.
//!
//! ```text
//!  key     class 51, session (16), slot u32, operation u32
//!  value    0  form u8 = 1    1  dataset u64     9  txg u64    17  time in service u64 (ns)
//!          25  sequence u32  29  fingerprint u64 37  answer (17, as of a reply)                    54
//! ```

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::BuildHasher;
use std::ops::{Deref, DerefMut, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use foldhash::quality::RandomState;
use parking_lot::{Mutex, MutexGuard};
use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{DatasetId, Known, SessionBytes, SlotMark, Time, Txg};

pub(crate) use lost::LostMarks;

use crate::key::{Class, KEY_BYTES, Key};
use crate::replies::Value;

/// How long the marks of a session are remembered behind its last change, once it is of a life before, in service.
pub const AGE_MAX: Duration = Duration::from_secs(3600);
/// Most marks of a pool: from here on sessions go, those of lives before first. Sessions that live have room for a quarter of it. A small pool has fewer.
pub const MARKS_MAX: usize = 262_144;
/// More than this program ever writes: a catalog with more of them was written by faulty software.
pub(crate) const READ_MAX: usize = 4 * MARKS_MAX;

const SHARD_COUNT: usize = 16;
/// What part of them goes at once, so that not each change looks for the oldest.
const ROOM_SHARE: usize = 16;
const FORM: u8 = 1;
const VALUE_BYTES: usize = 54;
/// What one takes of a leaf, half of which may be empty.
const MARK_BYTES: usize = 2 * (KEY_BYTES + VALUE_BYTES);
/// How often all of them may stand on the disks.
const FOLDS: u64 = 3;
/// Space for nodes of the catalog that are not full, and for those above leaves.
const NODES_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    dataset: DatasetId,
    txg: Txg,
    time: Time,
    sequence: u32,
    fingerprint: u64,
    answer: Value,
}

#[derive(Default)]
struct Shard {
    marks: BTreeMap<Key, Mark>,
    /// What groups have to take along: what is there by then, and what is gone.
    changed: BTreeSet<Key>,
    /// Sessions of lives before, and when each was last used.
    dead: BTreeMap<SessionBytes, Time>,
    /// An import replays: what is remembered is of a life before.
    is_replaying: bool,
    /// What that import could not read.
    lost: Arc<LostMarks>,
}

/// The marks of a pool.
pub struct Marks {
    shards: [Mutex<Shard>; SHARD_COUNT],
    /// A client sees the ids of its sessions, and could have them all in one shard.
    hasher: RandomState,
    count: AtomicUsize,
    most: AtomicUsize,
    making_room: Mutex<()>,
}

impl Default for Marks {
    fn default() -> Self {
        let (shards, hasher, count, making_room) = Default::default();
        Self { shards, hasher, count, most: AtomicUsize::new(MARKS_MAX), making_room }
    }
}

/// A shard that is locked. Behind it the marks have been counted.
struct Held<'a> {
    shard: MutexGuard<'a, Shard>,
    had: usize,
    count: &'a AtomicUsize,
}

impl Deref for Held<'_> {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        &self.shard
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // It goes round, both ways.
        self.count.fetch_add(self.shard.marks.len().wrapping_sub(self.had), Ordering::Relaxed);
    }
}

impl Marks {
    /// Takes in what the catalog says, at import, but for sessions of which some may be `lost`. Gives the newest time among them; a mark that cannot be read is forgotten,
    /// and no reason to keep the pool from everybody (rules S3).
    pub(crate) fn load(
        &self,
        found: BTreeMap<Key, Bytes>,
        lost: LostMarks,
        can_be: &CanBe,
        remarks: &mut Vec<String>,
    ) -> Time {
        let mut newest = Time(0);
        remarks.extend(lost.remark());
        let lost = Arc::new(lost);
        for mut shard in self.all_shards() {
            (shard.is_replaying, shard.lost) = (true, Arc::clone(&lost));
        }
        for (key, value) in found {
            let session = session_of(&key);
            let mut shard = self.shard(&session);
            if lost.may_have(&session) {
                shard.changed.insert(key);
                continue;
            }
            let read = Mark::decode(&value);
            match read.and_then(|mark| mark.can_be(can_be).then_some(mark).ok_or(Malformed("mark of a slot"))) {
                Ok(mark) => {
                    newest = newest.max(mark.time);
                    let used = shard.dead.entry(session).or_default();
                    *used = mark.time.max(*used);
                    shard.marks.insert(key, mark);
                }
                Err(why) => {
                    shard.changed.insert(key);
                    remarks.push(format!(
                        "what a request of a session has changed is forgotten: its client may be told of a failure if it asks again. {why}"
                    ));
                }
            }
        }
        newest
    }

    /// The pool has gone back: nothing of what the catalog says is taken in, and it goes with the next group.
    pub(crate) fn forget_all(&self, found: BTreeMap<Key, Bytes>) {
        found.into_keys().for_each(|key| _ = self.shard(&session_of(&key)).changed.insert(key));
    }

    /// Remembers what an operation was answered that changed `dataset` in `txg`, at the time in service `now`. A replay goes dataset by dataset, so it
    /// may tell of a slot's older request behind its newer one: that has had its answer.
    pub fn remember(&self, dataset: DatasetId, txg: Txg, now: Time, place: &SlotMark, answer: Value) {
        let SlotMark { session, slot, sequence, fingerprint, .. } = *place;
        self.make_room(Some(&session));
        let mut shard = self.shard(&session);
        if shard.lost.may_have(&session) {
            return;
        }
        if !shard.is_replaying {
            // Only who lives changes something.
            shard.dead.remove(&session);
        } else if let Some(used) = shard.dead.get_mut(&session) {
            *used = now;
        }
        let of_slot = || range_of(&session, slot..=slot);
        if shard.marks.range(of_slot()).any(|(_, mark)| is_newer(mark.sequence, sequence)) {
            return;
        }
        shard.drop_where(of_slot(), |mark| mark.sequence != sequence);
        let key = key_of(place);
        shard.marks.insert(key, Mark { dataset, txg, time: now, sequence, fingerprint, answer });
        shard.changed.insert(key);
    }

    /// All that is there from here on is of lives before: everything is replayed.
    pub fn begin_life(&self) {
        for mut shard in self.all_shards() {
            (shard.is_replaying, shard.lost) = (false, Arc::default());
            let used: Vec<_> = shard.marks.iter().map(|(key, mark)| (session_of(key), mark.time)).collect();
            for (session, time) in used {
                let used = shard.dead.entry(session).or_default();
                *used = time.max(*used);
            }
        }
    }

    /// These sessions live, also where this pool was imported only after they had begun: what they have changed is remembered as long as they do.
    pub fn keep(&self, living: &[SessionBytes]) {
        living.iter().for_each(|session| _ = self.shard(session).dead.remove(session));
    }

    /// What an operation was answered that changed this dataset.
    #[must_use]
    pub fn recall(&self, dataset: DatasetId, place: &SlotMark) -> Option<Value> {
        let shard = self.shard(&place.session);
        shard
            .marks
            .get(&key_of(place))
            .filter(|mark| mark.dataset == dataset && mark.is_of(place))
            .map(|mark| mark.answer)
    }

    /// What is known of the request of an operation, whatever it has changed.
    #[must_use]
    pub fn known(&self, place: &SlotMark) -> Known {
        let shard = self.shard(&place.session);
        let slot = range_of(&place.session, place.slot..=place.slot);
        if shard.marks.range(slot).any(|(_, mark)| mark.is_of(place)) {
            return Known::Request;
        }
        match shard.marks.range(range_of(&place.session, 0..=u32::MAX)).next() {
            Some(_) => Known::Session,
            None => Known::Nothing,
        }
    }

    /// A session is over: nobody will ask for what it has changed.
    pub fn forget(&self, session: &SessionBytes) {
        let mut shard = self.shard(session);
        shard.dead.remove(session);
        shard.drop_where(range_of(session, 0..=u32::MAX), |_| true);
    }

    /// Forgets everything about a dataset that was destroyed or rolled back.
    pub fn purge(&self, dataset: DatasetId) {
        self.all_shards().for_each(|mut shard| shard.drop_where(all(), |mark| mark.dataset == dataset));
    }

    /// What a group takes along: marks of it and of older ones, and keys that are gone.
    pub(crate) fn take(&self, txg: Txg, now: Time) -> (BTreeMap<Key, Bytes>, Vec<Key>) {
        let (mut there, mut gone) = (BTreeMap::new(), Vec::new());
        self.make_room(None);
        for mut shard in self.all_shards() {
            shard.expire(now);
            for key in std::mem::take(&mut shard.changed) {
                match shard.marks.get(&key) {
                    Some(mark) if mark.txg > txg => _ = shard.changed.insert(key),
                    Some(mark) => _ = there.insert(key, mark.encode()),
                    None => gone.push(key),
                }
            }
        }
        (there, gone)
    }

    /// All that a catalog says of them which is written with `txg`. One whose key has stood for a younger change since is not there for the time being.
    pub(crate) fn all(&self, txg: Txg) -> BTreeMap<Key, Bytes> {
        let of = |shard: &Mutex<Shard>| -> Vec<_> {
            let shard = shard.lock();
            let there = shard.marks.iter().filter(|(_, mark)| mark.txg <= txg);
            there.map(|(key, mark)| (*key, mark.encode())).collect()
        };
        self.shards.iter().flat_map(of).collect()
    }

    /// The keys that no group has taken along yet.
    pub(crate) fn pending(&self) -> BTreeSet<Key> {
        self.shards.iter().flat_map(|shard| shard.lock().changed.clone()).collect()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Space that all leaves with them may take, in bytes: a group rewrites those that changed, and what it replaces is free only when the group after
    /// the next begins.
    #[must_use]
    pub fn fold_bytes(&self) -> u64 {
        match self.count() {
            0 => 0,
            count => FOLDS * (count * MARK_BYTES + NODES_BYTES) as u64,
        }
    }

    /// They may take so much at most, as of [`Self::fold_bytes`]: the pool keeps a reserve by which something can be removed from it.
    pub(crate) fn bound(&self, bytes: u64) {
        let most = usize::try_from(bytes / FOLDS).unwrap_or(usize::MAX).saturating_sub(NODES_BYTES) / MARK_BYTES;
        self.most.store(most.min(MARKS_MAX), Ordering::Relaxed);
    }

    /// Where there are too many sessions go, as a whole, those of lives before first, and of either those that were used longest ago. Not the one for whose mark that is.
    fn make_room(&self, of: Option<&SessionBytes>) {
        let most = self.most.load(Ordering::Relaxed);
        if self.count() < most.max(1) {
            return;
        }
        // One is enough, and the next one finds the room.
        let Some(_one_at_a_time) = self.making_room.try_lock() else { return };
        let mut sessions: Vec<_> = self.all_shards().flat_map(|shard| shard.sessions()).collect();
        sessions.sort_unstable();
        for (.., session) in sessions.iter().filter(|(.., session)| Some(session) != of) {
            if self.count() < most - most / ROOM_SHARE {
                break;
            }
            self.shard(session).drop_session(session);
        }
    }

    fn shard(&self, session: &SessionBytes) -> Held<'_> {
        self.hold(&self.shards[self.hasher.hash_one(session) as usize % SHARD_COUNT])
    }

    fn all_shards(&self) -> impl Iterator<Item = Held<'_>> {
        self.shards.iter().map(|shard| self.hold(shard))
    }

    fn hold<'a>(&'a self, shard: &'a Mutex<Shard>) -> Held<'a> {
        let shard = shard.lock();
        Held { had: shard.marks.len(), shard, count: &self.count }
    }
}

impl Shard {
    fn drop_where(&mut self, range: RangeInclusive<Key>, is_gone: impl Fn(&Mark) -> bool) {
        let gone: Vec<_> = self.marks.range(range).filter(|(_, mark)| is_gone(mark)).map(|(key, _)| *key).collect();
        for key in gone {
            self.marks.remove(&key);
            self.changed.insert(key);
        }
    }

    fn drop_session(&mut self, session: &SessionBytes) {
        self.dead.remove(session);
        self.drop_where(range_of(session, 0..=u32::MAX), |_| true);
    }

    fn expire(&mut self, now: Time) {
        let oldest = now.0.saturating_sub(AGE_MAX.as_nanos() as u64);
        let late: HashSet<_> = self.dead.iter().filter(|(_, used)| used.0 < oldest).map(|(id, _)| *id).collect();
        late.iter().for_each(|session| self.drop_session(session));
    }

    /// Whether each lives, when it was used last, and which it is.
    fn sessions(&self) -> Vec<(bool, Time, SessionBytes)> {
        let mut last = BTreeMap::<SessionBytes, Time>::new();
        for (key, mark) in &self.marks {
            let used = last.entry(session_of(key)).or_default();
            *used = mark.time.max(*used);
        }
        let seen = |(id, used)| match self.dead.get(&id) {
            Some(used) => (false, *used, id),
            None => (true, used, id),
        };
        last.into_iter().map(seen).collect()
    }
}

impl Mark {
    fn is_of(&self, place: &SlotMark) -> bool {
        (self.sequence, self.fingerprint) == (place.sequence, place.fingerprint)
    }

    fn can_be(&self, can_be: &CanBe) -> bool {
        can_be(self.dataset, self.txg, self.time)
    }

    fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(VALUE_BYTES);
        out.put_u8(FORM);
        out.put_u64(self.dataset.0);
        out.put_u64(self.txg.0);
        out.put_u64(self.time.0);
        out.put_u32(self.sequence);
        out.put_u64(self.fingerprint);
        out.put(&self.answer);
        debug_assert_eq!(out.len(), VALUE_BYTES);
        out.into()
    }

    fn decode(value: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(value, "mark of a slot");
        if reader.u8()? != FORM {
            return Err(reader.malformed());
        }
        let (dataset, txg, time) = (DatasetId(reader.u64()?), Txg(reader.u64()?), Time(reader.u64()?));
        let (sequence, fingerprint, answer) = (reader.u32()?, reader.u64()?, reader.array()?);
        reader.end()?;
        Ok(Self { dataset, txg, time, sequence, fingerprint, answer })
    }
}

/// Whether such numbers can have been issued: a sound checksum does not say so.
pub(crate) type CanBe = dyn Fn(DatasetId, Txg, Time) -> bool;

/// What a mark says, for `tally inspect`: the session, the slot, the operation, the sequence, the dataset, the group.
pub(crate) fn said(key: &Key, value: &[u8]) -> Result<(SlotMark, DatasetId, Txg), Malformed> {
    let mark = Mark::decode(value)?;
    let (slot, operation) = ((key.b >> 32) as u32, key.b as u32);
    let Mark { sequence, fingerprint, .. } = mark;
    Ok((SlotMark { session: session_of(key), slot, operation, sequence, fingerprint }, mark.dataset, mark.txg))
}

/// Sequences of a slot go round (RFC 8881 §2.10.6.1).
fn is_newer(sequence: u32, than: u32) -> bool {
    sequence.wrapping_sub(than).cast_signed() > 0
}

fn key_of(place: &SlotMark) -> Key {
    key_at(&place.session, place.slot, place.operation)
}

fn key_at(session: &SessionBytes, slot: u32, operation: u32) -> Key {
    let (object, a) = (u64::from_be_bytes(*session.first_chunk().expect("eight of sixteen")), &session[8..]);
    let a = u64::from_be_bytes(a.try_into().expect("eight of sixteen"));
    Key::new(Class::Mark, object, a, u64::from(slot) << 32 | u64::from(operation))
}

fn range_of(session: &SessionBytes, slots: RangeInclusive<u32>) -> RangeInclusive<Key> {
    key_at(session, *slots.start(), 0)..=key_at(session, *slots.end(), u32::MAX)
}

fn all() -> RangeInclusive<Key> {
    range_of(&[0; 16], 0..=0).start().to_owned()..=key_at(&[u8::MAX; 16], u32::MAX, u32::MAX)
}

fn session_of(key: &Key) -> SessionBytes {
    let mut session = [0; 16];
    session[..8].copy_from_slice(&key.object.to_be_bytes());
    session[8..].copy_from_slice(&key.a.to_be_bytes());
    session
}

mod lost;

#[cfg(test)]
mod tests;
