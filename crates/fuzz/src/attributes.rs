//! Attributes of version 4: bitmaps and values that a client sends, of each operation that takes some.
//!
//! The codec of the RFCs' own XDR is asked beside: what it cannot decode is BADXDR here, what was set is told again as it was set, what is told can be
//! verified, NVERIFY says the opposite of VERIFY, and what was refused has changed nothing.

use tally_nfs::{v3, v4};
use tally_wire::nfs4::{
    Bitmap4, Create4Args, Createhow4, Createtype4, Creatverfattr, FATTR4_CHANGE, FATTR4_MODE, FATTR4_OWNER,
    FATTR4_OWNER_GROUP, FATTR4_RDATTR_ERROR, FATTR4_SIZE, FATTR4_TIME_ACCESS, FATTR4_TIME_MODIFY, Fattr4, Fattr4Value,
    Getattr4Args, Getattr4Res, NfsArgop4, NfsOpnum4, NfsResop4, Nfsstat4, Nfstime4, Open4Args, OpenClaim4, OpenOwner4,
    Openflag4, Putfh4Args, Readdir4Args, Settime4, Stateid4,
};
use tally_wire::{Undecodable, Xdr, bitmap, encode};

use crate::heap;
use crate::house::{DIR, FILE, House, TANK, TANK_ROOT, Visit, handle};
use crate::input::Input;
use crate::rpc::record;
use crate::told::Told;

/// As much as a compound may take, of which there are a few.
const HEAP_BYTES: usize = 4 << 20;
const HEAP_FACTOR: usize = 64;

/// Its first byte tells the minor version and the operation, the others are what a client sends as attributes.
pub(crate) fn exchange(data: &[u8]) -> bool {
    let house = House::open();
    heap::at_most(HEAP_BYTES + HEAP_FACTOR * data.len(), || {
        let mut input = Input::new(data);
        let what = input.u8();
        let visit = house.visit(700);
        let minor = u32::from(what >> 6).min(2);
        let mut asker = Asker::new(&visit, minor);
        let is_believed = asker.ask(what & 0x3f, input.rest());
        visit.leave();
        is_believed
    })
}

struct Asker<'a> {
    visit: &'a Visit,
    minor: u32,
    /// Of minor versions that have sessions, one of a single slot, and its next sequence.
    session: Option<([u8; 16], u32)>,
    client: u64,
    xid: u32,
    told: Told,
}

type Op = Vec<u8>;

fn op(asked: &NfsArgop4) -> Op {
    encode(asked)
}

fn stateid() -> Stateid4 {
    Stateid4 { seqid: 0, other: [0; 12] }
}

fn put(id: u64) -> Op {
    op(&NfsArgop4::OpPutfh(Putfh4Args { object: handle(TANK, id).into() }))
}

/// An operation's number, its arguments before the attributes, and these as they come.
fn with_attributes(number: NfsOpnum4, before: &[u8], attributes: &[u8]) -> Op {
    [&(number as u32).to_be_bytes()[..], before, attributes].concat()
}

/// A `fattr4` with nothing in it, which is what the generated encoder puts where the input's stand.
const NOTHING_BYTES: usize = 8;

impl<'a> Asker<'a> {
    fn new(visit: &'a Visit, minor: u32) -> Self {
        let mut asker = Self { visit, minor, session: None, client: 0, xid: 0, told: Told::default() };
        if minor > 0 {
            asker.enter();
        }
        asker
    }

    fn enter(&mut self) {
        let known = self.results(&[op(&tally_wire::ask::exchange_id("fuzz"))]);
        let Some(NfsResop4::OpExchangeId(tally_wire::nfs4::ExchangeId4Res::Nfs4Ok(ok))) = known.1.last() else {
            panic!("it is let in")
        };
        self.client = ok.eir_clientid;
        let asked = tally_wire::ask::create_session(ok.eir_clientid, ok.eir_sequenceid, 0);
        let made = self.results(&[op(&asked)]);
        let Some(NfsResop4::OpCreateSession(tally_wire::nfs4::CreateSession4Res::Nfs4Ok(ok))) = made.1.last() else {
            panic!("it is let in")
        };
        self.session = Some((ok.csr_sessionid, 1));
        assert_eq!(self.results(&[op(&tally_wire::ask::complete())]).0, Nfsstat4::Nfs4Ok);
    }

    /// Status and results, behind SEQUENCE where there is a session.
    fn results(&mut self, ops: &[Op]) -> (Nfsstat4, Vec<NfsResop4>) {
        self.xid += 1;
        let head = self.session.as_mut().map(|(session, next)| {
            let sequence = *next;
            *next += 1;
            op(&tally_wire::ask::sequence(tally_wire::ask::Slot { session: *session, sequence }))
        });
        let count = (ops.len() + usize::from(head.is_some())) as u32;
        let mut arguments = [0, self.minor, count].map(u32::to_be_bytes).concat();
        head.iter().chain(ops).for_each(|op| arguments.extend(op));
        let record = record(0, (self.xid, v3::PROGRAM, v4::VERSION, 1), &arguments);
        let results = self.visit.compound(record).expect("the call is by all rules");
        let reply = self.told.learn(&results);
        (reply.status, reply.resarray.0)
    }

    fn status(&mut self, ops: &[Op]) -> Nfsstat4 {
        self.results(ops).0
    }

    fn ask(&mut self, what: u8, attributes: &[u8]) -> bool {
        match what % 8 {
            0 => self.set(FILE, attributes),
            1 => self.set([DIR, TANK_ROOT][usize::from(what >> 3) % 2], attributes),
            2 => self.verify([FILE, DIR, TANK_ROOT][usize::from(what >> 3) % 3], attributes),
            3 => self.tell([FILE, DIR, TANK_ROOT][usize::from(what >> 3) % 3], attributes),
            4 => self.list(attributes),
            5 => self.make(attributes),
            _ => self.open(what >> 3, attributes),
        }
    }

    fn attributes(&mut self, of: u64, wanted: &[u32]) -> Fattr4 {
        let asked = NfsArgop4::OpGetattr(Getattr4Args { attr_request: bitmap(wanted) });
        match self.results(&[put(of), op(&asked)]).1.pop() {
            Some(NfsResop4::OpGetattr(Getattr4Res::Nfs4Ok(ok))) => ok.obj_attributes,
            other => panic!("{other:?}"),
        }
    }

    /// SETATTR.
    fn set(&mut self, of: u64, attributes: &[u8]) -> bool {
        const LOOKED_AT: [u32; 7] = [
            FATTR4_CHANGE,
            FATTR4_SIZE,
            FATTR4_MODE,
            FATTR4_OWNER,
            FATTR4_OWNER_GROUP,
            FATTR4_TIME_ACCESS,
            FATTR4_TIME_MODIFY,
        ];
        let before = self.attributes(of, &LOOKED_AT);
        let asked = with_attributes(NfsOpnum4::OpSetattr, &encode(&stateid()), attributes);
        let status = self.status(&[put(of), asked]);
        let after = self.attributes(of, &LOOKED_AT);
        let Some(sent) = sent(status, attributes) else { return false };
        if status != Nfsstat4::Nfs4Ok {
            assert_eq!(before, after, "{status:?} has changed something");
            return false;
        }
        let values = match sent.values() {
            // Which bytes stand behind an owner's name the server does not look at.
            Err(Undecodable::Padding) => return true,
            values => values.expect("what was set can be decoded"),
        };
        let told = after.values().expect("what was told can be decoded");
        let alone = values.len() == 1;
        for value in values {
            assert!(is_told(&value, &told, alone), "{value:?} was set, and this is told: {told:?}");
        }
        true
    }

    /// VERIFY and NVERIFY say the opposite of each other, or fail alike.
    fn verify(&mut self, of: u64, attributes: &[u8]) -> bool {
        let [same, other] = [NfsOpnum4::OpVerify, NfsOpnum4::OpNverify]
            .map(|number| self.status(&[put(of), with_attributes(number, &[], attributes)]));
        sent(same, attributes);
        match same {
            Nfsstat4::Nfs4Ok => assert_eq!(other, Nfsstat4::Nfs4ErrSame),
            Nfsstat4::Nfs4ErrNotSame => assert_eq!(other, Nfsstat4::Nfs4Ok),
            _ => assert_eq!(same, other),
        }
        same == Nfsstat4::Nfs4Ok
    }

    /// What GETATTR tells VERIFY takes.
    fn tell(&mut self, of: u64, map: &[u8]) -> bool {
        let asked = with_attributes(NfsOpnum4::OpGetattr, &[], map);
        let (status, mut results) = self.results(&[put(of), asked]);
        if Bitmap4::decode(&mut &*map).is_err() {
            assert_eq!(status, Nfsstat4::Nfs4ErrBadxdr);
        }
        let Some(NfsResop4::OpGetattr(Getattr4Res::Nfs4Ok(ok))) = results.pop() else { return false };
        let told = ok.obj_attributes;
        let values = told.values().expect("each attribute is of its type");
        if values.iter().any(|value| value.on() == FATTR4_RDATTR_ERROR) {
            return true;
        }
        let verify = with_attributes(NfsOpnum4::OpVerify, &[], &encode(&told));
        assert_eq!(self.status(&[put(of), verify]), Nfsstat4::Nfs4Ok, "{told:?}");
        true
    }

    /// READDIR.
    fn list(&mut self, map: &[u8]) -> bool {
        let attr_request = Vec::new().into();
        let asked = Readdir4Args { cookie: 0, cookieverf: [0; 8], dircount: 4096, maxcount: 8192, attr_request };
        let head = encode(&asked);
        let asked = with_attributes(NfsOpnum4::OpReaddir, &head[..head.len() - 4], map);
        let status = self.status(&[put(TANK_ROOT), asked]);
        if Bitmap4::decode(&mut &*map).is_err() {
            assert_eq!(status, Nfsstat4::Nfs4ErrBadxdr);
        }
        status == Nfsstat4::Nfs4Ok
    }

    /// CREATE.
    fn make(&mut self, attributes: &[u8]) -> bool {
        let createattrs = Fattr4::of(&[]);
        let asked = Create4Args { objtype: Createtype4::Nf4Dir, objname: b"made".into(), createattrs };
        let status = self.status(&[put(TANK_ROOT), of_made(&NfsArgop4::OpCreate(asked), &[], attributes)]);
        sent(status, attributes).is_some() && status == Nfsstat4::Nfs4Ok
    }

    /// OPEN that creates, in each way that takes attributes; of minor version 0 by nobody, which is told so behind its arguments.
    fn open(&mut self, how: u8, attributes: &[u8]) -> bool {
        let nothing = || Fattr4::of(&[]);
        let how = match how % 3 {
            0 => Createhow4::Unchecked4(nothing()),
            1 => Createhow4::Guarded4(nothing()),
            _ => Createhow4::Exclusive41(Creatverfattr { cva_verf: [7; 8], cva_attrs: nothing() }),
        };
        let claim = OpenClaim4::ClaimNull(b"made".into());
        let behind = encode(&claim);
        let asked = NfsArgop4::OpOpen(Open4Args {
            seqid: 0,
            share_access: 3,
            share_deny: 0,
            owner: OpenOwner4 { clientid: self.client, owner: b"o".into() },
            openhow: Openflag4::Open4Create(how),
            claim,
        });
        let status = self.status(&[put(TANK_ROOT), of_made(&asked, &behind, attributes)]);
        // What is garbage there may be decoded here, as the claim stands behind it.
        status == Nfsstat4::Nfs4Ok && sent(status, attributes).is_some()
    }
}

/// An operation that was encoded without attributes, with these before what stands behind them.
fn of_made(asked: &NfsArgop4, behind: &[u8], attributes: &[u8]) -> Op {
    let mut words = op(asked);
    words.truncate(words.len() - behind.len() - NOTHING_BYTES);
    [&words, attributes, behind].concat()
}

/// What was sent, if it is attributes by the RFCs' own XDR: of what is not, only BADXDR is right.
fn sent(status: Nfsstat4, attributes: &[u8]) -> Option<Fattr4> {
    let sent = Fattr4::decode(&mut &*attributes);
    let is_well_formed = matches!(sent, Ok(_) | Err(Undecodable::Padding));
    assert!(is_well_formed || status == Nfsstat4::Nfs4ErrBadxdr, "{status:?} for garbage");
    sent.ok()
}

/// Whether what was set is told.
fn is_told(set: &Fattr4Value, told: &[Fattr4Value], alone: bool) -> bool {
    let number = |name: &[u8]| std::str::from_utf8(name).ok()?.parse::<u32>().ok();
    told.iter().any(|told| match (set, told) {
        (Fattr4Value::Fattr4Size(set), Fattr4Value::Fattr4Size(told)) => set == told,
        // A new owner, and another size, take bits away.
        (Fattr4Value::Fattr4Mode(set), Fattr4Value::Fattr4Mode(told)) => set & 0o7777 == *told || !alone,
        (Fattr4Value::Fattr4Owner(set), Fattr4Value::Fattr4Owner(told))
        | (Fattr4Value::Fattr4OwnerGroup(set), Fattr4Value::Fattr4OwnerGroup(told)) => {
            number(set).is_some() && number(set) == number(told)
        }
        (Fattr4Value::Fattr4TimeAccessSet(Settime4::SetToClientTime4(set)), Fattr4Value::Fattr4TimeAccess(told))
        | (Fattr4Value::Fattr4TimeModifySet(Settime4::SetToClientTime4(set)), Fattr4Value::Fattr4TimeModify(told)) => {
            nearest(set) == *told
        }
        (Fattr4Value::Fattr4TimeAccessSet(_), Fattr4Value::Fattr4TimeAccess(_))
        | (Fattr4Value::Fattr4TimeModifySet(_), Fattr4Value::Fattr4TimeModify(_)) => true,
        _ => false,
    })
}

/// What is kept of a time: nanoseconds since 1970 in 64 bits, or the end of those that it lies beyond.
fn nearest(set: &Nfstime4) -> Nfstime4 {
    const SECOND: i128 = 1_000_000_000;
    let exact = i128::from(set.seconds) * SECOND + i128::from(set.nseconds);
    let kept = exact.clamp(i64::MIN.into(), i64::MAX.into());
    let (seconds, nseconds) = (kept.div_euclid(SECOND), kept.rem_euclid(SECOND));
    Nfstime4 {
        seconds: seconds.try_into().expect("they are fewer"),
        nseconds: nseconds.try_into().expect("they are fewer"),
    }
}
