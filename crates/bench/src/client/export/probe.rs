//! One lone request of each kind, with what it needs made before.

use anyhow::{Result, bail};

use super::Requests;
use crate::promise::Kind;
use crate::wire::{Attributes, Connection, Handle, Refused, Special, Stable, status};
use crate::witness::{CHANGE_BYTES, PROBE_BYTES, Probed, Witness};

/// Sends the request, and looks before and after.
pub(super) fn one(
    client: &mut Requests,
    folder: &Handle,
    kind: Kind,
    number: u64,
    witness: &mut Witness<'_>,
) -> Result<Probed> {
    let verifier = client.next_verifier();
    let data = client.noise.bytes(PROBE_BYTES.min(client.limits.write_bytes as usize));
    let connection = &mut client.connection;
    let (name, other) = (format!("p{number:03}"), format!("q{number:03}"));
    let mut lone = Lone { kind, bytes: CHANGE_BYTES, witness };
    match kind {
        Kind::CreateExclusive => lone.asks(|| connection.create_exclusive(folder, &name, verifier).map(drop)),
        Kind::Create => lone.asks(|| connection.create(folder, &name).map(drop)),
        Kind::SetAttr => {
            let file = connection.create(folder, &name)?;
            lone.asks(|| connection.set_attributes(&file, setting(number)))
        }
        Kind::WriteFileSync | Kind::WriteDataSync => {
            let stable = if kind == Kind::WriteFileSync { Stable::FileSync } else { Stable::DataSync };
            let file = connection.create(folder, &name)?;
            lone.bytes = data.len() as u64;
            lone.asks(|| connection.write(&file, 0, &data, stable).map(drop))
        }
        Kind::Commit => {
            let file = connection.create(folder, &name)?;
            lone.bytes = data.len() as u64;
            lone.learns(|| commit(connection, &file, &data))
        }
        Kind::MkDir => lone.asks(|| connection.mkdir(folder, &name).map(drop)),
        Kind::SymLink => lone.asks(|| connection.symlink(folder, &name, "somewhere/else").map(drop)),
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

/// An UNSTABLE WRITE and its COMMIT, with nothing between them: a server that writes by itself has then nothing to do for
/// the COMMIT, and owes it nothing (RFC 1813, section 3.3.21). If it says that the WRITE is stable already, it is held to
/// that, and the COMMIT has nothing left to promise.
fn commit(connection: &mut Connection, file: &Handle, data: &[u8]) -> Result<Kind> {
    if connection.write(file, 0, data, Stable::Unstable)?.committed != Stable::Unstable {
        return Ok(Kind::WriteToldStable);
    }
    connection.commit(file).map(|_verifier| Kind::Commit)
}

/// A kind, what it takes, and who sees it.
struct Lone<'a, 'b> {
    kind: Kind,
    bytes: u64,
    witness: &'a mut Witness<'b>,
}

impl Lone<'_, '_> {
    fn asks(&mut self, request: impl FnOnce() -> Result<()>) -> Result<Probed> {
        let kind = self.kind;
        self.learns(|| request().map(|()| kind))
    }

    /// The reply says what kind it was.
    fn learns(&mut self, request: impl FnOnce() -> Result<Kind>) -> Result<Probed> {
        self.witness.ask(self.bytes, request).or_else(|error| match error.downcast_ref::<Refused>() {
            Some(refused) if matches!(refused.status, status::NOTSUPP | status::PERM | status::ACCES | INVAL) => {
                Ok(Probed::Refused(refused.to_string()))
            }
            _ => Err(error),
        })
    }
}

/// How some servers say that they have no such procedure.
const INVAL: u32 = 22;
