//! Ctrl-C at a command that changes something.
//!
//! The daemon carries commands out, and ending the one that waits does not end that. So Ctrl-C, or SIGTERM, takes back what
//! has not been begun, and of what has been begun the person is told that it goes on, and where to see it. A second one
//! ends the waiting at once. A signal that whoever started the command ignores, as scripts do and shells in the background,
//! stays ignored.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};

use crate::control::message::Request;

/// Where a person interrupts a command.
#[derive(Debug)]
pub enum Interrupts {
    /// The process's signals.
    OfProcess,
    /// Nobody does.
    Never,
    /// There is something to read here when he has done so; it stands for SIGINT.
    From(UnixStream),
}

/// From now on an interrupt is heard.
pub(super) struct Listening {
    file: UnixStream,
    /// Kept also where nobody writes to it: else there would be an end to read, which is an interrupt.
    _other_end: Option<UnixStream>,
    signal: Arc<AtomicUsize>,
}

impl Interrupts {
    pub(super) fn listen(&self) -> io::Result<Listening> {
        let signal = Arc::new(AtomicUsize::new(SIGINT as usize));
        if let Self::From(file) = self {
            return Ok(Listening { file: file.try_clone()?, _other_end: None, signal });
        }
        let (file, other_end) = UnixStream::pair()?;
        let is_second = Arc::new(AtomicBool::new(false));
        let heard = matches!(self, Self::OfProcess).then_some([SIGINT, SIGTERM]);
        // In this order: which signal it was stands there before anybody is woken.
        for number in heard.into_iter().flatten().filter(|number| !is_ignored(*number)) {
            flag::register_conditional_shutdown(number, exit_status(number), Arc::clone(&is_second))?;
            flag::register(number, Arc::clone(&is_second))?;
            flag::register_usize(number, Arc::clone(&signal), number as usize)?;
            pipe::register(number, other_end.try_clone()?)?;
        }
        Ok(Listening { file, _other_end: Some(other_end), signal })
    }
}

/// Of a process that a signal ends.
pub(super) const fn exit_status(signal: i32) -> i32 {
    128 + signal
}

/// Whether this process was started with a signal ignored.
pub(super) fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (signal - 1) != 0)
}

impl Listening {
    /// There is something to read in it when the person has interrupted.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// By which signal.
    pub(super) fn signal(&self) -> u8 {
        u8::try_from(self.signal.load(Ordering::Acquire)).unwrap_or(SIGINT as u8)
    }
}

/// The command that shows what has become of a request; none for one that changes nothing.
pub(super) fn where_to_see(request: &Request) -> Option<String> {
    Some(match request {
        Request::PoolCreate { .. }
        | Request::PoolImport { .. }
        | Request::PoolRewind { .. }
        | Request::PoolExport { .. }
        | Request::PoolDestroy { .. }
        | Request::PoolForget { .. }
        | Request::PoolLabelClear { .. } => "tally pool list".into(),
        Request::PoolSet { name, .. } => format!("tally pool get all {name}"),
        Request::PoolUpgrade { .. } => "tally pool upgrade".into(),
        Request::PoolAttach { name, .. }
        | Request::PoolAdd { name, .. }
        | Request::PoolRemove { name, .. }
        | Request::PoolDetach { name, .. }
        | Request::PoolReplace { name, .. }
        | Request::PoolOffline { name, .. }
        | Request::PoolOnline { name, .. }
        | Request::PoolClear { name, .. }
        | Request::PoolReopen { name }
        | Request::PoolSync { name }
        | Request::PoolScrub { name, .. } => format!("tally pool status {name}"),
        Request::DatasetCreate { .. } | Request::DatasetDestroy { .. } | Request::DatasetRename { .. } => {
            "tally dataset list".into()
        }
        Request::DatasetSet { name, .. } | Request::DatasetInherit { name, .. } => {
            format!("tally dataset get all {name}")
        }
        Request::ClientEvict { .. } => "tally client list".into(),
        Request::Mount { .. } => "tally mount".into(),
        Request::PoolStatus { .. }
        | Request::Holdings { .. }
        | Request::PoolHistory { .. }
        | Request::PoolTry { .. }
        | Request::Events { .. }
        | Request::PoolFind { .. }
        | Request::PoolGet { .. }
        | Request::DatasetList { .. }
        | Request::DatasetGet { .. }
        | Request::Exports
        | Request::Mounts
        | Request::Smb
        | Request::StatOps
        | Request::Server
        | Request::Record { .. }
        | Request::Observe => return None,
    })
}
