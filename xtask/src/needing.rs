//! Tests that need something which not every machine has.
//!
//! A test that finds it missing and returns would count as passed. So such a test is `#[ignore]`d with its reason, fails
//! where it is called without what it needs, and is called from here where that is there; where it is not, it is a skip
//! that is named, with what would enable it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Result;

use tally_lab::tally::Tally;
use tally_lab::{cargo, packages};

use crate::test::{Failures, counted};

/// What a test needs.
enum Need {
    /// To be root, and thereby any user.
    Root,
    /// To be root, and a kernel that has file systems in programs.
    Fuse,
    /// The same, and that kernel asks again what a program has read and not answered.
    Resend,
    /// The same, and Samba: installed where nothing starts it by that.
    Samba,
    /// A regular file as a block device.
    LoopDevice,
    /// A program that is called from the path, of a Debian package.
    Program { name: &'static str, package: &'static str },
    /// The clients of [`packages::TESTS`], installed: they need libraries.
    Clients,
    /// The shells of [`packages::SHELLS`].
    Shells,
    /// Root, and the programs of [`packages::TESTS`]: networks of its own with clients in them.
    Hosts,
}

/// A test.
struct Needing {
    name: &'static str,
    /// Where it stands, as `cargo test --workspace` is told: chosen by its package it would be built once more, with all below it, as
    /// features differ.
    of: &'static [&'static str],
    need: Need,
}

const PROMTOOL: Need = Need::Program { name: "promtool", package: "prometheus" };

const TESTS: &[Needing] = &[
    Needing {
        name: "a_block_device_is_a_disk_with_one_owner",
        of: &["--test", "block_device"],
        need: Need::LoopDevice,
    },
    Needing { name: "neighbours::the_kernel_says_whose_a_connection_is", of: &["--test", "it"], need: Need::Root },
    Needing { name: "neighbours::who_sends_and_goes_is_not_taken_for_root", of: &["--test", "it"], need: Need::Root },
    Needing {
        name: "local::tests::who_comes_by_another_address_of_this_machine_is_of_this_machine",
        of: &["--lib"],
        need: Need::Root,
    },
    Needing {
        name: "daemon::data_dir::tests::a_directory_of_somebody_else_is_refused",
        of: &["--lib"],
        need: Need::Root,
    },
    Needing {
        name: "control::client::tests::a_daemon_of_somebody_else_is_not_spoken_to",
        of: &["--lib"],
        need: Need::Root,
    },
    Needing {
        name: "daemon::metrics::tests::promtool_has_nothing_to_say_of_the_metrics",
        of: &["--lib"],
        need: PROMTOOL,
    },
    Needing {
        name: "daemon::metrics::tests::promtool_has_nothing_to_say_of_the_rules",
        of: &["--lib"],
        need: PROMTOOL,
    },
    Needing { name: "an_ordinary_user_gets_as_far_as_the_readme_says", of: &["--test", "tour"], need: Need::Clients },
    Needing {
        name: "meeting::a_command_from_another_namespace_of_processes_is_answered",
        of: &["--test", "linked"],
        need: Need::Root,
    },
    Needing {
        name: "init::block_devices_are_made_a_pool_and_what_is_mounted_is_not",
        of: &["--test", "linked"],
        need: Need::LoopDevice,
    },
    Needing {
        name: "socket_group::the_group_looks_and_others_do_nothing",
        of: &["--test", "linked"],
        need: Need::Root,
    },
    Needing { name: "completing::each_shell_completes", of: &["--test", "linked"], need: Need::Shells },
    Needing { name: "mounting::a_mount_keeps_what_it_promises", of: &["--test", "linked"], need: Need::Fuse },
    Needing {
        name: "mounting::programs_and_clients_see_each_other_at_once",
        of: &["--test", "linked"],
        need: Need::Fuse,
    },
    Needing { name: "mounting::what_is_mounted_is_not_let_go_of", of: &["--test", "linked"], need: Need::Fuse },
    Needing { name: "mounting::programs_find_what_a_file_system_has", of: &["--test", "linked"], need: Need::Fuse },
    Needing { name: "taking_over::nobody_sees_that_a_daemon_is_stopped", of: &["--test", "linked"], need: Need::Fuse },
    Needing { name: "taking_over::nobody_sees_that_a_daemon_is_killed", of: &["--test", "linked"], need: Need::Resend },
    Needing {
        name: "taking_over::what_a_killed_daemon_has_lost_is_told",
        of: &["--test", "linked"],
        need: Need::Resend,
    },
    Needing { name: "local_locks::programs_keep_each_other_out_and_wait", of: &["--test", "linked"], need: Need::Fuse },
    Needing {
        name: "local_locks::programs_and_clients_keep_each_other_out",
        of: &["--test", "linked"],
        need: Need::Fuse,
    },
    Needing { name: "local_locks::who_is_late_gives_way_to_programs", of: &["--test", "linked"], need: Need::Fuse },
    Needing {
        name: "signals::who_waits_hears_of_no_signal_and_can_be_killed",
        of: &["--test", "linked"],
        need: Need::Fuse,
    },
    Needing { name: "local_locks::locks_have_bounds_that_are_told", of: &["--test", "linked"], need: Need::Fuse },
    Needing { name: "mountpoints::datasets_are_mounted_where_they_say", of: &["--test", "linked"], need: Need::Fuse },
    Needing {
        name: "mountpoints::what_is_left_of_a_daemon_is_told_and_mended",
        of: &["--test", "linked"],
        need: Need::Fuse,
    },
    Needing { name: "mountpoints::what_hangs_is_taken_away_at_once", of: &["--test", "linked"], need: Need::Fuse },
    Needing {
        name: "mountpoints::mount_and_umount_call_it_by_their_names",
        of: &["--test", "linked"],
        need: Need::Fuse,
    },
    Needing { name: "mountpoints::what_others_decide_is_not_mounted_on", of: &["--test", "linked"], need: Need::Fuse },
    Needing { name: "mountpoints::a_copy_of_a_mount_is_told_of", of: &["--test", "linked"], need: Need::Fuse },
    Needing {
        name: "mountpoints::whose::a_pool_of_somebody_else_is_not_mounted_or_shared_by_itself",
        of: &["--test", "linked"],
        need: Need::Fuse,
    },
    Needing {
        name: "mountpoints::whose::of_two_datasets_in_one_directory_each_is_its_own_pools",
        of: &["--test", "linked"],
        need: Need::Fuse,
    },
    Needing {
        name: "mountpoints::whose::what_was_detached_is_not_mounted_though_it_is_used",
        of: &["--test", "linked"],
        need: Need::Fuse,
    },
    Needing {
        name: "mountpoints::whose::a_dataset_that_is_mounted_on_its_own_name_keeps_it",
        of: &["--test", "linked"],
        need: Need::Fuse,
    },
    Needing {
        name: "cli::mount::users::tests::a_process_without_its_first_thread_is_found",
        of: &["--lib"],
        need: Need::Program { name: "perl", package: "perl" },
    },
    Needing {
        name: "sharing::samba_serves_a_mount_and_a_flush_is_a_promise",
        of: &["--test", "linked"],
        need: Need::Samba,
    },
    Needing { name: "who_is_believed_from_where", of: &["--test", "another_host"], need: Need::Hosts },
    Needing {
        name: "the_port_is_found_and_another_owner_of_it_named",
        of: &["--test", "another_host"],
        need: Need::Hosts,
    },
];

/// Root, and a kernel that has file systems in programs.
pub(crate) fn has_fuse() -> bool {
    rustix::process::geteuid().is_root() && std::path::Path::new("/dev/fuse").exists()
}

fn kernel_is_at_least(wanted: (u32, u32)) -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse().ok());
    numbers.next().zip(numbers.next()).is_some_and(|release| release >= wanted)
}

/// All of them.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TESTS.iter().map(|test| test.name)
}

/// Runs those whose need is met, and counts the others as skipped.
pub(crate) fn run(failures: &mut Failures) -> Result<Tally> {
    let mut total = Tally::default();
    for test in TESTS {
        total += match test.need.path()? {
            Ok(path) => test.run(path, failures)?,
            Err(enabled_by) => {
                eprintln!("{} is skipped: {enabled_by}.", test.name);
                Tally::SKIPPED
            }
        };
    }
    Ok(total)
}

impl Needing {
    fn run(&self, path: OsString, failures: &mut Failures) -> Result<Tally> {
        let mut command = cargo::command(&["test", "--workspace"]);
        command.args(self.of).args(["--", "--exact", "--ignored", self.name]).env("PATH", path);
        let tally = counted(&mut command, failures)?;
        // A name that is no test's is none that passed.
        Ok(if tally.passed + tally.failed == 1 { tally } else { Tally::FAILED })
    }
}

impl Need {
    /// The path in which a test finds what it needs; or what would enable it.
    fn path(&self) -> Result<Result<OsString, String>> {
        let usual = std::env::var_os("PATH").unwrap_or_default();
        let is_root = rustix::process::geteuid().is_root();
        match self {
            Self::Root => Ok(is_root.then_some(usual).ok_or_else(|| "it needs root".to_owned())),
            Self::Fuse => Ok(has_fuse()
                .then_some(usual)
                .ok_or_else(|| "it needs root and /dev/fuse (the module fuse)".to_owned())),
            Self::Resend => Ok((has_fuse() && kernel_is_at_least((6, 10)))
                .then_some(usual)
                .ok_or_else(|| "it needs root, /dev/fuse and Linux 6.10 (FUSE_NOTIFY_RESEND)".to_owned())),
            Self::Samba => {
                let there = has_fuse() && packages::ensure_unstarted(&packages::SAMBA)?;
                Ok(there.then_some(usual).ok_or_else(|| {
                    "it needs root, /dev/fuse, samba, samba-vfs-modules and smbclient (apt-get install starts smbd where systemd runs)".to_owned()
                }))
            }
            Self::LoopDevice => {
                let looked = Command::new("losetup").arg("--find").stdout(Stdio::null()).stderr(Stdio::null()).status();
                let there = is_root && looked.is_ok_and(|status| status.success());
                Ok(there.then_some(usual).ok_or_else(|| "it needs root and loop devices (the module loop)".to_owned()))
            }
            Self::Clients => Ok(packages::ensure(&packages::TESTS)?
                .then_some(usual)
                .ok_or_else(|| "it needs libnfs-utils".to_owned())),
            Self::Shells => Ok(packages::ensure(&packages::SHELLS)?
                .then_some(usual)
                .ok_or_else(|| "it needs bash, zsh and fish".to_owned())),
            Self::Hosts => {
                let there = is_root && packages::ensure(&packages::TESTS)?;
                Ok(there.then_some(usual).ok_or_else(|| "it needs root, iproute2 and libnfs-utils".to_owned()))
            }
            Self::Program { name, package } => Ok(match packages::program(name, package)? {
                Some(program) => {
                    let folder = program.parent().map(PathBuf::from);
                    Ok(std::env::join_paths(folder.into_iter().chain(std::env::split_paths(&usual)))?)
                }
                None => Err(format!("it needs {name}, of the Debian package {package}")),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three stood there no more when their programs were put together, and two had never been run: each failed when it was.
    #[test]
    fn what_says_that_it_is_run_here_is() {
        let (mut promised, mut folders) = (Vec::new(), vec![cargo::workspace().join("crates")]);
        while let Some(folder) = folders.pop() {
            for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    // One that says so and returns has passed.
                    assert!(!text.contains("eprintln!(\"skipped"), "{} has a test that skips itself", path.display());
                    let behind = text.split("`cargo xtask test` runs it\"]").skip(1);
                    promised.extend(
                        behind.filter_map(|text| Some(text.split_once("fn ")?.1.split_once('(')?.0.to_owned())),
                    );
                }
            }
        }
        let mut listed: Vec<_> = names().map(|name| name.rsplit("::").next().unwrap().to_owned()).collect();
        promised.sort();
        listed.sort();
        assert_eq!(promised, listed);
    }
}
