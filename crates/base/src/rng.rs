/// Where the engine gets its randomness from: guids, generations, epochs, verifiers.
pub trait Rng: Send + Sync {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);

    /// 64 random bits.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// 128 random bits.
    fn next_u128(&self) -> u128 {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        u128::from_le_bytes(bytes)
    }
}

/// The kernel's generator, `getrandom(2)`.
#[derive(Default)]
pub struct SystemRng;

impl Rng for SystemRng {
    fn fill(&self, bytes: &mut [u8]) {
        let mut filled = 0;
        while filled < bytes.len() {
            match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("getrandom(2) failed, and no pool can be made without randomness: {error}"),
            }
        }
    }
}
