//! Compounds of version 4, by the codec that is generated from the RFCs' own XDR: the server's is by hand, and so would be the tests'. What
//! XDR cannot say (a number that is no operation, arguments that end) a test says by bytes.

use std::collections::BTreeMap;

use tally_nfs::xdr::Encoder;
use tally_nfs::{v3, v4};
use tally_wire::nfs4::{
    Bitmap4, Commit4Args, Compound4Args, Compound4Res, Create4Args, Create4Res, Createtype4, Entry4,
    FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET, Fattr4, Fattr4Value, Getattr4Args, Getattr4Res, Link4Args,
    Link4Res, Lookup4Args, NfsArgop4, NfsResop4, Nfsstat4, Putfh4Args, Read4Args, Readdir4Args, Readdir4Res,
    Remove4Args, Remove4Res, Rename4Args, Rename4Res, Setattr4Args, StableHow4, Stateid4, Write4Args,
};
use tally_wire::{bitmap, decode, encode, numbers};

use super::client::{Answer, Client, words};

/// An operation with its arguments, encoded.
pub type Op = Vec<u8>;

pub fn op(arguments: &NfsArgop4) -> Op {
    encode(arguments)
}

/// A number, and no arguments.
pub fn bare(number: u32) -> Op {
    number.to_be_bytes().to_vec()
}

pub fn put_root() -> Op {
    op(&NfsArgop4::OpPutrootfh)
}

pub fn up() -> Op {
    op(&NfsArgop4::OpLookupp)
}

pub fn put(handle: &[u8]) -> Op {
    op(&NfsArgop4::OpPutfh(Putfh4Args { object: handle.into() }))
}

pub fn lookup(name: &[u8]) -> Op {
    op(&NfsArgop4::OpLookup(Lookup4Args { objname: name.into() }))
}

pub fn get_attr(numbers: &[u32]) -> Op {
    op(&NfsArgop4::OpGetattr(Getattr4Args { attr_request: bitmap(numbers) }))
}

pub fn read_dir(cookie: u64, count: u32, numbers: &[u32]) -> Op {
    let attr_request = bitmap(numbers);
    let (dircount, maxcount) = (count, count);
    op(&NfsArgop4::OpReaddir(Readdir4Args { cookie, cookieverf: [0; 8], dircount, maxcount, attr_request }))
}

pub fn read(byte: u8, offset: u64, count: u32) -> Op {
    op(&NfsArgop4::OpRead(Read4Args { stateid: stateid(byte), offset, count }))
}

/// A stateid that stands for no state, or for nothing that there is.
pub fn stateid(byte: u8) -> Stateid4 {
    Stateid4 { seqid: u32::from_be_bytes([byte; 4]), other: [byte; 12] }
}

pub fn of_mode(mode: u32) -> Fattr4 {
    Fattr4::of(&[Fattr4Value::Fattr4Mode(mode)])
}

pub fn create(kind: Createtype4, name: &[u8], attributes: Fattr4) -> Op {
    op(&NfsArgop4::OpCreate(Create4Args { objtype: kind, objname: name.into(), createattrs: attributes }))
}

/// CREATE of a directory.
pub fn make(name: &[u8]) -> Op {
    create(Createtype4::Nf4Dir, name, of_mode(0o755))
}

pub fn remove(name: &[u8]) -> Op {
    op(&NfsArgop4::OpRemove(Remove4Args { target: name.into() }))
}

pub fn rename(from: &[u8], to: &[u8]) -> Op {
    op(&NfsArgop4::OpRename(Rename4Args { oldname: from.into(), newname: to.into() }))
}

pub fn link(name: &[u8]) -> Op {
    op(&NfsArgop4::OpLink(Link4Args { newname: name.into() }))
}

pub fn set(attributes: Fattr4) -> Op {
    op(&NfsArgop4::OpSetattr(Setattr4Args { stateid: stateid(0), obj_attributes: attributes }))
}

pub fn write(byte: u8, data: &[u8]) -> Op {
    let (offset, stable) = (0, StableHow4::FileSync4);
    op(&NfsArgop4::OpWrite(Write4Args { stateid: stateid(byte), offset, stable, data: data.into() }))
}

pub fn commit() -> Op {
    op(&NfsArgop4::OpCommit(Commit4Args { offset: 0, count: 0 }))
}

pub fn save() -> Op {
    op(&NfsArgop4::OpSavefh)
}

/// The changes of directories of which results tell: before, after, and nobody came between.
pub fn changes(reply: &Compound4Res) -> Vec<(u64, u64)> {
    let infos = reply.resarray.iter().flat_map(|result| match result {
        NfsResop4::OpCreate(Create4Res::Nfs4Ok(made)) => vec![made.cinfo.clone()],
        NfsResop4::OpRemove(Remove4Res::Nfs4Ok(gone)) => vec![gone.cinfo.clone()],
        NfsResop4::OpLink(Link4Res::Nfs4Ok(made)) => vec![made.cinfo.clone()],
        NfsResop4::OpRename(Rename4Res::Nfs4Ok(moved)) => vec![moved.source_cinfo.clone(), moved.target_cinfo.clone()],
        _ => Vec::new(),
    });
    infos.filter(|info| info.atomic).map(|info| (info.before, info.after)).collect()
}

/// Which of the supported attributes can be read.
pub fn readable(supported: &Bitmap4) -> Vec<u32> {
    let write_only = [FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET];
    numbers(supported).into_iter().filter(|number| !write_only.contains(number)).collect()
}

/// The arguments of a compound of these.
pub fn arguments(minor: u32, ops: &[Op]) -> Encoder {
    let head = Compound4Args { tag: b"tag".into(), minorversion: minor, argarray: Vec::new().into() };
    let mut arguments = encode(&head);
    // The list's length, which is its last word, becomes that of these.
    arguments.truncate(arguments.len() - 4);
    arguments.extend((ops.len() as u32).to_be_bytes());
    arguments.extend(ops.concat());
    words(|words| _ = words.raw(&arguments))
}

/// The results of a compound of these. They are decoded to their end, and there is one of each operation, up to the first that is not OK.
pub fn results(answer: &Answer, ops: &[Op]) -> Compound4Res {
    let reply: Compound4Res =
        decode(answer.body()).unwrap_or_else(|error| panic!("{error:?} in the results of {ops:x?}"));
    assert_eq!(*reply.tag, *b"tag");
    check(&reply, ops);
    reply
}

impl Client {
    /// Sends a compound of these, and gives its [`results`].
    pub fn compound(&mut self, minor: u32, ops: &[Op]) -> Compound4Res {
        let xid = self.xid();
        self.send(xid, (v3::PROGRAM, v4::VERSION), 1, arguments(minor, ops));
        let (answered, answer) = self.receive_answer();
        assert_eq!(answered, xid);
        results(&answer, ops)
    }

    /// The status of a compound of minor version 0.
    pub fn status(&mut self, ops: &[Op]) -> Nfsstat4 {
        self.compound(0, ops).status
    }

    /// What the last of these gave, each of which is OK.
    pub fn last(&mut self, ops: &[Op]) -> NfsResop4 {
        let mut reply = self.compound(0, ops);
        assert_eq!(reply.status, Nfsstat4::Nfs4Ok);
        reply.resarray.0.pop().expect("a result of each")
    }

    /// The attributes that the last of these, a GETATTR, gave.
    pub fn attributes(&mut self, ops: &[Op]) -> BTreeMap<u32, Fattr4Value> {
        match self.last(ops) {
            NfsResop4::OpGetattr(Getattr4Res::Nfs4Ok(found)) => by_number(&found.obj_attributes),
            other => panic!("{other:?}"),
        }
    }

    /// The entries that the last of these, a READDIR, gave, and whether they are the last ones.
    pub fn entries(&mut self, ops: &[Op]) -> (Vec<Entry4>, bool) {
        let NfsResop4::OpReaddir(Readdir4Res::Nfs4Ok(found)) = self.last(ops) else { panic!("no listing") };
        let (mut entries, mut next) = (Vec::new(), found.reply.entries);
        while let Some(mut entry) = next {
            next = entry.nextentry.take();
            entries.push(*entry);
        }
        (entries, found.reply.eof)
    }
}

/// Each result is of the operation that was sent, the last one's status is the compound's, and those before it are OK (RFC 7530 §15.2).
fn check(reply: &Compound4Res, ops: &[Op]) {
    let count = reply.resarray.len();
    assert!(count == ops.len() || reply.status != Nfsstat4::Nfs4Ok, "{count} of {}", ops.len());
    for (at, (result, sent)) in reply.resarray.iter().zip(ops).enumerate() {
        let expected = if at + 1 == count { reply.status } else { Nfsstat4::Nfs4Ok };
        assert_eq!(status_of(result), expected, "{result:?}");
        let number = result.on() as u32;
        let is_illegal = matches!(result, NfsResop4::OpIllegal(_));
        assert!(is_illegal || sent.starts_with(&number.to_be_bytes()), "{result:?} for {sent:x?}");
    }
}

/// With which every result begins.
pub fn status_of(result: &NfsResop4) -> Nfsstat4 {
    let mut bytes = Vec::new();
    result.encode_arm(&mut bytes);
    decode(&bytes[..4]).expect("it was one before")
}

/// Attributes, none of which may be left over.
pub fn by_number(attributes: &Fattr4) -> BTreeMap<u32, Fattr4Value> {
    attributes.values().unwrap().into_iter().map(|value| (value.on(), value)).collect()
}
