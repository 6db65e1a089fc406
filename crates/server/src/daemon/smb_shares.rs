//! What Samba is to share: the datasets with `sharesmb`, where they are mounted, and a thread that writes that down whenever one of it changes.
//!
//! Whoever changes something rings ([`super::bell`]) and goes on. One thread looks and writes, so that two changes cannot be written in the wrong order, and no command waits for the
//! directory of a file that only Samba reads. What cannot be written is tried again.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tally_fs::filer::{Named, is_or_holds};
use tally_nfs::exports::parse_sharenfs;
use tally_smb::conf::{Asked, Place, Planned, Use, plan, text};
use tally_smb::{ShareName, parse_sharesmb};
use tally_store::pool::ancestors;
use tally_store::properties::{Effective, Mountpoint, Property, PropertySet, Value, effective};

use super::bell::Bell;
use super::error::PoolsError;
use super::pools::Pools;
use super::served::ServedPool;
use super::smb_file::SmbFile;
use crate::control::smb::{SmbReport, SmbShare};
use crate::exports::rule_above;

/// How often a file is tried again that could not be written.
const BETWEEN_TRIES: Duration = Duration::from_secs(10);
/// How often it is looked whether what is shared is still mounted there: the kernel tells nobody that it was detached.
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);

/// Nobody is to share it.
const OFF: &str = "off";

/// The thread that writes. It ends when this is dropped, behind a last look.
pub(super) struct Keeper {
    bell: Arc<Bell>,
    /// What is written stays as it is from here on.
    stays: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Keeps the file beside `include` as the shares are.
pub(super) fn keep_written(pools: &Arc<Pools>, include: &Path) -> io::Result<Keeper> {
    let (bell, seen, include) = (Arc::clone(&pools.bell), Arc::clone(pools), include.to_owned());
    let stays = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&stays);
    let thread = thread::Builder::new().name("smb".into()).spawn(move || write_down(&seen, &include, &is_over))?;
    Ok(Keeper { bell, stays, thread: Some(thread) })
}

impl Keeper {
    /// Ends without a last look: the next daemon has the same mounts, and what is shared goes on meanwhile.
    pub(super) fn leave(self) {
        self.stays.store(true, Ordering::Release);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.bell.end();
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was printed; there is nothing left to stop.
            let _ = thread.join();
        }
    }
}

fn write_down(pools: &Pools, include: &Path, stays: &AtomicBool) {
    let mut file = SmbFile::beside(include);
    let (mut is_unwritten, mut is_shared) = (false, false);
    loop {
        let patience = if is_shared { Some(BETWEEN_LOOKS) } else { is_unwritten.then_some(BETWEEN_TRIES) };
        let goes_on = pools.bell.wait(patience);
        if stays.load(Ordering::Acquire) {
            break;
        }
        let shares = pools.smb_shares();
        is_shared = shares.iter().any(|share| share.problem.is_none());
        if file.is_there() || !shares.is_empty() {
            match file.put(&text(&shares, include)) {
                Ok(_) => is_unwritten = false,
                Err(error) => {
                    if !is_unwritten {
                        tracing::error!(file = %include.display(), %error, "the shares for Samba cannot be written, and stay as they were; it is tried again");
                    }
                    is_unwritten = true;
                }
            }
        }
        if !goes_on {
            break;
        }
    }
}

/// A dataset as it is, or would be.
struct Seen {
    name: String,
    /// On which dataset what holds of `sharesmb` was set.
    set_on: String,
    in_force: Effective,
}

impl Pools {
    /// What becomes of each share.
    pub(super) fn smb_shares(&self) -> Vec<Planned> {
        let mut dirs: HashMap<String, Vec<PathBuf>> = HashMap::new();
        for mount in self.attached() {
            dirs.entry(mount.dataset).or_default().push(mount.dir);
        }
        let (mut asked, mut places) = (Vec::new(), Vec::new());
        for pool in self.all() {
            let names = pool.filer.names();
            for Named { name, filesystem } in names.iter() {
                let (in_force, mounted_on) = (filesystem.in_force(), dirs.get(&**name).map_or(&[][..], Vec::as_slice));
                // Of ten thousand nobody asks for most.
                if in_force.sharesmb == OFF && mounted_on.is_empty() {
                    continue;
                }
                let is_exported = self.is_exported(name, &in_force);
                places.extend(mounted_on.iter().map(|dir| Place { dir: dir.clone(), is_exported }));
                // One that is not understood is from a newer program, and shares nothing here.
                let Ok(Some(share)) = parse_sharesmb(&in_force.sharesmb) else { continue };
                let at = match in_force.mountpoint.of(name) {
                    Mountpoint::At(at) => Some(PathBuf::from(at)),
                    Mountpoint::None | Mountpoint::Legacy => None,
                };
                // Mounted in several places it is shared where it says.
                let is_there = |dir: &&PathBuf| Some(*dir) == at.as_ref();
                let dir = mounted_on.iter().find(is_there).or(mounted_on.first()).cloned().or(at.clone());
                asked.push(Asked {
                    dataset: name.to_string(),
                    share,
                    set_on: set_on(&chain(&pool, name)),
                    is_mounted: !mounted_on.is_empty(),
                    dir,
                    has_place: at.is_some(),
                    is_read_only: in_force.readonly,
                    refquota: in_force.refquota,
                    is_exported,
                    is_accepted: pool.is_accepted(),
                });
            }
        }
        plan(asked, &places)
    }

    /// What is said of them.
    pub(super) fn smb_report(&self, include: &Path) -> SmbReport {
        let share = |share: Planned| SmbShare {
            name: share.name.as_ref().map(ShareName::to_string),
            dataset: share.dataset,
            dir: share.dir,
            is_mixed: share.used == Use::Mixed,
            problem: share.problem.map(|problem| problem.to_string()),
        };
        SmbReport { include: include.to_owned(), shares: self.smb_shares().into_iter().map(share).collect() }
    }

    /// What is to be said to who has just shared a dataset.
    pub(super) fn smb_remarks(&self, dataset: &str) -> Option<String> {
        let share = self.smb_shares().into_iter().find(|share| share.dataset == dataset)?;
        Some(format!("note: nobody finds the share of {dataset} yet: {}", share.problem?))
    }

    /// Whether values can be set on a dataset, or one be made with them, as shares go: of two none has the name of the other, and no backup of a Mac is in a dataset that others reach.
    pub(super) fn check_sharing(&self, dataset: &str, values: &[Value]) -> Result<(), PoolsError> {
        let sets = |property| values.iter().any(|value| value.property() == property);
        if !sets(Property::ShareSmb) && !sets(Property::ShareNfs) {
            return Ok(());
        }
        let are_names_asked = sets(Property::ShareSmb);
        // Those that have their names already stand first.
        let others = if are_names_asked { self.shares_beside(dataset) } else { Vec::new() };
        let meant = self.shares_with(dataset, values);
        let mut taken: Vec<(String, &str)> = Vec::new();
        for (Seen { name, set_on, in_force }, is_meant) in
            others.iter().map(|seen| (seen, false)).chain(meant.iter().map(|seen| (seen, true)))
        {
            let Ok(Some(share)) = parse_sharesmb(&in_force.sharesmb) else { continue };
            if is_meant && share.is_for_time_machine() && self.is_exported(name, in_force) {
                return Err(PoolsError::TimeMachineExported { dataset: name.clone() });
            }
            if !are_names_asked {
                continue;
            }
            match share.name_of(name, set_on) {
                Err(error) if is_meant => return Err(error.into()),
                Err(_) => {}
                Ok(share) => {
                    if is_meant && let Some((_, by)) = taken.iter().find(|(key, _)| *key == share.key()) {
                        let (dataset, by) = (name.clone(), (*by).to_owned());
                        return Err(PoolsError::ShareNameTaken { share: share.to_string(), dataset, by });
                    }
                    taken.push((share.key(), name));
                }
            }
        }
        Ok(())
    }

    /// Datasets that are shared by SMB, but for one and those below it.
    fn shares_beside(&self, dataset: &str) -> Vec<Seen> {
        let mut shares = Vec::new();
        for pool in self.all().into_iter().filter(|pool| pool.is_accepted()) {
            for Named { name, filesystem } in pool.filer.names().iter() {
                let in_force = filesystem.in_force();
                if in_force.sharesmb != OFF && !is_or_holds(dataset, name) {
                    let set_on = set_on(&chain(&pool, name));
                    shares.push(Seen { name: name.to_string(), set_on, in_force: (*in_force).clone() });
                }
            }
        }
        shares
    }

    /// A dataset and those below it, as far as they would be shared by SMB with these values on that one.
    fn shares_with(&self, dataset: &str, values: &[Value]) -> Vec<Seen> {
        let mut shares = Vec::new();
        for pool in self.all() {
            let names = pool.filer.names();
            let is_new = is_or_holds(&pool.filer.name(), dataset) && names.find(dataset).is_none();
            for name in names.subtree(dataset).iter().map(|named| &*named.name).chain(is_new.then_some(dataset)) {
                let mut chain = chain(&pool, name);
                if is_new {
                    chain.push((name.to_owned(), PropertySet::new()));
                }
                if let Some((_, set)) = chain.iter_mut().find(|(name, _)| name == dataset) {
                    values.iter().for_each(|value| drop(set.set(value.clone())));
                }
                let in_force = effective(&chain.iter().map(|(_, set)| set).collect::<Vec<_>>());
                if in_force.sharesmb != OFF {
                    shares.push(Seen { name: name.to_owned(), set_on: set_on(&chain), in_force });
                }
            }
        }
        shares
    }

    /// Whether other hosts reach a dataset by NFS.
    fn is_exported(&self, name: &str, in_force: &Effective) -> bool {
        let above = self.above.lock();
        let rules = rule_above(&above, name).map_or(&*in_force.sharenfs, |rule| &rule.rules);
        rules != OFF && parse_sharenfs(rules).is_ok_and(|rules| rules.reaches_other_hosts())
    }
}

/// A dataset and those above it, the topmost first, with what was set on each.
fn chain(pool: &ServedPool, name: &str) -> Vec<(String, PropertySet)> {
    let names = pool.filer.names();
    let above = ancestors(name).filter_map(|name| Some((name.to_owned(), names.find(name)?.info().local)));
    above.collect()
}

/// The nearest one that has `sharesmb`.
fn set_on(chain: &[(String, PropertySet)]) -> String {
    let nearest = chain.iter().rev().find(|(_, set)| set.value(Property::ShareSmb).is_some());
    nearest.or(chain.last()).map(|(name, _)| name.clone()).unwrap_or_default()
}
