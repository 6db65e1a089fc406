use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;

use super::*;
use crate::cli::Interrupts;
use crate::control::listener::{Asker, ControlSocket, NotDone, Service};
use crate::control::message::RewindShown;
use crate::control::report::PoolReport;
use crate::control::report::{DatasetReport, Found, FoundPool, PropertyLine, RefusedDisk};

/// Says back what it was asked for, with some data of each kind.
struct Echo;

impl Service for Echo {
    fn handle(&self, request: Request, _: &Asker) -> Result<Reply, NotDone> {
        Ok(match request {
            Request::PoolStatus { names } if names.is_empty() => Reply::Pools(Vec::new()),
            Request::PoolStatus { names } => Reply::Pools(names.into_iter().map(pool).collect()),
            Request::PoolFind { dirs, .. } => Reply::Found(found(&dirs)),
            Request::DatasetList { .. } => Reply::Datasets(vec![dataset()]),
            Request::DatasetGet { properties, .. } => Reply::Properties(vec![PropertyLine {
                name: "tank/home".into(),
                property: properties.join("+"),
                value: "128K".into(),
                exact: "131072".into(),
                source: "inherited from tank".into(),
            }]),
            Request::PoolRewind { look: true, pool, to, .. } => {
                let to = to.unwrap_or(7);
                Reply::Rewind(RewindShown { to, from: 9, lines: vec![format!("'{pool}' goes back to {to}")] })
            }
            Request::Mounts => Reply::Mounts(Vec::new()),
            Request::PoolDestroy { name } => return Err(format!("there is no pool '{name}'").into()),
            other => Reply::Done(vec![format!("{other:?}")]),
        })
    }
}

/// A pool in some directories; elsewhere there is only a disk of which no pool is made.
fn found(dirs: &[PathBuf]) -> Found {
    let pool = FoundPool {
        name: "tank".into(),
        guid: "00ab".into(),
        state: "ONLINE".into(),
        paths: dirs.iter().map(|dir| dir.join("t.img").display().to_string()).collect(),
        messages: Vec::new(),
        exported: true,
    };
    let odd = RefusedDisk { path: "/odd/\u{1b}[2J".into(), reason: "its labels are odd".into() };
    Found { pools: if dirs.is_empty() { Vec::new() } else { vec![pool] }, refused: vec![odd] }
}

fn pool(name: String) -> PoolReport {
    let (size, allocated) = (10 << 30, 3 << 29);
    PoolReport { name, state: "ONLINE".into(), size, allocated, free: size - allocated, ..PoolReport::default() }
}

fn dataset() -> DatasetReport {
    DatasetReport {
        name: "tank/home".into(),
        used: 1536,
        available: 1 << 30,
        referenced: 1024,
        mountpoint: "/srv/home".into(),
        mounted: true,
        exportpath: "/tank/home".into(),
        created: 1_795_257_000,
        created_txg: 7,
        guid: 15_241_578_750_190_521_000,
        ..DatasetReport::default()
    }
}

/// Runs one command against a served [`Echo`]: exit status, stdout, stderr.
fn tally(words: &[&str]) -> (u8, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let socket = ControlSocket::bind(&dir.path().join("tally.sock"), None).unwrap();
    socket.serve(Arc::new(Echo)).unwrap();
    tally_at(socket.path().to_path_buf(), words)
}

fn tally_at(socket: PathBuf, words: &[&str]) -> (u8, String, String) {
    let words = std::iter::once(&"tally").chain(words);
    let mut cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return (u8::try_from(error.exit_code()).unwrap(), String::new(), error.to_string()),
    };
    cli.socket = Some(socket);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let result =
        run(&cli, Path::new("/here"), &mut Console { out: &mut out, err: &mut err, interrupts: Interrupts::Never });
    let status = result.as_ref().map_or_else(Failure::exit_status, |()| 0);
    let failure = result.err().map_or_else(String::new, |failure| failure.to_string());
    (status, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap() + &failure)
}

#[test]
fn data_goes_to_stdout() {
    let cases: &[(&[&str], &str)] = &[
        (&["pool", "list", "tank"], "NAME  SIZE  ALLOC   FREE  CAP  HEALTH\ntank   10G  1.50G  8.50G  15%  ONLINE\n"),
        (&["pool", "list", "-Hp", "tank"], "tank\t10737418240\t1610612736\t9126805504\t15\tONLINE\n"),
        (
            &["dataset", "list", "-r", "tank"],
            "NAME        USED  AVAIL  REFER  MOUNTPOINT\ntank/home  1.50K     1G     1K  /srv/home\n",
        ),
        (
            &["dataset", "list", "-o", "name,creation,createtxg,guid", "tank"],
            "NAME       CREATION               CREATETXG                  GUID\n\
             tank/home  Sat Nov 21 10:30 2026          7  15241578750190521000\n",
        ),
        (&["dataset", "list", "-Hp", "-o", "guid,creation,refer", "tank"], "15241578750190521000\t1795257000\t1024\n"),
        (
            &["dataset", "get", "sync,recordsize", "tank/home"],
            "NAME       PROPERTY         VALUE  SOURCE\ntank/home  sync+recordsize  128K   inherited from tank\n",
        ),
        (&["dataset", "get", "-H", "-p", "all"], "tank/home\t\t131072\tinherited from tank\n"),
        (
            &["pool", "import", "-d", "disks"],
            "   pool: tank\n     id: 00ab\n  state: ONLINE\n action: import it with `tally pool import -d /here/disks tank`\n \
             config:\n\n\t/here/disks/t.img\n\n   disk: /odd/\\u001b[2J\n status: its labels are odd\n",
        ),
    ];
    for (words, expected) in cases {
        assert_eq!(tally(words), (0, (*expected).into(), String::new()), "{words:?}");
    }
}

#[test]
fn words_become_requests() {
    let cases: &[(&[&str], &str)] = &[
        (
            &[
                "pool",
                "create",
                "-f",
                "-O",
                "sync=always",
                "-o",
                "compatibility=0.1",
                "tank",
                "mirror",
                "a",
                "/b",
                "log",
                "c",
            ],
            "PoolCreate { name: \"tank\", vdevs: [\"mirror\", \"/here/a\", \"/b\", \"log\", \"/here/c\"], force: true, \
             file_bytes: None, properties: [Assignment { property: \"sync\", value: \"always\" }], \
             pool_properties: [Assignment { property: \"compatibility\", value: \"0.1\" }] }",
        ),
        (&["pool", "upgrade", "-a"], "PoolUpgrade { names: [] }"),
        (&["pool", "upgrade", "tank", "dozer"], "PoolUpgrade { names: [\"tank\", \"dozer\"] }"),
        (
            &["pool", "replace", "tank", "./a", "b"],
            "PoolReplace { name: \"tank\", device: \"/here/./a\", new_device: Some(\"/here/b\"), force: false }",
        ),
        (
            &["pool", "detach", "tank", "no-such-path"],
            "PoolDetach { name: \"tank\", device: \"no-such-path\", force: false }",
        ),
        (
            &["pool", "offline", "-t", "tank", "./a"],
            "PoolOffline { name: \"tank\", device: \"/here/./a\", temporary: true }",
        ),
        (
            &["pool", "add", "-f", "tank", "spare", "a", "/b"],
            "PoolAdd { name: \"tank\", vdevs: [\"spare\", \"/here/a\", \"/b\"], force: true }",
        ),
        (&["pool", "remove", "tank", "./a"], "PoolRemove { name: \"tank\", device: \"/here/./a\" }"),
        (
            &["pool", "detach", "-fn", "tank", "b"],
            "PoolTry { what: PoolDetach { name: \"tank\", device: \"b\", force: true } }",
        ),
        (&["pool", "online", "tank", "a"], "PoolOnline { name: \"tank\", device: \"a\" }"),
        (&["pool", "scrub", "tank"], "PoolScrub { name: \"tank\", stop: false, pause: false, wait: false }"),
        (&["pool", "scrub", "-s", "tank"], "PoolScrub { name: \"tank\", stop: true, pause: false, wait: false }"),
        (&["pool", "scrub", "-p", "tank"], "PoolScrub { name: \"tank\", stop: false, pause: true, wait: false }"),
        (&["pool", "scrub", "-w", "tank"], "PoolScrub { name: \"tank\", stop: false, pause: false, wait: true }"),
        (
            &["pool", "import", "--accept-loss", "tank"],
            "PoolImport { pool: \"tank\", dirs: [], force: false, read_only: false, accept_loss: true, destroyed: false, accept_mountpoints: false }",
        ),
        (
            &["dataset", "set", "refquota=1G", "sync=always", "tank/home"],
            "DatasetSet { name: \"tank/home\", assignments: [Assignment { property: \"refquota\", value: \"1G\" }, \
             Assignment { property: \"sync\", value: \"always\" }] }",
        ),
        (&["dataset", "destroy", "-r", "tank/x"], "DatasetDestroy { name: \"tank/x\", recursive: true }"),
        (&["dataset", "rename", "tank/a", "tank/b"], "DatasetRename { from: \"tank/a\", to: \"tank/b\" }"),
    ];
    for (words, expected) in cases {
        assert_eq!(tally(words), (0, String::new(), format!("{expected}\n")), "{words:?}");
    }
}

/// What is done is what was shown, whatever the pool has become meanwhile.
#[test]
fn an_import_that_goes_back_shows_what_it_gives_up() {
    let order = |to: u64, force: bool| {
        format!(
            "'tank' goes back to {to}\nPoolRewind {{ pool: \"tank\", dirs: [], force: {force}, read_only: false, \
             destroyed: false, to: Some({to}), from: Some(9), look: false }}\n"
        )
    };
    let cases: &[(&[&str], String)] = &[
        (&["pool", "import", "--rewind", "--yes", "tank"], order(7, false)),
        (&["pool", "import", "-f", "--yes", "--rewind", "tank"], order(7, true)),
        (&["pool", "import", "--yes", "--rewind", "5", "tank"], order(5, false)),
    ];
    for (words, expected) in cases {
        assert_eq!(tally(words), (0, String::new(), expected.clone()), "{words:?}");
    }
    for words in [["pool", "import", "--rewind", "tank", "-n"], ["pool", "import", "-n", "--rewind", "tank"]] {
        assert_eq!(tally(&words), (0, "'tank' goes back to 7\n".into(), String::new()), "{words:?}");
    }
}

#[test]
fn failures_have_their_status_and_leave_stdout_empty() {
    let cases: &[(&[&str], u8, &str)] = &[
        (&["pool", "destroy", "x"], 1, "there is no pool 'x'"),
        (&["pool", "destroy"], 2, "Usage:"),
        (&["pool", "fly"], 2, "unrecognized subcommand"),
        (&["pool", "import", "-n", "tank"], 2, "--rewind"),
        (&["pool", "import", "--rewind"], 2, "the name of a pool"),
        (&["pool", "import", "--rewind", "yesterday", "tank"], 2, "no number of a transaction group"),
        (&["dataset", "create", "-o", "sync", "tank/a"], 2, "write property=value"),
        // It printed the version and succeeded: a script for ZFS believed that it had a volume.
        (&["dataset", "create", "-V", "1G", "tank/a"], 2, "there are no volumes"),
        (&["dataset", "list", "-V"], 2, "unexpected argument '-V'"),
        (&["dataset", "set", "sync", "tank"], 2, "'sync': write property=value"),
        (&["pool", "iostat", "tank", "0"], 2, "'0' is no interval"),
        (&["serve", "--size", "big"], 2, "is not a size"),
    ];
    for (words, status, message) in cases {
        let (got, out, err) = tally(words);
        assert!(got == *status && out.is_empty() && err.contains(message), "{words:?}: {got} {out} {err}");
    }
    let (status, out, err) = tally_at("/no/such/socket".into(), &["pool", "list"]);
    assert!(status == 1 && out.is_empty() && err.contains("tally serve"), "{err}");
    let (status, out, err) = tally(&["pool", "list"]);
    assert_eq!((status, out.as_str(), err.as_str()), (0, "", "no pools are imported\n"));
    let (status, out, err) = tally(&["pool", "import"]);
    assert!(
        status == 0 && out.starts_with("   disk: /odd/") && err.starts_with("no such pools were found"),
        "{out}{err}"
    );
}

#[test]
fn json_is_what_it_says() {
    let (_, out, _) = tally(&["--json", "dataset", "list"]);
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&value[0]["name"], &value[0]["used"]), (&"tank/home".into(), &1536.into()));
    let (_, out, _) = tally(&["--json", "pool", "import", "-d", "disks"]);
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    let names = (&value["pools"][0]["name"], &value["refused"][0]["path"]);
    assert_eq!(
        (names, value["refused"][0]["reason"].as_str()),
        ((&"tank".into(), &"/odd/\\u001b[2J".into()), Some("its labels are odd"))
    );
    let (_, out, err) = tally(&["pool", "export", "tank", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(value["messages"][0].as_str().unwrap().starts_with("PoolExport") && err.is_empty());
    let (_, out, _) = tally(&["pool", "iostat", "tank", "0.01", "3", "--json"]);
    assert_eq!(out.lines().count(), 3);
}

#[test]
fn completions_and_the_configuration_need_no_daemon() {
    let (status, out, _) = tally_at("/no/such/socket".into(), &["completions", "bash"]);
    assert!(status == 0 && out.contains("-F _tally tally"), "{out}");
    let (status, out, _) = tally_at("/no/such/socket".into(), &["config"]);
    assert!(status == 0 && out.contains("data_dir"));
}
