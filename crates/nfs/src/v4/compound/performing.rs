//! Which function carries out which operation.

use super::{Compound, Stop};
use crate::v4::op::Op;
use crate::v4::ops;
use crate::v4::status::Status;
use crate::xdr::{Decoder, Encoder};

impl Compound<'_> {
    /// What changed something has left a mark.
    pub(super) fn perform_counted(
        &mut self,
        op: Op,
        words: &mut Decoder<'_>,
        out: &mut Encoder,
    ) -> Result<Status, Stop> {
        let begun = self.owed.changes;
        let told = self.perform(op, words, out)?;
        self.owed.marks += usize::from(op.leaves_mark() && self.owed.changes > begun);
        Ok(told)
    }

    /// What it did is told with the status that this gives; of what failed the status alone ([`Results::cut`]).
    fn perform(&mut self, op: Op, words: &mut Decoder<'_>, out: &mut Encoder) -> Result<Status, Stop> {
        if op.leads_elsewhere() {
            self.owed.stateids[0] = None;
        }
        match op {
            Op::PutFh => ops::handle::put(self, words),
            Op::PutRootFh | Op::PutPubFh => ops::handle::put_root(self),
            Op::GetFh => ops::handle::get(self, out),
            Op::SaveFh => ops::handle::save(self),
            Op::RestoreFh => ops::handle::restore(self),
            Op::Lookup => ops::names::lookup(self, words),
            Op::LookupP => ops::names::lookup_parent(self),
            Op::SecInfo => ops::names::security(self, words, out),
            Op::ReadLink => ops::names::read_link(self, out),
            Op::Access => ops::attrs::access(self, words, out),
            Op::GetAttr => return ops::attrs::get(self, words, out),
            Op::Verify => return ops::attrs::verify(self, words, true),
            Op::NVerify => return ops::attrs::verify(self, words, false),
            Op::ReadDir => return ops::listing::read(self, words, out),
            Op::SetClientId => {
                let told = ops::clients::introduce(self, words, out);
                self.scene.house.close_for_the_gone(self.scene.exports);
                return Ok(told?);
            }
            Op::SetClientIdConfirm => self.and_close_for_the_gone(|compound| ops::clients::confirm(compound, words)),
            Op::Renew => ops::clients::renew(self, words),
            Op::Read => return ops::data::read(self, words, out),
            Op::SecInfoNoName => ops::names::security_without_name(self, words, out),
            Op::ExchangeId => self.and_close_for_the_gone(|compound| ops::sessions::exchange_id(compound, words, out)),
            Op::CreateSession => self.and_close_for_the_gone(|compound| ops::sessions::create(compound, words, out)),
            Op::BackchannelCtl => ops::sessions::change_back(self, words),
            Op::BindConnToSession => ops::sessions::bind(self, words, out),
            Op::DestroySession => self.and_close_for_the_gone(|compound| ops::sessions::destroy(compound, words)),
            Op::DestroyClientId => {
                self.and_close_for_the_gone(|compound| ops::sessions::destroy_client(compound, words))
            }
            Op::ReclaimComplete => ops::sessions::reclaim_complete(self, words),
            Op::Sequence => return ops::sessions::sequence(self, words, out),
            Op::Lock => return ops::lock::lock(self, words, out),
            Op::LockT => return ops::lock::test(self, words, out),
            Op::LockU => return Ok(ops::lock::unlock(self, words, out)?),
            Op::ReleaseLockOwner => ops::lock::release(self, words),
            Op::Close => return Ok(ops::close::close(self, words, out)?),
            Op::DelegReturn => ops::delegation::give_back(self, words),
            Op::OpenDowngrade => return Ok(ops::close::downgrade(self, words, out)?),
            Op::OpenConfirm => return Ok(ops::close::confirm(self, words, out)?),
            Op::TestStateid => ops::close::test(self, words, out),
            Op::FreeStateid => ops::close::free(self, words),
            Op::Open => return ops::open::open(self, words, out),
            Op::SetAttr => return ops::attrs::set(self, words, out),
            Op::Create => return ops::make::create(self, words, out),
            Op::Link => return ops::make::link(self, words, out),
            Op::Remove => return ops::remove::remove(self, words, out),
            Op::Rename => return ops::remove::rename(self, words, out),
            Op::Write => return ops::data::write(self, words, out),
            Op::Commit => return ops::data::commit(self, words, out),
            Op::Allocate => return ops::sparse::allocate(self, words),
            Op::Deallocate => return ops::sparse::deallocate(self, words),
            Op::Seek => return ops::sparse::seek(self, words, out),
            Op::IoAdvise => ops::sparse::advise(self, words, out),
            Op::Copy => return ops::copy::copy(self, words, out),
            Op::GetXattr => ops::xattr::get(self, words, out),
            Op::ListXattrs => ops::xattr::list(self, words, out),
            Op::SetXattr => return ops::xattr::set(self, words, out),
            Op::RemoveXattr => return ops::xattr::remove(self, words, out),
        }?;
        Ok(Status::Ok)
    }

    /// Behind an operation in which clients may have gone: what they had open is closed.
    fn and_close_for_the_gone(&self, perform: impl FnOnce(&Self) -> Result<(), Status>) -> Result<(), Status> {
        self.scene.house.end_with_mounts(self.scene.exports);
        let told = perform(self);
        self.scene.house.close_for_the_gone(self.scene.exports);
        told
    }
}
