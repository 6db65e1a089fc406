//! `cargo xtask dashboard`: the dashboard of a live server under load, in a headless Chromium. What the page says is
//! asserted; how it looks is left as pictures in target/dashboard for somebody to judge.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use tally_lab::tally::Tally;
use tally_lab::{cargo, packages};
use tally_yardsticks::load::{self, Load};
use tally_yardsticks::server::Server;

/// How long the load runs before anybody looks: some samples of two seconds.
const WARM_UP: Duration = Duration::from_secs(9);
/// Time that passes for the page; Chromium lets it pass faster while nothing is under way.
const PAGE_MS: u32 = 5000;
/// Pictures: name, width, height, and whether they are dark.
const PICTURES: [(&str, u32, u32, bool); 4] = [
    ("light", 1280, 1500, false),
    ("dark", 1280, 1500, true),
    ("phone", 360, 2700, false),
    ("phone-dark", 360, 2700, true),
];

/// Its sandbox does not work for root, nor does a small /dev/shm; and it sees nothing but our own page.
const SWITCHES: [&str; 4] = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];

/// What stands on the page of a server under load, whatever the figures.
const EXPECTED: [&str; 12] = [
    "class=\"live\">live, every 2 s",
    "Pool tank ",
    "<span class=\"state\">ONLINE</span>",
    "tally-data/tank.img",
    "tally-data/log.img",
    "class=\"groups\"",
    "class=\"syncing\"",
    "class=\"spark\"",
    "<th scope=\"row\">127.0.0.1</th>",
    "<th scope=\"row\">tank/scratch</th>",
    "<span class=\"alarm\">disabled</span>",
    " durable/s</div>",
];

/// What the task takes.
#[derive(Args)]
pub(crate) struct Options {
    /// Keep the load running for so many seconds before the pictures are taken.
    #[arg(long)]
    seconds: Option<u64>,
    /// Only what is asserted, no pictures.
    #[arg(long)]
    no_pictures: bool,
}

impl Options {
    /// As `cargo xtask test` has it.
    pub(crate) const fn continuous_integration() -> Self {
        Self { seconds: None, no_pictures: true }
    }

    /// Runs it; a skip without Chromium.
    pub(crate) fn run(&self) -> Result<Tally> {
        if !packages::ensure(&packages::DASHBOARD)? {
            return Ok(Tally::SKIPPED);
        }
        if !Browser::works()? {
            eprintln!("Chromium does not run on this machine: the dashboard is NOT looked at.");
            return Ok(Tally::SKIPPED);
        }
        let folder = cargo::target_folder().join("dashboard");
        std::fs::create_dir_all(&folder)?;
        let address = format!("127.0.0.1:{}", tally_lab::port::free_port()?);
        let binary = cargo::build_tally()?;
        let running = Server::tally_with(&binary, &folder, "2G", &["--http", &address])?;
        scratch(&binary, running.folder())?;
        let browser =
            Browser { url: format!("http://{address}/"), folder: &folder, profile: running.folder().join("browser") };
        under_load(&running, self.seconds.map_or(WARM_UP, Duration::from_secs), || self.look(&browser))
    }

    fn look(&self, browser: &Browser<'_>) -> Result<Tally> {
        let faults = browser.faults()?;
        for fault in &faults {
            eprintln!("dashboard: {fault}");
        }
        if !self.no_pictures {
            for (name, width, height, dark) in PICTURES {
                println!("{}", browser.picture(name, (width, height), dark)?.display());
            }
        }
        Ok(if faults.is_empty() { Tally { passed: 1, ..Tally::default() } } else { Tally::FAILED })
    }
}

/// A dataset that gives up its promise, which the page has to point at.
fn scratch(binary: &Path, folder: &Path) -> Result<()> {
    let mut command = Command::new(binary);
    command.current_dir(folder).args(["dataset", "create", "-o", "sync=disabled", "tank/scratch"]);
    cargo::step(&mut command)
}

/// Does something while clients unpack archives, one at a time and eight together.
fn under_load<T>(server: &Server, warm_up: Duration, then: impl FnOnce() -> Result<T>) -> Result<T> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let load = scope.spawn(|| -> Result<()> {
            while !stop.load(Ordering::Relaxed) {
                for connections in [1, 8] {
                    load::run(server.target(), Load::Untar, connections, 400)?;
                }
            }
            Ok(())
        });
        thread::sleep(warm_up);
        let done = then();
        stop.store(true, Ordering::Relaxed);
        load.join().map_err(|_| anyhow::anyhow!("the load panicked"))??;
        done
    })
}

/// A headless Chromium that is started anew for each look.
struct Browser<'a> {
    url: String,
    folder: &'a Path,
    profile: PathBuf,
}

impl Browser<'_> {
    /// Whether it shows an empty page: some machines lack what it needs, and that is no fault of ours.
    fn works() -> Result<bool> {
        let profile = tempfile::tempdir()?;
        let mut command = Command::new(packages::CHROMIUM);
        command.args(SWITCHES).arg(format!("--user-data-dir={}", profile.path().display()));
        command.args(["--dump-dom", "about:blank"]).stdin(Stdio::null());
        Ok(command.output().is_ok_and(|output| output.status.success()))
    }

    /// What the page lacks or complains of.
    fn faults(&self) -> Result<Vec<String>> {
        let output = self.run(&["--dump-dom"])?;
        let page = String::from_utf8_lossy(&output.stdout);
        let mut faults: Vec<String> = EXPECTED
            .iter()
            .filter(|expected| !page.contains(**expected))
            .map(|expected| format!("the page lacks {expected}"))
            .collect();
        if page.contains("data-failed") {
            faults.push("a script of the page has failed".into());
        }
        let calls = page.split_once("Calls</div><div class=\"value\">").and_then(|(_, rest)| rest.split('<').next());
        if calls.is_none_or(|calls| calls == "–" || calls == "0/s") {
            faults.push(format!("calls are {calls:?} under load"));
        }
        let log = String::from_utf8_lossy(&output.stderr);
        faults.extend(log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned));
        if !faults.is_empty() {
            std::fs::write(self.folder.join("page.html"), page.as_bytes())?;
        }
        Ok(faults)
    }

    fn picture(&self, name: &str, (width, height): (u32, u32), dark: bool) -> Result<PathBuf> {
        let path = self.folder.join(format!("{name}.png"));
        let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!dark));
        let size = format!("--window-size={width},{height}");
        self.run(&[&size, &scheme, "--hide-scrollbars", &format!("--screenshot={}", path.display())])?;
        Ok(path)
    }

    fn run(&self, arguments: &[&str]) -> Result<std::process::Output> {
        let mut command = Command::new(packages::CHROMIUM);
        command.args(SWITCHES).args(["--enable-logging=stderr", "--v=0"]);
        command.arg(format!("--user-data-dir={}", self.profile.display()));
        command.arg(format!("--virtual-time-budget={PAGE_MS}")).args(arguments).arg(&self.url).stdin(Stdio::null());
        let output = command.output().context("cannot start Chromium")?;
        ensure!(output.status.success(), "Chromium: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        Ok(output)
    }
}
