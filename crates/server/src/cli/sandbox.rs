//! What the unit that starts the daemon keeps from it: a pool on a file in /home that somebody serves by hand is not found when
//! the machine starts it.
//!
//! systemd is asked for the settings that it goes by, what an administrator has added included (systemd.exec(5)). A machine without it, or without
//! the unit, keeps nothing from anybody.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Pid;

use super::console::printed_by;

/// The packaged one.
const UNIT: &str = "tally.service";
const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
const SYSTEM: [&str; 3] = ["/usr", "/boot", "/efi"];
const INTERFACES: [&str; 3] = ["/dev", "/proc", "/sys"];

/// What a setting makes of the paths below one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Hides,
    Protects,
    Opens,
    /// Also below what is hidden.
    Brings,
}

/// The unit's settings.
#[derive(Clone, Debug, Default)]
pub(super) struct Sandbox {
    /// By the length of their paths: the longer one counts.
    rules: Vec<(PathBuf, Effect, String)>,
}

/// Why the unit's daemon does not get at a path, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutOfReach {
    pub(super) found: String,
    pub(super) todo: String,
}

impl Sandbox {
    /// The unit's, if it is what has started this daemon. One that somebody has started by hand is kept from nothing.
    pub(super) fn of_daemon(daemon: Pid) -> Option<Self> {
        let mut command = Command::new("systemctl");
        command.args(["show", "--property", PROPERTIES, UNIT]).stdin(Stdio::null()).stderr(Stdio::null());
        let output = printed_by(command).ok().filter(|output| output.status.success())?;
        Self::parse(&String::from_utf8_lossy(&output.stdout), daemon)
    }

    fn parse(shown: &str, daemon: Pid) -> Option<Self> {
        let settings: Vec<(&str, &str)> = shown.lines().filter_map(|line| line.split_once('=')).collect();
        settings.contains(&("LoadState", "loaded")).then_some(())?;
        settings.contains(&("MainPID", &daemon.as_raw_nonzero().to_string())).then_some(())?;
        let mut rules: Vec<_> = settings.iter().flat_map(|(name, value)| rules(name, value)).collect();
        // One that is allowed forbids the others, if there is no policy that says otherwise (systemd.resource-control(5)).
        if let Some((name, value)) = settings.iter().find(|(name, value)| *name == "DeviceAllow" && !value.is_empty()) {
            rules.push(("/dev".into(), Effect::Hides, format!("{name}={value}")));
        }
        // At the same path what opens it counts, as ReadWritePaths= is there to make exceptions.
        rules.sort_by_key(|(path, effect, _)| (path.components().count(), *effect as u8));
        Some(Self { rules })
    }

    /// Why its daemon could not write to a disk or file, if it could not.
    pub(super) fn objection(&self, path: &Path) -> Option<OutOfReach> {
        let real = real(path);
        let mut standing = None;
        for (below, effect, setting) in &self.rules {
            let is_hidden = matches!(standing, Some((Effect::Hides, _)));
            match effect {
                _ if !real.starts_with(below) => {}
                Effect::Brings => standing = None,
                _ if is_hidden => {}
                Effect::Opens => standing = None,
                Effect::Hides | Effect::Protects => standing = Some((*effect, setting)),
            }
        }
        let (effect, setting) = standing?;
        let path = path.display();
        let folder = real.parent().unwrap_or(&real).display();
        let (verb, way) = match effect {
            Effect::Hides => ("see", format!("take {setting} out of it")),
            _ => ("write to", format!("add ReadWritePaths={folder}")),
        };
        Some(OutOfReach {
            found: format!("{UNIT} cannot {verb} {path}: it has {setting}"),
            todo: format!(
                "the pool would be missing when the service serves it: use another folder, as /srv, or {way} with `systemctl edit tally`"
            ),
        })
    }
}

/// What is asked for.
const PROPERTIES: &str = "LoadState,MainPID,ProtectHome,ProtectSystem,PrivateTmp,PrivateDevices,InaccessiblePaths,ReadOnlyPaths,ReadWritePaths,\
                          BindPaths,BindReadOnlyPaths,StateDirectory,TemporaryFileSystem,RootDirectory,RootImage,DevicePolicy,DeviceAllow";

/// What a setting does.
fn rules(name: &str, value: &str) -> Vec<(PathBuf, Effect, String)> {
    use Effect::{Brings, Hides, Opens, Protects};
    let of = |effect: Effect, paths: &[&str]| {
        // systemd follows links as well.
        paths.iter().map(|path| (real(Path::new(path)), effect, format!("{name}={value}"))).collect::<Vec<_>>()
    };
    // A prefix says that it need not be there, or where it is looked for.
    let words = || value.split_whitespace().map(|word| word.trim_start_matches(['-', '+']));
    match (name, value) {
        ("ProtectHome", "read-only") => of(Protects, &HOMES),
        ("ProtectHome", "yes" | "tmpfs") => of(Hides, &HOMES),
        ("ProtectSystem", "yes") => of(Protects, &SYSTEM),
        ("ProtectSystem", "full") => [of(Protects, &SYSTEM), of(Protects, &["/etc"])].concat(),
        ("ProtectSystem", "strict") => [of(Protects, &["/"]), of(Opens, &INTERFACES)].concat(),
        ("PrivateTmp", "yes" | "disconnected") => of(Hides, &TEMPORARY),
        ("PrivateDevices", "yes") => of(Hides, &["/dev"]),
        ("InaccessiblePaths", _) => words().flat_map(|path| of(Hides, &[path])).collect(),
        ("TemporaryFileSystem", _) => {
            words().flat_map(|word| of(Hides, &[word.split(':').next().unwrap_or(word)])).collect()
        }
        ("RootDirectory" | "RootImage", _) if !value.is_empty() => of(Hides, &["/"]),
        ("DevicePolicy", "closed" | "strict") => of(Hides, &["/dev"]),
        // A kind of device, as block-sd is, may be any.
        ("DeviceAllow", _) if may_write(value) && value.starts_with("block-") => of(Brings, &["/dev"]),
        ("DeviceAllow", _) if may_write(value) => words().take(1).flat_map(|path| of(Brings, &[path])).collect(),
        ("BindReadOnlyPaths", _) => {
            words().flat_map(|word| of(Protects, &[word.split(':').nth(1).unwrap_or(word)])).collect()
        }
        ("ReadOnlyPaths", _) => words().flat_map(|path| of(Protects, &[path])).collect(),
        ("ReadWritePaths", _) => words().flat_map(|path| of(Opens, &[path])).collect(),
        // SOURCE:DESTINATION:OPTIONS, as systemd shows them.
        ("BindPaths", _) => words().flat_map(|word| of(Brings, &[word.split(':').nth(1).unwrap_or(word)])).collect(),
        ("StateDirectory", _) => words().flat_map(|path| of(Opens, &[&format!("/var/lib/{path}")])).collect(),
        _ => Vec::new(),
    }
}

/// What may be done with an allowed device: `DeviceAllow=/dev/sda rw`; all, where nothing is said.
fn may_write(value: &str) -> bool {
    value.split_whitespace().nth(1).is_none_or(|rights| rights.contains('w'))
}

/// Where it is, behind links; of a file that is to be made, where its folder is.
fn real(path: &Path) -> PathBuf {
    let folder = || Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?));
    fs::canonicalize(path).ok().or_else(folder).unwrap_or_else(|| path.into())
}

#[cfg(test)]
mod tests;
