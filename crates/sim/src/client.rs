//! An NFS client without a socket: calls as bytes, replies taken apart. The codec is another project's, so that a
//! mistake in ours is not made twice and never seen.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use nfs3_types::nfs3::*;
use nfs3_types::rpc::{auth_unix, call_body, msg_body, opaque_auth, rpc_msg};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack};
use smallvec::SmallVec;
use tally_nfs::link::Link;
use tally_nfs::rpc::Reply;
use tally_vfs::{Attr, Cred, FileKind};
use tally_wire::nfs4::Nfsstat4;

use crate::newer::{InSlot, Session};
use crate::same::same_attr;
use crate::words;

/// The program and its version.
const NFS: (u32, u32) = (100_003, 3);
/// Below 1024, for exports that ask for it.
const PORT: u16 = 900;

/// A machine that sends requests, over one connection at a time.
#[derive(Debug)]
pub struct Client {
    address: IpAddr,
    /// Whose requests it sends.
    who: Cred,
    link: Arc<Link>,
    next_xid: u32,
    next_link: u64,
    /// In which it says what version 3 has no word for.
    pub session: Option<Session>,
}

/// A call without its header.
#[derive(Clone, Debug)]
pub struct Call {
    /// Of NFSv3.
    pub procedure: NFS_PROGRAM,
    /// Its arguments, encoded.
    pub arguments: Vec<u8>,
}

impl Call {
    /// Encodes the arguments of a procedure.
    pub fn new(procedure: NFS_PROGRAM, arguments: &impl Pack) -> Self {
        Self { procedure, arguments: packed(arguments) }
    }
}

impl Client {
    /// The client of this number, with its first connection.
    #[must_use]
    pub fn new(number: u8, user: u32, first_xid: u32) -> Self {
        let address = IpAddr::V4(Ipv4Addr::new(127, 1, 0, number));
        let mut client = Self {
            address,
            who: Cred { uid: user, gid: user, groups: SmallVec::new(), checked: false },
            link: Arc::new(Link::new(0, SocketAddr::new(address, PORT))),
            next_xid: first_xid,
            next_link: u64::from(number) << 32,
            session: None,
        };
        client.reconnect();
        client
    }

    /// The user whose requests it sends.
    #[must_use]
    pub fn cred(&self) -> Cred {
        self.who.clone()
    }

    /// From now on it sends the requests of another user.
    pub fn act_as(&mut self, who: Cred) {
        self.who = who;
    }

    /// The connection that is open.
    #[must_use]
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Closes the connection, and opens another.
    pub fn reconnect(&mut self) {
        self.link.close();
        self.next_link += 1;
        self.link = Arc::new(Link::new(self.next_link, SocketAddr::new(self.address, PORT)));
    }

    /// Who it says that it is.
    #[must_use]
    pub fn name(&self) -> Vec<u8> {
        self.address.to_string().into_bytes()
    }

    /// A transaction id that nobody has had.
    pub fn new_xid(&mut self) -> u32 {
        self.next_xid = self.next_xid.wrapping_add(1);
        self.next_xid
    }

    /// A record of version 4.2 in a slot of its session; none if there is no session, or all slots are taken.
    pub fn newer_record(&mut self, asked: &[Vec<u8>]) -> Option<(Bytes, InSlot)> {
        let xid = self.new_xid();
        self.session.as_mut()?.record(&self.who, xid, asked)
    }

    /// A record, without its mark, under a transaction id of its own.
    pub fn record(&mut self, call: &Call) -> Bytes {
        let xid = self.new_xid();
        let machinename = Opaque::borrowed(b"sim");
        let (uid, gid, gids) = (self.who.uid, self.who.gid, self.who.groups.to_vec());
        let cred = auth_unix { machinename, uid, gid, gids, ..auth_unix::default() };
        let body = call_body {
            rpcvers: 2,
            prog: NFS.0,
            vers: NFS.1,
            proc: call.procedure as u32,
            cred: opaque_auth::auth_unix(&cred),
            verf: opaque_auth::default(),
        };
        let mut record = packed(&rpc_msg { xid, body: msg_body::CALL(body) });
        record.extend_from_slice(&call.arguments);
        record.into()
    }
}

fn packed(value: &impl Pack) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.packed_size());
    value.pack(&mut bytes).expect("a vector takes everything");
    bytes
}

/// A file handle of these bytes.
#[must_use]
pub fn handle(bytes: &[u8]) -> nfs_fh3 {
    nfs_fh3 { data: Opaque::owned(bytes.to_vec()) }
}

/// A name in a directory.
#[must_use]
pub fn name_in<'a>(dir: &[u8], name: &'a str) -> diropargs3<'a> {
    diropargs3 { dir: handle(dir), name: name.as_bytes().into() }
}

/// What a reply tells, as far as anybody asks.
#[derive(Debug)]
pub struct Told {
    /// The procedure's own status.
    pub status: nfsstat3,
    /// The handle of what was made or found.
    pub handle: Option<Vec<u8>>,
    /// The attributes of the object that the procedure is about.
    pub attr: Option<fattr3>,
    /// A WRITE's count and how stable it is.
    pub written: Option<(u32, stable_how)>,
    /// The verifier of a WRITE or COMMIT.
    pub verifier: Option<u64>,
    /// What an ACCESS grants.
    pub granted: u32,
    /// The bytes of a READ.
    pub data: Vec<u8>,
    /// Names and cookies of a READDIR.
    pub entries: Vec<(Vec<u8>, u64)>,
    /// Whether that was the end of the file or directory.
    pub eof: bool,
    /// In version 4.2: the session is over.
    pub is_over: bool,
    /// In version 4.2: the slot has refused it, and nothing was looked at.
    pub is_of_slot: bool,
}

/// The bytes of a reply, without its mark.
#[must_use]
pub fn bytes_of(reply: &Reply) -> Vec<u8> {
    let mut pieces = Vec::new();
    reply.slices(4, &mut pieces);
    pieces.iter().flat_map(|piece| piece.iter().copied()).collect()
}

/// Takes a reply apart. It must fit the procedure to its last byte.
pub fn told(procedure: NFS_PROGRAM, reply: &[u8]) -> Result<Told, String> {
    const HEADER_WORDS: [u32; 5] = [1, 0, 0, 0, 0];
    let header: Vec<u32> =
        reply.chunks(4).skip(1).take(5).map(|word| word.try_into().map_or(u32::MAX, u32::from_be_bytes)).collect();
    if header != HEADER_WORDS {
        return Err(format!("{procedure} is answered with the header {header:?}"));
    }
    let mut rest = &reply[24..];
    let told = results(procedure, &mut rest).map_err(|error| format!("the reply to {procedure}: {error}"))?;
    if rest.is_empty() { Ok(told) } else { Err(format!("the reply to {procedure} has {} bytes more", rest.len())) }
}

/// The reply to a compound of these histories, in the words of version 3: most statuses have the same numbers in both.
pub fn told_newer(reply: &[u8]) -> Result<Told, String> {
    let bytes = words::results_in(reply)?;
    let told = words::results(&bytes, &[const { Vec::new() }; 3])?;
    let status = nfsstat3::unpack(&mut &bytes[..]).map_or(nfsstat3::NFS3ERR_SERVERFAULT, |(status, _)| status);
    let is_over = matches!(told.status, Nfsstat4::Nfs4ErrBadsession | Nfsstat4::Nfs4ErrDeadsession);
    if !is_over && status == nfsstat3::NFS3ERR_SERVERFAULT {
        return Err(format!("a compound is told {:?}", told.status));
    }
    Ok(Told { is_over, is_of_slot: told.is_refused_at_sequence(), ..Told::of(status) })
}

impl Told {
    /// A status, and nothing else.
    pub(crate) fn of(status: nfsstat3) -> Self {
        Self {
            status,
            handle: None,
            attr: None,
            written: None,
            verifier: None,
            granted: 0,
            data: Vec::new(),
            entries: Vec::new(),
            eof: false,
            is_over: false,
            is_of_slot: false,
        }
    }

    fn made(mut self, object: post_op_fh3, attr: post_op_attr) -> Self {
        if let Nfs3Option::Some(handle) = object {
            self.handle = Some(handle.data.to_vec());
        }
        self.with(attr)
    }

    fn with(mut self, attr: post_op_attr) -> Self {
        if let Nfs3Option::Some(attr) = attr {
            self.attr = Some(attr);
        }
        self
    }
}

type Read<T> = nfs3_types::xdr_codec::Result<T>;

fn unpack<T: Unpack>(rest: &mut &[u8]) -> Read<T> {
    T::unpack(rest).map(|(value, _)| value)
}

/// A result: `ok` sees the success.
fn result<T: Unpack, E: Unpack>(rest: &mut &[u8], ok: impl FnOnce(Told, T) -> Told) -> Read<Told> {
    Ok(match unpack::<Nfs3Result<T, E>>(rest)? {
        Nfs3Result::Ok(value) => ok(Told::of(nfsstat3::NFS3_OK), value),
        Nfs3Result::Err((status, _)) => Told::of(status),
    })
}

fn results(procedure: NFS_PROGRAM, rest: &mut &[u8]) -> Read<Told> {
    use NFS_PROGRAM as P;
    match procedure {
        P::NFSPROC3_GETATTR => result::<GETATTR3resok, nfs3_types::xdr_codec::Void>(rest, |mut told, ok| {
            told.attr = Some(ok.obj_attributes);
            told
        }),
        P::NFSPROC3_SETATTR => result::<SETATTR3resok, SETATTR3resfail>(rest, |told, ok| told.with(ok.obj_wcc.after)),
        P::NFSPROC3_LOOKUP => result::<LOOKUP3resok, LOOKUP3resfail>(rest, |told, ok| {
            told.made(Nfs3Option::Some(ok.object), ok.obj_attributes)
        }),
        P::NFSPROC3_ACCESS => result::<ACCESS3resok, ACCESS3resfail>(rest, |mut told, ok| {
            told.granted = ok.access;
            told.with(ok.obj_attributes)
        }),
        P::NFSPROC3_READ => result::<READ3resok<'_>, READ3resfail>(rest, |mut told, ok| {
            told.data = ok.data.to_vec();
            told.eof = ok.eof;
            told.with(ok.file_attributes)
        }),
        P::NFSPROC3_WRITE => result::<WRITE3resok, WRITE3resfail>(rest, |mut told, ok| {
            told.written = Some((ok.count, ok.committed));
            told.verifier = Some(u64::from_be_bytes(ok.verf.0));
            told.with(ok.file_wcc.after)
        }),
        P::NFSPROC3_COMMIT => result::<COMMIT3resok, COMMIT3resfail>(rest, |mut told, ok| {
            told.verifier = Some(u64::from_be_bytes(ok.verf.0));
            told.with(ok.file_wcc.after)
        }),
        P::NFSPROC3_CREATE => {
            result::<CREATE3resok, CREATE3resfail>(rest, |told, ok| told.made(ok.obj, ok.obj_attributes))
        }
        P::NFSPROC3_MKDIR => {
            result::<MKDIR3resok, MKDIR3resfail>(rest, |told, ok| told.made(ok.obj, ok.obj_attributes))
        }
        P::NFSPROC3_SYMLINK => {
            result::<SYMLINK3resok, SYMLINK3resfail>(rest, |told, ok| told.made(ok.obj, ok.obj_attributes))
        }
        P::NFSPROC3_MKNOD => {
            result::<MKNOD3resok, MKNOD3resfail>(rest, |told, ok| told.made(ok.obj, ok.obj_attributes))
        }
        P::NFSPROC3_REMOVE => result::<REMOVE3resok, REMOVE3resfail>(rest, |told, _| told),
        P::NFSPROC3_RMDIR => result::<RMDIR3resok, RMDIR3resfail>(rest, |told, _| told),
        P::NFSPROC3_RENAME => result::<RENAME3resok, RENAME3resfail>(rest, |told, _| told),
        P::NFSPROC3_LINK => result::<LINK3resok, LINK3resfail>(rest, |told, ok| told.with(ok.file_attributes)),
        P::NFSPROC3_READDIR => result::<READDIR3resok<'_>, READDIR3resfail>(rest, |mut told, ok| {
            let entries = ok.reply.entries.into_inner();
            told.entries = entries.into_iter().map(|entry| (entry.name.0.to_vec(), entry.cookie)).collect();
            told.eof = ok.reply.eof;
            told
        }),
        P::NFSPROC3_READDIRPLUS => result::<READDIRPLUS3resok<'_>, READDIRPLUS3resfail>(rest, |mut told, ok| {
            let entries = ok.reply.entries.into_inner();
            told.entries = entries.into_iter().map(|entry| (entry.name.0.to_vec(), entry.cookie)).collect();
            told.eof = ok.reply.eof;
            told
        }),
        other => panic!("no history asks {other}"),
    }
}

/// Compares what a reply says of an object with what the model says.
pub fn same_fattr(found: &fattr3, expected: &Attr) -> Result<(), String> {
    let kind = match found.type_ {
        ftype3::NF3REG => FileKind::File,
        ftype3::NF3DIR => FileKind::Directory,
        ftype3::NF3BLK => FileKind::BlockDevice,
        ftype3::NF3CHR => FileKind::CharDevice,
        ftype3::NF3LNK => FileKind::Symlink,
        ftype3::NF3SOCK => FileKind::Socket,
        ftype3::NF3FIFO => FileKind::Fifo,
    };
    let told = Attr {
        kind,
        mode: found.mode,
        nlink: found.nlink,
        uid: found.uid,
        gid: found.gid,
        size: found.size,
        rdev: (found.rdev.specdata1, found.rdev.specdata2),
        ..expected.clone()
    };
    same_attr(&told, expected)
}
