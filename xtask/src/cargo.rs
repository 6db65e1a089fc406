//! Runs cargo, and knows where this checkout and its build products are.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The folder of the checkout.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the checkout").to_owned()
}

/// Where build products go.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// Cargo in the checkout.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace()).args(arguments);
    command
}

/// Runs cargo; a failure is an error that names the command.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    step(&mut command(arguments))
}

/// Runs a command and shows it; a failure is an error that names it.
pub(crate) fn step(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    ensure!(status.success(), "{shown}: {status}");
    Ok(())
}

/// Runs a command, passes its standard output on line by line, and gives each line to `seen` too. Tells
/// whether it succeeded.
pub(crate) fn watch(command: &mut Command, mut seen: impl FnMut(&str)) -> Result<bool> {
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
