//! Random bytes that cost next to nothing (xorshift): drawing them from the kernel would take longer than sending
//! them. Every file needs its own: files of one directory lie side by side in the pool, and compression finds
//! what they have in common.

/// A stream of random numbers, which its seed repeats.
pub struct Random(u64);

impl Random {
    /// Streams of one seed differ from the start.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self((seed ^ stream << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for _warming_up in 0..8 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        // Zero would stay zero.
        self.0 |= u64::from(self.0 == 0);
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound
    }

    /// Fills all of `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            let drawn = self.next().to_le_bytes();
            word.copy_from_slice(&drawn[..word.len()]);
        }
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.fill(&mut bytes);
        bytes
    }

    /// Puts them into any order.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.below(last + 1));
        }
    }

    /// One of them, of which there must be some.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_streams_differ() {
        assert_eq!(Random::new(1, 2).bytes(100), Random::new(1, 2).bytes(100));
        assert_ne!(Random::new(1, 2).bytes(100), Random::new(1, 3).bytes(100));
        assert_ne!(Random::new(0, 0).bytes(8), [0; 8]);
    }
}
