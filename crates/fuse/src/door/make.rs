//! What makes a name.

use tally_base::Wait;
use tally_vfs::{
    Attr, ClientNumber, CreateHow, FileKind, FsError, NodeKind, ObjectRef, OpCtx, Outcome, Right, SetAttr, Share,
};

use super::{Asked, Step, Until, With, waits};
use crate::opens::Way;
use crate::wire;

const O_EXCL: u32 = 0o200;
pub(super) const O_TRUNC: u32 = 0o1000;
/// Of OPEN: set-id bits go with the content.
const KILL_SUIDGID: u32 = 1 << 0;

fn mode(bits: u32) -> SetAttr {
    SetAttr { mode: Some(bits & 0o7777), ..SetAttr::default() }
}

impl Asked<'_> {
    /// The directory in which something is to be made. Below one that a dataset is mounted on for others nobody else would see it.
    fn maker(&self) -> Result<ObjectRef, FsError> {
        let dir = self.node()?;
        if self.vfs.is_covered(dir) { Err(FsError::ReadOnly) } else { Ok(dir) }
    }

    fn made(&self, make: impl FnOnce(OpCtx<'_>, ObjectRef) -> Outcome<Attr>) -> Result<Step, FsError> {
        let (dir, cred) = (self.maker()?, self.cred());
        Ok(self.ends(make(self.ctx(&cred, Right::Mode), dir), |attr| self.entry(&attr)))
    }

    pub(super) fn mkdir(&self, name: &[u8], bits: u32) -> Result<Step, FsError> {
        self.made(|ctx, dir| self.vfs.mkdir(ctx, dir, name, &mode(bits)))
    }

    pub(super) fn symlink(&self, name: &[u8], target: &[u8]) -> Result<Step, FsError> {
        self.made(|ctx, dir| self.vfs.symlink(ctx, dir, name, target, &SetAttr::default()))
    }

    pub(super) fn link(&self, node: u64, name: &[u8]) -> Result<Step, FsError> {
        let object = self.object(node)?;
        self.made(|ctx, dir| self.vfs.link(ctx, object, dir, name))
    }

    pub(super) fn mknod(&self, name: &[u8], bits: u32, rdev: u32) -> Result<Step, FsError> {
        let device = ((rdev >> 8) & 0xfff, (rdev & 0xff) | ((rdev >> 12) & 0xf_ff00));
        let node = match bits >> 12 {
            0o01 => NodeKind::Fifo,
            0o02 => NodeKind::CharDevice(device.0, device.1),
            0o06 => NodeKind::BlockDevice(device.0, device.1),
            0o14 => NodeKind::Socket,
            0 | 0o10 => return self.made(|ctx, dir| self.vfs.create(ctx, dir, name, &CreateHow::Guarded(mode(bits)))),
            _ => return Err(FsError::Invalid),
        };
        self.made(|ctx, dir| self.vfs.mknod(ctx, dir, name, node, &mode(bits)))
    }

    pub(super) fn create(&self, name: &[u8], bits: u32, flags: u32) -> Result<Step, FsError> {
        let (dir, cred, way) = (self.maker()?, self.cred(), Way::making(flags));
        let ctx = self.ctx(&cred, Right::Mode);
        let outcome = self.door.opens.make(self.vfs, ctx, (dir, name), &CreateHow::Guarded(mode(bits)), way);
        match outcome.result {
            Ok(opened) => {
                let fh = self.door.opens.number(way);
                let reply = self.entry(&opened.attr).and(wire::opened(fh));
                Ok(waits(outcome.wait, reply, With::Opened(opened.attr.object, fh)))
            }
            // The kernel looks again, and asks of what is there whether it may be opened.
            Err(FsError::Exists) if flags & O_EXCL == 0 => Ok(self.refused(FsError::Stale, outcome.wait)),
            Err(error) => Ok(self.refused(error, outcome.wait)),
        }
    }

    /// Whose opens keep this one out, if that is why it failed.
    pub(super) fn who_denies(&self, object: ObjectRef, way: Way, error: Option<FsError>) -> Vec<ClientNumber> {
        if error != Some(FsError::ShareDenied) {
            return Vec::new();
        }
        self.vfs.in_the_way(object, Some(self.door.opens.holder(way)), Share::only(way.access()))
    }

    pub(super) fn open(&self, flags: u32, open_flags: u32) -> Result<Step, FsError> {
        let (object, way) = (self.node()?, Way::of(flags));
        let open = || self.door.opens.open(self.vfs, &self.cred(), object, way);
        let who_denies = |opened: &Result<Attr, _>| self.who_denies(object, way, opened.as_ref().err().copied());
        let (opened, is_taken) = self.past_late(open, who_denies);
        let attr = opened?;
        if is_taken && let Ok(Wait::On(promise)) | Err(Wait::On(promise)) = self.door.source.given(self.vfs) {
            // Who had it goes out of the list first (rules V24).
            self.door.opens.close(Some(self.vfs), object.id, way);
            return Ok(Step::Again(Until::Kept(promise)));
        }
        let fh = self.door.opens.number(way);
        let (reply, with) = (wire::opened(fh), With::Opened(object, fh));
        if flags & O_TRUNC == 0 || attr.kind != FileKind::File || self.was_done() {
            return Ok(Step::Reply(reply, with));
        }
        let cred = self.changer(open_flags & KILL_SUIDGID != 0);
        let cut = SetAttr { size: Some(0), ..SetAttr::default() };
        // Who opens to read alone may cut as well, and the kernel has asked whether he may.
        let right = if way.writes() { Right::Open(self.door.opens.holder(way)) } else { Right::Mode };
        let outcome = self.vfs.setattr(self.ctx(&cred, right), object, &cut, None);
        if let Err(error) = outcome.result {
            self.door.opens.close(Some(self.vfs), object.id, way);
            return Ok(self.refused(error, outcome.wait));
        }
        Ok(waits(outcome.wait, reply, with))
    }
}
