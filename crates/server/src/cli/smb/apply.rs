//! How a new list of shares comes to Samba.
//!
//! ```text
//!   FILE.new ──rename──▶ FILE.checked ──testparm──▶ FILE ──▶ smbcontrol smbd reload-config
//!   the daemon's              │
//!                             └── refused, by its words or by testparm ──▶ FILE.refused, and FILE stays as it was
//! ```
//!
//! It is taken away first: what the daemon writes meanwhile is another FILE.new, which nobody takes for one that was looked at. A FILE.checked that is there already was left by one that was ended while it looked, and is looked at anew.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tally_smb::{looked_at, refused, strange_line, unchecked};

use super::super::console::{Console, Failure, printed_by};
use super::super::words::harmless;

/// Carries it out; `program` finds Samba's.
pub(super) fn apply(
    file: &Path,
    program: &dyn Fn(&str) -> Option<PathBuf>,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let failed = |what: &str, error: std::io::Error| Failure::Smb(format!("cannot put {what} in its place: {error}"));
    let (new, checked) = (unchecked(file), looked_at(file));
    match fs::rename(&new, &checked) {
        Err(error) if error.kind() == ErrorKind::NotFound && checked.exists() => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(writeln!(console.err, "there is nothing new: no {}", new.display())?);
        }
        moved => moved.map_err(|error| failed(&new.display().to_string(), error))?,
    }
    let refuse = |by: &str, why: &str| {
        let refused = refused(file);
        let moved = fs::rename(&checked, &refused).map_err(|error| failed("what was refused", error));
        let told =
            format!("{by} the shares, which are in {}, and Samba keeps those that it had:\n{why}", refused.display());
        moved.and(Err(Failure::Smb(told)))
    };
    let text = fs::read(&checked).map_err(|error| failed(&checked.display().to_string(), error))?;
    let strange = match std::str::from_utf8(&text) {
        Ok(text) => strange_line(text)
            .map(|(number, line)| format!("line {number} is none that the daemon writes: {}", harmless(line))),
        Err(_) => Some("it is no text".into()),
    };
    if let Some(why) = strange {
        return refuse("tally smb apply refuses", &why);
    }
    if let Some(testparm) = program("testparm") {
        let output = told(Command::new(testparm).arg("--suppress-prompt").arg(&checked))?;
        if !output.status.success() {
            return refuse("testparm refuses", String::from_utf8_lossy(&output.stderr).trim());
        }
    }
    fs::rename(&checked, file).map_err(|error| failed(&file.display().to_string(), error))?;
    // What it says is behind us, and nobody is to be told of it any more.
    let _there_may_be_none = fs::remove_file(refused(file));
    if let Some(smbcontrol) = program("smbcontrol") {
        // It fails where no smbd runs, which reads the file when it starts; one that is not told looks every minute.
        let output = told(Command::new(smbcontrol).args(["smbd", "reload-config"]))?;
        if !output.status.success() {
            writeln!(console.err, "smbd was not told: {}", String::from_utf8_lossy(&output.stderr).trim())?;
        }
    }
    Ok(())
}

/// What one of Samba's programs says.
fn told(command: &mut Command) -> Result<Output, Failure> {
    let mut ready = Command::new(command.get_program());
    ready.args(command.get_args()).stdin(Stdio::null());
    printed_by(ready).map_err(|error| Failure::Smb(format!("cannot run {}: {error}", command.get_program().display())))
}
