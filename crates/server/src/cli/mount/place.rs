//! The directory that is mounted on.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use super::failed;
use super::standing::is_dead;
use super::unmount::lazily;
use crate::cli::console::Failure;
use crate::mount_table::Table;

/// Of a directory that is made to be mounted on: nobody but root writes into what is beneath a mount that is absent.
const BENEATH: u32 = 0o555;

/// What may be done to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    /// It is made where it is missing, and has to be empty: what is in it would be out of sight.
    Usual,
    /// What is in it is covered (`-O`).
    Over,
    /// As mount(8) has it: it has to be there, and is covered.
    Program,
}

/// Links that are followed, as Linux does.
const LINKS_MAX: usize = 40;

/// Whether nobody but root decides where a path leads that a dataset has for itself: who may rename a directory above it, or put a link there, would have his files mounted wherever he likes. A directory of a dataset that is
/// mounted around, in which the engine has this one, nobody takes away.
pub(super) fn is_roots(dir: &Path, dataset: &str) -> Result<(), Failure> {
    let table = Table::read()?;
    let names = |path: &Path| -> VecDeque<OsString> { path.components().map(|name| name.as_os_str().into()).collect() };
    let mut rest = names(dir);
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    while let Some(name) = rest.pop_front() {
        match Path::new(&name).components().next() {
            Some(Component::Normal(_)) => {}
            Some(Component::RootDir) => {
                at = PathBuf::from("/");
                continue;
            }
            Some(Component::ParentDir) => {
                at.pop();
                continue;
            }
            _ => continue,
        }
        let next = at.join(&name);
        let whose = |who: &Path| {
            failed(format!(
                "{dataset} is not mounted on {}: others than root decide what {} is; make it root's (chown root, chmod go-w), or mount by hand (tally mount {dataset} DIR)",
                dir.display(),
                who.display()
            ))
        };
        let above = fs::metadata(&at).map_err(|error| failed(format!("cannot look at {}: {error}", at.display())))?;
        let is_below = |of: &str| dataset.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let around = table.at(&at).filter(|around| around.is_ours());
        let is_kept = around.is_some_and(|around| is_below(&format!("{}/{}", around.source, name.to_string_lossy())));
        let others_write = above.mode() & 0o022 != 0;
        let is_sticky = above.mode() & 0o1000 != 0;
        if !is_kept && (above.uid() != 0 || others_write && !is_sticky) {
            return Err(whose(&at));
        }
        // What is not there is made; what cannot be looked at is told of by who mounts.
        let Ok(there) = fs::symlink_metadata(&next) else { return Ok(()) };
        if !is_kept && others_write && there.uid() != 0 {
            return Err(whose(&next));
        }
        if !there.is_symlink() {
            at = next;
            continue;
        }
        links += 1;
        if there.uid() != 0 || links > LINKS_MAX {
            return Err(whose(&next));
        }
        let leads = fs::read_link(&next).map_err(|error| failed(format!("cannot read {}: {error}", next.display())))?;
        let mut leads = names(&leads);
        leads.append(&mut rest);
        rest = leads;
    }
    Ok(())
}

/// Makes it ready, and gives the path that the kernel has for it, with what there is to say of it.
pub(super) fn prepare(dir: &Path, care: Care) -> Result<(PathBuf, Vec<String>), Failure> {
    let remarks = without_dead(dir)?;
    let cannot = |what: &str, error: &io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            failed(format!("cannot {what} {}: {error}; mounting is root's (sudo)", dir.display()))
        }
        _ => failed(format!("cannot {what} {}: {error}", dir.display())),
    };
    if care != Care::Program
        && matches!(fs::symlink_metadata(dir), Err(error) if error.kind() == io::ErrorKind::NotFound)
    {
        make(dir, cannot)?;
    }
    let real = fs::canonicalize(dir).map_err(|error| cannot("mount on", &error))?;
    if !real.is_dir() {
        return Err(failed(format!("{} is no directory; make one to mount on", real.display())));
    }
    if care == Care::Usual {
        if let Some(there) = Table::read()?.at(&real).filter(|there| there.is_ours()) {
            let told = format!("{} is mounted on {} already", there.source, real.display());
            return Err(failed(format!("{told}; `tally unmount {}` ends that", real.display())));
        }
        if fs::read_dir(&real).map_err(|error| cannot("look into", &error))?.next().is_some() {
            return Err(failed(format!(
                "{} is not empty, and what is in it would be out of sight: empty it, mount elsewhere, or say -O",
                real.display()
            )));
        }
    }
    Ok((real, remarks))
}

/// Takes away what is left there of a daemon that is gone.
fn without_dead(dir: &Path) -> Result<Vec<String>, Failure> {
    let (dir, mut remarks) = (super::place(dir), Vec::new());
    while let Some(dead) = Table::read()?.at(&dir).filter(|there| there.is_ours() && is_dead(there)) {
        lazily(&dir)?;
        remarks.push(format!(
            "what was left on {} of {} is taken away: no daemon served it any more",
            dir.display(),
            dead.source
        ));
    }
    Ok(remarks)
}

fn make(dir: &Path, cannot: impl Fn(&str, &io::Error) -> Failure) -> Result<(), Failure> {
    let table = Table::read()?;
    // What is in a dataset, clients see: whoever wants it there makes it.
    if let Some(around) = table.around(dir).filter(|around| around.is_ours()) {
        return Err(failed(format!(
            "there is no {}, which would be in {} on {}: make it there (mkdir), if that is meant",
            dir.display(),
            around.source,
            around.dir.display()
        )));
    }
    if let Some(above) = dir.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(above).map_err(|error| cannot("make", &error))?;
    }
    fs::DirBuilder::new().mode(BENEATH).create(dir).map_err(|error| cannot("make", &error))
}
