//! What is kept of a mount for whoever serves it behind this process (rules V45).

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::journal::{Journal, NotKept, State};

/// What is kept, and what another process has left.
pub struct Keeping {
    journal: Arc<Journal>,
    before: Option<State>,
}

impl Keeping {
    /// Begins for a mount, of which its owner keeps these words: at least one byte, at most a mebibyte.
    ///
    /// # Errors
    ///
    /// The system has no room for two files in memory.
    pub fn begin(about: &[u8]) -> Result<Self, NotKept> {
        Ok(Self { journal: Arc::new(Journal::begin(about)?), before: None })
    }

    /// Goes on with what another process has kept, of whose files the order does not matter.
    ///
    /// # Errors
    ///
    /// It is not whole, or of another version. Or that process ended suddenly under a kernel that does not ask again what it had asked: then the mount has to end, as some of its programs would wait for ever.
    pub fn resume(files: [OwnedFd; 2]) -> Result<Self, NotKept> {
        let (journal, before) = Journal::resume(files)?;
        match before.can_resend {
            None => Err(NotKept::Lost),
            Some(false) if !before.has_ended_well => Err(NotKept::Lost),
            Some(_) => Ok(Self { journal: Arc::new(journal), before: Some(before) }),
        }
    }

    /// By which it is told from others: 32 digits.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(*self.journal.id()))
    }

    /// What its owner has said of it.
    #[must_use]
    pub fn about(&self) -> &[u8] {
        self.before.as_ref().map_or(&[], |before| &before.about)
    }

    /// For who keeps them.
    #[must_use]
    pub fn files(&self) -> [BorrowedFd<'_>; 2] {
        self.journal.files()
    }

    pub(crate) fn into_parts(self) -> (Option<Arc<Journal>>, Option<State>) {
        (Some(self.journal), self.before)
    }
}
