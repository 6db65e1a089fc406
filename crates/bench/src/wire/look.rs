//! What a client sees that looks at everything: directories with the attributes of what is in them, and contents.

use anyhow::{Context, Result, ensure};

use super::{Connection, Handle, Procedure, Results};

/// Bytes that a reply to READDIRPLUS may take: what Linux asks for.
const LISTING_BYTES: u32 = 1 << 20;
const ATTRIBUTES_BYTES: usize = 84;

/// A directory's entry, as READDIRPLUS gives it.
pub struct Entry<'a> {
    /// Its name, as the server has it: any bytes.
    pub name: &'a [u8],
    /// Its attributes, where they came with it.
    pub status: Option<Status>,
    /// Its handle, where one came with it.
    pub handle: Option<Handle>,
}

/// Attributes, as far as anybody here looks at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// 1 file, 2 directory.
    pub kind: u32,
    /// Permission bits.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// Length in bytes.
    pub size: u64,
    /// Last change of the content: seconds and nanoseconds.
    pub mtime: (u32, u32),
}

impl Status {
    /// ```text
    /// 0 type | 4 mode | 8 links | 12 uid | 16 gid | 20 size | 28 used | 36 rdev | 44 fsid | 52 id | 60 atime | 68 mtime | 76 ctime
    /// ```
    fn parse(bytes: &[u8]) -> Result<Self> {
        let number = |at: usize| Ok::<_, anyhow::Error>(u32::from_be_bytes(bytes[at..at + 4].try_into()?));
        Ok(Self {
            kind: number(0)?,
            mode: number(4)?,
            owner: (number(12)?, number(16)?),
            size: u64::from(number(20)?) << 32 | u64::from(number(24)?),
            mtime: (number(68)?, number(72)?),
        })
    }
}

impl Connection {
    /// READDIRPLUS of a whole directory; gives the number of entries that came with attributes, those for the
    /// directory itself and its parent included.
    pub fn list(&mut self, folder: &Handle) -> Result<u64> {
        let mut entries = 0;
        self.entries(folder, |entry| {
            entries += u64::from(entry.status.is_some());
            Ok(())
        })?;
        Ok(entries)
    }

    /// READDIRPLUS of a whole directory, entry by entry.
    pub fn entries(&mut self, folder: &Handle, mut visit: impl FnMut(&Entry<'_>) -> Result<()>) -> Result<()> {
        let (mut cookie, mut verifier) = (0, 0);
        loop {
            self.call(Procedure::ReadDirPlus);
            self.opaque(&folder.0);
            self.long(cookie);
            self.long(verifier);
            self.number(LISTING_BYTES);
            self.number(LISTING_BYTES);
            let mut results = self.round_trip("READDIRPLUS", "")?;
            results.skip_attributes()?;
            verifier = results.long()?;
            let before = cookie;
            while results.number()? == 1 {
                let entry = results.entry(&mut cookie)?;
                visit(&entry)?;
            }
            if results.number().context("READDIRPLUS ends without saying whether there is more")? == 1 {
                return Ok(());
            }
            ensure!(cookie != before, "READDIRPLUS gives nothing and is not at the end");
        }
    }

    /// Takes one reply to a READ, whichever comes first.
    pub fn receive_data(&mut self) -> Result<&[u8]> {
        let mut results = self.receive()?;
        results.status("READ", "")?;
        results.skip_attributes()?;
        let (count, _end) = (results.number()? as usize, results.number()?);
        let data = results.opaque()?;
        ensure!(data.len() == count, "READ says {count} bytes and brings {}", data.len());
        Ok(data)
    }

    /// READ of at most `count` bytes.
    pub fn read(&mut self, file: &Handle, offset: u64, count: u32) -> Result<Vec<u8>> {
        self.send_read(file, offset, count)?;
        Ok(self.receive_data()?.to_vec())
    }
}

impl<'a> Results<'a> {
    fn entry(&mut self, cookie: &mut u64) -> Result<Entry<'a>> {
        let _object = self.long()?;
        let name = self.opaque()?;
        *cookie = self.long()?;
        let status = if self.number()? == 1 { Some(Status::parse(self.take(ATTRIBUTES_BYTES)?)?) } else { None };
        let handle = if self.number()? == 1 { Some(Handle(self.opaque()?.to_vec())) } else { None };
        Ok(Entry { name, status, handle })
    }
}
