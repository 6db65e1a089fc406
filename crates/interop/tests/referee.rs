//! `tally bench` against the real daemon, over disks in memory, with the daemon's own counters: honest where it keeps
//! its word, found out by name where it was told not to.

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use clap::Parser;
use tally_bench::referee::Verdict;
use tally_bench::report::Report;
use tally_bench::wire::{Connection, Target};
use tally_disk::Opener;
use tally_fakes::MemOpener;
use tally_server::cli::{self, Cli, Console, Interrupts};
use tally_server::config::ServeArgs;
use tally_server::daemon::{Daemon, Launch, Stopper};

/// A daemon on its own thread, with a pool that it has made.
struct Server {
    folder: tempfile::TempDir,
    port: u16,
    stopper: Stopper,
    thread: JoinHandle<Vec<String>>,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let args = ServeArgs {
            data_dir: Some(folder.path().into()),
            port: Some(0),
            listen: vec!["127.0.0.1".parse().unwrap()],
            size: Some("256M".parse().unwrap()),
            ..ServeArgs::default()
        };
        let opener: Arc<dyn Opener> = Arc::new(MemOpener::default());
        let daemon = Daemon::start(Launch { args, opener, signals: false }, &mut |_| {});
        let daemon = daemon.unwrap_or_else(|error| panic!("the daemon does not start: {error}"));
        let port = port(&daemon.announcement());
        let stopper = daemon.stopper();
        Self { folder, port, stopper, thread: thread::spawn(move || daemon.run()) }
    }

    fn command(&self, words: &[&str]) -> Result<String, String> {
        tally(self.folder.path(), words)
    }

    /// A benchmark of an export, run once.
    fn bench(&self, export: &str, words: &[&str]) -> Report {
        let url = format!("nfs://127.0.0.1:{}{export}", self.port);
        let how = ["--target", &url, "--runs", "1", "--quiet", "0", "--json"];
        let text = self.command(&[&["bench"], words, &how[..]].concat()).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Names in the root of an export.
    fn names(&self, export: &str) -> u64 {
        let address = ([127, 0, 0, 1], self.port).into();
        let root = Connection::mount(&Target { nfs: address, mount: address, export: export.into() }).unwrap();
        Connection::open(address).unwrap().list(&root).unwrap()
    }

    fn stop(self) {
        self.stopper.stop();
        assert_eq!(self.thread.join().unwrap(), Vec::<String>::new());
    }
}

/// The port that the kernel has chosen, out of what the daemon tells the person who started it.
fn port(announcement: &str) -> u16 {
    let behind = announcement.split("port ").nth(1).unwrap();
    behind.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

fn tally(folder: &Path, words: &[&str]) -> Result<String, String> {
    let mut cli = Cli::try_parse_from(["tally"].iter().chain(words)).unwrap();
    cli.socket = Some(folder.join("tally.sock"));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    match cli::run(&cli, folder, &mut Console { out: &mut out, err: &mut err, interrupts: Interrupts::Never }) {
        Ok(()) => Ok(String::from_utf8(out).unwrap()),
        Err(failure) => Err(failure.to_string()),
    }
}

#[test]
fn a_server_that_keeps_its_word_is_honest_and_one_that_was_told_not_to_is_found_out() {
    let server = Server::start();
    server.command(&["dataset", "create", "-o", "sync=disabled", "tank/careless"]).unwrap();

    let honest = server.bench("/tank", &["untar", "--files", "64"]);
    assert_eq!((&honest.verdict, honest.collapsed), (&Verdict::Honest, false));
    let figure = &honest.figures[0];
    // A folder with three settings, and six requests for each file; each is a durable write of the log.
    assert_eq!((figure.promises, figure.promised_bytes), (4 + 64 * 6, 64 * 4096));
    let work = figure.work.unwrap();
    assert!(work.durable_events >= figure.promises, "{work:?}");
    assert!(
        work.log.unwrap().frames >= figure.promises && work.log.unwrap().bytes >= figure.promised_bytes,
        "{work:?}"
    );
    let kinds = &honest.runs[0].findings.as_ref().unwrap().kinds;
    assert!(kinds.iter().all(|kind| kind.replies == 200 && kind.durable >= 196), "{kinds:?}");
    assert_eq!(kinds.len(), 13);

    let careless = server.bench("/tank/careless", &["loop", "--rounds", "256"]);
    let Verdict::NotDurable { kinds } = &careless.verdict else { panic!("{:?}", careless.verdict) };
    let names: Vec<&str> = kinds.iter().filter_map(|kind| kind.split(':').next()).collect();
    for name in ["CREATE", "SETATTR", "WRITE FILE_SYNC", "COMMIT", "MKDIR", "RENAME", "REMOVE"] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    assert!(careless.collapsed, "{:?}", careless.figures);
    assert!(!careless.may_be_ranked() && honest.may_be_ranked());

    // Both have removed what they made.
    assert_eq!((server.names("/tank"), server.names("/tank/careless")), (2, 2));
    server.stop();
}

#[test]
fn every_case_runs() {
    let server = Server::start();
    let cases: [(&[&str], &[&str]); 5] = [
        (&["untar", "--files", "65", "--as", "user"], &["untar"]),
        (&["copy"], &["copy"]),
        (&["library", "--files", "1500"], &["library", "list"]),
        (&["create", "--files", "64", "--connections", "1,8"], &["create x1", "create x8"]),
        (&["seq", "--size", "20M"], &["write", "read"]),
    ];
    for (words, parts) in cases {
        // Without a daemon to ask, there is nobody to watch, and no probe.
        let url = format!("nfs://127.0.0.1:{}/tank", server.port);
        let elsewhere = tempfile::tempdir().unwrap();
        let how = ["--target", &url, "--runs", "1", "--json"];
        let text = tally(elsewhere.path(), &[&["bench"], words, &how[..]].concat()).unwrap();
        let report: Report = serde_json::from_str(&text).unwrap();
        let found: Vec<&str> = report.figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(found, parts);
        assert!(matches!(report.verdict, Verdict::Unverified { .. }), "{:?}", report.verdict);
        assert!(report.figures.iter().all(|figure| figure.median > 0.0 && figure.work.is_none()));
    }
    assert_eq!(server.names("/tank"), 2);
    server.stop();
}

#[test]
fn what_cannot_be_done_is_said_and_leaves_nothing_behind() {
    let server = Server::start();
    for (dataset, property) in [("tank/closed", "readonly=on"), ("tank/narrow", "refquota=1M")] {
        server.command(&["dataset", "create", "-o", property, dataset]).unwrap();
    }
    let refused = |export: &str, words: &[&str]| {
        let url = format!("nfs://127.0.0.1:{}{export}", server.port);
        server.command(&[&["bench"], words, &["--target", &url, "--runs", "1"][..]].concat()).unwrap_err()
    };
    let cases =
        [("/nowhere", "does not export it"), ("/tank/closed", "NFS3ERR_ROFS"), ("/tank/narrow", "NFS3ERR_DQUOT")];
    for (export, expected) in cases {
        let error = refused(export, &["untar", "--files", "1000"]);
        assert!(error.contains(expected), "{export}: {error}");
    }
    assert_eq!((server.names("/tank/closed"), server.names("/tank/narrow")), (2, 2));
    server.stop();
}
