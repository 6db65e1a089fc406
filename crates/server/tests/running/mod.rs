//! The whole daemon in this process, and commands to it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use clap::Parser;
use tally_disk::Opener;
use tally_fakes::MemOpener;
use tally_server::cli::{self, Cli, Console, Interrupts};
use tally_server::config::{Rpcbind, ServeArgs};
use tally_server::daemon::{Daemon, Launch, ServeError, Stopper, Told};

/// A daemon on its own thread.
pub(crate) struct Running {
    pub(crate) stopper: Stopper,
    thread: JoinHandle<Vec<String>>,
    /// Lines for whoever waits for the start.
    pub(crate) said: Vec<String>,
    pub(crate) announcement: String,
}

impl Running {
    pub(crate) fn start(data_dir: &Path, opener: &Arc<MemOpener>) -> Self {
        Self::try_start(data_dir, opener, &[]).unwrap_or_else(|error| panic!("the daemon does not start: {error}"))
    }

    /// With these places behind `--pool`, and with `tally.toml` in the directory if there is one.
    pub(crate) fn try_start(data_dir: &Path, opener: &Arc<MemOpener>, places: &[&Path]) -> Result<Self, ServeError> {
        let pool = places.iter().map(|place| place.to_path_buf()).collect();
        Self::start_with(ServeArgs { pool, ..Self::args(data_dir) }, Arc::clone(opener) as Arc<dyn Opener>)
    }

    pub(crate) fn args(data_dir: &Path) -> ServeArgs {
        ServeArgs {
            data_dir: Some(data_dir.into()),
            port: Some(0),
            listen: vec!["127.0.0.1".parse().unwrap()],
            http: Some("127.0.0.1:0".parse().unwrap()),
            // Tests beside each other would be found by each other.
            rpcbind: Some(Rpcbind::Off),
            size: Some("64M".parse().unwrap()),
            config: Some(data_dir.join("tally.toml")).filter(|file| file.exists()),
            ..ServeArgs::default()
        }
    }

    pub(crate) fn start_with(args: ServeArgs, opener: Arc<dyn Opener>) -> Result<Self, ServeError> {
        let mut said = Vec::new();
        let daemon = Daemon::start(Launch { args, opener, signals: false }, &mut |told| {
            if let Told::Line(line) = told {
                said.push(line.into());
            }
        })?;
        let (stopper, announcement) = (daemon.stopper(), daemon.announcement());
        Ok(Self { stopper, thread: thread::spawn(move || daemon.run()), said, announcement })
    }

    pub(crate) fn stop(self) {
        self.stopper.stop();
        assert_eq!(self.thread.join().unwrap(), Vec::<String>::new());
    }
}

/// Runs a command: whether it went well, and what it printed.
pub(crate) fn tally(data_dir: &Path, words: &[&str]) -> (bool, String) {
    let mut cli = Cli::try_parse_from(["tally"].iter().chain(words)).unwrap();
    cli.socket = Some(data_dir.join("tally.sock"));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let result = cli::run(&cli, data_dir, &mut Console { out: &mut out, err: &mut err, interrupts: Interrupts::Never });
    let text = String::from_utf8(out).unwrap() + &String::from_utf8(err).unwrap();
    match result {
        Ok(()) => (true, text),
        Err(failure) => (false, text + &failure.to_string()),
    }
}

/// One command after the other: each with whether it is to go well, and words that its answer must have.
pub(crate) fn story(data_dir: &Path, steps: &[(&[&str], bool, &[&str])]) {
    for (words, well, expected) in steps {
        let (went_well, text) = tally(data_dir, words);
        assert_eq!(went_well, *well, "{words:?}: {text}");
        for part in *expected {
            assert!(text.contains(part), "{words:?} does not say {part:?}: {text}");
        }
    }
}

/// The answer to a GET at the address that the announcement tells; empty if nobody answers.
pub(crate) fn browse(announcement: &str, path: &str) -> String {
    get(announcement, path).unwrap_or_default()
}

fn get(announcement: &str, path: &str) -> Option<String> {
    let (_, rest) = announcement.split_once("Dashboard: http://")?;
    let (host, _) = rest.split_once('/')?;
    let mut stream = TcpStream::connect(host).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
