//! How a pool comes: made of disks, or imported, and then taken up.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tally_base::PoolGuid;
use tally_fs::filer::{CreateOptions, Filer, FilerError, ImportOptions, ImportReport, Suspended};
use tally_members::assemble::PoolSelect;
use tally_members::discover::ImportSource;
use tally_members::grammar::parse_vdev_args;
use tally_members::label::PoolConfig;
use tally_store::pool::RewindOrder;

use super::error::PoolsError;
use super::new_files::NewFile;
use super::pools::Pools;
use super::scrub;
use super::served::ServedPool;
use crate::control::message::{OnProgress, Progress};
use crate::control::report::EventClass;

/// How to import.
#[derive(Clone, Debug, Default)]
pub struct ImportOrder {
    /// Name or guid.
    pub pool: String,
    /// Files and disks to look at.
    pub paths: Vec<PathBuf>,
    /// Directories to look in.
    pub dirs: Vec<PathBuf>,
    /// Although it seems to be in use elsewhere.
    pub force: bool,
    /// Without writing.
    pub read_only: bool,
    /// Although acknowledged changes are lost.
    pub accept_loss: bool,
    /// Although it was destroyed.
    pub destroyed: bool,
    /// It was suspended here, and is to be as it was.
    pub resumes: Option<Suspended>,
    /// As it was in an older group.
    pub rewind: Option<RewindOrder>,
    /// Its mountpoints and shares hold on this machine from now on.
    pub accepts_mountpoints: bool,
}

impl ImportOrder {
    /// As the file system takes it.
    pub(super) const fn options(&self) -> ImportOptions {
        ImportOptions {
            force: self.force,
            read_only: self.read_only,
            accept_loss: self.accept_loss,
            destroyed: self.destroyed,
        }
    }

    /// Which pool it was that refused; who resumes one knows that.
    pub(super) fn not_imported(&self, error: FilerError) -> PoolsError {
        match error {
            FilerError::Open(_) | FilerError::Sync(_) if self.resumes.is_none() => {
                PoolsError::NotImported { name: self.pool.clone(), source: Box::new(error) }
            }
            error => error.into(),
        }
    }
}

impl Pools {
    /// Makes a pool of the words behind its name. Of its disks, `files` were made for it; they go again if there is no
    /// pool.
    pub fn create(
        &self,
        name: &str,
        words: &[String],
        options: &CreateOptions,
        mut files: Vec<NewFile>,
    ) -> Result<Arc<ServedPool>, PoolsError> {
        let specs = parse_vdev_args(words)?;
        self.check_not_imported(name)?;
        files.iter_mut().for_each(NewFile::let_go);
        let filer =
            Filer::create(&self.platform, &self.tuning, name, &specs, options).map_err(|error| match error {
                FilerError::Create(_) => error.into(),
                source => PoolsError::NotMade { name: name.into(), source: Box::new(source) },
            })?;
        files.into_iter().for_each(NewFile::keep);
        self.take_up(filer, Vec::new(), false, true)
    }

    /// Imports a pool and replays its log.
    pub fn import(
        &self,
        order: &ImportOrder,
        progress: OnProgress<'_>,
    ) -> Result<(Arc<ServedPool>, ImportReport), PoolsError> {
        self.import_after(order, progress, &|_| {})
    }

    /// The same; `before` hears which pool it is, before anybody is served.
    pub fn import_after(
        &self,
        order: &ImportOrder,
        progress: OnProgress<'_>,
        before: &dyn Fn(PoolGuid),
    ) -> Result<(Arc<ServedPool>, ImportReport), PoolsError> {
        let source = ImportSource { paths: order.paths.clone(), dirs: order.dirs.clone() };
        let select = select(&order.pool);
        self.name_is_free(&select, &source)?;
        let mut tell = |state: tally_fs::filer::Progress| {
            self.comes_on();
            progress(words(state));
        };
        let is_accepted = Cell::new(order.accepts_mountpoints);
        let asked = |config: &PoolConfig| is_accepted.set(order.accepts_mountpoints || self.accepts(config));
        let (filer, report) = loop {
            let read_in = self.read_in(&source, &select, &order.options(), order, &asked, &mut tell);
            match read_in.map_err(|error| order.not_imported(error)) {
                Err(error) if error.is_in_use() && self.may_be_closing() => {}
                read_in => break read_in?,
            }
        };
        let lost = if order.read_only { "missing" } else { "given up at the import" };
        let losses = report.losses.iter().map(|loss| format!("{lost}: {loss}"));
        let remarks = report.remarks.iter().cloned().chain(losses).collect();
        before(filer.pool().guid());
        let pool = self.take_up(filer, remarks, order.read_only, is_accepted.get())?;
        scrub::resume(&pool);
        Ok((pool, report))
    }

    /// The import itself. `asked` hears what the disks say before they are claimed.
    pub(super) fn read_in(
        &self,
        source: &ImportSource,
        select: &PoolSelect,
        options: &ImportOptions,
        order: &ImportOrder,
        asked: &dyn Fn(&PoolConfig),
        tell: &mut dyn FnMut(tally_fs::filer::Progress),
    ) -> Result<(Arc<Filer>, ImportReport), FilerError> {
        let (platform, tuning) = (&self.platform, &self.tuning);
        match (order.rewind, &order.resumes) {
            (Some(rewind), _) => Filer::go_back(platform, tuning, source, select, options, (rewind, asked), tell),
            (None, Some(suspended)) => Filer::resume(platform, tuning, source, select, suspended, tell),
            (None, None) => {
                let handed_over = |config: &PoolConfig| {
                    asked(config);
                    self.absent.handed_over(config.pool)
                };
                Filer::take_over(platform, tuning, source, select, options, &handed_over, tell)
            }
        }
    }

    /// Two imported pools cannot have one name: commands and paths go by it.
    pub(super) fn name_is_free(&self, pool: &PoolSelect, source: &ImportSource) -> Result<(), PoolsError> {
        let imported = self.all();
        let is_it = |served: &&Arc<ServedPool>| match pool {
            PoolSelect::Name(name) => served.filer.name() == *name,
            PoolSelect::Guid(guid) => served.guid() == *guid,
        };
        if let Some(served) = imported.iter().find(is_it) {
            return Err(PoolsError::Imported { name: served.filer.name() });
        }
        let PoolSelect::Guid(guid) = pool else { return Ok(()) };
        if imported.is_empty() {
            return Ok(());
        }
        // Whatever is wrong there the import itself tells.
        let (found, _) = self.look(source).unwrap_or_default();
        match found.into_iter().find(|found| found.guid == guid.to_string() && self.pool(&found.name).is_ok()) {
            Some(found) => Err(PoolsError::Imported { name: found.name }),
            None => Ok(()),
        }
    }

    /// Starts a pool's threads, serves it, and writes it down for the next start.
    fn take_up(
        &self,
        filer: Arc<Filer>,
        remarks: Vec<String>,
        read_only: bool,
        is_accepted: bool,
    ) -> Result<Arc<ServedPool>, PoolsError> {
        let pool = ServedPool::start(filer, remarks, read_only).map_err(PoolsError::Thread)?;
        if self.lease.is_none() {
            pool.filer.hold_for_nobody();
            if !read_only && let Err(error) = pool.filer.forget_clients() {
                let name = pool.filer.name();
                tracing::warn!(pool = name, %error, "clients of NFSv4 may claim again what others change meanwhile");
            }
        } else if !read_only && let Err(error) = pool.filer.make_clients() {
            let name = pool.filer.name();
            tracing::warn!(pool = name, %error, "what clients have open cannot be claimed again behind a restart");
        }
        pool.is_accepted.store(is_accepted, Ordering::Relaxed);
        self.served.write().push(Arc::clone(&pool));
        self.absent.forget(pool.guid());
        self.refresh_exports();
        // What programs had open and locked of it, before a client comes.
        self.mounts.take_over();
        pool.may_hold.store(true, Ordering::Relaxed);
        let name = pool.filer.name();
        self.events.recall(&name, pool.filer.pool().events());
        self.tell(&name, EventClass::PoolImport, "it is imported".into());
        // It serves, whatever becomes of the list: whoever asked for it is told.
        let _told_later = self.remember(&pool);
        Ok(pool)
    }
}

/// A word that has the form of a guid is one: names of pools do not begin with a digit, and 16 letters from a to f
/// are no name that anybody has chosen.
pub(super) fn select(word: &str) -> PoolSelect {
    let guid = (word.len() == 16).then(|| u64::from_str_radix(word, 16).ok()).flatten();
    guid.map_or_else(|| PoolSelect::Name(word.into()), |guid| PoolSelect::Guid(PoolGuid(guid)))
}

pub(super) fn words(state: tally_fs::filer::Progress) -> Progress {
    match state {
        tally_fs::filer::Progress::Scanned(done) => Progress { what: "reading the log".into(), done, total: 0 },
        tally_fs::filer::Progress::Replayed(done, total) => Progress { what: "replaying".into(), done, total },
    }
}
