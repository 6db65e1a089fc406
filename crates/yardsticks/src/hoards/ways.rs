//! What hoarders ask for.

use anyhow::{Context, Result, bail};
use tally_bench::wire::{Connection, Handle, Target};
use tally_wire::ask::{self, How};
use tally_wire::nfs4::{
    ClientOwner4, Close4Args, ExchangeId4Args, Lock4Args, Locker4, NfsArgop4, NfsLockType4, NfsResop4, Nfsstat4,
    Open4Args, Open4Res, OpenClaim4, OpenOwner4, OpenToLockOwner4, Openflag4, Opentype4, StateProtect4A, Stateid4,
};
use tally_wire::{decode, encode};

use crate::session::{Session, arguments, handle, put, status};

/// Longest name of an owner, and of a client.
const OWNER_BYTES: usize = 1024;
/// In the longest compound.
const OPERATIONS: usize = 10_000;
/// The file that all of them open.
const FILE: &str = "hoarded";

/// Of what the compound has opened.
const CLOSE: NfsArgop4 =
    NfsArgop4::OpClose(Close4Args { seqid: 0, open_stateid: Stateid4 { seqid: 1, other: [0; 12] } });

/// One way.
pub(super) struct Way {
    pub(super) name: &'static str,
    /// It asks for so many times less, as each of its requests is as long as others.
    pub(super) fewer: u64,
    /// Its requests take memory without what is asked for: as much as those of this one.
    pub(super) beside: Option<&'static Way>,
    /// Whether whoever asks for more than there is has to be told so; else somebody else's place is taken, who is not there yet.
    pub(super) is_refused: bool,
    /// The nth request, and what it is told.
    pub(super) ask: fn(&mut Hoarder<'_>, u64) -> Result<u32>,
}

/// Nothing that is kept.
pub(super) const HARMLESS: Way = Way {
    name: "harmless",
    fewer: 1,
    beside: None,
    is_refused: false,
    ask: |hoarder, _| hoarder.asks(&[NfsArgop4::OpPutrootfh]),
};

/// As many files as one address may have open, none of which stays so: what they take by themselves.
pub(super) const MADE: Way = Way {
    name: "closed files",
    fewer: 15,
    beside: None,
    is_refused: false,
    ask: |hoarder, number| hoarder.opens(&format!("f{number}"), b"o", true, &[CLOSE]),
};

/// All of them.
pub(super) const WAYS: [Way; 7] = [
    Way {
        name: "introductions",
        fewer: 1,
        beside: None,
        is_refused: false,
        ask: |hoarder, number| hoarder.introduces(number),
    },
    Way {
        name: "owners of opens",
        fewer: 1,
        beside: None,
        is_refused: true,
        ask: |hoarder, number| hoarder.opens(FILE, &long_name(number), false, &[]),
    },
    Way {
        name: "opened files",
        fewer: 1,
        beside: Some(&MADE),
        is_refused: true,
        ask: |hoarder, number| hoarder.opens(&format!("f{number}"), b"o", true, &[]),
    },
    Way {
        name: "one-byte locks",
        fewer: 1,
        beside: None,
        is_refused: true,
        ask: |hoarder, number| hoarder.locks(2 * number, b"l"),
    },
    Way {
        name: "owners of locks",
        fewer: 1,
        beside: None,
        is_refused: true,
        ask: |hoarder, number| hoarder.locks(2 * number, &long_name(number)),
    },
    Way { name: "long compounds", fewer: 100, beside: None, is_refused: true, ask: |hoarder, _| hoarder.asks_long() },
    Way {
        name: "long compounds outside",
        fewer: 100,
        beside: None,
        is_refused: true,
        ask: |hoarder, _| hoarder.asks_long_outside(),
    },
];

/// What they have together: one client, and a file.
pub(super) struct Shared {
    root: Handle,
    file: Handle,
}

impl Shared {
    pub(super) fn new(target: &Target) -> Result<Self> {
        let mut session = Session::open(target.nfs)?;
        let root = session.mount(&target.export)?;
        let file = handle(session.run(&[put(&root), ask::open(How::Make, FILE), NfsArgop4::OpGetfh])?)?;
        Ok(Self { root, file })
    }
}

/// One of them: a connection, and a session over another one.
pub(super) struct Hoarder<'a> {
    connection: Connection,
    session: Session,
    shared: &'a Shared,
    open: Stateid4,
}

impl<'a> Hoarder<'a> {
    pub(super) fn new(connection: Connection, shared: &'a Shared) -> Result<Self> {
        let mut session = Session::over(connection.beside(super::HOARDERS)?)?;
        let told = session.run(&[put(&shared.root), ask::open(How::Find, FILE)])?;
        let Some(NfsResop4::OpOpen(Open4Res::Nfs4Ok(opened))) = told.last() else { bail!("{told:?}") };
        let open = opened.stateid.clone();
        Ok(Self { connection, session, shared, open })
    }

    /// In its session.
    fn asks(&mut self, ops: &[NfsArgop4]) -> Result<u32> {
        let mut request = self.session.request(ops);
        status(self.session.ask_for_any(&mut request)?).context("an answer without a status")
    }

    /// EXCHANGE_ID, each time as somebody else.
    fn introduces(&mut self, number: u64) -> Result<u32> {
        let asked = NfsArgop4::OpExchangeId(ExchangeId4Args {
            eia_clientowner: ClientOwner4 { co_verifier: [1; 8], co_ownerid: long_name(number).into() },
            eia_flags: 0,
            eia_state_protect: StateProtect4A::Sp4None,
            eia_client_impl_id: Vec::new().into(),
        });
        status(self.connection.compound(&arguments(vec![asked]))?).context("an answer without a status")
    }

    fn opens(&mut self, name: &str, owner: &[u8], makes: bool, then: &[NfsArgop4]) -> Result<u32> {
        let claim = OpenClaim4::ClaimNull(name.into());
        let openhow = match makes {
            true => match ask::open(How::Make, name) {
                NfsArgop4::OpOpen(open) => open.openhow,
                other => bail!("{other:?}"),
            },
            false => Openflag4::Default(Opentype4::Open4Nocreate),
        };
        let owner = OpenOwner4 { clientid: 0, owner: owner.into() };
        let asked = Open4Args { seqid: 0, share_access: ask::BOTH, share_deny: 0, owner, openhow, claim };
        self.asks(&[&[put(&self.shared.root), NfsArgop4::OpOpen(asked)], then].concat())
    }

    fn locks(&mut self, offset: u64, owner: &[u8]) -> Result<u32> {
        let lock_owner = OpenOwner4 { clientid: 0, owner: owner.into() };
        let open_stateid = self.open.clone();
        let locker = Locker4::True(OpenToLockOwner4 { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner });
        let asked = Lock4Args { locktype: NfsLockType4::WriteLt, reclaim: false, offset, length: 1, locker };
        self.asks(&[put(&self.shared.file), NfsArgop4::OpLock(asked)])
    }

    fn asks_long(&mut self) -> Result<u32> {
        self.asks(&vec![NfsArgop4::OpPutrootfh; OPERATIONS])
    }

    /// Of minor version 0.
    fn asks_long_outside(&mut self) -> Result<u32> {
        let mut words = arguments(vec![NfsArgop4::OpPutrootfh; OPERATIONS]);
        words[4..8].copy_from_slice(&[0; 4]);
        status(self.connection.compound(&words)?).context("a compound has no answer")
    }
}

/// As long as an owner's name may be, and each another one.
fn long_name(number: u64) -> Vec<u8> {
    let mut name = vec![b'x'; OWNER_BYTES];
    name[..8].copy_from_slice(&number.to_be_bytes());
    name
}

/// A status, by the RFC's name.
pub(super) fn named(status: u32) -> String {
    decode::<Nfsstat4>(&encode(&status)).map_or_else(|_| status.to_string(), |status| format!("{status:?}"))
}
