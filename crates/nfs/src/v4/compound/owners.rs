//! Whom operations mean by a name, and for how long a compound waits for the name service to say so.

use std::time::Instant;

use tally_vfs::permission::{self, EXECUTE, WRITE};
use tally_vfs::{CreateHow, Cred, SetAttr};

use super::{Compound, Halt, Stop};
use crate::entry::Target;
use crate::v4::attr::{Called, Dialect};
use crate::v4::naming::{Found, Kind, Ticket};
use crate::v4::status::Status;

/// How often a compound waits for names, a moment each time: as a rule for those that it sets, and for those that it is told behind that.
const NAME_WAITS_MAX: u32 = 2;

impl<'a> Compound<'a> {
    /// In which words its client sets attributes.
    pub(in crate::v4) fn dialect(&self) -> Dialect<'a> {
        Dialect { minor: self.head.minor, naming: &self.scene.house.naming }
    }

    /// The name service was asked this: the operation goes on when it has answered, or a moment later. It does without where nothing was asked, or its compound has waited before.
    pub(in crate::v4) fn wait_for_names(&mut self, asked: Option<Ticket>) -> Result<(), Halt> {
        let asked = asked.filter(|_| self.owed.name_waits < NAME_WAITS_MAX);
        let Some(promise) = asked.and_then(|asked| self.scene.house.naming.wait_for(asked)) else { return Ok(()) };
        self.owed.name_waits += 1;
        // Who has looked at what another client has for writing looks anew.
        self.owed.looks = None;
        Err(Halt::Parked(promise))
    }

    /// What SETATTR sets. Who may not do that is told so, and nobody is asked for a name.
    pub(in crate::v4) fn owners_set(&mut self, file: &Target, set: SetAttr, called: &Called) -> Result<SetAttr, Stop> {
        if called.is_nobody() {
            return Ok(set);
        }
        let attr = file.vfs.getattr(file.object).map_err(Status::from)?;
        // As if it left them as they are: less nobody can ask for.
        let (user, group) = (called.user.as_ref().map(|_| attr.uid), called.group.as_ref().map(|_| attr.gid));
        let least = SetAttr { uid: user.or(set.uid), gid: group.or(set.gid), ..set.clone() };
        permission::may_set(&attr, &file.cred, &least).map_err(Status::from)?;
        if file.cred.uid != 0 {
            let (owner, groups) = ([attr.uid], groups_of(&file.cred).chain([attr.gid]).collect::<Vec<_>>());
            let (user, group) = self.who_is_of(called, (&owner, &groups))?;
            let is_other = |name: &Option<Box<str>>, id: Option<u32>| name.is_some() && id.is_none();
            if is_other(&called.user, user) || is_other(&called.group, group) {
                return Err(Status::Perm.into());
            }
            return Ok(SetAttr { uid: user.or(set.uid), gid: group.or(set.gid), ..set });
        }
        self.who_is(set, called)
    }

    /// What something that is made in a directory is given. Of who may not make anything there nothing is asked for: what it names is there already, or it is refused.
    pub(in crate::v4) fn owners_given(&mut self, dir: &Target, set: SetAttr, called: &Called) -> Result<SetAttr, Stop> {
        if called.is_nobody() {
            return Ok(set);
        }
        let attr = dir.vfs.getattr(dir.object).map_err(Status::from)?;
        if !permission::may(&attr, &dir.cred, WRITE | EXECUTE) {
            return Ok(set);
        }
        // Only the superuser gives to others what he makes, or to groups that he is not in: of who is not him that is passed over, as it is by number.
        if dir.cred.uid != 0 {
            let groups: Vec<_> = groups_of(&dir.cred).collect();
            let called = Called { user: None, group: called.group.clone() };
            let (_, group) = self.who_is_of(&called, (&[], &groups))?;
            return Ok(SetAttr { gid: group.or(set.gid), ..set });
        }
        self.who_is(set, called)
    }

    /// The same of what OPEN makes.
    pub(in crate::v4) fn owners_made(
        &mut self,
        dir: &Target,
        how: &CreateHow,
        called: &Called,
    ) -> Result<CreateHow, Stop> {
        Ok(match how {
            CreateHow::Unchecked(set) => CreateHow::Unchecked(self.owners_given(dir, set.clone(), called)?),
            CreateHow::Guarded(set) => CreateHow::Guarded(self.owners_given(dir, set.clone(), called)?),
            CreateHow::ExclusiveWith(verifier, set) => {
                CreateHow::ExclusiveWith(*verifier, self.owners_given(dir, set.clone(), called)?)
            }
            CreateHow::Exclusive(verifier) => CreateHow::Exclusive(*verifier),
        })
    }

    /// Whom somebody means who is not the superuser, of those whom he may mean: the owner and the group that there are, and groups that he is in. So their names are asked for, and he
    /// learns of no other one whether anybody has it.
    fn who_is_of(
        &mut self,
        called: &Called,
        (users, groups): (&[u32], &[u32]),
    ) -> Result<(Option<u32>, Option<u32>), Stop> {
        let user = called.user.as_ref().map(|name| self.one_of(Kind::User, name, users)).transpose()?;
        let group = called.group.as_ref().map(|name| self.one_of(Kind::Group, name, groups)).transpose()?;
        Ok((user.flatten(), group.flatten()))
    }

    /// Which of these is called so, if one is.
    fn one_of(&mut self, kind: Kind, name: &str, ids: &[u32]) -> Result<Option<u32>, Stop> {
        let (naming, now) = (&self.scene.house.naming, Instant::now());
        let (mut asked, mut is_known) = (None, true);
        for id in ids {
            match naming.name(kind, *id, now) {
                Found::Is(known) if *known == *name => return Ok(Some(*id)),
                Found::Is(_) | Found::Nobody => {}
                Found::Unknown(ticket) => (asked, is_known) = (asked.max(ticket), false),
            }
        }
        if is_known {
            return Ok(None);
        }
        self.wait_for_names(asked).inspect_err(|_| self.has_not_begun())?;
        Err(Status::Delay.into())
    }

    /// That, for those who are called so.
    fn who_is(&mut self, mut set: SetAttr, called: &Called) -> Result<SetAttr, Stop> {
        let (naming, now) = (&self.scene.house.naming, Instant::now());
        let find = |kind, name: &Option<Box<str>>| name.as_ref().map(|name| naming.id(kind, name, now));
        let (user, group) = (find(Kind::User, &called.user), find(Kind::Group, &called.group));
        let (mut asked, mut is_known) = (None, true);
        for found in [&user, &group].into_iter().flatten() {
            match found {
                Found::Is(_) => {}
                Found::Nobody => return Err(Status::BadOwner.into()),
                Found::Unknown(ticket) => (asked, is_known) = (asked.max(*ticket), false),
            }
        }
        if !is_known {
            self.wait_for_names(asked).inspect_err(|_| self.has_not_begun())?;
            return Err(Status::Delay.into());
        }
        for (found, field) in [(user, &mut set.uid), (group, &mut set.gid)] {
            if let Some(Found::Is(id)) = found {
                *field = Some(id);
            }
        }
        Ok(set)
    }
}

fn groups_of(cred: &Cred) -> impl Iterator<Item = u32> {
    [cred.gid].into_iter().chain(cred.groups.iter().copied())
}
