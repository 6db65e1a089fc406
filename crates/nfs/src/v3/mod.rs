//! NFS version 3 (RFC 1813): the 22 procedures over a [`tally_vfs::Vfs`].
//!
//! Each procedure decodes its arguments, finds the dataset of its handle under the rule of the client
//! ([`Request::target`]), asks the file system, and encodes what it said. Nothing here waits: a modifying
//! procedure hands the file system's promise on with the reply that rests on it.

mod attributes;
mod data;
mod listing;
mod make;
mod names;
mod remove;
mod request;
mod space;
mod status;
mod wire;

pub use crate::procedure::{PROCEDURE_COUNT, Procedure};
pub(crate) use attributes::told as attributes_told;
pub(crate) use request::failure_body;
pub use request::{About, Answer, Done, Request};
pub use space::READ_BYTES_MAX;
pub use status::Status;

use crate::entry::Target;
use crate::xdr::Garbage;

/// RPC program number.
pub const PROGRAM: u32 = 100_003;
/// The only version we have.
pub const VERSION: u32 = 3;

/// What its first handle names, if it has one and the client may see that.
pub(crate) fn first(request: &Request<'_>) -> Option<Target> {
    let handle = wire::handle(&mut request.call.arguments()).ok()?;
    request.target(handle).ok()
}

/// Carries out `procedure`.
pub fn run(procedure: Procedure, request: &Request<'_>) -> Result<Done, Garbage> {
    let arguments = &mut request.call.arguments();
    match procedure {
        Procedure::Null => Ok(Done::null()),
        Procedure::GetAttr => attributes::getattr(request, arguments),
        Procedure::SetAttr => attributes::setattr(request, arguments),
        Procedure::Lookup => names::lookup(request, arguments),
        Procedure::Access => attributes::access(request, arguments),
        Procedure::ReadLink => names::readlink(request, arguments),
        Procedure::Read => data::read(request, arguments),
        Procedure::Write => data::write(request, arguments),
        Procedure::Create => make::create(request, arguments),
        Procedure::MkDir => make::mkdir(request, arguments),
        Procedure::SymLink => make::symlink(request, arguments),
        Procedure::MkNod => make::mknod(request, arguments),
        Procedure::Remove => remove::remove(request, arguments),
        Procedure::RmDir => remove::rmdir(request, arguments),
        Procedure::Rename => remove::rename(request, arguments),
        Procedure::Link => make::link(request, arguments),
        Procedure::ReadDir => listing::readdir(request, arguments),
        Procedure::ReadDirPlus => listing::readdirplus(request, arguments),
        Procedure::FsStat => space::fsstat(request, arguments),
        Procedure::FsInfo => space::fsinfo(request, arguments),
        Procedure::PathConf => space::pathconf(request, arguments),
        Procedure::Commit => data::commit(request, arguments),
    }
}
