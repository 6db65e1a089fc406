use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

#[test]
fn a_taken_port_is_named_or_passed_over() {
    let taken = listen(&[V4], Some(0), None).unwrap();
    let port = taken[0].local_addr().unwrap().port();
    let error = listen(&[V4], Some(port), None).unwrap_err().to_string();
    assert!(error.contains(&format!("port {port} of 127.0.0.1 is taken")) && error.contains("--port"), "{error}");
    let passed = listen_on_one_of(&[V4], &[port, 0]).unwrap();
    assert_ne!(passed[0].local_addr().unwrap().port(), port);
}

#[test]
fn all_addresses_get_one_port() {
    let listeners = listen(&[V4, V6], Some(0), None).unwrap();
    let ports: Vec<u16> = listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
    assert!(ports.iter().all(|&port| port == ports[0] && port != 0), "{ports:?}");
}

#[test]
fn a_foreign_address_and_none_are_refused() {
    let foreign = "192.0.2.1".parse().unwrap();
    assert!(matches!(listen(&[foreign], Some(0), None), Err(ListenError::Refused { .. })));
    assert!(matches!(listen(&[], None, None), Err(ListenError::Nowhere)));
}

#[test]
fn the_port_of_the_last_run_comes_first() {
    let port = listen(&[V4], Some(0), None).unwrap()[0].local_addr().unwrap().port();
    let again = listen(&[V4], None, Some(port)).unwrap();
    assert_eq!(again[0].local_addr().unwrap().port(), port);
}
