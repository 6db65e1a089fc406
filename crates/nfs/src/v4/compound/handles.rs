//! What the current handle and the saved one name.

use std::sync::Arc;

use tally_vfs::{ObjectRef, Vfs};

use super::{Compound, Stop};
use crate::entry::Target;
use crate::v4::naming::Teller;
use crate::v4::pseudo::{Node, Tree};
use crate::v4::status::Status;

impl Compound<'_> {
    /// What stands above the exports, as this client sees it.
    pub(in crate::v4) fn tree(&self) -> Tree<'_> {
        let (client, lease) = (self.scene.link.peer().ip(), self.scene.house.lease());
        let names = Teller::new(&self.scene.house.naming);
        Tree { exports: self.scene.exports, entry: &self.entry, client, minor: self.head.minor, lease, names }
    }

    /// What the current handle names.
    pub(in crate::v4) fn current(&self) -> Result<&Node, Status> {
        self.current.as_ref().map_err(|shut| shut.told)
    }

    /// The object that the current handle names, also where the client may not see its dataset any more: to give up what it has of it (rules V36).
    pub(in crate::v4) fn to_give_up(&self) -> Result<(Arc<dyn Vfs>, ObjectRef), Status> {
        match &self.current {
            Ok(node) => node.target().map(|target| (target.vfs.clone(), target.object)).ok_or(Status::BadStateid),
            Err(shut) => shut.unseen.as_ref().map(|(_, vfs, object)| (vfs.clone(), *object)).ok_or(shut.told),
        }
    }

    /// What the saved handle names, to who needs both.
    pub(in crate::v4) fn saved(&self) -> Result<&Node, Status> {
        self.saved.as_ref().map_err(|shut| match shut.told {
            Status::RestoreFh => Status::NoFileHandle,
            told => told,
        })
    }

    /// An object that is to be changed.
    pub(in crate::v4) fn to_change(&self, node: Result<&Node, Status>) -> Result<Target, Stop> {
        // Above the exports nobody changes anything.
        let target = node?.target().ok_or(Status::RoFs)?;
        if target.rule.read_only {
            return Err(Status::RoFs.into());
        }
        Ok(target.clone())
    }
}
