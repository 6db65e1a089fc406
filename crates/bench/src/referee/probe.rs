//! The lone probe: one request at a time, and a look at the disks on both sides of each.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Blanks, Findings, KindCount};
use crate::client::Client;
use crate::promise::Kind;
use crate::witness::{Pace, Probed, Witness};
use crate::work::Watch;

/// Refusals after which a kind is given up, if nothing of it was answered: SETATTR is three requests in turns, and who
/// refuses one of them has to be judged by the others.
const REFUSALS_MAX: u64 = 3;

/// Probes every kind in an empty folder; says how many requests are done, and stops at an error from there.
pub fn probe<C: Client>(
    client: &mut C,
    folder: &C::Node,
    kinds: &[Kind],
    watch: &mut dyn Watch,
    pace: &Pace,
    told: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Findings> {
    let mut counts: BTreeMap<Kind, KindCount> = kinds.iter().map(|kind| (*kind, KindCount::new(*kind))).collect();
    let mut witness = Witness::new(watch, pace)?;
    let mut blanks = Blanks::default();
    let (mut windows, mut requests) = (Duration::ZERO, 0_u32);
    for (place, &kind) in kinds.iter().enumerate() {
        let folder = client.make_folder(folder, &format!("probe-{place}"))?;
        let mut took = Duration::ZERO;
        for number in 0..pace.probes {
            told(place as u64 * pace.probes + number)?;
            if !took.is_zero() {
                blanks.add(&witness.blank(took)?);
            }
            let probed = client.probe(&folder, kind, number, &mut witness);
            match probed.with_context(|| format!("the probe of {}", kind.word()))? {
                Probed::Answered(seen) => {
                    counts.entry(seen.kind).or_insert_with(|| KindCount::new(seen.kind)).add(&seen);
                    took = seen.took;
                    (windows, requests) = (windows + took, requests + 1);
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
    Ok(Findings {
        source: witness.source(),
        kinds: counts.into_values().collect(),
        blanks,
        window_seconds: windows.as_secs_f64() / f64::from(requests.max(1)),
    })
}
