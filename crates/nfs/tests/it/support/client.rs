//! A blocking client: it builds calls word by word, and reads replies the same way.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use tally_base::{Rng, SystemRng};
use tally_nfs::v3::Procedure;
use tally_nfs::xdr::{Decoder, Encoder};

pub const NFS: (u32, u32) = (100_003, 3);
pub const MOUNT: (u32, u32) = (100_005, 3);

pub struct Client {
    pub stream: TcpStream,
    next_xid: u32,
    pub uid: u32,
    pub gids: Vec<u32>,
}

/// A reply to an accepted call that was carried out: its status and what follows.
pub struct Answer {
    pub status: u32,
    bytes: Bytes,
    at: usize,
}

/// What a reply says instead of a status where it says AUTH_TOOWEAK (RFC 5531).
pub const TOOWEAK: u32 = u32::MAX;

pub type Handle = Vec<u8>;

/// `fattr3`, as far as tests ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    pub kind: u32,
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub fsid: u64,
    pub id: u64,
    pub atime: (u32, u32),
    pub mtime: (u32, u32),
    pub ctime: (u32, u32),
}

impl Answer {
    /// A reply to a call that was carried out, or was refused as [`TOOWEAK`], without its mark; and its xid.
    pub fn parse(bytes: Bytes) -> (u32, Self) {
        let mut words = Decoder::new(&bytes, 0);
        let mut word = || words.u32().unwrap();
        let xid = word();
        let mut header = [word(), word(), word(), word(), 0];
        if header == [1, 1, 1, 5, 0] {
            return (xid, Self { status: TOOWEAK, at: bytes.len(), bytes });
        }
        header[4] = word();
        assert_eq!(header, [1, 0, 0, 0, 0], "accepted and carried out");
        let mut answer = Self { status: 0, bytes, at: 24 };
        if answer.bytes.len() > 24 {
            answer.status = answer.u32();
        }
        (xid, answer)
    }

    pub fn u32(&mut self) -> u32 {
        self.read(|words| words.u32().unwrap())
    }

    pub fn u64(&mut self) -> u64 {
        self.read(|words| words.u64().unwrap())
    }

    pub fn bool(&mut self) -> bool {
        self.read(|words| words.bool().unwrap())
    }

    pub fn opaque(&mut self) -> Vec<u8> {
        self.read(|words| words.opaque(1 << 24).unwrap().to_vec())
    }

    pub fn attr(&mut self) -> Attr {
        let time = |words: &mut Decoder<'_>| (words.u32().unwrap(), words.u32().unwrap());
        self.read(|words| {
            let mut word = || words.u32().unwrap();
            let (kind, mode, nlink, uid, gid) = (word(), word(), word(), word(), word());
            let size = words.u64().unwrap();
            words.u64().unwrap();
            words.u64().unwrap();
            let (fsid, id) = (words.u64().unwrap(), words.u64().unwrap());
            let (atime, mtime, ctime) = (time(words), time(words), time(words));
            Attr { kind, mode, nlink, uid, gid, size, fsid, id, atime, mtime, ctime }
        })
    }

    pub fn post_attr(&mut self) -> Option<Attr> {
        self.bool().then(|| self.attr())
    }

    pub fn post_handle(&mut self) -> Option<Handle> {
        self.bool().then(|| self.opaque())
    }

    /// Whether there were attributes from before, and those after.
    pub fn wcc(&mut self) -> (bool, Option<Attr>) {
        let before = self.bool();
        if before {
            (0..3).for_each(|_| {
                self.u64();
            });
        }
        (before, self.post_attr())
    }

    /// All that stands behind the header, the status included.
    pub fn body(&self) -> &[u8] {
        &self.bytes[24..]
    }

    /// Nothing may follow.
    pub fn end(&self) {
        assert_eq!(self.at, self.bytes.len(), "bytes are left over in the reply");
    }

    fn read<T>(&mut self, read: impl FnOnce(&mut Decoder<'_>) -> T) -> T {
        let mut words = Decoder::new(&self.bytes, self.at);
        let value = read(&mut words);
        self.at = words.position();
        value
    }
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    pub fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // Random, since the server remembers xids.
        Self { stream, next_xid: u32::try_from(SystemRng.next_u64() >> 33).unwrap(), uid: 0, gids: vec![0] }
    }

    /// Another end of the same connection.
    pub fn twin(&self) -> Self {
        let stream = self.stream.try_clone().unwrap();
        Self { stream, next_xid: self.next_xid, uid: self.uid, gids: self.gids.clone() }
    }

    pub fn acting_as(mut self, uid: u32, gids: &[u32]) -> Self {
        self.uid = uid;
        self.gids = gids.to_vec();
        self
    }

    pub fn xid(&mut self) -> u32 {
        self.next_xid = self.next_xid.wrapping_add(1);
        self.next_xid
    }

    /// A call's record, without its mark.
    pub fn record(&self, xid: u32, program: (u32, u32), procedure: u32, arguments: Encoder) -> Vec<u8> {
        record(xid, (self.uid, &self.gids), program, procedure, arguments)
    }

    pub fn send_record(&mut self, record: &[u8]) {
        let mark = u32::try_from(record.len()).unwrap() | 1 << 31;
        self.stream.write_all(&[&mark.to_be_bytes(), record].concat()).unwrap();
    }

    /// The next record; `None` when the server has closed.
    pub fn receive(&mut self) -> Option<Bytes> {
        let mut record = Vec::new();
        loop {
            let mut mark = [0; 4];
            self.stream.read_exact(&mut mark).ok()?;
            let mark = u32::from_be_bytes(mark);
            let start = record.len();
            record.resize(start + (mark & 0x7fff_ffff) as usize, 0);
            self.stream.read_exact(&mut record[start..]).ok()?;
            if mark >> 31 == 1 {
                return Some(record.into());
            }
        }
    }

    /// Words of the header behind the xid, and the xid.
    pub fn receive_header(&mut self) -> Option<(u32, Vec<u32>)> {
        let record = self.receive()?;
        let mut words = Decoder::new(&record, 0);
        let xid = words.u32().unwrap();
        let rest = std::iter::from_fn(|| words.u32().ok()).collect();
        Some((xid, rest))
    }

    /// The next reply, which must be one to a call that was carried out.
    pub fn receive_answer(&mut self) -> (u32, Answer) {
        Answer::parse(self.receive().expect("the server has closed"))
    }

    pub fn send(&mut self, xid: u32, program: (u32, u32), procedure: u32, arguments: Encoder) {
        let record = self.record(xid, program, procedure, arguments);
        self.send_record(&record);
    }

    pub fn call(&mut self, procedure: Procedure, arguments: Encoder) -> Answer {
        let xid = self.xid();
        self.send(xid, NFS, procedure.number(), arguments);
        let (answered, answer) = self.receive_answer();
        assert_eq!(answered, xid);
        answer
    }

    pub fn mount_call(&mut self, procedure: u32, arguments: Encoder) -> Answer {
        let xid = self.xid();
        self.send(xid, MOUNT, procedure, arguments);
        let (answered, answer) = self.receive_answer();
        assert_eq!(answered, xid);
        answer
    }

    pub fn mount(&mut self, path: &str) -> Handle {
        let mut arguments = Encoder::new();
        arguments.opaque(path.as_bytes());
        let mut answer = self.mount_call(1, arguments);
        assert_eq!(answer.status, 0, "MNT {path}");
        answer.opaque()
    }

    pub fn getattr(&mut self, handle: &[u8]) -> (u32, Option<Attr>) {
        let mut answer = self.call(
            Procedure::GetAttr,
            words(|words| {
                words.opaque(handle);
            }),
        );
        let attr = (answer.status == 0).then(|| answer.attr());
        answer.end();
        (answer.status, attr)
    }

    pub fn lookup(&mut self, dir: &[u8], name: &[u8]) -> (u32, Option<(Handle, Attr)>) {
        let mut answer = self.call(Procedure::Lookup, dir_name(dir, name));
        let found = (answer.status == 0).then(|| (answer.opaque(), answer.post_attr().unwrap()));
        answer.post_attr();
        answer.end();
        (answer.status, found)
    }

    /// CREATE GUARDED with a mode.
    pub fn create(&mut self, dir: &[u8], name: &[u8]) -> (u32, Option<Handle>) {
        let mut arguments = dir_name(dir, name);
        arguments.u32(1).raw(&mode(0o644).into_vec());
        let mut answer = self.call(Procedure::Create, arguments);
        let handle = (answer.status == 0).then(|| {
            let handle = answer.post_handle().unwrap();
            answer.post_attr().unwrap();
            handle
        });
        answer.wcc();
        answer.end();
        (answer.status, handle)
    }

    pub fn file(&mut self, dir: &[u8], name: &[u8]) -> Handle {
        self.create(dir, name).1.expect("a fresh name")
    }

    pub fn mkdir(&mut self, dir: &[u8], name: &[u8]) -> (u32, Option<Handle>) {
        let mut arguments = dir_name(dir, name);
        arguments.raw(&mode(0o755).into_vec());
        let mut answer = self.call(Procedure::MkDir, arguments);
        (answer.status, (answer.status == 0).then(|| answer.post_handle().unwrap()))
    }

    /// WRITE; gives status, count, how stable, verifier.
    pub fn write(&mut self, file: &[u8], offset: u64, data: &[u8], stable: u32) -> (u32, Option<(u32, u32, u64)>) {
        let mut answer = self.call(Procedure::Write, write_arguments(file, offset, data, stable));
        answer.wcc();
        let written = (answer.status == 0).then(|| (answer.u32(), answer.u32(), answer.u64()));
        answer.end();
        (answer.status, written)
    }

    /// READ; gives status, data, end of file.
    pub fn read(&mut self, file: &[u8], offset: u64, count: u32) -> (u32, Option<(Vec<u8>, bool)>) {
        let mut answer = self.call(
            Procedure::Read,
            words(|words| {
                words.opaque(file).u64(offset).u32(count);
            }),
        );
        answer.post_attr();
        let data = (answer.status == 0).then(|| {
            let (count, eof, data) = (answer.u32(), answer.bool(), answer.opaque());
            assert_eq!(count as usize, data.len());
            (data, eof)
        });
        answer.end();
        (answer.status, data)
    }
}

/// The record of a call by AUTH_SYS, without its mark.
pub fn record(
    xid: u32,
    (uid, gids): (u32, &[u32]),
    (program, version): (u32, u32),
    procedure: u32,
    arguments: Encoder,
) -> Vec<u8> {
    let mut cred = Encoder::new();
    let (gid, groups) = gids.split_first().expect("a primary group");
    cred.u32(0).opaque(b"test").u32(uid).u32(*gid).u32(u32::try_from(groups.len()).unwrap());
    groups.iter().for_each(|gid| {
        cred.u32(*gid);
    });
    let mut words = Encoder::new();
    words.u32(xid).u32(0).u32(2).u32(program).u32(version).u32(procedure);
    words.u32(1).opaque(&cred.into_vec()).u64(0).raw(&arguments.into_vec());
    words.into_vec()
}

pub fn words(fill: impl FnOnce(&mut Encoder)) -> Encoder {
    let mut words = Encoder::new();
    fill(&mut words);
    words
}

pub fn dir_name(dir: &[u8], name: &[u8]) -> Encoder {
    words(|words| {
        words.opaque(dir).opaque(name);
    })
}

pub fn write_arguments(file: &[u8], offset: u64, data: &[u8], stable: u32) -> Encoder {
    words(|words| {
        words.opaque(file).u64(offset).u32(u32::try_from(data.len()).unwrap()).u32(stable).opaque(data);
    })
}

/// `sattr3` with a mode and nothing else.
pub fn mode(mode: u32) -> Encoder {
    words(|words| {
        words.bool(true).u32(mode).bool(false).bool(false).bool(false).u32(0).u32(0);
    })
}

/// `sattr3` with a size and nothing else.
pub fn size(size: u64) -> Encoder {
    words(|words| {
        words.bool(false).bool(false).bool(false).bool(true).u64(size).u32(0).u32(0);
    })
}
