use std::os::unix::fs::MetadataExt;

use rustix::process::Uid;

use super::*;
use crate::control::client::{Client, ClientError};
use crate::control::report::PoolReport;

/// Answers every request in its own way, so that each kind of answer crosses a real socket.
struct Parrot;

impl Service for Parrot {
    fn handle(&self, request: Request, asker: &Asker) -> Result<Reply, NotDone> {
        match request {
            Request::PoolExport { name } => {
                for done in 1..=3 {
                    asker.hears(Progress { what: "flushing".into(), done, total: 3 });
                }
                Ok(Reply::Done(vec![format!("exported {name}")]))
            }
            Request::PoolStatus { names } => {
                let report = |name| PoolReport { name, size: u64::MAX, imported_seconds: 0.5, ..PoolReport::default() };
                Ok(Reply::Pools(names.into_iter().map(report).collect()))
            }
            // Nobody hears the end of it.
            Request::PoolSet { .. } => {
                asker.hears_of_beginning();
                loop {
                    thread::park();
                }
            }
            Request::PoolDestroy { name } => Err(format!("no pool '{name}'").into()),
            other => Err(format!("{other:?}").into()),
        }
    }
}

fn served() -> (tempfile::TempDir, ControlSocket) {
    let dir = tempfile::tempdir().unwrap();
    let socket = ControlSocket::bind(&dir.path().join("tally.sock"), None).unwrap();
    socket.serve(Arc::new(Parrot)).unwrap();
    (dir, socket)
}

#[test]
fn requests_are_answered_in_turn_on_one_connection() {
    let (_dir, socket) = served();
    assert_eq!(fs::metadata(socket.path()).unwrap().mode() & 0o777, 0o600);
    let mut client = Client::connect(Some(socket.path())).unwrap();
    let mut seen = Vec::new();
    let export = Request::PoolExport { name: "tank".into() };
    let reply = client.ask(&export, &mut |state| seen.push(state.done)).unwrap();
    assert_eq!((reply, seen), (Reply::Done(vec!["exported tank".into()]), vec![1, 2, 3]));

    let refused = client.ask(&Request::PoolDestroy { name: "x".into() }, &mut |_| {}).unwrap_err();
    assert_eq!(refused.to_string(), "no pool 'x'");

    let Reply::Pools(pools) =
        client.ask(&Request::PoolStatus { names: vec!["a".into(), "b".into()] }, &mut |_| {}).unwrap()
    else {
        panic!("pools were asked for")
    };
    assert_eq!((pools.len(), pools[1].name.as_str(), pools[0].size), (2, "b", u64::MAX));
}

#[test]
fn what_is_no_request_is_refused_and_the_next_line_still_counts() {
    let (_dir, socket) = served();
    let mut stream = UnixStream::connect(socket.path()).unwrap();
    let cases = [
        ("{}", "missing field `op`"),
        (r#"{"op":"fly"}"#, "unknown variant `fly`"),
        (r#"{"op":"pool-export","name":"t","speed":9}"#, "unknown field `speed`"),
        ("\u{0}\u{0}", "expected value"),
    ];
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    for (line, expected) in cases {
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.contains("refused") && answer.contains(expected), "{line}: {answer}");
    }
    stream.write_all(b"{\"op\":\"pool-export\",\"name\":\"tank\"}\n").unwrap();
    assert!(answers.lines().nth(3).unwrap().unwrap().contains("exported tank"));
}

#[test]
fn a_dead_daemons_socket_is_replaced_and_a_living_ones_is_not() {
    let (dir, socket) = served();
    let path = socket.path().to_path_buf();
    assert!(matches!(ControlSocket::bind(&path, None), Err(ListenError::Taken { .. })));

    let left = dir.path().join("left.sock");
    drop(UnixListener::bind(&left).unwrap());
    let looked = Client::connect(Some(&left)).err().expect("nobody listens there");
    assert!(matches!(looked, ClientError::NoDaemon { .. }) && looked.to_string().contains("tally serve"), "{looked}");
    drop(ControlSocket::bind(&left, None).unwrap());
    assert!(!left.exists(), "a daemon that ends takes its socket along");

    let file = dir.path().join("file");
    fs::write(&file, b"precious").unwrap();
    assert!(matches!(ControlSocket::bind(&file, None), Err(ListenError::NotASocket { .. })));
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

#[test]
fn only_root_and_the_daemons_own_user_may_command() {
    use Access::{Command, Look};
    let cases = [(0, 0, Command), (0, 1000, Command), (1000, 1000, Command), (1000, 0, Look), (1001, 1000, Look)];
    for (peer, own, expected) in cases {
        let (peer, own) = (Uid::from_raw(peer), Uid::from_raw(own));
        assert_eq!(Access::of(peer, own), expected, "{peer:?} at the socket of {own:?}");
    }
    let (ours, _theirs) = UnixStream::pair().unwrap();
    assert_eq!(allowed(&ours), Some(Command), "the kernel says that it is ourselves");
}

/// Also where the umask would let others in, and where an old socket was open to all.
#[test]
fn the_socket_is_nobody_elses() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tally.sock");
    drop(UnixListener::bind(&path).unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    let socket = ControlSocket::bind(&path, None).unwrap();
    let metadata = fs::symlink_metadata(socket.path()).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o600);
    assert_eq!(metadata.uid(), rustix::process::geteuid().as_raw());
}

/// Connections that say nothing, or half a request, or have had their answer and stay. With all places taken by them the
/// next command got "connection broke".
#[test]
fn who_asks_nothing_takes_nobodys_place() {
    let (_dir, socket) = served();
    let mut held = Vec::new();
    for number in 0..CONNECTIONS_MAX * 2 {
        let mut watcher = UnixStream::connect(socket.path()).unwrap();
        // The first of them are hung up on meanwhile.
        let _ = match number % 3 {
            0 => Ok(()),
            1 => watcher.write_all(b"{"),
            _ => watcher.write_all(b"{}\n"),
        };
        held.push(watcher);
    }
    for _ in 0..CONNECTIONS_MAX {
        let mut client = Client::connect(Some(socket.path())).unwrap();
        let reply = client.ask(&Request::PoolExport { name: "tank".into() }, &mut |_| {}).unwrap();
        assert_eq!(reply, Reply::Done(vec!["exported tank".into()]));
        held.push(UnixStream::connect(socket.path()).unwrap());
    }
}

/// A daemon that answers whoever asks, and 64 who do not take their answers.
#[test]
fn answers_that_nobody_takes_take_no_place() {
    let (_dir, socket) = served();
    let names: Vec<String> = (0..400).map(|number| format!("pool-{number}")).collect();
    let mut line = serde_json::to_vec(&Request::PoolStatus { names }).unwrap();
    line.push(b'\n');
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        let mut deaf = UnixStream::connect(socket.path()).unwrap();
        deaf.set_nonblocking(true).unwrap();
        // As much as the socket takes.
        while deaf.write(&line).is_ok_and(|count| count > 0) {}
        held.push(deaf);
    }
    let mut client = Client::connect(Some(socket.path())).unwrap();
    client.ask(&Request::PoolExport { name: "tank".into() }, &mut |_| {}).unwrap();
}

/// Where as many commands as there are places wait for something, the next one was hung up on: "connection broke".
#[test]
fn who_finds_no_place_is_told_so() {
    let (_dir, socket) = served();
    let mut line = serde_json::to_vec(&Request::PoolSet { name: "tank".into(), assignments: Vec::new() }).unwrap();
    line.push(b'\n');
    let held: Vec<UnixStream> = (0..CONNECTIONS_MAX)
        .map(|_| {
            let mut stream = UnixStream::connect(socket.path()).unwrap();
            stream.write_all(&line).unwrap();
            // From here on it is under way, and gives its place to nobody.
            assert!(stream.read(&mut [0; 64]).unwrap() > 0);
            stream
        })
        .collect();
    let mut client = Client::connect(Some(socket.path())).unwrap();
    let refused = client.ask(&Request::PoolExport { name: "tank".into() }, &mut |_| {}).unwrap_err().to_string();
    assert!(refused.contains("64 commands under way") && refused.contains("was not begun"), "{refused}");
    drop(held);
}
