//! What hosts say that lock for version 3, and what is heard of calls to them.

use tally_nfs::nlm::{nsm, procedure};
use tally_nfs::xdr::Encoder;

use super::{Seed, put_blob};
use crate::house::{FILE, TANK, handle};
use crate::rpc::record;

/// Letters: the first host asks, the second, its user; what is heard of a call; time.
const FIRST: u8 = 0;
const SECOND: u8 = 8;
const USER: u8 = 24;
const HEARD: u8 = 4;
const NOTHING: u8 = 5;
const NOT_CALLED: u8 = 6;
const TIME: u8 = 7;

pub(super) fn seeds() -> Vec<Seed> {
    let mut seeds: Vec<_> = stories().into_iter().map(|(name, story)| Seed::new("nlm", name, story.concat())).collect();
    seeds.extend(datagrams());
    seeds
}

/// `nlm4_lock`, of ten bytes, in front of which and behind which that stands.
fn lock(procedure: u32, blocks: bool, is_reclaim: bool) -> Vec<u8> {
    let mut words = Encoder::new();
    words.opaque(b"cook");
    match procedure {
        procedure::TEST => drop(words.bool(true)),
        procedure::UNLOCK => {}
        _ => drop(words.bool(blocks).bool(true)),
    }
    words.opaque(b"host").opaque(&handle(TANK, FILE)).opaque(b"7@host").u32(7).u64(0).u64(10);
    if procedure == procedure::LOCK {
        words.bool(is_reclaim).u32(3);
    }
    words.into_vec()
}

fn ask(who: u8, procedure: u32, arguments: &[u8]) -> Vec<u8> {
    let mut bytes = vec![who, procedure as u8];
    put_blob(&mut bytes, arguments);
    bytes
}

fn locks(who: u8, blocks: bool) -> Vec<u8> {
    ask(who, procedure::LOCK, &lock(procedure::LOCK, blocks, false))
}

fn of(who: u8, procedure: u32) -> Vec<u8> {
    ask(who, procedure, &lock(procedure, true, false))
}

fn heard(stat: u32) -> Vec<u8> {
    let mut words = Encoder::new();
    words.opaque(b"cook").u32(stat);
    let mut bytes = vec![HEARD];
    put_blob(&mut bytes, &words.into_vec());
    bytes
}

fn stories() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let given = || vec![locks(FIRST, false), locks(SECOND, true), of(FIRST, procedure::UNLOCK)];
    let then = |more: Vec<Vec<u8>>| [given(), more].concat();
    let mut free_all = Encoder::new();
    free_all.opaque(b"host").u32(0);
    let reclaims = ask(FIRST, procedure::LOCK, &lock(procedure::LOCK, false, true));
    vec![
        ("a-lock", vec![locks(FIRST, false), of(SECOND, procedure::TEST), of(FIRST, procedure::UNLOCK)]),
        ("taken", then(vec![heard(0), locks(FIRST, false)])),
        ("refused", then(vec![heard(1), locks(FIRST, false)])),
        ("in-doubt", then(vec![vec![NOTHING, TIME, 11], heard(1), of(SECOND, procedure::CANCEL), locks(FIRST, false)])),
        ("not-called", then(vec![vec![NOT_CALLED, TIME, 11, NOT_CALLED, TIME, 11, NOT_CALLED], locks(FIRST, false)])),
        ("a-user", vec![locks(SECOND, false), of(USER, procedure::UNLOCK), locks(USER, true)]),
        ("claimed", vec![locks(FIRST, false), reclaims, ask(FIRST, procedure::FREE_ALL, &free_all.into_vec())]),
        ("a-share", vec![locks(FIRST, false), of(FIRST, procedure::SHARE), of(FIRST, procedure::UNSHARE)]),
    ]
}

fn datagrams() -> Vec<Seed> {
    let mut notice = Encoder::new();
    notice.opaque(b"host").u32(5);
    let notice = notice.into_vec();
    let call = |procedure, arguments: &[u8]| {
        let mut bytes = vec![1];
        put_blob(&mut bytes, &record(0, (1, nsm::PROGRAM, nsm::VERSION, procedure), arguments));
        bytes
    };
    let notified = call(nsm::NOTIFY, &notice);
    let of_another_program = {
        let mut bytes = vec![1];
        put_blob(&mut bytes, &record(0, (1, nsm::PROGRAM + 1, nsm::VERSION, 0), &[]));
        bytes
    };
    vec![
        Seed::new("nsm", "nothing", call(0, &[])),
        Seed::new("nsm", "twice", [notified.clone(), notified.clone()].concat()),
        Seed::new("nsm", "cut", notified[..notified.len() - 6].to_vec()).refused(),
        Seed::new("nsm", "another-program", of_another_program).refused(),
    ]
}
