//! One lone request of each kind, with what it needs made before.

use anyhow::{Result, bail};

use super::Requests;
use crate::referee::{Kind, Probed, ask};
use crate::wire::{Attributes, Connection, Handle, Refused, Special, Stable, status};
use crate::work::Watch;

/// Sends the request, and looks before and after.
pub(super) fn one(
    client: &mut Requests,
    folder: &Handle,
    kind: Kind,
    number: u64,
    watch: &mut dyn Watch,
) -> Result<Probed> {
    let verifier = client.next_verifier();
    let connection = &mut client.connection;
    let (name, other) = (format!("p{number:03}"), format!("q{number:03}"));
    let data = [number as u8; 4096];
    let mut lone = Lone { kind, watch };
    match kind {
        Kind::Create if number.is_multiple_of(2) => {
            lone.asks(|| connection.create_exclusive(folder, &name, verifier).map(drop))
        }
        Kind::Create => lone.asks(|| connection.create(folder, &name).map(drop)),
        Kind::SetAttr => {
            let file = connection.create(folder, &name)?;
            lone.asks(|| connection.set_attributes(&file, setting(number)))
        }
        Kind::WriteFileSync | Kind::WriteDataSync => {
            let stable = if kind == Kind::WriteFileSync { Stable::FileSync } else { Stable::DataSync };
            let file = connection.create(folder, &name)?;
            lone.asks(|| connection.write(&file, 0, &data, stable).map(drop))
        }
        Kind::Commit => {
            let file = connection.create(folder, &name)?;
            commit(connection, &file, &data, lone.watch)
        }
        Kind::MkDir => lone.asks(|| connection.mkdir(folder, &name).map(drop)),
        Kind::SymLink => lone.asks(|| connection.symlink(folder, &name, "somewhere/else")),
        Kind::MkNod => lone.asks(|| connection.make_special(folder, &name, Special::Fifo)),
        Kind::Link => {
            let file = connection.create(folder, &name)?;
            lone.asks(|| connection.link(&file, folder, &other))
        }
        Kind::Rename => {
            connection.create(folder, &name)?;
            lone.asks(|| connection.rename((folder, &name), (folder, &other)))
        }
        Kind::Remove => {
            connection.create(folder, &name)?;
            lone.asks(|| connection.remove(folder, &name))
        }
        Kind::RmDir => {
            connection.mkdir(folder, &name)?;
            lone.asks(|| connection.rmdir(folder, &name))
        }
        Kind::WriteToldStable | Kind::WriteAndClose | Kind::WriteAndFsync => bail!("{} is not asked for", kind.word()),
    }
}

/// Something new each time, or a server would be right to do nothing.
fn setting(number: u64) -> Attributes {
    let none = Attributes::default();
    match number % 3 {
        0 => Attributes { mode: Some(0o600), ..none },
        1 => Attributes { times: Some((number as u32 + 1, 0)), ..none },
        _ => Attributes { size: Some(4096), ..none },
    }
}

/// An UNSTABLE WRITE and its COMMIT. If the server says that the WRITE is stable already, it is held to that, and the
/// COMMIT has nothing left to promise.
fn commit(connection: &mut Connection, file: &Handle, data: &[u8], watch: &mut dyn Watch) -> Result<Probed> {
    let mut told = Stable::Unstable;
    let write = Lone { kind: Kind::WriteToldStable, watch: &mut *watch }.asks(|| {
        told = connection.write(file, 0, data, Stable::Unstable)?.committed;
        Ok(())
    })?;
    if told != Stable::Unstable {
        return Ok(write);
    }
    Lone { kind: Kind::Commit, watch }.asks(|| connection.commit(file).map(drop))
}

/// A kind and who watches.
struct Lone<'a> {
    kind: Kind,
    watch: &'a mut dyn Watch,
}

impl Lone<'_> {
    fn asks(&mut self, request: impl FnOnce() -> Result<()>) -> Result<Probed> {
        ask(self.kind, self.watch, request).or_else(|error| match error.downcast_ref::<Refused>() {
            Some(refused) if matches!(refused.status, status::NOTSUPP | status::PERM | status::ACCES | INVAL) => {
                Ok(Probed::Refused(refused.to_string()))
            }
            _ => Err(error),
        })
    }
}

/// How some servers say that they have no such procedure.
const INVAL: u32 = 22;
