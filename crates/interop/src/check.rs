//! The comparison of a model with the server after a restart.

use nfs3_types::nfs3::{fattr3, ftype3, nfsstat3};

use crate::load::{Session, Trouble};
use crate::model::{HOME, Id, Kind, Model, Node, Operation, SHARED};

/// Compares everything, and lets the model learn what was open: after this, server and model agree.
pub async fn check(session: &mut Session, model: &mut Model, prefix: &str) -> Result<(), Trouble> {
    let directories: Vec<_> =
        model.nodes.iter().filter(|(_, n)| n.kind == Kind::Directory).map(|(id, _)| *id).collect();
    learn_handles(session, model).await?;
    for dir in directories {
        listing(session, model, dir, prefix).await?;
    }
    let names: Vec<_> = model.names.iter().map(|(key, id)| (key.clone(), *id)).collect();
    for ((dir, name), id) in names {
        object(session, model, dir, &name, id).await?;
    }
    for id in model.files() {
        content(session, model, id).await?;
    }
    for grave in &model.graves {
        match session.attributes(grave).await? {
            Err(nfsstat3::NFS3ERR_STALE | nfsstat3::NFS3ERR_BADHANDLE) => {}
            Err(other) => return violation(format!("the handle of a removed object is answered with {other}")),
            Ok(found) => return violation(format!("the handle of a removed object opens object {}", found.fileid)),
        }
    }
    Ok(())
}

/// Objects whose making was not answered have no handle yet.
async fn learn_handles(session: &mut Session, model: &mut Model) -> Result<(), Trouble> {
    let unknown: Vec<_> =
        model.names.iter().filter(|(_, id)| model.handle(**id).is_none()).map(|(key, id)| (key.clone(), *id)).collect();
    for ((dir, name), id) in unknown {
        let Some(parent) = model.handle(dir).map(<[u8]>::to_vec) else { continue };
        let found = session.lookup(&parent, &name).await?;
        let (handle, _) = found.map_err(|status| Trouble::Violation(format!("{name} is missing: {status}")))?;
        if let Some(node) = model.nodes.get_mut(&id) {
            node.handle = Some(handle);
        }
    }
    Ok(())
}

async fn listing(session: &mut Session, model: &Model, dir: Id, prefix: &str) -> Result<(), Trouble> {
    let Some(handle) = model.handle(dir) else { return Ok(()) };
    let mut found = session.list(handle).await?;
    if dir == SHARED {
        found.retain(|name| name.starts_with(prefix));
    }
    found.sort();
    let expected: Vec<_> = model.entries(dir).into_iter().map(|(name, _)| name).collect();
    if found == expected {
        return Ok(());
    }
    let lost: Vec<_> = expected.iter().filter(|name| !found.contains(name)).collect();
    let extra: Vec<_> = found.iter().filter(|name| !expected.contains(name)).collect();
    let what = if dir == HOME { "the client's directory".to_owned() } else { format!("directory {dir}") };
    violation(format!("{what}: lost {lost:?}, not expected {extra:?}"))
}

async fn object(session: &mut Session, model: &Model, dir: Id, name: &str, id: Id) -> Result<(), Trouble> {
    let (Some(parent), Some(node)) = (model.handle(dir), model.nodes.get(&id)) else { return Ok(()) };
    let (handle, attributes) = match session.lookup(parent, name).await? {
        Ok(found) => found,
        Err(status) => return violation(format!("{name} is lost: {status}")),
    };
    if node.handle.as_ref() != Some(&handle) {
        return violation(format!("{name} has another handle than before"));
    }
    // The old handle works without any LOOKUP.
    if let Err(status) = session.attributes(&handle).await? {
        return violation(format!("the handle of {name} does not work: {status}"));
    }
    if let Some(wrong) = wrong_attributes(model, id, node, &attributes) {
        return violation(format!("{name}: {wrong}"));
    }
    if let Kind::Symlink(target) = &node.kind
        && session.link_target(&handle).await? != target.as_bytes()
    {
        return violation(format!("{name} does not point to {target}"));
    }
    Ok(())
}

fn wrong_attributes(model: &Model, id: Id, node: &Node, found: &fattr3) -> Option<String> {
    let kind = match node.kind {
        Kind::File => ftype3::NF3REG,
        Kind::Directory => ftype3::NF3DIR,
        Kind::Symlink(_) => ftype3::NF3LNK,
    };
    if found.type_ != kind {
        return Some(format!("is a {} instead of a {kind}", found.type_));
    }
    if node.kind != Kind::Directory && found.nlink as usize != model.link_count(id) {
        return Some(format!("has {} links instead of {}", found.nlink, model.link_count(id)));
    }
    if let Some(mode) = node.mode
        && found.mode & 0o7777 != mode
    {
        return Some(format!("has mode {:o} instead of {mode:o}", found.mode & 0o7777));
    }
    let mtime = (found.mtime.seconds, found.mtime.nseconds);
    node.mtime.filter(|expected| *expected != mtime).map(|expected| format!("has mtime {mtime:?}, not {expected:?}"))
}

/// Reads a file, holds it against what is allowed, and takes over what is there. Where writes are open, a COMMIT
/// comes first: its verifier tells whether answered ones may be missing, and nothing stays open behind it.
async fn content(session: &mut Session, model: &mut Model, id: Id) -> Result<(), Trouble> {
    if model.nodes.get(&id).is_some_and(|node| !node.open.is_empty()) {
        let done = session.perform(model, &Operation::Commit { node: id }).await?;
        if done.status != 0 {
            return violation(format!("COMMIT after the restart is answered with status {}", done.status));
        }
        let Some(node) = model.nodes.get_mut(&id) else { return Ok(()) };
        if node.verifier == Some(done.verifier) {
            node.keep_answered();
        }
    }
    let done = session.perform(model, &Operation::Read { node: id }).await?;
    if done.status != 0 {
        return violation(format!("READ after the restart is answered with status {}", done.status));
    }
    let Some(node) = model.nodes.get_mut(&id) else { return Ok(()) };
    if let Err(wrong) = node.allows(&done.content) {
        return violation(format!("content of file {id} (verifier {:?}): {wrong}", node.verifier));
    }
    node.take_as_stable(done.content);
    Ok(())
}

fn violation(text: String) -> Result<(), Trouble> {
    Err(Trouble::Violation(text))
}
