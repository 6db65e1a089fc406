//! How a new list of shares comes to Samba.
//!
//! ```text
//!   FILE.new ──rename──▶ FILE.checked ──testparm──▶ FILE ──▶ smbcontrol smbd reload-config
//!   the daemon's              │
//!                             └── refused ──▶ FILE.refused, and FILE stays as it was
//! ```
//!
//! It is taken away first: what the daemon writes meanwhile is another FILE.new, which nobody takes for one that was looked at.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tally_smb::unchecked;

use super::super::console::{Console, Failure, printed_by};

/// Carries it out; `program` finds Samba's.
pub(super) fn apply(
    file: &Path,
    program: &dyn Fn(&str) -> Option<PathBuf>,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let failed = |what: &str, error: std::io::Error| Failure::Smb(format!("cannot put {what} in its place: {error}"));
    let (new, checked) = (unchecked(file), beside(file, ".checked"));
    match fs::rename(&new, &checked) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(writeln!(console.err, "there is nothing new: no {}", new.display())?);
        }
        moved => moved.map_err(|error| failed(&new.display().to_string(), error))?,
    }
    if let Some(testparm) = program("testparm") {
        let output = told(Command::new(testparm).arg("--suppress-prompt").arg(&checked))?;
        if !output.status.success() {
            let refused = beside(file, ".refused");
            fs::rename(&checked, &refused).map_err(|error| failed("what testparm refuses", error))?;
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Failure::Smb(format!(
                "testparm refuses the shares, which are in {}, and Samba keeps those that it had:\n{why}",
                refused.display()
            )));
        }
    }
    fs::rename(&checked, file).map_err(|error| failed(&file.display().to_string(), error))?;
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

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
