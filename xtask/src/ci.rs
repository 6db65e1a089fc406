//! What continuous integration runs, from the cheap to the dear, so that a slip is told early.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use tally_lab::cargo;

use crate::test::{self, timed};
use crate::xdr::Xdr;

/// The version of cargo-deny that `deny.toml` is written for.
const CARGO_DENY: &str = "0.19.0";

/// Formatting, whether what is generated is current, lints, the rules for dependencies, and all tests.
pub(crate) fn run() -> Result<()> {
    let began = Instant::now();
    cargo::run(&["fmt", "--all", "--check"])?;
    Xdr { check: true }.run()?;
    timed("lints", || cargo::run(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    timed("the house's rules", || {
        // Chosen from all packages, so that what is built for them is what the other tests stand on.
        cargo::run(&["test", "--workspace", "--test", "dependencies", "--test", "rules"])
    })?;
    timed("licences and advisories", deny)?;
    test::run(began)
}

/// Licences, sources and bans need no network beyond the registry. Advisories need a clone of their database:
/// where that cannot be had, they are left out and that is said.
fn deny() -> Result<()> {
    let program = deny_program()?;
    let deny = |checks: &[&str]| {
        let mut command = Command::new(&program);
        command.current_dir(cargo::workspace()).args(["--log-level", "error", "check"]).args(checks);
        command
    };
    cargo::step(&mut deny(&["bans", "licenses", "sources"]))?;
    let mut fetch = Command::new(&program);
    fetch.current_dir(cargo::workspace()).args(["--log-level", "error", "fetch", "db"]);
    if fetch.status().is_ok_and(|status| status.success()) {
        return cargo::step(&mut deny(&["--disable-fetch", "advisories"]));
    }
    eprintln!("The advisory database cannot be reached: advisories are NOT checked in this run.");
    Ok(())
}

/// cargo-deny from the path, or built once below `target/`.
fn deny_program() -> Result<std::path::PathBuf> {
    if Command::new("cargo-deny").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Ok("cargo-deny".into());
    }
    let root = cargo::target_folder().join("tools");
    let program = root.join("bin/cargo-deny");
    if !program.is_file() {
        let folder = root.to_str().context("the path of the checkout is not UTF-8")?;
        // Optimised it would take minutes more to build than it saves, and nobody looks into it.
        let install = ["install", "cargo-deny", "--debug", "--locked", "--version", CARGO_DENY, "--root", folder];
        cargo::step(cargo::command(&install).env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
    }
    Ok(program)
}
