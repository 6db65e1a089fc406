use std::net::{Ipv4Addr, UdpSocket};

use super::*;

/// Says yes to everything, has what it was given, and tells which procedures were called.
fn yes_sayer(calls: usize) -> (SocketAddr, std::thread::JoinHandle<Vec<u8>>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    let answers = std::thread::spawn(move || {
        let (mut procedures, mut registered) = (Vec::new(), Vec::new());
        for _ in 0..calls {
            let mut call = [0; 128];
            let (_, from) = socket.recv_from(&mut call).unwrap();
            let (procedure, program) = (call[23], call[40..44].to_vec());
            procedures.push(procedure);
            let mut answer = [0; 28];
            answer[..4].copy_from_slice(&call[..4]);
            answer[7] = 1;
            answer[24..].copy_from_slice(&match procedure {
                3 if registered.contains(&program) => 2049_u32.to_be_bytes(),
                3 => [0; 4],
                _ => 1_u32.to_be_bytes(),
            });
            if procedure == 1 {
                registered.push(program);
            }
            socket.send_to(&answer, from).unwrap();
        }
        procedures
    });
    (address, answers)
}

fn terms(setting: Rpcbind, rpcbind: SocketAddr) -> Terms {
    let socket = "/nowhere/rpcbind.sock".into();
    Terms {
        setting,
        is_reachable: true,
        rpcbind,
        socket,
        addresses: vec![rpcbind.ip()],
        port: 2049,
        nfs4: true,
        heard_by: Vec::new(),
    }
}

#[test]
fn it_lasts_as_long_as_the_daemon() {
    for setting in [Rpcbind::Register, Rpcbind::Auto] {
        let (address, answers) = yes_sayer(14);
        let standing = Standing::default();
        let registration =
            Registration::start(terms(setting, address), &standing).unwrap().expect("it is looked after");
        let report = standing.lock().clone();
        assert!(report.is_found && report.trouble.is_none() && report.setting == setting.to_string(), "{report:?}");
        drop(registration);
        let expected = [3, 3, 3, 1, 3, 1, 3, 1, 3, 2, 3, 2, 3, 2];
        assert_eq!(answers.join().unwrap(), expected, "SET, and UNSET at the end; each is asked for before");
    }
}

/// Where nobody answers, by either protocol, and where a portmapper can be: thousands of connections that other tests have ended keep their
/// ports of TCP for a minute, at the address that all of them use.
fn nobody() -> SocketAddr {
    let free = || {
        let udp = UdpSocket::bind((Ipv4Addr::new(127, 0, 111, 1), 0)).unwrap();
        let at = udp.local_addr().unwrap();
        std::net::TcpListener::bind(at).map(|_| at)
    };
    std::iter::repeat_with(free).take(100).find_map(Result::ok).expect("a port that is free for both")
}

#[test]
fn without_rpcbind_we_answer_in_its_place_or_say_how_to_mount() {
    let standing = Standing::default();
    let at = nobody();
    let registration = Registration::start(terms(Rpcbind::Register, at), &standing).unwrap();
    let report = standing.lock().clone();
    let trouble = report.trouble.clone().unwrap_or_default();
    assert!(
        !report.is_found && trouble.contains("mountport=2049") && trouble.contains("does not answer"),
        "{report:?}"
    );
    drop(registration);

    for setting in [Rpcbind::Auto, Rpcbind::Serve] {
        let registration = Registration::start(terms(setting, at), &standing).unwrap();
        let report = standing.lock().clone();
        assert!(report.is_found && report.trouble.is_none(), "{report:?}");
        // It is an rpcbind to others, which has our port and takes nobody else's.
        assert_eq!(rpcbind::register(at, 2049, &[]).unwrap(), []);
        let taken = rpcbind::register(at, 7, &[]).unwrap_err();
        assert!(matches!(taken, RpcbindError::Taken { port: 2049, .. }), "{taken}");
        drop(registration);
    }
    let _others = std::net::TcpListener::bind(at).unwrap();
    drop(Registration::start(terms(Rpcbind::Auto, at), &standing).unwrap());
    let trouble = standing.lock().trouble.clone().unwrap_or_default();
    assert!(trouble.contains("mountport=2049") && trouble.contains("in use"), "{trouble}");
}

/// Another server takes our place in rpcbind while we run: its port is named, and what mounts all the same.
#[test]
fn who_takes_our_place_is_named() {
    let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = other.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut call = [0; 128];
        while let Ok((_, from)) = other.recv_from(&mut call) {
            let mut answer = [0; 28];
            answer[..4].copy_from_slice(&call[..4]);
            answer[7] = 1;
            answer[24..].copy_from_slice(&20_049_u32.to_be_bytes());
            let _ = other.send_to(&answer, from);
        }
    });
    let (address, _answers) = yes_sayer(14);
    let standing = Standing::default();
    let mut found = Found { terms: terms(Rpcbind::Auto, address), at: At::Nowhere, has_rpcbind: false };
    found.look(&standing);
    assert!(standing.lock().is_found);
    found.terms.rpcbind = at;
    found.look(&standing);
    let report = standing.lock().clone();
    let trouble = report.trouble.unwrap_or_default();
    assert!(!report.is_found && trouble.contains("port 20049") && trouble.contains("mountport=2049"), "{trouble}");
}

/// An rpcbind is installed while its place is taken: systemd listens on its socket in the file system first, and then fails. Clients are
/// answered as before, and whoever looks is told. A socket that one of before has left behind is none.
#[test]
fn an_rpcbind_that_comes_later_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("rpcbind.sock");
    for (setting, is_told) in [(Rpcbind::Auto, true), (Rpcbind::Serve, false)] {
        let at = nobody();
        let terms = Terms { socket: socket.clone(), ..terms(setting, at) };
        let (standing, mut found) = (Standing::default(), Found { terms, at: At::Nowhere, has_rpcbind: false });
        let trouble = |found: &mut Found| {
            found.look(&standing);
            let report = standing.lock().clone();
            assert!(report.is_found, "clients are answered all the time: {report:?}");
            report.trouble
        };
        assert_eq!(trouble(&mut found), None);
        assert_eq!(trouble(&mut found), None, "what is there from before is nobody's");
        let _ = std::fs::remove_file(&socket);
        assert_eq!(trouble(&mut found), None);
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        let told = trouble(&mut found).unwrap_or_default();
        assert_eq!(told.contains("systemctl start rpcbind.socket"), is_told, "{told}");
    }
}

#[test]
fn off_is_off() {
    let standing = Standing::default();
    assert!(Registration::start(terms(Rpcbind::Off, nobody()), &standing).unwrap().is_none());
    assert_eq!(standing.lock().setting, "off");
    // Nobody but this machine comes: that it is so is told as what was asked for.
    let alone = Terms { is_reachable: false, ..terms(Rpcbind::Auto, nobody()) };
    assert!(Registration::start(alone, &standing).unwrap().is_none());
    assert_eq!(standing.lock().setting, "auto");
}
