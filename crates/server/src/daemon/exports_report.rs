//! What is exported, to whom, by which rule, and who has it mounted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tally_nfs::exports::{Exports, PoolExports, parse_sharenfs};
use tally_nfs::service::Service;
use tally_nfs::stats::Kind;
use tally_nfs::stats::accounts::Payer;
use tally_nfs::v4::state::Which;

use super::error::PoolsError;
use super::pools::Pools;
use crate::control::exports::{ExportReport, ExportedTo, MountedBy};
use crate::exports::mount_path;

/// Most clients of version 4 that are looked at.
const CLIENTS_MAX: usize = 10_000;

/// All datasets with rules, those that nobody understands, too.
pub(super) fn exports(pools: &Pools, nfs: &Service) -> Result<Vec<ExportReport>, PoolsError> {
    let mut mounted = mounted(pools, nfs);
    let lines = pools.dataset_properties(&[], true, &["sharenfs".into()])?;
    let reports = lines.into_iter().map(|line| {
        let (clients, problem) = match parse_sharenfs(&line.exact) {
            Ok(rules) => (rules.in_full(), None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        ExportReport {
            path: mount_path(&line.name),
            mounted: mounted.remove(&line.name).unwrap_or_default().into_iter().collect(),
            dataset: line.name,
            rules: line.exact,
            source: line.source,
            clients: clients.into_iter().map(|(hosts, options)| ExportedTo { hosts, options }).collect(),
            problem,
        }
    });
    Ok(reports.filter(|report| report.problem.is_some() || !report.clients.is_empty()).collect())
}

/// Who has what mounted, by the dataset's name.
fn mounted(pools: &Pools, nfs: &Service) -> BTreeMap<String, BTreeSet<MountedBy>> {
    let live = pools.exports();
    let mut found: BTreeMap<String, BTreeSet<MountedBy>> = BTreeMap::new();
    let mut add = |pool: &Arc<dyn PoolExports>, dataset, client: String, version: &str| {
        if let Some(name) = pool.name(dataset) {
            found.entry(name).or_default().insert(MountedBy { client, version: version.into() });
        }
    };
    for (client, path) in nfs.mounts().list() {
        let resolved = std::str::from_utf8(&path).ok().and_then(|path| live.resolve(path));
        if let Some(resolved) = resolved {
            add(&resolved.pool, resolved.vfs.dataset(), client.to_string(), "3");
        }
    }
    let all = Which { client: None, most: CLIENTS_MAX };
    let leases = nfs.holdings().map(|holdings| holdings.clients(all).shown).unwrap_or_default();
    let present: BTreeSet<_> =
        leases.iter().filter(|seen| !seen.is_host).map(|seen| seen.known.address.to_canonical()).collect();
    let has_called =
        |kind: Kind, account: &tally_nfs::stats::accounts::Account| account.kind(kind).calls.load(Relaxed) > 0;
    for (payer, account) in nfs.stats().accounts.all() {
        let Payer::Client { address, pool, dataset } = payer else { continue };
        let spoke_4 = [false, true].into_iter().any(|changes| has_called(Kind::compound(changes), &account));
        if let Some(pool) = live.pool(pool).filter(|_| spoke_4 && present.contains(&address.to_canonical())) {
            add(&pool, dataset, address.to_canonical().to_string(), "4");
        }
    }
    found
}
