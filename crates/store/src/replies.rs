//! The reply cache: which requests were carried out lately, so that a retransmission gets its first answer even
//! after a crash and after the log was trimmed (rules F12).
//!
//! It is state of the pool, not of a dataset's tree: a snapshot or a rollback must not bring old answers back.
//! Entries come with log records and are written with their transaction group into one of [`BUCKETS`] blocks, by
//! client; a group rewrites only the blocks of clients that sent something. An entry of a group that is still
//! open never reaches the block of an older one: the operation may be lost, and its answer must be lost with it.
//!
//! **Equal requests.** Two programs of a client may mean two things by requests that are equal but for the number of their
//! sender. Each has an entry of its own, and none pushes out another: the older one's group may be on disk when the younger
//! one's is lost, and then the older one's answer is the one that is true.
//!
//! **Ages are counted in service.** An answer is kept for a client that asks again, and the longest reason to ask again is
//! that nobody answered: a power cut, a disk that was replaced, a machine that took ten minutes to start. So the time of
//! an entry is not the time of day. It is a clock that stands still while the pool is away: it goes on from the newest
//! entry that was read at the import, by a clock that nobody sets.
//!
//! ```text
//! block:  count u32, each entry 81 bytes: dataset u64, txg u64, time in service u64 (ns), key 40, value 17
//! ```

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use foldhash::HashMap;
use parking_lot::Mutex;
use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{DatasetId, SECTOR, Time, Txg};

/// Blocks that the cache is spread over.
pub const BUCKETS: usize = 64;
/// Most entries of one client (one address).
pub const ENTRIES_PER_CLIENT_MAX: usize = 256;
/// Most entries of one bucket: 64 KiB of each block, 4 MiB of all.
pub const ENTRIES_PER_BUCKET_MAX: usize = (64 << 10) / ENTRY_BYTES;
/// How long an answer is remembered, in service.
pub const AGE_MAX: Duration = Duration::from_secs(120);

const ENTRY_BYTES: usize = 81;
const CLIENT_BYTES: usize = 16;
const COMMON_BYTES: usize = 32;

/// What identifies a request; its first 16 bytes are the client. A repetition is equal in the first 32. The others are the number
/// of its sender, big-endian.
pub type Key = [u8; 40];
type Common = [u8; COMMON_BYTES];
type Client = [u8; CLIENT_BYTES];
/// What is remembered of the answer.
pub type Value = [u8; 17];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    dataset: DatasetId,
    txg: Txg,
    time: Time,
    key: Key,
    value: Value,
}

#[derive(Default)]
struct Bucket {
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// How many of them there are of equal requests: most of those that are asked for are not here.
    index: HashMap<(DatasetId, Common), usize>,
    /// Entries of each client.
    of_client: HashMap<Client, usize>,
    /// Whether something came or went since the last fold.
    changed: bool,
}

/// The reply cache of a pool.
pub struct ReplyCache {
    buckets: [Mutex<Bucket>; BUCKETS],
    /// Entries of all buckets.
    count: AtomicUsize,
    /// The newest entry that was loaded: from there the time in service goes on.
    newest_loaded: AtomicU64,
}

impl Default for ReplyCache {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| Mutex::default()),
            count: AtomicUsize::new(0),
            newest_loaded: AtomicU64::new(0),
        }
    }
}

impl ReplyCache {
    fn bucket(&self, key: &Key) -> &Mutex<Bucket> {
        let hash = tally_base::name_hash(0, &key[..CLIENT_BYTES]);
        &self.buckets[(hash % BUCKETS as u64) as usize]
    }

    /// The time in service, so long after the import.
    #[must_use]
    pub fn time(&self, since_import: Duration) -> Time {
        let since_import = u64::try_from(since_import.as_nanos()).unwrap_or(u64::MAX);
        Time(self.newest_loaded.load(Ordering::Relaxed).saturating_add(since_import))
    }

    /// Remembers an answer that was given in `txg` at the time in service `now`.
    pub fn remember(&self, dataset: DatasetId, txg: Txg, now: Time, key: Key, value: Value) {
        let mut bucket = self.bucket(&key).lock();
        let before = bucket.entries.len();
        bucket.expire(now);
        bucket.make_room(&key);
        bucket.push(Entry { dataset, txg, time: now, key, value });
        bucket.changed = true;
        self.recount(before, &bucket);
    }

    /// The last answer to a request that is equal to `key`, of those whose sender's number `is_his` says yes to, if it is not older
    /// than [`AGE_MAX`] at `now`.
    #[must_use]
    pub fn recall(&self, dataset: DatasetId, now: Time, key: &Key, is_his: impl Fn(u64) -> bool) -> Option<Value> {
        let mut bucket = self.bucket(key).lock();
        let before = bucket.entries.len();
        bucket.expire(now);
        self.recount(before, &bucket);
        let common = common_of(key);
        bucket.index.get(&(dataset, common))?;
        let is_it = |entry: &&Entry| entry.dataset == dataset && common_of(&entry.key) == common;
        bucket.entries.iter().rev().filter(is_it).find(|entry| is_his(number_of(&entry.key))).map(|entry| entry.value)
    }

    /// Forgets everything about a dataset that was destroyed or rolled back.
    pub fn purge(&self, dataset: DatasetId) {
        for bucket in &self.buckets {
            let mut bucket = bucket.lock();
            let before = bucket.entries.len();
            bucket.drop_where(|entry| entry.dataset == dataset);
            bucket.changed = true;
            self.recount(before, &bucket);
        }
    }

    /// The content of every bucket that changed, with only the entries of groups up to `txg`.
    #[must_use]
    pub fn fold(&self, txg: Txg) -> Vec<(usize, Vec<u8>)> {
        let mut changed = Vec::new();
        for (number, bucket) in self.buckets.iter().enumerate() {
            let mut bucket = bucket.lock();
            if bucket.changed {
                changed.push((number, bucket.encode(txg)));
                // Entries of younger groups are still to be written.
                bucket.changed = bucket.entries.iter().any(|entry| entry.txg > txg);
            }
        }
        changed
    }

    /// The next fold writes this bucket, whatever is in it.
    pub fn rewrite(&self, bucket: usize) {
        self.buckets[bucket].lock().changed = true;
    }

    /// Takes in a bucket's block at import, all of it or nothing.
    pub fn load(&self, block: &[u8]) -> Result<(), Malformed> {
        for entry in decode(block)? {
            let mut bucket = self.bucket(&entry.key).lock();
            let before = bucket.entries.len();
            self.newest_loaded.fetch_max(entry.time.0, Ordering::Relaxed);
            bucket.push(entry);
            self.recount(before, &bucket);
        }
        Ok(())
    }

    /// An import has read something of that time elsewhere.
    pub(crate) fn note_loaded(&self, newest: Time) {
        self.newest_loaded.fetch_max(newest.0, Ordering::Relaxed);
    }

    /// Entries in all.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Space that all blocks may take, in bytes: a group rewrites those that changed, and what it replaces is free only
    /// when the group after the next begins.
    #[must_use]
    pub fn fold_bytes(&self) -> u64 {
        let count = self.count();
        3 * (count * ENTRY_BYTES + count.min(BUCKETS) * SECTOR) as u64
    }

    /// After a change of a bucket that had so many entries.
    fn recount(&self, before: usize, bucket: &Bucket) {
        let now = bucket.entries.len();
        if now >= before {
            self.count.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.count.fetch_sub(before - now, Ordering::Relaxed);
        }
    }
}

impl Bucket {
    fn expire(&mut self, now: Time) {
        let oldest = now.0.saturating_sub(AGE_MAX.as_nanos() as u64);
        while self.entries.front().is_some_and(|entry| entry.time.0 < oldest) {
            self.drop_at(0);
        }
    }

    fn make_room(&mut self, key: &Key) {
        let client = client_of(key);
        if self.of_client.get(&client).is_some_and(|count| *count >= ENTRIES_PER_CLIENT_MAX) {
            let oldest = self.entries.iter().position(|entry| client_of(&entry.key) == client);
            self.drop_at(oldest.expect("there are many"));
        }
        if self.entries.len() >= ENTRIES_PER_BUCKET_MAX {
            self.drop_at(0);
        }
    }

    fn push(&mut self, entry: Entry) {
        *self.index.entry((entry.dataset, common_of(&entry.key))).or_default() += 1;
        *self.of_client.entry(client_of(&entry.key)).or_default() += 1;
        self.entries.push_back(entry);
    }

    fn drop_at(&mut self, position: usize) {
        let Some(entry) = self.entries.remove(position) else { return };
        count_off(&mut self.index, (entry.dataset, common_of(&entry.key)));
        count_off(&mut self.of_client, client_of(&entry.key));
        self.changed = true;
    }

    fn drop_where(&mut self, is_gone: impl Fn(&Entry) -> bool) {
        let mut position = 0;
        while let Some(entry) = self.entries.get(position) {
            if is_gone(entry) {
                self.drop_at(position);
            } else {
                position += 1;
            }
        }
    }

    fn encode(&self, txg: Txg) -> Vec<u8> {
        let entries: Vec<&Entry> = self.entries.iter().filter(|entry| entry.txg <= txg).collect();
        let mut out = Vec::with_capacity(4 + entries.len() * ENTRY_BYTES);
        out.put_u32(entries.len() as u32);
        for entry in entries {
            out.put_u64(entry.dataset.0);
            out.put_u64(entry.txg.0);
            out.put_u64(entry.time.0);
            out.put(&entry.key);
            out.put(&entry.value);
        }
        out
    }
}

fn decode(block: &[u8]) -> Result<Vec<Entry>, Malformed> {
    let mut reader = Reader::new(block, "reply cache block");
    let count = reader.u32()? as usize;
    if count > ENTRIES_PER_BUCKET_MAX {
        return Err(reader.malformed());
    }
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let (dataset, txg, time) = (DatasetId(reader.u64()?), Txg(reader.u64()?), Time(reader.u64()?));
        entries.push(Entry { dataset, txg, time, key: reader.array()?, value: reader.array()? });
    }
    Ok(entries)
}

/// One less of those, and no line of what is not there.
fn count_off<K: Eq + std::hash::Hash>(counts: &mut HashMap<K, usize>, key: K) {
    if let std::collections::hash_map::Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

fn client_of(key: &Key) -> Client {
    *key.first_chunk().expect("a key begins with its client")
}

fn common_of(key: &Key) -> Common {
    *key.first_chunk().expect("a key begins with what repetitions share")
}

fn number_of(key: &Key) -> u64 {
    u64::from_be_bytes(*key.last_chunk().expect("a key ends with its sender's number"))
}

#[cfg(test)]
mod tests;
