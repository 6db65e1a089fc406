//! Requests: from bytes to what the kernel asks.

use rustix::io::Errno;
use zerocopy::FromBytes;

use super::raw::{
    AllocateIn, CreateIn, FSyncIn, FlushIn, GetXattrIn, InHeader, InitIn, InitMore, InterruptIn, LinkIn, LkIn, MkDirIn,
    MkNodIn, OpenIn, ReadIn, ReleaseIn, Rename2In, RenameIn, SeekIn, SetAttrIn, SetXattrIn, WriteIn,
};

/// Who asks, of which node, and under which number he is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Names the request until it is answered.
    pub unique: u64,
    /// What it is about.
    pub node: u64,
    /// The user for whom the file system is asked.
    pub uid: u32,
    /// And the group.
    pub gid: u32,
    /// The thread that waits for the answer, by its number where the mount was made; 0: there is none, or it is in no sight of that.
    pub pid: u32,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Its head.
    pub header: Header,
    /// What is asked.
    pub op: Op<'a>,
}

/// What is asked. Names are without their NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the kernel's.
pub enum Op<'a> {
    Init {
        asked: InitIn,
        /// Bits behind those; none, of a kernel that has none.
        flags2: u32,
    },
    Destroy,
    /// FORGET and BATCH_FORGET: nothing is remembered of nodes, and nobody answers.
    Forget,
    Interrupt {
        unique: u64,
    },
    Lookup {
        name: &'a [u8],
    },
    GetAttr,
    SetAttr(SetAttrIn),
    ReadLink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MkNod {
        name: &'a [u8],
        mode: u32,
        rdev: u32,
    },
    MkDir {
        name: &'a [u8],
        mode: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    RmDir {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        new_dir: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    Link {
        node: u64,
        name: &'a [u8],
    },
    Open {
        flags: u32,
        open_flags: u32,
    },
    Create {
        name: &'a [u8],
        mode: u32,
        flags: u32,
    },
    Read {
        fh: u64,
        offset: u64,
        size: u32,
    },
    Write {
        fh: u64,
        offset: u64,
        write_flags: u32,
        flags: u32,
        data: &'a [u8],
    },
    Flush {
        fh: u64,
        lock_owner: u64,
    },
    GetLk(LkIn),
    SetLk {
        asked: LkIn,
        waits: bool,
    },
    Release {
        fh: u64,
    },
    FSync {
        fh: u64,
    },
    Allocate {
        fh: u64,
        offset: u64,
        length: u64,
        mode: u32,
    },
    Seek {
        fh: u64,
        offset: u64,
        whence: u32,
    },
    StatFs,
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    GetXattr {
        name: &'a [u8],
        size: u32,
    },
    ListXattr {
        size: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    OpenDir,
    ReadDir {
        offset: u64,
        size: u32,
        plus: bool,
    },
    ReleaseDir,
    FSyncDir,
    /// One that this does not know, or does not do.
    Unknown {
        opcode: u32,
    },
}

/// The head of a message, if it has one.
pub fn header(message: &[u8]) -> Result<Header, Errno> {
    split(message).map(|(head, _)| of(&head))
}

fn of(head: &InHeader) -> Header {
    Header { unique: head.unique, node: head.node, uid: head.uid, gid: head.gid, pid: head.pid }
}

/// The head, and what is behind it but for extensions, which nobody here asks for.
fn split(message: &[u8]) -> Result<(InHeader, &[u8]), Errno> {
    let (head, body) = InHeader::read_from_prefix(message).map_err(|_| Errno::INVAL)?;
    if head.len as usize != message.len() {
        return Err(Errno::INVAL);
    }
    let extension_bytes = usize::from(head.extension_words) * 8;
    let end = body.len().checked_sub(extension_bytes).ok_or(Errno::INVAL)?;
    Ok((head, body.get(..end).ok_or(Errno::INVAL)?))
}

/// What a message asks.
pub fn decode(message: &[u8]) -> Result<Request<'_>, Errno> {
    let (head, body) = split(message)?;
    let mut body = Body(body);
    let op = match head.opcode {
        1 => Op::Lookup { name: body.name()? },
        2 | 42 => Op::Forget,
        3 => Op::GetAttr,
        4 => Op::SetAttr(body.fixed()?),
        5 => Op::ReadLink,
        6 => Op::Symlink { name: body.name()?, target: body.name()? },
        8 => {
            let MkNodIn { mode, rdev, .. } = body.fixed()?;
            Op::MkNod { name: body.name()?, mode, rdev }
        }
        9 => {
            let MkDirIn { mode, .. } = body.fixed()?;
            Op::MkDir { name: body.name()?, mode }
        }
        10 => Op::Unlink { name: body.name()? },
        11 => Op::RmDir { name: body.name()? },
        12 => {
            let RenameIn { new_dir } = body.fixed()?;
            Op::Rename { name: body.name()?, new_dir, new_name: body.name()?, flags: 0 }
        }
        13 => {
            let LinkIn { node } = body.fixed()?;
            Op::Link { node, name: body.name()? }
        }
        14 => {
            let OpenIn { flags, open_flags } = body.fixed()?;
            Op::Open { flags, open_flags }
        }
        15 => {
            let ReadIn { fh, offset, size, .. } = body.fixed()?;
            Op::Read { fh, offset, size }
        }
        16 => {
            let WriteIn { fh, offset, size, write_flags, flags, .. } = body.fixed()?;
            Op::Write { fh, offset, write_flags, flags, data: body.bytes(size)? }
        }
        17 => Op::StatFs,
        18 => {
            let ReleaseIn { fh, .. } = body.fixed()?;
            Op::Release { fh }
        }
        20 => {
            let FSyncIn { fh, .. } = body.fixed()?;
            Op::FSync { fh }
        }
        21 => {
            let SetXattrIn { size, flags } = body.fixed()?;
            Op::SetXattr { name: body.name()?, value: body.bytes(size)?, flags }
        }
        22 => {
            let GetXattrIn { size, .. } = body.fixed()?;
            Op::GetXattr { name: body.name()?, size }
        }
        23 => {
            let GetXattrIn { size, .. } = body.fixed()?;
            Op::ListXattr { size }
        }
        24 => Op::RemoveXattr { name: body.name()? },
        25 => {
            let FlushIn { fh, lock_owner, .. } = body.fixed()?;
            Op::Flush { fh, lock_owner }
        }
        26 => Op::Init { asked: body.fixed()?, flags2: body.fixed().map_or(0, |InitMore { flags2, .. }| flags2) },
        27 => Op::OpenDir,
        28 | 44 => {
            let ReadIn { offset, size, .. } = body.fixed()?;
            Op::ReadDir { offset, size, plus: head.opcode == 44 }
        }
        29 => Op::ReleaseDir,
        30 => Op::FSyncDir,
        31 => Op::GetLk(body.fixed()?),
        32 | 33 => Op::SetLk { asked: body.fixed()?, waits: head.opcode == 33 },
        35 => {
            let CreateIn { flags, mode, .. } = body.fixed()?;
            Op::Create { name: body.name()?, mode, flags }
        }
        36 => {
            let InterruptIn { unique } = body.fixed()?;
            Op::Interrupt { unique }
        }
        38 => Op::Destroy,
        43 => {
            let AllocateIn { fh, offset, length, mode, .. } = body.fixed()?;
            Op::Allocate { fh, offset, length, mode }
        }
        45 => {
            let Rename2In { new_dir, flags, .. } = body.fixed()?;
            Op::Rename { name: body.name()?, new_dir, new_name: body.name()?, flags }
        }
        46 => {
            let SeekIn { fh, offset, whence, .. } = body.fixed()?;
            Op::Seek { fh, offset, whence }
        }
        opcode => Op::Unknown { opcode },
    };
    Ok(Request { header: of(&head), op })
}

/// What is left to be read of a message.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn fixed<T: FromBytes>(&mut self) -> Result<T, Errno> {
        let (value, rest) = T::read_from_prefix(self.0).map_err(|_| Errno::INVAL)?;
        self.0 = rest;
        Ok(value)
    }

    /// Up to the next NUL, which has to be there.
    fn name(&mut self) -> Result<&'a [u8], Errno> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Errno::INVAL)?;
        let (name, rest) = self.0.split_at_checked(end).ok_or(Errno::INVAL)?;
        self.0 = rest.get(1..).ok_or(Errno::INVAL)?;
        Ok(name)
    }

    fn bytes(&mut self, count: u32) -> Result<&'a [u8], Errno> {
        let (bytes, rest) = self.0.split_at_checked(count as usize).ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(bytes)
    }
}
