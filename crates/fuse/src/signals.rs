//! Whether the program that waits for an answer is about to end.
//!
//! The kernel tells of the first signal that a waiting thread gets, whichever it is, and of no later one (INTERRUPT). File systems that wait for a server wait on for all but those that end the program, and so does this one:
//! programs do not expect EINTR of `stat` or `close`. Which one it was stands in /proc: whatever is about to end a program has left SIGKILL to each of its threads, which is also what the kernel itself goes by for a request that nobody has read yet.
//!
//! *What cannot be told* counts as the end: a thread in no sight of this process, or another one of its number, as where the daemon is in a namespace of processes of its own. Its program hears EINTR then, and can be killed.

use crate::wire::Header;

/// The bit of SIGKILL in a set of signals.
const SIGKILL: u64 = 1 << 8;

/// Whether it ends, or nobody can tell.
pub(crate) fn is_ending(who: &Header) -> bool {
    // Of no thread there is no such file.
    let status = std::fs::read_to_string(format!("/proc/{}/status", who.pid));
    status.map_or(true, |status| says_so(&status, who.uid).unwrap_or(true))
}

/// What its status says. Nothing, where it is another one's: who asks does so as this user.
fn says_so(status: &str, uid: u32) -> Option<bool> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    // Real, effective, saved, and for files.
    let user = field("Uid")?.split_whitespace().nth(3)?;
    let pending = u64::from_str_radix(field("SigPnd")?.trim(), 16).ok()?;
    (user.parse() == Ok(uid)).then_some(pending & SIGKILL != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_program_is_told_from_what_does_not() {
        let status =
            |pending: &str| format!("Name:\tcat\nUid:\t7\t0\t0\t1000\nSigPnd:\t{pending}\nShdPnd:\t0000000000000100\n");
        let of = |pending| says_so(&status(pending), 1000);
        // SIGALRM, SIGTERM with a handler; SIGKILL, alone and beside it.
        assert_eq!((of("0000000000002000"), of("0000000000004000")), (Some(false), Some(false)));
        assert_eq!((of("0000000000000100"), of("0000000000002100")), (Some(true), Some(true)));
        assert_eq!((says_so(&status("0000000000000000"), 0), of("nonsense"), says_so("", 1000)), (None, None, None));
    }

    #[test]
    fn who_is_not_in_sight_may_end() {
        let me =
            Header { pid: std::process::id(), uid: rustix::process::geteuid().as_raw(), unique: 1, node: 1, gid: 0 };
        assert!(!is_ending(&me));
        assert!(is_ending(&Header { pid: 0, ..me }) && is_ending(&Header { uid: me.uid + 1, ..me }));
    }
}
