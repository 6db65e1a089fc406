//! Nobody is accused because somebody has named the wrong disks: whatever is written must arrive there some time.
//!
//! Others may write there too, so a few mebibytes that arrive prove nothing. They have to arrive as often as they are
//! written, three times, each time over what arrives without: the rate of an idle period before is taken off while they
//! are waited for, and then six more idle periods, each as long as that took, must all have had less. A neighbour who
//! writes steadily fails by the first, one who writes in bursts by the second: of seven periods that are alike, that of
//! the mark is the busiest by chance in one case of seven, and thrice in one of 343.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::client::{Client, Interrupted, Pieces, Site};
use crate::meter::Meter;
use crate::referee::Pace;
use crate::stage::{TOLD_EVERY, Told};
use crate::wire::random_u32;
use crate::work::Watch;

/// How often it is written.
const MARKS: u32 = 3;
/// Idle periods that it is compared with.
const IDLE_PERIODS: u32 = 6;

/// Bytes that are written to see whether they arrive.
pub(super) struct Mark<'a> {
    pub(super) pace: Pace,
    pub(super) stop: &'a AtomicBool,
}

impl Mark<'_> {
    /// Whether they do, at the disks that are watched.
    pub(super) fn arrives<S: Site>(
        &self,
        site: &S,
        folder: &<S::Client as Client>::Node,
        watch: &mut dyn Watch,
        told: &mut dyn FnMut(Told<'_>),
    ) -> Result<bool> {
        let mut client = site.client(&Arc::new(Meter::default()))?;
        let file = client.create(folder, "mark")?;
        let length = site.piece_bytes(1 << 20);
        let count = self.pace.mark_bytes.div_ceil(length as u64);
        for _ in 0..MARKS {
            let rate = per_second(self.idle(self.pace.idle, watch, told)?, self.pace.idle);
            let (before, started) = (watch.work()?, Instant::now());
            client.write_long(&file, &mut Pieces::new(count, length, random_u32()?.into(), &mut || Ok(())))?;
            watch.write_out();
            let arrived = loop {
                let arrived = watch.work()?.since(&before).write_bytes;
                if arrived >= self.most() + in_time(rate, started.elapsed()) {
                    break arrived;
                }
                if started.elapsed() >= self.pace.arrival_max {
                    return Ok(false);
                }
                self.pause(TOLD_EVERY.min(self.pace.idle), told)?;
            };
            let took = started.elapsed().max(self.pace.idle);
            for _ in 0..IDLE_PERIODS {
                let idle = self.idle(took, watch, told)?;
                if arrived < idle + self.most() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Not all of them, because something always goes on besides: what the probe has left to be written counts as idle.
    fn most(&self) -> u64 {
        self.pace.mark_bytes / 4 * 3
    }

    /// Bytes that arrive in a time in which nothing is written here.
    fn idle(&self, time: Duration, watch: &mut dyn Watch, told: &mut dyn FnMut(Told<'_>)) -> Result<u64> {
        watch.write_out();
        let (before, started) = (watch.work()?, Instant::now());
        while started.elapsed() < time {
            self.pause(TOLD_EVERY.min(time), told)?;
        }
        Ok(watch.work()?.since(&before).write_bytes)
    }

    fn pause(&self, time: Duration, told: &mut dyn FnMut(Told<'_>)) -> Result<()> {
        ensure!(!self.stop.load(Relaxed), Interrupted);
        told(Told::Progress { what: "looking for what was written on the disks", done: 0, total: 0 });
        std::thread::sleep(time);
        Ok(())
    }
}

#[allow(clippy::cast_precision_loss)] // Far below 2^52 bytes.
fn per_second(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Bytes of some seconds.
fn in_time(rate: f64, time: Duration) -> u64 {
    (rate * time.as_secs_f64()) as u64
}
