//! Numbers that a seed repeats.

/// A generator that a seed repeats exactly (splitmix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

/// What numbers are drawn for. Each has a stream of its own: its first number is here, and the n-th life, step or
/// request counts on from it. Two of the same number would draw the same, so the compiler refuses them; and whoever
/// changes one changes what every seed does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// Which bits of a block rot, by the block's place on the disk: below all others.
    Rot = 0,
    /// What the server takes for random.
    Server = 0x4e6,
    /// The disks, what will go wrong with them, and the clients.
    World = 0xd15c,
    /// What is done in a step.
    Act = 1 << 32,
    /// Requests inside of a device write of a sync, by the event.
    Interlude = 2 << 32,
    /// How that which a step does is done.
    Step = 3 << 32,
    /// What goes wrong before an import, and in it: sixteen for each life.
    Import = 4 << 32,
    /// How long a life is, and what is tried between two of them. The rot behind a life draws what the next life does.
    Life = 5 << 32,
    /// Whether a life ends by an export.
    Export = 6 << 32,
    /// Worlds in which every block rots in turn.
    EveryBlock = 7 << 32,
    /// Whether a request is dropped with its connection.
    Drop = 8 << 32,
    /// What the thread beside the history looks up.
    Beside = 9 << 32,
    /// Pieces of listings between two steps, beside a thread that syncs.
    ListingOfStep = 11 << 32,
    /// Pieces of listings inside of a device write of a sync, by the event.
    ListingInSync = 12 << 32,
    /// Which ordinary user sends a request.
    User = 13 << 32,
    /// What an ordinary user asks ACCESS for.
    Access = 14 << 32,
    /// What is read in order before a step, and what is fetched ahead of it.
    Ahead = 15 << 32,
    /// What is fetched ahead inside of a device write of a sync, by the event.
    AheadInSync = 16 << 32,
    /// Lives in which nobody asks for anything, by the life before.
    Idle = 17 << 32,
    /// As [`Self::Import`], behind such a life.
    IdleImport = 18 << 32,
    /// How much the reaper frees in a group.
    Reaper = 19 << 32,
    /// Whether an import goes back, and to which group: two for each life.
    Back = 20 << 32,
    /// Whether the disks of a vdev go away before a step, and what is tried until the pool is suspended.
    Outage = 21 << 32,
    /// What happens while a pool is suspended, by the life.
    Standstill = 22 << 32,
    /// Whether a pool whose sync failed stands still, or the power goes, by the sync.
    Halt = 23 << 32,
    /// What refused writes leave, by the life.
    LeftOfRefused = 24 << 32,
    /// Whether a life ends behind the end of a dataset, and of which.
    Destroy = 25 << 32,
    /// How many spares a pool has in the beginning.
    Spares = 26 << 32,
    /// What clients of version 4 do, and what becomes of them.
    Holding = 27 << 32,
    /// Whether sessions outlive the server, and what is reserved before a pool is filled.
    Reserve = 28 << 32,
}

impl Chance {
    /// The numbers of a seed for the `nth` of something.
    pub fn of(seed: u64, stream: Stream, nth: u64) -> Self {
        Self::new(seed, stream as u64 + nth)
    }

    /// Independent of every other pair of numbers.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut chance = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        chance.next();
        chance
    }

    /// The next number: 64 bits, all of them random.
    #[allow(clippy::should_implement_trait)] // It has no end, and nobody collects it.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `end`, exclusive.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in `count` times.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}
