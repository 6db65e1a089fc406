//! `tally pool clear`: errors are counted anew, and a pool that is suspended goes on, if its disks answer again.
//!
//! What a failed flush or durable write has left of what was written before it, nobody can ask the device: the next flush says
//! that all is well. So nothing that is in memory is written again on trust. The pool is let go as a crash would, and imported
//! as after one, in one step and without a word to its clients, who wait as they do for any pool that is away: what was
//! acknowledged is below a root that was durable, or in the log; the rest is gone from memory, and the pool's life says so
//! (docs/design/0049).
//!
//! Before it is let go it is looked whether the disks are there. As long as they are not the pool stays suspended, and what can
//! be read is read. An import that then fails leaves it away, with its clients waiting.

use std::path::PathBuf;
use std::sync::Arc;

use tally_base::{PoolGuid, Size};
use tally_fs::filer::Filer;
use tally_members::discover::{self, FoundLeg, ImportSource, Refused};
use tally_members::label::{LegConfig, VdevClass, VdevConfig};

use super::by_name::find;
use super::error::PoolsError;
use super::importing::ImportOrder;
use super::letting_go::no_disk_is_silent;
use super::pool_report::vdev_name;
use super::pools::Pools;
use super::served::ServedPool;
use crate::control::message::{OnProgress, Progress};
use crate::control::report::EventClass;

impl Pools {
    /// Counts errors of a disk, or of all, anew; goes on with a suspended pool, whose disks are also looked for in `dirs`. Gives
    /// its guid, and what there is to say. `before` hears of a pool that goes on, before anybody is served.
    pub fn clear(
        &self,
        name: &str,
        device: Option<&str>,
        dirs: &[PathBuf],
        (progress, before): (OnProgress<'_>, &dyn Fn(PoolGuid)),
    ) -> Result<(PoolGuid, Vec<String>), PoolsError> {
        let is_away = !self.absent.find(name).is_empty();
        let away = |error| if is_away { PoolsError::ClearAway { name: name.into() } } else { error };
        let served = self.pool(name).map_err(away)?;
        let (pool, guid) = (served.filer.pool(), served.guid());
        let wanted = device.map(|device| find(pool, device)).transpose()?.map(|member| member.leg);
        if pool.fault().is_some() {
            return Ok((guid, self.resume(served, dirs, (progress, before))?));
        }
        let legs = pool.roster.vdevs().iter().flat_map(|vdev| vdev.legs());
        legs.filter(|leg| wanted.is_none_or(|wanted| leg.guid() == wanted)).for_each(|leg| leg.clear_errors());
        Ok((guid, vec![format!("errors of {} are counted anew", device.unwrap_or(name))]))
    }

    fn resume(
        &self,
        served: Arc<ServedPool>,
        dirs: &[PathBuf],
        (progress, before): (OnProgress<'_>, &dyn Fn(PoolGuid)),
    ) -> Result<Vec<String>, PoolsError> {
        let (name, guid) = (served.filer.name(), served.guid());
        no_disk_is_silent(&served)?;
        let source = ImportSource { paths: served.known().paths, dirs: dirs.to_vec() };
        self.disks_are_there(&served, &source)?;
        served.copies.close()?;
        let (exposed, _) = served.filer.exposure();
        let order = ImportOrder {
            pool: guid.to_string(),
            paths: source.paths,
            dirs: source.dirs,
            resumes: Some(served.filer.as_suspended()),
            accepts_mountpoints: served.is_accepted(),
            ..ImportOrder::default()
        };
        self.absent.let_go(guid, name.clone(), served.handle_key(), None);
        // Nothing can be written any more, which is what it says; its threads end all the same.
        let _suspended = self.put_away(&served, Filer::export);
        drop(served);
        let mut remarks = self.import_again(&order, (progress, before)).map_err(|source| {
            self.absent.because(guid, format!("It was suspended, and could not be resumed: {source}"));
            PoolsError::NotResumed { name: name.clone(), source: Box::new(source) }
        })?;
        if exposed > 0 {
            let lost = Size(exposed);
            remarks.push(format!("{lost} that clients of datasets with sync=disabled were told is safe are lost"));
        }
        self.tell(&name, EventClass::PoolResumed, remarks.join("; "));
        tracing::info!(pool = %guid, "resumed: {}", remarks.join("; "));
        remarks.insert(0, format!("pool '{name}' goes on"));
        Ok(remarks)
    }

    fn import_again(
        &self,
        order: &ImportOrder,
        (progress, before): (OnProgress<'_>, &dyn Fn(PoolGuid)),
    ) -> Result<Vec<String>, PoolsError> {
        let mut tell = |state: Progress| {
            self.absent.progress(&order.pool, &state);
            progress(state);
        };
        let (_, report) = self.import_after(order, &mut tell, before)?;
        let losses = report.losses.iter().map(|loss| format!("given up: {loss}"));
        let remarks = report.remarks.iter().map(|remark| format!("note: {remark}"));
        let replayed = format!("replayed {} acknowledged changes from the intent log", report.records_replayed);
        Ok([replayed].into_iter().chain(losses).chain(remarks).collect())
    }

    /// Whether each part of a pool has a disk that says what it is, so that an import is worth the try.
    fn disks_are_there(&self, served: &ServedPool, source: &ImportSource) -> Result<(), PoolsError> {
        let scan = discover::scan(&*self.platform.opener, source).map_err(PoolsError::Look)?;
        let config = served.filer.pool().roster.config();
        let pool = scan.pools.iter().find(|pool| pool.pool == config.pool);
        let found: &[FoundLeg] = pool.map_or(&[], |pool| &pool.legs);
        let counts = |leg: &LegConfig| leg.stale_since.is_none() && found.iter().any(|it| it.label.leg == leg.guid);
        let is_gone = |vdev: &&VdevConfig| vdev.class == VdevClass::Data && !vdev.legs.iter().any(counts);
        let vdevs: Vec<String> = config.vdevs_present().filter(is_gone).map(vdev_name).collect();
        if vdevs.is_empty() {
            return Ok(());
        }
        let is_ours = |refused: &&Refused| source.paths.contains(&refused.path);
        let refused = scan.refused.iter().filter(is_ours).map(ToString::to_string);
        Err(PoolsError::StillGone { name: config.name.clone(), vdevs, refused: refused.collect() })
    }
}
