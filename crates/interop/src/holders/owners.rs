//! A client of minor version 0, over one connection after the other: its id, and two owners, of opens and of locks, whose requests have an order (RFC 7530 §9.1.7).
//!
//! Steps ask as clients with sessions do; here that becomes what minor version 0 has for it. It has no slots, so a request that was under way is sent again as it was, with its xid, and the server
//! has to know it by that.

use std::collections::BTreeMap;

use tally_bench::wire::Connection;
use tally_wire::nfs4::{
    CbClient4, Createhow4, ExistLockOwner4, Lock4Res, Locker4, Locku4Res, Netaddr4, NfsArgop4, NfsClientId4, NfsResop4,
    Nfsstat4, OPEN4_RESULT_CONFIRM, Open4Res, OpenConfirm4Args, OpenConfirm4Res, Openflag4, Setclientid4Args,
    Setclientid4Res, SetclientidConfirm4Args, Stateid4,
};
use tally_wire::{Told, ask};

use super::session::{LATER, UnderWay, compound, outside, send};
use super::{Result, Trouble, violation};

const MINOR: u32 = 0;
/// With which its owners begin, as they may with any.
const FIRST: u32 = 41;

/// A client.
pub(super) struct Owners {
    connection: Connection,
    client: u64,
    /// The next seqids of the owner of opens, and of that of locks.
    opens: u32,
    locks: u32,
    /// What it has locked, by the open that it is below.
    locked: BTreeMap<[u8; 12], Stateid4>,
    /// The connection broke before an open was confirmed.
    is_broken: bool,
}

impl Owners {
    /// Introduces one of this name.
    pub(super) fn open(mut connection: Connection, name: &str) -> Result<Self> {
        let told = match outside(&mut connection, MINOR, introduce(name))? {
            NfsResop4::OpSetclientid(Setclientid4Res::Nfs4Ok(told)) => told,
            other => return violation(format!("SETCLIENTID: {other:?}")),
        };
        let (clientid, setclientid_confirm) = (told.clientid, told.setclientid_confirm);
        let confirm = NfsArgop4::OpSetclientidConfirm(SetclientidConfirm4Args { clientid, setclientid_confirm });
        match outside(&mut connection, MINOR, confirm)? {
            NfsResop4::OpSetclientidConfirm(told) if told.status == Nfsstat4::Nfs4Ok => {}
            other => return violation(format!("SETCLIENTID_CONFIRM: {other:?}")),
        }
        let (locked, is_broken) = Default::default();
        Ok(Self { connection, client: clientid, opens: FIRST, locks: FIRST, locked, is_broken })
    }

    /// Carries out these, and confirms what they have opened.
    pub(super) fn ask(&mut self, ops: &[NfsArgop4], under_way: &mut Option<UnderWay>) -> Result<Told> {
        let ops: Vec<_> = ops.iter().map(|op| self.as_minor_0(op.clone())).collect();
        let request = compound(MINOR, ops.clone());
        let told = send(&mut self.connection, &request).and_then(in_this_life);
        if matches!(told, Err(Trouble::Broken)) {
            *under_way = Some(UnderWay { request, xid: Some(self.connection.xid()) });
        }
        let mut told = told?;
        self.moves(&ops, &told);
        self.confirm(&mut told)?;
        Ok(told)
    }

    /// Whether the connection broke behind what was told.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    fn as_minor_0(&self, op: NfsArgop4) -> NfsArgop4 {
        match op {
            NfsArgop4::OpOpen(mut open) => {
                (open.seqid, open.owner.clientid) = (self.opens, self.client);
                if let Openflag4::Open4Create(how) = &mut open.openhow
                    && let Createhow4::Exclusive41(exclusive) = how
                {
                    *how = Createhow4::Exclusive4(exclusive.cva_verf);
                }
                NfsArgop4::OpOpen(open)
            }
            NfsArgop4::OpClose(mut close) => {
                close.seqid = self.opens;
                NfsArgop4::OpClose(close)
            }
            NfsArgop4::OpLock(mut lock) => {
                if let Locker4::True(below) = &mut lock.locker {
                    (below.open_seqid, below.lock_seqid) = (self.opens, self.locks);
                    below.lock_owner.clientid = self.client;
                    if let Some(stateid) = self.locked.get(&below.open_stateid.other) {
                        let (lock_stateid, lock_seqid) = (stateid.clone(), self.locks);
                        lock.locker = Locker4::False(ExistLockOwner4 { lock_stateid, lock_seqid });
                    }
                }
                NfsArgop4::OpLock(lock)
            }
            NfsArgop4::OpLocku(mut unlock) => {
                unlock.seqid = self.locks;
                NfsArgop4::OpLocku(unlock)
            }
            other => other,
        }
    }

    /// What was told of these moves the owners' order on.
    fn moves(&mut self, ops: &[NfsArgop4], told: &Told) {
        for (at, (op, result)) in ops.iter().zip(&told.results).enumerate() {
            let status = if at + 1 == told.results.len() { told.status } else { Nfsstat4::Nfs4Ok };
            if !moves(status) {
                continue;
            }
            match op {
                NfsArgop4::OpOpen(_) => self.opens += 1,
                NfsArgop4::OpClose(close) => {
                    self.opens += 1;
                    self.locked.remove(&close.open_stateid.other);
                }
                NfsArgop4::OpLock(lock) => {
                    self.locks += 1;
                    if let Locker4::True(below) = &lock.locker {
                        self.opens += 1;
                        let (open, given) = (below.open_stateid.other, locked(result));
                        given.map(|stateid| self.locked.insert(open, stateid.clone()));
                    }
                }
                NfsArgop4::OpLocku(_) => self.locks += 1,
                _ => {}
            }
            // One that was there has another seqid by now.
            let Some(given) = locked(result) else { continue };
            self.locked.values_mut().filter(|of| of.other == given.other).for_each(|of| *of = given.clone());
        }
    }

    /// Confirms what was opened, if that is asked for: until then it is provisional. Where the connection breaks meanwhile it was opened all the same.
    fn confirm(&mut self, told: &mut Told) -> Result<()> {
        let Some(opened) = told.results.iter().find_map(to_be_confirmed).cloned() else { return Ok(()) };
        let Some(handle) = told.handle().map(<[u8]>::to_vec) else { return violation("an OPEN without a GETFH") };
        loop {
            let confirm = OpenConfirm4Args { open_stateid: opened.clone(), seqid: self.opens };
            let request = compound(MINOR, vec![ask::put(&handle), NfsArgop4::OpOpenConfirm(confirm)]);
            let confirmed = match send(&mut self.connection, &request) {
                Err(Trouble::Broken) => {
                    self.is_broken = true;
                    return Ok(());
                }
                confirmed => confirmed?,
            };
            if moves(confirmed.status) {
                self.opens += 1;
            }
            match (confirmed.status, confirmed.results.last()) {
                (Nfsstat4::Nfs4ErrDelay, _) => std::thread::sleep(LATER),
                (_, Some(NfsResop4::OpOpenConfirm(OpenConfirm4Res::Nfs4Ok(ok)))) => {
                    note_confirmed(told, &ok.open_stateid);
                    return Ok(());
                }
                (status, _) => return violation(format!("an OPEN_CONFIRM is told {status:?}")),
            }
        }
    }
}

/// Sends a request again, as it was.
pub(super) fn again(connection: &mut Connection, request: &[u8], xid: u32) -> Result<Told> {
    connection.ask_as(xid);
    in_this_life(send(connection, request)?)
}

/// What is of a life before was not carried out, or nobody knows of it.
fn in_this_life(told: Told) -> Result<Told> {
    match told.status {
        Nfsstat4::Nfs4ErrStaleClientid | Nfsstat4::Nfs4ErrStaleStateid => Err(Trouble::SessionOver),
        _ => Ok(told),
    }
}

/// Whether an operation that is told this has had its turn (RFC 7530 §9.1.7).
fn moves(status: Nfsstat4) -> bool {
    !matches!(
        status,
        Nfsstat4::Nfs4ErrStaleClientid
            | Nfsstat4::Nfs4ErrStaleStateid
            | Nfsstat4::Nfs4ErrBadStateid
            | Nfsstat4::Nfs4ErrBadSeqid
            | Nfsstat4::Nfs4ErrBadxdr
            | Nfsstat4::Nfs4ErrResource
            | Nfsstat4::Nfs4ErrNofilehandle
            | Nfsstat4::Nfs4ErrMoved
    )
}

fn locked(result: &NfsResop4) -> Option<&Stateid4> {
    match result {
        NfsResop4::OpLock(Lock4Res::Nfs4Ok(ok)) => Some(&ok.lock_stateid),
        NfsResop4::OpLocku(Locku4Res::Nfs4Ok(stateid)) => Some(stateid),
        _ => None,
    }
}

fn to_be_confirmed(result: &NfsResop4) -> Option<&Stateid4> {
    match result {
        NfsResop4::OpOpen(Open4Res::Nfs4Ok(ok)) if ok.rflags & OPEN4_RESULT_CONFIRM != 0 => Some(&ok.stateid),
        _ => None,
    }
}

fn note_confirmed(told: &mut Told, stateid: &Stateid4) {
    for result in &mut told.results {
        if let NfsResop4::OpOpen(Open4Res::Nfs4Ok(ok)) = result {
            ok.stateid = stateid.clone();
        }
    }
}

/// SETCLIENTID, of a client that started once and is not called.
fn introduce(name: &str) -> NfsArgop4 {
    let cb_location = Netaddr4 { na_r_netid: b"tcp".into(), na_r_addr: b"0.0.0.0.0.0".into() };
    NfsArgop4::OpSetclientid(Setclientid4Args {
        client: NfsClientId4 { verifier: [1; 8], id: name.into() },
        callback: CbClient4 { cb_program: 0x4000_0000, cb_location },
        callback_ident: 1,
    })
}
