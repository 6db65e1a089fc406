//! What a ZFS administrator types on the first day: each habit with what it prints and with its exit status. Words are those of `zpool` and `zfs`, with `tally` before them.

use std::path::Path;
use std::sync::Arc;

use clap::Parser;
use tally_fakes::{MemDisk, MemOpener};
use tally_server::cli::{self, Cli, Console, Interrupts};

use crate::running::Running;

#[path = "habits/beside.rs"]
mod beside;
#[path = "habits/rows.rs"]
mod rows;
#[path = "habits/watched.rs"]
mod watched;

/// A machine with a pool of one disk, and datasets.
struct Machine {
    dir: tempfile::TempDir,
    opener: Arc<MemOpener>,
    daemon: Option<Running>,
}

impl Machine {
    fn start() -> Self {
        let (dir, opener) = (tempfile::tempdir().expect("a directory"), Arc::new(MemOpener::default()));
        for disk in ["/dev/a", "/dev/b", "/dev/c", "/dev/d", "/dev/e", "/dev/f"] {
            opener.put(disk, Arc::new(MemDisk::new(64 << 20)));
        }
        let daemon = Running::start(dir.path(), &opener);
        let machine = Self { dir, opener, daemon: Some(daemon) };
        for made in ["zfs create tank/home", "zfs create tank/home/ann", "zfs create -p tank/a/b"] {
            machine.types(made, 0, &[]);
        }
        machine
    }

    /// Types words; what stands in quotes is one. What it prints has to have these parts, in this order.
    fn types(&self, line: &str, status: u8, parts: &[&str]) {
        self.tries(line, status, parts).unwrap_or_else(|wrong| panic!("{wrong}"));
    }

    /// The same, and what is wrong with what came of it.
    fn tries(&self, line: &str, status: u8, parts: &[&str]) -> Result<(), String> {
        let (told, text) = tally(self.dir.path(), &split(line));
        if told != status {
            return Err(format!("`{line}` ends with {told}, not with {status}:\n{text}"));
        }
        let mut rest = text.as_str();
        for part in parts {
            let at = rest.find(part).ok_or_else(|| format!("`{line}` does not say {part:?} in its place:\n{text}"))?;
            rest = &rest[at + part.len()..];
        }
        Ok(())
    }

    /// The same, and that is all of it.
    fn says(&self, line: &str, all: &str) {
        assert_eq!(tally(self.dir.path(), &split(line)), (0, all.to_owned()), "`{line}`");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take().filter(|_| !std::thread::panicking()) {
            daemon.stop();
        }
        let _ = &self.opener;
    }
}

fn split(line: &str) -> Vec<String> {
    let pieces = line.split('\'').enumerate();
    pieces
        .flat_map(|(number, piece)| match number % 2 {
            0 => piece.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
            _ => vec![piece.to_owned()],
        })
        .collect()
}

/// What the program would do with these words: its exit status, and what it prints.
fn tally(data_dir: &Path, words: &[String]) -> (u8, String) {
    let mut cli = match Cli::try_parse_from([&"tally".to_owned()].into_iter().chain(words)) {
        Ok(cli) => cli,
        Err(error) => return (error.exit_code() as u8, error.to_string()),
    };
    cli.socket = Some(data_dir.join("tally.sock"));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let result = cli::run(&cli, data_dir, &mut Console { out: &mut out, err: &mut err, interrupts: Interrupts::Never });
    let text = [out, err].map(|text| String::from_utf8(text).expect("it is text")).concat();
    match result {
        Ok(()) => (0, text),
        Err(failure) => (failure.exit_status(), format!("{text}tally: {failure}\n")),
    }
}

#[test]
fn what_monitoring_scripts_ask() {
    let machine = Machine::start();
    machine.says("zpool get -H -o value health tank", "ONLINE\n");
    machine.says("zpool status -x", "all pools are healthy\n");
    machine.says("zpool list -H -o name,health,frag,dedup,altroot", "tank\tONLINE\t-\t1.00x\t-\n");
    machine.says("zfs list -Hp -d 0 -o name,type", "tank\tfilesystem\n");
    machine.types("zpool list -Hp -o name,size,alloc,free,cap", 0, &["tank\t", "\t"]);
    machine.types("zfs list -Hp -o name,used,avail", 0, &["tank\t", "tank/home\t"]);
    machine.says("zfs get -H -o value -t filesystem compression tank", "lz4\n");
    machine.types("zpool list -o name,colour", 2, &["there is no column 'colour'", "health", "guid"]);
    machine.types("zfs list -o name,colour", 2, &["there is no column 'colour'", "mountpoint"]);
}

#[test]
fn datasets_are_chosen_and_sorted() {
    let machine = Machine::start();
    machine.says("zfs list -H -o name -r -d 1 tank", "tank\ntank/a\ntank/home\n");
    machine.says("zfs list -H -o name -r tank/home", "tank/home\ntank/home/ann\n");
    machine.says("zfs list -H -o name -S name -d 1", "tank/home\ntank/a\ntank\n");
    machine.types("zfs list -H -o name,used -s used", 0, &["tank"]);
    machine.says("zfs list -H -t snapshot -o name,used", "nothing to show\n");
    machine.types("zfs list -t all -H -o name", 0, &["tank\n", "tank/a\n"]);
    machine.types("zfs set sync=always com.example:note=ask tank/home", 0, &[]);
    machine.says("zfs get -H -r -s local -o name,property,value sync tank", "tank/home\tsync\talways\n");
    machine.types(
        "zfs get -H -r -s inherited -o name,source sync tank",
        0,
        &["tank/home/ann\tinherited from tank/home\n"],
    );
    machine.says("zfs get -H -o value com.example:note tank/home/ann", "ask\n");
}

#[test]
fn what_goes_is_told_before_and_behind() {
    let machine = Machine::start();
    machine.says("zfs destroy -nvr tank/home", "would destroy tank/home\nwould destroy tank/home/ann\n");
    machine.types("zfs list tank/home/ann", 0, &[]);
    machine.says("zfs destroy -vr tank/home", "destroyed tank/home\ndestroyed tank/home/ann\n");
    machine.types("zfs list tank/home", 1, &["tank/home"]);
    machine.types("zfs create -V 1G tank/vol", 2, &["there are no volumes"]);
}

#[test]
fn properties_of_zfs_are_taken_or_answered() {
    let machine = Machine::start();
    for so in
        ["xattr=sa", "acltype=off", "relatime=on", "dedup=off", "copies=1", "primarycache=all", "exec=on", "devices=on"]
    {
        machine.types(&format!("zfs set {so} tank"), 0, &[]);
        let (name, value) = so.split_once('=').expect("a pair");
        machine.says(&format!("zfs get -H -o value {name} tank"), &format!("{value}\n"));
    }
    for (asked, told) in [
        ("dedup=on", "dedup=on cannot be had: dedup=off is what is so; equal blocks are not looked for"),
        ("copies=2", "make the pool of mirrors"),
        ("acltype=posix", "no access control lists yet"),
        ("mountpoint=srv", "a directory of this machine from / on"),
        ("canmount=yes", "it is on, off or noauto"),
        ("overlay=on", "`tally mount -O`"),
        ("userquota@ann=1G", "give each a dataset with a quota"),
        ("reservation=1G", "`fallocate` reserves it for files"),
        ("encryption=on", "dm-crypt"),
    ] {
        machine.types(&format!("zfs set {asked} tank"), 1, &[told]);
    }
    machine.types("zfs create -o xattr=sa -o atime=on tank/x", 0, &[]);
    machine.types("zfs set colour=red tank", 1, &["there is no property 'colour'"]);
    machine.types("zpool set autotrim=on tank", 1, &["autotrim=off is what is so; disks are not trimmed yet"]);
    machine.types("zpool set comment=hello tank", 1, &["user property"]);
    machine.says("zpool get -H -o value ashift tank", "12\n");
    machine.types("zpool create -n -o ashift=12 p /dev/a", 0, &[]);
    machine.types("zpool create -n -o ashift=9 p /dev/a", 1, &["ashift=12 is what is so"]);
}

#[test]
fn pools_come_and_go_as_they_do_there() {
    let machine = Machine::start();
    machine.types("zpool create -f -O sync=always dozer mirror /dev/a /dev/b", 0, &[]);
    machine.types("zpool sync", 0, &[]);
    machine.types("zpool sync dozer", 0, &[]);
    machine.types("zpool sync nobody", 1, &["nobody"]);
    machine.types("zpool export -a", 0, &["exported pool 'dozer'", "exported pool 'tank'"]);
    machine.types("zpool import -a -N -d /dev", 0, &["imported pool 'dozer'"]);
    machine.types("zpool export dozer", 0, &[]);
    machine.types("zpool import -o readonly=on -d /dev dozer", 0, &[]);
    machine.says("zpool get -H -o value readonly dozer", "on\n");
    machine.types("zpool import -o cachefile=none -d /dev dozer", 2, &["readonly=on"]);
    machine.types("zpool export dozer nobody", 1, &["nobody"]);
    machine.types("zpool import -d /dev dozer", 0, &[]);
    machine.types("zpool destroy -f dozer", 0, &[]);
    machine.types("zpool events -v", 0, &["dozer"]);
    machine.types("zpool create p raidz /dev/a /dev/b /dev/c", 2, &["raidz"]);
}

#[test]
fn what_there_is_not_is_answered_in_a_sentence() {
    let machine = Machine::start();
    for (line, told) in [
        ("zfs snapshot tank@a", "there are no snapshots yet"),
        ("zfs snap -r tank@a", "there are no snapshots yet"),
        ("zfs rollback -r tank@a", "there are no snapshots yet"),
        ("zfs clone tank@a tank/b", "there are no snapshots yet"),
        ("zfs diff tank@a", "there are no snapshots yet"),
        ("zfs hold -r keep tank@a", "there are no snapshots yet"),
        ("zfs bookmark tank@a tank#a", "there are no snapshots yet"),
        ("zfs send -R -i @a tank@b", "datasets are not sent yet"),
        ("zfs recv -F tank/b", "datasets are not sent yet"),
        ("zfs unshare -a", "sharenfs=off"),
        ("zfs userspace tank", "no quotas of users yet"),
        ("zpool split tank two", "a mirror is not split"),
        ("zpool checkpoint tank", "--rewind"),
        ("zpool trim -w tank", "not trimmed yet"),
        ("zpool initialize tank", "need not be written over"),
        ("zpool reguid tank", "keeps its guid"),
        ("list", "`tally pool list` or `tally dataset list`?"),
        ("history", "`tally pool history`"),
    ] {
        machine.types(line, 2, &[told]);
    }
}

#[test]
fn a_configuration_is_looked_at() {
    let machine = Machine::start();
    let file = machine.dir.path().join("some.toml");
    std::fs::write(&file, "data_dir = \"/srv\"\nport = 2049\n").expect("a file");
    machine.types(&format!("config check {}", file.display()), 0, &["nothing is wrong with it"]);
    std::fs::write(&file, "data_dir = \"/srv\"\n\nprot = 2049\n").expect("a file");
    machine.types(&format!("config check {}", file.display()), 1, &["line 3", "prot"]);
    machine.types("config", 0, &["data_dir"]);
    machine.types("version", 0, &["tally "]);
}
