//! Who waits for a disk, and until when.
//!
//! The problem: a disk that hangs neither answers nor fails. A thread that has asked it sleeps in the kernel with
//! whatever locks it holds, and its buffer belongs to the request. So nobody can stop waiting who has asked himself.
//!
//! The idea: a request to a disk that others can stand in for has an owner of its own, a helper of the [`Fanout`] with a
//! buffer of its own. Whoever has asked waits for the helper, and may leave: the answer then finds nobody. Whether he may is
//! a decision about the disk, not about the request, and somebody else's ([`Patience`]): from then on nothing may rest on
//! that disk, as when it had refused a write.
//!
//! A request that was left is at the disk still, and holds it open (rules S13): its lock says so to whoever would open it
//! anew (F24), and [`CountingDisk::silent_for`] for how long it has been so.
//!
//! What it costs: a change of threads and back for each request. So a disk without another that has the same is asked in
//! place, as it was before.

use std::io;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::turns::{as_aside, is_aside};
use crate::{AlignedBuf, CountingDisk, Disk, Durability, Fanout, Geometry, Patience, Work};

/// A disk whose requests may be left, from when on it was told by whom that is decided.
pub struct PatientDisk {
    disk: Arc<CountingDisk>,
    helpers: OnceLock<Helpers>,
}

struct Helpers {
    fanout: Arc<dyn Fanout>,
    patience: Arc<dyn Patience>,
}

impl PatientDisk {
    /// A disk that is waited for until it answers.
    #[must_use]
    pub fn new(disk: Arc<CountingDisk>) -> Self {
        Self { disk, helpers: OnceLock::new() }
    }

    /// From now on it is waited for as `patience` says. Only the first call counts.
    pub fn set_patience(&self, fanout: Arc<dyn Fanout>, patience: Arc<dyn Patience>) {
        let _first = self.helpers.set(Helpers { fanout, patience });
    }

    /// The disk below, which counts.
    #[must_use]
    pub fn counting(&self) -> &Arc<CountingDisk> {
        &self.disk
    }

    /// Begins to read `parts` from `offset` on in a thread of its own if there is one, else in place. `answer` gets them and
    /// the outcome; nobody need wait for it.
    pub fn begin_read(
        &self,
        offset: u64,
        mut parts: Vec<AlignedBuf>,
        answer: impl FnOnce(Vec<AlignedBuf>, io::Result<()>) + Send + 'static,
    ) {
        let (disk, is_aside) = (Arc::clone(&self.disk), is_aside());
        let work = Work::new(move || {
            let outcome = as_aside(is_aside, || match parts.as_mut_slice() {
                [one] => disk.read(offset, one),
                several => disk.read_parts(offset, several),
            });
            // Before the answer: see `fanout::help`.
            drop(disk);
            answer(parts, outcome);
            Ok(())
        });
        let unstarted = match self.helpers.get().filter(|helpers| helpers.patience.limit().has_owner()) {
            Some(helpers) => helpers.fanout.begin(work).err(),
            None => Some(work),
        };
        if let Some(work) = unstarted {
            // It tells by the answer how it went.
            let _told = work.run();
        }
    }

    /// Something to be done to it, which may be left.
    #[must_use]
    pub fn work(&self, what: impl FnOnce(&dyn Disk) -> io::Result<()> + Send + 'static) -> Work {
        let (disk, is_aside) = (Arc::clone(&self.disk) as Arc<dyn Disk>, is_aside());
        let what = move |disk: &dyn Disk| as_aside(is_aside, || what(disk));
        match self.helpers.get() {
            Some(helpers) => Work::on(&disk, Arc::clone(&helpers.patience), what),
            None => Work::new(move || what(disk.as_ref())),
        }
    }

    /// Has a helper do something.
    fn ask(&self, what: impl FnOnce(&dyn Disk) -> io::Result<()> + Send + 'static) -> io::Result<()> {
        let Some(helpers) = self.helpers.get() else { return what(self.disk.as_ref()) };
        let outcome = helpers.fanout.each(vec![self.work(what)]).pop();
        outcome.unwrap_or_else(|| Err(io::Error::other("nobody has asked the disk")))
    }

    /// Whether its requests may be left as things stand.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.helpers.get().is_some_and(|helpers| helpers.patience.limit().has_owner())
    }
}

impl Disk for PatientDisk {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if !self.is_limited() {
            return self.disk.read(offset, buf);
        }
        let slot = Arc::new(Mutex::new(None));
        let (filled, length) = (Arc::clone(&slot), buf.len());
        self.ask(move |disk| {
            let mut own = AlignedBuf::zeroed(length);
            disk.read(offset, &mut own)?;
            *filled.lock() = Some(own);
            Ok(())
        })?;
        let own = slot.lock().take().ok_or_else(|| io::Error::other("the read has brought nothing"))?;
        buf.copy_from_slice(&own);
        Ok(())
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        if !self.is_limited() {
            return self.disk.write(offset, buf, durability);
        }
        let own = AlignedBuf::copy_of(buf);
        self.ask(move |disk| disk.write(offset, &own, durability))
    }

    fn flush(&self) -> io::Result<()> {
        if self.is_limited() { self.ask(|disk| disk.flush()) } else { self.disk.flush() }
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        if !self.is_limited() {
            return self.disk.discard(offset, length);
        }
        self.ask(move |disk| disk.discard(offset, length))
    }

    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn devices(&self) -> Vec<u64> {
        self.disk.devices()
    }

    fn patient(&self) -> Option<(Arc<dyn Disk>, Arc<dyn Patience>)> {
        let helpers = self.helpers.get()?;
        Some((Arc::clone(&self.disk) as Arc<dyn Disk>, Arc::clone(&helpers.patience)))
    }
}
