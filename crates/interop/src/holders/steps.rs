//! What a client does.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use tally_wire::Told;
use tally_wire::ask::{self, How};
use tally_wire::nfs4::{NfsArgop4, Nfsstat4};

use super::belief::{BOXES, Kind, Open, PART_BYTES, PARTS, Part, box_name};
use super::client::{Came, Client};
use super::run::EXPORT;
use super::{Result, violation};

/// Names in a client's own directory; beyond, it removes more than it makes.
const NAMES_MAX: usize = 30;
/// Locks that a client has at a time.
const LOCKS_MAX: usize = 3;
/// Files without a name that a client has open at a time.
const NAMELESS_MAX: usize = 3;
/// Of so many names that all want one is asked for.
const WANTED: u64 = 16;

impl Client<'_> {
    /// What it has open by that; what it was told behind the end of a life is to be claimed again.
    fn opened(&self, told: &Told) -> Result<Open> {
        let Some(stateid) = told.stateid() else { return violation("an OPEN without a stateid") };
        Ok(Open::new(handle(told)?, Some(stateid.clone()).filter(|_| self.is_there())))
    }

    /// Makes what it needs, and opens what all lock.
    pub(super) fn begin(&mut self) -> Result<()> {
        let root: Vec<_> =
            [NfsArgop4::OpPutrootfh].into_iter().chain(EXPORT.split('/').skip(1).map(ask::look)).collect();
        let in_root = |more: Vec<NfsArgop4>| [root.clone(), more].concat();
        // Whoever comes first makes it.
        self.tell(&in_root(vec![ask::make_directory("shared")]))?;
        self.shared = handle(&self.told_ok(&in_root(vec![ask::look("shared"), NfsArgop4::OpGetfh]))?)?;
        let home = format!("home-{}", self.number);
        self.home = handle(&self.told_ok(&in_root(vec![ask::make_directory(&home), NfsArgop4::OpGetfh]))?)?;
        for number in 0..BOXES {
            let open = ask::open(How::Make, &box_name(number));
            let told = self.told_ok(&[ask::put(&self.shared), open, NfsArgop4::OpGetfh])?;
            let open = self.opened(&told)?;
            self.belief.boxes.push(open);
        }
        Ok(())
    }

    /// Does one thing after the other.
    pub(super) fn work(&mut self) -> Result<()> {
        self.begin()?;
        while !self.common.is_over.load(Ordering::Relaxed) {
            if self.belief.made.is_some() {
                self.close_made()?;
            }
            match self.random.below(12) {
                0 | 1 => self.lock()?,
                2 | 3 => self.count()?,
                4 => self.unlock()?,
                5 => self.want()?,
                6 => self.nameless()?,
                7 => self.list()?,
                _ => self.change()?,
            }
        }
        Ok(())
    }

    /// A request that a kill before its answer would make anew.
    fn tell(&mut self, ops: &[NfsArgop4]) -> Result<Came> {
        self.carry_out(|_| Some(ops.to_vec()))
    }

    fn told(&mut self, ops: &[NfsArgop4]) -> Result<Told> {
        match self.tell(ops)? {
            Came::Told(told) | Came::ToldBehind(told) => Ok(told),
            Came::Gone => violation("it was asked for"),
        }
    }

    /// What nothing stands in the way of, and nobody else would do.
    fn told_ok(&mut self, ops: &[NfsArgop4]) -> Result<Told> {
        let told = self.told(ops)?;
        if told.is_ok() { Ok(told) } else { violation(format!("{:?} is told to {ops:?}", told.status)) }
    }

    fn name(&mut self) -> String {
        self.named += 1;
        format!("name-{}", self.named)
    }

    fn any_name(&mut self, kind: Option<Kind>) -> Option<(String, Kind)> {
        let names: Vec<_> = self.belief.names.iter().filter(|(_, of)| kind.is_none_or(|kind| kind == **of)).collect();
        self.random.pick(&names).map(|(name, kind)| ((*name).clone(), **kind))
    }

    /// A change of its own directory, which nobody else looks at.
    fn change(&mut self) -> Result<()> {
        let is_full = self.belief.names.len() >= NAMES_MAX;
        match self.random.below(6) {
            0 if !is_full => self.make_directory(),
            1 | 2 if !is_full => self.make_file(),
            3 => self.rename(),
            4 => self.link(),
            _ => self.remove(),
        }
    }

    fn at_home(&self, op: NfsArgop4) -> Vec<NfsArgop4> {
        vec![ask::put(&self.home), op]
    }

    fn make_directory(&mut self) -> Result<()> {
        let name = self.name();
        self.told_ok(&self.at_home(ask::make_directory(&name)))?;
        self.belief.names.insert(name, Kind::Directory);
        Ok(())
    }

    /// How it makes a file that nobody else has made.
    fn new_file(&mut self, verifier: u64) -> How {
        if self.random.chance(50) && !self.needs_verifiers() { How::New } else { How::Exclusive(verifier) }
    }

    fn make_file(&mut self) -> Result<()> {
        let name = self.name();
        let how = self.new_file(self.named);
        let mut ops = self.at_home(ask::open(how, &name));
        ops.push(NfsArgop4::OpGetfh);
        let told = self.told_ok(&ops)?;
        self.belief.made = Some(self.opened(&told)?);
        self.belief.names.insert(name, Kind::File);
        Ok(())
    }

    fn rename(&mut self) -> Result<()> {
        let Some((from, kind)) = self.any_name(None) else { return Ok(()) };
        let to = self.name();
        let home = ask::put(&self.home);
        self.told_ok(&[home.clone(), NfsArgop4::OpSavefh, home, ask::rename(&from, &to)])?;
        self.belief.names.remove(&from);
        self.belief.names.insert(to, kind);
        Ok(())
    }

    fn link(&mut self) -> Result<()> {
        let Some((from, _)) = self.any_name(Some(Kind::File)) else { return Ok(()) };
        let to = self.name();
        let home = ask::put(&self.home);
        self.told_ok(&[home.clone(), ask::look(&from), NfsArgop4::OpSavefh, home, ask::link(&to)])?;
        self.belief.names.insert(to, Kind::File);
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        let Some((name, _)) = self.any_name(None) else { return Ok(()) };
        self.told_ok(&self.at_home(ask::remove(&name)))?;
        self.belief.names.remove(&name);
        Ok(())
    }

    fn list(&mut self) -> Result<()> {
        let (mut found, mut behind) = (Vec::new(), Some((0, [0; 8])));
        while let Some(cookie) = behind {
            let told = self.told_ok(&self.at_home(ask::list(cookie)))?;
            let Some((names, more)) = told.names() else { return violation("a READDIR without names") };
            found.extend(names);
            behind = more;
        }
        found.sort();
        // They are in the order of their bytes here, too.
        let believed: Vec<_> = self.belief.names.keys().map(|name| name.clone().into_bytes()).collect();
        if found == believed {
            return Ok(());
        }
        let text = |names: &[Vec<u8>]| String::from_utf8_lossy(&names.join(&b' ')).into_owned();
        violation(format!("the client's directory has [{}] instead of [{}]", text(&found), text(&believed)))
    }

    /// A name that others want as well: one is told that he made it.
    fn want(&mut self) -> Result<()> {
        // The newest ones that anybody has asked for, and one more.
        let last = self.truth().names().len() as u64;
        let name = format!("wanted-{:08}", (last + 1).saturating_sub(self.random.below(WANTED)));
        let verifier = self.random.next_u64();
        let how = self.new_file(verifier);
        let told = self.told(&[ask::put(&self.shared), ask::open(how, &name), NfsArgop4::OpGetfh])?;
        match told.status {
            Nfsstat4::Nfs4Ok => self.belief.made = Some(self.opened(&told)?),
            Nfsstat4::Nfs4ErrExist => {}
            status => return violation(format!("{status:?} is told to the OPEN of {name}")),
        }
        self.truth().wanted(self.number, &name, told.is_ok())
    }

    /// Who closes something claims it no more.
    fn close(&mut self, open: Open) -> Result<()> {
        let Some(stateid) = open.stateid else { return Ok(()) };
        match self.once(&[ask::put(&open.handle), ask::close(&stateid)])? {
            Came::Told(told) if !told.is_ok() => violation(format!("a CLOSE is told {:?}", told.status)),
            _ => Ok(()),
        }
    }

    fn close_made(&mut self) -> Result<()> {
        // What was made before a kill is claimed again first, or it would be open for nobody.
        self.come_back()?;
        self.belief.made.take().map_or(Ok(()), |open| self.close(open))
    }

    /// A part that it has locked.
    fn locked(&mut self) -> Option<Part> {
        let parts = self.belief.parts();
        self.random.pick(&parts).copied()
    }

    fn lock(&mut self) -> Result<()> {
        let part = Part { of: self.random.below(BOXES as u64) as usize, at: self.random.below(PARTS as u64) as usize };
        let has = self.belief.parts();
        if has.contains(&part) || has.len() >= LOCKS_MAX {
            return Ok(());
        }
        let asked = self.truth().asks(self.number, part);
        let came = self.carry_out(|belief| {
            let open = &belief.boxes[part.of];
            Some(vec![ask::put(&open.handle), ask::lock(open.stateid.as_ref()?, part.range(), false)])
        })?;
        // It was not told in the life in which it was asked; what it has by that is gone.
        let Came::Told(told) = came else { return violation("a LOCK is told behind the end of its server") };
        let has_it = match told.status {
            Nfsstat4::Nfs4Ok => true,
            Nfsstat4::Nfs4ErrDenied => false,
            status => return violation(format!("a LOCK is told {status:?}")),
        };
        self.truth().is_told(self.number, part, &asked, has_it)?;
        if has_it {
            let open = &mut self.belief.boxes[part.of];
            open.locks = told.stateid().cloned();
            open.parts.push(part);
        }
        Ok(())
    }

    /// Counts up the number of a part that it has locked.
    fn count(&mut self) -> Result<()> {
        let Some(part) = self.locked() else { return Ok(()) };
        let (number, may_be_next) = self.truth().number(part);
        let (offset, length) = part.range();
        let tries = Cell::new(0);
        let came = self.carry_out(|belief| {
            tries.set(tries.get() + 1);
            let open = &belief.boxes[part.of];
            let by = open.locks.as_ref()?;
            let next = (number + 1).to_be_bytes();
            Some(vec![ask::put(&open.handle), ask::read(by, offset, length as u32), ask::write(by, offset, &next)])
        })?;
        let (told, is_behind) = match came {
            Came::Told(told) => (told, false),
            Came::ToldBehind(told) => (told, true),
            // Whoever has it next finds out whether it was counted up.
            Came::Gone => return self.has_lost("a lock without a stateid"),
        };
        if !told.is_ok() {
            return violation(format!("{:?} is told to who has the lock of {part:?}", told.status));
        }
        let mut found = [0; PART_BYTES];
        let data = told.data().unwrap_or_default();
        found[..data.len()].copy_from_slice(data);
        let found = u64::from_be_bytes(found);
        // Who asks once more may find what it has written itself.
        let is_own = (is_behind || may_be_next || tries.get() > 1) && found == number + 1;
        if found != number && !is_own {
            return violation(format!("{part:?} has {found} instead of {number}"));
        }
        self.truth().is_counted(part);
        Ok(())
    }

    fn unlock(&mut self) -> Result<()> {
        let Some(part) = self.locked() else { return Ok(()) };
        self.come_back()?;
        let open = &mut self.belief.boxes[part.of];
        open.parts.retain(|of| *of != part);
        let Some(locks) = open.locks.clone() else { return violation("a lock without a stateid") };
        let ops = [ask::put(&open.handle), ask::unlock(&locks, part.range())];
        self.truth().gives_up(part);
        let came = self.once(&ops);
        self.truth().has_given_up(part);
        match came? {
            Came::Told(told) if told.is_ok() => self.belief.boxes[part.of].locks = told.stateid().cloned(),
            Came::Told(told) => return violation(format!("a LOCKU is told {:?}", told.status)),
            Came::ToldBehind(_) | Came::Gone => {}
        }
        Ok(())
    }

    /// Makes a file that loses its name while it is open, or reads one of these, or closes it.
    fn nameless(&mut self) -> Result<()> {
        let count = self.belief.nameless.len();
        match self.random.below(3) {
            0 if count < NAMELESS_MAX => {
                self.make_file()?;
                let name = format!("name-{}", self.named);
                let data = self.random.bytes(100);
                self.write_made(&data)?;
                self.told_ok(&self.at_home(ask::remove(&name)))?;
                self.belief.names.remove(&name);
                if let Some(open) = self.belief.made.take() {
                    self.belief.nameless.push((open, data));
                }
                Ok(())
            }
            1 if count > 0 => {
                self.come_back()?;
                let at = self.random.below(count as u64) as usize;
                let (open, _) = self.belief.nameless.swap_remove(at);
                self.close(open)
            }
            _ if count > 0 => {
                let at = self.random.below(count as u64) as usize;
                let came = self.carry_out(|belief| {
                    let (open, data) = belief.nameless.get(at)?;
                    let read = ask::read(open.stateid.as_ref()?, 0, data.len() as u32);
                    Some(vec![ask::put(&open.handle), read])
                })?;
                let (Came::Told(told) | Came::ToldBehind(told)) = came else { return self.has_lost("no stateid") };
                if told.is_ok() && told.data() == Some(&self.belief.nameless[at].1) {
                    return Ok(());
                }
                violation(format!("a file without a name is read with {:?}, or has another content", told.status))
            }
            _ => Ok(()),
        }
    }

    fn write_made(&mut self, data: &[u8]) -> Result<()> {
        let came = self.carry_out(|belief| {
            let open = belief.made.as_ref()?;
            Some(vec![ask::put(&open.handle), ask::write(open.stateid.as_ref()?, 0, data)])
        })?;
        match came {
            Came::Told(told) | Came::ToldBehind(told) if told.is_ok() => Ok(()),
            Came::Told(told) | Came::ToldBehind(told) => violation(format!("a WRITE is told {:?}", told.status)),
            Came::Gone => self.has_lost("a file without a stateid"),
        }
    }

    /// Something that it had is gone: it must have been away.
    fn has_lost(&self, what: &str) -> Result<()> {
        if self.was_late() { Ok(()) } else { violation(what) }
    }

    /// What is compared when nothing goes on any more.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.list()?;
        for name in self.truth().names() {
            self.told_ok(&[ask::put(&self.shared), ask::look(&name)])?;
        }
        Ok(())
    }
}

fn handle(told: &Told) -> Result<Vec<u8>> {
    told.handle().map_or_else(|| violation("a GETFH without a handle"), |handle| Ok(handle.to_vec()))
}
