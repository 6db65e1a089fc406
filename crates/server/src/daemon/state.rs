//! `pools.toml` in the data directory: which pools to import at the next start.
//!
//! A pool is written here once it is imported, and taken out when it is exported, destroyed or forgotten by command; the
//! end of the daemon leaves it in. Its handle key is kept too: with it, a handle of a pool that could not be imported
//! today is known to be ours, and its client is told to wait instead of being told that its files are gone. The
//! file is as secret as the pool's own disks, and has mode 0600.
//!
//! ```text
//!   # Tallystick's list of pools, format 1.      only a list with head and end is one: a file that is empty or cut
//!   port = ...                                   must not be taken for the word that there are no pools
//!   [[pool]] ...
//!   [[moved]] ...                                tables of the configuration that follow a renamed dataset
//!   [[accepted]] ...                             pools whose mountpoints and shares hold on this machine, exported ones included
//!   # End of the list.
//! ```
//!
//! Head and end are comments, which daemons from before the format was written overlook. What an older daemon may
//! overlook is added without raising the format; what changes the meaning raises it, and is refused by older ones
//! (docs/design/0032).
//!
//! What could not be written is true all the same, and is tried again ([`State::write_again`]); until then this knows how
//! the file and the truth differ.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tally_base::PoolGuid;

use crate::config::Moved;

/// The file's name in the data directory.
pub const STATE_NAME: &str = "pools.toml";

/// Of the newest list that is understood.
const FORMAT: u32 = 1;
/// How a list begins, up to its format.
const HEAD: &str = "# Tallystick's list of pools, format ";
/// What stands behind that.
const EXPLANATION: &str = "\
# The pools that `tally serve` imports when it starts, and the port that it had. Written by the daemon; use
# `tally pool import`, `export` and `forget` to change it. The keys are secret: with one, anybody can make file
# handles.
";
/// How a list ends.
const END: &str = "# End of the list.\n";
/// How lists began before they had a format. They have no end either.
const HEAD_BEFORE: &str = "# The pools that `tally serve` imports when it starts, and the port that it had.";

/// Why the list of pools cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file cannot be read or written.
    #[error("the list of pools {}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// It does not say what it should.
    #[error(
        "the list of pools {} cannot be understood: {message}\nMove it away, and name the disks with \
         `tally serve --pool PATH`.",
        path.display()
    )]
    Garbled {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// It is from the future.
    #[error(
        "the list of pools {} was written by a newer tally, in format {format}; this one understands up to {FORMAT}.\n\
         Start the newer one, or move the list away and name the disks with `tally serve --pool PATH`.",
        path.display()
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
}

/// A pool to import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPool {
    /// Its name, for people.
    pub name: String,
    /// Its guid.
    #[serde(with = "guid_text")]
    pub guid: PoolGuid,
    /// Where its disks were.
    pub paths: Vec<PathBuf>,
    /// Whether it was imported without permission to write.
    #[serde(default)]
    pub read_only: bool,
    /// Authenticates its file handles.
    #[serde(with = "key_text")]
    pub handle_key: [u8; 32],
}

/// A pool whose mountpoints and shares hold on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Its guid, which everybody may know.
    #[serde(with = "guid_text")]
    pub guid: PoolGuid,
    /// And its key, which only who has read its disks knows.
    #[serde(with = "key_text")]
    pub handle_key: [u8; 32],
    /// Which machine its labels named since: one that another machine has had meanwhile says what that one has written. Nothing where a list of before knew the pool.
    #[serde(default, with = "host_text", skip_serializing_if = "Option::is_none")]
    pub host: Option<u64>,
}

/// Most of them: whoever has more accepts the oldest anew.
pub const ACCEPTED_MAX: usize = 1024;

#[derive(Default, Serialize, Deserialize)]
struct Content {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    #[serde(default, rename = "pool", skip_serializing_if = "Vec::is_empty")]
    pools: Vec<KnownPool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    moved: Vec<Moved>,
    /// Nothing in a list of before: what that imported it mounted, too.
    #[serde(default)]
    accepted: Option<Vec<Accepted>>,
}

/// The file and what it should say.
pub struct State {
    path: PathBuf,
    port: Option<u16>,
    pools: Vec<KnownPool>,
    moved: Vec<Moved>,
    accepted: Vec<Accepted>,
    is_new: bool,
    /// What the file says.
    written: Vec<KnownPool>,
    /// Why it does not say what it should.
    unwritten: Option<String>,
}

impl State {
    /// Reads the list in `data_dir`; a file that is not there is an empty list.
    pub fn load(data_dir: &Path) -> Result<Self, StateError> {
        let path = data_dir.join(STATE_NAME);
        let (Content { port, pools, moved, accepted }, is_new) = match fs::read_to_string(&path) {
            Ok(text) => (parse(&path, &text)?, false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Content::default(), true),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(StateError::Garbled { path, message: "it is not text".into() });
            }
            Err(source) => return Err(StateError::Io { path, source }),
        };
        let of_before = |known: &KnownPool| Accepted { guid: known.guid, handle_key: known.handle_key, host: None };
        let accepted = accepted.unwrap_or_else(|| pools.iter().map(of_before).collect());
        Ok(Self { path, port, written: pools.clone(), pools, moved, accepted, is_new, unwritten: None })
    }

    /// Whether there was no list.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.is_new
    }

    /// Those that the next start imports: nobody exported them.
    #[must_use]
    pub fn pools(&self) -> &[KnownPool] {
        &self.pools
    }

    /// The port of the last run, which clients have in their mounts.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Keeps the port for the next run.
    pub fn remember_port(&mut self, port: u16) -> Result<(), StateError> {
        if self.port == Some(port) {
            return Ok(());
        }
        self.port = Some(port);
        self.save()
    }

    /// Adds a pool, or replaces what was said of it.
    pub fn remember(&mut self, mut pool: KnownPool) -> Result<(), StateError> {
        // The list is text. A disk that it cannot name may be found where pools are looked for; the others keep theirs.
        pool.paths.retain(|path| path.to_str().is_some());
        self.pools.retain(|known| known.guid != pool.guid);
        self.pools.push(pool);
        self.save()
    }

    /// The same for a change that is taken back if it cannot be written.
    pub fn remember_or_not(&mut self, pool: KnownPool) -> Result<(), StateError> {
        let (pools, unwritten) = (self.pools.clone(), self.unwritten.clone());
        self.remember(pool).inspect_err(|_| (self.pools, self.unwritten) = (pools, unwritten))
    }

    /// Tables of the configuration that hold under other names, too.
    #[must_use]
    pub fn moved(&self) -> &[Moved] {
        &self.moved
    }

    /// Replaces them, or leaves them if that cannot be written.
    pub fn set_moved(&mut self, moved: Vec<Moved>) -> Result<(), StateError> {
        let (before, unwritten) = (std::mem::replace(&mut self.moved, moved), self.unwritten.clone());
        self.save().inspect_err(|_| (self.moved, self.unwritten) = (before, unwritten))
    }

    /// Whether mountpoints and shares of a pool hold here, whose labels name this machine as the last that had it.
    #[must_use]
    pub fn accepts(&self, guid: PoolGuid, handle_key: &[u8; 32], host: u64) -> bool {
        let is_it = |known: &&Accepted| known.guid == guid && known.handle_key == *handle_key;
        self.accepted.iter().find(is_it).is_some_and(|known| known.host.is_none_or(|had| had == host))
    }

    /// They do from now on, in place of what was known of it.
    pub fn accept(&mut self, pool: Accepted) -> Result<(), StateError> {
        if self.note_accepted(pool) { self.save() } else { Ok(()) }
    }

    /// The same, which is written with what is written next. Gives whether it is new.
    pub fn note_accepted(&mut self, pool: Accepted) -> bool {
        if self.accepted.contains(&pool) {
            return false;
        }
        self.accepted.retain(|known| known.guid != pool.guid);
        self.accepted.push(pool);
        self.accepted.drain(..self.accepted.len().saturating_sub(ACCEPTED_MAX));
        true
    }

    /// They do not any more.
    pub fn accept_no_more(&mut self, guid: PoolGuid) -> Result<(), StateError> {
        if self.accepted.iter().all(|known| known.guid != guid) {
            return Ok(());
        }
        self.accepted.retain(|known| known.guid != guid);
        self.save()
    }

    /// Takes a pool out.
    pub fn forget(&mut self, guid: PoolGuid) -> Result<(), StateError> {
        self.pools.retain(|known| known.guid != guid);
        self.save()
    }

    /// Tries again what failed, if something did.
    pub fn write_again(&mut self) -> Result<(), StateError> {
        if self.unwritten.is_some() { self.save() } else { Ok(()) }
    }

    /// Why the file does not say what it should.
    #[must_use]
    pub fn unwritten(&self) -> Option<&str> {
        self.unwritten.as_deref()
    }

    /// What the file should say of a pool, and what it says.
    #[must_use]
    pub fn entries(&self, guid: PoolGuid) -> [Option<&KnownPool>; 2] {
        [&self.pools, &self.written].map(|pools| pools.iter().find(|known| known.guid == guid))
    }

    fn save(&mut self) -> Result<(), StateError> {
        let saved = self.write();
        self.unwritten = saved.as_ref().err().map(ToString::to_string);
        if saved.is_ok() {
            self.written.clone_from(&self.pools);
        }
        saved
    }

    /// Writes a new file and puts it in the old one's place, so that a crash leaves one of the two.
    fn write(&self) -> Result<(), StateError> {
        let io_error = |source| StateError::Io { path: self.path.clone(), source };
        let content = Content {
            port: self.port,
            pools: self.pools.clone(),
            moved: self.moved.clone(),
            accepted: Some(self.accepted.clone()),
        };
        let text = toml::to_string(&content).map_err(|error| io_error(io::Error::other(error)))?;
        let text = format!("{HEAD}{FORMAT}.\n{EXPLANATION}\n{text}{END}");
        replace_file(&self.path, text.as_bytes()).map_err(io_error)
    }
}

/// Understands a list, if it is a whole one.
fn parse(path: &Path, text: &str) -> Result<Content, StateError> {
    let garbled = |message: &str| StateError::Garbled { path: path.into(), message: message.into() };
    if let Some((format, rest)) = text.strip_prefix(HEAD).and_then(|rest| rest.split_once(".\n")) {
        let format: u32 = format.parse().map_err(|_| garbled("its format is no number"))?;
        if format > FORMAT {
            return Err(StateError::Newer { path: path.into(), format });
        }
        if !rest.ends_with(END) {
            return Err(garbled("its end is missing"));
        }
    } else if text.is_empty() {
        return Err(garbled("it is empty, which is not to say that there are no pools"));
    } else if !text.starts_with(HEAD_BEFORE) {
        return Err(garbled("it does not begin as such a list does"));
    }
    toml::from_str(text).map_err(|error| garbled(error.message()))
}

/// Puts a file with this content in the place of one, so that a crash leaves one of the two.
pub(super) fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension("toml.new");
    // What a crash left there, or a link that somebody made: it is replaced, not written through.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

mod guid_text {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use tally_base::PoolGuid;

    pub(super) fn serialize<S: Serializer>(guid: &PoolGuid, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(guid)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PoolGuid, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map(PoolGuid).map_err(|_| D::Error::custom("a guid is 16 hexadecimal digits"))
    }
}

mod host_text {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    /// TOML's numbers have a sign.
    pub(super) fn serialize<S: Serializer>(host: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", host.unwrap_or_default()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map(Some).map_err(|_| D::Error::custom("a machine is 16 hexadecimal digits"))
    }
}

mod key_text {
    use std::fmt::Write as _;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(key: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        let text = key.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        serializer.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        let bad = || D::Error::custom("a handle key is 64 hexadecimal digits");
        let mut key = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(bad());
        }
        for (index, byte) in key.iter_mut().enumerate() {
            let digits = text.get(index * 2..index * 2 + 2).ok_or_else(bad)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| bad())?;
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests;
