//! A database on the mount: PostgreSQL, of the machine's own packages, under pgbench and under programs that write down which rows were committed to them. A kill takes the server's
//! disks from under it as a power cut would; behind it each committed row is there, none that nobody wrote, the books of pgbench agree, and no page fails its checksum.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::{Mount, joined};
use crate::child::Server;
use crate::client::Counts;
use crate::ledger::{Plan, Verdict, kill_by_kill};

/// Programs that commit row by row.
const WRITERS: u32 = 4;
/// Longest load before a kill.
const LOAD_MS_MAX: u64 = 3000;
/// How long the database may take to start, with what it has to do behind a cut.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// It does not run as root.
const NOBODY: u32 = 65534;
/// What it is told. Checkpoints come often, so that cuts fall into some.
const SETTINGS: [&str; 5] =
    ["listen_addresses=", "checkpoint_timeout=30s", "max_wal_size=32MB", "shared_buffers=32MB", "log_checkpoints=off"];
const BOOKS: &str = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history) \
    AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history) \
    AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)";

/// Runs a plan in `folder`; `command` is the program `tally`, which mounts. An error is a fault of the surroundings.
pub fn run(plan: &Plan, command: &Path, folder: &Path) -> Result<Verdict> {
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    let mut server = Server::new(plan.program.clone(), folder)?;
    let mount = Mount::new(command, folder)?;
    mount.first(&mut server)?;
    let mut database = Database::new(folder, &mount.dir)?;
    database.make()?;
    let mut committed = vec![0; WRITERS as usize];
    kill_by_kill(plan, &mut server, |server, random, round| {
        let load = Duration::from_millis(100 + random.below(LOAD_MS_MAX));
        let before: u64 = committed.iter().sum();
        database.work(load, &mut committed, server)?;
        database.end(Signal::QUIT)?;
        mount.end()?;
        server.start()?;
        // A pool that is not there any more has kept nothing.
        let looked = mount.make().and_then(|()| database.start()).and_then(|()| database.look(&mut committed));
        eprintln!("kill {round}: {} ms, {committed:?} rows committed", load.as_millis());
        let answered = committed.iter().sum::<u64>().saturating_sub(before);
        Ok(match looked {
            Ok(compared) => Ok(Counts { answered, compared, ..Counts::default() }),
            Err(error) => Err(format!("{error:#}\nthe database said last:\n{}", database.messages())),
        })
    })
}

struct Database {
    programs: PathBuf,
    data: PathBuf,
    socket: PathBuf,
    log: PathBuf,
    child: Option<Child>,
}

impl Database {
    fn new(folder: &Path, mounted: &Path) -> Result<Self> {
        let (data, socket) = (mounted.join("database"), folder.join("socket"));
        for dir in [&data, &socket] {
            fs::create_dir(dir)?;
            chown(dir, Some(NOBODY), Some(NOBODY))?;
            fs::set_permissions(dir, Permissions::from_mode(0o700))?;
        }
        Ok(Self { programs: programs()?, data, socket, log: folder.join("database.log"), child: None })
    }

    fn command(&self, name: &str) -> Result<Command> {
        let mut command = Command::new(self.programs.join(name));
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        command.uid(NOBODY).gid(NOBODY).env("LC_ALL", "C").env("PGHOST", &self.socket).env("PGUSER", "postgres");
        command
            .env("PGDATABASE", "postgres")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(command)
    }

    fn done(&self, name: &str, words: &[&str]) -> Result<()> {
        let status = self.command(name)?.args(words).status()?;
        ensure!(status.success(), "{name} ends with {status}");
        Ok(())
    }

    /// A database with checksums, the tables of pgbench, and one of what was promised.
    fn make(&mut self) -> Result<()> {
        let data = self.data.to_string_lossy().into_owned();
        let made = self.done("initdb", &["--data-checksums", "--username", "postgres", "--pgdata", &data]);
        made.with_context(|| self.messages())?;
        self.start()?;
        self.asked("CREATE TABLE promised (writer int, n bigint, filler text, PRIMARY KEY (writer, n))")?;
        self.done("pgbench", &["--initialize", "--quiet", "--scale", "2"])
    }

    fn start(&mut self) -> Result<()> {
        let mut command = self.command("postgres")?;
        command.arg("-D").arg(&self.data).args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        command.arg("-c").arg(format!("unix_socket_directories={}", self.socket.display()));
        let mut child = command.spawn()?;
        let given_up = Instant::now() + START_TIMEOUT;
        while self.asked("SELECT 1").is_err() {
            if let Some(status) = child.try_wait()? {
                bail!("the database ends with {status}");
            }
            ensure!(Instant::now() < given_up, "the database does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        self.child = Some(child);
        Ok(())
    }

    fn end(&mut self, by: Signal) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        kill_process(Pid::from_child(&child), by)?;
        child.wait()?;
        Ok(())
    }

    /// One answer of one column.
    fn asked(&self, question: &str) -> Result<String> {
        let mut command = self.command("psql")?;
        command.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--command", question]);
        let output = command.stdout(Stdio::piped()).output()?;
        ensure!(output.status.success(), "psql ends with {}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Commits rows beside pgbench, until the server is killed.
    fn work(&self, load: Duration, committed: &mut [u64], server: &mut Server) -> Result<()> {
        let mut bench = self.command("pgbench")?;
        let mut bench = bench.args(["--client", "4", "--time", "3600", "--no-vacuum"]).stdout(Stdio::null()).spawn()?;
        let written = std::thread::scope(|scope| -> Result<_> {
            let mut writers = Vec::new();
            for (writer, last) in committed.iter_mut().enumerate() {
                let psql = self.writer()?;
                let work = move || commit_rows(psql, writer, last).map_err(|error| format!("{error:#}"));
                writers.push(scope.spawn(work));
            }
            std::thread::sleep(load);
            server.kill()?;
            joined(writers)
        });
        // It may have ended, as its connections have.
        let _ = bench.kill();
        bench.wait()?;
        written?.map(drop).map_err(anyhow::Error::msg)
    }

    fn writer(&self) -> Result<Child> {
        let mut command = self.command("psql")?;
        command.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set", "ON_ERROR_STOP=1"]);
        Ok(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?)
    }

    /// Everything that was committed is there. How many rows were.
    fn look(&mut self, committed: &mut [u64]) -> Result<u64> {
        for (writer, last) in committed.iter_mut().enumerate() {
            let there =
                self.asked(&format!("SELECT count(*) FROM promised WHERE writer = {writer} AND n <= {last}"))?;
            ensure!(there == last.to_string(), "writer {writer} was told of {last} rows, and {there} are there");
            // The one that was under way may be there, too.
            let all: u64 = self.asked(&format!("SELECT count(*) FROM promised WHERE writer = {writer}"))?.parse()?;
            ensure!(all <= *last + 1, "writer {writer} was told of {last} rows, and {all} are there");
            *last = all;
        }
        ensure!(self.asked(BOOKS)? == "t", "the books of pgbench do not agree");
        self.end(Signal::INT)?;
        self.done("pg_checksums", &["--check", "--pgdata", &self.data.to_string_lossy()])?;
        self.start()?;
        Ok(committed.iter().sum())
    }

    fn messages(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The run is over.
        let _ = self.end(Signal::QUIT);
    }
}

/// Row by row, each once the one before is committed. The answer comes behind the commit.
fn commit_rows(mut psql: Child, writer: usize, last: &mut u64) -> Result<u64> {
    let mut asks = psql.stdin.take().context("no way to ask")?;
    let mut answers = BufReader::new(psql.stdout.take().context("no answers")?);
    let mut line = String::new();
    loop {
        let next = *last + 1;
        // A connection that has ended takes no more.
        if writeln!(asks, "INSERT INTO promised VALUES ({writer}, {next}, repeat('x', 100)) RETURNING n;").is_err() {
            break;
        }
        line.clear();
        if answers.read_line(&mut line)? == 0 {
            break;
        }
        ensure!(line.trim() == next.to_string(), "writer {writer} is answered {line:?} to row {next}");
        *last = next;
    }
    drop(asks);
    psql.wait()?;
    Ok(*last)
}

/// Debian has the programs of each version in a folder of its own.
fn programs() -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").map(Iterator::flatten).into_iter().flatten();
    let found = versions.map(|version| version.path().join("bin")).filter(|path| path.join("postgres").is_file()).max();
    found.context("there is no PostgreSQL here: apt-get install postgresql")
}
