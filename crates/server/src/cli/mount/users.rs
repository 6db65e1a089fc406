//! Who uses what is mounted: programs that have something of it open or mapped, or are in it, as fuser(1) tells. That is an administrator's next question.
//!
//! It goes by the number of the file system that a link of /proc leads to. The kernel says that without a word to the server (AT_STATX_DONT_SYNC), which may be what is hanging.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::cli::console::soon;
use crate::cli::words::harmless;

/// How long that may take.
const LOOK_MAX: Duration = Duration::from_secs(20);
/// So many are named; the others are told of.
const NAMED_MAX: usize = 8;
/// Most files of one program that are looked at.
const FILES_MAX: usize = 65_536;
/// What a program is in, or runs from.
const LINKS: [(&str, &str); 3] = [("cwd", "is in it"), ("root", "has it as its root"), ("exe", "is run from it")];

/// A program that uses some of it.
struct User {
    id: u32,
    name: String,
    how: &'static str,
}

/// The programs that use something of these file systems: `1234 (bash) is in it`. Nothing where none does, or none may be looked at. A program that waits for a page of
/// something that hangs does not let its maps be read: so long it is looked, and no longer.
pub(super) fn users_of(devices: BTreeSet<(u32, u32)>) -> Option<String> {
    soon(LOOK_MAX, move || found(&devices)).flatten()
}

fn found(devices: &BTreeSet<(u32, u32)>) -> Option<String> {
    let mut ids: Vec<u32> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    ids.sort_unstable();
    let mut users = ids.into_iter().filter_map(|id| user(id, devices));
    let named: Vec<String> =
        users.by_ref().take(NAMED_MAX).map(|User { id, name, how }| format!("{id} ({name}) {how}")).collect();
    let more = if users.next().is_some() { ", and more" } else { "" };
    (!named.is_empty()).then(|| named.join(", ") + more)
}

fn user(id: u32, devices: &BTreeSet<(u32, u32)>) -> Option<User> {
    let folder = format!("/proc/{id}");
    let folder = Path::new(&folder);
    let links = || LINKS.iter().find(|(link, _)| is_on(&folder.join(link), devices)).map(|(_, how)| *how);
    let open = || {
        let mut files = fs::read_dir(folder.join("fd")).ok()?.flatten().take(FILES_MAX);
        files.any(|file| is_on(&file.path(), devices)).then_some("has a file of it open")
    };
    let how = links().or_else(open).or_else(|| has_mapped(folder, devices).then_some("has a file of it mapped"))?;
    // Names are what programs say of themselves.
    let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
    Some(User { id, name: harmless(name.trim_end()), how })
}

fn is_on(link: &Path, devices: &BTreeSet<(u32, u32)>) -> bool {
    statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE)
        .is_ok_and(|it| devices.contains(&(it.stx_dev_major, it.stx_dev_minor)))
}

/// `7f00-7f01 r-xp 00000000 00:2a 123 /srv/home/lib.so`, by proc_pid_maps(5).
fn has_mapped(folder: &Path, devices: &BTreeSet<(u32, u32)>) -> bool {
    let maps = fs::read(folder.join("maps")).unwrap_or_default();
    let on = |line: &str| {
        let (major, minor) = line.split(' ').nth(3)?.split_once(':')?;
        Some((u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?))
    };
    String::from_utf8_lossy(&maps).lines().filter_map(on).any(|device| devices.contains(&device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_what_it_is_in_and_what_it_has_mapped() {
        let of = |path: &str| {
            let it = statx(CWD, path, AtFlags::empty(), StatxFlags::TYPE).unwrap();
            BTreeSet::from([(it.stx_dev_major, it.stx_dev_minor)])
        };
        let me = std::process::id();
        let found = user(me, &of("/proc/self/cwd")).expect("this test is somewhere");
        assert_eq!((found.id, found.how), (me, "is in it"));
        assert!(has_mapped(Path::new("/proc/self"), &of("/proc/self/exe")));
        let nowhere = BTreeSet::from([(4095, 7)]);
        assert!(user(me, &nowhere).is_none() && users_of(nowhere).is_none());
    }
}
