//! Of version 4: compounds in sessions, attributes, what clients of the machine do, and what is answered to calls.

use tally_wire::ask::{self, How, Slot};
use tally_wire::nfs4::{
    Access4Args, CbCompound4Res, CbGetattr4Res, CbGetattr4Resok, CbRecall4Res, CbSequence4Res, CbSequence4Resok,
    Close4Args, Copy4Args, Fattr4, Fattr4Value, NfsArgop4, NfsCbResop4, NfsOpnum4, Nfsstat4, Nfstime4, Settime4,
    Stateid4,
};
use tally_wire::{Dice, bitmap, encode};

use super::{Seed, put_blob};
use crate::house::{DIR, FILE, TANK, TANK_ROOT, handle};

/// Operations of minor version 0 end here.
const LAST_OF_0: u32 = NfsOpnum4::OpReleaseLockowner as u32;

pub(super) fn seeds() -> Vec<Seed> {
    let mut seeds = in_sessions();
    seeds.extend(each_operation());
    seeds.extend(attributes());
    seeds.extend(machine());
    seeds.extend(answers());
    seeds
}

fn compounds(name: impl Into<String>, all: &[(u32, Vec<Vec<u8>>)]) -> Seed {
    let mut bytes = vec![0];
    for (minor, ops) in all {
        let head = [0, *minor, ops.len() as u32].map(u32::to_be_bytes).concat();
        put_blob(&mut bytes, &[&head[..], &ops.concat()].concat());
    }
    Seed::new("compound", name, bytes)
}

fn sequence(sequence: u32) -> Vec<u8> {
    encode(&ask::sequence(Slot { session: *b"#session_______0", sequence }))
}

fn put(id: u64) -> Vec<u8> {
    encode(&ask::put(&handle(TANK, id)))
}

/// One that was told, with this sequence number.
fn known(seqid: u32) -> Stateid4 {
    Stateid4 { seqid, other: *b"#stateid___0" }
}

/// EXCHANGE_ID and CREATE_SESSION.
fn entering(minor: u32) -> Vec<(u32, Vec<Vec<u8>>)> {
    let id = u64::from_be_bytes(*b"#client0");
    let made = ask::create_session(id, 1, ask::PERSISTENT);
    vec![(minor, vec![encode(&ask::exchange_id("seed"))]), (minor, vec![encode(&made)])]
}

fn in_sessions() -> Vec<Seed> {
    let (root, dir) = (put(TANK_ROOT), put(DIR));
    let close = |of| encode(&NfsArgop4::OpClose(Close4Args { seqid: 0, open_stateid: of }));
    let copy = NfsArgop4::OpCopy(Copy4Args {
        ca_src_stateid: known(0),
        ca_dst_stateid: known(0),
        ca_src_offset: 0,
        ca_dst_offset: 30,
        ca_count: 5,
        ca_consecutive: true,
        ca_synchronous: true,
        ca_source_server: Vec::new().into(),
    });
    let save = encode(&NfsArgop4::OpSavefh);
    let stories = [
        (
            "a-file",
            vec![
                vec![
                    sequence(1),
                    encode(&ask::complete()),
                    root.clone(),
                    encode(&ask::open(How::New, "n")),
                    encode(&ask::write(&known(0), 0, b"data")),
                ],
                vec![
                    sequence(2),
                    dir.clone(),
                    encode(&ask::open(How::Find, "file")),
                    encode(&ask::lock(&known(0), (0, 9), false)),
                ],
                vec![
                    sequence(3),
                    put(FILE),
                    encode(&ask::read(&known(0), 0, 99)),
                    encode(&ask::unlock(&known(1), (0, 3))),
                ],
                vec![
                    sequence(3),
                    put(FILE),
                    encode(&ask::read(&known(0), 0, 99)),
                    encode(&ask::unlock(&known(1), (0, 3))),
                ],
                vec![sequence(4), put(FILE), close(known(0))],
            ],
        ),
        (
            "names",
            vec![
                vec![
                    sequence(1),
                    encode(&ask::complete()),
                    root.clone(),
                    encode(&ask::make_directory("d")),
                    encode(&ask::list((0, [0; 8]))),
                ],
                vec![
                    sequence(2),
                    dir.clone(),
                    save.clone(),
                    root.clone(),
                    encode(&ask::rename("file", "moved")),
                    encode(&ask::remove("moved")),
                ],
            ],
        ),
        (
            "a-copy",
            vec![
                vec![
                    sequence(1),
                    encode(&ask::complete()),
                    dir.clone(),
                    encode(&ask::open(How::Exclusive(7), "file2")),
                    encode(&ask::open(How::Find, "file")),
                ],
                vec![sequence(2), put(FILE), save, encode(&copy)],
            ],
        ),
    ];
    let with_entering = |(name, rest): (&str, Vec<Vec<Vec<u8>>>)| {
        let all: Vec<_> = entering(2).into_iter().chain(rest.into_iter().map(|ops| (2, ops))).collect();
        compounds(name, &all)
    };
    stories.into_iter().map(with_entering).collect()
}

/// Each operation there is, with drawn arguments, in a session and of minor version 0.
fn each_operation() -> Vec<Seed> {
    let mut dice = Dice::new(11);
    let mut seeds = Vec::new();
    for number in NfsOpnum4::ALL.iter().filter(|number| **number != NfsOpnum4::OpIllegal) {
        let mut drawn = encode(&NfsArgop4::random_arm(*number, &mut dice));
        while drawn.len() > 3000 {
            drawn = encode(&NfsArgop4::random_arm(*number, &mut dice));
        }
        let access = encode(&NfsArgop4::OpAccess(Access4Args { access: 0x3f }));
        let mut all = entering(2);
        all.push((2, vec![sequence(1), put(FILE), access, drawn.clone()]));
        if *number as u32 <= LAST_OF_0 {
            all.push((0, vec![put(DIR), drawn]));
        }
        seeds.push(compounds(format!("{number:?}"), &all));
    }
    seeds
}

/// Of each operation that takes attributes some.
fn attributes() -> Vec<Seed> {
    let time = Settime4::SetToClientTime4(Nfstime4 { seconds: 1_000_000_000, nseconds: 5 });
    let all = [
        ("size", vec![Fattr4Value::Fattr4Size(5)]),
        ("mode", vec![Fattr4Value::Fattr4Mode(0o4755)]),
        ("owner", vec![Fattr4Value::Fattr4Owner(b"1000".into()), Fattr4Value::Fattr4OwnerGroup(b"0".into())]),
        ("times", vec![Fattr4Value::Fattr4TimeAccessSet(time.clone()), Fattr4Value::Fattr4TimeModifySet(time)]),
    ];
    let mut seeds = Vec::new();
    for minor in 0..3_u8 {
        for (name, values) in &all {
            let attributes = encode(&Fattr4::of(values));
            for (kind, is_made) in [(0, true), (5, true)] {
                let bytes = [&[minor << 6 | kind], &attributes[..]].concat();
                let seed = Seed::new("attributes", format!("{name}-{kind}-of-{minor}"), bytes);
                seeds.push(if kind == 5 && *name == "size" || !is_made { seed.refused() } else { seed });
            }
        }
        for kind in [3, 4] {
            let map = bitmap(&[0, 1, 3, 4, 8, 19, 20, 33, 35, 36, 37, 45, 47, 52, 53, 55]);
            let bytes = [&[minor << 6 | kind], &encode(&map)[..]].concat();
            seeds.push(Seed::new("attributes", format!("told-{kind}-of-{minor}"), bytes));
        }
        let kind = Fattr4::of(&[Fattr4Value::Fattr4Type(tally_wire::nfs4::NfsFtype4::Nf4Reg)]);
        seeds.push(Seed::new(
            "attributes",
            format!("verify-of-{minor}"),
            [&[minor << 6 | 2], &encode(&kind)[..]].concat(),
        ));
    }
    seeds
}

/// Letters of the machine: a compound of one operation of a client, in its first slot.
fn one(who: u8, op: [u8; 3]) -> Vec<u8> {
    [&[who << 4, 0x10], &op[..]].concat()
}

/// OPEN of "file" to read and write, of what is there, by the first owner.
const OPENS: [u8; 3] = [0, 2 << 2, 5 << 1];
/// To read, and nobody else may write.
const DENIES: [u8; 3] = [0, 2 << 4, 0x10 | 5 << 1];

fn machine() -> Vec<Seed> {
    let lock = |who, choice| [one(who, [5, 1 << 2, 0]), vec![choice]].concat();
    let stories = [
        ("two-open", [one(0, OPENS), one(1, OPENS), one(0, [9, 1, 0]), one(1, [9, 0, 0])].concat()),
        ("one-denies", [one(0, DENIES), one(1, OPENS), vec![15], one(1, OPENS)].concat()),
        ("a-recall", [one(0, OPENS), one(1, OPENS), vec![11, 0, 0], one(0, [12, 0, 0]), one(1, OPENS)].concat()),
        ("two-lock", [one(0, OPENS), lock(0, 0), one(1, OPENS), lock(1, 0), one(0, [11, 1, 0]), lock(1, 0)].concat()),
        ("of-minor-0", [one(2, OPENS), one(2, [12, 0, 0]), lock(2, 0), one(2, [9, 1, 0])].concat()),
        (
            "a-restart",
            [one(0, OPENS), vec![14, 0], vec![8, 2], one(0, [4, 2 << 2, 0]), vec![8, 0], one(0, OPENS)].concat(),
        ),
        ("an-eviction", [one(0, DENIES), vec![14, 1], one(1, OPENS)].concat()),
        ("again", [one(0, OPENS), vec![12, 0], vec![13, 1, 0], vec![9, 0]].concat()),
        ("removed", [one(0, OPENS), one(0, [16, 0, 0]), one(0, [13, 0, 0]), one(0, [9, 0, 0])].concat()),
    ];
    stories.into_iter().map(|(name, bytes)| Seed::new("state", name, bytes)).collect()
}

/// Letters of the stage: an answer to the first call.
fn answer(status: Nfsstat4, told: NfsCbResop4) -> Vec<u8> {
    let place = [*b"#pla", *b"ce_0"].map(u32::from_be_bytes);
    let sequence = CbSequence4Resok {
        csr_sessionid: *b"#session_______0",
        csr_sequenceid: place[0],
        csr_slotid: place[1],
        csr_highest_slotid: 3,
        csr_target_highest_slotid: 3,
    };
    let resarray = vec![NfsCbResop4::OpCbSequence(CbSequence4Res::Nfs4Ok(sequence)), told].into();
    let results = encode(&CbCompound4Res { status, tag: b"".into(), resarray });
    let mut bytes = vec![0];
    put_blob(&mut bytes, &[&[0; 16], &results[..]].concat());
    bytes
}

fn answers() -> Vec<Seed> {
    let recalled = |status| answer(status, NfsCbResop4::OpCbRecall(CbRecall4Res { status }));
    let obj_attributes = Fattr4::of(&[Fattr4Value::Fattr4Change(9), Fattr4Value::Fattr4Size(77)]);
    let known = CbGetattr4Res::Nfs4Ok(CbGetattr4Resok { obj_attributes });
    let known = answer(Nfsstat4::Nfs4Ok, NfsCbResop4::OpCbGetattr(known));
    let (looks, opens, returns, unlocks) = (2, 3, 0x0d, 5);
    let stories = [
        ("a-recall", [vec![opens], recalled(Nfsstat4::Nfs4Ok), vec![returns, opens]].concat()),
        (
            "a-recall-of-nothing",
            [vec![opens], recalled(Nfsstat4::Nfs4ErrBadStateid), vec![6 | 31 << 3, opens]].concat(),
        ),
        ("a-look", [vec![looks], known.clone(), vec![looks]].concat()),
        ("a-lock", [vec![returns, 4, 4, unlocks], recalled(Nfsstat4::Nfs4Ok), vec![4]].concat()),
        ("twice", [vec![opens, looks], known.clone(), known].concat()),
        ("lost", [vec![opens, 7, 6 | 31 << 3, opens], recalled(Nfsstat4::Nfs4ErrDelay)].concat()),
    ];
    stories.into_iter().map(|(name, bytes)| Seed::new("callback", name, bytes)).collect()
}
