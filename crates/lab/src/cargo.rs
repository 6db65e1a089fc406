//! Runs cargo, and knows where this checkout and its build products are.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The folder of the checkout.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout is where it was built")
}

/// Where build products go.
pub fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// Cargo in the checkout.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace()).args(arguments);
    command
}

/// Runs cargo; a failure is an error that names the command.
pub fn run(arguments: &[&str]) -> Result<()> {
    step(&mut command(arguments))
}

/// Runs a command and shows it; a failure is an error that names it.
pub fn step(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    ensure!(status.success(), "{shown}: {status}");
    Ok(())
}

/// Runs a command, passes its standard output on line by line, and gives each line to `seen` too. Tells
/// whether it succeeded.
pub fn watch(command: &mut Command, mut seen: impl FnMut(&str)) -> Result<bool> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {shown}"))?;
    let output = child.stdout.take().context("the child's output was not piped")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        seen(&line);
    }
    Ok(child.wait()?.success())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// The release binary of this workspace, built now.
pub fn build_tally() -> Result<PathBuf> {
    run(&["build", "--release", "--package", "tally-server", "--bin", "tally"])?;
    Ok(target_folder().join("release/tally"))
}
