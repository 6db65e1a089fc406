//! The counters of our own daemon, for the referee: asked over the control socket before and after.
//!
//! A daemon on this machine need not be the server that is measured: there may be two, or the target is elsewhere. A
//! port proves little. So a handful of folders is made at the target, and the daemon must have counted as many MKDIRs.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tally_bench::client::{Client as _, Site};
use tally_bench::meter::Meter;
use tally_bench::work::{LogWork, Watch, Work};

use crate::control::client::{Client, ClientError};
use crate::control::message::{Reply, Request};
use crate::control::report::{IoCounters, PoolReport};

/// Folders that are made to be recognised: more than others are likely to make in the same moment.
const FOLDERS: u64 = 23;
/// Others may make folders meanwhile, so it is tried more than once.
const TRIES: usize = 3;
/// A request is counted when its reply has been sent, for only then it is known how long it took; on a busy machine the
/// client may be back to ask for the count before that.
const COUNTED_WITHIN: Duration = Duration::from_secs(2);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Our daemon's counters if it serves the place, or why nobody watches.
pub(super) fn watch<S: Site>(site: &S, export: Option<&str>, socket: Option<&Path>) -> Result<Box<dyn Watch>, String> {
    const ADVICE: &str = "name the disks below the server with --device";
    let client = match Client::connect(socket) {
        Ok(client) => client,
        Err(ClientError::NoDaemon { .. }) => return Err(format!("nobody counts what the disks do: {ADVICE}")),
        Err(error) => return Err(format!("{error}\nOr {ADVICE}.")),
    };
    let mut daemon = Daemon { client, pools: Vec::new() };
    let found = daemon.serves(site).and_then(|serves| {
        daemon.pools = export.map(|export| daemon.pool_of(export)).transpose()?.flatten().into_iter().collect();
        Ok(serves)
    });
    match found {
        Ok(true) => Ok(Box::new(daemon)),
        Ok(false) => Err(format!("the daemon on this machine is not the server that is measured: {ADVICE}")),
        Err(error) => Err(format!("the daemon's counters cannot be had ({error:#}): {ADVICE}")),
    }
}

/// A connection to the daemon, and the pools that are meant: all of them if none is named.
struct Daemon {
    client: Client,
    pools: Vec<String>,
}

impl Daemon {
    fn ask(&mut self, request: &Request) -> Result<Reply> {
        Ok(self.client.ask(request, &mut |_| {})?)
    }

    fn serves<S: Site>(&mut self, site: &S) -> Result<bool> {
        let name = format!("tally-bench-{:08x}", tally_bench::wire::random_u32()?);
        let folder = site.make_run(&name)?;
        let recognised = self.recognises(site, &folder);
        site.remove_run(&name, &mut |_| {})?;
        recognised
    }

    fn recognises<S: Site>(
        &mut self,
        site: &S,
        folder: &<S::Client as tally_bench::client::Client>::Node,
    ) -> Result<bool> {
        let mut client = site.client(&Arc::new(Meter::default()))?;
        for attempt in 0..TRIES {
            let before = self.folders_made()?;
            for number in 0..FOLDERS {
                client.make_folder(folder, &format!("d{attempt}-{number}"))?;
            }
            match self.folders_from(before, FOLDERS)?.cmp(&FOLDERS) {
                Ordering::Equal => return Ok(true),
                Ordering::Less => return Ok(false),
                Ordering::Greater => {}
            }
        }
        Ok(false)
    }

    /// Folders that the daemon has counted since it had `before`; waited for until they are `expected`.
    fn folders_from(&mut self, before: u64, expected: u64) -> Result<u64> {
        let until = Instant::now() + COUNTED_WITHIN;
        loop {
            let made = self.folders_made()?.saturating_sub(before);
            if made >= expected || Instant::now() >= until {
                return Ok(made);
            }
            thread::sleep(ASK_AGAIN_AFTER);
        }
    }

    fn folders_made(&mut self) -> Result<u64> {
        let Reply::Ops(report) = self.ask(&Request::StatOps)? else { bail!("it does not tell what clients call") };
        Ok(report.procedures.iter().find(|op| op.procedure.eq_ignore_ascii_case("MKDIR")).map_or(0, |op| op.calls))
    }

    /// The pool whose dataset is mounted closest above the export.
    fn pool_of(&mut self, export: &str) -> Result<Option<String>> {
        let request = Request::DatasetList { names: Vec::new(), recursive: false, users: Vec::new() };
        let Reply::Datasets(datasets) = self.ask(&request)? else { bail!("it does not tell its datasets") };
        let above = datasets.iter().filter(|dataset| Path::new(export).starts_with(&dataset.exportpath));
        let closest = above.max_by_key(|dataset| dataset.exportpath.len());
        Ok(closest.and_then(|dataset| dataset.name.split('/').next()).map(str::to_owned))
    }
}

impl Watch for Daemon {
    fn work(&mut self) -> Result<Work> {
        let request = Request::PoolStatus { names: self.pools.clone() };
        let Reply::Pools(pools) = self.ask(&request)? else { bail!("the daemon does not tell the state of its pools") };
        Ok(work(&pools))
    }

    /// It was recognised by what was asked of the server.
    fn is_the_servers(&self) -> bool {
        true
    }

    fn source(&self) -> String {
        match self.pools.as_slice() {
            [] => "the counters of the daemon".into(),
            pools => format!("the daemon's counters of pool {}", pools.join(", ")),
        }
    }
}

/// What all disks of the pools have done together; of a mirror, what was asked of it.
fn work(pools: &[PoolReport]) -> Work {
    let mut work = Work { log: Some(LogWork::default()), ..Work::default() };
    for IoCounters { write_ops, write_bytes, durable_writes, flushes, .. } in
        pools.iter().flat_map(|pool| &pool.vdevs).map(|vdev| vdev.io)
    {
        work.writes += write_ops;
        work.write_bytes += write_bytes;
        work.flushes += flushes;
        work.durable_events += durable_writes + flushes;
    }
    let log = work.log.get_or_insert_default();
    for lane in pools.iter().flat_map(|pool| &pool.lanes) {
        log.bytes += lane.bytes;
        log.frames += lane.frames;
    }
    work
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::report::{LaneReport, VdevReport};

    #[test]
    fn the_work_of_pools_is_that_of_all_their_disks() {
        let vdev = |write_ops, durable_writes, flushes| VdevReport {
            io: IoCounters {
                write_ops,
                write_bytes: write_ops * 4096,
                durable_writes,
                flushes,
                ..IoCounters::default()
            },
            ..VdevReport::default()
        };
        let lane = |frames| LaneReport { frames, bytes: frames * 4096, ..LaneReport::default() };
        let pool = |vdevs, lanes| PoolReport { vdevs, lanes, ..PoolReport::default() };
        let pools =
            [pool(vec![vdev(10, 0, 2), vdev(5, 5, 1)], vec![lane(5)]), pool(vec![vdev(1, 0, 0)], vec![lane(1)])];
        let expected = Work {
            writes: 16,
            write_bytes: 16 * 4096,
            flushes: 3,
            durable_events: 8,
            unknown_events: 0,
            log: Some(LogWork { bytes: 6 * 4096, frames: 6 }),
        };
        assert_eq!(work(&pools), expected);
    }
}
