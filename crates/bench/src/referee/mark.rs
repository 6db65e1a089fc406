//! Whose the disks are: before somebody is accused, what is written to him must be seen to arrive there.
//!
//! Others may write to a disk as well. So three marks are written, each four times as long as the one before, and each
//! has to arrive as what comes beyond the pace that the disks had without it, not many times over, and when it is there no
//! more must come. No steady writer and no bursts of one size look like that three times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::client::{Client, Interrupted, Pieces, Site};
use crate::meter::Meter;
use crate::stage::Told;
use crate::wire::{Refused, random_u32};
use crate::witness::Pace;
use crate::work::Watch;

const MARKS: [u64; 3] = [2 << 20, 8 << 20, 32 << 20];
/// A log, a mirror of three, and what a file system writes around it: so many times a mark may arrive.
const TIMES_MAX: u64 = 8;
/// How often a mark is written that somebody else's writes were mixed with.
const TRIES: u32 = 3;
/// The part of a mark that must come beyond the pace before it, which is not known to the byte.
const ARRIVED_PART_MIN: f64 = 0.75;
/// Between two looks.
const STEP: Duration = Duration::from_millis(20);

/// Nobody is accused because somebody has named the wrong disks. Gives the reason why it cannot be known.
pub(crate) fn disks_are_theirs<S: Site>(
    site: &S,
    folder: &<S::Client as Client>::Node,
    watch: &mut dyn Watch,
    pace: &Pace,
    stop: &AtomicBool,
    told: &mut dyn FnMut(Told<'_>),
) -> Result<Option<String>> {
    let mut looks = Looks { watch, pace, stop, told };
    for bytes in MARKS {
        let mut arrival = Arrival::Disturbed;
        for number in 0..TRIES {
            // Longer each time: the more of their writes, the better their pace is known.
            let before = looks.flow(pace.idle * (1 << number))?;
            if let Err(error) = write(site, folder, &format!("mark-{bytes}-{number}"), bytes, stop) {
                let Some(refused) = error.downcast_ref::<Refused>() else { return Err(error) };
                let reason = format!("whether the disks are the server's cannot be seen: it takes no more ({refused})");
                return Ok(Some(reason));
            }
            looks.watch.write_out();
            arrival = looks.arrival(bytes, before)?;
            if arrival != Arrival::Disturbed {
                break;
            }
        }
        if arrival != Arrival::Alone {
            return Ok(Some(format!(
                "{} were written, and the disks that are watched did not get them, or are so busy that it cannot be \
                 told: are they those below the server, and is that on this machine?",
                tally_base::Size(bytes)
            )));
        }
    }
    Ok(None)
}

fn write<S: Site>(
    site: &S,
    folder: &<S::Client as Client>::Node,
    name: &str,
    bytes: u64,
    stop: &AtomicBool,
) -> Result<()> {
    let mut client = site.client(&Arc::new(Meter::default()))?;
    let file = client.create(folder, name)?;
    let length = site.piece_bytes(1 << 20);
    let mut go_on = || {
        ensure!(!stop.load(Relaxed), Interrupted);
        Ok(())
    };
    client.write_long(&file, &mut Pieces::new(bytes / length as u64, length, random_u32()?.into(), &mut go_on))
}

/// How a mark came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrival {
    /// It and little else.
    Alone,
    /// So many bytes came, and they need not have been it.
    Disturbed,
    Never,
}

struct Looks<'a, 'b> {
    watch: &'a mut dyn Watch,
    pace: &'a Pace,
    stop: &'a AtomicBool,
    told: &'a mut dyn FnMut(Told<'b>),
}

/// Bytes in a second, and what was written until they were counted.
#[derive(Clone, Copy)]
struct Flow {
    bytes_per_second: f64,
    at: Instant,
    written: u64,
}

impl Looks<'_, '_> {
    fn step(&mut self) -> Result<u64> {
        ensure!(!self.stop.load(Relaxed), Interrupted);
        (self.told)(Told::Progress { what: "looking for what was written on the disks", done: 0, total: 0 });
        std::thread::sleep(STEP);
        Ok(self.watch.work()?.write_bytes)
    }

    /// The flow of this time: that of the middle one of its steps, as a burst among them is none.
    #[allow(clippy::cast_precision_loss)] // Far below 2^52.
    fn flow(&mut self, time: Duration) -> Result<Flow> {
        let started = Instant::now();
        let (mut written, mut at) = (self.watch.work()?.write_bytes, started);
        let mut rates = Vec::new();
        while rates.is_empty() || started.elapsed() < time {
            let now = self.step()?;
            let (bytes, seconds) = (now.saturating_sub(written) as f64, at.elapsed().as_secs_f64());
            (written, at) = (now, Instant::now());
            rates.push(bytes / seconds);
        }
        rates.sort_by(f64::total_cmp);
        let bytes_per_second = rates.get(rates.len() / 2).copied().unwrap_or_default();
        Ok(Flow { bytes_per_second, at, written })
    }

    /// How a mark of so many bytes comes, on top of the flow before.
    #[allow(clippy::cast_precision_loss)]
    fn arrival(&mut self, bytes: u64, flow: Flow) -> Result<Arrival> {
        let mark = bytes as f64;
        let beyond = |written: u64, flow: &Flow| {
            written.saturating_sub(flow.written) as f64 - flow.bytes_per_second * flow.at.elapsed().as_secs_f64()
        };
        let mut written = flow.written;
        while beyond(written, &flow) < mark * ARRIVED_PART_MIN {
            if flow.at.elapsed() >= self.pace.arrival {
                let came = written.saturating_sub(flow.written);
                return Ok(if came < bytes { Arrival::Never } else { Arrival::Disturbed });
            }
            written = self.step()?;
        }
        // All of it, with what a server writes a second time.
        let took = flow.at.elapsed();
        let mut last = (written, Instant::now());
        while last.1.elapsed() < self.pace.idle / 2 && last.1 - flow.at < 2 * took + self.pace.idle {
            written = self.step()?;
            if written.saturating_sub(last.0) as f64 > flow.bytes_per_second * 2.0 * STEP.as_secs_f64() {
                last = (written, Instant::now());
            }
        }
        if beyond(written, &flow) > mark * TIMES_MAX as f64 {
            return Ok(Arrival::Disturbed);
        }
        let before = Flow { at: Instant::now(), written, ..flow };
        let still = took.max(self.pace.idle);
        while before.at.elapsed() < still {
            written = self.step()?;
        }
        let is_still = beyond(written, &before) < mark / 2.0;
        Ok(if is_still { Arrival::Alone } else { Arrival::Disturbed })
    }
}
