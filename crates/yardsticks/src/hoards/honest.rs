//! The honest client: a durable SETATTR and a READ, one after the other, at a pace that a person would have.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use tally_bench::wire::Target;
use tally_wire::ask::{self, How};
use tally_wire::nfs4::{Fattr4, Fattr4Value, NfsArgop4, Setattr4Args, Stateid4};

use crate::session::{Request, Session, handle, put};

/// Between two requests.
const PACE: Duration = Duration::from_millis(4);
/// The priority of its thread, as nice(2) counts it: it has a machine of its own as well.
const FIRST_IN_TURN: i32 = -15;
/// A request below this is answered at once: a thread that is not on a processor.
const AT_ONCE: Duration = Duration::from_millis(5);

pub(super) struct Honest {
    session: Session,
    change: Request,
    read: Request,
}

impl Honest {
    pub(super) fn begin(target: &Target) -> Result<Self> {
        let mut session = Session::open(target.nfs)?;
        let root = session.mount(&target.export)?;
        let file = handle(session.run(&[put(&root), ask::open(How::Make, "honest"), NfsArgop4::OpGetfh])?)?;
        let stateid = Stateid4 { seqid: 0, other: [0; 12] };
        session.run(&[put(&file), ask::write(&stateid, 0, &[7; 4096])])?;
        let obj_attributes = Fattr4::of(&[Fattr4Value::Fattr4Mode(0o640)]);
        let set = NfsArgop4::OpSetattr(Setattr4Args { stateid: stateid.clone(), obj_attributes });
        let change = session.request(&[put(&file), set]);
        let read = session.request(&[put(&file), ask::read(&stateid, 0, 4096)]);
        Ok(Self { session, change, read })
    }

    /// Until it is done.
    pub(super) fn work(&mut self, done: &AtomicBool) -> Result<Times> {
        // Without the right to it, it waits for its turn.
        let _ = rustix::process::nice(FIRST_IN_TURN);
        let mut times = Times::default();
        while !done.load(Ordering::Relaxed) {
            for (request, series) in [(&mut self.change, &mut times.changes), (&mut self.read, &mut times.reads)] {
                let began = Instant::now();
                self.session.ask(request)?;
                series.push(began.elapsed());
                std::thread::sleep(PACE);
            }
        }
        [&mut times.changes, &mut times.reads].into_iter().for_each(|series| series.sort_unstable());
        Ok(times)
    }
}

/// How long requests took, shortest first.
#[derive(Default)]
pub(super) struct Times {
    changes: Vec<Duration>,
    reads: Vec<Duration>,
}

fn quantile(series: &[Duration], part: f64) -> Duration {
    let at = (series.len() as f64 * part) as usize;
    series.get(at.min(series.len().saturating_sub(1))).copied().unwrap_or_default()
}

impl Times {
    pub(super) fn is_like(&self, others: &Self, slower_max: f64) -> bool {
        [(&self.changes, &others.changes), (&self.reads, &others.reads)]
            .into_iter()
            .all(|(own, other)| quantile(own, 0.99) <= quantile(other, 0.99).mul_f64(slower_max).max(AT_ONCE))
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("honest:")?;
        for (name, series) in [("SETATTR", &self.changes), ("READ", &self.reads)] {
            let [p50, p99] = [0.5, 0.99].map(|part| quantile(series, part).as_secs_f64() * 1000.0);
            write!(f, " {name} {p50:.2} {p99:.2}")?;
        }
        f.write_str(" ms")
    }
}
