//! What clients were told of objects, and must be told again: who an object is, when it was changed, and where a name stands
//! in its directory.
//!
//! A client keeps what it has read under the time of the last change. So an object that is changed must show a time that
//! nobody has seen of it before, whatever the clock says and however many lives lie between (rules F14); one that was not
//! changed shows the same time in the next life; its number never changes; and a cookie leads to the same place as long as
//! the name stands (rules F21).

use std::collections::HashMap;

use nfs3_types::nfs3::fattr3;
use tally_vfs::model::Model;
use tally_vfs::{Attributes, Cred, Names, ObjectRef};

use super::Checked;
use crate::op::{Answer, Expected, Op};
use crate::oracle::Before;

/// Seconds and nanoseconds, as clients are told.
type Ctime = (u32, u32);

/// A change must show a later time than this, if anybody has seen one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Above(Option<Ctime>);

/// Where the names of directories stand, and what they name.
type Cookies = HashMap<(ObjectRef, Vec<u8>), (ObjectRef, u64)>;

/// What was told of the objects of a dataset.
#[derive(Default)]
pub(super) struct Seen {
    objects: HashMap<ObjectRef, Told>,
    cookies: Cookies,
}

/// What is told again of a dataset that goes back to this moment.
pub(super) struct Frozen {
    /// Of those that were not changed since they were told of.
    times: HashMap<ObjectRef, Ctime>,
    cookies: Cookies,
}

struct Told {
    fileid: u64,
    newest: Ctime,
    /// The time told last, and behind which operation.
    last: (usize, Ctime),
    /// The last operation that may have changed it; `usize::MAX` if the log need not have it.
    touched: usize,
}

impl Seen {
    fn touch(&mut self, changes: impl Fn(&ObjectRef) -> bool, number: usize, is_logged: bool) {
        for (_, told) in self.objects.iter_mut().filter(|(object, _)| changes(object)) {
            told.touched = if is_logged { number } else { usize::MAX };
        }
    }

    /// Operation `number` has changed something. What its reply tells of that must be later than what comes back.
    pub(super) fn changes(&mut self, op: &Op, expected: &Expected, before: &Before, number: usize) -> Option<Above> {
        if matches!(op, Op::Commit { .. }) {
            return None;
        }
        op.names().iter().for_each(|(dir, name)| self.forget_name(dir.model, name));
        let objects: Vec<ObjectRef> = op.objects().iter().map(|object| object.model).collect();
        // The log need not have an unstable write when it has what came behind it.
        self.touch(|object| objects.contains(object), number, !matches!(op, Op::Write { .. }));
        self.touch(|object| before.named().contains(&object.id), number, true);
        let told = told_by(op, expected)?;
        Some(Above(self.objects.get(&told).map(|told| told.newest)))
    }

    /// The reply to operation `number` tells attributes.
    pub(super) fn tell(
        &mut self,
        object: ObjectRef,
        attr: &fattr3,
        number: usize,
        above: Option<Above>,
    ) -> Checked<()> {
        let ctime = ctime_of(attr);
        if let Some(Above(Some(newest))) = above
            && ctime <= newest
        {
            return Err(format!("was changed at {ctime:?}, and {newest:?} was seen of it before"));
        }
        let told = self.told(object, attr, number)?;
        if number >= told.last.0 {
            told.last = (number, ctime);
        }
        Ok(())
    }

    /// The attributes in the first moment of a life whose state has every operation up to `oldest`, `now` being the last.
    pub(super) fn in_a_new_life(&mut self, object: ObjectRef, attr: &fattr3, oldest: usize, now: usize) -> Checked<()> {
        let ctime = ctime_of(attr);
        let told = self.told(object, attr, now)?;
        if told.touched <= told.last.0 && told.touched <= oldest && ctime != told.last.1 {
            return Err(format!("was changed at {:?} before the import, and at {ctime:?} behind it", told.last.1));
        }
        (told.last, told.touched) = ((now, ctime), 0);
        Ok(())
    }

    fn told(&mut self, object: ObjectRef, attr: &fattr3, number: usize) -> Checked<&mut Told> {
        let (ctime, fileid) = (ctime_of(attr), attr.fileid);
        // The first reply that tells of it may be that of a change, so it counts from the next life on.
        let first = || Told { fileid, newest: ctime, last: (number, ctime), touched: usize::MAX };
        let told = self.objects.entry(object).or_insert_with(first);
        if told.fileid != fileid {
            return Err(format!("is object {fileid}, and was object {}", told.fileid));
        }
        told.newest = told.newest.max(ctime);
        Ok(told)
    }

    /// A listing tells where a name stands.
    pub(super) fn cookie(&mut self, dir: ObjectRef, name: &[u8], object: ObjectRef, cookie: u64) -> Checked<()> {
        let (of, first) = *self.cookies.entry((dir, name.to_vec())).or_insert((object, cookie));
        if of == object && first != cookie {
            return Err(format!("{} has cookie {cookie}, and had {first}", String::from_utf8_lossy(name)));
        }
        Ok(())
    }

    /// Another entry may stand under this name from now on.
    fn forget_name(&mut self, dir: ObjectRef, name: &str) {
        self.cookies.remove(&(dir, name.as_bytes().to_vec()));
    }

    /// What would be told again of all this.
    pub(super) fn frozen(&self) -> Frozen {
        let is_known = |told: &Told| told.touched <= told.last.0;
        let known = self.objects.iter().filter(|(_, told)| is_known(told));
        Frozen { times: known.map(|(object, told)| (*object, told.last.1)).collect(), cookies: self.cookies.clone() }
    }

    /// The dataset is as it was then, behind operation `op`; what was told since was seen all the same.
    pub(super) fn go_back(&mut self, frozen: &Frozen, op: usize) {
        for (object, told) in &mut self.objects {
            told.touched = usize::MAX;
            if let Some(ctime) = frozen.times.get(object) {
                (told.last, told.touched) = ((op, *ctime), 0);
            }
        }
        self.cookies.clone_from(&frozen.cookies);
    }

    /// A life begins in this state: what is not in it was never there.
    pub(super) fn keep_of(&mut self, model: &Model) {
        self.objects.retain(|object, _| model.getattr(*object).is_ok());
        let leads_to =
            |dir: ObjectRef, name: &[u8]| model.lookup(&Cred::root(), dir, name).map(|(attr, _)| attr.object);
        self.cookies.retain(|(dir, name), (object, _)| leads_to(*dir, name) == Ok(*object));
    }
}

fn ctime_of(attr: &fattr3) -> Ctime {
    (attr.ctime.seconds, attr.ctime.nseconds)
}

/// The object whose attributes the reply to an operation tells.
pub(super) fn told_by(op: &Op, expected: &Expected) -> Option<ObjectRef> {
    match (op, &expected.result) {
        (_, Ok(Answer::Made(attr))) => Some(attr.object),
        (Op::SetAttr { object, .. } | Op::Write { object, .. } | Op::Commit { object, .. }, Ok(_)) => {
            Some(object.model)
        }
        _ => None,
    }
}
