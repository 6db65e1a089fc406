//! Commands on datasets: create, destroy, rename, properties.

use std::sync::Arc;

use bytes::Bytes;
use tally_base::{DatasetId, Dseq, ObjectId, Size, Time, Txg};
use tally_store::dataset::{DATASET_NAME_MAX, Dataset, DatasetBirth, DatasetLine, DatasetRoot, OBJECT_CHARGE};
use tally_store::pool::{SyncError, ancestors};
use tally_store::properties::{
    Effective, Property, PropertyError, PropertySet, SyncMode, UserProperty, Value, effective,
};
use tally_store::tree::Tree;
use tally_vfs::{Cred, FIRST_ID, FileKind, FsError, Names as _};

use super::mount_point::{MountPoint, component, remove_mount_point};
use super::{CreateOptions, Filer, FilerError, Named, Names};
use crate::filesystem::{Filesystem, LogSwitch};
use crate::mount::Mount;
use crate::subtree::Chain;

/// Stands where a dataset comes or goes: none has this id.
const NO_DATASET: DatasetId = DatasetId(0);

/// Why a command on a dataset failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum DatasetError {
    #[error("no dataset '{0}'; `tally dataset list` shows what there is")]
    Unknown(String),
    #[error("dataset '{0}' exists already")]
    Exists(String),
    #[error("'{name}' is no dataset name: {why}")]
    Name { name: String, why: &'static str },
    #[error("'{name}' has no parent dataset '{parent}'; create that first")]
    NoParent { name: String, parent: String },
    #[error("dataset '{0}' has children; destroy them first, or use -r")]
    HasChildren(String),
    #[error("'{0}' is the pool's own dataset; `tally pool destroy` removes the pool")]
    IsPool(String),
    #[error("'{0}' cannot become its own descendant or move to another pool")]
    BadTarget(String),
    #[error(
        "'{below}' may hold {quota} with all below it (quota), of which {used} are used: there is no room for the {more} of \
         '{name}'. Raise that quota first: tally dataset set quota=... {below}"
    )]
    OverQuota { name: String, below: String, quota: Size, used: Size, more: Size },
    #[error("cannot mount '{name}' on its directory in the parent: {why}")]
    MountPoint { name: String, why: String },
    #[error(
        "there is no room for longer properties of '{0}': the pool is full, but for what is kept to remove things. Remove files, or \
         properties (tally dataset inherit PROPERTY DATASET), and set them again"
    )]
    NoRoom(String),
    #[error(
        "the properties of '{name}' are as they were: clients bring changes faster than the disks take them, and through {groups} \
         transaction groups the memory for such was full. Set them again when there is less to do, or raise dirty_data_max in the \
         configuration"
    )]
    Busy { name: String, groups: u32 },
    #[error("{0}")]
    Sync(#[from] SyncError),
    #[error(transparent)]
    Property(#[from] PropertyError),
}

/// A dataset, for lists.
#[derive(Clone, Debug)]
pub struct DatasetInfo {
    /// Its name for ever in this pool; never used again.
    pub id: DatasetId,
    /// Full name: the pool's, and those of the datasets above it.
    pub name: String,
    /// When it was made.
    pub created: Time,
    /// In which transaction group.
    pub created_txg: Txg,
    /// The same wherever its content is sent.
    pub guid: u64,
    /// Bytes it uses, without its children.
    pub used_bytes: u64,
    /// Bytes that are reserved for files of it and not taken yet.
    pub reserved_bytes: u64,
    /// Bytes that could still be written to it.
    pub available_bytes: u64,
    /// Files, directories and all others in it, as of the last synced group.
    pub object_count: u64,
    /// Those that were set on it; all others come from above.
    pub local: PropertySet,
    /// The properties in force.
    pub effective: Arc<Effective>,
}

impl Filer {
    pub(super) fn add_root_dataset(&self, name: &str, options: &CreateOptions) -> Result<(), FilerError> {
        self.add_dataset(name, options.properties.clone(), options.root_owner)?;
        Ok(())
    }

    /// All datasets, each behind those above it.
    #[must_use]
    pub fn datasets(&self) -> Vec<DatasetInfo> {
        self.names().iter().map(|named| named.filesystem.info()).collect()
    }

    /// The datasets as they are now, by name: for whoever looks at all of them.
    #[must_use]
    pub fn names(&self) -> Arc<Names> {
        Arc::clone(&self.names.read())
    }

    /// A dataset by its full name.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<Arc<Filesystem>> {
        self.names.read().find(name).cloned()
    }

    fn named(&self, name: &str) -> Result<Arc<Filesystem>, DatasetError> {
        self.by_name(name).ok_or_else(|| DatasetError::Unknown(name.to_owned()))
    }

    /// Makes a dataset, mounted on a directory of its name in its parent's root. The directory belongs to `owner`.
    pub fn create_dataset(
        &self,
        name: &str,
        local: PropertySet,
        owner: (u32, u32),
    ) -> Result<Arc<Filesystem>, DatasetError> {
        let _one = self.command.lock();
        let parent = self.parent_of(name)?;
        if self.by_name(name).is_some() {
            return Err(DatasetError::Exists(name.to_owned()));
        }
        // Before anything is made that a refusal would leave behind.
        self.pool.check_administrable()?;
        self.check_room_below(&parent, name)?;
        let filesystem = self.on_mount_point(&parent, name, || self.add_dataset(name, local, owner))?;
        self.cover(&parent, name, filesystem.dataset.birth.id);
        Ok(filesystem)
    }

    /// Has a directory for what makes a dataset stand there. It is noted as covered before it is there, so that nobody is shown it; one that was
    /// there before is noted when it is taken: its clients know it, and it stays theirs where it is refused.
    fn on_mount_point<T, E: Into<DatasetError>>(
        &self,
        parent: &Filesystem,
        name: &str,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, DatasetError> {
        let note = || self.children.write().insert(mount_key(parent, name), NO_DATASET);
        if parent.lookup(&Cred::root(), parent.root(), component(name)).is_err() {
            note();
        }
        let made = MountPoint::take(parent, name).and_then(|point| {
            note();
            let made = make().map_err(Into::into);
            made.inspect_err(|_| point.give_back(parent, name))
        });
        made.inspect_err(|_| {
            self.children.write().remove(&mount_key(parent, name));
        })
    }

    /// Looks whether a dataset and those above it that are missing can be made, before the first of them is.
    pub fn check_new(&self, name: &str) -> Result<(), DatasetError> {
        check_name(name)?;
        if self.by_name(name).is_some() {
            return Err(DatasetError::Exists(name.to_owned()));
        }
        self.pool.check_administrable()?;
        let nearest = ancestors(name).filter_map(|above| self.by_name(above)).last();
        nearest.map_or(Ok(()), |nearest| self.check_room_below(&nearest, name))
    }

    /// Whether the quotas below which a new dataset would come have room for its root, once what is being freed is. ZFS
    /// does not ask, where a limit of their number may bound datasets; here a full quota could be passed by any number of
    /// them, each of which has a root.
    fn check_room_below(&self, parent: &Filesystem, name: &str) -> Result<(), DatasetError> {
        let (txgs, mut below) = (&self.pool.txgs, parent.name());
        let chain = Chain::clone(&parent.standing.chain());
        for sum in chain {
            while let Err(refusal) = sum.check(OBJECT_CHARGE, txgs.last_synced(), || txgs.next_sync()) {
                let refused = refusal.outcome::<()>();
                if !matches!(refused.result, Err(FsError::Throttled)) {
                    let quota = sum.quota().unwrap_or(0);
                    let [quota, used, more] = [quota, sum.used_bytes(), OBJECT_CHARGE].map(Size);
                    return Err(DatasetError::OverQuota { name: name.to_owned(), below, quota, used, more });
                }
                refused.wait.block().map_err(SyncError::Suspended)?;
            }
            below.truncate(below.rfind('/').unwrap_or(0));
        }
        Ok(())
    }

    fn parent_of(&self, name: &str) -> Result<Arc<Filesystem>, DatasetError> {
        check_name(name)?;
        let Some((parent, _)) = name.rsplit_once('/') else { return Err(DatasetError::IsPool(name.to_owned())) };
        self.by_name(parent).ok_or_else(|| DatasetError::NoParent { name: name.to_owned(), parent: parent.to_owned() })
    }

    /// What the entry of a dataset of this name says of it: the one above it, and its last component.
    fn line_of(&self, name: &str) -> (DatasetId, String) {
        let (above, component) =
            name.rsplit_once('/').map_or((None, name), |(above, component)| (Some(above), component));
        let parent = above.and_then(|above| self.by_name(above));
        (parent.map_or(DatasetId(0), |parent| parent.dataset.birth.id), component.to_owned())
    }

    pub(super) fn add_dataset(
        &self,
        name: &str,
        local: PropertySet,
        owner: (u32, u32),
    ) -> Result<Arc<Filesystem>, DatasetError> {
        let pool = &self.pool;
        let id = pool.draw_dataset_id();
        let rng = &pool.platform.rng;
        let (parent, component) = self.line_of(name);
        let in_force = effective_of(&self.names(), name, &local);
        let line = DatasetLine { parent, name: component, local, carried: Bytes::new() };
        let root = DatasetRoot {
            tree: Tree::empty(),
            replay_dseq: Dseq(0),
            logged: in_force.sync != SyncMode::Disabled,
            log_from: Txg(0),
            next_object: ObjectId(FIRST_ID + 1),
            life: pool.life().number,
            verifier: rng.next_u64(),
            change_floor: Time(0),
            used_bytes: 0,
            object_count: 0,
            orphan_count: 0,
            reserved_bytes: 0,
        };
        let filesystem = pool.administer(|pool, txg| {
            let birth = DatasetBirth {
                id,
                guid: rng.next_u64(),
                created: pool.platform.clock.now(),
                created_txg: txg,
                lane: pool.draw_home(id),
                name_key: rng.next_u64(),
                root_object: ObjectId(FIRST_ID),
                root_generation: tally_base::Generation(rng.next_u64()),
            };
            let dataset = Arc::new(Dataset::new(birth, line, name, in_force, root));
            let filesystem = Filesystem::mount(&self.pool, &self.ahead, Mount::new(&self.account), &dataset);
            filesystem.found(txg, owner);
            pool.add_dataset(dataset);
            filesystem
        })?;
        self.mounted.write().insert(id, Arc::clone(&filesystem));
        if !self.keep_if_hidden(&filesystem) {
            Arc::make_mut(&mut self.names.write()).insert(&filesystem);
            self.find_standing(&filesystem);
        }
        Ok(filesystem)
    }

    /// Removes a dataset and everything in it; with `recursive` its children, too.
    pub fn destroy_dataset(&self, name: &str, recursive: bool) -> Result<(), DatasetError> {
        let _one = self.command.lock();
        let doomed = self.doomed(name, recursive)?;
        // From the end, so that no dataset is ever without its parent.
        for filesystem in doomed.into_iter().rev() {
            self.remove_dataset(&filesystem)?;
        }
        Ok(())
    }

    /// The names of what [`Filer::destroy_dataset`] would remove.
    pub fn check_destroy_dataset(&self, name: &str, recursive: bool) -> Result<Vec<String>, DatasetError> {
        self.pool.check_administrable()?;
        Ok(self.doomed(name, recursive)?.iter().map(|filesystem| filesystem.name()).collect())
    }

    fn doomed(&self, name: &str, recursive: bool) -> Result<Vec<Arc<Filesystem>>, DatasetError> {
        self.named(name)?;
        if !name.contains('/') {
            return Err(DatasetError::IsPool(name.to_owned()));
        }
        let doomed = self.subtree(name);
        if doomed.len() > 1 && !recursive {
            return Err(DatasetError::HasChildren(name.to_owned()));
        }
        Ok(doomed)
    }

    fn remove_dataset(&self, filesystem: &Arc<Filesystem>) -> Result<(), DatasetError> {
        self.pool.check_administrable()?;
        let name = filesystem.name();
        let (parent, id) = (self.parent_of(&name), filesystem.dataset.birth.id);
        // Its clients wait: nobody may be told that it is gone before that is durable.
        {
            let mut going = self.going.write();
            going.insert(id);
            self.mounted.write().remove(&id);
        }
        Arc::make_mut(&mut self.names.write()).remove(&name);
        let freed = self.free_dataset(filesystem);
        let is_there = freed.is_err();
        if is_there {
            Arc::make_mut(&mut self.names.write()).insert(filesystem);
        }
        let mut going = self.going.write();
        if is_there {
            self.mounted.write().insert(id, Arc::clone(filesystem));
        }
        going.remove(&id);
        drop(going);
        freed?;
        filesystem.standing.stand_below(None);
        if let Ok(parent) = parent {
            self.uncover(&parent, &name);
        }
        Ok(())
    }

    /// What takes long is to find the blocks, and for that nobody has to wait: once nobody finds the dataset any more only requests that
    /// were under way before can still change the tree.
    fn free_dataset(&self, filesystem: &Arc<Filesystem>) -> Result<(), SyncError> {
        self.pool.sync()?;
        let belongings = filesystem.belongings();
        self.pool.administer(|pool, txg| {
            pool.remove_dataset(filesystem.dataset.birth.id, txg);
            filesystem.free_everything(txg, belongings);
        })
    }

    /// Renames a dataset and with it those below. File handles stay valid: they name ids.
    pub fn rename_dataset(&self, from: &str, to: &str) -> Result<(), DatasetError> {
        let _one = self.command.lock();
        self.named(from)?;
        let new_parent = self.parent_of(to)?;
        let old_parent = self.parent_of(from)?;
        let pool_name = |name: &str| name.split('/').next().map(str::to_owned);
        if to.starts_with(&format!("{from}/")) || pool_name(from) != pool_name(to) {
            return Err(DatasetError::BadTarget(to.to_owned()));
        }
        if self.by_name(to).is_some() {
            return Err(DatasetError::Exists(to.to_owned()));
        }
        let moved = self.subtree(from);
        let new_name = |filesystem: &Filesystem| format!("{to}{}", &filesystem.name()[from.len()..]);
        moved.iter().try_for_each(|filesystem| check_name(&new_name(filesystem)))?;
        check_room_for(&moved, &new_parent)?;
        self.pool.check_administrable()?;
        self.on_mount_point(&new_parent, to, || {
            self.pool.administer(|_, _| {
                // Those below stand below the same one, and find their names by it.
                if let Some(renamed) = moved.first() {
                    let (parent, component) = self.line_of(to);
                    renamed.dataset.change_line(|line| (line.parent, line.name) = (parent, component));
                }
                moved.iter().for_each(|filesystem| filesystem.dataset.take_name(&new_name(filesystem)));
            })
        })?;
        *self.names.write() = Arc::new(Names::new(self.mounted.read().values().cloned()));
        moved.iter().for_each(|filesystem| self.find_standing(filesystem));
        if let Some(root) = moved.first() {
            self.cover(&new_parent, to, root.dataset.birth.id);
        }
        self.uncover(&old_parent, from);
        self.put_in_force(&moved, || {})
    }

    /// Sets a local property; it is in force, here and below, when this returns.
    pub fn set_property(&self, name: &str, value: Value) -> Result<(), DatasetError> {
        let filesystem = self.named(name)?;
        self.change_properties(&filesystem, |local| {
            local.set(value);
        })
    }

    /// Removes a local property, so that the one from above is in force again.
    pub fn inherit_property(&self, name: &str, property: Property) -> Result<(), DatasetError> {
        let filesystem = self.named(name)?;
        self.change_properties(&filesystem, |local| {
            local.clear(property);
        })
    }

    /// Sets a property that users name. Nothing is in force by it.
    pub fn set_user_property(&self, name: &str, property: UserProperty) -> Result<(), DatasetError> {
        self.change_user_properties(name, |local| local.set_user(property))
    }

    /// Removes one that was set here.
    pub fn inherit_user_property(&self, name: &str, property: &str) -> Result<(), DatasetError> {
        self.change_user_properties(name, |local| {
            local.clear_user(property);
            Ok(())
        })
    }

    fn change_user_properties(
        &self,
        name: &str,
        change: impl FnOnce(&mut PropertySet) -> Result<(), PropertyError>,
    ) -> Result<(), DatasetError> {
        let filesystem = self.named(name)?;
        let _one = self.command.lock();
        let mut after = filesystem.dataset.line();
        change(&mut after.local)?;
        let _room = self.room_for(&filesystem, &after.local)?;
        self.put_in_force(&[], || filesystem.dataset.change_line(|line| *line = after))
    }

    fn change_properties(
        &self,
        filesystem: &Arc<Filesystem>,
        change: impl FnOnce(&mut PropertySet),
    ) -> Result<(), DatasetError> {
        let _one = self.command.lock();
        let affected = self.subtree(&filesystem.name());
        let mut after = filesystem.dataset.line();
        change(&mut after.local);
        let _room = self.room_for(filesystem, &after.local)?;
        // The line changes in the group that puts it in force, or a crash between the two would leave a dataset that
        // says `standard` and does not log.
        self.put_in_force(&affected, || filesystem.dataset.change_line(|line| *line = after))
    }

    /// Computes the properties in force anew. A change of `sync` between logging and not takes effect at the border of
    /// the group that makes it durable (rules F13).
    fn put_in_force(&self, affected: &[Arc<Filesystem>], change: impl FnOnce()) -> Result<(), DatasetError> {
        self.pool.administer(|_, txg| {
            change();
            let names = self.names();
            for filesystem in affected {
                let in_force = effective_of(&names, &filesystem.dataset.name(), &filesystem.dataset.line().local);
                filesystem.switch_log(in_force.sync != SyncMode::Disabled, txg.next());
                filesystem.standing.own().set_quota(in_force.quota);
                filesystem.dataset.take_effect(in_force);
            }
        })?;
        Ok(())
    }

    /// Lets it count with the dataset above it, and with all above that.
    pub(super) fn find_standing(&self, filesystem: &Filesystem) {
        let name = filesystem.name();
        let parent = name.rsplit_once('/').and_then(|(parent, _)| self.by_name(parent));
        filesystem.standing.stand_below(parent.as_deref().map(|parent| &parent.standing));
    }

    /// Finds out which datasets stand in which root directories, and keeps their mount points from being removed.
    pub(super) fn find_children(&self) {
        let names = self.names();
        for Named { name, filesystem } in &*names {
            let parent = name.rsplit_once('/').and_then(|(parent, _)| names.find(parent));
            if let Some(parent) = parent {
                self.cover(parent, name, filesystem.dataset.birth.id);
            }
        }
    }

    /// Mounts a dataset on its directory in the parent's root. Only that is looked at: a pool may have tens of thousands.
    /// Nothing is mounted on what is no directory: it would cover nothing, and nobody could take it away.
    fn cover(&self, parent: &Filesystem, name: &str, child: DatasetId) {
        let component = component(name);
        if let Ok((attr, _)) = parent.lookup(&Cred::root(), parent.root(), component) {
            if attr.kind != FileKind::Directory {
                tracing::warn!(
                    "dataset {name} can be mounted by its path only: in the root of {} something that is no directory has its \
                     name. Remove that, and export and import the pool",
                    parent.name()
                );
                return;
            }
            parent.mountpoints.write().insert(attr.object.id);
        }
        self.children.write().insert(mount_key(parent, name), child);
    }

    /// Its directory goes, or is one like others again where somebody has put something into it; nobody is shown it before.
    fn uncover(&self, parent: &Filesystem, name: &str) {
        if let Ok((attr, _)) = parent.lookup(&Cred::root(), parent.root(), component(name)) {
            parent.mountpoints.write().remove(&attr.object.id);
        }
        remove_mount_point(parent, name);
        self.children.write().remove(&mount_key(parent, name));
    }

    /// A dataset and those below it, each behind its parent.
    fn subtree(&self, name: &str) -> Vec<Arc<Filesystem>> {
        self.names().subtree(name).iter().map(|named| Arc::clone(&named.filesystem)).collect()
    }
}

/// Under what the dataset with this name is found in its parent's root.
fn mount_key(parent: &Filesystem, name: &str) -> (DatasetId, Vec<u8>) {
    (parent.dataset.birth.id, component(name).to_vec())
}

/// Whether the quotas below which a subtree would come have room for it. Those below which it is already are not asked.
fn check_room_for(moved: &[Arc<Filesystem>], new_parent: &Filesystem) -> Result<(), DatasetError> {
    let Some(top) = moved.first() else { return Ok(()) };
    let above = top.standing.chain();
    let more = top.standing.own().used_bytes();
    let mut names = new_parent.name();
    for sum in new_parent.standing.chain().iter() {
        let is_new = !above.iter().any(|known| Arc::ptr_eq(known, sum));
        let used = sum.used_bytes();
        if let Some(quota) = sum.quota().filter(|quota| is_new && used.saturating_add(more) > *quota) {
            let [quota, used, more] = [quota, used, more].map(Size);
            return Err(DatasetError::OverQuota { name: top.name(), below: names, quota, used, more });
        }
        names.truncate(names.rfind('/').unwrap_or(0));
    }
    Ok(())
}

/// Properties in force for a dataset, with those of the datasets above.
fn effective_of(names: &Names, name: &str, local: &PropertySet) -> Effective {
    let above = ancestors(name).filter(|above| *above != name).filter_map(|name| names.find(name));
    let above: Vec<PropertySet> = above.map(|filesystem| filesystem.dataset.line().local).collect();
    let chain: Vec<&PropertySet> = above.iter().chain(std::iter::once(local)).collect();
    effective(&chain)
}

/// A pool or dataset name, as zfs has them: components of letters, digits, `-`, `_`, `.` and `:`.
pub fn check_name(name: &str) -> Result<(), DatasetError> {
    let why = |why| Err(DatasetError::Name { name: name.to_owned(), why });
    if name.len() > DATASET_NAME_MAX {
        return why("it is longer than 255 bytes");
    }
    for component in name.split('/') {
        if component.is_empty() {
            return why("a component is empty");
        }
        if component == "." || component == ".." {
            return why("`.` and `..` are no components");
        }
        if !component.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c)) {
            return why("only letters, digits, '-', '_', '.' and ':' are allowed");
        }
    }
    Ok(())
}

impl Filesystem {
    /// Full name: the pool's, and those of the datasets above it.
    #[must_use]
    pub fn name(&self) -> String {
        self.dataset.name().to_string()
    }

    /// The properties in force.
    #[must_use]
    pub fn in_force(&self) -> Arc<Effective> {
        self.dataset.effective()
    }

    /// Bytes that it uses, without its children.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.dataset.root().used_bytes
    }

    /// The dataset's line in lists.
    #[must_use]
    pub fn info(&self) -> DatasetInfo {
        let line = self.dataset.line();
        let root = self.dataset.root();
        DatasetInfo {
            id: self.dataset.birth.id,
            name: self.name(),
            created: self.dataset.birth.created,
            created_txg: self.dataset.birth.created_txg,
            guid: self.dataset.birth.guid,
            used_bytes: root.used_bytes,
            reserved_bytes: root.reserved_bytes,
            available_bytes: self.statfs().available_bytes,
            object_count: root.object_count,
            local: line.local,
            effective: self.dataset.effective(),
        }
    }

    /// Makes the root directory, in the group in which the dataset itself is made.
    fn found(&self, txg: Txg, (uid, gid): (u32, u32)) {
        let now = self.now();
        let inode = crate::inode::Inode::root_directory(self.dataset.birth.root_generation, (uid, gid), now);
        let id = self.dataset.birth.root_object;
        let mut record = crate::record::Record::default();
        record.inodes.push(crate::ops::after(id, &inode, crate::record::SizeRule::Exact));
        let mut locked = crate::object::Locked::lock(&self.objects, &[id]);
        self.apply(&mut locked, txg, record, false);
    }

    /// Logs, or stops logging, from group `at` on.
    pub(super) fn switch_log(&self, after: bool, at: Txg) {
        let before = self.log_switch.load().after;
        if before != after {
            // The root of the group before says so.
            self.dataset.note_change(Txg(at.0.saturating_sub(1)));
            self.log_switch.store(Arc::new(LogSwitch { before, at, after }));
        }
    }
}
