//! Blocks in the order in which they came: the oldest goes first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{CacheKey, Cached, Holdings};

pub(super) struct Queue {
    entries: HashMap<CacheKey, (u64, Cached)>,
    /// The same, by the number under which they came.
    order: BTreeMap<u64, CacheKey>,
    next: u64,
    bytes: u64,
    holdings: Arc<Holdings>,
}

impl Queue {
    pub(super) fn new(holdings: &Arc<Holdings>) -> Self {
        let (entries, order, holdings) = (HashMap::new(), BTreeMap::new(), Arc::clone(holdings));
        Self { entries, order, next: 0, bytes: 0, holdings }
    }

    pub(super) fn push(&mut self, key: CacheKey, value: Cached) {
        drop(self.remove(&key));
        let at = self.next;
        self.next += 1;
        self.bytes += value.weight();
        self.holdings.gain(&value);
        self.order.insert(at, key);
        self.entries.insert(key, (at, value));
    }

    pub(super) fn get(&self, key: &CacheKey) -> Option<&Cached> {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub(super) fn remove(&mut self, key: &CacheKey) -> Option<Cached> {
        let (at, value) = self.entries.remove(key)?;
        self.order.remove(&at);
        self.bytes -= value.weight();
        self.holdings.lose(&value);
        Some(value)
    }

    pub(super) fn pop(&mut self) -> Option<Cached> {
        let key = *self.order.first_key_value()?.1;
        self.remove(&key)
    }

    /// The entry is found under `to` from now on, and keeps its turn.
    pub(super) fn rename(&mut self, from: &CacheKey, to: CacheKey) {
        if let Some((at, value)) = self.entries.remove(from) {
            drop(self.remove(&to));
            self.order.insert(at, to);
            self.entries.insert(to, (at, value));
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
