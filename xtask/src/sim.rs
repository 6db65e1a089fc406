//! `cargo xtask sim`: the simulated world, and the bugs that it must catch.
//!
//! A planted bug is a patch under `crates/sim/planted` that breaks one promise. Its first paragraph says which. It is
//! applied to a copy of the tree, the copy's `sim` is built and run, and must fail within so many seeds. A bug that
//! takes two requests at once, or something that the simulated world does not have, names the arguments of the `cargo
//! test` that must fail instead, on a line that begins with [`BY_TEST`].
//!
//! All of them are planted in one copy, with one folder for what is built. A file that is put back counts as changed,
//! as it must: with its old time cargo would take what was built with the bug for what it is without it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use tally_lab::cargo;
use tally_lab::tally::Tally;

use crate::test::timed;

/// What a patch says before the test that catches it.
const BY_TEST: &str = "Test: ";
/// Seeds within which a planted bug must be caught.
const SEEDS_MAX: u64 = 2000;
/// A test whose threads have to meet in the right moment runs so often. On processors that are busy otherwise they meet
/// less: once the first run missed its bug. Without the bug it is run as often, and must succeed each time: a test that
/// fails now and then would catch anything.
const TEST_RUNS: u32 = 10;
/// Patches that continuous integration tries, in rotation. They share what is built, so that each costs what it
/// touches: up to a minute on two processors, and two minutes more for the first one. On a machine that is slower, or whose crates
/// had to be built first, there are fewer, and [`CI_PATCHES_MIN`] in any case.
const CI_PATCHES_MAX: usize = 7;
const CI_PATCHES_MIN: usize = 2;
/// What a planted bug takes there, reckoned high.
const CI_PATCH_TIME: Duration = Duration::from_secs(90);
/// When the last of them is to be over. All of it may take 45 minutes, of which what builds this program has the first ones, and one that is caught by many histories takes four
/// of its own.
const CI_TIME: Duration = Duration::from_secs(39 * 60);
/// Seeds of continuous integration.
const CI_SEEDS: u64 = 200;
/// States behind a cut of short sequences, there.
const CI_STATES: &str = "20000";
/// How long a planted bug may stay in hiding.
const HIDING_MAX: Duration = Duration::from_secs(900);

/// What `sim` takes.
#[derive(Args)]
pub(crate) struct Sim {
    /// Plant bugs in copies of the tree: these, or all of them.
    #[arg(long, num_args = 0.., value_name = "PATCH")]
    planted: Option<Vec<String>>,
    /// What the simulator itself takes, see `-- --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

impl Sim {
    pub(crate) fn run(&self) -> Result<()> {
        match &self.planted {
            None => {
                ensure!(
                    simulate("sim", &self.rest)?,
                    "the simulated world found something; it says above how to repeat it"
                )
            }
            Some(names) => return plant(&chosen(names)?, 0)?.into_result(),
        }
        Ok(())
    }
}

/// What `cuts` takes.
#[derive(Args)]
pub(crate) struct Cuts {
    /// What the command itself takes, see `-- --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

impl Cuts {
    pub(crate) fn run(&self) -> Result<()> {
        ensure!(simulate("cuts", &self.rest)?, "a power cut costs a promise; it says above how to repeat it");
        Ok(())
    }
}

/// What `holding` takes.
#[derive(Args)]
pub(crate) struct Holding {
    /// What the command itself takes, see `-- --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

impl Holding {
    pub(crate) fn run(&self) -> Result<()> {
        ensure!(simulate("holding", &self.rest)?, "a client was lied to; it says above how to repeat it");
        Ok(())
    }
}

/// The share of continuous integration.
pub(crate) fn continuous_integration(began: Instant) -> Result<Tally> {
    let mut tally = Tally::default();
    let seeds_held = simulate("sim", &["--seeds".to_owned(), CI_SEEDS.to_string()])?;
    let cuts_held = simulate("cuts", &["--states", CI_STATES].map(str::to_owned))?;
    for held in [seeds_held, cuts_held] {
        tally += if held { Tally { passed: 1, ..Tally::default() } } else { Tally::FAILED };
    }
    let patches = patches()?;
    let start = rotation() % patches.len();
    let count = patches_in(CI_TIME.saturating_sub(began.elapsed()));
    eprintln!("{count} of {} planted bugs are tried, from number {} on.", patches.len(), start + 1);
    let today: Vec<PathBuf> = patches.iter().cycle().skip(start).take(count).cloned().collect();
    tally += timed("planted bugs", || plant(&today, if seeds_held { CI_SEEDS } else { 0 }))?;
    Ok(tally)
}

/// For how many planted bugs there is time.
fn patches_in(left: Duration) -> usize {
    let fit = left.as_secs() / CI_PATCH_TIME.as_secs();
    usize::try_from(fit).unwrap_or(usize::MAX).clamp(CI_PATCHES_MIN, CI_PATCHES_MAX)
}

/// Runs a command of the simulated world; tells whether everything held.
fn simulate(command: &str, arguments: &[String]) -> Result<bool> {
    build()?;
    let mut command = Command::new(cargo::target_folder().join("release").join(command));
    cargo::watch(command.args(arguments), |_| {})
}

/// Builds the commands of the simulated world. The server is chosen with them, and not built: with its features the engine is the one
/// that other tests have built, and without them it would be built once more.
fn build() -> Result<()> {
    let packages = ["--package", "tally-sim", "--package", "tally-server"];
    cargo::run(
        &[&["build", "--release"], &packages[..], &["--bin", "sim", "--bin", "cuts", "--bin", "holding"]].concat(),
    )
}

/// Every patch, by name.
fn patches() -> Result<Vec<PathBuf>> {
    let folder = cargo::workspace().join("crates/sim/planted");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let mut patches: Vec<_> =
        paths.into_iter().filter(|path| path.extension().is_some_and(|is| is == "patch")).collect();
    patches.sort();
    ensure!(!patches.is_empty(), "{} holds no patch", folder.display());
    Ok(patches)
}

fn chosen(names: &[String]) -> Result<Vec<PathBuf>> {
    let patches = patches()?;
    if names.is_empty() {
        return Ok(patches);
    }
    let find = |name: &String| {
        let found = patches.iter().find(|path| name_of(path) == *name).cloned();
        found.with_context(|| format!("there is no planted bug {name:?}"))
    };
    names.iter().map(find).collect()
}

fn name_of(patch: &Path) -> String {
    patch.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Another number for each commit.
fn rotation() -> usize {
    let head = Command::new("git").current_dir(cargo::workspace()).args(["rev-parse", "--short=7", "HEAD"]).output();
    let text = head.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    usize::from_str_radix(&text, 16).unwrap_or(0)
}

/// Plants each of them, and says by what it was caught. The first `seeds_held` seeds are known to find nothing in the
/// tree as it is.
fn plant(patches: &[PathBuf], seeds_held: u64) -> Result<Tally> {
    let tests = patches.iter().map(|patch| test_of(patch)).collect::<Result<Vec<_>>>()?;
    if tests.contains(&None) {
        // What the simulator catches must not be caught without the bug.
        build()?;
    }
    let copy = Copy::make()?;
    for patch in self::patches()? {
        copy.apply(&patch, &["--check"])?;
    }
    let mut tally = Tally::default();
    for patch in in_order_of_building(patches)? {
        let (name, started) = (name_of(&patch), Instant::now());
        match copy.try_out(&patch).with_context(|| format!("planting {name}"))? {
            Some(caught) => {
                caught.holds_without(seeds_held)?;
                tally.passed += 1;
                let seconds = started.elapsed().as_secs();
                println!("{name}: caught {}: {} ({seconds} s)", caught.by, caught.check);
            }
            None => {
                tally.failed += 1;
                println!("{name}: NOT caught within {SEEDS_MAX} seeds, or {TEST_RUNS} runs of its test");
            }
        }
    }
    Ok(tally)
}

/// What is touched is built again twice, with the bug and behind it: so those of one file come one after the other, and
/// those that have a test, which is built with other crates, after all that the simulator catches.
fn in_order_of_building(patches: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut keyed = Vec::new();
    for patch in patches {
        let text = std::fs::read_to_string(patch)?;
        let files: Vec<String> = text.lines().filter_map(|line| Some(line.strip_prefix("+++ ")?.to_owned())).collect();
        keyed.push((test_of(patch)?, files, patch.clone()));
    }
    keyed.sort();
    Ok(keyed.into_iter().map(|(_, _, patch)| patch).collect())
}

/// How a planted bug was caught.
struct Caught {
    by: String,
    check: String,
    /// What must succeed without it.
    control: Control,
}

/// As much as was tried with a bug, without it.
enum Control {
    /// Seeds from the first to this one. Each repeats itself to the byte, so that once is enough.
    Seeds(u64),
    /// A test's arguments. It has threads and may differ from run to run.
    Test(Vec<String>),
}

impl Caught {
    /// What has caught a bug must succeed without it: else it has found something of its own.
    fn holds_without(&self, seeds_held: u64) -> Result<()> {
        let (mut command, runs) = match &self.control {
            Control::Seeds(last) if *last < seeds_held => return Ok(()),
            Control::Seeds(last) => {
                let mut sim = Command::new(cargo::target_folder().join("release/sim"));
                sim.args(["--no-shrink", "--from", &seeds_held.to_string()]);
                sim.args(["--seeds", &(last + 1 - seeds_held).to_string()]);
                (sim, 1)
            }
            Control::Test(arguments) => {
                // A tree that does not compile says nothing of the test.
                cargo::run(&["test", "--workspace", "--no-run", "--quiet"])?;
                let mut test = cargo::command(&["test"]);
                test.args(as_in_the_workspace(arguments));
                (test, TEST_RUNS)
            }
        };
        command.stdout(Stdio::null()).stderr(Stdio::null());
        for run in 1..=runs {
            let held = command.status()?.success();
            ensure!(held, "{command:?} fails without the planted bug, too, in run {run}: {}", self.check);
        }
        Ok(())
    }
}

/// The same test as one of all: so it is built already where those were, and chosen with its package alone it would be built once
/// more, with all below it, as features differ. A library's tests have no name of their own by which to choose them.
fn as_in_the_workspace(arguments: &[String]) -> Vec<&str> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["-p", _, "--test", rest @ ..] => [&["--workspace", "--test"], rest].concat(),
        others => others.to_vec(),
    }
}

/// The arguments of the test that a patch names, if it names one.
fn test_of(patch: &Path) -> Result<Option<Vec<String>>> {
    let text = std::fs::read_to_string(patch)?;
    let line = text.lines().take_while(|line| !line.starts_with("diff ")).find_map(|line| line.strip_prefix(BY_TEST));
    Ok(line.map(|arguments| arguments.split_whitespace().map(str::to_owned).collect()))
}

/// Gives a new folder of builds what an old one has of other people's crates, by hard links: they are the same wherever the tree lies.
pub(crate) fn lend(from: &Path, to: &Path) -> std::io::Result<()> {
    const OWN: [&str; 4] = ["tally", "libtally", "xtask", "libxtask"];
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name().to_string_lossy().into_owned(), entry.file_type()?);
        // The lock is a file like others, and each folder has its own.
        if name == "incremental" || name == ".cargo-lock" || OWN.iter().any(|own| name.starts_with(own)) {
            continue;
        }
        if kind.is_dir() {
            lend(&entry.path(), &to.join(&name))?;
        } else if kind.is_file() {
            std::fs::hard_link(entry.path(), to.join(&name))?;
        }
    }
    Ok(())
}

/// A copy of the tree.
struct Copy {
    tree: PathBuf,
    build: PathBuf,
}

impl Copy {
    fn make() -> Result<Self> {
        // A folder of its own for what is built: in a common one cargo takes the copy's crates for those of the
        // checkout, and looks for changes in the copy alone.
        let target = cargo::target_folder();
        let copy = Self { tree: target.join("planted"), build: target.join("planted-build") };
        let source = cargo::workspace();
        let listed = Command::new("git").current_dir(&source).args(["ls-files", "-z"]).output()?;
        ensure!(listed.status.success(), "git cannot list the files of {}", source.display());
        let listed = String::from_utf8(listed.stdout)?;
        let names: BTreeSet<&Path> = listed.split('\0').filter(|name| !name.is_empty()).map(Path::new).collect();
        copy.prune(&copy.tree, &names)?;
        for name in names {
            let (from, to) = (source.join(name), copy.tree.join(name));
            // A file that is as it was keeps its time, so that little is built again.
            let Ok(content) = std::fs::read(&from) else { continue };
            if std::fs::read(&to).is_ok_and(|there| there == content) {
                continue;
            }
            std::fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
            std::fs::write(&to, content)?;
        }
        if !copy.build.exists() {
            // What is missing is built.
            let _quicker = lend(&target.join("debug"), &copy.build.join("debug"));
        }
        Ok(copy)
    }

    /// Removes files that the tree no longer has.
    fn prune(&self, folder: &Path, names: &BTreeSet<&Path>) -> Result<()> {
        let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
        for entry in entries {
            let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
            if kind.is_dir() {
                self.prune(&path, names)?;
            } else if !names.contains(path.strip_prefix(&self.tree)?) {
                std::fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    /// `None`: nothing was noticed.
    fn try_out(&self, patch: &Path) -> Result<Option<Caught>> {
        self.apply(patch, &[])?;
        let caught = match test_of(patch)? {
            Some(arguments) => self.test(&arguments),
            None => self.build().and_then(|()| self.run()),
        };
        self.apply(patch, &["--reverse"])?;
        caught
    }

    fn apply(&self, patch: &Path, how: &[&str]) -> Result<()> {
        let mut git = Command::new("git");
        // The copy lies inside of the checkout, and is no part of it.
        git.current_dir(&self.tree).env("GIT_CEILING_DIRECTORIES", self.tree.parent().unwrap_or(&self.tree));
        let status = git.arg("apply").args(how).arg(patch).status()?;
        ensure!(
            status.success(),
            "{} no longer applies: bring it up to date with the code that it breaks",
            patch.display()
        );
        Ok(())
    }

    fn build(&self) -> Result<()> {
        let mut command = cargo::command(&["build", "--package", "tally-sim", "--bin", "sim"]);
        cargo::step(command.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.build))
    }

    /// Runs a test that must fail. One that cannot be built fails otherwise.
    fn test(&self, arguments: &[String]) -> Result<Option<Caught>> {
        let mut command = cargo::command(&["test"]);
        command.args(arguments).current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.build);
        let mut runs = 1..=TEST_RUNS;
        let (run, output) = loop {
            let Some(run) = runs.next() else { return Ok(None) };
            let output = command.output()?;
            if !output.status.success() {
                break (run, output);
            }
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            text.contains("test result: FAILED"),
            "the test does not run: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let mut lines = text.lines().skip_while(|line| !line.contains("panicked at"));
        let check = lines.nth(1).unwrap_or("it failed").to_owned();
        let by = format!("by cargo test {}, run {run}", arguments.join(" "));
        Ok(Some(Caught { by, check, control: Control::Test(arguments.to_vec()) }))
    }

    fn run(&self) -> Result<Option<Caught>> {
        let output = self.tree.join("output");
        let mut child = Command::new(self.build.join("debug/sim"))
            .args(["--seeds", &SEEDS_MAX.to_string(), "--until-failure", "--no-shrink"])
            .stdout(std::fs::File::create(&output)?)
            .stderr(Stdio::null())
            .spawn()?;
        let deadline = Instant::now() + HIDING_MAX;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        if status.success() {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&std::fs::read(&output)?).into_owned();
        let word_behind = |line: &str, start: &str| line.strip_prefix(start).map(str::to_owned);
        let seeds = text.lines().find_map(|line| word_behind(line, "sim: "));
        let check = text.lines().find_map(|line| line.strip_prefix("seed ")?.split_once(" fails: "));
        match (seeds, check) {
            (Some(seeds), Some((seed, check))) => {
                let seeds = seeds.split(' ').next().unwrap_or_default().to_owned();
                let control = Control::Seeds(seed.parse().with_context(|| format!("{seed:?} is no seed"))?);
                Ok(Some(Caught { by: format!("after {seeds} seeds"), check: check.to_owned(), control }))
            }
            _ => bail!("the simulator ended with {status} and told nothing: {}", output.display()),
        }
    }
}
