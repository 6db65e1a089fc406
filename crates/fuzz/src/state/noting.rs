//! What clients of the machine were told goes into its ledger.

use tally_wire::nfs4::{
    Close4Res, Fattr4Value, Getattr4Res, Lock4Res, Lockt4Res, Locku4Res, NfsResop4, Nfsstat4, OPEN4_RESULT_CONFIRM,
    OPEN4_RESULT_NO_OPEN_STATEID, OPEN4_SHARE_ACCESS_READ as READ, Open4Res, OpenConfirm4Res, OpenDelegation4,
    OpenDowngrade4Res,
};

use super::Machine;
use super::client::status_of;
use super::operations::{Asked, Sending};
use crate::told::stateids;

impl Machine<'_> {
    /// What was told goes into the ledger.
    pub(super) fn note(&mut self, who: usize, id: u64, sent: &Sending, told: &[NfsResop4]) {
        for (at, (asked, result)) in sent.asked.iter().zip(told).enumerate() {
            self.stateids.extend(stateids(result).into_iter().cloned());
            self.note_order(who, sent, at, status_of(result));
            self.note_one(id, asked, result, told.get(at + 1));
        }
    }

    /// Of minor version 0 most statuses move the order of an owner (RFC 7530 §9.1.7).
    fn note_order(&mut self, who: usize, sent: &Sending, at: usize, status: Nfsstat4) {
        use Nfsstat4 as S;
        let stays = [
            S::Nfs4ErrStaleClientid,
            S::Nfs4ErrStaleStateid,
            S::Nfs4ErrBadStateid,
            S::Nfs4ErrBadSeqid,
            S::Nfs4ErrBadxdr,
            S::Nfs4ErrResource,
            S::Nfs4ErrNofilehandle,
            S::Nfs4ErrMoved,
        ];
        if stays.contains(&status) {
            return;
        }
        for (_, kind, nth) in sent.orders.iter().filter(|(of, ..)| *of == at) {
            let next = &mut self.clients[who].seqids[*kind][*nth];
            *next = next.wrapping_add(1);
        }
    }

    fn note_one(&mut self, id: u64, asked: &Asked, result: &NfsResop4, next: Option<&NfsResop4>) {
        let (now, ledger) = (self.now, &mut self.ledger);
        match (asked, result) {
            (Asked::Open { who, access, deny }, NfsResop4::OpOpen(Open4Res::Nfs4Ok(ok))) => {
                let has_open = ok.rflags & OPEN4_RESULT_NO_OPEN_STATEID == 0;
                let Some(file) = next.and_then(file_id) else { return ledger.closed(&ok.stateid.other) };
                let is_loose = ok.rflags & OPEN4_RESULT_CONFIRM != 0;
                let kept = match &ok.delegation {
                    OpenDelegation4::OpenDelegateRead(kept) | OpenDelegation4::OpenDelegateReadAttrsDeleg(kept) => {
                        Some((&kept.stateid, false))
                    }
                    OpenDelegation4::OpenDelegateWrite(kept) | OpenDelegation4::OpenDelegateWriteAttrsDeleg(kept) => {
                        Some((&kept.stateid, true))
                    }
                    _ => None,
                };
                // The delegation stands for the open (RFC 9754 §4): then it is for all that was asked for, and denies nothing.
                if has_open {
                    ledger.opened(ok.stateid.other, *who, file, (*access, *deny), now, is_loose);
                } else {
                    assert!(kept.is_some_and(|(_, writes)| writes || *access == READ) && *deny == 0, "{ok:?}");
                }
                if let Some((stateid, writes)) = kept {
                    ledger.keeps(stateid.other, who.0, file, writes, now);
                }
            }
            (Asked::Close(other), NfsResop4::OpClose(Close4Res::Nfs4Ok(_))) => ledger.closed(other),
            (Asked::Confirm(other), NfsResop4::OpOpenConfirm(OpenConfirm4Res::Nfs4Ok(_))) => ledger.confirmed(other),
            (Asked::Downgrade(other, access, deny), NfsResop4::OpOpenDowngrade(OpenDowngrade4Res::Nfs4Ok(_))) => {
                ledger.downgraded(other, *access, *deny);
            }
            (Asked::Lock { who, file, range, below }, NfsResop4::OpLock(Lock4Res::Nfs4Ok(ok))) => {
                if let (Some(who), Some(file)) = (who, file) {
                    ledger.locked(ok.lock_stateid.other, *who, *file, *range, *below, now);
                }
            }
            (Asked::LockT { who, file, range }, NfsResop4::OpLockt(Lockt4Res::Nfs4Ok)) => {
                ledger.is_free(*who, *file, *range, now);
            }
            (Asked::Unlock(other, range), NfsResop4::OpLocku(Locku4Res::Nfs4Ok(_))) => ledger.unlocked(other, *range),
            (Asked::GiveBack(other), result) if status_of(result) == Nfsstat4::Nfs4Ok => ledger.gave_back(other),
            (Asked::Renew, result) if status_of(result) == Nfsstat4::Nfs4Ok => ledger.heard(id, now),
            _ => {}
        }
    }
}

fn file_id(result: &NfsResop4) -> Option<u64> {
    let NfsResop4::OpGetattr(Getattr4Res::Nfs4Ok(ok)) = result else { return None };
    match ok.obj_attributes.values().expect("it is by all rules")[..] {
        [Fattr4Value::Fattr4Fileid(id)] => Some(id),
        ref other => panic!("{other:?}"),
    }
}
