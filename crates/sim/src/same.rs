//! This state against that one: every name, attribute and byte. Times and ids are left out: they may differ.
//!
//! Tests of `fs` take this file in as it is, so it uses nothing else of this crate.

use std::collections::HashMap;

use tally_base::ObjectId;
use tally_vfs::model::Model;
use tally_vfs::{Attr, Attributes, Content, Cred, DirPage, FileKind, FsError, Identity, Names, ObjectRef, Vfs, Xattrs};

/// Names that everything is made under, so that operations meet. They stand here because this file is compiled into
/// tests of `fs`, too, which have nothing else of this crate.
pub const NAMES: [&str; 6] =
    ["a", "b", "c", "d", "e", "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"];

/// The smallest block of a file.
const PIECE_BYTES: usize = 4096;

/// Compares a dataset with a model.
pub fn same(real: &dyn Vfs, model: &Model) -> Result<(), String> {
    same_but(real, model, Excuse { of: &|_| false, but_for: &|_, _| false, lasts: true })
}

/// Compares what can be read of a dataset with a model: an I/O error is an honest answer, that is got again if it
/// lasts.
pub fn same_where_readable(real: &dyn Vfs, model: &Model, lasts: bool) -> Result<(), String> {
    same_but(real, model, Excuse { of: &|_| true, but_for: &|_, _| false, lasts })
}

/// Where an I/O error is an honest answer.
#[derive(Clone, Copy)]
pub struct Excuse<'a> {
    /// Of one of these objects of the model: a directory and what it names, or a file.
    pub of: &'a dyn Fn(&[ObjectId]) -> bool,
    /// But for what stands at this offset of a file: nothing that cannot be read has a part in it.
    pub but_for: &'a dyn Fn(ObjectId, u64) -> bool,
    /// What cannot be read stays so. Else a disk may refuse a few reads, and no more.
    pub lasts: bool,
}

/// Compares a dataset with a model, but for what is excused.
pub fn same_but(real: &dyn Vfs, model: &Model, excuse: Excuse<'_>) -> Result<(), String> {
    Comparison { real, model, known: HashMap::new(), excuse }.directory(real.root(), model.root(), "")
}

/// Compares one object with the model's, without going through directories.
pub fn same_object(
    real: &dyn Vfs,
    model: &Model,
    (object, of_model): (ObjectRef, ObjectRef),
    excuse: Excuse<'_>,
) -> Result<(), String> {
    let comparison = Comparison { real, model, known: HashMap::new(), excuse };
    let wanted = match (real.getattr(object), model.getattr(of_model)) {
        (Ok(found), Ok(wanted)) => same_attr(&found, &wanted).map(|()| wanted)?,
        // Whether an object is gone may be what cannot be read.
        (Err(FsError::Stale | FsError::Io), Err(_)) => return Ok(()),
        (Err(FsError::Io), _) if (excuse.of)(&[of_model.id]) => return Ok(()),
        (found, wanted) => return Err(format!("{:?} instead of {:?}", found.map(|_| ()), wanted.map(|_| ()))),
    };
    match wanted.kind {
        FileKind::File => comparison.content(object, of_model),
        FileKind::Directory => comparison.names(object, of_model),
        _ => Ok(()),
    }
}

struct Comparison<'a> {
    real: &'a dyn Vfs,
    model: &'a Model,
    /// Objects of the one by those of the other: names of one object are names of one object there, too.
    known: HashMap<ObjectId, ObjectId>,
    excuse: Excuse<'a>,
}

impl Comparison<'_> {
    /// What the real side gives; `None` is an error that does not count.
    fn found<T>(
        &self,
        asked: &[ObjectId],
        result: Result<T, FsError>,
        what: impl FnOnce() -> String,
    ) -> Result<Option<T>, String> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(FsError::Io) if (self.excuse.of)(asked) => Ok(None),
            Err(error) => Err(format!("{}: {error}", what())),
        }
    }

    fn directory(&mut self, dir: ObjectRef, wanted: ObjectRef, path: &str) -> Result<(), String> {
        let root = Cred::root();
        let names = |page: DirPage| -> Vec<(Vec<u8>, ObjectId)> {
            page.entries.into_iter().map(|entry| (entry.name.to_vec(), entry.object)).collect()
        };
        let listed = self.real.readdir(&root, dir, 0, 100_000, false);
        let Some(found) = self.found(&[wanted.id], listed, || format!("{path}/"))?.map(names) else { return Ok(()) };
        let expected = names(self.model.readdir(&root, wanted, 0, 100_000, false).map_err(|error| error.to_string())?);
        let shown = |list: &[(Vec<u8>, ObjectId)]| {
            list.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>().join(" ")
        };
        if !found.iter().map(|(name, _)| name).eq(expected.iter().map(|(name, _)| name)) {
            return Err(format!("{path}/ lists {} instead of {}", shown(&found), shown(&expected)));
        }
        for (name, of_entry) in &found {
            let path = format!("{path}/{}", String::from_utf8_lossy(name));
            self.entry((dir, wanted), name, *of_entry, &path)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        (dir, model_dir): (ObjectRef, ObjectRef),
        name: &[u8],
        of_entry: ObjectId,
        path: &str,
    ) -> Result<(), String> {
        let root = Cred::root();
        let looked_up = self.real.lookup(&root, dir, name);
        let (wanted, _) = self.model.lookup(&root, model_dir, name).expect("the model lists what it has");
        let asked = [model_dir.id, wanted.object.id];
        let Some((attr, _)) = self.found(&asked, looked_up, || path.to_owned())? else { return Ok(()) };
        if attr.object.id != of_entry {
            return Err(format!("{path}: READDIR says object {of_entry}, LOOKUP {}", attr.object.id));
        }
        if *self.known.entry(attr.object.id).or_insert(wanted.object.id) != wanted.object.id {
            return Err(format!("{path} is another name of the wrong object"));
        }
        same_attr(&attr, &wanted).map_err(|what| format!("{path}: {what}"))?;
        self.xattrs(attr.object, wanted.object).map_err(|what| format!("{path}: {what}"))?;
        match attr.kind {
            FileKind::File => self.content(attr.object, wanted.object).map_err(|what| format!("{path}: {what}")),
            FileKind::Directory if name != b"." && name != b".." => self.directory(attr.object, wanted.object, path),
            FileKind::Symlink => {
                let read = self.real.readlink(attr.object).map(|(target, _)| target);
                let Some(found) = self.found(&[wanted.object.id], read, || path.to_owned())? else { return Ok(()) };
                let expected = self.model.readlink(wanted.object).map(|(target, _)| target);
                if Ok(found) == expected { Ok(()) } else { Err(format!("{path}: another target")) }
            }
            _ => Ok(()),
        }
    }

    /// The names that there may be, one by one.
    fn names(&self, dir: ObjectRef, wanted: ObjectRef) -> Result<(), String> {
        let root = Cred::root();
        for name in NAMES {
            let there = self.model.lookup(&root, wanted, name.as_bytes()).ok();
            let asked = [wanted.id, there.as_ref().map_or(wanted.id, |(attr, _)| attr.object.id)];
            let expected = there.is_some();
            match self.real.lookup(&root, dir, name.as_bytes()) {
                Ok(_) if expected => {}
                Err(FsError::NotFound) if !expected => {}
                Err(FsError::Io) if (self.excuse.of)(&asked) => {}
                found => return Err(format!("{name}: {:?}, and it is {expected} that it is there", found.map(|_| ()))),
            }
        }
        Ok(())
    }

    /// All extended attributes.
    fn xattrs(&self, object: ObjectRef, wanted: ObjectRef) -> Result<(), String> {
        let root = Cred::root();
        let listed = self.real.list_xattrs(&root, object, 0);
        let Some(found) = self.found(&[wanted.id], listed, || "names of extended attributes".into())? else {
            return Ok(());
        };
        let expected = self.model.list_xattrs(&root, wanted, 0).expect("it was just found");
        let [found, expected] = [found, expected].map(|names| {
            let mut names: Vec<_> = names.into_iter().map(|name| name.name).collect();
            names.sort();
            names
        });
        if found != expected {
            return Err(format!("extended attributes {found:?} instead of {expected:?}"));
        }
        for name in found {
            let read = self.real.xattr(&root, object, &name);
            let Some(value) = self.found(&[wanted.id], read, || format!("extended attribute {name:?}"))? else {
                continue;
            };
            let expected = self.model.xattr(&root, wanted, &name).expect("it was just listed");
            same_bytes(&value, &expected, 0).map_err(|what| format!("extended attribute {name:?}: {what}"))?;
            if value.len() != expected.len() {
                return Err(format!("extended attribute {name:?} has {} bytes of {}", value.len(), expected.len()));
            }
        }
        Ok(())
    }

    fn content(&self, file: ObjectRef, wanted: ObjectRef) -> Result<(), String> {
        let root = Cred::root();
        let size = self.model.getattr(wanted).expect("it was just found").size;
        let mut at = 0;
        while at < size {
            let expected = self.model.read(&root, wanted, at, 1 << 20).expect("it was just found").data.concat();
            match self.real.read(&root, file, at, 1 << 20) {
                Ok(found) => same_bytes(&found.data.concat(), &expected, at)?,
                Err(FsError::Io) => self.by_pieces((file, wanted), at, &expected)?,
                Err(error) => return Err(format!("reading at {at}: {error}")),
            }
            at += expected.len() as u64;
        }
        Ok(())
    }

    /// One block that cannot be read excuses no other: what it hides here would be missed only when it was overwritten.
    /// And a read fails for a block: one of those that cannot be read.
    fn by_pieces(&self, (file, wanted): (ObjectRef, ObjectRef), from: u64, expected: &[u8]) -> Result<(), String> {
        let length = expected.len();
        if !(self.excuse.of)(&[wanted.id]) {
            return Err(format!("{length} bytes at {from} cannot be read"));
        }
        let mut is_whole = true;
        for (nth, part) in expected.chunks(PIECE_BYTES).enumerate() {
            let at = from + (nth * PIECE_BYTES) as u64;
            match self.real.read(&Cred::root(), file, at, PIECE_BYTES as u32) {
                Ok(found) => same_bytes(&found.data.concat(), part, at)?,
                Err(FsError::Io) if (self.excuse.but_for)(wanted.id, at) => {
                    return Err(format!("{} bytes at {at} were written since, and cannot be read", part.len()));
                }
                Err(FsError::Io) => is_whole = false,
                Err(error) => return Err(format!("reading at {at}: {error}")),
            }
        }
        if is_whole && self.excuse.lasts {
            return Err(format!("{length} bytes at {from} cannot be read, but piece by piece"));
        }
        Ok(())
    }
}

fn same_bytes(found: &[u8], expected: &[u8], at: u64) -> Result<(), String> {
    let Some(differs) = (0..expected.len()).find(|byte| found.get(*byte) != expected.get(*byte)) else { return Ok(()) };
    let until = (differs..expected.len()).find(|byte| found.get(*byte) == expected.get(*byte));
    Err(format!(
        "bytes {}..{} differ: {:?} instead of {:?}",
        at + differs as u64,
        at + until.unwrap_or(expected.len()) as u64,
        found.get(differs),
        expected[differs],
    ))
}

/// Says in which attribute the two differ.
pub fn same_attr(found: &Attr, expected: &Attr) -> Result<(), String> {
    // The model counts the size of a directory otherwise.
    let fields = |attr: &Attr| {
        let size = if attr.kind == FileKind::Directory { 0 } else { attr.size };
        (attr.kind, attr.mode, attr.nlink, (attr.uid, attr.gid), size, attr.rdev)
    };
    if fields(found) == fields(expected) {
        return Ok(());
    }
    Err(format!("{:?} instead of {:?}", fields(found), fields(expected)))
}
