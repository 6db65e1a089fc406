//! The file with the shares, as the daemon would have Samba read it. It is put beside the one that Samba includes, and takes its place when Samba's own program has had
//! nothing to say of it (`tally smb apply`): the daemon starts no programs.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The file.
pub(super) struct SmbFile {
    path: PathBuf,
    /// What it says, or the one says whose place it has taken.
    last: Option<String>,
}

impl SmbFile {
    /// For the file that Samba includes.
    pub(super) fn beside(include: &Path) -> Self {
        let path = tally_smb::unchecked(include);
        let last = [&*path, include].into_iter().find_map(|file| fs::read_to_string(file).ok());
        Self { path, last }
    }

    /// Whether there was one: who shares nothing has none.
    pub(super) const fn is_there(&self) -> bool {
        self.last.is_some()
    }

    /// Puts another text there, as a whole; gives whether it is another one.
    pub(super) fn put(&mut self, text: &str) -> io::Result<bool> {
        if self.last.as_deref() == Some(text) {
            return Ok(false);
        }
        let mut half = self.path.clone().into_os_string();
        half.push(".half");
        // A link that somebody made there is replaced, and not written through.
        match fs::remove_file(&half) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&half)?;
        file.write_all(text.as_bytes())?;
        // Whoever may look into the directory may read it: Samba's programs do as whoever calls them, and fail on a file that they see and may not read.
        file.set_permissions(Permissions::from_mode(0o644))?;
        fs::rename(&half, &self.path)?;
        self.last = Some(text.to_owned());
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_when_it_says_something_else() {
        let dir = tempfile::tempdir().unwrap();
        let (include, new) = (dir.path().join("smb.conf"), dir.path().join("smb.conf.new"));
        let mut file = SmbFile::beside(&include);
        assert!(!file.is_there() && file.put("one").unwrap() && !file.put("one").unwrap());
        assert_eq!(fs::read_to_string(&new).unwrap(), "one");
        assert_eq!(fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o644);
        // It has taken the other one's place: that is nothing new, also behind a restart.
        fs::rename(&new, &include).unwrap();
        assert!(!file.put("one").unwrap() && !SmbFile::beside(&include).put("one").unwrap() && !new.exists());
        assert!(file.put("two").unwrap() && new.exists());
        assert!(!SmbFile::beside(&include).put("two").unwrap());
        // What cannot be written is not taken for written.
        let mut nowhere = SmbFile::beside(&dir.path().join("no directory").join("smb.conf"));
        assert!(nowhere.put("x").is_err() && nowhere.put("x").is_err() && !nowhere.is_there());
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }
}
