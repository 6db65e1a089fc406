//! Ordinary users: one client is a machine of several, each request being one of theirs. The model decides what they
//! may.
//!
//! Their changes are requests like all others. What they may read is asked here: ACCESS must grant what the mode bits
//! say, by a rule that is written down once more; and a READ, LOOKUP or READDIR is answered exactly to those whom the
//! model answers.

use nfs3_types::nfs3::*;
use tally_vfs::{Attr, Attributes, Content, Cred, FileKind, Names, SetAttr};

use super::{Checked, State};
use crate::agree::tells_of;
use crate::chance::{Chance, Stream};
use crate::client::{Call, handle, name_in};
use crate::op::{NAMES, Object};

/// The users: owner, group, and the other groups that they are in.
const USERS: [(u32, u32, &[u32]); 5] = [(1, 1, &[]), (2, 2, &[1]), (3, 1, &[2, 4]), (4, 4, &[3]), (1, 3, &[2])];
/// Bits of ACCESS (RFC 1813 §3.3.4).
const READ: u32 = 0x01;
const LOOKUP: u32 = 0x02;
const CHANGE: u32 = 0x04 | 0x08;
const DELETE: u32 = 0x10;
const EXECUTE: u32 = 0x20;
/// All of them.
const EVERYTHING: u32 = 0x3f;

fn user(chance: &mut Chance) -> Cred {
    let (uid, gid, groups) = chance.pick(&USERS);
    Cred { uid, gid, groups: groups.iter().copied().collect(), checked: false }
}

/// Who may change a directory is set anew: everybody; everybody, but each removes only what is theirs; a group, to
/// which may belong what is made there; or its owner alone.
pub(super) fn opened(chance: &mut Chance) -> SetAttr {
    let gid = chance.one_in(2).then(|| 1 + chance.below(4) as u32);
    SetAttr { mode: Some(chance.pick(&[0o777, 0o1777, 0o1777, 0o2775, 0o770, 0o755])), gid, ..SetAttr::default() }
}

/// What ACCESS must grant.
fn may(attr: &Attr, cred: &Cred) -> u32 {
    let bits = match cred {
        _ if cred.uid == attr.uid => attr.mode >> 6,
        _ if cred.gid == attr.gid || cred.groups.contains(&attr.gid) => attr.mode >> 3,
        _ => attr.mode,
    };
    let (read, write, search) = (bits & 4 != 0, bits & 2 != 0, bits & 1 != 0);
    let granted = |is: bool, what: u32| if is { what } else { 0 };
    if attr.kind == FileKind::Directory {
        return granted(read, READ) | granted(search, LOOKUP) | granted(write && search, CHANGE | DELETE);
    }
    granted(read, READ) | granted(search, EXECUTE) | granted(write, CHANGE)
}

impl State {
    /// Whose request a client sends next, if it is one of several users.
    pub(super) fn another_user(&self, client: usize) -> Option<Cred> {
        let has_users = self.clients[client].cred().uid != 0;
        has_users.then(|| user(&mut Chance::of(self.plan.seed, Stream::User, self.op as u64)))
    }

    /// An ordinary user asks what they may do with something, and whether they may read it.
    pub(super) fn ask_as_user(&mut self) -> Checked<()> {
        let mut chance = Chance::of(self.plan.seed, Stream::Access, self.step as u64);
        let Some(client) = self.clients.iter().position(|client| client.cred().uid != 0) else { return Ok(()) };
        let (who, part) = (user(&mut chance), self.some_part(&mut chance));
        let of = if chance.one_in(2) {
            self.directory(&mut chance, part)
        } else {
            self.object(&mut chance, part, Some(FileKind::File))
        };
        self.clients[client].act_as(who.clone());
        let asked = ACCESS3args { object: handle(&of.handle), access: EVERYTHING };
        let told = self.read_by(client, &Call::new(NFS_PROGRAM::NFSPROC3_ACCESS, &asked))?;
        let attr = self.parts[of.dataset].oracle.live.getattr(of.model);
        if self.is_in_trouble() {
            return Ok(());
        }
        self.totals.access_asked += 1;
        match (told.status, attr) {
            (nfsstat3::NFS3_OK, Ok(attr)) if told.granted == may(&attr, &who) => {}
            (nfsstat3::NFS3_OK, Ok(attr)) => {
                let (granted, may) = (told.granted, may(&attr, &who));
                let seen = told.attr;
                return Err(format!(
                    "ACCESS to {of:?} grants {granted:#x} to {who:?}, not {may:#x} of {attr:?}; seen {seen:?}"
                ));
            }
            (nfsstat3::NFS3ERR_STALE, Err(_)) => return Ok(()),
            (status, attr) => return Err(format!("ACCESS to {of:?} is answered with {status}: {attr:?}")),
        }
        self.read_as_user((client, &who), &of, chance.pick(&NAMES))
    }

    fn read_as_user(&mut self, (client, who): (usize, &Cred), of: &Object, name: &str) -> Checked<()> {
        use NFS_PROGRAM as P;
        let (file, dir, cookieverf) = (handle(&of.handle), handle(&of.handle), cookieverf3::default());
        let calls = match of.kind {
            FileKind::File => vec![Call::new(P::NFSPROC3_READ, &READ3args { file, offset: 0, count: 1 })],
            FileKind::Directory => vec![
                Call::new(P::NFSPROC3_LOOKUP, &LOOKUP3args { what: name_in(&of.handle, name) }),
                Call::new(P::NFSPROC3_READDIR, &READDIR3args { dir, cookie: 0, cookieverf, count: 1000 }),
            ],
            _ => return Ok(()),
        };
        for call in calls {
            let told = self.read_by(client, &call)?;
            let model = &self.parts[of.dataset].oracle.live;
            let expected = match call.procedure {
                P::NFSPROC3_READ => model.read(who, of.model, 0, 1).err(),
                P::NFSPROC3_LOOKUP => model.lookup(who, of.model, name.as_bytes()).err(),
                _ => model.readdir(who, of.model, 0, 1, false).err(),
            };
            self.totals.reads_denied += u64::from(told.status == nfsstat3::NFS3ERR_ACCES);
            let is_right = match expected {
                None => told.status == nfsstat3::NFS3_OK,
                Some(error) => tells_of(told.status, error),
            };
            if !is_right && !self.is_in_trouble() {
                let wanted = expected.map_or("OK".to_owned(), |error| error.to_string());
                return Err(format!(
                    "{} of {of:?} is answered with {} to {who:?}, not: {wanted}",
                    call.procedure, told.status
                ));
            }
        }
        Ok(())
    }
}
