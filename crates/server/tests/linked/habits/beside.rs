//! Habits that one command in this process does not show: what goes on until somebody ends it, files, and what other tools ask over the network.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use tally_bench::wire::{Connection, Target};
use tally_wire::nfs4::Nfsstat4;

use super::Machine;
use crate::evicting::Client;

/// `zpool events -vf` goes on.
pub(super) fn events(machine: &Machine) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tally"));
    program.args(["zpool", "events", "-vf"]).env("TALLY_SOCKET", machine.dir.path().join("tally.sock"));
    let mut child = program.stdout(Stdio::piped()).spawn().expect("the program");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines().map(|line| line.expect("text"));
    let first = lines.next().expect("what has happened");
    assert!(first.contains("pool_import") && first.contains("tank: "), "{first}");
    machine.types("zpool export tank", 0, &[]);
    machine.types("zpool import tank", 0, &[]);
    assert!(lines.any(|line| line.contains("pool_export")), "it goes on with what happens");
    child.kill().expect("it runs until it is ended");
    child.wait().expect("it has ended");
}

/// A table with all that exports(5) knows, as it is planned, refused and carried out.
pub(super) fn exports_file(machine: &Machine) {
    let file = machine.dir.path().join("exports");
    let path = file.display();
    fs::write(
        &file,
        "# what the old server had\n\
         /tank/home 10.0.0.0/8(rw,sync,no_subtree_check) \\\n    192.0.2.7(ro,no_root_squash)\n\
         /srv/old\\055stuff -rw,no_root_squash 10.0.0.1 10.0.0.2(ro)\n\
         \"/srv/more\" *(ro,fsid=7,sec=sys,anonuid=99)\n",
    )
    .expect("a file");
    let planned = format!(
        "# {path}:2: /tank/home\n\
         tally dataset set sharenfs='10.0.0.0/8(rw) 192.0.2.7(ro,no_root_squash)' tank/home\n\
         # {path}:5: /srv/more; clients mount /tank/srv/more from now on\n\
         tally dataset create -p -o sharenfs='*(ro,anonuid=99)' tank/srv/more\n\
         # {path}:4: /srv/old-stuff; clients mount /tank/srv/old-stuff from now on\n\
         tally dataset create -p -o sharenfs='10.0.0.1(rw,no_root_squash) 10.0.0.2(ro,no_root_squash)' tank/srv/old-stuff\n"
    );
    // A line means one file system, and a dataset has the rules of the one above.
    let below = format!("{path}:2: /tank/home: 'tank/home/ann' would be exported with it");
    machine.types(
        &format!("exports import -f --plan {path}"),
        1,
        &[&below, "sharenfs=off tank/home/ann", "1 thing was not taken"],
    );
    machine.types("zfs set sharenfs=off tank/home/ann", 0, &[]);
    machine.says(&format!("exports import --plan {path}"), &planned);
    machine.types("zfs list tank/srv", 1, &["tank/srv"]);
    machine.types(
        &format!("exports import {path}"),
        0,
        &["/tank/home: 10.0.0.0/8(rw)", "/tank/srv/more: *(ro,anonuid=99)"],
    );
    machine.says("zfs get -H -o value,source sharenfs tank/srv/more", "*(ro,anonuid=99)\tlocal\n");
    // Once more: all of it is there.
    machine.types(&format!("exports import -n {path}"), 0, &["dataset set sharenfs='*(ro,anonuid=99)' tank/srv/more"]);

    fs::write(&file, "/tank/home 10.0.0.1(rw)\n\n/srv/x filer(rw,async) 10.0.0.1 (rw,colour)\n/srv/a\\040b *(ro)\n")
        .expect("a file");
    let told = [
        format!("{path}:3: note: `(rw,colour)` has no client before it"),
        format!("{path}:3: filer: `async` is refused"),
        format!("{path}:3: filer: `filer` is a host's name"),
        format!("{path}:3: unknown option `colour`; known are ro, rw"),
        format!("{path}:4: /srv/a b: 'tank/srv/a b' is no dataset name"),
        "4 things were not taken, see above; nothing was done, and with -f the rest is".to_owned(),
    ];
    machine.types(&format!("exports import {path}"), 1, &told.each_ref().map(String::as_str));
    machine.types("zfs list tank/srv/x", 1, &[]);
    machine.types(&format!("exports import -f {path}"), 1, &["4 things were not taken, see above; the rest is done"]);
    machine.says("zfs get -H -o value sharenfs tank/home", "10.0.0.1(rw)\n");
    // Of a path nothing is taken where a part is not understood: what is left might give somebody more.
    machine.types("zfs list tank/srv/x", 1, &[]);
    machine.types("exports import --under tank/nowhere", 1, &[]);
    machine.types(&format!("exports import --under tank/nowhere {path}"), 2, &["there is no dataset 'tank/nowhere'"]);
    machine.types("exports import /nowhere/exports", 1, &["cannot read /nowhere/exports"]);
    machine.types("zfs destroy -r tank/srv", 0, &[]);
    machine.types("zfs inherit sharenfs tank/home", 0, &[]);
    machine.types("zfs inherit sharenfs tank/home/ann", 0, &[]);
}

/// `showmount -e` and `-a`, and what `tally exports` knows of mounts.
pub(super) fn showmount(machine: &Machine) {
    machine.types("zfs set 'sharenfs=127.0.0.0/8(rw,insecure,no_root_squash) 10.0.0.0/8(ro)' tank", 0, &[]);
    let exported = ask(machine, (100_005, 3, 5), &[]);
    assert!(has(&exported, b"/tank/home") && has(&exported, b"10.0.0.0/8"), "EXPORT: {exported:?}");
    let target = Target { nfs: address(machine), mount: address(machine), export: "/tank/home".into() };
    let root = Connection::mount(&target).expect("it may be mounted");
    Connection::open(target.nfs).and_then(|mut client| client.lookup(&root, "nothing")).expect_err("there is nothing");
    let mounts = ask(machine, (100_005, 3, 2), &[]);
    assert!(has(&mounts, b"127.0.0.1") && has(&mounts, b"/tank/home"), "DUMP: {mounts:?}");
    machine.types("exports -v -H", 0, &["/tank/home\t127.0.0.0/8\t", "\tinherited from tank\t127.0.0.1 (v3)\n"]);
}

/// A client that mounts without `nolock` asks for a lock, and is told at once that there are none.
pub(super) fn a_lock_of_version_3(machine: &Machine) {
    const DENIED_NOLOCKS: u32 = 2;
    let cookie = [4_u32.to_be_bytes(), *b"cook"].concat();
    let told = ask(machine, (100_021, 4, 2), &cookie);
    assert_eq!(told, [&cookie[..], &DENIED_NOLOCKS.to_be_bytes()].concat());
}

/// Who has what open and locked, over version 4.
pub(super) fn holders(machine: &Machine) {
    let mut client = Client::new(address(machine), "build host").claims_nothing();
    let opened = client.open("ledger").expect("it may");
    assert_eq!(client.lock("ledger", &opened), Nfsstat4::Nfs4Ok);
    machine.types(
        "locks",
        0,
        &["CLIENT", "TYPE", "FIRST", "LAST", "PATH", "127.0.0.1", "write", "10", "19", "held", "/ledger"],
    );
    machine.types("stat opens -H", 0, &["127.0.0.1\tboth\tnone\t", "/ledger\n"]);
    machine.types("exports -v -H", 0, &["/tank\t127.0.0.0/8\t", "\tlocal\t127.0.0.1 (v4)\n"]);
}

fn address(machine: &Machine) -> SocketAddr {
    let announcement = &machine.daemon.as_ref().expect("it runs").announcement;
    let port = announcement.split("port=").nth(1).and_then(|rest| rest.split([',', ' ']).next()).expect("a mount line");
    SocketAddr::from(([127, 0, 0, 1], port.parse().expect("a port")))
}

/// A call without credentials: what stands behind the header of its reply.
fn ask(machine: &Machine, (program, version, procedure): (u32, u32, u32), arguments: &[u8]) -> Vec<u8> {
    let header = [7, 0, 2, program, version, procedure, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
    let record = [&header[..], arguments].concat();
    let mark = u32::try_from(record.len()).expect("it is short") | 1 << 31;
    let mut stream = TcpStream::connect(address(machine)).expect("it listens");
    stream.write_all(&[&mark.to_be_bytes()[..], &record].concat()).expect("a call");
    let mut word = [0; 4];
    stream.read_exact(&mut word).expect("a reply");
    let mut reply = vec![0; (u32::from_be_bytes(word) & !(1 << 31)) as usize];
    stream.read_exact(&mut reply).expect("all of it");
    assert_eq!(reply[..24], [7, 1, 0, 0, 0, 0].map(u32::to_be_bytes).concat(), "it is accepted");
    reply.split_off(24)
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
