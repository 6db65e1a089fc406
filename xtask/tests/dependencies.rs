//! Dependencies point down only: between crates, and between the modules of some of them. The orders stand here as
//! data; who wants another one changes it here, with a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What each crate may see of the others. What is not in a row is a wall.
const CRATES: [(&str, &[&str]); 23] = [
    ("tally-base", &[]),
    ("tally-disk", &["tally-base"]),
    ("tally-intent", &["tally-base", "tally-disk"]),
    // The disks of a pool. Whoever knows what lies on them stands above.
    ("tally-members", &["tally-base", "tally-disk", "tally-intent"]),
    // What stands in for disks and vdevs, for tests alone.
    ("tally-fakes", &["tally-base", "tally-disk", "tally-members"]),
    ("tally-store", &["tally-base", "tally-disk", "tally-intent", "tally-members"]),
    // What clients have claimed of objects, whichever protocol they came by: no protocol, and no file.
    ("tally-claims", &["tally-base"]),
    // What a file system can be asked, for whoever asks and whoever answers.
    ("tally-vfs", &["tally-base", "tally-claims"]),
    (
        "tally-fs",
        &["tally-base", "tally-claims", "tally-disk", "tally-intent", "tally-members", "tally-store", "tally-vfs"],
    ),
    // Only `nfs` knows the protocol, and it sees no engine: only `fs` and below know a transaction group.
    ("tally-nfs", &["tally-base", "tally-vfs"]),
    // Only `fuse` knows what the kernel asks, and it sees no engine either.
    ("tally-fuse", &["tally-base", "tally-vfs"]),
    // What Samba is told: words alone, and no file.
    ("tally-smb", &["tally-base"]),
    // Measures any server from outside, and must not know ours.
    ("tally-bench", &["tally-base"]),
    ("tally-server", &SERVER),
    // Tests and tools see what they need, and nothing sees them.
    // NFSv4 as the RFCs print it, which tests ask beside what is by hand.
    ("tally-wire", &[]),
    ("tally-sim", &ENGINE_AND_PROTOCOL),
    ("tally-interop", &["tally-base", "tally-disk", "tally-bench", "tally-server", "tally-wire"]),
    ("tally-failing", &["tally-bench"]),
    ("tally-fuzz", &ENGINE_AND_DOORS),
    // What makes of the RFCs' texts how NFSv4 goes over the wire.
    ("tally-xdrgen", &[]),
    // Guests, recorded disks, and what every tool needs.
    ("tally-lab", &["tally-bench"]),
    // A client of version 4 speaks by the generated codec.
    ("tally-yardsticks", &["tally-base", "tally-disk", "tally-bench", "tally-lab", "tally-wire"]),
    // Where a developer comes in: it does little itself.
    ("xtask", &["tally-lab", "tally-yardsticks", "tally-xdrgen"]),
];

/// Clients of version 4 speak by the codec that is generated from the RFCs.
const ENGINE_AND_PROTOCOL: [&str; 10] = [
    "tally-base",
    "tally-disk",
    "tally-intent",
    "tally-members",
    "tally-fakes",
    "tally-store",
    "tally-vfs",
    "tally-fs",
    "tally-nfs",
    "tally-wire",
];

/// The same, and what the kernel asks.
const ENGINE_AND_DOORS: [&str; 11] = [
    "tally-base",
    "tally-disk",
    "tally-intent",
    "tally-members",
    "tally-fakes",
    "tally-store",
    "tally-vfs",
    "tally-fs",
    "tally-nfs",
    "tally-fuse",
    "tally-wire",
];

const SERVER: [&str; 11] = [
    "tally-base",
    "tally-disk",
    "tally-intent",
    "tally-members",
    "tally-store",
    "tally-vfs",
    "tally-fs",
    "tally-nfs",
    "tally-fuse",
    "tally-smb",
    "tally-bench",
];

/// Crates whose tests, and nothing else of them, may see what is for tests, besides those that may see it above. What is
/// below what stands in for disks can use it in `tests/`, and in unit tests for traits that are not its own, which are another build there.
const FOR_TESTS: [(&str, &[&str]); 2] = [
    ("tally-fakes", &["tally-disk", "tally-members", "tally-store", "tally-fs", "tally-server", "tally-interop"]),
    ("tally-wire", &["tally-nfs", "tally-server"]),
];

/// Floors of each crate's modules, the highest first. A module may use what stands on a lower floor or on its own, and
/// every module has a place. Several on one floor are pages of one noun, as `Filesystem`'s are, or know nothing of each other.
const FLOORS: [(&str, &[&[&str]]); 22] = [
    (
        "base",
        &[
            &["clock", "promise"],
            &["blocking", "checksum", "codec", "histogram", "mark", "rng", "size", "timing", "units"],
        ],
    ),
    (
        "disk",
        &[
            &["platform", "system"],
            &["counting", "file", "helpers", "patient", "trust"],
            &["fanout"],
            &["patience", "turns"],
            &["buffer", "device"],
        ],
    ),
    ("intent", &INTENT),
    ("members", &MEMBERS),
    ("fakes", &[&["world"], &["faulty"], &["device", "memory"]]),
    ("store", &STORE),
    (
        "vfs",
        &[
            &["model", "suite"],
            &["door", "permission"],
            &["content", "request"],
            &["locks", "opens", "xattrs"],
            &["names", "outcome"],
            &["attributes", "mount"],
        ],
    ),
    (
        "claims",
        &[
            &["table"],
            &["account", "holdings", "object"],
            &["refused", "watchers"],
            &["delegation"],
            &["ranges", "share"],
            &["holder"],
        ],
    ),
    ("fs", &FS),
    ("nfs", &NFS),
    (
        "fuse",
        &[
            &["session"],
            &["door"],
            &["under_way"],
            &["keeping", "locked", "opens", "signals", "source"],
            &["journal"],
            &["errno", "wire"],
        ],
    ),
    ("smb", &[&["strange"], &["conf"], &["main_conf", "name", "share"]]),
    ("bench", &BENCH),
    ("server", &SERVER_FLOORS),
    ("sim", &SIM),
    (
        "interop",
        &[
            &["holders", "mounted"],
            &["ledger"],
            &["client"],
            &["check"],
            &["load", "volatile"],
            &["child", "model", "random", "slow", "wire"],
        ],
    ),
    ("failing", &[&["cases"], &["server"], &["folder"], &["disk", "rules"]]),
    ("fuzz", &FUZZ),
    (
        "lab",
        &[
            &["image"],
            &["guests"],
            &["crash_images", "smb"],
            &["packages", "recording", "slow_disk", "tally"],
            &["cargo", "nbd", "port"],
        ],
    ),
    ("yardsticks", &YARDSTICKS),
    ("wire", &[&["ask"], &["attributes", "told"], &["nfs4"], &["check", "macros"], &["codec"], &["dice"]]),
    ("xdrgen", &[&["rust"], &["names", "parse"], &["tokens"]]),
];

/// Disks of the log's own tests stand above everything.
const INTENT: [&[&str]; 5] = [
    &["testdisk"],
    &["lane", "promise", "recovery"],
    &["config"],
    &["gather", "ring"],
    &["checkpoint", "failure", "frame", "stats"],
];

/// Above objects and records stand the pages of `Filesystem`.
const FS: [&[&str]; 7] = [
    &["filer"],
    &["inspect", "mounted", "read", "replay"],
    &["admission", "ahead", "cost", "damage", "filesystem", "fold", "held", "holes", "ops", "sight", "subtree"],
    &["object", "record"],
    &["entry", "layer"],
    &["inode"],
    &["cuts", "group", "mount", "reserved", "schema", "xattr"],
];

/// What a request knows of its connection stands below all that asks it.
const NFS: [&[&str]; 11] = [
    &["rpcbind", "serve"],
    &["service"],
    &["v4"],
    &["mount", "replies", "v3"],
    &["entry", "repeats"],
    &["cred", "senders"],
    &["link"],
    &["nlm", "stats"],
    &["rpc"],
    &["exports", "handle", "local", "xdr"],
    &["numbers", "procedure"],
];

const BENCH: [&[&str]; 9] = [
    &["run"],
    &["report"],
    &["referee"],
    &["case"],
    &["stage"],
    &["client"],
    &["meter", "target"],
    // Who looks at the disks around a request is known to the client that sends it, and judges nobody.
    &["witness"],
    &["promise", "random", "wire", "work"],
];

/// What flags and file say stands below the commands and below the daemon, which does not see them.
const SERVER_FLOORS: [&[&str]; 6] = [
    &["cli"],
    &["daemon"],
    &["advise", "exports"],
    &["config"],
    &["control"],
    &["dates", "mount_table", "places", "process"],
];

/// What stands within a module that has rooms of its own: its folder below `crates`, its path in code, and its floors. Here nothing
/// sees its own floor: what stood there side by side grew together before.
const WITHIN: [(&str, &str, &[&[&str]]); 2] =
    [("server/src/daemon", "crate::daemon", &DAEMON), ("nfs/src/serve", "crate::serve", &SERVE)];

/// One pool that is served stands below the list of them: a scrub, a copy, a report is of one, and knows no other. Commands
/// stand above the list, and above all those who carry them out and who begin and end the process.
const DAEMON: [&[&str]; 15] = [
    &["run"],
    &["mounting", "opening"],
    &["resuming", "service", "would"],
    &["letting_go", "looking_back", "new_pool", "observe", "signals"],
    &["importing"],
    &[
        "acceptance",
        "chronicle",
        "datasets",
        "disks",
        "exports_report",
        "finding",
        "holdings",
        "label_clear",
        "leaving",
        "listing",
        "manager",
        "pool_properties",
        "rules_above",
        "schedule",
        "spares",
        "upgrade",
    ],
    &["smb_shares"],
    &["pools"],
    &["by_name", "damage_report"],
    &["events", "pool_report"],
    &["scrub", "silence"],
    &["served"],
    &["first_pool", "http", "work"],
    &[
        "absent",
        "mounts",
        "copies",
        "features",
        "history",
        "metrics",
        "new_files",
        "pressure",
        "registration",
        "start_number",
        "zfs_space",
        "zfs_words",
    ],
    &[
        "announce",
        "bell",
        "data_dir",
        "error",
        "fd_store",
        "listen",
        "logging",
        "looks",
        "ops_report",
        "patience",
        "smb_file",
        "state",
        "ticker",
        "users",
    ],
];

/// What threads do stands above the hub that they share, and the hub above what it has of each request. Below that a connection, its
/// backlog and the queue hold requests without knowing what they are.
const SERVE: [&[&str]; 9] = [
    &["accept", "worker"],
    &["calling"],
    &["errands", "sending", "warden"],
    &["hub"],
    &["doubtful"],
    &["work"],
    &["connection"],
    &["backlog"],
    &["complaints", "crew", "input", "ledger", "options", "output", "poller", "queue"],
];

const SIM: [&[&str]; 9] = [
    &["sequences"],
    &["sweep"],
    &["history", "holding"],
    &["machine"],
    &["agree", "oracle"],
    &["op"],
    &["client", "disk"],
    &["chance", "clock", "newer", "same", "sound"],
    &["panics", "words"],
];

const FUZZ: [&[&str]; 7] = [
    &["seeds", "target"],
    &["image", "callback"],
    &["attributes", "locking", "state"],
    &["fuse", "golden", "node", "rpc", "space"],
    &["blocks", "frame", "house", "label", "record", "uberblock"],
    &["told"],
    &["heap", "input", "world"],
];

/// One benchmark may lean on another.
const YARDSTICKS: [&[&str]; 7] = [
    &["cold", "sizes"],
    &["rivals", "scrub"],
    &[
        "against",
        "compare",
        "crowd",
        "datasets",
        "hoards",
        "import",
        "lone",
        "memory_log",
        "million",
        "neighbour",
        "peers",
        "slope",
        "slow",
        "soak",
        "stream",
        "taken",
        "truncate",
        "removal",
        "versions",
        "ways",
        "wtmax",
    ],
    &["limits"],
    &["figures", "handles"],
    &["filer", "report"],
    &["attacks", "floor", "load", "server", "session"],
];

const MEMBERS: [&[&str]; 7] = [
    &["create", "assemble"],
    &["roster"],
    &["choose", "discover"],
    &["vdev"],
    &["uberblock", "grammar"],
    &["label"],
    &["blockdev", "foreign"],
];

const STORE: [&[&str]; 8] = [
    &["inspect"],
    &["pool"],
    &["dataset", "marks", "replies"],
    &["tree"],
    &["txg"],
    &["io", "run", "cache"],
    &["alloc"],
    // Words that all of them use.
    &["block", "bp", "key", "properties", "tuning"],
];

/// How a thread is begun, or stands still, and where the engine may say so: what goes to several disks at once, and work of its own,
/// each has one door (`disk/src/fanout.rs`, `disk/src/helpers.rs`), which is shut in simulations. Doors and workers above the engine
/// have threads of their own, and whoever serves a pool gives it its own.
const THREADS: [&str; 7] = [
    "thread::spawn",
    "thread::scope",
    "thread::Builder",
    "Builder::new()",
    "thread::sleep",
    "JoinHandle",
    "spawn_scoped",
];
const WITHOUT_THREADS: [&str; 7] = ["disk", "intent", "members", "store", "vfs", "claims", "fs"];
const MAY_BEGIN_THREADS: [&str; 2] = ["fanout.rs", "helpers.rs"];

/// What `fs` may not say: it touches blocks by the door of a dataset alone (`store/src/dataset/io.rs`, rules S25).
const BESIDE_THE_DOOR: [&str; 8] = [
    "pool.io",
    "pool().io",
    "BlockIo",
    "RunWriter",
    "allocator()",
    "tally_store::alloc",
    "tally_store::run",
    "Allocator",
];

/// What frees a block, and the only files of `store` that may say it, above the allocator and the I/O themselves.
const FREES: [&str; 2] = ["io.free(", "allocator().free("];
const MAY_FREE: [&str; 5] = [
    // The door of a dataset, and all that goes by it at once.
    "dataset/io.rs",
    "dataset/belongings.rs",
    // What is the pool's own goes to its group's list: root and replies, the catalog, and its tree.
    "pool/sync.rs",
    "pool/catalog.rs",
    "tree/mod.rs",
];

#[test]
fn crates_see_only_what_lies_below() {
    let found = crate_dependencies();
    let expected: BTreeSet<_> = CRATES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), expected, "a crate that has no place in the order");
    for (name, allowed) in CRATES {
        for (dependency, kind) in &found[name] {
            let is_for_tests = |(seen, by): &(&str, &[&str])| seen == dependency && by.contains(&name);
            let for_tests = kind == "dev" && FOR_TESTS.iter().any(is_for_tests);
            assert!(
                allowed.contains(&dependency.as_str()) || for_tests,
                "{name} depends on {dependency} ({kind}), which does not lie below it"
            );
        }
    }
}

#[test]
fn the_order_of_the_crates_has_no_circle() {
    for (position, (name, allowed)) in CRATES.iter().enumerate() {
        for below in *allowed {
            let place = CRATES.iter().position(|(other, _)| other == below);
            assert!(place.is_some_and(|place| place < position), "{name} may see {below}, which stands behind it");
        }
    }
}

#[test]
fn modules_see_only_what_lies_below() {
    let mut wrong = Vec::new();
    for (name, floors) in FLOORS {
        let floor_of = |module: &str| floors.iter().position(|floor| floor.contains(&module));
        let source = workspace().join("crates").join(name).join("src");
        let at_the_root = reexports(&std::fs::read_to_string(source.join("lib.rs")).expect("each crate has one"));
        for path in rust_files(&source) {
            let module = top_module(&source, &path);
            if matches!(&*module, "lib" | "main" | "bin") {
                continue;
            }
            let Some(floor) = floor_of(&module) else {
                wrong.push(format!("{}: {module} has no floor; give it one", path.display()));
                continue;
            };
            let text = std::fs::read_to_string(&path).expect("a file of the tree can be read");
            for used in used_modules(without_tests(&text)) {
                let used = at_the_root.get(&used).cloned().unwrap_or(used);
                if floor_of(&used).is_some_and(|other| other < floor) {
                    wrong.push(format!("{}: {module} uses {used}, which lies above it", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rooms_see_only_what_lies_below() {
    let mut wrong = Vec::new();
    for (folder, path_in_code, floors) in WITHIN {
        let floor_of = |room: &str| floors.iter().position(|floor| floor.contains(&room));
        let source = workspace().join("crates").join(folder);
        for path in rust_files(&source) {
            let room = top_module(&source, &path);
            if room == "mod" {
                continue;
            }
            let Some(floor) = floor_of(&room) else {
                wrong.push(format!("{}: {room} has no floor; give it one", path.display()));
                continue;
            };
            let text = std::fs::read_to_string(&path).expect("a file of the tree can be read");
            let text = without_tests(&text);
            let beside = "super::".repeat(depth(&source, &path));
            let used = [used_behind(text, &format!("{path_in_code}::")), used_behind(text, &beside)].concat();
            for used in used.into_iter().filter(|used| *used != room) {
                // What is no room stands in the table of contents, and that is to hold no more.
                if floor_of(&used).is_none_or(|other| other <= floor) {
                    wrong.push(format!("{}: {room} uses {used}, which does not lie below it", path.display()));
                }
            }
        }
        for room in floors.iter().copied().flatten() {
            let is_there = source.join(room).is_dir() || source.join(format!("{room}.rs")).is_file();
            assert!(is_there, "{folder} has no room {room} any more");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A room may say what a type of a room below it can do; who has the type does not ask it for that.
#[test]
fn no_room_asks_its_own_type_for_what_a_room_above_says_of_it() {
    let mut wrong = Vec::new();
    for (folder, _, _) in WITHIN {
        let source = workspace().join("crates").join(folder);
        let read = |path: PathBuf| {
            let text = std::fs::read_to_string(&path).expect("a file of the tree can be read");
            (top_module(&source, &path), without_tests(&text).to_owned())
        };
        let rooms: Vec<_> = rust_files(&source).into_iter().map(read).collect();
        let owner = |of: &str| {
            let has_it = |(_, text): &&(String, String)| {
                text.lines().any(|line| line.split("struct ").nth(1).is_some_and(|rest| first_word(rest) == of))
            };
            rooms.iter().find(has_it)
        };
        for (room, text) in &rooms {
            for (of, method) in methods(text) {
                let Some((below, asks)) = owner(of).filter(|(below, _)| below != room) else { continue };
                if asks.contains(&format!("self.{method}(")) {
                    wrong.push(format!("{below} asks {of} for {method}, which {room} says of it"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What `impl` blocks of this text say of types: type and method.
fn methods(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut of = None;
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("impl ") {
            of = (!head.contains(" for ")).then(|| first_word(head));
        } else if line == "}" {
            of = None;
        }
        let behind_fn =
            line.strip_prefix("    ").filter(|line| !line.starts_with(' ')).and_then(|line| line.split_once("fn "));
        if let (Some(of), Some((_, rest))) = (of, behind_fn) {
            found.push((of, first_word(rest)));
        }
    }
    found
}

fn first_word(text: &str) -> &str {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default()
}

#[test]
fn the_scan_of_methods_tells_whose_they_are() {
    let text =
        "impl A {\n    pub(super) fn a(&self) {\n        fn inner() {}\n    }\n}\nimpl B for A {\n    fn b() {}\n}\n";
    assert_eq!(methods(text), [("A", "a")]);
}

#[test]
fn the_scan_of_rooms_tells_beside_from_above() {
    let text = "use super::{a, b::B};\nuse super::super::c;\nlet x = super::d::x();\nuse crate::room::e;\n";
    let used = |behind: &str| used_behind(text, behind);
    assert_eq!(used("super::"), ["a", "b", "d"]);
    assert_eq!(used("super::super::"), ["c"]);
    assert_eq!(used("crate::room::"), ["e"]);
}

/// Whatever has no order has no reader, either.
#[test]
fn every_crate_with_modules_has_floors() {
    let crates = std::fs::read_dir(workspace().join("crates")).expect("the folder is there").flatten();
    let has_modules = |name: &String| {
        let lib = std::fs::read_to_string(workspace().join("crates").join(name).join("src/lib.rs")).unwrap_or_default();
        lib.lines().any(|line| line.starts_with("mod ") || line.starts_with("pub mod "))
    };
    let with: BTreeSet<_> =
        crates.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(has_modules).collect();
    assert_eq!(with, FLOORS.iter().map(|(name, _)| (*name).to_owned()).collect());
    for (name, floors) in FLOORS {
        let source = workspace().join("crates").join(name).join("src");
        for module in floors.iter().copied().flatten() {
            let is_there = source.join(module).is_dir() || source.join(format!("{module}.rs")).is_file();
            assert!(is_there, "{name} has no module {module} any more");
        }
    }
}

#[test]
fn a_name_at_the_root_is_its_modules() {
    let lib = "mod a;\npub use a::{One, Two};\npub use b::inner::{\n    Three,\n    Four,\n};\n";
    let found = reexports(lib);
    assert_eq!((found.get("Two"), found.get("Four")), (Some(&"a".to_owned()), Some(&"b".to_owned())));
}

#[test]
fn a_dataset_touches_blocks_by_its_door_alone() {
    let crates = workspace().join("crates");
    let fs = said_in(&crates.join("fs/src"), &BESIDE_THE_DOOR, &[]);
    assert!(fs.is_empty(), "`fs` passes by the door of a dataset:\n{}", fs.join("\n"));
    let store = crates.join("store/src");
    let frees = said_in(&store, &FREES, &[&["io.rs", "alloc/", "io/"][..], &MAY_FREE].concat());
    assert!(frees.is_empty(), "a block is freed where nobody asks whose it is:\n{}", frees.join("\n"));
    for file in MAY_FREE {
        let text = std::fs::read_to_string(store.join(file)).expect("a file of the tree can be read");
        let says = |word: &&str| text.contains(*word);
        assert!(FREES.iter().any(says), "{file} frees nothing any more: it has no place in the list");
    }
}

#[test]
fn the_engine_has_threads_by_their_doors_alone() {
    for name in WITHOUT_THREADS {
        let source = workspace().join("crates").join(name).join("src");
        let except: &[&str] = if name == "disk" { &MAY_BEGIN_THREADS } else { &[] };
        let begun = said_in(&source, &THREADS, except);
        assert!(begun.is_empty(), "`{name}` begins threads of which a simulation does not know:\n{}", begun.join("\n"));
    }
    let disk = workspace().join("crates/disk/src");
    for file in MAY_BEGIN_THREADS {
        let text = std::fs::read_to_string(disk.join(file)).expect("a file of the tree can be read");
        assert!(THREADS.iter().any(|word| text.contains(word)), "{file} begins no thread any more");
    }
}

/// Where production code says one of these words, but for files of `source` whose paths begin like one of `except`.
fn said_in(source: &Path, words: &[&str], except: &[&str]) -> Vec<String> {
    let mut said = Vec::new();
    for path in rust_files(source) {
        let inside = path.strip_prefix(source).expect("files lie in the source folder").to_string_lossy().into_owned();
        if except.iter().any(|file| inside.starts_with(file)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a file of the tree can be read");
        let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        let found = code.filter(|(_, line)| words.iter().any(|word| line.contains(word)));
        said.extend(found.map(|(at, line)| format!("{inside}:{}: {}", at + 1, line.trim())));
    }
    said
}

#[test]
fn the_scan_of_uses_understands_what_people_write() {
    let text = "use crate::pool::Pool;\nuse crate::{alloc, tree::{Tree, Leaf}};\n  pub(crate) use crate::txg;\nlet x = crate::io::read();\n// use crate::dataset;\n";
    let used: BTreeSet<_> = used_modules(text).into_iter().collect();
    let expected: BTreeSet<_> = ["pool", "alloc", "tree", "txg", "io"].map(String::from).into();
    assert_eq!(used, expected);
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the checkout").to_owned()
}

/// Each workspace crate with the workspace crates it depends on, and how.
fn crate_dependencies() -> BTreeMap<String, Vec<(String, String)>> {
    let output = Command::new(env!("CARGO"))
        .current_dir(workspace())
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().expect("packages");
    let of = |package: &serde_json::Value| {
        let all = package["dependencies"].as_array().expect("dependencies").iter();
        // Only dependencies within the checkout have a path.
        all.filter(|dependency| dependency["path"].is_string())
            .map(|dependency| (text(&dependency["name"]), text(&dependency["kind"])))
            .collect()
    };
    packages.iter().map(|package| (text(&package["name"]), of(package))).collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test(&path) {
            files.push(path);
        }
    }
    files
}

fn is_test(path: &Path) -> bool {
    let is_test = |part: &str| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs");
    path.components().any(|part| is_test(&part.as_os_str().to_string_lossy()))
}

/// A file without the tests at its end.
fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod tests {").map_or(text, |(before, _)| before)
}

/// Names that a crate's root gives on, with the modules they come from.
fn reexports(lib: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for statement in
        lib.split("pub use ").skip(1).filter_map(|rest| rest.split_once(';').map(|(statement, _)| statement))
    {
        let Some((module, names)) = statement.split_once("::") else { continue };
        let names = names.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        found.extend(names.filter(|name| !name.is_empty()).map(|name| (name.to_owned(), module.to_owned())));
    }
    found
}

fn top_module(source: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(source).expect("files lie in the source folder");
    let first = inside.components().next().expect("a file has a name").as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

/// How many `super::` lead from a file to the module that has its room.
fn depth(source: &Path, path: &Path) -> usize {
    let inside = path.strip_prefix(source).expect("files lie in the source folder");
    let is_table = inside.file_name().is_some_and(|name| name == "mod.rs");
    inside.components().count() - usize::from(is_table)
}

/// First path elements behind `crate::`, in `use` lines and elsewhere, with `{…}` one level deep.
fn used_modules(text: &str) -> Vec<String> {
    used_behind(text, "crate::")
}

/// First path elements behind this one, which stands alone and not behind or before another of its kind.
fn used_behind(text: &str, start: &str) -> Vec<String> {
    let code: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let mut used = Vec::new();
    for (at, _) in code.match_indices(start) {
        let rest = &code[at + start.len()..];
        if code[..at].ends_with("::") || rest.starts_with("super::") {
            continue;
        }
        match rest.strip_prefix('{') {
            Some(group) => used.extend(group_heads(group)),
            None => used.extend(identifier(rest)),
        }
    }
    used
}

fn group_heads(group: &str) -> Vec<String> {
    let mut depth = 0;
    let mut heads = vec![String::new()];
    for letter in group.chars() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => heads.push(String::new()),
            _ if depth == 0 => heads.last_mut().expect("it starts with one").push(letter),
            _ => {}
        }
    }
    heads.iter().filter_map(|head| identifier(head.trim())).collect()
}

fn identifier(text: &str) -> Option<String> {
    let name: String = text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
    (!name.is_empty()).then_some(name)
}
