//! What the service manager keeps of mounts while there is no daemon (sd_notify(3), FDSTORE).
//!
//! Of each mount that is the descriptor of /dev/fuse, without which the kernel ends it, and the two files of what its programs have open and locked. A daemon that starts is given all of them, whether the one before it was stopped or killed.
//! systemd gives them up where a service is stopped and not restarted (rules V45).

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use sd_notify::NotifyState;
use tally_fuse::Keeping;

/// Before the name of a mount: its descriptor, and what is kept of it.
const DEVICE: &str = "mount-";
const JOURNAL: &str = "journal-";

/// What there is of one mount.
#[derive(Default)]
pub(super) struct Stored {
    pub(super) device: Vec<OwnedFd>,
    pub(super) journal: Vec<OwnedFd>,
}

/// All that was kept, by the mounts' names. The second time there is nothing.
pub(super) fn take() -> BTreeMap<String, Stored> {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    let mut mounts = BTreeMap::<String, Stored>::new();
    if IS_TAKEN.swap(true, Ordering::AcqRel) {
        return mounts;
    }
    let given = sd_listen_fds::get().unwrap_or_else(|error| {
        tracing::error!(%error, "what the service manager kept cannot be read: programs that use mounts get ENOTCONN");
        Vec::new()
    });
    for (name, descriptor) in given {
        let name = name.unwrap_or_default();
        let descriptor = descriptor.into_std();
        if let Some(name) = name.strip_prefix(DEVICE) {
            mounts.entry(name.into()).or_default().device.push(descriptor);
        } else if let Some(name) = name.strip_prefix(JOURNAL) {
            mounts.entry(name.into()).or_default().journal.push(descriptor);
        } else {
            tracing::warn!(name, "the service manager gave a descriptor that is not wanted");
        }
    }
    mounts
}

/// Whether anybody keeps anything.
pub(super) fn is_there() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Whether the kernel asks again for what a killed daemon had read (Linux 6.10, as 6.9 lost some). Where it does not, a mount is kept from the moment on in which its daemon ends in order: one that was killed would
/// keep its programs, and whoever unmounts it, waiting for nobody.
pub(super) fn is_asked_again() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|release| release >= (6, 10))
}

/// What is to be kept of a mount.
pub(super) struct Parts {
    name: String,
    device: OwnedFd,
    journal: [OwnedFd; 2],
}

impl Parts {
    pub(super) fn of(keeping: &Keeping, device: &OwnedFd) -> io::Result<Self> {
        let [one, two] = keeping.files();
        let journal = [one.try_clone_to_owned()?, two.try_clone_to_owned()?];
        Ok(Self { name: keeping.name(), device: device.try_clone()?, journal })
    }

    /// Has it kept.
    pub(super) fn keep(&self) -> io::Result<()> {
        send(&format!("{JOURNAL}{}", self.name), &self.journal.each_ref().map(OwnedFd::as_fd))?;
        send(&format!("{DEVICE}{}", self.name), &[self.device.as_fd()])
    }

    /// It is mounted no more, or not to be kept for now.
    pub(super) fn forget(&self) {
        forget(&self.name);
    }
}

fn send(name: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    // Not watched: each request of a mount would wake the service manager.
    let words = [NotifyState::FdStore, NotifyState::FdName(name), NotifyState::Custom("FDPOLL=0")];
    sd_notify::notify_with_fds(&words, descriptors)
}

/// It is mounted no more.
pub(super) fn forget(name: &str) {
    for kind in [DEVICE, JOURNAL] {
        let name = format!("{kind}{name}");
        // Whoever keeps it for longer has a descriptor too many.
        let _ = sd_notify::notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(&name)]);
    }
}
