//! The dataset in which a pool keeps what a server has to know of its clients behind a restart: in the pool, so that it moves with it.
//!
//! It is a dataset as any other, but nobody is shown it: its name has a character that no name of a command may have, so it stands in no list, has no
//! directory to be mounted on, and no handle of it is given out. What is in it is waited for whatever others are set to, and counts against nobody's quota.

use std::sync::Arc;

use tally_store::properties::{PropertySet, SyncMode, Value};
use tally_vfs::{Cred, FsError, Names, OpCtx};

use super::datasets::DatasetError;
use super::{Filer, FilerError};
use crate::filesystem::Filesystem;

/// Its name below the pool's.
const COMPONENT: &str = "$v4";
/// What stands in it beside clients: how long leases were (`v4/tracking/list.rs` of the NFS server writes it so). Of those there are one or two, so that this many entries say whether there is anybody.
const OF_LEASES: &[u8] = b"lease-";
const LOOKED_AT: usize = 16;
/// Entries that are looked at together.
const FORGOTTEN_AT_ONCE: usize = 1024;

/// Why clients stay in the list.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    /// It cannot be read or changed.
    #[error("their list cannot be changed: {0}")]
    List(#[from] FsError),
    /// What was changed is not durable.
    #[error(transparent)]
    Sync(#[from] FilerError),
}

/// Whether a dataset of this name is one that nobody is shown.
pub(super) fn is_hidden(name: &str) -> bool {
    name.rsplit('/').next().is_some_and(|component| component.starts_with('$'))
}

/// Whether a client is in the list. What cannot be read may have some.
fn may_have_any(list: &Filesystem) -> bool {
    let page = list.readdir(&Cred::root(), list.root(), 0, LOOKED_AT, false);
    page.map_or(true, |page| !page.eof || page.entries.iter().any(|entry| is_of_client(&entry.name)))
}

fn is_of_client(name: &[u8]) -> bool {
    !matches!(name, b"." | b"..") && !name.starts_with(OF_LEASES)
}

impl Filer {
    /// What is kept of clients, if anything ever was.
    #[must_use]
    pub fn clients(&self) -> Option<Arc<Filesystem>> {
        self.hidden.get().cloned()
    }

    /// The same, made if it is not there: one transaction group. A pool that was imported for reading has none that is made.
    pub fn make_clients(&self) -> Result<Arc<Filesystem>, DatasetError> {
        let _one = self.command.lock();
        if let Some(clients) = self.clients() {
            return Ok(clients);
        }
        self.pool.check_administrable()?;
        let mut local = PropertySet::new();
        local.set(Value::Sync(SyncMode::Standard));
        local.set(Value::ReadOnly(false));
        // A program that does not know that it is nobody's to see.
        local.set(Value::ShareNfs("off".into()));
        self.add_dataset(&format!("{}/{COMPONENT}", self.name()), local, (0, 0))
    }

    /// Before anybody is answered: what loses its last name is held if a client is in the pool's list, who may have it open and claim it again. Where none is, and that
    /// is how it is where version 3 alone is spoken, it goes as ever.
    pub(super) fn hold_for_clients(&self) {
        if self.clients().is_some_and(|clients| may_have_any(&clients)) {
            self.mounted.read().values().for_each(|filesystem| filesystem.hold_all(true));
        }
    }

    /// Whether what loses its last name is held for them.
    #[must_use]
    pub fn holds_for_clients(&self) -> bool {
        self.clients().is_some_and(|clients| clients.holds_all())
    }

    /// Nobody will claim anything again in this life: from here on nothing is held for anybody who has not opened it.
    pub fn hold_for_nobody(&self) {
        self.mounted.read().values().for_each(|filesystem| filesystem.hold_all(false));
    }

    /// In this life nobody is kept from what clients had before, so in the next they may claim none of it (rules V24 and V27). Durable when it returns.
    pub fn forget_clients(&self) -> Result<(), ForgetError> {
        let Some(list) = self.clients().filter(|list| may_have_any(list)) else { return Ok(()) };
        let (cred, root) = (Cred::root(), list.root());
        let mut cookie = 0;
        loop {
            let page = list.readdir(&cred, root, cookie, FORGOTTEN_AT_ONCE, false)?;
            for entry in page.entries.iter().filter(|entry| is_of_client(&entry.name)) {
                let remove = || list.remove(OpCtx::of(&cred), root, &entry.name).result;
                match remove() {
                    Err(FsError::Throttled) => self.sync().map_err(ForgetError::from).and_then(|_| Ok(remove()?))?,
                    removed => removed?,
                }
            }
            match page.entries.last() {
                Some(last) if !page.eof => cookie = last.cookie,
                _ => break,
            }
        }
        self.sync()?;
        Ok(())
    }

    /// A dataset was mounted: whether it is this one.
    pub(super) fn keep_if_hidden(&self, filesystem: &Arc<Filesystem>) -> bool {
        let is_hidden = is_hidden(&filesystem.name());
        if is_hidden {
            // There is one, as its name is always the same.
            let _first = self.hidden.set(Arc::clone(filesystem));
        }
        is_hidden
    }
}
