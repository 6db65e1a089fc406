use std::net::{Ipv4Addr, UdpSocket};

use super::*;

/// Says yes to everything, and tells which procedures were called.
fn yes_sayer(calls: usize) -> (SocketAddr, std::thread::JoinHandle<Vec<u8>>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    let answers = std::thread::spawn(move || {
        let mut procedures = Vec::new();
        for _ in 0..calls {
            let mut call = [0; 128];
            let (_, from) = socket.recv_from(&mut call).unwrap();
            procedures.push(call[23]);
            let mut answer = [0; 28];
            answer[..4].copy_from_slice(&call[..4]);
            answer[7] = 1;
            answer[27] = 1;
            socket.send_to(&answer, from).unwrap();
        }
        procedures
    });
    (address, answers)
}

#[test]
fn it_lasts_as_long_as_the_daemon() {
    let (address, answers) = yes_sayer(9);
    let registration = Registration::try_new(address, 2049).expect("it says yes");
    drop(registration);
    let expected = [3, 2, 2, 1, 1, 3, 3, 2, 2];
    assert_eq!(
        answers.join().unwrap(),
        expected,
        "UNSET, SET, and UNSET at the end; the lock manager is looked for first"
    );
}

#[test]
fn without_rpcbind_there_is_none_and_no_failure() {
    let nobody = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    assert!(Registration::try_new(nobody, 2049).is_none());
}
