//! Changes of directories, beyond making a file.

use anyhow::Result;

use super::{Attributes, Connection, Handle, Procedure};

/// What MKNOD makes: the only kind that needs no rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// A named pipe.
    Fifo = 7,
}

impl Connection {
    /// SYMLINK to any text.
    pub fn symlink(&mut self, folder: &Handle, name: &str, to: &str) -> Result<Handle> {
        self.call(Procedure::SymLink);
        self.named(folder, name);
        self.attributes(Attributes { mode: Some(0o777), ..Attributes::default() });
        self.opaque(to.as_bytes());
        self.round_trip("SYMLINK", name)?.handle()
    }

    /// MKNOD with mode 0644.
    pub fn make_special(&mut self, folder: &Handle, name: &str, special: Special) -> Result<()> {
        self.call(Procedure::MkNod);
        self.named(folder, name);
        self.number(special as u32);
        self.attributes(Attributes { mode: Some(0o644), ..Attributes::default() });
        self.round_trip("MKNOD", name).map(drop)
    }

    /// LINK: another name for a file.
    pub fn link(&mut self, file: &Handle, folder: &Handle, name: &str) -> Result<()> {
        self.call(Procedure::Link);
        self.opaque(&file.0);
        self.named(folder, name);
        self.round_trip("LINK", name).map(drop)
    }

    /// RENAME within a folder or between two.
    pub fn rename(&mut self, from: (&Handle, &str), to: (&Handle, &str)) -> Result<()> {
        self.call(Procedure::Rename);
        self.named(from.0, from.1);
        self.named(to.0, to.1);
        self.round_trip("RENAME", from.1).map(drop)
    }

    /// REMOVE.
    pub fn remove(&mut self, folder: &Handle, name: &str) -> Result<()> {
        self.call(Procedure::Remove);
        self.named(folder, name);
        self.round_trip("REMOVE", name).map(drop)
    }

    /// RMDIR.
    pub fn rmdir(&mut self, folder: &Handle, name: &str) -> Result<()> {
        self.call(Procedure::RmDir);
        self.named(folder, name);
        self.round_trip("RMDIR", name).map(drop)
    }

    fn named(&mut self, folder: &Handle, name: &str) {
        self.opaque(&folder.0);
        self.opaque(name.as_bytes());
    }
}
