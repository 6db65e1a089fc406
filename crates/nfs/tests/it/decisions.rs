//! The table of decisions: what a rule lets whom do, from where, with which procedure, sent once or again, while the rule is as
//! it was or another one. What is expected comes from a statement of exports(5) of its own ([`exports_5`]), not from our parser.
//!
//! ```text
//!  {ro, rw, both} × {squash words} × {port words} × {host by IPv4, IPv6, mapped, network} × {port} × {uid}
//!                 × {procedure} × {once; again; again under a rule that says off, ro or secure; again when it is as before}
//! ```
//!
//! `TALLY_DECISIONS=file` has the part that is exports(5)'s own written there, one line a cell, for a look at another server.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::support::TestExports;
use crate::support::client::{MOUNT, NFS, dir_name, mode, size, words, write_arguments};
use crate::support::desk::{Desk, Line};
use tally_nfs::handle::Handle as Named;
use tally_nfs::v3::Procedure;
use tally_nfs::xdr::{Decoder, Encoder};
use tally_vfs::{CreateHow, Cred, FileKind, Identity, Names, ObjectRef, OpCtx, SetAttr, Stability};

/// What a transmission is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Done,
    Acces,
    RoFs,
    /// AUTH_TOOWEAK: the port is not good enough.
    TooWeak,
    /// Anything else.
    Other(u32),
}

/// What exports(5) says of options. Later words go before earlier ones about the same thing. `all_squash`: "Map all uids and
/// gids to the anonymous user"; `root_squash`, the default: "Map requests from uid/gid 0 to the anonymous uid/gid";
/// `secure`, the default: "requires requests to originate on an Internet port less than 1024".
struct Says {
    writable: bool,
    secure: bool,
    uid: u32,
}

fn exports_5(options: &str, uid: u32) -> Says {
    let last = |yes: &str, no: &str, default: bool| {
        options
            .split(',')
            .rev()
            .find_map(|word| if word == yes { Some(true) } else { (word == no).then_some(false) })
            .unwrap_or(default)
    };
    let everybody = last("all_squash", "no_all_squash", false);
    let root = last("root_squash", "no_root_squash", true);
    Says {
        writable: last("rw", "ro", false),
        secure: last("secure", "insecure", true),
        uid: if everybody || (root && uid == 0) { ANONYMOUS } else { uid },
    }
}

const ANONYMOUS: u32 = 2000;
const ACCESS: [&str; 4] = ["ro", "rw", "ro,rw", "rw,ro"];
const SQUASH: [&str; 9] = [
    "",
    "root_squash",
    "no_root_squash",
    "all_squash",
    "all_squash,no_root_squash",
    "no_root_squash,all_squash",
    "all_squash,root_squash",
    "root_squash,no_root_squash",
    "no_root_squash,all_squash,no_all_squash",
];
const PORT: [&str; 3] = ["", "secure", "insecure"];
/// Host or network of the rule, a client, and whether that is one of them.
const HOSTS: [(&str, &str, bool); 12] = [
    ("*", "192.0.2.1", true),
    ("*", "2001:db8::1", true),
    ("192.0.2.1", "192.0.2.1", true),
    ("192.0.2.1", "::ffff:192.0.2.1", true),
    ("192.0.2.1", "192.0.2.2", false),
    ("192.0.2.0/24", "::ffff:192.0.2.77", true),
    ("::ffff:192.0.2.1", "192.0.2.1", true),
    ("::ffff:192.0.2.0/120", "::ffff:192.0.2.9", true),
    ("::ffff:192.0.2.0/120", "192.0.3.1", false),
    ("2001:db8::/32", "2001:db8::1", true),
    ("2001:db8::/32", "192.0.2.1", false),
    ("2001:db8::1", "2001:db8::2", false),
];
const PORTS: [u16; 3] = [700, 1023, 40_000];
const UIDS: [u32; 2] = [0, 1234];
const NO_RULE: &str = "198.51.100.200(rw)";

type Handle = Vec<u8>;

/// What the procedures work on, all of it everybody's to change.
struct Scene {
    exports: Arc<TestExports>,
    root: Handle,
}

impl Scene {
    fn new() -> Self {
        let exports = TestExports::new();
        let root = seal(&exports, exports.tank.root());
        Self { exports, root }
    }

    fn rule(&self, text: &str) {
        text.clone_into(&mut self.exports.tank_rule.lock());
    }

    /// A file that everybody may read and write.
    fn file(&self, name: &str) -> Handle {
        let root = Cred::root();
        let how = CreateHow::Guarded(SetAttr { mode: Some(0o666), ..SetAttr::default() });
        let tank = &self.exports.tank;
        let made = tank.create(OpCtx::of(&root), tank.root(), name.as_bytes(), &how).result.unwrap();
        seal(&self.exports, made.object)
    }

    fn find(&self, name: &str) -> Option<(FileKind, u32)> {
        let tank = &self.exports.tank;
        tank.lookup(&Cred::root(), tank.root(), name.as_bytes()).ok().map(|(attr, _)| (attr.kind, attr.uid))
    }
}

fn seal(exports: &TestExports, object: ObjectRef) -> Handle {
    Named { pool: crate::support::POOL, dataset: exports.tank.dataset(), object }.seal(&crate::support::KEY).to_vec()
}

/// A procedure: whether it changes something, whether that makes a new object, and its words from the root, a file, the
/// file's name and a fresh name.
struct Act {
    procedure: Procedure,
    changes: bool,
    makes: bool,
    words: Words,
}

type Words = fn(&Handle, &Handle, &str, &str) -> Encoder;

fn acts() -> Vec<Act> {
    let act = |procedure, changes, makes, words| Act { procedure, changes, makes, words };
    let (look, change, make) = ((false, false), (true, false), (true, true));
    let acts: [(Procedure, (bool, bool), Words); 18] = [
        (Procedure::GetAttr, look, |_, file, _, _| of(file, |_| {})),
        (Procedure::Lookup, look, |root, _, name, _| dir_name(root, name.as_bytes())),
        (Procedure::Access, look, |_, file, _, _| {
            of(file, |words| {
                words.u32(0x3f);
            })
        }),
        (Procedure::Read, look, |_, file, _, _| {
            of(file, |words| {
                words.u64(0).u32(10);
            })
        }),
        (Procedure::ReadDir, look, |root, _, _, _| {
            of(root, |words| {
                words.u64(0).u64(0).u32(4096);
            })
        }),
        (Procedure::ReadDirPlus, look, |root, _, _, _| {
            of(root, |words| {
                words.u64(0).u64(0).u32(4096).u32(8192);
            })
        }),
        (Procedure::FsStat, look, |root, _, _, _| of(root, |_| {})),
        (Procedure::FsInfo, look, |root, _, _, _| of(root, |_| {})),
        (Procedure::PathConf, look, |root, _, _, _| of(root, |_| {})),
        (Procedure::Commit, change, |_, file, _, _| {
            of(file, |words| {
                words.u64(0).u32(0);
            })
        }),
        (Procedure::SetAttr, change, |_, file, _, _| {
            of(file, |words| {
                words.raw(&size(3).into_vec()).bool(false);
            })
        }),
        (Procedure::Write, change, |_, file, _, _| write_arguments(file, 0, b"old", Stability::FileSync as u32)),
        (Procedure::Create, make, |root, _, _, fresh| {
            behind(root, fresh, |words| {
                words.u32(1).raw(&mode(0o644).into_vec());
            })
        }),
        (Procedure::MkDir, make, |root, _, _, fresh| {
            behind(root, fresh, |words| {
                words.raw(&mode(0o755).into_vec());
            })
        }),
        (Procedure::SymLink, make, |root, _, _, fresh| {
            behind(root, fresh, |words| {
                words.raw(&mode(0o777).into_vec()).opaque(b"there");
            })
        }),
        (Procedure::Remove, change, |root, _, name, _| dir_name(root, name.as_bytes())),
        (Procedure::Rename, change, |root, _, name, fresh| {
            behind(root, name, |words| {
                words.opaque(root).opaque(fresh.as_bytes());
            })
        }),
        (Procedure::Link, change, |root, file, _, fresh| {
            of(file, |words| {
                words.opaque(root).opaque(fresh.as_bytes());
            })
        }),
    ];
    acts.into_iter().map(|(procedure, (changes, makes), words)| act(procedure, changes, makes, words)).collect()
}

fn of(handle: &Handle, rest: impl FnOnce(&mut Encoder)) -> Encoder {
    words(|words| {
        words.opaque(handle);
        rest(words);
    })
}

fn behind(dir: &Handle, name: &str, rest: impl FnOnce(&mut Encoder)) -> Encoder {
    let mut arguments = dir_name(dir, name.as_bytes());
    rest(&mut arguments);
    arguments
}

fn told(reply: &[u8]) -> Told {
    let reply = bytes::Bytes::copy_from_slice(reply);
    let mut decoder = Decoder::new(&reply, 0);
    let mut word = || decoder.u32().expect("a reply has so many words");
    let (_xid, _is_reply, is_denied) = (word(), word(), word());
    if is_denied == 1 {
        return if (word(), word()) == (1, 5) { Told::TooWeak } else { Told::Other(u32::MAX) };
    }
    let (_flavor, _length, accepted) = (word(), word(), word());
    match (accepted, word()) {
        (0, 0) => Told::Done,
        (0, 13) => Told::Acces,
        (0, 30) => Told::RoFs,
        (_, other) => Told::Other(other),
    }
}

/// What a host under a rule is told.
fn expected(options: &str, is_let_in: bool, uid: u32, port: u16, changes: bool) -> Told {
    let says = exports_5(options, uid);
    if !is_let_in {
        Told::Acces
    } else if says.secure && port >= 1024 {
        Told::TooWeak
    } else if changes && !says.writable {
        Told::RoFs
    } else {
        Told::Done
    }
}

/// Where, who, and under what.
#[derive(Clone, Debug)]
struct Cell {
    options: String,
    network: &'static str,
    client: IpAddr,
    is_let_in: bool,
    port: u16,
    uid: u32,
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (number, access) in ACCESS.iter().enumerate() {
        for (squash_number, squash) in SQUASH.iter().enumerate() {
            for port_word in PORT {
                for (host_number, (network, client, is_let_in)) in HOSTS.into_iter().enumerate() {
                    for (port, uid) in PORTS.into_iter().flat_map(|port| UIDS.map(|uid| (port, uid))) {
                        // Every host with every rule that it can tell apart, and not the product of all with all.
                        if (number + squash_number + host_number) % 4 != 0 {
                            continue;
                        }
                        let ids = format!("anonuid={ANONYMOUS},anongid={ANONYMOUS}");
                        let parts = [access, *squash, port_word, &ids];
                        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                        let client = client.parse().unwrap();
                        cells.push(Cell { options: parts.join(","), network, client, is_let_in, port, uid });
                    }
                }
            }
        }
    }
    cells
}

#[test]
fn every_cell_of_the_table() {
    let (cells, acts) = (cells(), acts());
    let mut count = 0;
    let mut of_exports_5 = BTreeSet::new();
    for cell in &cells {
        let scene = Scene::new();
        for (number, act) in acts.iter().enumerate() {
            count += check(&scene, cell, act, u32::try_from(number).unwrap() * 100);
            let told = expected(&cell.options, true, cell.uid, cell.port, act.changes);
            let owner = exports_5(&cell.options, cell.uid).uid;
            of_exports_5.insert((cell.options.clone(), cell.port, cell.uid, act.procedure.name(), told, owner));
        }
        count += check_mount(&scene, cell);
    }
    println!("{count} cells");
    assert!(count >= 100_000, "{count} cells");
    if let Ok(path) = std::env::var("TALLY_DECISIONS") {
        let mut text = String::from("options\tport\tuid\tprocedure\ttold\towner of what is made\n");
        for (options, port, uid, procedure, told, owner) in of_exports_5 {
            let _ = writeln!(text, "{options}\t{port}\t{uid}\t{procedure}\t{told:?}\t{owner}");
        }
        std::fs::write(path, text).unwrap();
    }
}

/// One procedure under one rule: once, again, and again while the rule is another one. Gives the number of decisions.
fn check(scene: &Scene, cell: &Cell, act: &Act, xid: u32) -> usize {
    let rule = format!("{}({}) {NO_RULE}", cell.network, cell.options);
    let what = format!("{rule} for {} port {} uid {}: {}", cell.client, cell.port, cell.uid, act.procedure.name());
    let (name, fresh) = (format!("f{xid}"), format!("n{xid}"));
    let file = scene.file(&name);
    let desk = Desk::new(&scene.exports);
    let line = desk.line(SocketAddr::new(cell.client, cell.port)).acting_as(cell.uid, &[cell.uid]);
    let send = |line: &Line<'_>| {
        line.transmit(xid, NFS, act.procedure.number(), (act.words)(&scene.root, &file, &name, &fresh))
    };
    scene.rule(&rule);
    let first = send(&line);
    let wanted = expected(&cell.options, cell.is_let_in, cell.uid, cell.port, act.changes);
    assert_eq!(told(&first), wanted, "{what}");
    let owner = exports_5(&cell.options, cell.uid).uid;
    let made = act.makes && wanted == Told::Done;
    assert_eq!(
        scene.find(&fresh).filter(|_| act.makes).map(|(_, uid)| uid),
        made.then_some(owner),
        "{what}: whose it is"
    );
    assert_again(&what, act, &first, &send(&line));
    let mut count = 2;
    for (other, is_let_in, options) in [
        (NO_RULE.to_owned(), false, "ro"),
        (format!("{}(ro,insecure)", cell.network), cell.is_let_in, "ro,insecure"),
        (format!("{}(rw,secure)", cell.network), cell.is_let_in, "rw,secure"),
    ] {
        scene.rule(&other);
        let now = expected(options, is_let_in, cell.uid, cell.port, act.changes);
        // What is let in and was not carried out before is carried out now: another test of other cells.
        if now == Told::Done && wanted != Told::Done {
            continue;
        }
        let again = send(&line);
        match now {
            Told::Done => assert_again(&what, act, &first, &again),
            _ => assert_eq!(told(&again), now, "{what}, sent again under {other}"),
        }
        count += 1;
    }
    scene.rule(&rule);
    assert_again(&format!("{what}, the rule is as before"), act, &first, &send(&line));
    count + 1
}

/// A repetition is told what the first transmission was, and where that is remembered in the very same bytes.
fn assert_again(what: &str, act: &Act, first: &[u8], again: &[u8]) {
    assert_eq!(told(again), told(first), "{what}, again");
    if act.procedure.is_remembered() {
        assert_eq!(again, first, "{what}, again");
    }
}

/// MOUNT asks the same rule, and changes nothing.
fn check_mount(scene: &Scene, cell: &Cell) -> usize {
    scene.rule(&format!("{}({}) {NO_RULE}", cell.network, cell.options));
    let desk = Desk::new(&scene.exports);
    let line = desk.line(SocketAddr::new(cell.client, cell.port)).acting_as(cell.uid, &[cell.uid]);
    let arguments = words(|words| {
        words.opaque(b"/tank");
    });
    let reply = line.transmit(7, MOUNT, 1, arguments);
    let wanted = expected(&cell.options, cell.is_let_in, cell.uid, cell.port, false);
    assert_eq!(told(&reply), wanted, "MOUNT {cell:?}");
    1
}
