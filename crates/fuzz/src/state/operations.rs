//! What clients of the machine ask for: operations, each with what the ledger has to know of it.

use tally_wire::nfs4::{
    Allocate4Args, Close4Args, Copy4Args, Createhow4, Creatverfattr, DataContent4, Deallocate4Args, Delegreturn4Args,
    ExistLockOwner4, FATTR4_FILEID, FATTR4_SIZE, Fattr4, Fattr4Value, FreeStateid4Args, Link4Args, Lock4Args, Locker4,
    Lockt4Args, Locku4Args, NfsArgop4, NfsLockType4, Nfstime4, OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS,
    OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION, Open4Args, OpenClaim4, OpenConfirm4Args, OpenDelegationType4,
    OpenDowngrade4Args, OpenOwner4, OpenToLockOwner4, Openflag4, Opentype4, Read4Args, ReleaseLockowner4Args,
    Remove4Args, Rename4Args, Renew4Args, Seek4Args, Setattr4Args, StableHow4, Stateid4, TestStateid4Args, Write4Args,
};

use super::client::{Client, OWNERS, Op, get_attr, op, put};
use super::ledger::{Other, Range, Who};
use super::{FILES, Machine, ONCE};
use crate::house::{FILE, TANK_ROOT};

/// What an operation was about, as far as the ledger has to know.
pub(super) enum Asked {
    Nothing,
    Open { who: Who, access: u32, deny: u32 },
    FileId,
    Close(Other),
    Confirm(Other),
    Downgrade(Other, u32, u32),
    Lock { who: Option<Who>, file: Option<u64>, range: Range, below: Option<Other> },
    LockT { who: Who, file: u64, range: Range },
    Unlock(Other, Range),
    GiveBack(Other),
    Renew,
}

/// Operations, each with what it was about.
#[derive(Default)]
pub(super) struct Sending {
    pub(super) ops: Vec<Op>,
    pub(super) asked: Vec<Asked>,
    /// Of minor version 0, in whose order an operation is: of opens or of locks, and which owner.
    pub(super) orders: Vec<(usize, usize, usize)>,
}

impl Sending {
    fn add(&mut self, op: Op, asked: Asked) {
        self.ops.push(op);
        self.asked.push(asked);
    }

    /// The next one is in the order of this owner.
    fn order(&mut self, kind: usize, nth: usize) {
        self.orders.push((self.ops.len(), kind, nth));
    }
}

impl Machine<'_> {
    fn stateid(&mut self, choice: u8) -> Stateid4 {
        let zero = Stateid4 { seqid: 0, other: [0; 12] };
        let newest = self.stateids.len().saturating_sub(16);
        let known = &self.stateids[newest..];
        let mut stateid = match (choice & 15, known.len()) {
            (_, 0) => zero,
            (15, _) if choice >> 4 == 0 => zero,
            (15, _) if choice >> 4 == 1 => Stateid4 { seqid: u32::MAX, other: [0xff; 12] },
            (15, _) if choice >> 4 == 2 => Stateid4 { seqid: 1, other: [0; 12] },
            (nth, count) => known[count - 1 - usize::from(nth) % count].clone(),
        };
        match choice >> 4 {
            15 => stateid.seqid = stateid.seqid.wrapping_add(1),
            14 => stateid.seqid = stateid.seqid.wrapping_sub(1),
            13 => stateid.seqid = 0,
            12 => stateid.other[usize::from(choice & 7)] ^= 1,
            _ => {}
        }
        stateid
    }

    /// One operation, and those that lead to it.
    pub(super) fn draw(&mut self, who: usize, into: &mut Sending) {
        let (letter, first, second) = (self.input.u8(), self.input.u8(), self.input.u8());
        match letter % 22 {
            0..=3 => self.open(who, first, second, into),
            4 => self.open_again(who, first, second, into),
            5..=7 => self.lock(who, first, second, into),
            8 => self.test_lock(who, first, second, into),
            kind => self.by_stateid(who, kind, first, second, into),
        }
    }

    fn owner(&self, who: usize, second: u8) -> (Who, OpenOwner4) {
        let (id, nth) = (client_id(&self.clients[who]), usize::from(second) % OWNERS);
        ((id, nth as u8), OpenOwner4 { clientid: id, owner: vec![b'o', nth as u8].into() })
    }

    /// Of the next operation, in the order of this owner.
    fn seqid(&self, who: usize, kind: usize, nth: usize, into: &mut Sending) -> u32 {
        into.order(kind, nth);
        self.clients[who].seqids[kind][nth]
    }

    /// The same, of the owner of a stateid.
    fn seqid_of(&self, who: usize, kind: usize, stateid: &Stateid4, into: &mut Sending) -> u32 {
        let nth = self.ledger.owner_of(&stateid.other).map_or(0, |(_, nth)| usize::from(nth));
        self.seqid(who, kind, nth, into)
    }

    fn open(&mut self, who: usize, first: u8, second: u8, into: &mut Sending) {
        let (dir, name) = FILES[usize::from(first & 3)];
        let (access, deny) =
            (1 + u32::from(first >> 2) % 3, if second & 0x10 != 0 { u32::from(first >> 4) & 3 } else { 0 });
        let (whose, owner) = self.owner(who, second);
        let set = || Fattr4::of(&[Fattr4Value::Fattr4Mode(0o666)]);
        let how = match (second >> 1) & 7 {
            0 => Openflag4::Open4Create(Createhow4::Unchecked4(Fattr4::of(&[Fattr4Value::Fattr4Size(0)]))),
            1 | 2 => Openflag4::Open4Create(Createhow4::Unchecked4(set())),
            3 => Openflag4::Open4Create(Createhow4::Guarded4(set())),
            4 if self.clients[who].minor > 0 => Openflag4::Open4Create(Createhow4::Exclusive41(Creatverfattr {
                cva_verf: [first; 8],
                cva_attrs: set(),
            })),
            4 => Openflag4::Open4Create(Createhow4::Exclusive4([first; 8])),
            _ => Openflag4::Default(Opentype4::Open4Nocreate),
        };
        let claim = OpenClaim4::ClaimNull(name.into());
        into.add(put(dir), Asked::Nothing);
        let seqid = self.seqid(who, 0, usize::from(whose.1), into);
        let share_access = access | self.wants(who, second);
        let asked = Open4Args { seqid, share_access, share_deny: deny, owner, openhow: how, claim };
        into.add(op(&NfsArgop4::OpOpen(asked)), Asked::Open { who: whose, access, deny });
        into.add(get_attr(FATTR4_FILEID), Asked::FileId);
    }

    /// What clients of minor version 2 may want besides: to keep times, and a delegation in place of the open (RFC 9754).
    fn wants(&self, who: usize, second: u8) -> u32 {
        match second >> 5 {
            _ if self.clients[who].minor < 2 => 0,
            0..=3 => 0,
            4 => OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS,
            5 => OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION,
            _ => OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS | OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION,
        }
    }

    /// By a claim of a life before, a delegation, or the handle.
    fn open_again(&mut self, who: usize, first: u8, second: u8, into: &mut Sending) {
        let (access, deny) = (1 + u32::from(first >> 2) % 3, u32::from(first >> 4) & 3);
        let (whose, owner) = self.owner(who, second);
        let stateid = self.stateid(second >> 3);
        let none = OpenDelegationType4::OpenDelegateNone;
        let claim = match first & 3 {
            0 => OpenClaim4::ClaimPrevious(none),
            1 => OpenClaim4::ClaimPrevious(
                [OpenDelegationType4::OpenDelegateRead, OpenDelegationType4::OpenDelegateWrite]
                    [usize::from(second & 1)],
            ),
            2 if self.clients[who].minor > 0 => OpenClaim4::ClaimDelegCurFh(stateid),
            3 if self.clients[who].minor > 0 => OpenClaim4::ClaimFh,
            _ => OpenClaim4::ClaimPrevious(none),
        };
        let openhow = Openflag4::Default(Opentype4::Open4Nocreate);
        into.add(put([FILE, ONCE][usize::from(second >> 2 & 1)]), Asked::Nothing);
        let seqid = self.seqid(who, 0, usize::from(whose.1), into);
        let asked = Open4Args { seqid, share_access: access, share_deny: deny, owner, openhow, claim };
        into.add(op(&NfsArgop4::OpOpen(asked)), Asked::Open { who: whose, access, deny });
        into.add(get_attr(FATTR4_FILEID), Asked::FileId);
    }

    fn range(first: u8, writes: bool) -> Range {
        let start = u64::from(first >> 4) & 7;
        let end = if first & 0x80 != 0 { u64::MAX } else { start + u64::from(first & 3) };
        Range { start, end, writes }
    }

    fn length(range: Range) -> u64 {
        if range.end == u64::MAX { u64::MAX } else { range.end - range.start + 1 }
    }

    fn kind(first: u8) -> (NfsLockType4, bool) {
        use NfsLockType4 as T;
        [(T::ReadLt, false), (T::WriteLt, true), (T::ReadwLt, false), (T::WritewLt, true)][usize::from(first >> 2) & 3]
    }

    /// The file of a stateid becomes the current one, or another one does.
    fn lead_to(&self, stateid: &Stateid4, second: u8, into: &mut Sending) {
        let known = self.ledger.file_of(&stateid.other);
        let file = known.filter(|_| second >> 5 != 6).unwrap_or([FILE, ONCE][usize::from(second & 1)]);
        into.add(put(file), Asked::Nothing);
    }

    fn lock(&mut self, who: usize, first: u8, second: u8, into: &mut Sending) {
        let choice = self.input.u8();
        let stateid = self.stateid(choice);
        let (locktype, writes) = Self::kind(first);
        let range = Self::range(first, writes);
        self.lead_to(&stateid, second, into);
        let file = self.ledger.file_of(&stateid.other);
        let (whose, lock_owner) = self.owner(who, second);
        let (locker, who, below) = match second & 2 {
            0 => {
                let lock_seqid = self.seqid(who, 1, usize::from(whose.1), into);
                let (open_seqid, open_stateid) = (self.seqid_of(who, 0, &stateid, into), stateid.clone());
                let locker = OpenToLockOwner4 { open_seqid, open_stateid, lock_seqid, lock_owner };
                (Locker4::True(locker), Some(whose), Some(stateid.other))
            }
            _ => {
                let lock_seqid = self.seqid_of(who, 1, &stateid, into);
                let whose = self.ledger.locker_of(&stateid.other);
                (Locker4::False(ExistLockOwner4 { lock_stateid: stateid, lock_seqid }), whose, None)
            }
        };
        let (offset, length, reclaim) = (range.start, Self::length(range), second >> 5 == 5);
        let asked = NfsArgop4::OpLock(Lock4Args { locktype, reclaim, offset, length, locker });
        into.add(op(&asked), Asked::Lock { who, file, range, below });
    }

    fn test_lock(&mut self, who: usize, first: u8, second: u8, into: &mut Sending) {
        let (locktype, writes) = Self::kind(first);
        let range = Self::range(first, writes);
        let file = [FILE, ONCE][usize::from(second >> 1) & 1];
        let (who, owner) = self.owner(who, second);
        into.add(put(file), Asked::Nothing);
        let asked = Lockt4Args { locktype, offset: range.start, length: Self::length(range), owner };
        into.add(op(&NfsArgop4::OpLockt(asked)), Asked::LockT { who, file, range });
    }

    fn by_stateid(&mut self, who: usize, kind: u8, first: u8, second: u8, into: &mut Sending) {
        let stateid = self.stateid(first);
        let other = stateid.other;
        let minor = self.clients[who].minor;
        if !matches!(kind, 16..=18) {
            self.lead_to(&stateid, second, into);
        }
        let (asked, about) = match kind {
            9 => {
                let seqid = self.seqid_of(who, 0, &stateid, into);
                (NfsArgop4::OpClose(Close4Args { seqid, open_stateid: stateid }), Asked::Close(other))
            }
            10 => {
                let (share_access, share_deny) = (1 + u32::from(second) % 3, u32::from(second >> 2) & 3);
                let seqid = self.seqid_of(who, 0, &stateid, into);
                let asked = OpenDowngrade4Args { open_stateid: stateid, seqid, share_access, share_deny };
                (NfsArgop4::OpOpenDowngrade(asked), Asked::Downgrade(other, share_access, share_deny))
            }
            11 => {
                let range = Self::range(second, true);
                let (offset, length, seqid) = (range.start, Self::length(range), self.seqid_of(who, 1, &stateid, into));
                let locktype = NfsLockType4::WriteLt;
                let asked = Locku4Args { locktype, seqid, lock_stateid: stateid, offset, length };
                (NfsArgop4::OpLocku(asked), Asked::Unlock(other, range))
            }
            12 if minor > 0 => {
                (NfsArgop4::OpDelegreturn(Delegreturn4Args { deleg_stateid: stateid }), Asked::GiveBack(other))
            }
            12 => {
                let seqid = self.seqid_of(who, 0, &stateid, into);
                (NfsArgop4::OpOpenConfirm(OpenConfirm4Args { open_stateid: stateid, seqid }), Asked::Confirm(other))
            }
            13 => (NfsArgop4::OpRead(Read4Args { stateid, offset: 0, count: 100 }), Asked::Nothing),
            14 => {
                let (offset, stable, data) = (0, StableHow4::FileSync4, b"data".into());
                (NfsArgop4::OpWrite(Write4Args { stateid, offset, stable, data }), Asked::Nothing)
            }
            15 => {
                let time = || Nfstime4 { seconds: i64::from(second), nseconds: 0 };
                let obj_attributes = match second >> 6 {
                    3 if minor == 2 => Fattr4::of(&[
                        Fattr4Value::Fattr4TimeDelegAccess(time()),
                        Fattr4Value::Fattr4TimeDelegModify(time()),
                    ]),
                    _ => Fattr4::of(&[Fattr4Value::Fattr4Size(u64::from(second))]),
                };
                (NfsArgop4::OpSetattr(Setattr4Args { stateid, obj_attributes }), Asked::Nothing)
            }
            16 => {
                let (dir, name) = FILES[usize::from(second) % 4];
                into.add(put(dir), Asked::Nothing);
                (NfsArgop4::OpRemove(Remove4Args { target: name.into() }), Asked::Nothing)
            }
            17 => {
                let [(from, oldname), (to, newname)] = [first, second].map(|choice| FILES[usize::from(choice) % 4]);
                into.add(put(from), Asked::Nothing);
                into.add(op(&NfsArgop4::OpSavefh), Asked::Nothing);
                into.add(put(to), Asked::Nothing);
                let (oldname, newname) = (oldname.into(), newname.into());
                (NfsArgop4::OpRename(Rename4Args { oldname, newname }), Asked::Nothing)
            }
            18 if minor > 0 => {
                (NfsArgop4::OpTestStateid(TestStateid4Args { ts_stateids: vec![stateid].into() }), Asked::Nothing)
            }
            18 => (NfsArgop4::OpRenew(Renew4Args { clientid: client_id(&self.clients[who]) }), Asked::Renew),
            19 if minor > 0 => {
                (NfsArgop4::OpFreeStateid(FreeStateid4Args { fsa_stateid: stateid }), Asked::GiveBack(other))
            }
            19 => {
                let (_, lock_owner) = self.owner(who, second);
                (NfsArgop4::OpReleaseLockowner(ReleaseLockowner4Args { lock_owner }), Asked::Nothing)
            }
            20 if minor == 2 => self.of_2(stateid, second, into),
            20 => {
                into.add(op(&NfsArgop4::OpSavefh), Asked::Nothing);
                into.add(put(TANK_ROOT), Asked::Nothing);
                (NfsArgop4::OpLink(Link4Args { newname: b"other".into() }), Asked::Nothing)
            }
            _ => return into.add(get_attr(FATTR4_SIZE), Asked::Nothing),
        };
        into.add(op(&asked), about);
    }

    fn of_2(&mut self, stateid: Stateid4, second: u8, into: &mut Sending) -> (NfsArgop4, Asked) {
        let asked = match second % 3 {
            0 if second >= 128 => {
                NfsArgop4::OpAllocate(Allocate4Args { aa_stateid: stateid, aa_offset: 2, aa_length: 4 })
            }
            0 => NfsArgop4::OpDeallocate(Deallocate4Args { da_stateid: stateid, da_offset: 1, da_length: 4 }),
            1 => NfsArgop4::OpSeek(Seek4Args {
                sa_stateid: stateid,
                sa_offset: 0,
                sa_what: DataContent4::Nfs4ContentHole,
            }),
            _ => {
                into.add(op(&NfsArgop4::OpSavefh), Asked::Nothing);
                NfsArgop4::OpCopy(Copy4Args {
                    ca_src_stateid: stateid.clone(),
                    ca_dst_stateid: stateid,
                    ca_src_offset: 0,
                    ca_dst_offset: 8,
                    ca_count: 4,
                    ca_consecutive: true,
                    ca_synchronous: true,
                    ca_source_server: Vec::new().into(),
                })
            }
        };
        (asked, Asked::Nothing)
    }
}

pub(super) fn client_id(client: &Client) -> u64 {
    client.session.map_or(client.id, |(_, id)| id)
}
