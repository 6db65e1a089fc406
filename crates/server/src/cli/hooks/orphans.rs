//! What a program leaves behind that is in no group of its: a daemon that it started, with a session of its own.
//!
//! Whoever leaves its group is out of reach of a signal to it, and stays in the service's cgroup for ever, until that is full and no
//! program can be started. So this process takes the place of init for all that comes from it: whose parents have ended
//! are its children then, and it has no others between two programs. Each is killed, and what it had begun comes after it.
//!
//! *Not taken:* a cgroup for each program, which a service that is not root's is not given.

use std::collections::HashSet;
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};

/// How long what was killed may take to end.
pub(super) const DYING_TIME_MAX: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(5);

/// The right to end every child of this process: no other thread of it has any.
pub(super) struct Orphans(());

/// What was there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// Processes that were ended.
    pub(super) ended: usize,
    /// Those that go on: another user's, as of a sendmail that becomes one, or what no signal ends.
    pub(super) alive: usize,
}

impl Orphans {
    /// From now on they come to this process.
    pub(super) fn adopt() -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Self(()))
    }

    /// Ends them all, and waits for that.
    pub(super) fn end(&self) -> io::Result<Left> {
        let until = Instant::now() + DYING_TIME_MAX;
        let mut killed = HashSet::new();
        while has_one_alive()? {
            let children = children()?;
            let mut of_others = 0;
            for child in &children {
                match kill_process(*child, Signal::KILL) {
                    Ok(()) => drop(killed.insert(*child)),
                    Err(Errno::PERM) => of_others += 1,
                    Err(Errno::SRCH) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if of_others == children.len() || Instant::now() >= until {
                killed.retain(|child| !children.contains(child));
                return Ok(Left { ended: killed.len(), alive: children.len() });
            }
            std::thread::sleep(STEP);
        }
        Ok(Left { ended: killed.len(), alive: 0 })
    }
}

/// Takes note of children that have ended, and says whether there are others.
fn has_one_alive() -> io::Result<bool> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return Ok(true),
            Err(Errno::CHILD) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

/// This process' children. None of them is anybody else meanwhile: it is this thread that takes note of their ends.
fn children() -> io::Result<Vec<Pid>> {
    let us = getpid();
    let processes = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_child = |pid: &i32| {
        // One that has just gone has none.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        parent(&stat) == Some(us)
    };
    Ok(processes.filter(is_child).filter_map(Pid::from_raw).collect())
}

/// Whose child it is, by proc_pid_stat(5). In the name before that may stand anything.
fn parent(stat: &str) -> Option<Pid> {
    Pid::from_raw(stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_bracket_hides_nobodys_parent() {
        assert_eq!(parent("12 (a) S 1) S 7 12 12 0 -1"), Pid::from_raw(7));
        assert_eq!([parent(""), parent("12 (a"), parent("12 (a) S"), parent("1 (init) S 0 1")], [None; 4]);
    }
}
