//! Sparse bytes, cheap to copy: a disk's content.

use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;

/// Pages by number; what is not there is zeroes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pages(HashMap<u64, Arc<[u8; PAGE]>>);

impl Pages {
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let within = (at % PAGE as u64) as usize;
            let length = (PAGE - within).min(bytes.len() - done);
            let page = self.0.entry(at / PAGE as u64).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[within..within + length].copy_from_slice(&bytes[done..done + length]);
            done += length;
        }
    }

    pub(super) fn read(&self, offset: u64, into: &mut [u8]) {
        for (at, part) in into.chunks_mut(PAGE).enumerate() {
            match self.0.get(&(offset / PAGE as u64 + at as u64)) {
                Some(page) => part.copy_from_slice(&page[..part.len()]),
                None => part.fill(0),
            }
        }
    }

    /// Numbers of the pages that were ever written, in order.
    pub(super) fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.0.keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }
}
