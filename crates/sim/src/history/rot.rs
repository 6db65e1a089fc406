//! What a rotten block costs, and where a request stands to it.
//!
//! Nobody is told which objects a block belongs to: they are asked for, one after the other, right behind the import
//! that finds the block rotten. Who cannot be read everywhere then is *damaged*, and only a damaged object may answer
//! EIO from there on, however it is changed. What is made later is never damaged.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tally_base::ObjectId;
use tally_fs::damage;
use tally_vfs::model::Model;
use tally_vfs::{Attributes, Cred, FileKind, FsError, Identity, Names, ObjectRef, OpCtx, SetAttr, Vfs};

use super::world::DATASETS;
use super::{Checked, State};
use crate::machine::Server;
use crate::op::{Known, NAMES, Op};
use crate::oracle::{Before, Left, Rewritten};
use crate::same::{Excuse, same_but, same_object};

/// Bytes of one read.
const READ_BYTES: u64 = 1 << 20;

/// An object of the model, by its dataset.
type Of = (usize, ObjectId);

/// What has rotted, and stays so.
#[derive(Clone, Default)]
pub(super) struct Rotten {
    /// All objects that were there when it rotted, as the server knows them.
    there: BTreeMap<Of, Real>,
    /// Those that could not be read everywhere.
    damaged: BTreeSet<Of>,
    /// Of these, those whose inode cannot be read, as of the last import.
    without_inode: BTreeSet<Of>,
    /// It has rotted by now.
    pub(super) is_met: bool,
}

/// An object as the server knows it.
#[derive(Clone)]
struct Real {
    object: ObjectRef,
    model: ObjectRef,
    kind: FileKind,
}

/// Where a request stands to what has rotted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nearness {
    /// It has nothing to do with it.
    Apart,
    /// It has to go by something that is damaged.
    Behind,
    /// It changes something that is damaged.
    Above,
    /// The same, and the rot comes only later: there is no reason to refuse it yet.
    Before,
}

impl Nearness {
    pub(super) fn may_fail(self) -> bool {
        matches!(self, Self::Behind | Self::Above)
    }
}

impl Rotten {
    pub(super) fn is_damaged(&self, of: Of) -> bool {
        self.damaged.contains(&of)
    }

    pub(super) fn damaged(&self) -> impl Iterator<Item = &Of> {
        self.damaged.iter()
    }

    /// The damaged files, as their datasets' models know them.
    pub(super) fn damaged_files(&self) -> Vec<(usize, ObjectRef)> {
        let is_damaged = |(of, real): &(&Of, &Real)| real.kind == FileKind::File && self.is_damaged(**of);
        self.there.iter().filter(is_damaged).map(|(of, real)| (of.0, real.model)).collect()
    }

    /// Whether the server's object may be among the damaged, or is not known here.
    pub(super) fn may_be_named(&self, part: usize, real: ObjectId) -> bool {
        !self.there.iter().any(|(of, it)| of.0 == part && it.object.id == real && !self.is_damaged(*of))
    }

    /// Asks for everything.
    pub(super) fn probe(&mut self, server: &Server, names: &[Option<String>]) {
        let damaged = self.there.iter().filter(|((part, _), real)| {
            let fs = names[*part].as_ref().and_then(|name| server.filer.by_name(name));
            fs.is_some_and(|fs| cannot_be_read(&*fs, real))
        });
        self.damaged = damaged.map(|(of, _)| *of).collect();
        self.without_inode = self.damaged.clone();
        self.keep_without_inode(server, names);
    }

    /// It has rotted now. Until then the tree has gone on, and the leaf has come to stand for more keys, as where a neighbour
    /// became empty: whatever cannot be read by now is damaged as well. Gives what was not before.
    pub(super) fn is_met_by(&mut self, server: &Server, names: &[Option<String>]) -> Vec<Of> {
        let (damaged, without_inode) = (self.damaged.clone(), self.without_inode.clone());
        self.probe(server, names);
        let new = self.damaged.difference(&damaged).copied().collect();
        self.damaged.extend(damaged);
        self.without_inode.extend(without_inode);
        self.keep_without_inode(server, names);
        new
    }

    /// Asks again for the inodes that could not be read: what was believed in their place has been written since.
    fn keep_without_inode(&mut self, server: &Server, names: &[Option<String>]) {
        let there = &self.there;
        self.without_inode.retain(|of| {
            let fs = names[of.0].as_ref().and_then(|name| server.filer.by_name(name));
            let object = there.get(of).map(|real| real.object);
            fs.zip(object).is_some_and(|(fs, object)| fs.getattr(object).is_err_and(|error| error == FsError::Io))
        });
    }
}

/// Whether something of it answers with an I/O error. A directory is asked for all names that there may be: those that
/// are not there have to be looked for, too.
fn cannot_be_read(fs: &dyn Vfs, real: &Real) -> bool {
    let (root, object) = (Cred::root(), real.object);
    let fails = |error: &FsError| *error == FsError::Io;
    let size = match fs.getattr(object) {
        Ok(attr) => attr.size,
        Err(error) => return fails(&error),
    };
    let cannot_read = |at: &u64| fs.read(&root, object, *at, READ_BYTES as u32).is_err_and(|error| fails(&error));
    let cannot_look_up = |name: &&str| {
        let found = fs.lookup(&root, object, name.as_bytes());
        found.is_err_and(|error| fails(&error))
    };
    match real.kind {
        FileKind::File => (0..size.div_ceil(READ_BYTES)).map(|nth| nth * READ_BYTES).any(|at| cannot_read(&at)),
        FileKind::Symlink => fs.readlink(object).is_err_and(|error| fails(&error)),
        FileKind::Directory => {
            let listed = fs.readdir(&root, object, 0, 100_000, false);
            listed.is_err_and(|error| fails(&error)) || NAMES.iter().chain(&DATASETS).any(cannot_look_up)
        }
        _ => false,
    }
}

impl State {
    /// Where a request stands to what has rotted.
    pub(super) fn nearness(&self, op: &Op, before: &Before) -> Nearness {
        let Some(rotten) = &self.rotten else { return Nearness::Apart };
        let part = op.dataset();
        let mut asked = op.objects().into_iter().map(|object| (object.dataset, object.model.id));
        let asked: Vec<Of> = asked.by_ref().chain(before.named().iter().map(|id| (part, *id))).collect();
        let is_above = asked.iter().any(|of| rotten.is_damaged(*of));
        match (is_above, rotten.is_met) {
            (true, true) if !matches!(op, Op::Commit { .. }) => Nearness::Above,
            (true, true) => Nearness::Behind,
            (true, false) => Nearness::Before,
            // Whether an object is gone may be what cannot be read.
            (false, true) if op.objects().iter().any(|object| self.is_gone(object)) => Nearness::Behind,
            // Whoever moves a directory goes up from where it is to be.
            (false, true) if matches!(op, Op::Rename { .. }) && self.is_below_damage(op, rotten) => Nearness::Behind,
            (false, _) => Nearness::Apart,
        }
    }

    fn is_gone(&self, object: &Known) -> bool {
        self.parts[object.dataset].oracle.live.getattr(object.model).is_err()
    }

    fn is_below_damage(&self, op: &Op, rotten: &Rotten) -> bool {
        op.objects().iter().any(|object| {
            let model = &self.parts[object.dataset].oracle.live;
            let mut at = object.model;
            loop {
                if rotten.is_damaged((object.dataset, at.id)) {
                    return true;
                }
                match model.lookup(&Cred::root(), at, b"..") {
                    Ok((attr, _)) if attr.object != at => at = attr.object,
                    _ => return false,
                }
            }
        })
    }

    /// All objects that are there, as the server knows them. Each gets a handle, and can be asked for.
    pub(super) fn census(&mut self) -> Checked<Rotten> {
        let mut rotten = Rotten::default();
        for at in self.parts_there() {
            let server = Arc::clone(self.machine.server());
            let fs = server.filer.by_name(&self.parts[at].name).ok_or("a dataset is gone")?;
            let root = (fs.root(), self.parts[at].oracle.live.root());
            note(&mut rotten, at, &*fs, &self.parts[at].oracle.live, root)?;
            let known: BTreeSet<_> = self.objects.iter().map(|known| (known.dataset, known.model.id)).collect();
            for ((_, id), real) in rotten.there.iter().filter(|((part, _), _)| *part == at) {
                if !known.contains(&(at, *id)) {
                    let handle = server.handle(&self.parts[at].name, real.object);
                    let record_size = self.parts[at].record_sizes.get(&real.model).copied().unwrap_or(0);
                    let (model, kind) = (real.model, real.kind);
                    self.objects.push(Arc::new(Known { handle, model, kind, dataset: at, record_size }));
                }
            }
        }
        Ok(rotten)
    }

    /// What each part is called now, if it is there.
    pub(super) fn names_of_parts(&self) -> Vec<Option<String>> {
        self.parts.iter().map(|part| part.is_there.then(|| part.name.clone())).collect()
    }

    /// What was left, with the sizes that files have by records alone. A record carries a whole inode, and where the
    /// one below it could not be read it is believed: with the size of unstable data, of which nothing else is left
    /// than zeroes. No file else has another size than was logged; none has one from before a cut that was.
    pub(super) fn with_believed_sizes(&self, part: usize, left: &Left) -> Checked<Model> {
        let model = left.model.fork();
        let fs = self.machine.server().filer.by_name(&self.parts[part].name).ok_or("a dataset is gone")?;
        let Some(rotten) = self.rotten.as_ref().filter(|rotten| rotten.is_met) else { return Ok(model) };
        // Who could still be read before the power went is met by the import, which has believed a record since.
        let met = fs.damage_met().places.into_iter().filter(|place| place.part == damage::Part::Attributes);
        let met: BTreeSet<ObjectId> = met.map(|place| place.object).collect();
        let is_met = |of: &Of| rotten.there.get(of).is_some_and(|real| met.contains(&real.object.id));
        let without_inode = |of: &&Of| rotten.without_inode.contains(of) || is_met(of);
        for of in rotten.damaged.iter().filter(|of| of.0 == part).filter(without_inode) {
            let (Some(real), Some(believed)) = (rotten.there.get(of), left.believed.get(&of.1)) else { continue };
            let (Ok(found), Ok(wanted)) = (fs.getattr(real.object), model.getattr(real.model)) else { continue };
            if found.kind == FileKind::File && found.size > wanted.size && found.size == *believed {
                let (root, set) = (Cred::root(), SetAttr { size: Some(found.size), ..SetAttr::default() });
                let grown = model.setattr(OpCtx::of(&root), real.model, &set, None).result;
                grown.map_err(|error| error.to_string())?;
            }
        }
        Ok(model)
    }

    /// Behind an import what was believed is in the tree.
    pub(super) fn ask_for_inodes_again(&mut self) {
        let names = self.names_of_parts();
        let Some(rotten) = self.rotten.as_mut().filter(|rotten| rotten.is_met) else { return };
        rotten.keep_without_inode(self.machine.server(), &names);
    }

    /// Everything of a dataset is as in `model`, but that what is damaged may be unreadable; gives the server's numbers
    /// of all that was not, of which one each must be named as damaged. What was `rewritten` since has to be readable.
    pub(super) fn same_above_rot(
        &self,
        part: usize,
        model: &Model,
        rewritten: &Rewritten,
    ) -> Checked<Vec<Vec<ObjectId>>> {
        let server = self.machine.server();
        let fs = server.filer.by_name(&self.parts[part].name).ok_or("a dataset is gone")?;
        let Some(rotten) = &self.rotten else { return Ok(Vec::new()) };
        let unread = RefCell::new(Vec::new());
        let may_fail = |asked: &[ObjectId]| {
            let real =
                asked.iter().filter_map(|id| rotten.there.get(&(part, *id))).map(|real| real.object.id).collect();
            unread.borrow_mut().push(real);
            asked.iter().any(|id| rotten.is_damaged((part, *id)))
        };
        let may_not = |file, offset| rewritten.contains(file, offset);
        let excuse = Excuse { of: &may_fail, but_for: &may_not, lasts: true };
        same_but(&*fs, model, excuse)?;
        // What is below a directory that cannot be listed is seen by its handle alone.
        let key = server.filer.pool().roster.config().handle_key;
        for known in self.objects.iter().filter(|known| known.dataset == part && !rotten.damaged.is_empty()) {
            let same = same_object(&*fs, model, (known.real(&key)?, known.model), excuse);
            same.map_err(|what| format!("{known:?} by its handle: {what}"))?;
        }
        Ok(unread.into_inner())
    }
}

fn note(
    rotten: &mut Rotten,
    part: usize,
    fs: &dyn Vfs,
    model: &Model,
    (object, of_model): (ObjectRef, ObjectRef),
) -> Checked<()> {
    let root = Cred::root();
    let kind = model.getattr(of_model).map_err(|error| error.to_string())?.kind;
    if rotten.there.insert((part, of_model.id), Real { object, model: of_model, kind }).is_some()
        || kind != FileKind::Directory
    {
        return Ok(());
    }
    let page = model.readdir(&root, of_model, 0, 100_000, false).map_err(|error| error.to_string())?;
    for entry in page.entries.iter().filter(|entry| !matches!(&entry.name[..], b"." | b"..")) {
        let below = fs.lookup(&root, object, &entry.name).map_err(|error| format!("before it rots: {error}"))?;
        let below_model = model.lookup(&root, of_model, &entry.name).map_err(|error| error.to_string())?;
        note(rotten, part, fs, model, (below.0.object, below_model.0.object))?;
    }
    Ok(())
}
