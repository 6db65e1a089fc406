//! PUTFH, PUTROOTFH, PUTPUBFH, GETFH, SAVEFH, RESTOREFH: the current handle, and the saved one.

use super::super::compound::Compound;
use super::super::pseudo::{Node, Shut};
use super::super::status::Status;
use crate::xdr::{Decoder, Encoder};

/// Longest handle that a client may send (RFC 7530, `NFS4_FHSIZE`).
const HANDLE_BYTES_MAX: usize = 128;

pub(in super::super) fn put(compound: &mut Compound<'_>, words: &mut Decoder<'_>) -> Result<(), Status> {
    let handle = words.opaque(HANDLE_BYTES_MAX)?;
    let node = compound.tree().of_handle(handle);
    // Of what the client may not see any more it may give up what it has (rules V36); whoever uses it otherwise is told so.
    if let Err(Shut { told, unseen: None }) = node {
        return Err(told);
    }
    compound.current = node;
    Ok(())
}

/// The public handle is the root's.
pub(in super::super) fn put_root(compound: &mut Compound<'_>) -> Result<(), Status> {
    compound.current = Ok(Node::Root);
    Ok(())
}

pub(in super::super) fn get(compound: &Compound<'_>, out: &mut Encoder) -> Result<(), Status> {
    let handle = compound.current()?.handle();
    out.opaque(&handle);
    Ok(())
}

pub(in super::super) fn save(compound: &mut Compound<'_>) -> Result<(), Status> {
    compound.saved = Ok(compound.current()?.clone());
    compound.save_stateid();
    Ok(())
}

pub(in super::super) fn restore(compound: &mut Compound<'_>) -> Result<(), Status> {
    compound.current = Ok(compound.saved.clone()?);
    compound.restore_stateid();
    Ok(())
}
