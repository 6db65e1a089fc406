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
    let mut users = ids.iter().filter_map(|id| user(*id, devices)).peekable();
    if users.peek().is_none() {
        return named(ids.iter().filter_map(|id| user_by_thread(*id, devices)));
    }
    named(users)
}

fn named(mut users: impl Iterator<Item = User>) -> Option<String> {
    let named: Vec<String> =
        users.by_ref().take(NAMED_MAX).map(|User { id, name, how }| format!("{id} ({name}) {how}")).collect();
    let more = if users.next().is_some() { ", and more" } else { "" };
    (!named.is_empty()).then(|| named.join(", ") + more)
}

/// By what its first thread has, which is what all of them have as a rule.
fn user(id: u32, devices: &BTreeSet<(u32, u32)>) -> Option<User> {
    let folder = format!("/proc/{id}");
    let folder = Path::new(&folder);
    let mapped = || has_mapped(folder, devices).then_some(MAPPED);
    Some(User {
        id,
        how: linked(folder, devices).or_else(|| opened(folder, devices)).or_else(mapped)?,
        name: name(folder),
    })
}

/// By what each of its threads has: one may be in a directory of its own, or have files for itself, and the first one may have ended. It takes as many looks as all threads have files, so it is done where
/// nobody was found without it.
fn user_by_thread(id: u32, devices: &BTreeSet<(u32, u32)>) -> Option<User> {
    let process = format!("/proc/{id}");
    let process = Path::new(&process);
    // What is mapped they have together: one is asked, where the first is not there to be.
    let mut is_mapped_asked = fs::read_link(process.join("exe")).is_ok();
    fs::read_dir(process.join("task")).ok()?.flatten().find_map(|thread| {
        let folder = thread.path();
        let how = linked(&folder, devices).or_else(|| opened(&folder, devices));
        let mapped = || (!is_mapped_asked && has_mapped(&folder, devices)).then_some(MAPPED);
        let how = how.or_else(mapped);
        is_mapped_asked |= fs::read_link(folder.join("exe")).is_ok();
        Some(User { id, how: how?, name: name(&folder) })
    })
}

const MAPPED: &str = "has a file of it mapped";

/// What a process or thread is in, or runs from.
fn linked(folder: &Path, devices: &BTreeSet<(u32, u32)>) -> Option<&'static str> {
    LINKS.iter().find(|(link, _)| is_on(&folder.join(link), devices)).map(|(_, how)| *how)
}

/// What it has open.
fn opened(folder: &Path, devices: &BTreeSet<(u32, u32)>) -> Option<&'static str> {
    let mut files = fs::read_dir(folder.join("fd")).ok()?.flatten().take(FILES_MAX);
    files.any(|file| is_on(&file.path(), devices)).then_some("has a file of it open")
}

/// Names are what programs say of themselves.
fn name(folder: &Path) -> String {
    harmless(fs::read_to_string(folder.join("comm")).unwrap_or_default().trim_end())
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
    use std::io::Read as _;
    use std::process::{Command, Stdio};
    use std::sync::mpsc;
    use std::thread;

    use rustix::thread::UnshareFlags;

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
        assert!(user_by_thread(me, &of("/proc/self/cwd")).is_some(), "the first is one of them");
        let nowhere = BTreeSet::from([(4095, 7)]);
        assert!(user(me, &nowhere).is_none() && users_of(nowhere).is_none());
    }

    fn device(path: &str) -> BTreeSet<(u32, u32)> {
        let it = statx(CWD, path, AtFlags::empty(), StatxFlags::TYPE).unwrap();
        BTreeSet::from([(it.stx_dev_major, it.stx_dev_minor)])
    }

    /// It was not seen, and some of a pool's mounts were gone before the unmount met it.
    #[test]
    fn a_thread_that_is_somewhere_else_is_found() {
        let (is_there, seen) = (mpsc::channel(), mpsc::channel());
        let thread = thread::spawn(move || {
            // Its own directory from here on, and not its process'.
            #[expect(deprecated, reason = "it shares descriptors with others or not; this is no descriptor")]
            rustix::thread::unshare(UnshareFlags::FS).unwrap();
            rustix::process::chdir("/dev/shm").unwrap();
            is_there.0.send(()).unwrap();
            seen.1.recv().unwrap();
        });
        is_there.1.recv().unwrap();
        let me = std::process::id();
        assert!(user(me, &device("/dev/shm")).is_none(), "its process is not there");
        let found = user_by_thread(me, &device("/dev/shm")).expect("it is there");
        assert_eq!((found.id, found.how), (me, "is in it"));
        let told = users_of(device("/dev/shm"));
        seen.0.send(()).unwrap();
        thread.join().unwrap();
        assert!(told.is_some(), "it is asked for where its process is not there");
    }

    /// Of a process whose first thread has ended nothing is to be seen but by the others.
    #[test]
    #[ignore = "needs perl; `cargo xtask test` runs it"]
    fn a_process_without_its_first_thread_is_found() {
        // `exit` by its number ends the thread that calls it alone.
        let exit = if cfg!(target_arch = "x86_64") { 60 } else { 93 };
        let words = format!(
            "open F, '<', '/sys/kernel/notes'; threads->create(sub {{ sleep 1 while 1 }})->detach; $| = 1; print qq(up\n); syscall {exit}, 0"
        );
        let mut program =
            Command::new("perl").args(["-Mthreads", "-e", &words]).stdout(Stdio::piped()).spawn().unwrap();
        let mut up = [0; 3];
        program.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
        let id = program.id();
        let is_first_gone = || {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
        };
        while !is_first_gone() {
            thread::yield_now();
        }
        let (by_first, by_thread) = (user(id, &device("/sys")), user_by_thread(id, &device("/sys")));
        program.kill().unwrap();
        program.wait().unwrap();
        assert!(by_first.is_none(), "it has nothing any more");
        assert_eq!(by_thread.map(|found| (found.id, found.how)), Some((id, "has a file of it open")));
    }
}
