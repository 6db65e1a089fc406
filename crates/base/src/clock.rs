use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::{Time, blocking};

/// Where the engine gets its time from.
pub trait Clock: Send + Sync {
    /// The time of day. It may jump; what must not go back is built above it.
    fn now(&self) -> Time;

    /// Time since some fixed moment; never goes back. For latencies and timeouts.
    fn monotonic(&self) -> Duration;

    /// Lets so much time go by. On clocks that are moved by somebody else it does nothing: nobody waits for them.
    fn sleep(&self, _time: Duration) {}
}

/// The machine's own clocks.
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, time: Duration) {
        blocking(|| std::thread::sleep(time));
    }
}
