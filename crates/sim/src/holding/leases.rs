//! When a lease is over, as a reader of RFC 8881 §8.3 would say who watches the server from outside: it runs while the server answers, and behind a time in which it did
//! not answer it stands still for as long as it is (rules V21).

use std::time::Duration;

use super::world::World;

/// As clients are told.
pub(super) const LEASE: Duration = Duration::from_secs(90);
/// How often the server looks at its clock.
const LOOK: Duration = Duration::from_millis(1000);

/// Time that counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leases {
    /// By a clock that does not go back.
    at: Duration,
    counted: Duration,
    still_until: Duration,
}

impl Leases {
    /// What counts so far.
    pub(super) fn now(&self) -> Duration {
        self.counted
    }

    /// A second goes by while the server answers, or what is left of this time.
    pub(super) fn pass(&mut self, left: &mut Duration, world: &World) {
        let step = LOOK.min(*left);
        *left -= step;
        self.at += step;
        if self.at > self.still_until {
            self.counted += step.min(self.at - self.still_until);
        }
        world.look_at_clock(self.at);
    }

    /// So much goes by in which nobody is answered.
    pub(super) fn jump(&mut self, time: Duration, world: &World) {
        self.at += time;
        self.still_until = self.at + LEASE;
        world.look_at_clock(self.at);
    }

    /// Another process looks at the clock, for the first time.
    pub(super) fn begin_life(&mut self, world: &World) {
        self.still_until = self.at;
        world.look_at_clock(self.at);
    }
}
