use std::sync::atomic::AtomicU64;

use tally_base::{Generation, ObjectId};

use super::*;
use crate::v4::state::clients::desk::Draws;

const FILE: FileId = FileId {
    of: Mounted { pool: PoolGuid(1), dataset: DatasetId(2), mount: MountNumber(1) },
    object: ObjectRef { id: ObjectId(3), generation: Generation(4) },
};

#[test]
fn row_a_each_that_could_name_nothing_says_something_or_is_bad() {
    let (zero, one) = ([0; 12], [0xff; 12]);
    let bad = Err(Status::BadStateid);
    for (seqid, other, in_0, in_sessions) in [
        (0, zero, Ok(Some(Special::Anonymous)), Ok(Some(Special::Anonymous))),
        (1, zero, bad, Ok(Some(Special::Current))),
        (2, zero, bad, bad),
        (u32::MAX, zero, bad, bad),
        (u32::MAX, one, Ok(Some(Special::ReadBypass)), Ok(Some(Special::ReadBypass))),
        (0, one, bad, bad),
        (1, one, bad, bad),
        (0, [1; 12], Ok(None), Ok(None)),
        (u32::MAX, [1; 12], Ok(None), Ok(None)),
    ] {
        let asked = Stateid { seqid, other };
        let told = [0, 1, 2].map(|minor| asked.special(minor));
        assert_eq!(told, [in_0, in_sessions, in_sessions], "{asked:?}");
    }
    assert_eq!(Stateid::INVALID.special(1), bad);
}

#[test]
fn on_the_wire_it_is_as_drawn() {
    let seal = Seal::new(BootId(0x0a0b_0c0d), &Draws(AtomicU64::new(1)));
    let stateid = seal.stateid(0x0102_0304, 0x0506_0708, 9);
    let bytes = [0, 0, 0, 9, 10, 11, 12, 13, 1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(stateid.to_wire(), bytes);
    assert_eq!(Stateid::from_wire(bytes), stateid);
}

#[test]
fn a_tag_is_of_its_start_its_place_and_its_turn() {
    let seal = Seal::new(BootId(7), &Draws(AtomicU64::new(1)));
    let other = Seal::new(BootId(7), &Draws(AtomicU64::new(2)));
    assert_eq!(seal.tag(1 << 32 | 16), seal.tag(1 << 32 | 16));
    assert_ne!(seal.tag(1 << 32 | 16), seal.tag(2 << 32 | 16));
    assert_ne!(seal.tag(1 << 32 | 16), seal.tag(1 << 32 | 32));
    assert_ne!(seal.tag(1 << 32 | 16), other.tag(1 << 32 | 16));
}

/// Row h: of a mount that is over. What is of another file says nothing of that.
#[test]
fn row_h_what_was_opened_before_its_dataset_was_mounted_anew_is_revoked() {
    let seal = Seal::new(BootId(7), &Draws(AtomicU64::new(1)));
    let place = |revoked| Place { tag: 5, client: ClientId(1), is_of_minor_0: false, file: &FILE, revoked, seqid: 2 };
    let look = |file: &FileId, revoked| {
        let asker = Asker { minor: 1, client: None, file: Some(file) };
        seal.look(seal.stateid(16, 5, 2), &asker, Some(place(revoked)))
    };
    let anew = FileId { of: Mounted { mount: MountNumber(2), ..FILE.of }, ..FILE };
    let other = FileId { object: ObjectRef { generation: Generation(5), ..FILE.object }, ..anew };
    assert_eq!(
        [&FILE, &anew, &other].map(|file| look(file, None)),
        [Ok(()), Err(Status::AdminRevoked), Err(Status::BadStateid)]
    );
    assert_eq!(look(&anew, Some(Revoked::Expired)), Err(Status::Expired), "as it was told before");
}

/// Rows h to l, for a place of each minor version.
#[test]
fn rows_h_to_l_what_was_revoked_goes_before_its_seqid() {
    let seal = Seal::new(BootId(7), &Draws(AtomicU64::new(1)));
    let place = |minor: u32, revoked, seqid| Place {
        tag: 5,
        client: ClientId(1),
        is_of_minor_0: minor == 0,
        file: &FILE,
        revoked,
        seqid,
    };
    let look = |minor, revoked, present, asked| {
        let asker = Asker { minor, client: None, file: None };
        seal.look(seal.stateid(16, 5, asked), &asker, Some(place(minor, revoked, present)))
    };
    for minor in [0, 1, 2] {
        for (why, status) in [
            (Revoked::Expired, Status::Expired),
            (Revoked::Admin, Status::AdminRevoked),
            (Revoked::Recalled, Status::DelegRevoked),
        ] {
            assert!([0, 1, 2, 3].iter().all(|asked| look(minor, Some(why), 2, *asked) == Err(status)), "h");
        }
        for (present, asked, told) in [
            (2, 1, Err(Status::OldStateid)),
            (2, 3, Err(Status::BadStateid)),
            (2, 2, Ok(())),
            // Behind the last comes 1 again.
            (1, u32::MAX, Err(Status::OldStateid)),
            (u32::MAX, 1, Err(Status::BadStateid)),
            (u32::MAX, u32::MAX - 1, Err(Status::OldStateid)),
        ] {
            assert_eq!(look(minor, None, present, asked), told, "{minor} {present} {asked}");
        }
    }
    assert_eq!([0, 1, 2].map(|minor| look(minor, None, 2, 0)), [Err(Status::OldStateid), Ok(()), Ok(())], "i");
    assert_eq!([next_seqid(1), next_seqid(u32::MAX)], [2, 1]);
}
