//! What one client knows of its files, and which states of the server that allows.
//!
//! Two kinds of knowledge are kept apart. What a reply promised to be stable must be there after a crash. What
//! was only received (an UNSTABLE write) or not even answered (the request under way at the kill) may be there
//! or not: such writes are *open*, and every byte that one covers may be the old or the new one. Operations
//! on names are never open: the request under way is either sent again until it is answered, or the model
//! splits in two, with and without it, and one of the two must fit.

use std::collections::{BTreeMap, VecDeque};

/// Number of an object, given by the client and never used twice.
pub type Id = u64;

/// The client's own directory.
pub const HOME: Id = 0;
/// The directory that all clients share; each has names of its own in it.
pub const SHARED: Id = 1;
/// Handles of removed objects that are tried again.
const GRAVES_MAX: usize = 8;

/// What an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link to there.
    Symlink(String),
}

/// A write that a crash may take back in part or whole.
#[derive(Clone, Debug)]
pub struct OpenWrite {
    /// In the file, bytes.
    pub offset: u64,
    /// The bytes that were sent.
    pub data: Vec<u8>,
    /// Whether it was answered: then it may only be lost if the write verifier changes.
    pub answered: bool,
}

/// An object.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Its handle, once known.
    pub handle: Option<Vec<u8>>,
    /// Permission bits, once set.
    pub mode: Option<u32>,
    /// Modification time, where it was set and nothing was written since.
    pub mtime: Option<(u32, u32)>,
    /// Content that is promised.
    pub stable: Vec<u8>,
    /// Content that is not.
    pub open: Vec<OpenWrite>,
    /// The write verifier that came with answered open writes.
    pub verifier: Option<[u8; 8]>,
}

impl Node {
    fn new(kind: Kind, handle: Option<Vec<u8>>, mode: Option<u32>) -> Self {
        Self { kind, handle, mode, mtime: None, stable: Vec::new(), open: Vec::new(), verifier: None }
    }

    /// The content with every answered write applied: what a READ must see while the server lives.
    #[must_use]
    pub fn current(&self) -> Vec<u8> {
        let mut content = self.stable.clone();
        for write in self.open.iter().filter(|write| write.answered) {
            overwrite(&mut content, write.offset, &write.data);
        }
        content
    }

    /// After a crash that kept the verifier, answered writes are promised.
    pub fn keep_answered(&mut self) {
        self.stable = self.current();
        self.open.retain(|write| !write.answered);
    }

    /// Whether the server may hold `actual` as the file's content. Says where it may not.
    pub fn allows(&self, actual: &[u8]) -> Result<(), String> {
        let longest = self.open.iter().map(|write| write.offset as usize + write.data.len()).max().unwrap_or(0);
        let (low, high) = (self.stable.len(), self.stable.len().max(longest));
        if actual.len() < low || actual.len() > high {
            return Err(format!("{} bytes long instead of {low} to {high}", actual.len()));
        }
        let wrong = actual.iter().enumerate().find(|(index, byte)| !self.allows_byte(*index, **byte));
        wrong.map_or(Ok(()), |(index, byte)| {
            Err(format!("byte {index} of {} is {byte:#x}, not {:#x?}", actual.len(), self.stable.get(index)))
        })
    }

    fn allows_byte(&self, index: usize, byte: u8) -> bool {
        self.stable.get(index).copied().unwrap_or(0) == byte
            || self
                .open
                .iter()
                .any(|write| index.checked_sub(write.offset as usize).and_then(|at| write.data.get(at)) == Some(&byte))
    }

    /// After a look at the server: that is the content now, and nothing is open.
    pub fn take_as_stable(&mut self, actual: Vec<u8>) {
        self.stable = actual;
        self.open.clear();
        self.verifier = None;
    }
}

/// Something that a client asks for.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Operation {
    Create {
        dir: Id,
        name: String,
        id: Id,
        exclusive: bool,
    },
    MakeDirectory {
        dir: Id,
        name: String,
        id: Id,
    },
    Symlink {
        dir: Id,
        name: String,
        id: Id,
        target: String,
    },
    Link {
        node: Id,
        dir: Id,
        name: String,
    },
    Remove {
        dir: Id,
        name: String,
    },
    RemoveDirectory {
        dir: Id,
        name: String,
    },
    Rename {
        dir: Id,
        name: String,
        to_dir: Id,
        to_name: String,
    },
    Write {
        node: Id,
        offset: u64,
        data: Vec<u8>,
        stable: bool,
    },
    Commit {
        node: Id,
    },
    Mode {
        node: Id,
        mode: u32,
    },
    ModificationTime {
        node: Id,
        time: (u32, u32),
    },
    Truncate {
        node: Id,
        size: u64,
    },
    Read {
        node: Id,
    },
    /// All clients try to make the same name; one may succeed.
    Claim {
        name: String,
    },
}

/// A client's knowledge.
#[derive(Clone, Debug)]
pub struct Model {
    /// Everything that exists.
    pub nodes: BTreeMap<Id, Node>,
    /// Every name.
    pub names: BTreeMap<(Id, String), Id>,
    /// Handles of what is gone.
    pub graves: VecDeque<Vec<u8>>,
    next: Id,
}

impl Model {
    /// Two directories and nothing in them.
    #[must_use]
    pub fn new(home: Vec<u8>, shared: Vec<u8>) -> Self {
        let directory = |handle| Node::new(Kind::Directory, Some(handle), None);
        let nodes = BTreeMap::from([(HOME, directory(home)), (SHARED, directory(shared))]);
        Self { nodes, names: BTreeMap::new(), graves: VecDeque::new(), next: SHARED + 1 }
    }

    /// A new number.
    pub fn next_id(&mut self) -> Id {
        self.next += 1;
        self.next
    }

    /// An object's handle, if it is known.
    #[must_use]
    pub fn handle(&self, id: Id) -> Option<&[u8]> {
        self.nodes.get(&id)?.handle.as_deref()
    }

    /// How many names an object has.
    #[must_use]
    pub fn link_count(&self, id: Id) -> usize {
        self.names.values().filter(|named| **named == id).count()
    }

    /// Names in a directory.
    #[must_use]
    pub fn entries(&self, dir: Id) -> Vec<(String, Id)> {
        let range = self.names.range((dir, String::new())..(dir + 1, String::new()));
        range.map(|((_, name), id)| (name.clone(), *id)).collect()
    }

    /// Numbers of all regular files.
    #[must_use]
    pub fn files(&self) -> Vec<Id> {
        self.nodes.iter().filter(|(_, node)| node.kind == Kind::File).map(|(id, _)| *id).collect()
    }

    /// Whether `dir` is `id` or lies below it.
    #[must_use]
    pub fn is_below(&self, mut dir: Id, id: Id) -> bool {
        loop {
            if dir == id {
                return true;
            }
            let Some(((parent, _), _)) = self.names.iter().find(|(_, named)| **named == dir) else { return false };
            dir = *parent;
        }
    }

    /// Takes over that an operation was carried out. Writes and commits go by [`Model::written`] and
    /// [`Model::committed`].
    pub fn apply(&mut self, operation: &Operation, handle: Option<Vec<u8>>) {
        match operation.clone() {
            Operation::Create { dir, name, id, exclusive } => {
                let mode = (!exclusive).then_some(0o644);
                self.insert(dir, name, id, Node::new(Kind::File, handle, mode));
            }
            Operation::MakeDirectory { dir, name, id } => {
                self.insert(dir, name, id, Node::new(Kind::Directory, handle, Some(0o755)));
            }
            Operation::Symlink { dir, name, id, target } => {
                self.insert(dir, name, id, Node::new(Kind::Symlink(target), handle, None));
            }
            Operation::Link { node, dir, name } => {
                self.names.insert((dir, name), node);
            }
            Operation::Remove { dir, name } | Operation::RemoveDirectory { dir, name } => self.unlink(dir, name),
            Operation::Rename { dir, name, to_dir, to_name } => {
                let Some(id) = self.names.get(&(dir, name.clone())).copied() else { return };
                // Two names of one object: the rename does nothing.
                if self.names.get(&(to_dir, to_name.clone())) == Some(&id) {
                    return;
                }
                self.unlink(to_dir, to_name.clone());
                self.names.remove(&(dir, name));
                self.names.insert((to_dir, to_name), id);
            }
            Operation::Mode { node, mode } => self.change(node, |node| node.mode = Some(mode)),
            Operation::ModificationTime { node, time } => self.change(node, |node| node.mtime = Some(time)),
            Operation::Truncate { node, size } => self.change(node, |node| {
                node.stable.resize(size as usize, 0);
                node.mtime = None;
            }),
            Operation::Write { .. } | Operation::Commit { .. } | Operation::Read { .. } | Operation::Claim { .. } => {}
        }
    }

    /// A WRITE was answered, with this stability and verifier.
    pub fn written(
        &mut self,
        id: Id,
        offset: u64,
        data: Vec<u8>,
        stable: bool,
        verifier: [u8; 8],
    ) -> Result<(), String> {
        let Some(node) = self.nodes.get_mut(&id) else { return Ok(()) };
        node.mtime = None;
        if stable {
            overwrite(&mut node.stable, offset, &data);
            return Ok(());
        }
        if node.verifier.is_some_and(|known| known != verifier) {
            return Err("the write verifier changed while the server ran".into());
        }
        node.verifier = Some(verifier);
        node.open.push(OpenWrite { offset, data, answered: true });
        Ok(())
    }

    /// A WRITE was under way at the kill.
    pub fn perhaps_written(&mut self, id: Id, offset: u64, data: Vec<u8>) {
        self.change(id, |node| {
            node.open.push(OpenWrite { offset, data, answered: false });
            node.mtime = None;
        });
    }

    /// A COMMIT was answered while the server ran.
    pub fn committed(&mut self, id: Id, verifier: [u8; 8]) -> Result<(), String> {
        let Some(node) = self.nodes.get_mut(&id) else { return Ok(()) };
        if node.verifier.is_some_and(|known| known != verifier) {
            return Err("COMMIT has another verifier than the WRITEs before it, and the server did not restart".into());
        }
        node.keep_answered();
        node.verifier = None;
        Ok(())
    }

    fn change(&mut self, id: Id, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(&id) {
            change(node);
        }
    }

    fn insert(&mut self, dir: Id, name: String, id: Id, node: Node) {
        self.names.insert((dir, name), id);
        self.nodes.insert(id, node);
    }

    fn unlink(&mut self, dir: Id, name: String) {
        let Some(id) = self.names.remove(&(dir, name)) else { return };
        if self.link_count(id) > 0 {
            return;
        }
        if let Some(handle) = self.nodes.remove(&id).and_then(|node| node.handle) {
            self.graves.push_back(handle);
            if self.graves.len() > GRAVES_MAX {
                self.graves.pop_front();
            }
        }
    }
}

fn overwrite(content: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let offset = offset as usize;
    let end = offset + data.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(data);
}
