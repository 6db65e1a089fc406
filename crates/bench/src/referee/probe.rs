//! The lone probe: every kind, one request at a time, and a look at the disks on both sides of each.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::{Findings, Kind, KindCount, Lookout, Pace, Probed};
use crate::client::Client;
use crate::work::Watch;

/// Refusals until a kind is given up of which nothing was answered; some kinds are several requests in turns.
const REFUSALS_MAX: u64 = 3;

/// Probes every kind in an empty folder; says how many requests are done, and stops at an error from there.
pub fn probe<C: Client>(
    client: &mut C,
    folder: &C::Node,
    kinds: &[Kind],
    watch: &mut dyn Watch,
    pace: Pace,
    told: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Findings> {
    let mut counts: BTreeMap<Kind, KindCount> = kinds.iter().map(|kind| (*kind, KindCount::new(*kind))).collect();
    let mut lookout = Lookout::new(watch, pace);
    let before = lookout.idle()?;
    for (place, &kind) in kinds.iter().enumerate() {
        let folder = client.make_folder(folder, &format!("probe-{place}"))?;
        for number in 0..pace.probes {
            told(place as u64 * pace.probes + number)?;
            let probed = client.probe(&folder, kind, number, &mut lookout);
            match probed.with_context(|| format!("the probe of {}", kind.word()))? {
                Probed::Answered { kind, work, elsewhere } => {
                    counts.entry(kind).or_insert_with(|| KindCount::new(kind)).add(&work, elsewhere);
                }
                Probed::Refused(reason) => {
                    let count = counts.entry(kind).or_insert_with(|| KindCount::new(kind));
                    (count.refusals, count.refused) = (count.refusals + 1, Some(reason));
                    if count.replies == 0 && count.refusals >= REFUSALS_MAX {
                        break;
                    }
                }
            }
        }
    }
    let after = lookout.idle()?;
    Ok(Findings {
        source: lookout.source(),
        kinds: counts.into_values().collect(),
        idle_events_per_second: before.max(after),
        window_seconds: lookout.window_seconds(),
        blind: lookout.blind(),
    })
}
