//! Answers to retransmissions, as far as memory goes: a request that comes twice is carried out once.
//!
//! A client that misses a reply sends the request again under the same xid, and a second REMOVE answers
//! NOENT. So the answers of modifying procedures are kept for a while. Three rules decide who gets one
//! (rules F12):
//!
//! - An entry fits only if client address, xid, procedure, arguments and ids are all equal ([`ReplyKey`]).
//!   User-space clients start at fixed xids, and their second process must not get the first one's answers.
//! - An entry made on a connection that is still alive answers only that connection, for the same reason:
//!   two live connections of one client are two senders, and a client retransmits elsewhere only after its
//!   connection broke. A client may be faster than the news of that: it hangs up, connects and repeats, and
//!   the repetition is looked at before the hang-up, or before the first transmission even. So the kernel is
//!   asked whether both connections live ([`Link::is_alive`]).
//! - A request whose first transmission is still being worked on is attached to it, and gets its answer. Of very many
//!   connections that ask some hear when they ask again; none is told to.
//!
//! Nobody comes this far whom rule, port or handle refuse (see [`crate::service`]): they get no answer
//! from here, take no place, and what they are told is not kept.
//!
//! What outlives a crash is kept by the file system (`Vfs::remembered_of`), longer than here; this cache spares it the question
//! and covers WRITE and failures as well. Whose an answer is that is kept there, [`crate::senders`] knows. Where a pool is taken up as after a crash, in the same process, an answer that waited
//! for nothing may rest on what is gone: it is forgotten, and the file system is asked ([`Replies::forget_unwaited`]).
//!
//! Entries are spread over shards by their key, so that no lock is on the path of every request. The bounds
//! are those of the rules, each shard having its part: 256 entries and 120 seconds a client, 4 MiB in all.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use parking_lot::Mutex;
use tally_base::PoolGuid;
use tally_vfs::ReplyKey;

use crate::link::Link;
use crate::rpc::Reply;

const SHARD_COUNT: usize = 16;
/// Entries of one client in all.
pub const CLIENT_ENTRIES_MAX: usize = 256;
/// Bytes in all, with what each entry costs beside its reply.
pub const TOTAL_BYTES_MAX: usize = 4 << 20;
/// How long an answer is kept.
pub const AGE_MAX: Duration = Duration::from_secs(120);
/// Repetitions that may wait for one answer beside the first.
const ATTACHED_MAX: usize = 4;
/// Maps, keys and queue places of an entry, roughly.
const ENTRY_BYTES: usize = 300;

/// What becomes of a request that may be a retransmission.
#[derive(Debug)]
pub enum Begin {
    /// It is new: carry it out, then [`Replies::finish`] it.
    New,
    /// It looks like another live connection's request: carry it out, and remember nothing.
    Apart,
    /// It was carried out, and this was the answer.
    Again(Reply),
    /// It is being carried out; its answer will go to this connection too, if not too many wait for it. Nobody may be told that
    /// nothing was done.
    Attached,
}

/// First answers by request, in shards so that workers do not wait for each other.
pub struct Replies {
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<ReplyKey, Entry>,
    /// Finished entries, oldest first; an entry that was replaced has a newer number than its place here.
    order: VecDeque<(u64, ReplyKey)>,
    per_client: HashMap<[u8; 16], usize>,
    bytes: usize,
    next_number: u64,
}

struct Entry {
    /// The connection it was made on.
    link: Arc<Link>,
    state: EntryState,
}

enum EntryState {
    Running { attached: Vec<Arc<Link>> },
    Finished { number: u64, reply: Reply, at: Duration, about: Kept },
}

/// What is remembered beside an answer.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// It is about something in that pool.
    pub pool: PoolGuid,
    /// Whether it waited until what it says was durable.
    pub has_waited: bool,
}

impl Default for Replies {
    fn default() -> Self {
        Self { shards: (0..SHARD_COUNT).map(|_| Mutex::default()).collect() }
    }
}

impl Replies {
    /// A request arrives, `now` on a clock that never goes back.
    pub fn begin(&self, key: &ReplyKey, link: &Arc<Link>, now: Duration) -> Begin {
        let mut shard = self.shard(key).lock();
        shard.forget_old(now);
        if let Some(entry) = shard.entries.get_mut(key) {
            let ours = entry.link.id() == link.id();
            if !ours && entry.link.is_alive() && link.is_alive() {
                return Begin::Apart;
            }
            return match &mut entry.state {
                EntryState::Finished { reply, .. } => Begin::Again(reply.clone()),
                EntryState::Running { attached } => {
                    attach(attached, link);
                    Begin::Attached
                }
            };
        }
        let state = EntryState::Running { attached: Vec::new() };
        shard.entries.insert(*key, Entry { link: link.clone(), state });
        Begin::New
    }

    /// A request that [`Replies::begin`] called new has its answer. With `keep` it is remembered, as one about that; this is asked
    /// where no [`Replies::forget`] or [`Replies::forget_unwaited`] can come in between. Gives the connections that wait for it
    /// beside the one that it came on.
    pub fn finish(
        &self,
        key: &ReplyKey,
        reply: &Reply,
        keep: impl FnOnce() -> Option<Kept>,
        now: Duration,
    ) -> Vec<Arc<Link>> {
        let mut shard = self.shard(key).lock();
        let Some(Entry { link, state: EntryState::Running { attached } }) = shard.entries.remove(key) else {
            return Vec::new();
        };
        if let Some(about) = keep().filter(|_| reply.is_plain()) {
            shard.keep(*key, link, about, reply.clone(), now);
        }
        attached
    }

    /// The connection is gone of a request that is being carried out: gives one that lives and waits for its answer. The request
    /// is that one's from now on.
    pub fn hand_over(&self, key: &ReplyKey) -> Option<Arc<Link>> {
        let mut shard = self.shard(key).lock();
        let Entry { link, state: EntryState::Running { attached } } = shard.entries.get_mut(key)? else {
            return None;
        };
        let heir = attached.iter().position(|waiting| waiting.is_alive())?;
        *link = attached.swap_remove(heir);
        Some(link.clone())
    }

    /// Forgets all answers about a pool: what they are about was given up, and may come once more. Those about other pools
    /// stay, or a REMOVE there that is sent again would find nothing.
    pub fn forget(&self, pool: PoolGuid) {
        self.shards.iter().for_each(|shard| shard.lock().forget_all(|about| about.pool == pool));
    }

    /// A pool is taken up as after a crash: forgets those answers about it that waited for nothing, as under `sync=disabled`. What
    /// they tell of may be gone with its memory, and a repetition is carried out unless the pool itself remembers it.
    pub fn forget_unwaited(&self, pool: PoolGuid) {
        self.shards.iter().for_each(|shard| shard.lock().forget_all(|about| about.pool == pool && !about.has_waited));
    }

    /// Entries that are kept now.
    #[must_use]
    pub fn entry_count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().entries.len()).sum()
    }

    /// Bytes that they take.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes).sum()
    }

    /// Successive xids go to successive shards, so that a client's part is spread evenly.
    fn shard(&self, key: &ReplyKey) -> &Mutex<Shard> {
        let [.., a, b] = key.0.first_chunk::<20>().copied().unwrap_or_default();
        &self.shards[usize::from(a ^ b ^ (b >> 4)) % SHARD_COUNT]
    }
}

/// Has a connection wait for an answer. Where too many wait each does once, and of more than that some hear when they ask again.
fn attach(attached: &mut Vec<Arc<Link>>, link: &Arc<Link>) {
    let is_new = attached.iter().all(|waiting| waiting.id() != link.id());
    if attached.len() >= ATTACHED_MAX && is_new {
        attached.retain(|waiting| waiting.is_open());
        attached.sort_by_key(|waiting| waiting.id());
        attached.dedup_by_key(|waiting| waiting.id());
    }
    if attached.len() < ATTACHED_MAX {
        attached.push(link.clone());
    }
}

impl Shard {
    fn keep(&mut self, key: ReplyKey, link: Arc<Link>, about: Kept, reply: Reply, now: Duration) {
        let number = self.next_number;
        self.next_number += 1;
        self.bytes += ENTRY_BYTES + reply.wire_bytes();
        self.order.push_back((number, key));
        *self.per_client.entry(key.client()).or_default() += 1;
        self.entries.insert(key, Entry { link, state: EntryState::Finished { number, reply, at: now, about } });
        if self.per_client.get(&key.client()).is_some_and(|count| *count > CLIENT_ENTRIES_MAX / SHARD_COUNT) {
            self.forget_oldest_of(key.client());
        }
        while self.bytes > TOTAL_BYTES_MAX / SHARD_COUNT {
            self.forget_first();
        }
    }

    fn forget_old(&mut self, now: Duration) {
        while let Some((_, key)) = self.order.front() {
            let young = self.entries.get(key).is_some_and(|entry| match &entry.state {
                EntryState::Finished { at, .. } => now.saturating_sub(*at) <= AGE_MAX,
                EntryState::Running { .. } => false,
            });
            if young {
                return;
            }
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((number, key)) = self.order.pop_front() {
            self.forget(number, &key);
        }
    }

    fn forget_oldest_of(&mut self, client: [u8; 16]) {
        let Some(at) = self.order.iter().position(|(_, key)| key.client() == client) else { return };
        if let Some((number, key)) = self.order.remove(at) {
            self.forget(number, &key);
        }
    }

    fn forget_all(&mut self, which: impl Fn(&Kept) -> bool) {
        let is_one = |key: &ReplyKey| match self.entries.get(key).map(|entry| &entry.state) {
            Some(EntryState::Finished { about, .. }) => which(about),
            Some(EntryState::Running { .. }) | None => false,
        };
        let (gone, left) = std::mem::take(&mut self.order).into_iter().partition(|(_, key)| is_one(key));
        self.order = left;
        let gone: VecDeque<(u64, ReplyKey)> = gone;
        gone.iter().for_each(|(number, key)| self.forget(*number, key));
    }

    /// Drops what a place in the order stands for.
    fn forget(&mut self, number: u64, key: &ReplyKey) {
        if let Some(count) = self.per_client.get_mut(&key.client()) {
            *count -= 1;
            if *count == 0 {
                self.per_client.remove(&key.client());
            }
        }
        let current = matches!(
            self.entries.get(key),
            Some(Entry { state: EntryState::Finished { number: held, .. }, .. }) if *held == number
        );
        if current && let Some(Entry { state: EntryState::Finished { reply, .. }, .. }) = self.entries.remove(key) {
            self.bytes -= ENTRY_BYTES + reply.wire_bytes();
        }
    }
}

#[cfg(test)]
mod tests;
