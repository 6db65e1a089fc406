//! `cargo xtask fuzz`: the targets of `fuzz/` one after the other, and what is kept of their inputs.
//!
//! libFuzzer works in `target/fuzz/corpus`, which begins with the seeds and what is in the tree, and grows. When a
//! target has had its time, what is needed to reach what it has reached goes to `fuzz/corpus`, which the tests of
//! tally-fuzz replay. The address sanitizer is left out: there is no unsafe code outside crates/disk, and without it
//! twice as many inputs are tried; panics, overflows, debug assertions, time and memory are what is looked for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use tally_lab::cargo;

/// The compiler of the targets: its name for rustup, and the date that it prints.
const NIGHTLY: (&str, &str) = ("nightly-2026-05-20", "2026-05-19");
/// The version of cargo-fuzz.
const CARGO_FUZZ: &str = "0.13.2";
/// Where cargo-fuzz puts what it builds.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// An input that takes longer than this is a hang.
const SECONDS_MAX: u32 = 20;
/// More memory than this for the whole process is a failure, whatever the bodies' own account says.
const RSS_MIB_MAX: u32 = 2048;

/// The fuzz targets.
#[derive(Args)]
pub(crate) struct Fuzz {
    /// How long each target runs.
    #[arg(long, default_value_t = 15)]
    minutes: u64,
    /// Stop a target after so many executions, even if it has time left.
    #[arg(long)]
    executions: Option<u64>,
    /// Only put what was found before into the tree.
    #[arg(long)]
    only_keep: bool,
    /// Targets; all of them if none is named.
    targets: Vec<String>,
}

impl Fuzz {
    /// Runs them, one after the other.
    pub(crate) fn run(&self) -> Result<()> {
        let tools = Tools::find()?;
        let all = Place::all()?;
        let names: Vec<&str> = all.iter().map(|place| place.name.as_str()).collect();
        if let Some(unknown) = self.targets.iter().find(|name| !names.contains(&name.as_str())) {
            bail!("there is no fuzz target {unknown}; there are {}", names.join(", "));
        }
        let is_chosen = |place: &&Place| self.targets.is_empty() || self.targets.contains(&place.name);
        let mut broken = Vec::new();
        for place in all.iter().filter(is_chosen) {
            tools.build(&place.name)?;
            if !self.only_keep && !self.fuzz(place)? {
                broken.push(place.name.clone());
            }
            place.keep()?;
        }
        ensure!(broken.is_empty(), "these targets have found something: {}", broken.join(", "));
        Ok(())
    }

    /// Whether nothing was found.
    fn fuzz(&self, place: &Place) -> Result<bool> {
        for folder in [&place.corpus, &place.findings] {
            fs::create_dir_all(folder)?;
        }
        let mut command = Command::new(&place.program);
        command.arg(&place.corpus).arg(&place.seeds).arg(&place.kept);
        command.args([
            format!("-max_total_time={}", self.minutes * 60),
            format!("-runs={}", self.executions.map_or(-1, |count| i64::try_from(count).unwrap_or(-1))),
            format!("-max_len={}", place.input_bytes_max),
            format!("-timeout={SECONDS_MAX}"),
            format!("-rss_limit_mb={RSS_MIB_MAX}"),
            format!("-artifact_prefix={}/", place.findings.display()),
            "-print_final_stats=1".to_owned(),
            "-reload=0".to_owned(),
        ]);
        let log = place.findings.join("log");
        command.stderr(fs::File::create(&log)?);
        eprintln!("$ fuzzing {} for {} minutes; the log is {}", place.name, self.minutes, log.display());
        let status = command.status().with_context(|| format!("cannot start {}", place.program.display()))?;
        let text = fs::read_to_string(&log)?;
        let executions = statistic(&text, "stat::number_of_executed_units:").unwrap_or_default();
        let slowest = statistic(&text, "stat::slowest_unit_time_sec:").unwrap_or_default();
        println!("{}: {executions} executions, the slowest took {slowest} s", place.name);
        if !status.success() {
            let tail: Vec<&str> = text.lines().rev().take(30).collect();
            tail.iter().rev().for_each(|line| println!("  {line}"));
            println!(
                "Put the input into {} and repeat it with `cargo test -p tally-fuzz`.",
                place.regressions.display()
            );
        }
        Ok(status.success())
    }
}

/// Where a target's things are.
struct Place {
    name: String,
    /// Longer inputs are only slower.
    input_bytes_max: u64,
    program: PathBuf,
    seeds: PathBuf,
    /// What libFuzzer works with.
    corpus: PathBuf,
    /// What is in the tree: as few as reach everything.
    kept: PathBuf,
    /// What has found something once, for ever.
    regressions: PathBuf,
    findings: PathBuf,
}

impl Place {
    /// All targets, in the order of the table in crates/fuzz; writes their seeds.
    fn all() -> Result<Vec<Self>> {
        let seeds = work_folder().join("seeds");
        let seeds = seeds.to_str().context("the path of the checkout is not UTF-8")?;
        let mut places = Vec::new();
        let arguments = ["run", "--release", "--package", "tally-fuzz", "--bin", "fuzz-seeds", "--", seeds];
        let succeeded = cargo::watch(&mut cargo::command(&arguments), |line| {
            let described = line.split_once(' ').and_then(|(name, bytes)| Some((name, bytes.parse().ok()?)));
            places.extend(described.map(|(name, input_bytes_max)| Self::of(name, input_bytes_max)));
        })?;
        ensure!(succeeded && !places.is_empty(), "the seeds could not be made");
        Ok(places)
    }

    fn of(name: &str, input_bytes_max: u64) -> Self {
        let work = work_folder();
        Self {
            name: name.to_owned(),
            input_bytes_max,
            program: work.join("build").join(TRIPLE).join("release").join(name),
            seeds: work.join("seeds").join(name),
            corpus: work.join("corpus").join(name),
            kept: fuzz_folder().join("corpus").join(name),
            regressions: fuzz_folder().join("regressions").join(name),
            findings: work.join("findings").join(name),
        }
    }

    /// Puts the fewest inputs that reach all edges into the tree.
    fn keep(&self) -> Result<()> {
        let fresh = self.findings.with_extension("kept");
        if fresh.exists() {
            fs::remove_dir_all(&fresh)?;
        }
        fs::create_dir_all(&fresh)?;
        fs::create_dir_all(&self.corpus)?;
        fs::create_dir_all(&self.kept)?;
        let mut merge = Command::new(&self.program);
        merge.args(["-set_cover_merge=1", "-use_counters=0"]).arg(&fresh);
        merge.arg(format!("-max_len={}", self.input_bytes_max));
        merge.arg(&self.corpus).arg(&self.seeds).arg(&self.kept);
        let output = merge.output().with_context(|| format!("cannot start {}", self.program.display()))?;
        ensure!(output.status.success(), "merging {}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        for old in fs::read_dir(&self.kept)? {
            fs::remove_file(old?.path())?;
        }
        // The two may lie on different file systems.
        for new in fs::read_dir(&fresh)? {
            let new = new?;
            fs::copy(new.path(), self.kept.join(new.file_name()))?;
        }
        let sizes: Vec<u64> =
            fs::read_dir(&self.kept)?.map(|entry| Ok(entry?.metadata()?.len())).collect::<Result<_>>()?;
        println!("{}: {} inputs of {} bytes are kept", self.name, sizes.len(), sizes.iter().sum::<u64>());
        Ok(())
    }
}

fn work_folder() -> PathBuf {
    cargo::target_folder().join("fuzz")
}

fn fuzz_folder() -> PathBuf {
    cargo::workspace().join("fuzz")
}

/// A number of libFuzzer's final statistics.
fn statistic(log: &str, name: &str) -> Option<u64> {
    log.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// The compiler and cargo-fuzz.
struct Tools {
    toolchain: String,
    cargo_fuzz: PathBuf,
}

impl Tools {
    fn find() -> Result<Self> {
        Ok(Self { toolchain: toolchain()?, cargo_fuzz: cargo_fuzz()? })
    }

    fn build(&self, target: &str) -> Result<()> {
        let mut command = Command::new(&self.cargo_fuzz);
        command.current_dir(cargo::workspace()).env("RUSTUP_TOOLCHAIN", &self.toolchain).env_remove("CARGO");
        command.args(["build", "--fuzz-dir", "fuzz", "--sanitizer", "none", "--target-dir"]);
        command.arg(work_folder().join("build")).arg(target);
        cargo::step(&mut command)
    }
}

/// The pinned nightly: under its own name, or as the machine's `nightly` if that is the same one; else it is installed.
fn toolchain() -> Result<String> {
    let (name, date) = NIGHTLY;
    for candidate in [name, "nightly"] {
        let output = Command::new("rustup").args(["run", candidate, "rustc", "--version"]).output();
        if output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(date)) {
            return Ok(candidate.to_owned());
        }
    }
    cargo::step(Command::new("rustup").args(["toolchain", "install", name, "--profile", "minimal"]))?;
    Ok(name.to_owned())
}

/// cargo-fuzz, built once below `target/`.
fn cargo_fuzz() -> Result<PathBuf> {
    let root = cargo::target_folder().join("tools");
    let program = root.join("bin/cargo-fuzz");
    if !is_version(&program) {
        let folder = root.to_str().context("the path of the checkout is not UTF-8")?;
        cargo::run(&["install", "cargo-fuzz", "--locked", "--version", CARGO_FUZZ, "--root", folder])?;
    }
    Ok(program)
}

fn is_version(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(CARGO_FUZZ))
}
