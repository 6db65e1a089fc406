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

#[test]
fn it_lasts_as_long_as_the_daemon() {
    let (address, answers) = yes_sayer(14);
    let registration = Registration::try_new(address, 2049).expect("it says yes");
    drop(registration);
    let expected = [3, 3, 3, 1, 3, 1, 3, 1, 3, 2, 3, 2, 3, 2];
    assert_eq!(answers.join().unwrap(), expected, "SET, and UNSET at the end; each is asked for before");
}

#[test]
fn without_rpcbind_there_is_none_and_no_failure() {
    let nobody = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    assert!(Registration::try_new(nobody, 2049).is_none());
}
