//! This state against that one: every name, attribute and byte. Times and ids are left out: they may differ.

use std::collections::HashMap;

use nfs3_types::nfs3::{fattr3, ftype3};
use tally_base::ObjectId;
use tally_fs::model::Model;
use tally_fs::vfs::{Attr, Cred, FileKind, ObjectRef, Vfs};

/// Compares a dataset with a model.
pub fn same(real: &dyn Vfs, model: &Model) -> Result<(), String> {
    let mut known = HashMap::new();
    same_directory(real, real.root(), model, model.root(), "", &mut known)
}

fn same_directory(
    real: &dyn Vfs,
    dir: ObjectRef,
    model: &Model,
    model_dir: ObjectRef,
    path: &str,
    known: &mut HashMap<ObjectId, ObjectId>,
) -> Result<(), String> {
    let root = Cred::root();
    let names = |vfs: &dyn Vfs, dir| -> Result<Vec<(Vec<u8>, ObjectId)>, String> {
        let page = vfs.readdir(&root, dir, 0, 100_000, false).map_err(|error| format!("{path}/: {error}"))?;
        Ok(page.entries.into_iter().map(|entry| (entry.name.to_vec(), entry.object)).collect())
    };
    let (found, expected) = (names(real, dir)?, names(model, model_dir)?);
    let shown = |list: &[(Vec<u8>, ObjectId)]| {
        list.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>().join(" ")
    };
    if !found.iter().map(|(name, _)| name).eq(expected.iter().map(|(name, _)| name)) {
        return Err(format!("{path}/ lists {} instead of {}", shown(&found), shown(&expected)));
    }
    for (name, of_entry) in &found {
        let path = format!("{path}/{}", String::from_utf8_lossy(name));
        let (attr, _) = real.lookup(&root, dir, name).map_err(|error| format!("{path}: {error}"))?;
        let (wanted, _) = model.lookup(&root, model_dir, name).expect("the model lists what it has");
        if attr.object.id != *of_entry {
            return Err(format!("{path}: READDIR says object {of_entry}, LOOKUP {}", attr.object.id));
        }
        if *known.entry(attr.object.id).or_insert(wanted.object.id) != wanted.object.id {
            return Err(format!("{path} is another name of the wrong object"));
        }
        same_attr(&attr, &wanted).map_err(|what| format!("{path}: {what}"))?;
        match attr.kind {
            FileKind::File => {
                same_content(real, attr.object, model, wanted.object).map_err(|what| format!("{path}: {what}"))?
            }
            FileKind::Directory if name != b"." && name != b".." => {
                same_directory(real, attr.object, model, wanted.object, &path, known)?;
            }
            FileKind::Symlink => {
                let (found, expected) = (real.readlink(attr.object), model.readlink(wanted.object));
                if found.map(|(target, _)| target).ok() != expected.map(|(target, _)| target).ok() {
                    return Err(format!("{path}: another target"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Compares attributes.
pub fn same_attr(found: &Attr, expected: &Attr) -> Result<(), String> {
    // The model counts the size of a directory otherwise, and shows every mode of a symbolic link as 0777.
    let fields = |attr: &Attr| {
        let size = if attr.kind == FileKind::Directory { 0 } else { attr.size };
        let mode = if attr.kind == FileKind::Symlink { 0 } else { attr.mode };
        (attr.kind, mode, attr.nlink, (attr.uid, attr.gid), size, attr.rdev)
    };
    if fields(found) == fields(expected) {
        return Ok(());
    }
    Err(format!("{:?} instead of {:?}", fields(found), fields(expected)))
}

fn same_content(real: &dyn Vfs, file: ObjectRef, model: &Model, wanted: ObjectRef) -> Result<(), String> {
    let root = Cred::root();
    let size = model.getattr(wanted).expect("it was just found").size;
    let mut at = 0;
    while at < size {
        let found = real.read(&root, file, at, 1 << 20).map_err(|error| format!("reading at {at}: {error}"))?;
        let expected = model.read(&root, wanted, at, 1 << 20).expect("it was just found").data.concat();
        let found = found.data.concat();
        if let Some(differs) = (0..expected.len()).find(|byte| found.get(*byte) != expected.get(*byte)) {
            let until = (differs..expected.len()).find(|byte| found.get(*byte) == expected.get(*byte));
            return Err(format!(
                "bytes {}..{} differ: {:?} instead of {:?}",
                at + differs as u64,
                at + until.unwrap_or(expected.len()) as u64,
                found.get(differs),
                expected[differs],
            ));
        }
        at += expected.len() as u64;
    }
    Ok(())
}

/// Compares what a reply says of an object with what the model says.
pub fn same_fattr(found: &fattr3, expected: &Attr) -> Result<(), String> {
    let kind = match found.type_ {
        ftype3::NF3REG => FileKind::File,
        ftype3::NF3DIR => FileKind::Directory,
        ftype3::NF3BLK => FileKind::BlockDevice,
        ftype3::NF3CHR => FileKind::CharDevice,
        ftype3::NF3LNK => FileKind::Symlink,
        ftype3::NF3SOCK => FileKind::Socket,
        ftype3::NF3FIFO => FileKind::Fifo,
    };
    let told = Attr {
        kind,
        mode: found.mode,
        nlink: found.nlink,
        uid: found.uid,
        gid: found.gid,
        size: found.size,
        rdev: (found.rdev.specdata1, found.rdev.specdata2),
        ..expected.clone()
    };
    same_attr(&told, expected)
}
