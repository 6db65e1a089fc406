//! What a host that a rule keeps out can do to those that it lets in, and what is left of a rule that changes: nothing.
//!
//! The reply cache gives an answer without looking at who may have it. It once stood before rule, port and handle: whoever
//! could reach the port pushed the answers of others out, so that a late copy of a WRITE was carried out again and buried
//! newer data; a refusal by a rule was given to the same request after the rule had gone; and who had lost their access
//! still got the handles of what they had made.

use std::net::SocketAddr;

use crate::support::TestExports;
use crate::support::client::{Handle, NFS, TOOWEAK, dir_name, mode, words, write_arguments};
use crate::support::desk::{Desk, Line};
use tally_nfs::handle::Handle as Named;
use tally_nfs::v3::Procedure;
use tally_nfs::xdr::Encoder;
use tally_vfs::{Identity, Stability};

const OK: u32 = 0;
const ACCES: u32 = 13;
const EXIST: u32 = 17;
const ROFS: u32 = 30;
const BADHANDLE: u32 = 10001;

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn root(exports: &TestExports) -> Handle {
    let named = Named { pool: crate::support::POOL, dataset: exports.tank.dataset(), object: exports.tank.root() };
    named.seal(&crate::support::KEY).to_vec()
}

fn make(dir: &[u8], name: &[u8]) -> Encoder {
    let mut arguments = dir_name(dir, name);
    arguments.u32(1).raw(&mode(0o644).into_vec());
    arguments
}

fn create(line: &Line<'_>, xid: u32, dir: &[u8], name: &[u8]) -> (u32, Option<Handle>) {
    let mut answer = line.call(xid, NFS, Procedure::Create.number(), make(dir, name));
    let handle = if answer.status == OK { answer.post_handle() } else { None };
    (answer.status, handle)
}

fn write(line: &Line<'_>, xid: u32, file: &[u8], content: &[u8]) -> u32 {
    line.call(xid, NFS, Procedure::Write.number(), write_arguments(file, 0, content, Stability::FileSync as u32)).status
}

fn content(line: &Line<'_>, file: &[u8]) -> Vec<u8> {
    let arguments = words(|words| {
        words.opaque(file).u64(0).u32(100);
    });
    let mut answer = line.call(1, NFS, Procedure::Read.number(), arguments);
    assert_eq!(answer.status, OK);
    answer.post_attr();
    answer.u32();
    answer.bool();
    answer.opaque()
}

/// Sends an old WRITE, then a new one, then whatever `strangers` do, then the old one again, from a new connection.
fn a_late_write_beside(rule: &str, strangers: impl FnOnce(&Desk, &[u8])) {
    let exports = TestExports::new();
    *exports.tank_rule.lock() = rule.into();
    let (desk, root) = (Desk::new(&exports), root(&exports));
    let good = at("192.0.2.1:700");
    let first = desk.line(good);
    let file = create(&first, 1, &root, b"f").1.unwrap();
    assert_eq!(write(&first, 2, &file, b"old"), OK);
    drop(first);
    let second = desk.line(good);
    assert_eq!(write(&second, 3, &file, b"new"), OK);
    strangers(&desk, &root);
    assert_eq!(write(&second, 2, &file, b"old"), OK, "its first answer");
    assert_eq!(content(&second, &file), b"new", "a late copy of the old WRITE was carried out: {rule}");
}

#[test]
fn who_has_no_rule_pushes_no_answer_out() {
    a_late_write_beside("192.0.2.1(rw,no_root_squash)", |desk, root| {
        for host in 0..60 {
            let stranger = desk.line(at(&format!("198.51.100.{host}:700")));
            for xid in 0..256 {
                // A handle that means nothing, and one that they heard of.
                let dir: &[u8] = if xid % 2 == 0 { &[0; 56] } else { root };
                let refused = stranger.call(xid, NFS, Procedure::Remove.number(), dir_name(dir, b"x")).status;
                assert_eq!(refused, if xid % 2 == 0 { BADHANDLE } else { ACCES });
            }
        }
    });
}

/// The bound of a client is its host's: a user of the same host, whose port `secure` refuses, must not use it up.
#[test]
fn an_ordinary_port_of_the_same_host_pushes_no_answer_out() {
    a_late_write_beside("*(rw,no_root_squash,secure)", |desk, root| {
        let neighbour = desk.line(at("192.0.2.1:40000")).acting_as(1001, &[1001]);
        for xid in 0..1024 {
            let refused = neighbour.call(xid, NFS, Procedure::Remove.number(), dir_name(root, b"x")).status;
            assert_eq!(refused, TOOWEAK);
        }
    });
}

#[test]
fn what_a_port_is_refused_another_port_is_not() {
    let exports = TestExports::new();
    *exports.tank_rule.lock() = "*(rw,no_root_squash,secure)".into();
    let (desk, root) = (Desk::new(&exports), root(&exports));
    assert_eq!(create(&desk.line(at("192.0.2.1:40000")), 7, &root, b"f").0, TOOWEAK);
    assert_eq!(create(&desk.line(at("192.0.2.1:700")), 7, &root, b"f").0, OK);
}

/// A CREATE is carried out, and the server ends before its client has the answer. While the client repeats it the rule says
/// `ro` for a moment, and `rw` again: the file system remembers the success, and so must the client's answer say.
#[test]
fn a_refusal_by_a_rule_is_gone_with_the_rule() {
    for (refusing, status) in [("*(ro,insecure)", ROFS), ("off", ACCES), ("*(rw,secure)", TOOWEAK)] {
        let exports = TestExports::new();
        let (before, root) = (Desk::new(&exports), root(&exports));
        let made = create(&before.line(at("192.0.2.1:40000")), 7, &root, b"f");
        drop(before);
        let after = Desk::new(&exports);
        let line = after.line(at("192.0.2.1:40000"));
        *exports.tank_rule.lock() = refusing.into();
        assert_eq!(create(&line, 7, &root, b"f").0, status, "{refusing}");
        *exports.tank_rule.lock() = "*(rw,no_root_squash,insecure)".into();
        assert_eq!(create(&line, 7, &root, b"f"), made, "{refusing}: its first answer");
        assert_eq!(create(&line, 8, &root, b"f").0, EXIST, "another request");
    }
}

#[test]
fn who_has_lost_their_access_gets_no_old_answer() {
    for (refusing, status) in [("*(ro,insecure)", ROFS), ("off", ACCES), ("*(rw,secure)", TOOWEAK)] {
        let exports = TestExports::new();
        let (desk, root) = (Desk::new(&exports), root(&exports));
        let line = desk.line(at("192.0.2.1:40000"));
        let made = create(&line, 7, &root, b"f");
        assert_eq!(made.0, OK);
        *exports.tank_rule.lock() = refusing.into();
        assert_eq!(create(&line, 7, &root, b"f"), (status, None), "{refusing}");
        *exports.tank_rule.lock() = "*(rw,no_root_squash,insecure)".into();
        assert_eq!(create(&line, 7, &root, b"f"), made, "the rule is as it was, and so is the answer");
    }
}
