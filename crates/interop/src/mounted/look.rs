//! The comparison of a model with the directory that is mounted.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::model::{Kind, Model, Node};

/// Compares everything, and lets the model learn what nothing had promised: after this, both agree. How many names there were; or what is not as it was promised.
pub(super) fn look(model: &mut Model, home: &Path) -> Result<u64, String> {
    let ids: Vec<_> = model.nodes.keys().copied().collect();
    let mut contents = Vec::new();
    for id in ids {
        let path = model.path(home, id).ok_or("the ledger has something without a name")?;
        let said = |what: String| format!("{}: {what}", path.display());
        let failed = |error: std::io::Error| said(error.to_string());
        let Some(node) = model.nodes.get(&id) else { continue };
        match &node.kind {
            Kind::Directory => {
                let mut found = fs::read_dir(&path)
                    .and_then(|entries| {
                        entries
                            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                            .collect::<Result<Vec<_>, _>>()
                    })
                    .map_err(failed)?;
                found.sort();
                let expected: Vec<_> = model.entries(id).into_iter().map(|(name, _)| name).collect();
                if found != expected {
                    let lost: Vec<_> = expected.iter().filter(|name| !found.contains(name)).collect();
                    let extra: Vec<_> = found.iter().filter(|name| !expected.contains(name)).collect();
                    return Err(said(format!("lost {lost:?}, not expected {extra:?}")));
                }
            }
            Kind::Symlink(target) => {
                let found = fs::read_link(&path).map_err(failed)?;
                if found.as_os_str().as_bytes() != target.as_bytes() {
                    return Err(said(format!("does not point to {target}")));
                }
            }
            Kind::File => {
                let content = fs::read(&path).map_err(failed)?;
                node.allows(&content).map_err(said)?;
                contents.push((id, content));
            }
        }
        if id != crate::model::HOME {
            let found = fs::symlink_metadata(&path).map_err(failed)?;
            if let Some(wrong) = wrong_attributes(model, id, node, &found) {
                return Err(said(wrong));
            }
        }
    }
    // Nothing is taken over where something does not fit.
    for (id, content) in contents {
        if let Some(node) = model.nodes.get_mut(&id) {
            node.take_as_stable(content);
        }
    }
    Ok(model.names.len() as u64)
}

fn wrong_attributes(model: &Model, id: u64, node: &Node, found: &fs::Metadata) -> Option<String> {
    let links = model.link_count(id);
    if node.kind != Kind::Directory && found.nlink() as usize != links {
        return Some(format!("has {} links instead of {links}", found.nlink()));
    }
    if let Some(mode) = node.mode
        && found.mode() & 0o7777 != mode
    {
        return Some(format!("has mode {:o} instead of {mode:o}", found.mode() & 0o7777));
    }
    let mtime = (found.mtime(), found.mtime_nsec());
    let expected = node.mtime.map(|(seconds, nanoseconds)| (i64::from(seconds), i64::from(nanoseconds)));
    expected.filter(|expected| *expected != mtime).map(|expected| format!("has mtime {mtime:?}, not {expected:?}"))
}
