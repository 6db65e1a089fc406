//! A client of minor version 0, which has no session: its owners' requests come in an order of their own (seqids), the first open of each is confirmed, and it says with RENEW that it is there (RFC 7530 §9.1).
//!
//! It asks for what the others do, and by the same compounds: they are put into its words before they are sent. RENEW stands where the others have SEQUENCE, so it learns at each word whether the server still
//! knows it. It has no word for claiming nothing more: others wait for it as long as a grace lasts. Nobody calls it, so it is given nothing to keep.

use std::collections::BTreeMap;

use tally_wire::nfs4::Nfsstat4::{self, *};
use tally_wire::nfs4::{
    Createhow4, ExistLockOwner4, Locker4, NfsArgop4, NfsResop4, Open4Res, OpenConfirm4Args, OpenConfirm4Res, Openflag4,
    Renew4Args, Setclientid4Res, Stateid4,
};
use tally_wire::{decode, encode};

use super::Checked;
use super::caller::Caller;
use super::world::World;
use crate::words::{self, Op, Told};

/// `OPEN4_RESULT_CONFIRM`.
const TO_BE_CONFIRMED: u32 = 2;

/// An owner: of opens by its name, of locks by its name and the file, as each file's locks are in an order of their own.
type Owner = (Vec<u8>, Option<Vec<u8>>);

/// Which operation of a compound brings the seqids of which owners.
pub(super) type Turns = Vec<(usize, Vec<Owner>)>;

/// What it knows that a client with sessions does not.
#[derive(Debug, Default)]
pub(super) struct Older {
    id: u64,
    /// The next seqid of each owner.
    seqids: BTreeMap<Owner, u32>,
    /// How often it was told that it was not its turn.
    pub(super) out_of_turn: u64,
}

impl Older {
    fn seqid(&self, owner: &Owner) -> u32 {
        self.seqids.get(owner).copied().unwrap_or(1)
    }

    /// What these operations were told: each that was looked at moves its owners on.
    pub(super) fn told(&mut self, turns: &Turns, told: &Told) {
        let statuses = told.statuses();
        for (nth, owners) in turns {
            let Some(status) = statuses.get(*nth).filter(|status| moves(**status)) else { continue };
            for owner in owners {
                // An owner of locks that could not lock is not known.
                if owner.1.is_some() && *status != Nfs4Ok && !self.seqids.contains_key(owner) {
                    continue;
                }
                let next = self.seqid(owner).wrapping_add(1);
                self.seqids.insert(owner.clone(), next);
            }
        }
    }
}

/// Whether an operation that is told this was looked at (RFC 7530 §9.1.7).
fn moves(status: Nfsstat4) -> bool {
    !matches!(
        status,
        Nfs4ErrStaleClientid
            | Nfs4ErrStaleStateid
            | Nfs4ErrBadStateid
            | Nfs4ErrBadSeqid
            | Nfs4ErrBadxdr
            | Nfs4ErrResource
            | Nfs4ErrNofilehandle
            | Nfs4ErrMoved
    )
}

impl Caller {
    /// RENEW, and these in its words.
    pub(super) fn in_older_words(&self, ops: &[Op], skipped: u32) -> Checked<(Vec<Op>, Turns)> {
        let mut all = vec![encode(&NfsArgop4::OpRenew(Renew4Args { clientid: self.older.id }))];
        let (mut turns, mut file) = (Turns::new(), Vec::new());
        for op in ops {
            let mut asked: NfsArgop4 = decode(op).map_err(|error| format!("{error:?} in an operation"))?;
            let mut owners = Vec::new();
            match &mut asked {
                NfsArgop4::OpPutfh(put) => file = put.object.0.clone(),
                NfsArgop4::OpOpen(open) => {
                    let owner = (open.owner.owner.0.clone(), None);
                    (open.seqid, open.owner.clientid) = (self.older.seqid(&owner) + skipped, self.older.id);
                    if let Openflag4::Open4Create(how) = &mut open.openhow
                        && let Createhow4::Exclusive41(made) = how
                    {
                        *how = Createhow4::Exclusive4(made.cva_verf);
                    }
                    owners.push(owner);
                }
                NfsArgop4::OpClose(close) => {
                    let owner = self.owner_of(&file, &close.open_stateid)?;
                    close.seqid = self.older.seqid(&owner) + skipped;
                    owners.push(owner);
                }
                NfsArgop4::OpOpenDowngrade(less) => {
                    let owner = self.owner_of(&file, &less.open_stateid)?;
                    less.seqid = self.older.seqid(&owner) + skipped;
                    owners.push(owner);
                }
                NfsArgop4::OpLock(lock) => {
                    let Locker4::True(below) = &mut lock.locker else {
                        return Err("a LOCK is not below an open".into());
                    };
                    let owner = self.owner_of(&file, &below.open_stateid)?;
                    let own = (owner.0.clone(), Some(file.clone()));
                    match self.locks_of(&file, &owner.0) {
                        Some(lock_stateid) => {
                            let lock_seqid = self.older.seqid(&own) + skipped;
                            lock.locker = Locker4::False(ExistLockOwner4 { lock_stateid, lock_seqid });
                        }
                        None => {
                            below.open_seqid = self.older.seqid(&owner) + skipped;
                            below.lock_seqid = self.older.seqid(&own) + skipped;
                            below.lock_owner.clientid = self.older.id;
                            below.lock_owner.owner = [&owner.0[..], &file].concat().into();
                            owners.push(owner);
                        }
                    }
                    owners.push(own);
                }
                NfsArgop4::OpLocku(unlock) => {
                    let owner = self.owner_of_locks(&file, &unlock.lock_stateid)?;
                    unlock.seqid = self.older.seqid(&owner) + skipped;
                    owners.push(owner);
                }
                NfsArgop4::OpLockt(test) => test.owner.clientid = self.older.id,
                _ => {}
            }
            if !owners.is_empty() {
                turns.push((all.len(), owners));
            }
            all.push(encode(&asked));
        }
        Ok((all, turns))
    }

    fn owner_of(&self, file: &[u8], stateid: &Stateid4) -> Checked<Owner> {
        let mut opens = self.opens.iter();
        let open = opens.find(|open| open.file == file && open.stateid.as_ref() == Some(stateid));
        Ok((Self::owner(open.ok_or("an open is not known by its stateid")?.owner), None))
    }

    fn owner_of_locks(&self, file: &[u8], stateid: &Stateid4) -> Checked<Owner> {
        let mut opens = self.opens.iter();
        let open = opens.find(|open| open.file == file && open.locks.as_ref() == Some(stateid));
        Ok((Self::owner(open.ok_or("locks are not known by their stateid")?.owner), Some(file.to_vec())))
    }

    fn locks_of(&self, file: &[u8], owner: &[u8]) -> Option<Stateid4> {
        let mut opens = self.opens.iter();
        opens.find(|open| open.file == file && Self::owner(open.owner) == owner).and_then(|open| open.locks.clone())
    }

    /// What is to be asked comes with a seqid that is not the owner's next one: it is told so, and nothing moves on. Owners that nobody may know begin with any. False: the power went.
    fn ask_out_of_turn_now(&mut self, world: &World, ops: &[Op]) -> Checked<bool> {
        let (ops, _) = self.in_older_words(ops, 7)?;
        let Some(told) = self.ask_anew(world, &ops)? else { return Ok(false) };
        match told.status {
            Nfs4ErrBadSeqid => {
                self.older.out_of_turn += 1;
                Ok(true)
            }
            _ if told.is_refused_at_sequence() => Ok(true),
            status => Err(format!("a request that is out of turn is told {status:?}")),
        }
    }

    pub(super) fn ask_out_of_turn(&mut self, world: &World, ops: &[Op]) -> Checked<bool> {
        let is_known = |op: &Op| {
            let asked = decode(op);
            matches!(asked, Ok(NfsArgop4::OpClose(_) | NfsArgop4::OpOpenDowngrade(_) | NfsArgop4::OpLocku(_)))
        };
        if ops.iter().any(is_known) { self.ask_out_of_turn_now(world, ops) } else { Ok(true) }
    }

    /// SETCLIENTID and what confirms it. False: the power went.
    pub(super) fn connect_older(&mut self, world: &World) -> Checked<bool> {
        let Some(mut made) = self.outside(world, words::set_client_id(&self.name(), self.start()))? else {
            return Ok(false);
        };
        let Some(NfsResop4::OpSetclientid(Setclientid4Res::Nfs4Ok(made))) = made.results.pop() else {
            return Err(format!("SETCLIENTID: {:?}", made.status));
        };
        self.older = Older { id: made.clientid, seqids: BTreeMap::new(), ..self.older };
        let confirm = words::confirm_client_id(made.clientid, made.setclientid_confirm);
        let Some(told) = self.outside(world, confirm)? else { return Ok(false) };
        if !told.is_ok() {
            return Err(format!("SETCLIENTID_CONFIRM: {:?}", told.status));
        }
        Ok(true)
    }

    /// What it has just opened it confirms, if it was asked to. False: the power went.
    pub(super) fn confirm(&mut self, world: &World, turns: &Turns, told: &mut Told) -> Checked<bool> {
        let Some(handle) = told.handle() else { return Ok(true) };
        let opened = told.results.iter_mut().find_map(|result| match result {
            NfsResop4::OpOpen(Open4Res::Nfs4Ok(ok)) => Some(ok),
            _ => None,
        });
        let Some(opened) = opened.filter(|opened| opened.rflags & TO_BE_CONFIRMED != 0) else { return Ok(true) };
        let owner = turns.first().and_then(|(_, owners)| owners.first()).cloned().ok_or("an OPEN is of no owner")?;
        let confirm = OpenConfirm4Args { open_stateid: opened.stateid.clone(), seqid: self.older.seqid(&owner) };
        let ops = [words::put(&handle), encode(&NfsArgop4::OpOpenConfirm(confirm))];
        let Some(mut confirmed) = self.ask_anew(world, &ops)? else { return Ok(false) };
        let Some(NfsResop4::OpOpenConfirm(OpenConfirm4Res::Nfs4Ok(ok))) = confirmed.results.pop() else {
            return Err(format!("OPEN_CONFIRM is told {:?}", confirmed.status));
        };
        opened.stateid = ok.open_stateid;
        let next = self.older.seqid(&owner).wrapping_add(1);
        self.older.seqids.insert(owner, next);
        Ok(true)
    }
}
